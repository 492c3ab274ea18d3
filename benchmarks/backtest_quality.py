"""How cheap fitted levels are on generated tables with a calendar and trends, against the truth.

``python benchmarks/backtest_quality.py [TABLES] [ITEMS] [FIRST_SEED] [FREQUENCY]``: the last part
of the weeks, or days, is scored on what was really wanted. ``true law`` is a level chosen in the
same way, but fed the true factors and law of demand.
"""

import sys
from functools import cache

import numpy as np
import polars as pl

from iopea.tables import generate_sales, read_sales
from iopea.tables.backtest import backtest
from iopea.tables.counts import count_quantiles
from iopea.tables.shop import ItemShop, family_named

PATH = 4096
ORDER = np.random.default_rng(0).permutation(PATH)
#: Periods, and the first day that is scored.
SHAPE = {"week": (156, "2024-01-01"), "day": (730, "2023-10-02")}


class TrueLaw:
    """Levels from the true means and sizes of demand."""

    def __init__(self, made):
        sizes = dict(made.laws.select("unique_id", "size").iter_rows())
        self._of = {
            name: (sizes[name], rows["mean"].to_numpy())
            for (name,), rows in made.truth.group_by("unique_id", maintain_order=True)
        }
        self._first = read_sales(made.history).clock.period(made.truth["ds"].min())

    def __call__(self, item, period):
        """The best level for the mean of the periods that an order must last for."""
        size, means = self._of[item.name]
        ahead = means[period - self._first :][: item.lasts].mean()
        return self._level(round(float(ahead), 3), size, tuple(sorted(item.row.items(), key=str)))

    @staticmethod
    @cache
    def _level(mean, size, row):
        path = count_quantiles(mean, size, (np.arange(PATH) + 0.5) / PATH)[ORDER]
        shop = ItemShop.of(dict(row), family_named("base-stock"), path, True)
        net = shop.coarse()
        first = net[shop.costs(path[None], net)[0].argmin()]
        near = shop.near(net, first)
        return float(near[shop.costs(path[None], near)[0].argmin()][0])


def main():
    """Measure, and print costs of all tables."""
    given = sys.argv[1:] + ["3", "300", "8300", "week"][len(sys.argv) - 1 :]
    tables, items, first = map(int, given[:3])
    frequency = given[3]
    periods, start = SHAPE[frequency]
    found = []
    for seed in range(first, first + tables):
        made = generate_sales(items, periods, frequency, seed=seed)
        result = backtest(
            made.history, made.items, start, demand=made.truth,
            rules={"true law": TrueLaw(made)},
        )  # fmt: skip
        rows = result.table.with_columns(seed=pl.lit(seed), outlook=pl.lit(str(result.outlook)))
        best = rows.filter(contestant="true law")["cost"][0]
        found.append(rows.with_columns(ratio=pl.col("cost") / best))
        print(result.winner, result.cover, result.outlook, flush=True)
    every = pl.concat(found)
    pl.Config.set_tbl_rows(40)
    pl.Config.set_tbl_width_chars(160)
    print(every.select("seed", "contestant", "cost", "ratio", "saving", "saving_half", "p_value"))
    print(every.group_by("contestant", maintain_order=True).agg(pl.col("ratio").mean()))


if __name__ == "__main__":
    main()
