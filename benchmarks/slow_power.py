"""The price of estimating the long-run variance: lost sales with a lead time of 50, T = 10^5.

Compares the surviving range of the default rule with that of the same rule given the true
long-run variance of every difference, from 16 million periods. Run with
``python benchmarks/slow_power.py [runs]``; about a minute.
"""

import sys
from typing import Any

import numpy as np

import iopea
import iopea.elimination.paired as paired
from iopea.demand import Poisson
from iopea.elimination.critical import Spread, studentise
from iopea.types import Array, Estimates

LEAD_TIME, HORIZON, SEED = 50, 100_000, 5000
PERIODS, BATCHES = 16_000_000, 1024
HIGH = 8 * (LEAD_TIME + 1)


def shop() -> iopea.LostSales:
    levels: Any = {"low": 0, "high": HIGH, "step": 1}
    return iopea.LostSales(lead_time=LEAD_TIME, holding_cost=1, lost_sales_cost=10, levels=levels)


class Oracle(paired.Paired):
    """The default rule with the true long-run variances."""

    averages: Array

    def eliminate(self, estimates: Estimates, policies: Array, *rest: Any, **more: Any) -> Any:
        numbers = policies[:, 0].astype(int)

        def known(data: Estimates, reference: int) -> Spread:
            differences = self.averages - self.averages[:, [numbers[reference]]]
            variance = differences.var(axis=0, ddof=1)[numbers] * PERIODS / BATCHES / data.steps
            nothing = np.zeros(numbers.size)
            return Spread(np.sqrt(variance), nothing, np.full(numbers.size, 1e6), nothing)

        paired.studentise = known
        try:
            return super().eliminate(estimates, policies, *rest, **more)
        finally:
            paired.studentise = studentise


def ranges(runs: int, oracle: bool) -> list[float]:
    found = []
    for seed in range(SEED, SEED + runs):
        problem = shop()
        learner = iopea.IOPEA(problem, play="maximal", horizon=HORIZON)
        if oracle:
            learner.rule.__class__ = Oracle
        iopea.run(learner, problem.simulator(Poisson(mean=4), seed), HORIZON)
        found.append(float(np.ptp(learner.surviving)))
    return found


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    levels = np.arange(HIGH + 1.0)[:, None]
    truth = shop().simulator(Poisson(mean=4)).costs(levels, PERIODS, BATCHES, seed=7)
    Oracle.averages = truth.sums / truth.sizes[:, None]
    own, oracle = np.mean(ranges(runs, False)), np.mean(ranges(runs, True))
    print(
        f"surviving range {own:.2f}, with the true variance {oracle:.2f}: {own / oracle:.2f} times"
    )


if __name__ == "__main__":
    main()
