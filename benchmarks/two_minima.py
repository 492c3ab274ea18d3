"""Two minima under censoring: rare large demand, dear lost sales, and a rent for much stock.

Demand is 60 in one of 25 periods, else 0 to 4. A level above 30 pays rent, so that the cost has two
minima: 30, which hides how large the rare demand is, and 60. The rent sets the gap between them.

First, the gap is of the order T^(-1/2), in favour of either: the slope of log regret over log T.
Then it is 5 % of the cost: how often the better one is recommended, from any start.
Last, costs that are locally quadratic: the regret of each decade over that of the one before.

    python benchmarks/two_minima.py 10          # seeds for each start; all three
    python benchmarks/two_minima.py 40 decades  # one of small_gaps, large_gap, decades
"""

import math
import sys

import numpy as np
from joblib import Parallel, delayed

import iopea
from iopea.demand import Empirical, Exponential, Gamma

RARE, USUAL, LARGE, PENALTY = 1 / 25, 5, 60.0, 50.0
LOW, HIGH = 30.0, 60.0
DEMAND = Empirical(values=[float(v) for v in range(USUAL)] * 24 + [LARGE] * USUAL)
SPREAD = PENALTY * (HIGH - LOW) * math.sqrt(RARE * (1 - RARE))  # of the difference in a period
COST = (1 - RARE) * (LOW - 2) + PENALTY * RARE * (LARGE - LOW)
STARTS = (4.0, 30.0, 60.0, 100.0)
SEEDS = range(7000, 7000 + int(sys.argv[1] if len(sys.argv) > 1 else 10))


def shop(gap):
    """A shop in which 60 is better than 30 by so much, or worse."""
    rent = (HIGH - LOW) * (PENALTY * RARE - (1 - RARE)) - gap

    def cost(stock: float, sales: float, order: float) -> float:
        return rent if stock > 30.5 else 0.0

    return iopea.LostSales(
        lead_time=0, holding_cost=1, lost_sales_cost=PENALTY, period_cost=cost, cost_bound=rent,
        levels={"low": 0, "high": 150, "step": 1},
    )  # fmt: skip


def regret(problem, demand, best, looks, seed, **settings):
    """Regret at each of some steps, and the last recommendation."""
    learner = iopea.IOPEA(problem, play="frugal", **settings)
    costs = iopea.run(learner, problem.simulator(demand, seed=seed), looks[-1]).costs
    costs -= problem.simulator(demand, seed=seed).play(best, looks[-1]).costs
    return np.cumsum(costs)[np.array(looks) - 1], learner.recommend()


def one(gap, steps, start, seed):
    best = HIGH if gap > 0 else LOW
    found, recommended = regret(shop(gap), DEMAND, (best,), [steps], seed, start=start)
    return found[0], recommended == (best,)


def small_gaps():
    horizons = (1_000, 10_000, 100_000, 1_000_000)
    means = []
    for steps in horizons:
        tasks = [
            (sign * SPREAD / math.sqrt(steps), steps, start, seed)
            for sign in (-1, 1) for start in STARTS for seed in SEEDS
        ]  # fmt: skip
        found = Parallel(2)(delayed(one)(*task) for task in tasks)
        values = np.array([value for value, _ in found])
        means.append(values.mean())
        halves = values.reshape(2, -1).mean(axis=1)
        print(
            f"T = {steps:,}: regret {means[-1]:,.0f} (30 is better: {halves[0]:,.0f}; "
            f"60: {halves[1]:,.0f}), over √T {means[-1] / math.sqrt(steps):.1f}",
            flush=True,
        )
    slope = np.polyfit(np.log(horizons), np.log(means), 1)[0]
    print(f"slope of log regret: {slope:.3f} (at most 0.55)")


def large_gap():
    for sign in (-1, 1):
        for start in STARTS:
            found = Parallel(2)(
                delayed(one)(sign * 0.05 * COST, 100_000, start, seed) for seed in SEEDS
            )
            right = sum(good for _, good in found)
            name = "60" if sign > 0 else "30"
            print(f"{name} better by 5 %, start {start:g}: recommended in {right} of {len(found)}")


def plays(problem, demand, start, seed, steps):
    """The levels that are played, and for how many steps."""
    learner, system = iopea.IOPEA(problem, start=start), problem.simulator(demand, seed=seed)
    found = []
    while learner.steps < steps:
        play = learner.ask()
        count = min(play.steps, steps - learner.steps)
        found.append((play.policy[0], count))
        learner.tell(system.play(play.policy, count).trajectory)
    return np.array(found)


def decades():
    """Long-run costs of the levels that are played: noise of single periods is left out."""
    looks = np.array([10**k for k in (3, 4, 5, 6)])
    cases = {
        "exponential": (2, 10, 20, Exponential(mean=1, maximum=3, zero_probability=0.3)),
        "gamma": (1, 9, 60, Gamma(mean=5, shape=2)),
    }
    for name, (lead, penalty, high, demand) in cases.items():
        problem = iopea.LostSales(
            lead_time=lead, holding_cost=1, lost_sales_cost=penalty, levels={"low": 0, "high": high}
        )
        best = iopea.best_in_class(problem.simulator(demand), steps=4_000_000).policy[0]
        runs = Parallel(2)(
            delayed(plays)(problem, demand, best / 2, seed, int(looks[-1])) for seed in SEEDS
        )
        around = np.linspace(0.8 * best, 1.2 * best, 201)
        levels = np.unique(np.concatenate([around, *(run[:, 0] for run in runs)]))
        costs = problem.simulator(demand).costs(levels[:, None], 4_000_000, 1, seed=9).mean
        extra = dict(zip(levels.tolist(), (costs - costs.min()).tolist(), strict=True))
        regrets = []
        for run in runs:
            total = np.cumsum([extra[level] * count for level, count in run])
            regrets.append(np.interp(looks, np.cumsum(run[:, 1]), total))
        by_decade = np.diff(np.mean(regrets, axis=0))
        ratios = by_decade[1:] / by_decade[:-1]
        print(
            f"{name}: regret of the decades from 10^3 {by_decade.round(1)}, each over the one "
            f"before {ratios.round(2)} (at most 1.5)"
        )


if __name__ == "__main__":
    parts = {each.__name__: each for each in (small_gaps, large_gap, decades)}
    for name in sys.argv[2:] or parts:
        parts[name]()
