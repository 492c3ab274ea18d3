"""Calendar factors of demand: weekday, season and holidays, pooled over the items of a group.

The mean of item i in period t is m_i f_t, and log f_t is linear in the features of the period: a
weekday, waves of one to three per year, a holiday. The factors and the laws of the items are found
in turn, by the likelihood of all records, those that sold out included: their demand is replaced by
its mean where it is at least what was sold, as in expectation and maximisation. Periods that did
not sell out alone would be a selection by the outcome: where large demand sells out, what is left
is small, and a busy day looks like a quiet one.

A linear trend is estimated beside the factors, so that it is not taken for a season, and left out
of them: what demand is today is a matter of the weights of records.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from iopea.tables.scaled import best_mean, best_size, expected
from iopea.types import Array, Indices, Mask

#: Features that can be asked for.
WEEKDAY, SEASON, HOLIDAY = "weekday", "season", "holiday"
#: Names of weekdays, in the order of their factors.
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: Waves per year, and days of a year.
_WAVES, _YEAR = 3, 365.25
#: Standard deviation of the logarithm of a factor before anything is seen.
_PRIOR = {WEEKDAY: 1.0, SEASON: 0.5, HOLIDAY: 1.0}
_TREND_PRIOR = 0.5
#: How far a group is from the calendar of all, as a share of these.
_APART = 0.5
#: Rounds of the fit; the sizes of the laws are found anew every so many.
_ROUNDS, _EVERY = 36, 12
#: Factors keep between these.
_LEAST, _MOST = 0.02, 50.0
#: How far the power of a factor that an item follows is from 1, at most and usually, and the steps
#: in which it is found.
_POWERS, _POWER_PRIOR, _STEPS = 2.0, 0.5, 8
_MONDAY = 3  # the weekday of day 0 of the epoch was a Thursday


@dataclass(frozen=True)
class Calendar:
    """Factors of the mean of demand.

    Attributes
    ----------
    terms : tuple of str. Which features count: weekday, season, holiday.
    effects : array. Their effects on the logarithm of the mean.
    """

    terms: tuple[str, ...]
    effects: Array

    def logs(self, days: Array, holidays: Array) -> Array:
        """Logarithms of the factors of periods, an array (periods, terms).

        Periods are given by their day since 1970, and how much of a holiday they are.
        """
        found = np.zeros((days.size, len(self.terms)))
        first = 0
        for place, term in enumerate(self.terms):
            columns = features((term,), days, holidays)
            last = first + columns.shape[1]
            found[:, place] = columns @ self.effects[first:last]
            first = last
        return np.clip(found, math.log(_LEAST), math.log(_MOST))

    def factors(self, days: Array, holidays: Array, powers: Array | float = 1.0) -> Array:
        """Factors of periods, each term to its power."""
        found = np.exp((self.logs(days, holidays) * powers).sum(axis=1))
        return np.asarray(np.clip(found, _LEAST, _MOST))

    @property
    def weekdays(self) -> Array | None:
        """Factors of Monday to Sunday, 1 on average."""
        return self.weekdays_of(np.ones(len(self.terms)))

    def weekdays_of(self, powers: Array) -> Array | None:
        """The same for an item that follows the terms by these powers."""
        if WEEKDAY not in self.terms:
            return None
        days = np.arange(7.0) - _MONDAY  # from the Monday before day 0
        place = self.terms.index(WEEKDAY)
        found = np.exp(powers[place] * self.logs(days, np.zeros(7))[:, place])
        return np.asarray(found / found.mean())


def features(terms: Sequence[str], days: Array, holidays: Array) -> Array:
    """The features of periods, one row each.

    >>> features(("weekday",), np.array([1.0, 7.0]), np.zeros(2))  # a Friday and a Thursday
    array([[0., 0., 0., 0., 1., 0.],
           [0., 0., 0., 1., 0., 0.]])
    """
    columns: list[Array] = []
    if WEEKDAY in terms:
        weekday = (days.astype(np.int64) + _MONDAY) % 7
        # Effects add up to 0: Sunday's is minus the sum of the others.
        columns += [(weekday == k) - 1.0 * (weekday == 6) for k in range(6)]
    if SEASON in terms:
        angle = 2 * math.pi * days / _YEAR
        for wave in range(1, _WAVES + 1):
            columns += [np.cos(wave * angle), np.sin(wave * angle)]
    if HOLIDAY in terms:
        columns.append(holidays)
    return np.column_stack(columns) if columns else np.zeros((days.size, 0))


def _priors(terms: Sequence[str]) -> Array:
    """Precision of each effect before anything is seen; that of faster waves is higher."""
    found: list[float] = []
    if WEEKDAY in terms:
        found += [_PRIOR[WEEKDAY] ** -2] * 6
    if SEASON in terms:
        for wave in range(1, _WAVES + 1):
            found += [(wave / _PRIOR[SEASON]) ** 2] * 2
    if HOLIDAY in terms:
        found.append(_PRIOR[HOLIDAY] ** -2)
    return np.array(found)


@dataclass(frozen=True)
class Records:
    """Records of several items, one item after the other.

    Attributes
    ----------
    first : int array (items + 1,). Where the records of each item begin.
    counts : array. Sales as counts.
    censored : bool array.
    days : array. The day since 1970 of each record.
    holidays : array. How much of a holiday it was.
    """

    first: Indices
    counts: Array
    censored: Mask
    days: Array
    holidays: Array

    def where(self, chosen: Mask) -> Records:
        """Some of the records, with all items."""
        kept = np.append(0, np.cumsum(chosen))
        return Records(
            kept[self.first],
            self.counts[chosen],
            self.censored[chosen],
            self.days[chosen],
            self.holidays[chosen],
        )


@njit(cache=True, nogil=True, error_model="numpy")
def _round(first, counts, censored, factors, places, means, sizes, resize, score, info):  # type: ignore[no-untyped-def]
    """One round over all items: their laws, and the sums from which factors are improved."""
    score[:], info[:] = 0.0, 0.0
    for i in range(first.shape[0] - 1):
        one = slice(first[i], first[i + 1])
        number = first[i + 1] - first[i]
        if number == 0:
            continue
        weights = np.ones(number)
        if means[i] <= 0.0:
            means[i] = max(counts[one].sum(), 0.5) / factors[one].sum()
        means[i] = best_mean(
            counts[one], censored[one], factors[one], weights, means[i], sizes[i], 2
        )
        if resize:
            sizes[i] = best_size(counts[one], censored[one], factors[one], weights, means[i])
        told = np.empty(number)
        expected(counts[one], censored[one], factors[one], means[i], sizes[i], told)
        for j in range(number):
            usual = means[i] * factors[first[i] + j]
            trust = 1.0 / (1.0 + usual / sizes[i])
            place = places[first[i] + j]
            score[place] += trust * (told[j] - usual)
            info[place] += trust * usual


def fit_calendar(
    records: Records, terms: Sequence[str], near: Calendar | None = None
) -> tuple[Calendar, Array, Array]:
    """The factors of all records, and the mean at factor 1 and the size of each item.

    With a calendar ``near`` by, that of all groups, effects differ from it only as far as these
    records say so.

    >>> rng = np.random.default_rng(3)
    >>> days = np.arange(140.0)
    >>> mean = 8.0 * np.where((days + 3) % 7 >= 5, 2.0, 1.0)  # twice as much at weekends
    >>> demand = rng.negative_binomial(3, 3 / (3 + np.tile(mean, 20))).astype(float)
    >>> records = Records(140 * np.arange(21), np.minimum(demand, 9), demand >= 9,
    ...                   np.tile(days, 20), np.zeros(2800))
    >>> found, means, sizes = fit_calendar(records, ("weekday",))
    >>> ratio = found.weekdays[5:].mean() / found.weekdays[:5].mean()
    >>> bool(abs(ratio - 2) < 0.15)  # although half of the days sold out
    True
    """
    if not records.counts.size:
        count = records.first.size - 1
        width = features(terms, np.zeros(1), np.zeros(1)).shape[1]
        unknown = near or Calendar(tuple(terms), np.zeros(width))
        return unknown, np.ones(count), np.full(count, 2.0)
    kinds, places = np.unique(
        np.column_stack([records.days, records.holidays]), axis=0, return_inverse=True
    )
    places = places.reshape(-1)
    own = features(terms, kinds[:, 0], kinds[:, 1])
    span = np.ptp(kinds[:, 0]) or 1.0
    trend = (kinds[:, 0] - kinds[:, 0].mean()) / span
    design = np.column_stack([own, trend])
    usual = _priors(terms) * (1.0 if near is None else _APART**-2)
    precision = np.append(usual, _TREND_PRIOR**-2)
    effects = np.zeros(design.shape[1])
    if near is not None:
        effects[:-1] = near.effects
    middle = effects.copy()
    items = records.first.size - 1
    means, sizes = np.zeros(items), np.full(items, 2.0)
    score, info = np.empty(len(kinds)), np.empty(len(kinds))
    for number in range(_ROUNDS):
        each = np.clip(np.exp(design @ effects), _LEAST, _MOST)
        _round(
            records.first, records.counts, records.censored, each[places], places, means, sizes,
            number % _EVERY == 2, score, info,
        )  # fmt: skip
        if not own.shape[1]:
            break
        curved = design.T @ (info[:, None] * design) + np.diag(precision)
        effects = effects + np.linalg.solve(
            curved, design.T @ score - precision * (effects - middle)
        )
    return Calendar(tuple(terms), effects[:-1]), means, sizes


@njit(cache=True, nogil=True, error_model="numpy")
def _strengths(first, counts, censored, logs, means, sizes, found):  # type: ignore[no-untyped-def]
    """The likeliest powers of each item, by Fisher's scoring beside its mean and its trend."""
    terms = logs.shape[1]
    usually = np.ones(terms)
    precision = np.full(terms, _POWER_PRIOR**-2)
    usually[-1], precision[-1] = 0.0, _TREND_PRIOR**-2
    for i in range(first.shape[0] - 1):
        one = slice(first[i], first[i + 1])
        number = first[i + 1] - first[i]
        weights, told = np.ones(number), np.empty(number)
        mean, powers = means[i], found[i]
        for _ in range(_STEPS):
            factors = np.exp(logs[one] @ powers)
            mean = best_mean(counts[one], censored[one], factors, weights, mean, sizes[i], 2)
            expected(counts[one], censored[one], factors, mean, sizes[i], told)
            usual = mean * factors
            trust = 1.0 / (1.0 + usual / sizes[i])
            info = trust * usual
            total = max(info.sum(), 1e-300)
            apart = logs[one].copy()
            for k in range(terms):
                apart[:, k] -= (info * logs[one][:, k]).sum() / total
            curved = np.diag(precision)
            slope = precision * (usually - powers)
            for k in range(terms):
                slope[k] += (trust * (told - usual) * apart[:, k]).sum()
                for m in range(terms):
                    curved[k, m] += (info * apart[:, k] * apart[:, m]).sum()
            powers += np.linalg.solve(curved, slope)
            powers[:] = np.minimum(np.maximum(powers, usually - _POWERS), usually + _POWERS)


def strengths(calendar: Calendar, records: Records, means: Array, sizes: Array) -> Array:
    """How strongly each term of the calendar moves each item: powers of its factors, 1 by default.

    The likeliest ones beside a trend of the item's own, given its records and that it is one of its
    group: (items, terms).

    >>> rng = np.random.default_rng(3)
    >>> days, calendar = np.arange(140.0), Calendar(("weekday",), np.array([-0.3] * 4 + [0.3, 0.9]))
    >>> mean = 40 * calendar.factors(days, days * 0, np.array([0.5]))
    >>> records = Records(np.array([0, 140]), rng.poisson(mean) * 1.0, days < 0, days, days * 0)
    >>> strengths(calendar, records, np.array([40.0]), np.array([50.0])).round(1)
    array([[0.5]])
    """
    if not records.days.size:
        return np.ones((records.first.size - 1, len(calendar.terms)))
    logs = calendar.logs(records.days, records.holidays)
    time = (records.days - records.days.mean()) / (np.ptp(records.days) or 1.0)
    found = np.ones((records.first.size - 1, len(calendar.terms) + 1))
    found[:, -1] = 0.0
    _strengths(
        records.first, records.counts, records.censored, np.column_stack([logs, time]), means,
        sizes, found,
    )  # fmt: skip
    return found[:, :-1]


def day_of(date: datetime.date) -> int:
    """The day since 1970."""
    return (date - datetime.date(1970, 1, 1)).days
