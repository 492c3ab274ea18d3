"""Fitted policies are near the best, say how sure they are, and are the same from any table."""

import numpy as np
import pandas
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import iopea
from iopea.errors import InputError
from iopea.tables.fit import choose
from iopea.tables.item import items_of

FLAT = {"periods": 104, "trend": 0, "season": 0, "policy": "level"}


@pytest.fixture(scope="module")
def made():
    return iopea.generate_sales(60, seed=11, **FLAT)


@pytest.fixture(scope="module")
def plan(made):
    return iopea.fit(made.history, made.items)


def test_the_order_raises_the_position_to_the_level(plan, made):
    rows = plan.table.join(made.items, on="unique_id").filter(pl.col("order").is_not_null())
    assert rows.height == 60
    position = (rows["on_hand"] + rows["on_order"]).to_numpy()
    wanted = np.maximum(rows["level"].to_numpy() - position, 0)
    np.testing.assert_allclose(rows["order"].to_numpy(), wanted)


def true_costs(made, name, levels):
    """Costs per period of levels under the law that made the table."""
    law = made.laws.filter(unique_id=name).row(0, named=True)
    item = made.items.filter(unique_id=name).row(0, named=True)
    shop = iopea.LostSales(
        lead_time=item["lead_time"], holding_cost=1.0, lost_sales_cost=item["lost_sales_cost"],
        levels={"low": 0, "high": max(*levels, law["best"], 1), "step": 1},
    )  # fmt: skip
    truth = iopea.NegativeBinomial(mean=law["scale"], size=law["size"])
    policies = np.array([[level] for level in (*levels, law["best"])])
    return shop.simulator(truth).costs(policies, 20_000, 1, seed=3).mean


def test_fitted_levels_cost_little_more_than_those_that_see_all_demand(plan, made):
    seen = made.history.join(made.truth, on=["unique_id", "ds"]).with_columns(
        sales="demand", stock=1e9
    )
    other = iopea.fit(seen, made.items, calendar="none", memory="none").table
    levels = dict(other.select("unique_id", "level").iter_rows())
    mine, theirs = [], []
    for name, level in plan.table.select("unique_id", "level").iter_rows():
        own, full, best = true_costs(made, name, (level, levels[name]))
        mine.append(own / best - 1)
        theirs.append(full / best - 1)
    # benchmarks/fit_quality.py measures the ratio on many more items.
    assert np.mean(mine) < 2 * np.mean(theirs)
    assert np.mean(mine) < 0.05


def test_flat_histories_are_certified_and_half_levels_cannot_tell(plan):
    assert plan.counts["certified"] > 30
    low = iopea.generate_sales(40, seed=12, low=0.45, high=0.5, **FLAT)
    found = iopea.fit(low.history, low.items, calendar="none", memory="none").table
    rows = found.join(low.laws, on="unique_id").filter(pl.col("level") > 0)
    far = rows.filter(pl.col("judged_up_to") < 0.9 * pl.col("best"))
    assert far.height > 20
    assert (far["verdict"] == "can't tell").mean() >= 0.95
    assert (far["try_level"] > far["judged_up_to"]).all()


def test_the_interval_and_the_survivors_hold_what_is_true(plan, made):
    outside = lost = 0
    for row in plan.table.iter_rows(named=True):
        own, _ = true_costs(made, row["unique_id"], (row["level"],))
        outside += not row["cost_low"] <= own <= row["cost_high"]
        level = made.laws.filter(unique_id=row["unique_id"])["best"][0]
        lost += not row["surviving_low"] <= level <= row["surviving_high"]
        assert row["cost_low"] < row["expected_cost"] < row["cost_high"]
    assert outside <= 6  # of 60, at 5 %
    assert lost <= 3


def test_stock_that_knows_of_demand_gets_no_certificate():
    """More stock was there whenever more was wanted."""
    made = iopea.generate_sales(40, seed=13, **FLAT)
    rng = np.random.default_rng(0)
    rows = made.history.join(made.truth, on=["unique_id", "ds"])
    stock = np.round(rows["demand"] * rng.uniform(0.6, 1.6, rows.height)) + 1
    told = rows.select(
        "unique_id", "ds", pl.min_horizontal("demand", pl.Series(stock)).alias("sales")
    ).with_columns(pl.Series("stock", stock))
    found = iopea.fit(told, made.items, calendar="none", memory="none")
    busy = found.table.join(made.laws, on="unique_id").filter(pl.col("kind") != "slow")
    assert (busy["verdict"] != "certified").mean() >= 0.9


def test_what_rests_on_a_calendar_is_only_plausible(made):
    some = made.items.head(12)
    for used in ({"calendar": "season"}, {"memory": 20}):
        found = iopea.fit(made.history, some, **({"calendar": "none", "memory": "none"} | used))
        assert "certified" not in found.counts
        assert found.table["reason"].str.contains("it depends on|stock was|only").all()


def test_every_format_order_and_number_of_workers_gives_the_same_plan(made, plan, tmp_path):
    made.history.write_csv(tmp_path / "h.csv")
    made.history.write_parquet(tmp_path / "h.parquet")
    made.items.write_csv(tmp_path / "i.csv")
    shuffled = made.history.sample(fraction=1.0, shuffle=True, seed=1)
    frame = pandas.DataFrame(made.history.to_dict(as_series=False))
    for history, items, workers in (
        (tmp_path / "h.csv", tmp_path / "i.csv", 1),
        (tmp_path / "h.parquet", made.items, 2),
        (shuffled, made.items.reverse(), 1),
        (frame, made.items, 1),
    ):
        assert_frame_equal(iopea.fit(history, items, workers=workers).table, plan.table)


def test_one_bad_item_never_stops_the_rest(made, plan):
    rows = made.history.with_columns(
        sales=pl.when(pl.col("unique_id") == "item-07").then(-1.0).otherwise("sales")
    )
    items = made.items.with_columns(
        lead_time=pl.when(pl.col("unique_id") == "item-09").then(1.5).otherwise("lead_time")
    )
    found = iopea.fit(rows, items)
    assert set(found.refused) == {"item-07", "item-09"}
    assert "no period tells anything" in found.refused["item-07"]
    assert "1.5" in found.refused["item-09"]
    left = ~pl.col("unique_id").is_in(["item-07", "item-09"])
    assert_frame_equal(found.table.filter(left), plan.table.filter(left))


def test_an_earlier_convention_counts_one_period_less(made):
    late = made.items.with_columns(pl.col("lead_time") + 1)
    plain = {"calendar": "none", "memory": "none"}
    same = iopea.fit(made.history, late, sold_from="t+L", **plain)
    wanted = iopea.fit(made.history, made.items, **plain)
    assert_frame_equal(same.table, wanted.table)
    found = iopea.fit(made.history, made.items, sold_from="t+L", **plain)
    none = made.items.filter(lead_time=0)["unique_id"].to_list()
    assert none
    assert sorted(found.refused) == none
    assert "lead time of 1" in found.refused[none[0]]


def test_a_forecast_is_followed():
    """Demand is twice the forecast, and the next weeks are forecast to be ten times the last."""
    rng = np.random.default_rng(0)
    forecast = np.tile([4.0, 8.0, 12.0], 30)
    demand = rng.poisson(2 * forecast).astype(float)
    days = pl.date_range(
        pl.date(2024, 1, 1), pl.date(2024, 1, 1) + pl.duration(days=92), eager=True
    )
    rows = {
        "unique_id": ["a"] * 93, "ds": days, "sales": [*demand, None, None, None],
        "stock": [1e4] * 90 + [None] * 3, "forecast": [*forecast, 80.0, 80.0, 80.0],
    }  # fmt: skip
    items = {"unique_id": ["a"], "lead_time": [1], "holding_cost": [1], "lost_sales_cost": [9]}
    found = iopea.fit(rows, items)
    assert "forecasts" in str(found.outlook)
    assert 300 < found.table["level"][0] < 400  # two days of 160, and some more
    without = iopea.fit(rows, items, forecast=False, calendar="none", memory="none")
    assert without.table["level"][0] < 60
    short = {name: column[:91] for name, column in rows.items()}
    assert "no forecast" in iopea.fit(short, items).refused["a"]
    for odd, words in (([0.0] * 90, "all 0"), ([1e-4] * 90, "at most 100 times")):
        refused = iopea.fit({**rows, "forecast": [*odd, 4.0, 4.0, 4.0]}, items).refused
        assert words in refused["a"]
    with pytest.raises(InputError, match="leave one of them out"):
        iopea.fit(rows, items, calendar="weekday")


def test_items_with_few_records_borrow_from_their_group():
    made = iopea.generate_sales(120, seed=14, **FLAT)
    usual = made.laws.filter(kind="usual")["unique_id"].to_list()
    young = usual[::4]
    late = made.history["ds"].unique().sort()[-11]
    rows = made.history.filter(
        pl.col("unique_id").is_in(usual)
        & (~pl.col("unique_id").is_in(young) | (pl.col("ds") >= late))
    )
    items = made.items.with_columns(group=pl.lit("all"))
    costs = {}
    for borrow in (True, False):
        found = iopea.fit(rows, items, calendar="none", memory="none", borrow=borrow)
        extra = []
        for name, level in found.table.select("unique_id", "level").iter_rows():
            if name in young:
                own, best = true_costs(made, name, (level,))
                extra.append(own / best)
        costs[borrow] = np.mean(extra)
        told = found.table.filter(pl.col("unique_id").is_in(young))["reason"].fill_null("")
        assert told.str.contains("borrowed").any() == borrow
    assert costs[True] < costs[False]


@pytest.mark.parametrize("family", ["s-S", "capped-base-stock"])
def test_richer_families_cost_no_more_by_estimate(made, family):
    items = made.items.head(4).with_columns(fixed_order_cost=pl.lit(40.0))
    plain = {"calendar": "none", "memory": "none"}
    base = iopea.fit(made.history, items, **plain).table["expected_cost"].to_numpy()
    rich = iopea.fit(made.history, items, family=family, **plain).table
    assert (rich["expected_cost"].to_numpy() <= 1.01 * base).all()
    if family == "s-S":
        assert (rich["expected_cost"].to_numpy() / base).min() < 0.95


def test_young_groups_and_empty_cells_of_pandas_stop_nobody(made, plan):
    young = {"unique_id": ["new"] * 3, "ds": made.history["ds"].unique().sort()[-3:],
             "sales": [3.0] * 3, "stock": [9.0] * 3}  # fmt: skip
    rows = pl.concat([made.history.select(*young), pl.DataFrame(young)])
    about = pl.DataFrame({"unique_id": ["new"], "lead_time": [1], "holding_cost": [1.0],
                          "lost_sales_cost": [9.0], "group": ["own"]})  # fmt: skip
    items = pl.concat([made.items.select(about.columns).cast(about.schema), about])
    for calendar in ("season", "auto"):
        found = iopea.fit(rows, items, calendar=calendar)
        assert not found.refused
        assert found.table.height == 61
    frame = pandas.DataFrame(made.items.to_dict(as_series=False)).assign(minimum_order=np.nan)
    history = pandas.DataFrame(made.history.to_dict(as_series=False)).assign(received=np.nan)
    assert_frame_equal(iopea.fit(history, frame).table, plan.table)


def one_item(sales, stock, **about):
    """A plan for one item with weekly records."""
    first = pl.date(2020, 1, 6)
    days = pl.date_range(first, first + pl.duration(weeks=len(sales) - 1), "1w", eager=True)
    rows = {"unique_id": ["a"] * len(sales), "ds": days, "sales": sales, "stock": stock}
    given = {"lead_time": 1, "holding_cost": 1.0, "lost_sales_cost": 9.0} | about
    family = given.pop("family", "base-stock")
    items = {"unique_id": ["a"], **{name: [value] for name, value in given.items()}}
    plain = {"calendar": "none", "memory": "none"}
    return iopea.fit(rows, items, family=family, **plain).table.row(0, named=True)


@pytest.mark.parametrize(
    ("about", "least", "most", "cost"),
    [
        ({"minimum_order": 30}, 45, 51, 20),
        ({"order_multiple": 50}, 62, 71, 27),
        ({"family": "capped-base-stock", "minimum_order": 30}, 45, 51, 20),
        ({"family": "capped-base-stock", "order_multiple": 50}, 62, 71, 27),
        ({"family": "s-S", "fixed_order_cost": 100.0}, 11, 18, 48),
    ],
    ids=str,
)
def test_ranges_reach_as_far_as_large_orders_need(about, least, most, cost):
    demand = np.random.default_rng(0).poisson(10, 150)
    row = one_item(demand, [200] * 150, **about)
    name = "reorder_level" if about.get("family") == "s-S" else "level"
    assert least <= row[name] <= most
    assert row["expected_cost"] < cost


@pytest.mark.parametrize("lead_time", [0, 1, 2, 3, 10])
def test_what_was_in_force_can_be_judged_and_is_not_advised_again(lead_time):
    rng, verdicts = np.random.default_rng(1), []
    for level in (8 * (lead_time + 1), 13 * (lead_time + 1) + 4):
        coming, on_hand, told = [0.0] * lead_time, 0.0, []
        for wanted in rng.poisson(10, 300):
            coming.append(level - on_hand - sum(coming))
            stock = on_hand + coming.pop(0)
            told.append((min(stock, wanted), stock))
            on_hand = stock - told[-1][0]
        row = one_item(*zip(*told, strict=True), lead_time=lead_time, level=float(level))
        verdicts.append(row["verdict"])
        assert row["judged_up_to"] >= 0.9 * level
        if row["try_level"] is not None:
            assert row["try_level"] > level
    assert verdicts == ["can't tell", "certified"]


@pytest.mark.parametrize(
    "about", [{"level": 1e5}, {"high": 1e6}, {"low": 0.0, "high": 1e9, "step": 1.0}], ids=str
)
def test_neither_todays_level_nor_a_wide_range_changes_the_best_level(about):
    demand = np.random.default_rng(0).poisson(4, 60)
    plain = one_item(demand, [30] * 60, lead_time=0)
    found = one_item(demand, [30] * 60, lead_time=0, **about)
    for name in ("level", "expected_cost", "surviving_low", "surviving_high"):
        assert found[name] == plain[name]


def operated(levels, demand, lead_time, review):
    """Mean cost per period of levels that are ordered up to every few periods."""
    on_hand, coming, cost = np.zeros(levels.size), np.zeros((lead_time, levels.size)), 0.0
    for period, wanted in enumerate(demand):
        due = on_hand + coming.sum(axis=0)
        order = np.maximum(levels - due, 0.0) * (period % review == 0)
        coming = np.vstack([coming, order])
        stock = on_hand + coming[0]
        coming, on_hand = coming[1:], np.maximum(stock - wanted, 0.0)
        cost = cost + on_hand + 9.0 * np.maximum(wanted - stock, 0.0)
    return cost / demand.size


@pytest.mark.parametrize(
    ("lead_time", "review"), [(1, 5), (1, 7), (0, 14), (1, 30), (60, 1), (200, 1)]
)
def test_long_reviews_and_lead_times_get_a_level_near_the_best(lead_time, review):
    """Stock was plentiful: nothing keeps the level from the best one."""
    rng = np.random.default_rng(0)
    row = one_item(rng.poisson(5, 365), [1000] * 365, lead_time=lead_time, review_period=review)
    assert row["verdict"] == "certified"
    assert row["surviving_low"] <= row["level"] <= row["surviving_high"]
    levels = np.arange(row["surviving_low"], row["surviving_high"] + 1)
    costs = operated(levels, rng.poisson(5, 12_600), lead_time, review)
    assert costs[levels == row["level"]][0] < 1.04 * costs.min()


def test_a_certificate_says_no_more_than_records_do():
    rng = np.random.default_rng(3)
    lumps = np.where(rng.random(150) < 0.1, 40, 3)
    row = one_item(np.minimum(lumps, 5), [5] * 150, lead_time=0, lost_sales_cost=1.0)
    assert row["verdict"] == "plausible"
    assert "wanted than was ever in stock" in row["reason"]
    assert "too few" in one_item([4, 6, 0, 3], [10, 6, 0, 12])["reason"]


def test_small_error_rates_and_high_confidence_count(made):
    some = {"history": made.history, "items": made.items.head(8), "calendar": "none",
            "memory": "none"}  # fmt: skip
    wide = [iopea.fit(**some, delta=delta).table for delta in (0.05, 0.01, 1e-4)]
    spans = [(each["surviving_high"] - each["surviving_low"]).sum() for each in wide]
    assert spans[0] < spans[1] < spans[2]
    sure = [iopea.fit(**some, level=level).table for level in (0.95, 0.99, 0.999)]
    spans = [(each["cost_high"] - each["cost_low"]).sum() for each in sure]
    assert spans[0] < spans[1] < spans[2]


@pytest.mark.parametrize(
    ("about", "level"),
    [({"high": 0.0}, 0), ({"high": 10.5}, 10), ({"low": 3.0, "high": 4.0, "step": 5.0}, 3),
     ({"high": 20.0, "step": 7.0}, 14), ({"high": 10.0, "level": 30.0}, 10)],
    ids=str,
)  # fmt: skip
def test_a_range_is_never_exceeded(about, level):
    row = one_item(
        np.random.default_rng(0).poisson(5, 200), [40] * 200, lost_sales_cost=99.0, **about
    )
    assert row["level"] == row["surviving_high"] == level
    assert row["try_level"] is None


def test_items_whose_records_ended_long_ago_are_not_certified(made):
    last = made.history["ds"].unique().sort()[-9]
    old = pl.col("unique_id") == "item-03"
    rows = made.history.filter(~old | (pl.col("ds") <= last))
    found = iopea.fit(rows, made.items, calendar="none", memory="none", borrow=False)
    row = found.table.filter(old).row(0, named=True)
    assert row["verdict"] != "certified"
    assert "8 weeks older" in row["reason"]


def test_a_calendar_says_what_it_lacks(made):
    with pytest.raises(InputError, match="no column 'holiday'"):
        iopea.fit(made.history, made.items, calendar="holiday")
    short = made.history.filter(pl.col("ds") < made.history["ds"].unique().sort()[60])
    remarks = iopea.fit(short, made.items, calendar="season").sales.remarks
    assert ["1.1 years" in remark for remark in remarks] == [True]


def test_young_items_of_unlike_groups_are_what_their_own_records_say():
    """No groups are given, and means are 5, 20 and 60: that of the young one is 1, or 200."""
    rng, days = np.random.default_rng(8), pl.date_range(
        pl.date(2024, 1, 1), pl.date(2024, 6, 30), eager=True
    )  # fmt: skip
    for mean in (1, 200):
        parts = [("young", rng.poisson(mean, 25), 400)]
        parts += [(f"old-{k}", rng.poisson([5, 20, 60][k % 3], 180), 120) for k in range(12)]
        rows = pl.concat(
            pl.DataFrame({"unique_id": name, "ds": days[-sold.size :], "sales": sold, "stock": 400})
            for name, sold, _ in parts
        )
        items = {"unique_id": [name for name, *_ in parts], "lead_time": [0] * 13,
                 "holding_cost": [1] * 13, "lost_sales_cost": [9] * 13}  # fmt: skip
        found = iopea.fit(rows, items, calendar="none", memory="none").table
        young = found.filter(unique_id="young").row(0, named=True)
        assert "borrowed" in young["reason"]
        assert abs(young["mean_demand"] / parts[0][1].mean() - 1) < 0.15


def test_weekdays_of_an_item_may_be_the_opposite_of_its_group():
    rng = np.random.default_rng(4)
    busy = np.array([0.6, 0.7, 0.8, 0.9, 1.0, 1.4, 1.6])
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 7, 28), eager=True)  # to a Sunday
    rows = pl.concat(
        pl.DataFrame({
            "unique_id": name, "ds": days, "stock": 400,
            "sales": rng.poisson(20 * np.resize(week, days.len())),
        })
        for name, week in [*((f"one-{k}", busy) for k in range(6)), ("other", busy[::-1])]
    )  # fmt: skip
    names = rows["unique_id"].unique().to_list()
    items = {"unique_id": names, "lead_time": [0] * 7, "holding_cost": [1] * 7,
             "lost_sales_cost": [9] * 7}  # fmt: skip
    found = dict(iopea.fit(rows, items, calendar="weekday").table.select(
        "unique_id", "mean_demand").iter_rows())  # fmt: skip
    assert found["one-0"] == pytest.approx(12, rel=0.15)  # of a Monday
    assert found["other"] == pytest.approx(32, rel=0.15)


def test_items_of_a_million_units_a_day_are_fitted_like_others():
    """Counting them one by one would take hours."""
    rng = np.random.default_rng(0)
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 3, 31), eager=True)
    parts = [(f"item-{k}", np.round(rng.gamma(3, 20, 20 if k == 0 else 91))) for k in range(7)]
    items = {"unique_id": [name for name, _ in parts], "lead_time": 1, "holding_cost": 1,
             "lost_sales_cost": 9}  # fmt: skip
    items = {name: each if isinstance(each, list) else [each] * 7 for name, each in items.items()}
    levels = {}
    for times in (1, 50_000):
        rows = pl.concat(
            pl.DataFrame({
                "unique_id": name, "ds": days[-demand.size :], "stock": 90.0 * times,
                "sales": np.minimum(demand, 90) * times,
            })
            for name, demand in parts
        )  # fmt: skip
        found = iopea.fit(rows, items, calendar="weekday", memory=60).table
        levels[times] = found["level"].to_numpy()
    np.testing.assert_allclose(levels[50_000] / 50_000, levels[1], rtol=0.06)


def test_a_range_above_all_stock_is_no_error():
    for about in ({}, {"level": 8.0}):  # the level in force can be judged, and is no candidate
        row = one_item([4, 3, 5] * 20, [10] * 60, low=1000.0, **about)
        assert (row["level"], row["verdict"]) == (1000, "can't tell")


def test_stock_is_raised_step_by_step():
    sold = [4, 0] * 75
    row = one_item(sold, sold)
    assert row["verdict"] == "can't tell"
    assert 8 <= row["level"] <= 16  # twice what was sold, in each of two periods


def test_one_period_or_no_sales_at_all_are_no_error():
    items = {"unique_id": ["a", "b"], "lead_time": 1, "holding_cost": 1, "lost_sales_cost": 9}
    items = {
        name: [value] * 2 if isinstance(value, int) else value for name, value in items.items()
    }
    rows = {
        "unique_id": ["a"] + ["b"] * 30, "sales": [3] + [0] * 30, "stock": [9] * 31,
        "ds": pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, 31), eager=True),
    }  # fmt: skip
    found = iopea.fit(rows, items).table
    assert found["verdict"].to_list() == ["can't tell", "plausible"]
    assert found["level"][1] <= 1
    assert found["reason"].str.contains("is 1 period, too few|only 0 periods").all()


def test_the_cost_of_a_choice_is_that_of_its_simulation(made):
    sales = iopea.read_sales(made.history, made.items)
    choice = choose(next(items_of(sales)), "base-stock")
    costs = choice.shop.costs(choice.path[None], choice.net)[0]
    best = choice.shop.costs(choice.path[None], choice.policy[None])[0, 0]
    assert best <= costs.min()
    stock, sold, _ = choice.shop.operate(choice.policy, np.tile(choice.path, 3))
    terms = choice.shop.system.terms
    by_hand = (terms.holding * (stock - sold) - terms.lost * sold)[-choice.path.size :].mean()
    assert by_hand == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"family": "base"}, "base"),
        ({"family": "dual-index"}, "one supplier"),
        ({"calendar": "weekdays"}, "weekdays"),
        ({"memory": "long"}, "long"),
        ({"memory": 0}, "memory"),
        ({"delta": 1}, "delta"),
        ({"level": "x"}, "level"),
        ({"workers": -1}, "workers"),
        ({"sold_from": "t"}, "t"),
        ({"frequency": "hour"}, "hour"),
        ({"columns": {"sales": "qty"}}, "qty"),
    ],
)
def test_wrong_arguments_get_a_sentence(made, wrong, words):
    with pytest.raises(InputError, match=words):
        iopea.fit(made.history, made.items, **wrong)


def test_plans_are_written_whole_by_their_ending(plan, tmp_path):
    for name in ("plan.csv", "plan.parquet", "plan.arrow"):
        plan.write(tmp_path / name)
    assert_frame_equal(pl.read_parquet(tmp_path / "plan.parquet"), plan.table)
    assert pl.read_csv(tmp_path / "plan.csv").columns == plan.table.columns
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "plan.arrow", "plan.csv", "plan.parquet",
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"plan\.xlsx"):
        plan.write(tmp_path / "plan.xlsx")


def test_an_item_is_drawn(plan, tmp_path):
    iopea.draw_item(plan, "item-03", tmp_path / "item.png")
    assert (tmp_path / "item.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(InputError, match="no item 'none'"):
        iopea.draw_item(plan, "none", tmp_path / "item.png")
    with pytest.raises(InputError, match=r"item\.txt"):
        iopea.draw_item(plan, "item-03", tmp_path / "item.txt")


def test_holidays_to_come_that_are_not_known_are_said():
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 3, 31), eager=True)
    rows = {
        "unique_id": ["a"] * 91, "ds": days, "sales": [4, 6, 5, 5, 4, 6, 5] * 13, "stock": 50,
        "holiday": ([0] * 12 + [1]) * 7,
    }  # fmt: skip
    items = {"unique_id": ["a"], "lead_time": [1], "holding_cost": [1], "lost_sales_cost": [9]}
    remarks = iopea.fit(pl.DataFrame(rows), items, calendar="holiday").sales.remarks
    assert len(remarks) == 1
    assert "1 item lacks rows" in remarks[0]
    assert "'a'" in remarks[0]
    assert not iopea.fit(pl.DataFrame(rows), items, calendar="none").sales.remarks
    later = pl.date_range(pl.date(2024, 4, 1), pl.date(2024, 4, 2), eager=True)
    ahead = pl.DataFrame({"unique_id": ["a"] * 2, "ds": later, "holiday": [0, 0]})
    told = pl.concat([pl.DataFrame(rows), ahead], how="diagonal_relaxed")
    assert not iopea.fit(told, items, calendar="holiday").sales.remarks
