"""How often a plan is certified although stock was not chosen independently of demand.

``python benchmarks/violations.py [TABLES] [ITEMS] [FIRST_SEED] [PERIODS]``: flat demand of the
generator, but for the last kinds, and stock that somebody chose who knew something of it. Of the
items that are certified under stock which was chosen independently, the share that is not, by kind
of violation and of item; 0.9 is wanted. The first two kinds satisfy the assumption.
"""

import sys

import numpy as np
import polars as pl

from iopea import fit, generate_sales

SHAPE = {"trend": 0, "season": 0, "policy": "level"}


def noise(rng, demand, low=1.0, high=4.0):
    """Stock above the mean, whatever the demand."""
    return np.maximum(np.round(demand.mean() * rng.uniform(low, high, demand.size)), 1.0)


def follows(rng, demand, share):
    """Stock that moves with this share of the distance of demand from its mean."""
    return np.maximum(noise(rng, demand) + np.round(share * (demand - demand.mean())), 1.0)


def rare(rng, demand):
    """Twice as much stock where demand is among the largest tenth."""
    return noise(rng, demand) * np.where(demand > np.quantile(demand, 0.9), 2.0, 1.0)


def persistent(rng, demand, share):
    """Demand that is sorted in part, so that neighbours are alike, under a fixed level."""
    place = np.argsort(share * np.arange(demand.size) / demand.size + rng.random(demand.size))
    return np.sort(demand)[np.argsort(place)]


#: By name: the stock of each period, from demand.
STOCK = {
    "independent": lambda rng, demand: noise(rng, demand),
    "a fixed level": lambda _, demand: np.full(demand.size, np.quantile(demand, 0.98) + 1),
    "follows demand": lambda rng, demand: np.round(demand * rng.uniform(0.6, 3, demand.size)) + 1,
    "follows half of it": lambda rng, demand: follows(rng, demand, 0.5),
    "the opposite": lambda rng, demand: follows(rng, demand, -0.5),
    "doubled if large": rare,
    "just enough, half the time": lambda rng, demand: np.where(
        rng.random(demand.size) < 0.5, np.maximum(demand, 1.0), noise(rng, demand)
    ),
}


def histories(made, rng):
    """By kind: rows of sales and stock."""
    parts = [rows for _, rows in made.truth.group_by("unique_id", maintain_order=True)]
    ids = pl.concat([rows.select("unique_id", "ds") for rows in parts])

    def table(each):
        sold = np.concatenate([np.minimum(demand, stock) for demand, stock in each])
        stock = np.concatenate([stock for _, stock in each])
        return ids.with_columns(sales=pl.Series(sold), stock=pl.Series(stock))

    demands = [rows["demand"].to_numpy() for rows in parts]
    for name, stock in STOCK.items():
        yield name, table([(demand, stock(rng, demand)) for demand in demands])
    for name, change in {
        "persistent demand": lambda demand: persistent(rng, demand, 3.0),
        "demand that doubles": lambda demand: np.round(
            demand * np.where(np.arange(demand.size) < demand.size / 2, 1.0, 2.0)
        ),
        "a busy day in seven": lambda demand: np.round(
            demand * np.resize([0.7, 0.7, 0.7, 0.8, 1.0, 1.2, 2.0], demand.size)
        ),
    }.items():
        changed = [change(demand) for demand in demands]
        yield name, table([(demand, STOCK["a fixed level"](rng, demand)) for demand in changed])


def main():
    """Measure, and print."""
    given = sys.argv[1:] + ["2", "150", "8600", "104"][len(sys.argv) - 1 :]
    tables, items, first, periods = map(int, given)
    found = []
    for seed in range(first, first + tables):
        made = generate_sales(items, periods, seed=seed, **SHAPE)
        for name, rows in histories(made, np.random.default_rng(seed)):
            plan = fit(rows, made.items, calendar="none", memory="none", borrow=False).table
            if name == "independent":
                sure = plan.filter(verdict="certified")["unique_id"].implode()
            kinds = plan.join(made.laws.select("unique_id", "kind"), on="unique_id")
            some = kinds.filter(pl.col("unique_id").is_in(sure))
            found.append(some.select("kind", "verdict", stock=pl.lit(name)))
    free = (pl.col("verdict") != "certified").mean().alias("not certified")
    every = pl.concat(found)
    pl.Config.set_tbl_rows(60)
    for keys in (["stock"], ["stock", "kind"]):
        print(every.group_by(keys, maintain_order=True).agg(free, pl.len().alias("items")))


if __name__ == "__main__":
    main()
