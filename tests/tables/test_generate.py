"""Generated tables have the demand that they say, and the dynamics of the shop."""

import numpy as np
import polars as pl
import pytest

from iopea.errors import InputError
from iopea.tables import generate_sales, read_sales


def test_stock_moves_as_orders_and_sales_say():
    made = generate_sales(items=30, periods=60, seed=2)
    found = made.history.join(made.truth, on=["unique_id", "ds"]).sort("unique_id", "ds")
    assert (found["sales"] == found.select(pl.min_horizontal("stock", "demand")).to_series()).all()
    assert (found["on_hand"] == found["stock"] - found["sales"]).all()
    lead = dict(made.items.select("unique_id", "lead_time").iter_rows())
    for (item,), rows in found.group_by("unique_id", maintain_order=True):
        orders, received = rows["order"].to_numpy(), rows["received"].to_numpy()
        late = lead[item]
        np.testing.assert_array_equal(received[late:], orders[: len(orders) - late])
        before = np.append(0.0, rows["on_hand"].to_numpy()[:-1])
        np.testing.assert_array_equal(rows["stock"].to_numpy(), before + received)


def test_demand_has_its_law_season_and_trend():
    made = generate_sales(items=400, periods=156, seed=5)
    found = made.truth.with_columns((pl.col("demand") / pl.col("mean")).alias("share"))
    assert abs(found["share"].mean() - 1) < 0.02
    early, late = (
        made.truth.filter(pl.col("ds").dt.year() == year).group_by("unique_id").agg(
            pl.col("mean").mean()
        ).sort("unique_id")["mean"].to_numpy()
        for year in (2022, 2024)
    )  # fmt: skip
    trend = made.laws.sort("unique_id")["trend"].to_numpy()
    assert np.corrcoef(late / early, trend)[0, 1] > 0.9


def test_days_have_weekdays_and_levels_are_those_of_the_policy():
    made = generate_sales(items=20, periods=70, frequency="day", seed=1, trend=0, season=0)
    means = made.truth.group_by(pl.col("ds").dt.weekday()).agg(pl.col("mean").mean()).sort("ds")
    assert means["mean"].arg_max() == 5
    flat = generate_sales(items=20, periods=50, seed=1, trend=0, season=0, policy="level")
    share = flat.items["level"] / flat.laws["best"].clip(1)
    assert share.is_between(0.6, 2.5).all()
    assert (flat.history["stock"] <= flat.items["level"].max()).all()


def test_the_same_seed_gives_the_same_table_and_odd_arguments_are_refused():
    assert generate_sales(5, 9, seed=4).history.equals(generate_sales(5, 9, seed=4).history)
    assert not generate_sales(5, 9, seed=4).history.equals(generate_sales(5, 9, seed=5).history)
    for odd in ({"items": 0}, {"periods": 1.5}, {"policy": "none"}, {"frequency": "hour"},
                {"season": 2}, {"trend": -1}, {"seed": -1}, {"low": 3, "high": 1},
                {"cover": float("nan")}):  # fmt: skip
        with pytest.raises(InputError):
            generate_sales(**{"items": 2, "periods": 3, "policy": "level", **odd})


def test_what_is_generated_is_read_without_remarks():
    for frequency in ("day", "week", "month"):
        made = generate_sales(items=8, periods=30, frequency=frequency)
        sales = read_sales(made.history, made.items)
        assert sales.frequency == frequency
        assert sales.items.height == 8
        assert not sales.refused
        assert not sales.remarks
        assert sales.history["gap"].sum() == 0
