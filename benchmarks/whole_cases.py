"""Base-stock levels in a shop that orders in whole cases, compared with the best level.

Lost sales with a lead time of 2 and Poisson demand of mean 8; orders are rounded down to cases of
6, 12 or 24 units. For each size of a case: the best level on one long path for all levels, and by
``best_in_class``; the extra cost of the level that would be best without cases; and what IOPEA
recommends after T = 100,000 steps, on several demand paths. Gaps are measured on the long path.
Run with ``python benchmarks/whole_cases.py [runs]``; about a minute.
"""

import sys
import time
from typing import Any

import numpy as np

import iopea
from iopea.demand import Poisson

HORIZON, SEED = 100_000, 7000
CASES, DEMAND, HIGH = (6, 12, 24), Poisson(mean=8), 80
#: Periods of the path on which all levels are compared; its seed is not that of best_in_class.
PERIODS, PATH = 16_000_000, 1
#: Largest accepted gap to the best level, in percent of its cost.
TARGET = 0.1


def shop(case: int | None) -> iopea.LostSales:
    levels: Any = {"low": 0, "high": HIGH, "step": 1}
    return iopea.LostSales(
        lead_time=2, holding_cost=1, lost_sales_cost=10, order_multiple=case, levels=levels
    )


def compare(case: int, plain: int, runs: int) -> None:
    """Print the best level for this size of a case, and what was learned on each demand path.

    ``plain`` is the best level without cases.
    """
    problem = shop(case)
    system = problem.simulator(DEMAND)
    searched = iopea.best_in_class(system)
    found = iopea.evaluate(system, np.arange(HIGH + 1.0)[:, None], PERIODS, seed=PATH)
    best = int(found.cost.argmin())
    gaps = 100 * (found.cost / found.cost[best] - 1)
    near = np.argsort(gaps)[1]
    print(f"Cases of {case}")
    print(
        f"  best level {best} costs {found.cost[best]:.4f} +- {found.standard_error[best]:.4f}, "
        f"the next, {near}, {gaps[near]:.2f} % more; by best_in_class {searched.policy[0]:g} at "
        f"{searched.cost:.4f}; {plain}, best without cases, costs {gaps[plain]:.2f} % more"
    )
    print(f"  {'seed':>4} {'learned':>7} {'gap %':>7} {'survivors':>9} {'best alive':>10} {'s':>5}")
    learned = []
    for seed in range(SEED, SEED + runs):
        start = time.perf_counter()
        learner = iopea.IOPEA(problem, horizon=HORIZON)
        iopea.run(learner, problem.simulator(DEMAND, seed), HORIZON)
        level = int(learner.recommend()[0])
        alive = "yes" if learner.survives(best) else "NO"
        learned.append(gaps[level])
        spent = time.perf_counter() - start
        print(
            f"  {seed:>4} {level:>7} {gaps[level]:>7.4f} {learner.survivors:>9} {alive:>10} "
            f"{spent:>5.1f}",
            flush=True,
        )
    within = int(np.sum(np.array(learned) <= TARGET))
    print(
        f"  gap: mean {np.mean(learned):.4f} %, largest {max(learned):.4f} %; "
        f"{within} of {runs} runs within {TARGET} %"
    )


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    plain = iopea.best_in_class(shop(None).simulator(DEMAND))
    print(f"L = 2, h = 1, p = 10, Poisson(8), levels 0 to {HIGH}, T = {HORIZON:,}")
    print(f"Without cases the best level is {plain.policy[0]:g}, at {plain.cost:.4f}")
    for case in CASES:
        compare(case, int(plain.policy[0]), runs)


if __name__ == "__main__":
    main()
