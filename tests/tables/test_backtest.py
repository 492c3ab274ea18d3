"""Rules of time, readings of lost demand, and the naming of a winner."""

import datetime

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import iopea
from iopea.errors import InputError
from iopea.tables.item import items_of
from iopea.tables.wanted import Scored, fit_model

START = "2024-01-29"
FIRST = datetime.date(2024, 1, 1)
PLAIN = {"calendar": "none", "memory": "none"}


def table(sales, **columns):
    """A history of one item with one row for each day."""
    days = [FIRST + datetime.timedelta(days=k) for k in range(len(sales))]
    return {"unique_id": ["a"] * len(sales), "ds": days, "sales": sales, **columns}


def item(**more):
    return {"unique_id": ["a"], "lead_time": [2], "holding_cost": [1.0], "lost_sales_cost": [5.0],
            **{name: [value] for name, value in more.items()}}  # fmt: skip


def costs(found, contestant, reading="truth"):
    rows = found.periods.filter(contestant=contestant, reading=reading)
    return rows["cost"].to_numpy()


@pytest.mark.parametrize(("convention", "first"), [("t+1+L", 2), ("t+L", 1)])
def test_an_order_is_sold_after_its_lead_time(convention, first):
    """Nothing is there or on its way; 3 are wanted each day; the first order is of the last night.

    An order of the end of period t can be sold in t + 1 + L: the first in the third day scored.
    """
    days = 28 + 10
    rows = table([3] * 28 + [0] * 10, stock=[10] * 27 + [3] + [0] * 10, on_order=[0.0] * days,
                 received=[0.0] * days, on_hand=[7] * 27 + [0] * 11)  # fmt: skip
    demand = {name: rows[name] for name in ("unique_id", "ds")} | {"demand": [3.0] * days}
    found = iopea.backtest(
        rows, item(), START, contestants=[], rules={"nine": lambda one, period: 9.0},
        demand=demand, sold_from=convention, **PLAIN,
    )  # fmt: skip
    # Before the first order 3 are lost each day; then the shop holds its level less what is due.
    wanted = [15.0] * first
    assert costs(found, "nine")[: len(wanted)].tolist() == wanted
    assert costs(found, "nine")[len(wanted)] == 6.0  # 9 arrive, 3 are sold


def test_a_decision_sees_earlier_periods_alone():
    """What happens from a day on changes no cost of the days before, nor of that day."""
    made = iopea.generate_sales(8, 140, "day", seed=3)
    start, cut = datetime.date(2022, 4, 15), datetime.date(2022, 5, 8)
    later = pl.col("ds") >= cut
    rng = np.random.default_rng(0)
    changed = made.history.with_columns(
        sales=pl.when(later).then(
            np.minimum(rng.integers(0, 90, made.history.height), made.truth["demand"])
        ).otherwise("sales"),
        stock=pl.when(later).then(pl.lit(90.5)).otherwise("stock"),
        received=pl.when(later).then(pl.lit(2.0)).otherwise("received"),
    )  # fmt: skip
    seen = {}

    def spy(one, period):
        seen.setdefault(one.name, []).append((period, one.periods.max(), one.end))
        assert one.sales.base is None
        assert one.row["on_hand"] is one.row["on_order"] is one.row["level"] is None
        return 5.0 + one.sales[-1]

    found = [
        iopea.backtest(
            history, made.items, start, demand=made.truth, rules={"mine": spy},
            contestants=["iopea", "order-up-to", "moving-average"],
        )
        for history in (made.history, changed)
    ]  # fmt: skip
    covers = {each.cover for each in found}
    for name in ("iopea", "order-up-to", "mine", *["moving-average"] * (len(covers) == 1)):
        before, after = (
            each.periods.filter((pl.col("ds") <= cut) & (pl.col("contestant") == name))
            for each in found
        )
        assert before.height == 24
        assert_frame_equal(before, after)
        assert costs(found[0], name).sum() != costs(found[1], name).sum()
    assert all(last < period == end + 1 for each in seen.values() for period, last, end in each)


def test_fractions_to_come_change_no_earlier_decision():
    made = iopea.generate_sales(4, 140, "day", seed=3)
    last = (pl.col("ds") == made.history["ds"].max()) & (pl.col("sales") > 0)
    changed = made.history.with_columns(sales=pl.when(last).then(0.5).otherwise("sales"))
    found = [
        iopea.backtest(rows, made.items, "2022-04-15", demand=made.truth, **PLAIN)
        for rows in (made.history, changed)
    ]
    for name in ("iopea", "order-up-to"):
        np.testing.assert_array_equal(costs(found[0], name)[:-1], costs(found[1], name)[:-1])


def test_costs_are_those_of_the_shop_and_of_the_history():
    made = iopea.generate_sales(6, 80, seed=4)
    found = iopea.backtest(
        made.history, made.items, "2023-01-02", demand=made.truth, contestants=["history"],
        rules={"none": lambda one, period: 0.0},
    )  # fmt: skip
    rows = made.history.join(made.truth, on=["unique_id", "ds"]).join(
        made.items.select("unique_id", "lost_sales_cost"), on="unique_id"
    ).filter(pl.col("ds") >= datetime.date(2023, 1, 2))  # fmt: skip
    held, lost = rows["stock"] - rows["sales"], rows["demand"] - rows["sales"]
    wanted = (held + rows["lost_sales_cost"] * lost).mean()
    table = dict(found.table.select("contestant", "cost").iter_rows())
    assert table["history"] == pytest.approx(wanted)
    # With no orders, all is lost once the shelf and the pipeline are empty.
    last = rows.filter(pl.col("ds") == rows["ds"].max())
    assert costs(found, "none")[-1] >= (last["lost_sales_cost"] * last["demand"]).sum() * 0.9


def test_reviews_are_every_few_periods():
    made = iopea.generate_sales(3, 80, seed=4)
    seen = []
    iopea.backtest(
        made.history, made.items.with_columns(review_period=pl.lit(4)), "2023-01-02",
        contestants=[], rules={"mine": lambda one, period: seen.append(period) or 9.0},
    )  # fmt: skip
    each = seen[: len(seen) // 3]
    assert set(np.diff(each)) == {4}
    assert len(each) == 7


def test_what_may_have_been_wanted_is_shared_and_fitted_on_other_items():
    made = iopea.generate_sales(40, 120, "day", seed=7, policy="level", trend=0, season=0, low=0.5)
    sales = iopea.read_sales(made.history, made.items)
    items = list(items_of(sales))
    model = fit_model(items, sales.clock)
    one = next(item for item in items if 0.1 < item.censored.mean() < 0.9)
    scored = Scored(one.periods, one.sales, one.censored)
    drawn = model.readings(one, scored, 20)
    assert drawn.shape == (22, one.sales.size)
    assert (drawn[:, ~one.censored] == one.sales[~one.censored]).all()
    assert (drawn >= one.sales).all()
    assert (drawn[0] == one.sales).all()
    assert (drawn[-1] >= np.median(drawn[1:-1], axis=0)).all()
    np.testing.assert_array_equal(drawn, model.readings(one, scored, 20))
    # Its fold knows nothing of it: without the item, the others say the same.
    fold = model.fold[one.name]
    others = [item for item in items if model.fold[item.name] != fold]
    alone = model.calendars[0].fitted(others).calendars
    for group, calendar in alone.items():
        np.testing.assert_allclose(calendar.effects, model.calendars[fold].calendars[group].effects)


def test_imputed_demand_is_near_the_truth():
    made = iopea.generate_sales(
        60, 120, seed=20, trend=0, season=0, policy="level", low=0.6, high=1
    )
    sales = iopea.read_sales(made.history, made.items)
    items = list(items_of(sales))
    model = fit_model(items, sales.clock)
    truth = dict(made.truth.group_by("unique_id").agg(pl.col("demand").sum()).iter_rows())
    sold, guessed = [], []
    for one in items:
        if one.sales.size == 120:
            drawn = model.readings(one, Scored(one.periods, one.sales, one.censored), 20)
            sold.append(one.sales.sum() / truth[one.name])
            guessed.append(drawn[1:-1].sum() / 20 / truth[one.name])
    assert np.mean(sold) < 0.9
    assert np.mean(guessed) == pytest.approx(1, abs=0.05)


def test_a_winner_wins_on_every_reading():
    made = iopea.generate_sales(30, 130, seed=5)
    plain = dict(contestants=["iopea"], **PLAIN)
    bad = iopea.backtest(
        made.history, made.items, "2024-01-01", rules={"none": lambda *_: 0.0}, **plain
    )
    assert bad.winner == "iopea"
    same = iopea.backtest(
        made.history, made.items, "2024-01-01", contestants=[],
        rules={"one": lambda *_: 5.0, "other": lambda *_: 5.0},
    )  # fmt: skip
    assert same.winner is None
    assert (same.table["p_value"] == 1).all()
    low = iopea.backtest(
        made.history, made.items, "2024-01-01",
        contestants=["iopea", "moving-average", "history"], **PLAIN,
    )  # fmt: skip
    by = {row["contestant"]: row for row in low.table.filter(reading="high quantile").to_dicts()}
    least = {
        row["contestant"]: row for row in low.table.filter(reading="nothing more wanted").to_dicts()
    }
    assert all(by[name]["cost"] > least[name]["cost"] for name in by)
    assert (least["history"]["fill_rate"], by["history"]["fill_rate"] < 1) == (1.0, True)


def test_cheaper_than_the_rules_of_thumb_and_near_the_truth():
    """On demand with a season and trends; benchmarks/backtest_quality.py measures it well."""
    made = iopea.generate_sales(50, 156, seed=6)
    found = iopea.backtest(made.history, made.items, "2024-01-01", demand=made.truth)
    cost = dict(found.table.select("contestant", "cost").iter_rows())
    assert found.outlook.terms == ("season",)
    assert cost["iopea"] < 0.95 * min(cost["order-up-to"], cost["moving-average"], cost["history"])


def test_a_history_without_stock_takes_no_part_and_packs_are_rounded_up():
    made = iopea.generate_sales(4, 80, seed=5)
    flags = made.history.select(
        "unique_id", "ds", "sales", (pl.col("sales") >= pl.col("stock")).alias("stockout")
    )
    found = iopea.backtest(flags, made.items, "2023-01-02", **PLAIN)
    assert found.contestants == ("iopea", "order-up-to", "moving-average")
    with pytest.raises(InputError, match="stock of no item"):
        iopea.backtest(flags, made.items, "2023-01-02", contestants=["history"])
    packs = made.items.with_columns(order_multiple=pl.lit(24.0))
    rough = iopea.backtest(made.history, packs, "2023-01-02", **PLAIN)
    rate = dict(rough.table.filter(reading="imputed").select("contestant", "fill_rate").iter_rows())
    plain = dict(
        found.table.filter(reading="imputed").select("contestant", "fill_rate").iter_rows()
    )
    assert rate["order-up-to"] >= plain["order-up-to"]


def test_weeks_are_scored_from_the_first_that_begins_on_the_day():
    made = iopea.generate_sales(3, 80, seed=5)
    for start, first in (("2023-01-02", 2), ("2023-01-03", 9)):
        found = iopea.backtest(
            made.history, made.items, start, contestants=[], rules={"five": lambda *_: 5.0}
        )
        assert found.periods["ds"].min() == datetime.date(2023, 1, first)


def test_every_order_and_number_of_workers_gives_the_same():
    made = iopea.generate_sales(10, 120, seed=5)
    shuffled = made.history.sample(fraction=1.0, shuffle=True, seed=1)
    one = iopea.backtest(made.history, made.items, "2024-01-01", **PLAIN)
    two = iopea.backtest(shuffled, made.items.reverse(), "2024-01-01", workers=2, **PLAIN)
    assert_frame_equal(one.table, two.table)
    assert_frame_equal(one.items, two.items)


def test_items_that_cannot_be_scored_are_named_and_the_rest_goes_on():
    made = iopea.generate_sales(4, 80, seed=5)
    ends = pl.col("ds") < datetime.date(2022, 12, 1)
    new = pl.col("ds") >= datetime.date(2022, 12, 1)
    rows = made.history.filter(
        pl.when(pl.col("unique_id") == "item-1").then(ends)
        .when(pl.col("unique_id") == "item-2").then(new).otherwise(True)
    )  # fmt: skip
    found = iopea.backtest(rows, made.items, "2023-01-02", **PLAIN)
    assert set(found.skipped) == {"item-1", "item-2"}
    assert "no rows from then on" in found.skipped["item-1"]
    assert "8 are needed" in found.skipped["item-2"]
    assert found.items["unique_id"].n_unique() == 2


def test_the_history_is_scored_where_its_stock_is_known():
    made = iopea.generate_sales(6, 80, seed=5)
    rows = made.history.with_columns(
        stock=pl.when(pl.col("unique_id") == "item-1").then(None).otherwise("stock"),
        stockout=(pl.col("sales") >= pl.col("stock")).cast(pl.Int8),
    )
    found = iopea.backtest(rows, made.items, "2023-01-02", **PLAIN)
    count = dict(found.table.select("contestant", "item_periods").iter_rows())
    assert count["history"] < count["iopea"]
    missing = found.items.filter(contestant="history", unique_id="item-1")["cost"]
    assert missing.is_null().all()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"start": "soon"}, "soon"),
        ({"start": "2030-01-01"}, "No item can be scored"),
        ({"contestants": ["erm"]}, "erm"),
        ({"contestants": ["iopea:dual-index"]}, "one supplier"),
        ({"contestants": []}, "no contestants"),
        ({"rules": {"history": lambda *_: 1.0}}, "rename it"),
        ({"rules": {"mine": lambda *_: -1.0}}, "rule 'mine'.*item-1.*-1"),
        ({"rules": {"mine": lambda *_: 1 / 0}}, "ZeroDivisionError"),
        ({"demand": {"unique_id": ["x"], "ds": ["2024-01-01"], "demand": [-1]}}, "Row 1"),
        ({"demand": {"unique_id": ["x"], "ds": ["2024-01-01"], "demand": [1]}}, "lacks a period"),
        (
            {"demand": {"unique_id": ["x"] * 2, "ds": ["2024-01-01"] * 2, "demand": [1, 3]}},
            "1 and 3",
        ),
    ],
)
def test_wrong_arguments_get_a_sentence(wrong, words):
    made = iopea.generate_sales(2, 60, seed=5)
    given = {"start": "2023-01-02", "contestants": ["order-up-to"]} | wrong
    with pytest.raises(InputError, match=words):
        iopea.backtest(made.history, made.items, given.pop("start"), **given)


@pytest.mark.parametrize(
    "odd", [{"contestants": 3}, {"contestants": [3]}, {"rules": 3}, {"rules": {"a": None}},
            {"columns": "sales"}, {"columns": {"sales": 3}}], ids=str,
)  # fmt: skip
def test_arguments_of_odd_kinds_get_a_sentence(odd):
    made = iopea.generate_sales(2, 60, seed=5)
    with pytest.raises(InputError, match=next(iter(odd))):
        iopea.backtest(made.history, made.items, "2023-01-02", **odd)


def test_orders_of_the_history_cost_whether_or_not_they_are_in_a_column():
    made = iopea.generate_sales(6, 80, seed=4)
    items = made.items.with_columns(fixed_order_cost=pl.lit(7.0))
    told = {
        "order": made.history,
        "received": made.history.drop("order"),
        "stock": made.history.drop("order", "received"),
    }
    found = {
        name: iopea.backtest(
            rows, items, "2023-01-02", demand=made.truth, contestants=["history"], **PLAIN
        ).table["cost"][0]
        for name, rows in told.items()
    }
    plain = iopea.backtest(
        made.history, made.items, "2023-01-02", demand=made.truth, contestants=["history"], **PLAIN
    ).table["cost"][0]
    assert found["order"] > plain + 1
    # What arrives in the first periods was ordered before them, and the last orders arrive later.
    assert found["received"] == pytest.approx(found["order"], rel=0.02)
    assert found["stock"] == pytest.approx(found["received"], rel=0.02)


def test_a_rule_changes_nothing_for_others_and_fractions_to_come_nothing_at_the_start():
    rows = table([2, 5, 1, 4] * 20, stock=[9] * 80)

    def meddler(one, period):
        one.row["lost_sales_cost"] = 1e6
        one.sales[:] = 0
        return 3.0

    costs_of = {
        tuple(rules): iopea.backtest(
            rows, item(), START, contestants=["order-up-to"], rules=rules, **PLAIN
        ).table.filter(contestant="order-up-to")["cost"]
        for rules in ({}, {"meddler": meddler})
    }
    first, second = costs_of.values()
    assert first.to_list() == second.to_list()
    later = table([2, 5, 1, 4] * 15 + [1.5] * 20, stock=[9] * 80)
    found = [iopea.backtest(each, item(), START, contestants=["order-up-to"], **PLAIN)
             for each in (rows, later)]  # fmt: skip
    np.testing.assert_array_equal(
        *(costs(each, "order-up-to", "nothing more wanted")[:20] for each in found)
    )


def test_what_was_wanted_is_at_least_what_was_sold():
    rows = table([3] * 40, stock=[9] * 40)
    demand = {name: rows[name] for name in ("unique_id", "ds")} | {"demand": [2] * 40}
    with pytest.raises(InputError, match="3 were sold"):
        iopea.backtest(rows, item(), START, demand=demand, contestants=["order-up-to"])
    with pytest.raises(InputError, match="1900 to 2200"):
        iopea.backtest(rows, item(), datetime.date(1, 1, 1), contestants=["order-up-to"])
