"""Learned (s, S) pairs compared with the best pair, whose cost is computed exactly.

For three shops with a cost per order: the pair of least cost among all whole s <= S, the least cost
of any policy, and what IOPEA recommends after T = 100,000 steps, on several demand paths. Run with
``python benchmarks/reorder.py [runs]``; about a minute.

Costs are those of the stationary distribution of a finite Markov chain, without simulation. Its
state is the inventory position before the order. That is enough for both lead times: the order is
decided by it, and the stock that meets demand is the position with the order for L = 0, and
without it for L = 1, since all that was under way has just arrived. Under a pair with S > 0, the
position S is reached from every position up to S, so the stationary distribution is unique.
"""

import sys
import time
from typing import Any

import numpy as np
from scipy.stats import nbinom, poisson

import iopea
from iopea.demand import Demand, NegativeBinomial, Poisson
from iopea.types import Array

HORIZON, SEED = 100_000, 7000
#: Largest accepted gap to the best pair, in percent of its cost.
TARGET = 0.1
#: Relative value iteration stops when the least cost is known to within this.
PRECISION = 1e-7


class Chain:
    """Exact average costs of a shop with whole units, lead time 0 or 1, and positions 0..high."""

    def __init__(self, system: iopea.LostSalesSystem, demand: Demand, high: int) -> None:
        self.at_once = system.lead_time == 0
        self.fixed = system.fixed_order_cost
        self.high = high
        law = _law(demand)
        stock = np.arange(high + 1)
        # Row y, column x: the probability that x units are left of y. Demand of y or more leaves
        # nothing, so that no tail has to be cut off.
        left = law.pmf(stock[:, None] - stock)
        left[:, 0] = law.sf(stock - 1)
        self.left = left
        kept = left @ stock
        lost = demand.mean_demand() - stock + kept
        self.costs = system.holding_cost * kept + system.lost_sales_cost * lost

    def pairs(self) -> Array:
        """Costs of all pairs, an array (s, S); infinite where s > S."""
        costs = np.full((self.high + 1, self.high + 1), np.inf)
        for up_to in range(self.high + 1):
            costs[: up_to + 1, up_to] = self._up_to(up_to)
        return costs

    def _up_to(self, up_to: int) -> Array:
        """Costs of the pairs (0, S), (1, S), ..., (S, S)."""
        size = up_to + 1
        position = np.arange(size)
        orders = np.where(position <= position[:, None], up_to - position, 0)  # rows are the s
        stock = position + orders if self.at_once else np.broadcast_to(position, orders.shape)
        move = self.left[stock, :size]  # (s, from, to), before an order that is still under way
        if not self.at_once:
            before = position - orders[:, :, None]
            move = np.where(before >= 0, np.take_along_axis(move, before % size, axis=2), 0.0)
        # The distribution that does not change; the last equation is that it adds up to 1.
        equations = move.transpose(0, 2, 1) - np.eye(size)
        equations[:, -1] = 1.0
        right = np.zeros((size, size, 1))
        right[:, -1] = 1.0
        shares = np.linalg.solve(equations, right)[:, :, 0]
        costs: Array = (shares * (self.costs[stock] + self.fixed * (orders > 0))).sum(axis=1)
        return costs

    def optimum(self) -> float:
        """The least cost of any policy that keeps the position at or below the highest."""
        position = np.arange(self.high + 1)
        after = position[:, None] + position  # (position, order)
        possible = after <= self.high
        after = np.minimum(after, self.high)
        value = np.zeros(self.high + 1)
        while True:
            if self.at_once:
                ahead = (self.costs + self.left @ value)[after]
            else:
                ahead = self.costs[:, None] + self.left @ value[after]
            ahead = np.where(possible, ahead + self.fixed * (position > 0), np.inf)
            gain = ahead.min(axis=1) - value
            if np.ptp(gain) < PRECISION:
                return float(gain.min() + gain.max()) / 2
            # Half a step, so that no cycle of positions keeps it from converging.
            value += gain / 2
            value -= value[0]


def _law(demand: Demand) -> Any:
    if isinstance(demand, Poisson):
        return poisson(demand.mean)
    assert isinstance(demand, NegativeBinomial)
    return nbinom(demand.size, demand.size / (demand.size + demand.mean))


def shop(lead_time: int, lost: float, fixed: float, high: int) -> iopea.LostSales:
    levels: Any = {"low": 0, "high": high, "step": 1}
    system = iopea.LostSalesSystem(
        lead_time=lead_time, holding_cost=1, lost_sales_cost=lost, fixed_order_cost=fixed
    )
    family = iopea.ReorderUpTo(reorder_levels=levels, order_up_to_levels=levels)
    return iopea.LostSales(system, family)


SHOPS = {
    "(a) L = 0, Poisson(5), p = 9, K = 20": (shop(0, 9, 20, high=50), Poisson(mean=5)),
    "(b) L = 1, Poisson(4), p = 10, K = 15": (shop(1, 10, 15, high=50), Poisson(mean=4)),
    # Variance 9.
    "(c) L = 1, negative binomial(3), p = 19, K = 30": (
        shop(1, 19, 30, high=60),
        NegativeBinomial(mean=3, size=1.5),
    ),
}


def compare(problem: iopea.LostSales, demand: Demand, runs: int) -> None:
    """Print the exact costs, and what was learned on each demand path."""
    high = int(problem.family.order_up_to_levels.high)
    chain = Chain(problem.system, demand, high)
    costs = chain.pairs()
    level, up_to = divmod(int(costs.argmin()), high + 1)
    best, least = costs[level, up_to], chain.optimum()
    print(
        f"  best pair ({level}, {up_to}) of 0..{high} costs {best:.6f}; the best of all policies "
        f"{least:.6f}, {100 * (1 - least / best):.3f} % less"
    )
    print(f"  {'seed':>4} {'learned':>9} {'gap %':>7} {'survivors':>9} {'best alive':>10} {'s':>5}")
    gaps = []
    for seed in range(SEED, SEED + runs):
        start = time.perf_counter()
        learner = iopea.IOPEA(problem, horizon=HORIZON)
        iopea.run(learner, problem.simulator(demand, seed), HORIZON)
        found = tuple(map(int, learner.recommend()))
        alive = "yes" if learner.survives((level, up_to)) else "NO"
        gaps.append(100 * (costs[found] / best - 1))
        spent = time.perf_counter() - start
        print(
            f"  {seed:>4} {found!s:>9} {gaps[-1]:>7.4f} {learner.survivors:>9} {alive:>10} "
            f"{spent:>5.1f}",
            flush=True,
        )
    within = int(np.sum(np.array(gaps) <= TARGET))
    print(
        f"  gap: mean {np.mean(gaps):.4f} %, largest {max(gaps):.4f} %; "
        f"{within} of {runs} runs within {TARGET} %"
    )


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for name, (problem, demand) in SHOPS.items():
        print(f"{name}, h = 1, T = {HORIZON:,}")
        compare(problem, demand, runs)


if __name__ == "__main__":
    main()
