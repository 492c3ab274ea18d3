"""How often the best policy of the net is ever eliminated by the paired rule, at δ = 0.05 and 0.2.

Run with ``python benchmarks/survival.py``; a few minutes on two cores for each kind of problem.
"""

import argparse
from typing import Any

import numpy as np

import iopea
from iopea.demand import Demand, Exponential, Lognormal, NegativeBinomial, Normal, Poisson
from iopea.problems.base import Problem
from iopea.problems.dual_sourcing import DualSourcing
from iopea.problems.lost_sales import LostSales
from iopea.problems.queue import QueueRates, ServiceRateQueue


def shop(lead_time: int, penalty: float, high: float, step: float) -> LostSales:
    levels: Any = {"low": 0, "high": high, "step": step}
    return LostSales(lead_time=lead_time, holding_cost=1, lost_sales_cost=penalty, levels=levels)


def dual(regular: int, expedited: int, high: float, step: float, **more: Any) -> DualSourcing:
    levels: Any = {"low": 0, "high": high, "step": step}
    return DualSourcing(
        regular_lead_time=regular,
        expedited_lead_time=expedited,
        holding_cost=1,
        lost_sales_cost=more.pop("penalty", 10),
        expedited_cost=0.5,
        expedited_levels=levels,
        regular_levels=levels,
        **more,
    )


def queue(arrivals: str) -> ServiceRateQueue:
    return ServiceRateQueue(
        buffer=2,
        max_rate=3,
        arrival_rate_bound=10,
        deadline_rate_bound=10,
        arrivals=arrivals,
        miss_penalty=100,
        uniformization=23,
    )


EXPONENTIAL = Exponential(mean=1, maximum=3, zero_probability=0.3)
NORMAL = Normal(mean=1.5, sd=0.5, maximum=3, zero_probability=0.3)
SLOW = Exponential(mean=1, maximum=3, zero_probability=0.9)
#: Name, problem and truth, by kind.
CASES: dict[str, list[tuple[str, Problem, Any]]] = {
    "inventory": [
        ("newsvendor", shop(0, 10, 7, 0.05), EXPONENTIAL),
        ("small exponential", shop(2, 10, 7, 0.05), EXPONENTIAL),
        ("small normal", shop(2, 10, 7, 0.05), NORMAL),
        ("lead time 6", shop(6, 10, 14, 0.1), EXPONENTIAL),
        ("slow mover", shop(2, 10, 7, 0.05), SLOW),
        (
            "very slow, dear",
            shop(2, 100, 7, 0.05),
            Exponential(mean=1, maximum=3, zero_probability=0.95),
        ),
        ("heavy tail", shop(2, 10, 20, 0.1), Lognormal(mean=1, sd=3)),
        ("poisson", shop(2, 10, 20, 1), Poisson(mean=2)),
        ("negative binomial", shop(2, 50, 12, 1), NegativeBinomial(mean=0.3, size=0.3)),
    ],
    "dual": [
        ("small exponential", dual(1, 0, 6, 0.1), EXPONENTIAL),
        ("small normal", dual(1, 0, 6, 0.1), NORMAL),
        ("lead times 5 and 0", dual(5, 0, 9, 0.15), EXPONENTIAL),
        ("lead times 4 and 2", dual(4, 2, 12, 0.2), EXPONENTIAL),
        ("slow mover", dual(2, 0, 6, 0.1), SLOW),
        ("poisson", dual(2, 0, 15, 1), Poisson(mean=2)),
        # Levels that hardly reach what is needed: most of demand is never seen.
        ("poisson, tight levels", dual(5, 0, 10, 1), Poisson(mean=4)),
        ("poisson, less tight", dual(5, 0, 14, 1), Poisson(mean=4)),
        ("exponential, tight levels", dual(5, 0, 12, 1, penalty=11), Exponential(mean=4)),
        ("small exponential, level", dual(1, 0, 6, 0.1, estimator="level"), EXPONENTIAL),
        ("small exponential, hitting", dual(1, 0, 6, 0.1, estimator="hitting"), EXPONENTIAL),
    ],
    "queue": [
        ("decaying", queue("decaying"), QueueRates(arrival_rate=6, deadline_rate=3)),
        ("fixed", queue("fixed"), QueueRates(arrival_rate=6, deadline_rate=3)),
        ("rare misses", queue("fixed"), QueueRates(arrival_rate=2, deadline_rate=0.05)),
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--horizon", type=int, default=4000)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.runs)
    for kind in options.kinds:
        for name, problem, truth in CASES[kind]:
            policies = problem.policy_class.net(1.0)
            costs = iopea.evaluate(problem.simulator(truth), policies).cost
            best = tuple(map(float, policies[costs.argmin()]))
            rates = [
                lost_rate(problem, truth, best, delta, seeds, options.horizon)
                for delta in (0.05, 0.2)
            ]
            print(
                f"{kind}, {name:28} lost {rates[0]:.4f} (at most 0.05), "
                f"{rates[1]:.4f} (at most 0.2)",
                flush=True,
            )


def lost_rate(
    problem: Problem,
    truth: Demand | QueueRates,
    best: tuple[float, ...],
    delta: float,
    seeds: range,
    horizon: int,
) -> float:
    def lost(seed: int) -> bool:
        learner = iopea.IOPEA(problem, delta=delta)
        iopea.run(learner, problem.simulator(truth, seed), horizon)
        return not learner.survives(best)

    return float(np.mean(iopea.run_all(lost, seeds, 2)))


if __name__ == "__main__":
    main()
