"""What moves demand is found in records that sold out as well, and only where it is there."""

import numpy as np
import pytest

import iopea
from iopea.errors import InputError
from iopea.tables.calendar import Records, fit_calendar, strengths
from iopea.tables.item import items_of
from iopea.tables.outlook import AUTO, check_memory, check_terms, choose_outlook

WEEK = np.array([0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.0])


def censored_records(rng, items=40, days=210, share=0.5, holidays=None):
    """Negative binomial demand with weekdays; about this share of the periods sells out."""
    time = np.arange(float(days))
    off = np.zeros(days) if holidays is None else holidays
    factors = WEEK[(time.astype(int) + 3) % 7] * np.where(off > 0, 1.5, 1.0)
    counts, out = [], []
    for _ in range(items):
        mean, size = rng.uniform(2, 30), rng.uniform(2, 8)
        demand = rng.negative_binomial(size, size / (size + mean * factors)).astype(float)
        stock = rng.choice(np.round(mean * factors * rng.uniform(0.5, 1.6, days)), days)
        counts.append(np.minimum(demand, stock))
        out.append(demand >= stock)
    return Records(
        days * np.arange(items + 1), np.concatenate(counts), np.concatenate(out),
        np.tile(time, items), np.tile(off, items),
    )  # fmt: skip


def test_weekdays_are_found_although_half_the_periods_sold_out():
    records = censored_records(np.random.default_rng(0))
    assert 0.4 < records.censored.mean() < 0.7
    found, _, _ = fit_calendar(records, ("weekday",))
    assert np.abs(found.weekdays / (WEEK / WEEK.mean()) - 1).mean() < 0.05
    # Periods that did not sell out alone would say less than the half of it.
    seen = records.where(~records.censored)
    biased, _, _ = fit_calendar(seen, ("weekday",))
    assert np.ptp(biased.weekdays) < 0.8 * np.ptp(found.weekdays)


def test_holidays_are_found_beside_weekdays():
    rng = np.random.default_rng(1)
    off = (rng.random(210) < 0.1).astype(float)
    found, _, _ = fit_calendar(censored_records(rng, holidays=off), ("weekday", "holiday"))
    effect = found.factors(np.zeros(1), np.ones(1)) / found.factors(np.zeros(1), np.zeros(1))
    assert effect[0] == pytest.approx(1.5, rel=0.08)


def test_a_group_leans_on_the_calendar_of_all_and_items_follow_it_by_a_power():
    rng = np.random.default_rng(2)
    fleet, _, _ = fit_calendar(censored_records(rng), ("weekday",))
    small = censored_records(rng, items=1, days=28)
    alone, _, _ = fit_calendar(small, ("weekday",))
    near, means, sizes = fit_calendar(small, ("weekday",), fleet)
    true = WEEK / WEEK.mean()
    assert np.abs(near.weekdays - true).mean() < np.abs(alone.weekdays - true).mean()
    assert 0.5 < strengths(near, small, means, sizes)[0, 0] < 1.5


def chosen(made, **options):
    sales = iopea.read_sales(made.history, made.items)
    given = {"calendar": AUTO, "memory": AUTO, "forecast": False} | options
    return choose_outlook(list(items_of(sales)), sales.clock, **given)


def test_what_is_not_there_is_not_found():
    for seed in range(3):
        made = iopea.generate_sales(30, 104, seed=seed, trend=0, season=0)
        assert chosen(made).plain


def test_seasons_weekdays_and_drift_are_found():
    assert chosen(iopea.generate_sales(60, 156, seed=3, trend=0)).terms == ("season",)
    days = chosen(iopea.generate_sales(30, 200, "day", seed=3, trend=0, season=0))
    assert days.terms == ("weekday",)
    drifting = chosen(iopea.generate_sales(60, 130, seed=4, trend=1, season=0))
    assert drifting.half_life is not None


def test_what_was_asked_for_is_used():
    made = iopea.generate_sales(10, 60, seed=3)
    found = chosen(made, calendar=check_terms("season"), memory=check_memory("13"))
    assert (found.terms, found.half_life) == (("season",), 13.0)
    assert str(found) == "a calendar (season) and a half-life of 13 weeks"


def test_later_records_change_nothing_that_was_known_before():
    made = iopea.generate_sales(12, 130, seed=6)
    sales = iopea.read_sales(made.history, made.items)
    items = list(items_of(sales))
    cut = items[0].end - 20
    early = [item.before(cut) for item in items]
    asked = choose_outlook(early, sales.clock, ("season",), 26.0, False)
    for item, known in zip(items, early, strict=True):
        assert known.periods.max(initial=cut - 1) < cut
        past, view = asked.view(known)
        assert past.sales.size == view.factors.size == view.weights.size
        ahead = asked.factors(item, cut + np.arange(item.lasts))
        assert view.target == pytest.approx(ahead.mean())


@pytest.mark.parametrize("calendar", ["", "weekday,weekday", "weekdays", "auto,season"])
def test_unknown_terms_are_refused(calendar):
    with pytest.raises(InputError, match="weekday, season, holiday"):
        check_terms(calendar)
