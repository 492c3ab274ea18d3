"""Records of simulated shops that contradict the model in known ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from iopea.systems.shop.records import (
    MOST_RECORDS,
    Reading,
    Records,
    consistent_with_model,
    evening_hint,
    explain,
    read,
    tolerance,
)
from iopea.types import Array, Indices

LEAD_TIMES = (0, 1, 2, 5, 10)
SEEDS = range(31)

Law = Callable[[np.random.Generator, int], Array]


def poisson(mean: float) -> Law:
    return lambda rng, n: rng.poisson(mean, n).astype(float)


def exponential(rng: np.random.Generator, n: int) -> Array:
    return rng.exponential(2 / 0.7, n) * (rng.random(n) > 0.3)


def negative_binomial(rng: np.random.Generator, n: int) -> Array:
    return rng.negative_binomial(1, 1 / 1.5, n).astype(float)


LAWS = {
    "poisson": (poisson(4), 4.0, 2.0),
    "exponential": (exponential, 2.0, 2.8),
    "negative binomial": (negative_binomial, 0.5, 0.87),
    "poisson 20": (poisson(20), 20.0, 4.5),
}


@dataclass(frozen=True)
class Shop:
    """A shop that differs from what the problem says about it."""

    lead_time: int
    law: str = "poisson"
    periods: int = 400
    multiple: float = 0.0
    rounding: str = "up"
    evening: bool = False
    skipped: float = 0.0
    tell_gaps: bool = False
    tell: bool = False
    late: int = 0
    scale: float = 1.0
    best: float = 1.05

    def records(self, seed: int) -> tuple[Records, Indices]:
        """Records, and the steps before which periods are missing."""
        rng = np.random.default_rng(seed)
        law, mean, deviation = LAWS[self.law]
        n = self.late + self.periods
        demand = law(rng, n)
        spans = self.lead_time + 1
        best = self.best * (mean * spans + deviation * spans**0.5)
        if self.law != "exponential":
            best = float(round(best))
        level = _levels(best, n, self.law == "exponential")
        rows = self._play(level, demand)
        kept = rng.random(n) >= self.skipped
        kept[: self.late] = False
        kept[self.late] = True
        kept[-1] = True
        steps = np.flatnonzero(kept)
        gap = np.diff(steps, prepend=steps[0] - 1) - 1.0
        level, stock, sales, ordered, received = rows[:, steps] * self.scale
        unknown = np.full(steps.size, np.nan)
        records = Records(
            level,
            stock - sales if self.evening else stock,
            sales,
            ordered if self.tell else unknown,
            received if self.tell else unknown,
            gap if self.tell_gaps else np.zeros(steps.size),
        )
        return records, np.flatnonzero(gap)

    def _play(self, level: Array, demand: Array) -> Array:
        on_hand = 0.0
        under_way = [0.0] * self.lead_time
        rows = []
        for theta, wanted in zip(level.tolist(), demand.tolist(), strict=True):
            order = self._rounded(max(theta - on_hand - sum(under_way), 0.0))
            order = order if order > 1e-12 * theta else 0.0
            under_way.append(order)
            arriving = under_way.pop(0)
            stock = on_hand + arriving
            sales = min(stock, wanted)
            rows.append((theta, stock, sales, order, arriving))
            on_hand = stock - sales
        return np.array(rows).T

    def _rounded(self, order: float) -> float:
        if not self.multiple:
            return order
        cases = order / self.multiple
        rounded = {"up": np.ceil(cases), "down": np.floor(cases), "nearest": np.round(cases)}
        return float(rounded[self.rounding]) * self.multiple


def _levels(best: float, n: int, fractional: bool) -> Array:
    """From twice the best level down to it, as a learner would."""
    level = np.full(n, best)
    for end, factor in ((0.5, 1.1), (0.3, 1.3), (0.15, 1.6), (0.06, 2.0)):
        level[: int(end * n)] = factor * best if fractional else round(factor * best)
    return level


def answer(reading: Reading) -> tuple[int, float, str, bool]:
    multiple = round(reading.multiple, 6)
    return (
        reading.lead_time,
        multiple,
        reading.rounding if multiple else "up",
        reading.evening,
    )


def shops(laws: tuple[str, ...] = tuple(LAWS)[:3], **options: object) -> list[tuple[Shop, int]]:
    """One shop per seed and lead time, of all laws, sizes, levels and starts in turn, with seed."""
    found = []
    for lead_time in LEAD_TIMES:
        for seed in SEEDS:
            shop = Shop(
                lead_time,
                laws[seed % len(laws)],
                periods=(200, 400, 1000)[seed % 5 % 3],
                best=(0.9, 1.05, 1.2)[seed % 7 % 3],
                late=(0, 37)[seed % 2],
            )
            found.append((replace(shop, **options), seed))  # type: ignore[arg-type]
    return found


def share_named(cases: list[tuple[Shop, int]], off: int = 0) -> float:
    """Share of the shops that are read as they are, their lead time told wrong by ``off``."""
    cases = [(shop, seed) for shop, seed in cases if shop.lead_time >= off]
    right = 0
    for shop, seed in cases:
        reading = read(shop.records(seed)[0], shop.lead_time - off, None)
        truth = (shop.lead_time, shop.multiple, shop.rounding, shop.evening)
        right += answer(reading) == truth and reading.missing.size == 0
    return right / len(cases)


@pytest.mark.parametrize("tell", [False, True])
def test_clean_records_are_consistent(tell: bool) -> None:
    for skipped in (0.0, 0.05, 0.3):
        for shop, seed in shops(tell=tell, skipped=skipped, tell_gaps=True):
            records, _ = shop.records(seed)
            assert not consistent_with_model(records, shop.lead_time, None).any()
            assert read(records, shop.lead_time, None).as_told(shop.lead_time)


def test_levels_that_rise_and_fall_are_consistent() -> None:
    rng = np.random.default_rng(5)
    for lead_time in LEAD_TIMES:
        shop = Shop(lead_time)
        level = np.repeat(rng.integers(0, 60, 40), 10).astype(float)
        level, stock, sales, *_ = shop._play(level, rng.poisson(4, level.size).astype(float))
        unknown = np.full(level.size, np.nan)
        records = Records(level, stock, sales, unknown, unknown, np.zeros(level.size))
        assert not consistent_with_model(records, lead_time, 1.0).any()


@pytest.mark.parametrize("tell", [False, True])
@pytest.mark.parametrize("rounding", ["up", "down", "nearest"])
@pytest.mark.parametrize("multiple", [6.0, 12.0, 24.0])
def test_multiples_are_named(multiple: float, rounding: str, tell: bool) -> None:
    laws = ("poisson", "poisson 20")
    cases = shops(laws, multiple=multiple, rounding=rounding, tell=tell)
    # A level below the multiple orders next to nothing, so that there are no deliveries to tell.
    cases = [case for case in cases if case[0].records(case[1])[0].level[-1] >= multiple][::2]
    assert share_named(cases) >= (1.0 if tell else 0.9)


@pytest.mark.parametrize("tell", [False, True])
@pytest.mark.parametrize("off", [1, -1, 2, -2])
def test_another_lead_time_is_named(off: int, tell: bool) -> None:
    assert share_named(shops(tell=tell), off) >= (1.0 if tell else 0.9)


@pytest.mark.parametrize("tell", [False, True])
def test_evening_stock_is_named(tell: bool) -> None:
    assert share_named(shops(evening=True, tell=tell)) >= (1.0 if tell else 0.9)


@pytest.mark.parametrize("tell", [False, True])
@pytest.mark.parametrize("skipped", [0.02, 0.05])
def test_missing_periods_are_named(skipped: float, tell: bool) -> None:
    visible, named, near, found = 0, 0, 0, 0
    for shop, seed in shops(skipped=skipped, tell=tell):
        records, missing = shop.records(seed)
        if not consistent_with_model(records, shop.lead_time, None).any():
            continue  # demand as in the periods around, or none: nothing is to be seen
        reading = read(records, shop.lead_time, None)
        visible += 1
        named += reading.missing.size > 0 and answer(reading) == (shop.lead_time, 0, "up", False)
        found += reading.missing.size
        away = np.abs(reading.missing[:, None] - missing[None, :]).min(axis=1, initial=9999)
        near += int((away <= max(2, shop.lead_time)).sum())
    assert visible > 90
    assert named >= (0.98 if tell else 0.9) * visible
    assert near >= 0.95 * found


def test_a_single_missing_period_is_found_and_told() -> None:
    records, _ = Shop(2, periods=600).records(0)
    less = Records(
        *(
            np.delete(column, 301)
            for column in (
                records.level, records.stock, records.sales, records.ordered, records.received,
                records.gap,
            )
        )
    )  # fmt: skip
    reading = read(less, 2, None)
    assert reading.missing.tolist() == [301]
    assert explain(reading, less, 2) == "A period seems to be missing after step 301."


def test_a_single_wrong_number_is_no_missing_period() -> None:
    records, _ = Shop(5, periods=600).records(0)
    stock = records.stock.copy()
    stock[300] += 3
    reading = read(replace(records, stock=stock), 5, None)
    assert reading.as_told(5)
    assert np.flatnonzero(reading.inconsistent).tolist() == [300, 301]


@pytest.mark.parametrize(
    "shop",
    [
        Shop(3, "poisson 20", multiple=12.0, skipped=0.05, tell_gaps=True),
        Shop(3, evening=True),
        Shop(4, "poisson 20", multiple=6.0, evening=True),
        Shop(4, "exponential", skipped=0.03),
        Shop(4, "poisson 20", multiple=12.0, tell=True, skipped=0.02, evening=True),
    ],
)
def test_pairs_are_read_and_units_do_not_matter(shop: Shop) -> None:
    records, _ = shop.records(1)
    scaled, _ = replace(shop, scale=2.0**20).records(1)
    small, _ = replace(shop, scale=2.0**-20).records(1)
    reading = read(records, 3, None)
    assert answer(reading) == (shop.lead_time, shop.multiple, shop.rounding, shop.evening)
    assert (reading.missing.size > 0) == (shop.skipped > 0 and not shop.tell_gaps)
    for other, scale in ((scaled, 2.0**20), (small, 2.0**-20)):
        again = read(other, 3, None)
        assert again.multiple == reading.multiple * scale
        assert answer(replace(again, multiple=reading.multiple)) == answer(reading)
        np.testing.assert_array_equal(again.missing, reading.missing)
        np.testing.assert_array_equal(again.inconsistent, reading.inconsistent)
        np.testing.assert_array_equal(again.stock, reading.stock * scale)


def test_customers_who_buy_multiples_do_not_make_orders_in_multiples() -> None:
    rng = np.random.default_rng(2)
    level = np.full(400, 60.0)
    level, stock, sales, *_ = Shop(3)._play(level, 6.0 * rng.poisson(1, 400).astype(float))
    unknown = np.full(400, np.nan)
    reading = read(Records(level, stock, sales, unknown, unknown, np.zeros(400)), 2, None)
    assert answer(reading) == (3, 0.0, "up", False)


def test_everything_always_sold_still_tells_the_lead_time() -> None:
    # Deliveries repeat every two periods: only the stock tells a lead time of 1 from one of 3.
    level, stock, sales, *_ = Shop(1)._play(np.full(300, 3.0), np.full(300, 9.0))
    unknown = np.full(300, np.nan)
    records = Records(level, stock, sales, unknown, unknown, np.zeros(300))
    assert not consistent_with_model(records, 1, None).any()
    assert consistent_with_model(records, 3, None).mean() > 0.9
    assert read(records, 3, None).lead_time == 1


def test_explanations_have_the_evidence() -> None:
    def sentence(shop: Shop, lead_time: int) -> str:
        records, _ = shop.records(3)
        return explain(read(records, lead_time, None), records, lead_time) or ""

    assert sentence(Shop(2), 2) == ""
    assert sentence(Shop(3), 2).startswith("Deliveries fit a lead time of 3, not 2: ")
    multiples = sentence(Shop(2, "poisson 20", multiple=12.0), 2)
    assert multiples.startswith("Orders come in multiples of 12, rounded up: ")
    assert "400 of 400 steps" in sentence(Shop(2, evening=True), 2)
    assert " more." in sentence(Shop(2, skipped=0.05), 2)


def test_noise_has_no_usual_reason() -> None:
    records, _ = Shop(2).records(0)
    noise = np.random.default_rng(0).exponential(1.0, len(records))
    records = replace(records, stock=records.stock + noise)
    reading = read(records, 2, None)
    assert reading.as_told(2)
    assert "None of the usual reasons fits" in (explain(reading, records, 2) or "")


def test_long_records_are_read_by_their_end() -> None:
    shop = Shop(3, periods=MOST_RECORDS + 2000, tell=True, skipped=0.01)
    records, missing = shop.records(0)
    reading = read(records, 2, None)
    assert reading.lead_time == 3
    assert reading.inconsistent.size == reading.stock.size == len(records)
    assert reading.missing.min() < len(records) - MOST_RECORDS
    assert np.isin(reading.missing, missing).mean() > 0.9


def test_few_records_or_none_are_read_as_told() -> None:
    records, _ = Shop(3).records(0)
    for periods in (0, 1, 2, 5):
        reading = read(records.last(periods), 2, None)
        assert reading.as_told(2)
    assert read(records.last(0), 2, None).share == 0.0


def test_told_and_tolerance() -> None:
    assert Shop(1, tell=True).records(0)[0].told
    assert not Shop(1).records(0)[0].told
    assert tolerance(np.array([5.0]), None)[0] == pytest.approx(5e-6)
    assert tolerance(np.array([5.0]), 0.5).tolist() == [0.25]


def test_the_hint_says_what_to_give() -> None:
    assert "stock + sales" in evening_hint(3.0, 5.0)
    assert "2 of 3 steps" in evening_hint([1, 1, 9], [2, 2, 2])
