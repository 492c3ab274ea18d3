"""Records that contradict the model, with and without the columns ordered, received and gap.

100 runs of 1,500 periods each, Poisson(8) demand, h = 1, p = 10, levels 0 to 80. For every kind:
runs that eliminated the best level of the shop that made the records, runs that named the right
reason, and the mean number of surviving levels, also relative to clean records of the same shop
(where only the lead time differs, with a learner that knows the right one).

Run with ``python benchmarks/told_records.py [runs]``; about five minutes.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import iopea
from iopea.systems.lost_sales import kernel as kernels

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from shop_floor import ShopFloor

PERIODS, SEED, MEAN, BELIEVED = 1500, 3000, 8.0, 2
KINDS: dict[str, dict[str, Any]] = {
    "clean": {},
    **{
        f"multiples of {case:g}, {way}": {"multiple": case, "rounding": way}
        for case in (6.0, 12.0, 24.0)
        for way in ("down", "up", "nearest")
    },
    **{f"lead time {true}, told 2": {"lead_time": true} for true in (0, 1, 3, 4)},
    "1 % of the days skipped": {"skipped": 0.01},
    "5 % of the days skipped": {"skipped": 0.05},
    "evening stock": {"evening": True},
}


def shop(lead_time: int) -> iopea.LostSales:
    levels: Any = {"low": 0, "high": 80, "step": 1}
    return iopea.LostSales(lead_time=lead_time, holding_cost=1, lost_sales_cost=10, levels=levels)


def best_level(lead_time: int = 2, multiple: float = 0.0, rounding: str = "down") -> float:
    """The level that costs least on 400,000 periods of demand."""
    demand = np.random.default_rng(1).poisson(MEAN, 400_000).astype(float)
    levels, ends = np.arange(81.0), np.array([demand.size])
    sums, _ = kernels.replay_orders(
        demand, np.full(demand.size, 80.0), np.ones(demand.size), levels, ends, lead_time,
        multiple, rounding, (1.0, 10.0), 100,
    )  # fmt: skip
    return float(levels[sums[0].argmin()])


def reason(floor: dict[str, Any]) -> str:
    if "multiple" in floor:
        return f"multiples of {floor['multiple']:g}"
    if "lead_time" in floor:
        return f"a lead time of {floor['lead_time']}"
    return "missing after" if "skipped" in floor else "that of the evening"


def measure(runs: int, floor: dict[str, Any], told: bool) -> tuple[int, int, float]:
    system = {key: floor[key] for key in ("lead_time", "multiple", "rounding") if key in floor}
    best, lost, named, left = best_level(**system), 0, 0, 0.0
    for seed in range(SEED, SEED + runs):
        learner = iopea.IOPEA(shop(BELIEVED), play="maximal", horizon=PERIODS)
        ShopFloor(mean=MEAN, seed=seed, told=told, **floor).teach(learner, PERIODS)
        lost += not learner.survives(best)
        named += reason(floor) in " ".join(learner.warnings)
        left += (learner.survivors or 0) / runs
    return lost, named, left


def clean(runs: int, lead_time: int) -> float:
    """Mean number of surviving levels on clean records, with the right lead time."""
    left = 0.0
    for seed in range(SEED, SEED + runs):
        learner = iopea.IOPEA(shop(lead_time), play="maximal", horizon=PERIODS)
        ShopFloor(mean=MEAN, seed=seed, lead_time=lead_time).teach(learner, PERIODS)
        left += (learner.survivors or 0) / runs
    return left


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    reference = {lead_time: clean(runs, lead_time) for lead_time in range(5)}
    print(f"{'kind':26} {'columns':8} {'lost':>5} {'named':>6} {'left':>6} {'of clean':>9}")
    for kind, floor in KINDS.items():
        for told in (False, True):
            lost, named, left = measure(runs, floor, told)
            share = left / reference[floor.get("lead_time", 2)]
            columns = "told" if told else "not told"
            print(f"{kind:26} {columns:8} {lost:5} {named:6} {left:6.1f} {share:9.2f}", flush=True)


if __name__ == "__main__":
    main()
