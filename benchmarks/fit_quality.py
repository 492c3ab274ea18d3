"""How good fitted policies and their intervals are, on generated tables whose truth is known.

``python benchmarks/fit_quality.py [TABLES] [ITEMS] [FIRST_SEED] [LOW] [HIGH]``: flat demand, 104
weeks, a level of LOW to HIGH times the best in force. Extra cost over the best level, of the fit
and of one that sees all demand; how often the interval of the expected cost, and bands of the
certificate, miss the true cost; how often the history is said not to tell.
"""

import sys

import numpy as np
import polars as pl

from iopea.tables import generate_sales
from iopea.tables.fit import UNKNOWN, fit

#: Periods on which true costs are computed.
PERIODS = 200_000
SHAPE = {"periods": 104, "trend": 0, "season": 0, "policy": "level"}


def measure(seed: int, items: int, low: float, high: float) -> list[dict]:
    """What was found of each item of a table."""
    made = generate_sales(items, seed=seed, low=low, high=high, **SHAPE)
    seen = made.history.join(made.truth, on=["unique_id", "ds"]).with_columns(
        sales="demand", stock=1e9
    )
    plan, other = fit(made.history, made.items), fit(seen, made.items)
    choices = dict(other.table.select("unique_id", "level").iter_rows())
    laws = {row["unique_id"]: row for row in made.laws.iter_rows(named=True)}
    found = []
    for row in plan.table.filter(pl.col("verdict") != "refused").iter_rows(named=True):
        law, name = laws[row["unique_id"]], row["unique_id"]
        one = plan.item(name)
        rng = np.random.default_rng(seed)
        share = law["size"] / (law["size"] + law["scale"])
        demand = rng.negative_binomial(law["size"], share, PERIODS).astype(float)
        shop, policies = one.shop, one.policies
        lost = shop.system.lost_sales_cost
        plain = shop.costs(demand[None], np.vstack([policies, [choices[name]]]))[0]
        fine = shop.near(policies, policies[plain[:-1].argmin()])
        true = plain + lost * demand.mean()
        best = min(true.min(), shop.costs(demand[None], fine).min() + lost * demand.mean())
        mine = true[np.flatnonzero(policies[:, 0] == row["level"])[0]]
        judged = one.judged
        outside = (plain[:-1] < one.low - 1e-9) | (plain[:-1] > one.high + 1e-9)
        level = dict(made.items.select("unique_id", "level").iter_rows())[name]
        found.append(
            {
                "kind": law["kind"],
                "extra": mine / best - 1,
                "extra seeing all": true[-1] / best - 1,
                "above": mine > row["cost_high"],
                "below": mine < row["cost_low"],
                "bias": row["expected_cost"] / mine - 1,
                "width": (row["cost_high"] - row["cost_low"]) / mine,
                "certified": row["verdict"] == "certified",
                "unknown": row["verdict"] == UNKNOWN,
                "outside": bool((outside & judged).any()) and row["verdict"] == "certified",
                "reached": level >= 0.9 * law["best"],
                "alive": row["surviving_low"] is None
                or row["surviving_low"] <= law["best"] <= row["surviving_high"],
            }
        )
    return found


def main() -> None:
    """Measure, and print means by kind of item."""
    given = sys.argv[1:] + ["4", "200", "8200", "0.75", "2"][len(sys.argv) - 1 :]
    tables, items, first = map(int, given[:3])
    low, high = map(float, given[3:5])
    found = pl.DataFrame(
        [row for seed in range(first, first + tables) for row in measure(seed, items, low, high)]
    )
    means = [pl.len().alias("items"), pl.exclude("kind").mean()]
    pl.Config.set_tbl_cols(20)
    pl.Config.set_tbl_width_chars(200)
    print(found.group_by("kind").agg(means).sort("kind"))
    every = found.select(pl.exclude("kind").mean())
    print(every)
    print(f"extra cost, ratio: {every['extra'][0] / every['extra seeing all'][0]:.2f}")
    print(f"interval: {1 - every['above'][0] - every['below'][0]:.3f}")
    some = found.filter("certified")
    missed = some["outside"].sum()
    print(f"bands of the certificate miss in {missed} of {some.height} certified items")
    print(f"best level lost: {1 - found['alive'].mean():.4f}")
    far = found.filter(~pl.col("reached"))
    if far.height:
        print(f"best level not reached: {far.height} items, can't tell {far['unknown'].mean():.3f}")


if __name__ == "__main__":
    main()
