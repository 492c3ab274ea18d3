"""Counterfactual costs of policies of any family, simulated on the demand of all records.

Demand does not depend on the policy, so a candidate can be simulated on any sample of demand. The
product-limit evaluator uses all periods: where the shop was sold out, demand is drawn from the
product-limit estimate of all records, given that it was at least the stock.

It assumes that the stock of a period was chosen before its demand, and that demand is independent
from period to period with one distribution. Then any permutation of the sample is as likely as the
observed one: costs are averaged over several, in which the periods of each batch are permuted. That
removes the part of the variance of differences between candidates that is due to the order alone, a
quarter to two thirds.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from copy import copy
from itertools import pairwise
from typing import overload

import numpy as np
from scipy.special import stdtrit

from iopea.errors import ModelMismatchError
from iopea.problems.base import Problem
from iopea.seeds import seed_for
from iopea.state import array, parts
from iopea.systems.shop.product_limit import ProductLimit, shares_of
from iopea.systems.shop.tracker import Tracked
from iopea.types import Array, Estimates, Indices, Mask, State, Trajectory

#: Tolerance for rounding of levels, as a share of the highest one.
ROUNDING = 1e-6
#: Length of the first batches, which doubles so that there are never more than this many, nor
#: more than this times the root of the periods: an order is changed within batches alone.
FIRST_BATCH = 4
MOST_BATCHES = 512
MOST_PER_ROOT = 3
#: Permutations of the sample over which costs are averaged.
ORDERS = 8
#: Least and largest number of them where only means are wanted, and about how many policy-periods
#: are simulated for that.
_FEWEST_ORDERS, MOST_ORDERS, _SIMULATED = 4, 64, 2**29
#: Jackknife groups of batches, each left out once when demand is estimated.
LAW_GROUPS = 16
#: Most candidates for which that is done; others use the nearest one's result.
MOST_REPRESENTATIVES = 2048
#: Most batch sums in memory; with more policies, fewer batches are made.
MOST_COSTS = 2**23
#: Stands for demand beyond all stock, in units of the largest inventory position.
_BEYOND = 1e4
#: Share of a standard error that unknown demand may change an estimate by.
_NEGLIGIBLE = 0.25
#: Confidence with which mean demand exceeds a constant order that is played or judged.
SURE = 0.999
#: Least number of groups of batches from which that is found, and the share of periods that count
#: as nearly all.
_FEWEST_GROUPS, _MOSTLY = 4, 0.95
#: Factor by which orders may exceed the bound where nearly all stock is sold.
_MORE = 2.5
#: Shares of the periods that had less stock than those up to which mean demand is bounded.
_REACHED = (0.25, 0.5, 0.75, 0.9, 0.95, 1.0)


class Pooled(Tracked):
    """Keeps the records, and simulates all candidates on them when asked."""

    saved = parts(policies=array, records=array)

    def __init__(
        self, problem: Problem, policies: Array, threads: int = 1, precision: str = "float64"
    ) -> None:
        self._problem, self._system, self._family = problem, problem.system, problem.family
        self._bound = self._family.most_stock(self._system)
        self._policies = policies
        self._threads, self._precision = threads, precision
        self._tolerance = ROUNDING * self._bound
        self._real = self._family.tracker(problem)
        self._records = np.empty((2, 0))
        self._parts: list[Array] = []
        self._known: Estimates | None = None
        self._limit: tuple[int, float] | None = None  # of mean demand, and the periods behind it
        self._orders = ORDERS
        self._finer: tuple[tuple[int, bytes], Array] | None = None

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed periods; usable records are kept."""
        sales, stock = self._system.demand_seen(trajectory)
        if (sales > stock).any():
            step = int((sales > stock).argmax())
            raise ModelMismatchError(
                f"sales are {sales[step]} at step {step}, above the {stock[step]} in stock: give "
                "the stock after arrivals, before sales."
            )
        self._real.add(trajectory)
        if evaluate:
            taken = self._taken(trajectory)
            self._parts.append(np.array([stock, sales])[:, taken])
            self._known = None
        return len(trajectory) if evaluate else 0

    def _taken(self, trajectory: Trajectory) -> Mask | slice:
        """Which periods to keep."""
        return slice(None)

    def _data(self) -> tuple[Array, Array]:
        """Stock and sales of all periods that were kept."""
        if self._parts:
            self._records = np.concatenate([self._records, *self._parts], axis=1)
            self._parts = []
        return self._records[0], self._records[1]

    def estimates(self) -> Estimates:
        """Costs by batch of all candidates; computed once for the same records."""
        if self._known is None:
            self._known = self._estimate(*self._data())
        return self._known

    def means_of(self, policies: Array) -> Array:
        """Estimated costs of any policies from all records; NaN where there is no estimate."""
        records = self._data()
        asked = records[0].size, policies.tobytes()
        if self._finer is None or self._finer[0] != asked:
            other = copy(self)
            other._policies = policies
            # Of few policies the average over more orders is quickly found.
            work = max(records[0].size * len(policies), 1)
            other._orders = int(np.clip(_SIMULATED // work, _FEWEST_ORDERS, MOST_ORDERS))
            self._finer = asked, other._estimate(*records, with_error=False).mean
        return self._finer[1]

    @abstractmethod
    def _estimate(self, stock: Array, sales: Array, with_error: bool = True) -> Estimates:
        """Costs by batch of all candidates; without ``with_error``, only their means are right."""

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

    def _in_any_order(self, demand: Array, ends: Indices) -> Array:
        """Batch costs of the candidates, averaged over orders of the sample."""
        sums = np.zeros((ends.size, len(self._policies)))
        most = min(ORDERS, max(1, MOST_COSTS // max(sums.size, 1)))
        for first in range(0, self._orders, most):
            orders = other_orders(ends, range(first, min(first + most, self._orders)))
            sums += self._simulate(demand[orders], ends, self._policies).sum(axis=0)
        return sums / self._orders

    def forget(self) -> None:
        """Drop all records."""
        self._records, self._parts, self._known = np.empty((2, 0)), [], None
        self._limit = self._finer = None

    def keep(self, mask: Mask) -> None:
        """Keep only these policies."""
        self._policies = self._policies[mask]
        self._known = None

    def state_dict(self) -> State:
        """The real state, the candidates and the records."""
        self._data()
        return super().state_dict()

    def _loaded(self) -> None:
        self._parts, self._known, self._limit, self._finer = [], None, None, None


def batch_ends(periods: int, policies: int) -> Indices:
    """Ends of batches of equal length, 4, 8, 16, ... periods, at most 3 √periods of them.

    >>> batch_ends(10, 1).tolist()
    [4, 8, 10]
    """
    most = min(
        MOST_BATCHES,
        max(16, MOST_COSTS // max(policies, 1)),
        math.ceil(MOST_PER_ROOT * math.sqrt(periods)),
    )
    size = FIRST_BATCH
    while periods > size * most:
        size *= 2
    ends = np.arange(size, periods + size, size, dtype=np.intp)
    return np.minimum(ends, periods)


def other_orders(ends: Indices, numbers: range = range(1, ORDERS)) -> Indices:
    """Permutations (k, periods) within batches with these numbers, of which 0 changes nothing.

    They depend only on the batches and their numbers.
    """
    batch = np.repeat(np.arange(ends.size), np.diff(ends, prepend=0))
    bits = np.random.PCG64(seed_for("orders"))
    bits.advance(max(numbers.start - 1, 0) * batch.size)
    # Sorted by batch number plus a fraction, so that periods stay in their batch.
    drawn = np.random.Generator(bits).random((len(numbers) - (numbers.start == 0), batch.size))
    orders = np.argsort(batch + drawn, axis=1)
    return np.vstack([np.arange(batch.size), orders]) if numbers.start == 0 else orders


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


class ProductLimitReplay(Pooled):
    """Simulates all candidates on all periods, with censored demand imputed.

    Demand beyond all observations is unknown. Candidates whose cost depends on whether it is as low
    or as high as possible have no estimate, unless the difference is below a quarter of the
    standard error; then it is allowed for when they are compared.

    Imputed demand is not data: batches alone would not show the error of the distribution that it
    was drawn from. So the distribution is estimated again without each of 16 groups of batches, and
    the change for a candidate is added to the batch sums of the group (a jackknife).

    Whether demand exceeds a stock is observed in periods with at least that stock. Few periods are
    informative about a candidate that holds more than the real stock: those whose stock was at
    least the least that it ever has, where that is known, as in a shop whose orders arrive at once;
    otherwise twice those whose stock was at least its mean stock, since half of its own periods
    would be among them.

    A policy that orders a constant amount whatever the stock fills the shop up for ever, unless
    that amount is below mean demand. Policies whose constant order is not below a lower confidence
    limit of mean demand, by a jackknife, have no estimate and are not played.
    """

    sees_beyond = True
    assumes_law = True

    def _estimate(self, stock: Array, sales: Array, with_error: bool = True) -> Estimates:
        stable = self._stable(stock, sales)
        if stable.all():
            return self._of_all(stock, sales, with_error)
        other = copy(self)
        other._policies = self._policies[stable]
        some = other._of_all(stock, sales, with_error)
        return Estimates(
            sums=_spread(some.sums, stable),
            sizes=_spread(np.broadcast_to(some.sizes_by_policy, some.sums.shape), stable),
            effective_steps=_spread(some.effective_steps, stable),
            effect=_spread(some.effect, stable),
            unsure=_spread(some.unsure, stable),
        )

    def _of_all(self, stock: Array, sales: Array, with_error: bool) -> Estimates:
        ends = batch_ends(stock.size, len(self._policies))
        sizes = np.diff(ends, prepend=0).astype(np.float64)
        sold_out = sales >= stock
        if not sold_out.any():
            sums = self._in_any_order(sales, ends)
            held = self._mean_stock(sales) if with_error else None
            return Estimates(sums, sizes, effect=self._effect(held))
        law = ProductLimit(sales, sold_out)
        shares = shares_of(sales.size)
        demand = law.demand(shares)
        unseen = np.isinf(demand)
        low = np.where(unseen, sales.max(), demand)  # beyond all observations
        sums = self._in_any_order(low, ends)
        held, effective = None, None
        if with_error:
            self._add_law_error(sums, law, shares, ends)
            held = self._mean_stock(low)
            effective = self._effective_steps(stock, held)
        effect = self._effect(held)
        if not unseen.any():
            return Estimates(sums, sizes, effective_steps=effective, effect=effect)
        both = np.array([np.where(unseen, _BEYOND * self._bound, demand), low])
        high, least = (self._simulate(path[None], ends[-1:], self._policies)[0, 0] for path in both)
        change = np.abs(high - least)
        spread = np.sqrt(
            ((sums - sizes[:, None] * (sums.sum(axis=0) / stock.size)) ** 2).sum(axis=0)
        )
        told = change <= np.maximum(_NEGLIGIBLE * spread, self._tolerance)
        return Estimates(
            sums * told,
            sizes[:, None] * told,
            effective_steps=effective,
            effect=effect,
            unsure=np.where(change > self._tolerance, change / stock.size, 0.0),
        )

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

    def _effective_steps(self, stock: Array, held: Array | None) -> Array:
        """Effective sample size of each candidate."""
        needed, share = self._family.least_stock(self._system, self._policies), 1.0
        if needed is None:
            needed, share = np.zeros(len(self._policies)) if held is None else held, 0.5
        enough = stock.size - np.searchsorted(np.sort(stock), needed - self._tolerance)
        return np.asarray(np.minimum(enough / share, float(stock.size)))

    def _add_law_error(self, sums: Array, law: ProductLimit, shares: Array, ends: Indices) -> None:
        """Add the error of the demand distribution to the sums of each batch."""
        groups = min(LAW_GROUPS, ends.size)
        if groups < 2:
            return
        # Each group is a run of consecutive batches.
        edges = -(-np.arange(groups + 1) * ends.size // groups)
        periods = np.append(0, ends)[edges]
        some, nearest = self._representatives()
        demands = np.array(
            [
                law.demand(shares, without=slice(periods[group], periods[group + 1]))
                for group in range(groups)
            ]
        )
        demands = np.minimum(demands, _BEYOND * self._bound)
        costs = self._simulate(demands, ends[-1:], self._policies[some])[:, 0]
        change = (costs.mean(axis=0) - costs) * np.sqrt(1 - 1 / groups)
        # Spread over the batches of its group, a change keeps its square.
        batches = np.diff(edges)[:, None]
        change /= np.sqrt(batches)
        change -= (batches * change).sum(axis=0) / ends.size
        for group in range(groups):
            sums[edges[group] : edges[group + 1]] += change[group, nearest]

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
        if not self._data()[0].size or self._stable(*self._data()).all():
            return None
        return (
            "Policies that order in every period as much as demand may be on average, or more, "
            "might fill the shop up for ever: they are neither played nor judged, and count as "
            "policies that are left."
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
        stock, sales = self._data()
        recent = slice(-max(1, stock.size // 4), None)
        sold_out = float((sales >= stock)[recent].mean()) if stock.size else 0.0
        factor = _MORE if sold_out > _MOSTLY else 1.0
        wide = 1 + sum(self._system.sources.values())
        empty = np.zeros((len(self._policies), wide))
        sells = self._family.orders_of(self._system, self._policies, empty).sum(axis=1) > 0
        first = sells & (constant <= constant[sells].min(initial=np.inf))
        return np.asarray((constant < factor * self._surely(stock, sales)) | first)

    def _stable(self, stock: Array, sales: Array) -> Mask:
        """Policies whose constant order is surely below mean demand."""
        constant = self.constant_orders
        if constant is None:
            return np.ones(len(self._policies), dtype=np.bool_)
        return np.asarray((constant < self._surely(stock, sales)) | (constant <= 0))

    def _surely(self, stock: Array, sales: Array) -> float:
        """Lower confidence limit of mean demand.

        Demand up to some stock has a lower mean, of which more is known where more periods had
        that stock: the highest limit of several is taken.
        """
        ends = batch_ends(sales.size, 1)
        groups = min(LAW_GROUPS, ends.size)
        if groups < _FEWEST_GROUPS:
            return 0.0
        if self._limit is None or self._limit[0] != sales.size:
            self._limit = sales.size, self._lower_limit(stock, sales, ends, groups)
        return self._limit[1]

    def _lower_limit(self, stock: Array, sales: Array, ends: Indices, groups: int) -> float:
        law = ProductLimit(sales, sales >= stock)
        edges = np.append(0, ends)[-(-np.arange(groups + 1) * ends.size // groups)]
        most = np.unique(np.quantile(stock, _REACHED))
        left_out = np.array(
            [law.means(most, slice(first, last)) for first, last in pairwise(edges.tolist())]
        )
        error = left_out.std(axis=0) * math.sqrt(groups - 1)
        return float((law.means(most) - stdtrit(groups - 1, SURE) * error).max())
