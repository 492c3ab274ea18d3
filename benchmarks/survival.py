"""How often the best level of the net is ever eliminated by the paired rule, at δ = 0.05 and 0.2.

Run with ``python benchmarks/survival.py``; a few minutes on two cores.
"""

import argparse

import numpy as np

import iopea
from iopea.demand import Demand, Exponential, Lognormal, NegativeBinomial, Normal, Poisson
from iopea.problems.lost_sales import LostSales

#: Name, lead time, lost-sales cost, demand, highest level, step.
CASES: list[tuple[str, int, float, Demand, float, float]] = [
    ("newsvendor", 0, 10, Exponential(mean=1, maximum=3, zero_probability=0.3), 7, 0.05),
    ("small exponential", 2, 10, Exponential(mean=1, maximum=3, zero_probability=0.3), 7, 0.05),
    ("small normal", 2, 10, Normal(mean=1.5, sd=0.5, maximum=3, zero_probability=0.3), 7, 0.05),
    ("lead time 6", 6, 10, Exponential(mean=1, maximum=3, zero_probability=0.3), 14, 0.1),
    ("slow mover", 2, 10, Exponential(mean=1, maximum=3, zero_probability=0.9), 7, 0.05),
    ("very slow, dear", 2, 100, Exponential(mean=1, maximum=3, zero_probability=0.95), 7, 0.05),
    ("heavy tail", 2, 10, Lognormal(mean=1, sd=3), 20, 0.1),
    ("poisson", 2, 10, Poisson(mean=2), 20, 1),
    ("negative binomial", 2, 50, NegativeBinomial(mean=0.3, size=0.3), 12, 1),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--horizon", type=int, default=4000)
    options = parser.parse_args()
    for name, lead_time, penalty, demand, high, step in CASES:
        shop = LostSales(
            lead_time=lead_time,
            holding_cost=1,
            lost_sales_cost=penalty,
            levels={"low": 0, "high": high, "step": step},  # type: ignore[arg-type]
        )
        levels = shop.policy_class.net(1.0)
        best = levels[iopea.evaluate(shop.simulator(demand), levels).cost.argmin(), 0]
        rates = [
            lost_rate(
                shop,
                demand,
                best,
                delta,
                range(options.first_seed, options.first_seed + options.runs),
                options.horizon,
            )
            for delta in (0.05, 0.2)
        ]
        print(f"{name:20} lost {rates[0]:.4f} (at most 0.05), {rates[1]:.4f} (at most 0.2)")


def lost_rate(
    shop: LostSales, demand: Demand, best: float, delta: float, seeds: range, horizon: int
) -> float:
    def lost(seed: int) -> bool:
        learner = iopea.IOPEA(shop, delta=delta)
        iopea.run(learner, shop.simulator(demand, seed), horizon)
        return not (learner.surviving[:, 0] == best).any()

    return float(np.mean(iopea.run_all(lost, seeds, 2)))


if __name__ == "__main__":
    main()
