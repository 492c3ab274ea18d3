"""A year of single days: 365 rounds of ask, tell and recommend with 400 levels, on one core.

Prints the seconds of each of several years after a first one that compiles, and what a day costs in
the first and in the tenth year of one shop: neither time nor memory grows with its age.
"""

import time

from iopea import IOPEA, LostSales, Trajectory
from iopea.demand import Poisson

YEARS, DAYS, LEVELS = 7, 365, 400

shop = LostSales(
    lead_time=2, holding_cost=1, lost_sales_cost=9, levels={"low": 0, "high": LEVELS - 1, "step": 1}
)


def year(learner, street):
    records = 0.0
    for _ in range(DAYS):
        level = learner.ask().policy
        evening = street.play(level, 1).trajectory
        began = time.perf_counter()
        learner.tell(Trajectory(level, stock=evening["stock"], sales=evening["sales"]))
        learner.recommend()
        learner.ask()
        records += time.perf_counter() - began
    return records


def main():
    demand = Poisson(mean=20)
    year(IOPEA(shop, play="frugal", start=40), shop.simulator(demand, seed=99))
    first = [
        year(IOPEA(shop, play="frugal", start=40), shop.simulator(demand, seed=seed))
        for seed in range(YEARS)
    ]
    print(f"365 days, {LEVELS} levels: {min(first):.2f} to {max(first):.2f} s")
    learner, street = IOPEA(shop, play="frugal", start=40), shop.simulator(demand, seed=1)
    ages = [year(learner, street) for _ in range(10)]
    print(f"the first year of a shop: {ages[0]:.2f} s, the tenth: {ages[9]:.2f} s")


if __name__ == "__main__":
    main()
