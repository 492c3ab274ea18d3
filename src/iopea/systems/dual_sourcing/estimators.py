"""Counterfactual costs of dual-index policies from the records of another one.

Demand does not depend on the policy, so a candidate can be simulated on any sample of demand that
is uncensored up to the candidate's largest stock, which is its z_r. The estimators differ in where
that sample comes from:

``hitting``
    Periods whose stock after arrivals was exactly the played z_r (label ``def_dip_ERM``).
``level``
    All periods whose stock was at least the z_r of every candidate.
``product-limit``
    All periods; where the shop was sold out, demand is drawn from the product-limit estimate of all
    records, given that it was at least the stock.

They simulate every candidate again on the pooled sample. Demand is independent from period to
period, so any permutation of the sample is as likely as the observed one: costs are averaged over
several, in which the periods of each batch are permuted. That removes the part of the variance of
differences between candidates that is due to the order alone, a quarter to two thirds. The exact
replay on every sample path needs none of this: :mod:`iopea.systems.dual_sourcing.replay`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from copy import copy

import numpy as np

from iopea.problems.base import Evaluator, Problem
from iopea.seeds import seed_for
from iopea.state import Part, array, parts
from iopea.systems.dual_sourcing import kernel as kernels
from iopea.systems.dual_sourcing.records import DualRecords
from iopea.systems.shop.product_limit import ProductLimit, shares_of
from iopea.types import Array, Estimates, Indices, Mask, State, Trajectory

UnitCosts = tuple[float, float, float, float]

#: Tolerance for rounding of levels, as a share of the highest one.
ROUNDING = 1e-6
#: Length of the first batches, which doubles so that there are never more than this many, nor
#: more than this times the root of the periods: an order is changed within batches alone.
FIRST_BATCH = 4
MOST_BATCHES = 512
MOST_PER_ROOT = 3
#: Length of the warm-up, in lead times.
WARM_UP = 4
#: Permutations of the sample over which costs are averaged.
ORDERS = 8
#: Jackknife groups of batches, each left out once when demand is estimated.
LAW_GROUPS = 16
#: Most candidates for which that is done; others use the nearest one's result.
MOST_REPRESENTATIVES = 2048
#: With fewer usable periods there is no estimate.
FEWEST_PERIODS = 16
#: Unit costs with which the cost of a period is the stock after arrivals.
_STOCK = (1.0, -1.0, 0.0, 0.0)
#: Most batch sums in memory; with more policies, fewer batches are made.
MOST_COSTS = 2**23


class DualEvaluator(Evaluator):
    """Tracks the real system; a subclass uses its records."""

    saved = parts(real=Part, policies=array)

    def __init__(self, problem: Problem, policies: Array, threads: int, precision: str) -> None:
        self._problem, self._system, family = problem, problem.system, problem.family
        self._bound: float = family.bound
        self._policies = policies
        self._threads = threads
        self._precision = precision
        self._tolerance = ROUNDING * family.bound
        steps = (family.expedited_levels.step, family.regular_levels.step)
        step = None if None in steps else min(each for each in steps if each is not None)
        self._real = DualRecords(self._system.lead_times, family.bound, step)

    def _follow(self, trajectory: Trajectory, first: int, last: int) -> None:
        self._real.add(trajectory.part(first, last))

    @property
    def at_start(self) -> bool:
        """Whether the real system is empty, with nothing on order."""
        return self._position == 0

    @property
    def _position(self) -> float:
        return float(self._real.on_hand + sum(each.sum() for each in self._real.pipelines))

    @property
    def departures(self) -> int:
        """Periods inconsistent with the orders of the policy that was played."""
        return self._real.inconsistent

    @property
    def contradiction(self) -> str | None:
        """Message if the records don't fit the model, with the likely reason."""
        return self._real.contradiction

    def _simulate(
        self, demand: Array, ends: Indices, policies: Array, costs: UnitCosts | None = None
    ) -> Array:
        """Batch costs of policies, after a warm-up on the end of the sample."""
        return np.asarray(self._simulate_all(demand[None], ends, policies, costs)[0])

    def _simulate_all(
        self, demands: Array, ends: Indices, policies: Array, costs: UnitCosts | None = None
    ) -> Array:
        """Batch costs on several consecutive samples (k, periods): (k, batches, n)."""
        system = self._system
        count, periods = demands.shape
        if not periods:
            return np.zeros((count, 0, len(policies)))
        before = np.resize(demands[-1, ::-1], WARM_UP * (system.regular_lead_time + 1))[::-1]
        starts = before.size + periods * np.arange(count)
        state = kernels.start_state(policies, system.lead_times, self._precision)
        batches = kernels.replay(
            np.concatenate([before, demands.ravel()]),
            np.append(before.size, (starts[:, None] + ends).ravel()),
            policies, state, 0, system.lead_times, costs or system.unit_costs, self._threads,
        )  # fmt: skip
        return batches[1:].reshape(count, ends.size, -1).astype(np.float64, copy=False)


class _Pooled(DualEvaluator):
    """Keeps the records, and simulates all candidates on them when asked."""

    saved = parts(records=array)

    def __init__(self, problem: Problem, policies: Array, threads: int, precision: str) -> None:
        super().__init__(problem, policies, threads, precision)
        self._records = np.empty((2, 0))
        self._parts: list[Array] = []
        self._known: Estimates | None = None

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed periods; usable records are kept."""
        self._follow(trajectory, 0, len(trajectory))
        if evaluate:
            taken = self._taken(trajectory)
            self._parts.append(np.array([trajectory["stock"], trajectory["sales"]])[:, taken])
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

    def _in_any_order(self, demand: Array, ends: Indices) -> Array:
        """Batch costs of the candidates, averaged over orders of the sample."""
        sums = np.zeros((ends.size, len(self._policies)))
        most = max(1, MOST_COSTS // max(sums.size, 1))
        samples = np.concatenate([demand[None], demand[other_orders(ends)]])
        for first in range(0, ORDERS, most):
            part = samples[first : first + most]
            sums += self._simulate_all(part, ends, self._policies).sum(axis=0)
        return sums / ORDERS

    def means_of(self, policies: Array) -> Array:
        """Estimated costs of any policies from all records; NaN where there is no estimate."""
        records = self._data()
        other = copy(self)
        other._policies = policies
        return other._estimate(*records, with_error=False).mean

    @abstractmethod
    def _estimate(self, stock: Array, sales: Array, with_error: bool = True) -> Estimates:
        """Costs by batch of all candidates; without ``with_error``, only their means are right."""

    def forget(self) -> None:
        """Drop all records."""
        self._records, self._parts, self._known = np.empty((2, 0)), [], None

    def keep(self, mask: Mask) -> None:
        """Keep only these policies."""
        self._policies = self._policies[mask]
        self._known = None

    def state_dict(self) -> State:
        """The real state, the candidates and the records."""
        self._data()
        return super().state_dict()

    def _loaded(self) -> None:
        self._parts, self._known = [], None


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


def other_orders(ends: Indices) -> Indices:
    """Permutations (k, periods) within batches, which depend only on the batches."""
    batch = np.repeat(np.arange(ends.size), np.diff(ends, prepend=0))
    rng = np.random.Generator(np.random.PCG64(seed_for("orders")))
    # Sorted by batch number plus a fraction, so that periods stay in their batch.
    return np.argsort(batch + rng.random((ORDERS - 1, batch.size)), axis=1)


class LevelEstimator(_Pooled):
    """Simulates candidates on the periods whose stock was at least the highest of their z_r.

    Each could use all periods with its own z_r, which are more; but differences between candidates
    simulated on different periods vary far more than on common periods.
    """

    saved = parts(reach=float)

    def __init__(self, problem: Problem, policies: Array, threads: int, precision: str) -> None:
        super().__init__(problem, policies, threads, precision)
        self._reach = 0.0

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed periods, and the largest possible stock."""
        if evaluate and len(trajectory):
            self._reach = max(self._reach, *trajectory.policy)
        return super().observe(trajectory, evaluate)

    def _estimate(self, stock: Array, sales: Array, with_error: bool = True) -> Estimates:
        tops = self._policies.max(axis=1)
        told = tops <= self._reach + self._tolerance
        highest = tops[told].max(initial=0.0)
        demand = sales[stock >= highest - self._tolerance]
        if demand.size < FEWEST_PERIODS:
            demand = demand[:0]
        ends = batch_ends(demand.size, tops.size)
        sizes = np.diff(ends, prepend=0).astype(np.float64)
        sums = self._in_any_order(demand, ends)
        if told.all():
            return Estimates(sums, sizes)
        return Estimates(sums * told, sizes[:, None] * told)

    def forget(self) -> None:
        """Drop all records."""
        super().forget()
        self._reach = 0.0


class HittingEstimator(LevelEstimator):
    """As :class:`LevelEstimator`, on periods whose stock was exactly the played z_r."""

    def _taken(self, trajectory: Trajectory) -> Mask:
        hit: Mask = np.abs(trajectory["stock"] - max(trajectory.policy)) <= self._tolerance
        return hit


class ProductLimitEstimator(_Pooled):
    """Simulates all candidates on all periods, with censored demand imputed.

    Demand beyond all observations is unknown. Candidates whose cost depends on whether it is as low
    or as high as possible have no estimate.

    Imputed demand is not data: batches alone would not show the error of the distribution that it
    was drawn from. So the distribution is estimated again without each of 16 groups of batches, and
    the change for a candidate is added to the batch sums of the group (a jackknife).

    Whether demand exceeds a stock is observed in periods with at least that stock. Few periods are
    informative about a candidate that holds more than the real stock: with L_e = 0, those whose
    stock was at least z_e, since it never has less; otherwise twice those whose stock was at least
    its mean stock, since half of its own periods would be among them.
    """

    sees_beyond = True

    def _estimate(self, stock: Array, sales: Array, with_error: bool = True) -> Estimates:
        ends = batch_ends(stock.size, len(self._policies))
        sizes = np.diff(ends, prepend=0).astype(np.float64)
        sold_out = sales >= stock
        if not sold_out.any():
            return Estimates(self._in_any_order(sales, ends), sizes)
        law = ProductLimit(sales, sold_out)
        shares = shares_of(sales.size)
        demand = law.demand(shares)
        unseen = np.isinf(demand)
        low = np.where(unseen, sales.max(), demand)  # beyond all observations
        sums = self._in_any_order(low, ends)
        if with_error:
            self._add_law_error(sums, law, shares, ends)
        effective = self._effective_steps(stock, low) if with_error else None
        if not unseen.any():
            return Estimates(sums, sizes, effective_steps=effective)
        high = np.where(unseen, 2 * self._bound, demand)
        whole = ends[-1:]
        change = self._simulate(high, whole, self._policies) - self._simulate(
            low, whole, self._policies
        )
        told = np.abs(change[0]) <= self._tolerance
        return Estimates(sums * told, sizes[:, None] * told, effective_steps=effective)

    def _effective_steps(self, stock: Array, demand: Array) -> Array:
        """Effective sample size of each candidate."""
        needed, share = self._policies[:, 0], 1.0
        if self._system.expedited_lead_time:
            held = self._simulate(demand, np.array([demand.size]), self._policies, _STOCK)
            needed, share = held[0] / demand.size, 0.5
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
        demands = np.minimum(demands, 2 * self._bound)
        costs = self._simulate_all(demands, ends[-1:], self._policies[some])[:, 0]
        change = (costs.mean(axis=0) - costs) * np.sqrt(1 - 1 / groups)
        # Spread over the batches of its group, a change keeps its square.
        batches = np.diff(edges)[:, None]
        change /= np.sqrt(batches)
        change -= (batches * change).sum(axis=0) / ends.size
        for group in range(groups):
            sums[edges[group] : edges[group + 1]] += change[group, nearest]

    def _representatives(self) -> tuple[Indices, Indices]:
        """Candidates for which that error is computed, and which of them represents each one."""
        count = len(self._policies)
        if count <= MOST_REPRESENTATIVES:
            return np.arange(count), np.arange(count)
        per_axis = int(np.sqrt(MOST_REPRESENTATIVES))
        low, high = self._policies.min(axis=0), self._policies.max(axis=0)
        cells = (self._policies - low) / np.maximum(high - low, 1e-300) * (per_axis - 1)
        cell = np.rint(cells) @ np.array([per_axis, 1.0])
        _, some, nearest = np.unique(cell, return_index=True, return_inverse=True)
        return some, nearest
