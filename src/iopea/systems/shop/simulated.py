"""What evaluators share that simulate candidates on a sample of demand.

Demand does not depend on the policy, so a candidate of any family can be simulated on any sample.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any, Self, overload

import numpy as np
from scipy.special import stdtrit

from iopea.errors import ModelMismatchError
from iopea.problems.base import Problem
from iopea.state import array, parts
from iopea.systems.shop.tracker import Tracked
from iopea.types import Array, Estimates, Indices, Mask, Trajectory

#: Tolerance for rounding of levels, as a share of the highest one.
ROUNDING = 1e-6
#: Most candidates whose error is computed; others use the nearest one's result.
MOST_REPRESENTATIVES = 2048
#: Share of periods that count as nearly all, and the factor by which constant orders may exceed the
#: bound where nearly all stock is sold.
_MOSTLY, _MORE = 0.95, 2.5
#: Confidence with which mean demand exceeds a constant order that is played or judged.
SURE = 0.999
#: Least number of jackknife groups from which such a limit is found.
FEWEST_GROUPS = 4
#: Stands for demand beyond all stock, in units of the largest inventory position.
_BEYOND = 1e4
#: Share of a standard error that unknown demand may change an estimate by.
NEGLIGIBLE = 0.25
#: Shares of the periods that had less stock than those up to which mean demand is bounded.
REACHED = (0.25, 0.5, 0.75, 0.9, 0.95, 1.0)


class Simulated(Tracked):
    """Simulates all candidates on demand that was observed, or estimated from observations.

    A policy that orders a constant amount whatever the stock fills the shop up for ever, unless
    that amount is below mean demand. Policies whose constant order is not below a lower confidence
    limit of mean demand, by a jackknife, have no estimate and are not played.
    """

    saved = parts(policies=array)

    def __init__(
        self, problem: Problem, policies: Array, threads: int = 1, precision: str = "float64"
    ) -> None:
        self._problem, self._system, self._family = problem, problem.system, problem.family
        self._bound = self._family.most_stock(self._system)
        self._policies = policies
        self._threads, self._precision = threads, precision
        self._tolerance = ROUNDING * self._bound
        self._real: Any = self._family.tracker(problem)

    def _seen(self, trajectory: Trajectory) -> tuple[Array, Array]:
        """Sales and stock of a trajectory."""
        sales, stock = self._system.demand_seen(trajectory)
        if (sales > stock).any():
            step = int((sales > stock).argmax())
            raise ModelMismatchError(
                f"sales are {sales[step]} at step {step}, above the {stock[step]} in stock: give "
                "the stock after arrivals, before sales."
            )
        return sales, stock

    def _simulate(
        self, demands: Array, ends: Indices, policies: Array, stock: bool = False
    ) -> Array:
        """Batch costs on several consecutive samples (k, periods): (k, batches, n).

        With ``stock``, the sums of stock after arrivals instead.
        """
        if not demands.size:
            return np.zeros((len(demands), 0, len(policies)))
        costs: Array = self._family.sample_costs(
            self._system, demands, ends, policies, stock, self._threads, self._precision
        )
        return costs

    @property
    def _endless(self) -> float:
        """Stands for demand beyond all stock."""
        return float(_BEYOND * self._bound)

    def _mean_stock(self, demand: Array) -> Array | None:
        """Mean stock of each candidate, where it is of use."""
        constants = self._family.constants(self._system)
        no_bound = constants.sensitivity is None and math.isinf(constants.lipschitz)
        least = self._family.least_stock(self._system, self._policies)
        if not demand.size or (least is not None and not no_bound):
            return None
        end = np.array([demand.size], dtype=np.intp)
        held = self._simulate(demand[None], end, self._policies, stock=True)[0, 0]
        return np.asarray(held / demand.size)

    def _effect(self, held: Array | None) -> Array | None:
        """The most that an unobserved event changes the cost of a candidate by.

        It is the worth of its mean stock, where no bound by parameters is known.
        """
        constants, system = self._family.constants(self._system), self._system
        if held is None or constants.sensitivity is not None or math.isfinite(constants.lipschitz):
            return None
        terms = system.terms
        most = max(terms.holding, terms.lost) + sum(terms.on_orders)
        return np.asarray(most * held + system.own_bound)

    def _representatives(self) -> tuple[Indices, Indices]:
        """Candidates for which that error is computed, and which of them represents each one."""
        count, dimension = self._policies.shape
        if count <= MOST_REPRESENTATIVES:
            return np.arange(count), np.arange(count)
        per_axis = int(MOST_REPRESENTATIVES ** (1 / dimension))
        low, high = self._policies.min(axis=0), self._policies.max(axis=0)
        cells = (self._policies - low) / np.maximum(high - low, 1e-300) * (per_axis - 1)
        cell = np.rint(cells) @ float(per_axis) ** np.arange(dimension - 1, -1, -1)
        _, some, nearest = np.unique(cell, return_index=True, return_inverse=True)
        return some, nearest

    @property
    def note(self) -> str | None:
        """Which policies are neither played nor judged, where some aren't."""
        if not self._periods or self._stable().all():
            return None
        return (
            "Policies that order in every period as much as demand may be on average, or more, "
            "might fill the shop up for ever: they are neither played nor judged, and count as "
            "survivors."
        )

    @property
    def constant_orders(self) -> Array | None:
        """What each policy orders in every period whatever the stock; None where none does."""
        constant: Array | None = self._family.constant_orders(self._system, self._policies)
        return constant

    @property
    def may_play(self) -> Mask | None:
        """Policies that don't fill the shop up for ever.

        As long as nearly all stock is sold, nothing fills up, and mean demand can't be seen: then
        orders up to 2.5 times the present bound may be played. At first, the least orders are.
        """
        constant = self.constant_orders
        if constant is None:
            return None
        factor = _MORE if self._sold_out_lately() > _MOSTLY else 1.0
        wide = 1 + sum(self._system.sources.values())
        empty = np.zeros((len(self._policies), wide))
        sells = self._family.orders_of(self._system, self._policies, empty).sum(axis=1) > 0
        first = sells & (constant <= constant[sells].min(initial=np.inf))
        return np.asarray((constant < factor * self._surely()) | first)

    def _stable(self) -> Mask:
        """Policies whose constant order is surely below mean demand."""
        constant = self.constant_orders
        if constant is None:
            return np.ones(len(self._policies), dtype=np.bool_)
        return np.asarray((constant < self._surely()) | (constant <= 0))

    def _with(self, policies: Array) -> Self:
        """The same evaluator for other candidates."""
        other = copy(self)
        other._policies = policies
        return other

    def _of_stable(self, estimate: Callable[[Self], Estimates]) -> Estimates:
        """Estimates of policies that don't fill the shop up for ever; others have none."""
        stable = self._stable()
        if stable.all():
            return estimate(self)
        some = estimate(self._with(self._policies[stable]))
        return Estimates(
            sums=_spread(some.sums, stable),
            sizes=_spread(np.broadcast_to(some.sizes_by_policy, some.sums.shape), stable),
            effective_steps=_spread(some.effective_steps, stable),
            effect=_spread(some.effect, stable),
            unsure=_spread(some.unsure, stable),
        )

    def _effective_steps(self, held: Array | None) -> Array:
        """Effective sample size of each candidate, whose mean stock is ``held``."""
        needed, share = self._family.least_stock(self._system, self._policies), 1.0
        if needed is None:
            needed, share = np.zeros(len(self._policies)) if held is None else held, 0.5
        enough = self._with_stock(np.maximum(needed - self._tolerance, 0.0))
        return np.asarray(np.minimum(enough / share, float(self._periods)))

    def _sold_out_lately(self) -> float:
        """Share of the last periods that were sold out."""
        stock, sales = self._latest
        recent = slice(-max(1, stock.size // 4), None)
        return float((sales >= stock)[recent].mean()) if stock.size else 0.0

    @property
    @abstractmethod
    def _latest(self) -> tuple[Array, Array]:
        """Stock and sales of the last periods that are kept."""

    @abstractmethod
    def _with_stock(self, sizes: Array) -> Indices:
        """Number of periods whose stock was at least each of these sizes."""

    @property
    @abstractmethod
    def _periods(self) -> int:
        """Number of periods from which demand is estimated."""

    @abstractmethod
    def _surely(self) -> float:
        """Lower confidence limit of mean demand.

        Demand up to some stock has a lower mean, of which more is known where more periods had
        that stock: the highest limit of several is taken.
        """


def lower_limit(whole: Array, left_out: Array) -> float:
    """The highest lower confidence limit of several means, by a jackknife.

    Parameters
    ----------
    whole : array (n,). The means.
    left_out : array (groups, n). The same without each group of periods.
    """
    groups = len(left_out)
    error = left_out.std(axis=0) * math.sqrt(groups - 1)
    return float((whole - stdtrit(groups - 1, SURE) * error).max())


@overload
def _spread(values: Array, among: Mask) -> Array: ...
@overload
def _spread(values: None, among: Mask) -> None: ...
def _spread(values: Array | None, among: Mask) -> Array | None:
    """Values of some policies, an array (..., k), as those of all, with 0 for the others."""
    if values is None:
        return None
    every = np.zeros((*values.shape[:-1], among.size))
    every[..., among] = values
    return every
