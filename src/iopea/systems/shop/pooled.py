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
from itertools import pairwise

import numpy as np

from iopea.problems.base import Problem
from iopea.seeds import seed_for
from iopea.state import array, parts
from iopea.systems.shop.product_limit import ProductLimit, shares_of
from iopea.systems.shop.simulated import FEWEST_GROUPS, NEGLIGIBLE, REACHED, Simulated, lower_limit
from iopea.types import Array, Estimates, Indices, Mask, State, Trajectory

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
#: Most batch sums in memory; with more policies, fewer batches are made.
MOST_COSTS = 2**23


class Pooled(Simulated):
    """Keeps the records, and simulates all candidates on them when asked."""

    saved = parts(records=array)

    def __init__(
        self, problem: Problem, policies: Array, threads: int = 1, precision: str = "float64"
    ) -> None:
        super().__init__(problem, policies, threads, precision)
        self._records = np.empty((2, 0))
        self._parts: list[Array] = []
        self._known: Estimates | None = None
        self._limit: tuple[int, float] | None = None  # of mean demand, and the periods behind it
        self._orders = ORDERS
        self._finer: tuple[tuple[int, bytes], Array] | None = None

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed periods; usable records are kept."""
        sales, stock = self._seen(trajectory)
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
            other = self._with(policies)
            # Of few policies the average over more orders is quickly found.
            work = max(records[0].size * len(policies), 1)
            other._orders = int(np.clip(_SIMULATED // work, _FEWEST_ORDERS, MOST_ORDERS))
            self._finer = asked, other._estimate(*records, with_error=False).mean
        return self._finer[1]

    @abstractmethod
    def _estimate(self, stock: Array, sales: Array, with_error: bool = True) -> Estimates:
        """Costs by batch of all candidates; without ``with_error``, only their means are right."""

    def _in_any_order(self, demand: Array, ends: Indices) -> Array:
        """Batch costs of the candidates, averaged over orders of the sample."""
        sums = np.zeros((ends.size, len(self._policies)))
        most = min(ORDERS, max(1, MOST_COSTS // max(sums.size, 1)))
        for first in range(0, self._orders, most):
            orders = other_orders(ends, range(first, min(first + most, self._orders)))
            sums += self._simulate(demand[orders], ends, self._policies).sum(axis=0)
        return sums / self._orders

    @property
    def _periods(self) -> int:
        return self._data()[0].size

    @property
    def _latest(self) -> tuple[Array, Array]:
        return self._data()

    def _with_stock(self, sizes: Array) -> Indices:
        stock = np.sort(self._data()[0])
        return np.asarray(stock.size - np.searchsorted(stock, sizes))

    def _surely(self) -> float:
        stock, sales = self._data()
        ends = batch_ends(sales.size, 1)
        groups = min(LAW_GROUPS, ends.size)
        if groups < FEWEST_GROUPS:
            return 0.0
        if self._limit is None or self._limit[0] != sales.size:
            self._limit = sales.size, self._lower_limit(stock, sales, ends, groups)
        return self._limit[1]

    def _lower_limit(self, stock: Array, sales: Array, ends: Indices, groups: int) -> float:
        law = ProductLimit(sales, sales >= stock)
        edges = np.append(0, ends)[-(-np.arange(groups + 1) * ends.size // groups)]
        most = np.unique(np.quantile(stock, REACHED))
        left_out = np.array(
            [law.means(most, slice(first, last)) for first, last in pairwise(edges.tolist())]
        )
        return lower_limit(law.means(most), left_out)

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
    """

    sees_beyond = True
    assumes_law = True

    def _estimate(self, stock: Array, sales: Array, with_error: bool = True) -> Estimates:
        return self._of_stable(lambda some: some._of_all(stock, sales, with_error))

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
            effective = self._effective_steps(held)
        effect = self._effect(held)
        if not unseen.any():
            return Estimates(sums, sizes, effective_steps=effective, effect=effect)
        both = np.array([np.where(unseen, self._endless, demand), low])
        high, least = (self._simulate(path[None], ends[-1:], self._policies)[0, 0] for path in both)
        change = np.abs(high - least)
        error = np.sqrt(
            ((sums - sizes[:, None] * (sums.sum(axis=0) / stock.size)) ** 2).sum(axis=0)
        )
        told = change <= np.maximum(NEGLIGIBLE * error, self._tolerance)
        return Estimates(
            sums * told,
            sizes[:, None] * told,
            effective_steps=effective,
            effect=effect,
            unsure=np.where(change > self._tolerance, change / stock.size, 0.0),
        )

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
        demands = np.minimum(demands, self._endless)
        costs = self._simulate(demands, ends[-1:], self._policies[some])[:, 0]
        change = (costs.mean(axis=0) - costs) * np.sqrt(1 - 1 / groups)
        # Spread over the batches of its group, a change keeps its square.
        batches = np.diff(edges)[:, None]
        change /= np.sqrt(batches)
        change -= (batches * change).sum(axis=0) / ends.size
        for group in range(groups):
            sums[edges[group] : edges[group + 1]] += change[group, nearest]
