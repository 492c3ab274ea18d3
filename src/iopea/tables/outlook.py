"""How demand moves in time, for all items of a table: calendar, memory, forecasts.

Demand of a period is that of the item's law at the period's factor, from a calendar that items of a
group share, or from a forecast. Older records may weigh less: by half after a half-life. What is
used is chosen by looking back: on the last part of the history, block by block, the laws fitted to
what came before are scored by the likelihood of what came next, sold out or not. Plain laws are
left only for a gain that is more than noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from iopea.errors import InputError
from iopea.model import check_positive
from iopea.tables.calendar import (
    HOLIDAY,
    SEASON,
    WEEKDAY,
    Calendar,
    Records,
    fit_calendar,
    strengths,
)
from iopea.tables.item import Item, Timeline
from iopea.tables.reading import Clock, Frequency
from iopea.tables.scaled import score_each
from iopea.types import Array, Indices

AUTO, NONE = "auto", "none"
#: Periods of a year, and half-lives that are tried, by frequency.
_YEAR: dict[Frequency, float] = {"day": 365.25, "week": 365.25 / 7, "month": 12.0}
_HALF_LIVES: dict[Frequency, tuple[float, ...]] = {
    "day": (28.0, 90.0, 365.0), "week": (13.0, 26.0, 52.0), "month": (6.0, 12.0, 24.0),
}  # fmt: skip
#: Fewest periods and years of a history from which a calendar and a season are looked for.
_FEWEST, SEASON_YEARS = 24, 1.5
#: The share of the history that is predicted, in so many blocks; items of a group, and of all
#: groups, that are looked at.
_TESTED, _BLOCKS, _PER_GROUP, _MOST_ITEMS = 0.4, 4, 24, 160
#: Most records of all of them.
_MOST_RECORDS = 20_000
#: Standard errors by which something must predict better than a plain law; and than what is
#: not plain either.
_GAIN, _MORE = 1.64, 0.5
#: Least factor of a forecast, as a share of the mean of the item's forecasts, and the highest one
#: ahead.
_LEAST_FORECAST, _MOST_AHEAD = 0.1, 100.0


@dataclass(frozen=True)
class View:
    """The records of an item as an order of tonight sees them.

    Attributes
    ----------
    factors : array, optional. Of each record; None where all are 1.
    target : float. The mean factor of the periods for which the order must last.
    weights : array, optional. Of each record; None where all are 1.
    """

    factors: Array | None
    target: float
    weights: Array | None


#: All records count alike.
PLAIN = View(None, 1.0, None)


@dataclass(frozen=True)
class Outlook:
    """What is taken from calendar, memory and forecasts.

    Attributes
    ----------
    clock : Clock. When periods begin.
    terms : tuple of str. Terms of the calendar: weekday, season, holiday.
    half_life : float, optional. Periods after which a record weighs half as much.
    forecast : bool. Whether demand is that of a law times the forecast.
    calendars : dict. The calendar of each group, near that of all items unless it knows better.
    powers : dict. How strongly each item follows each term of its group's calendar.
    """

    clock: Clock
    terms: tuple[str, ...] = ()
    half_life: float | None = None
    forecast: bool = False
    calendars: Mapping[str | None, Calendar] | None = None
    powers: Mapping[str, Array] | None = None

    @property
    def plain(self) -> bool:
        """Whether all periods are taken to be alike."""
        return not (self.terms or self.half_life or self.forecast)

    @property
    def year(self) -> float:
        """Periods of a year."""
        return _YEAR[self.clock.frequency]

    def __str__(self) -> str:
        used = [f"a calendar ({', '.join(self.terms)})"] * bool(self.terms)
        used += ["forecasts"] * self.forecast
        if self.half_life is not None:
            used.append(f"a half-life of {self.half_life:g} {self.clock.frequency}s")
        return " and ".join(used) or "one law for all periods"

    def factors(self, item: Item, periods: Indices) -> Array:
        """Factors of periods of an item, past or to come; NaN where there is no forecast."""
        line = item.timeline
        if self.forecast:
            if line is None:
                return np.full(periods.size, np.nan)
            usual = _usual_forecast(line, item.end)
            made = line.at(line.forecasts, periods, np.nan)
            return np.maximum(made, max(_LEAST_FORECAST * usual, 1e-9))
        calendar = (self.calendars or {}).get(item.group)
        if calendar is None:
            return np.ones(periods.size)
        days = self.clock.days(periods)
        holidays = np.zeros(periods.size)
        if line is not None:
            holidays = line.at(line.holidays, periods, 0.0)
        return calendar.factors(days, holidays, (self.powers or {}).get(item.name, 1.0))

    def weekdays(self, item: Item) -> Array | None:
        """Factors of Monday to Sunday, 1 on average, if the calendar has any."""
        calendar = (self.calendars or {}).get(item.group)
        if calendar is None:
            return None
        return calendar.weekdays_of((self.powers or {}).get(item.name, np.ones(len(self.terms))))

    def weights(self, item: Item) -> Array | None:
        """Weights of the records tonight."""
        if self.half_life is None:
            return None
        return np.asarray(0.5 ** ((item.end - item.periods) / self.half_life))

    def view(self, item: Item) -> tuple[Item, View]:
        """An item and its records as an order of tonight sees them.

        Records without a forecast tell nothing, and are left out.
        """
        if self.plain:
            return item, PLAIN
        factors = None
        target = 1.0
        if self.forecast or self.terms:
            ahead = self.factors(item, item.end + 1 + np.arange(item.lasts))
            if not np.isfinite(ahead).all():
                raise InputError(
                    f"there is no forecast for each of the next {item.lasts} periods: give them, "
                    "or leave forecasts out."
                )
            target = float(ahead.mean())
            if self.forecast and item.timeline is not None:
                _check_forecasts(_usual_forecast(item.timeline, item.end), target)
            factors = self.factors(item, item.periods)
            told = np.isfinite(factors)
            if not told.all():
                item, factors = _some(item, told), factors[told]
        return item, View(factors, target, self.weights(item))

    def fitted(self, items: Iterable[Item]) -> Outlook:
        """The same with calendars of all records of these items."""
        if not self.terms:
            return self
        groups: dict[str | None, list[Item]] = {}
        for item in items:
            groups.setdefault(item.group, []).append(item)
        fleet = None
        if len(groups) > 1:
            every = [item for some in groups.values() for item in some]
            fleet = fit_calendar(records_of(every, self.clock), self.terms)[0]
        found: dict[str | None, Calendar] = {}
        powers: dict[str, Array] = {}
        for name, some in groups.items():
            records = records_of(some, self.clock)
            found[name], means, sizes = fit_calendar(records, self.terms, fleet)
            each = strengths(found[name], records, means, sizes)
            powers |= dict(zip((item.name for item in some), each, strict=True))
        return replace(self, calendars=found, powers=powers)


def _usual_forecast(line: Timeline, end: int) -> float:
    """The mean forecast of the periods up to one of them; 0 if there is none."""
    past = line.forecasts[: max(end + 1 - line.first, 0)]
    return float(np.nanmean(past)) if np.isfinite(past).any() else 0.0


def _check_forecasts(usual: float, target: float) -> None:
    """Refuse forecasts with which nothing can be compared."""
    if not usual > 0:
        raise InputError(
            "its forecasts of past periods are all 0 or unknown: give them, or leave forecasts out."
        )
    if target > _MOST_AHEAD * usual:
        raise InputError(
            f"its forecast of the next periods is {target:g}, and those of the past are "
            f"{usual:g} on average: give one that is at most {_MOST_AHEAD:g} times as high."
        )


def _some(item: Item, told: Array) -> Item:
    stock = None if item.stock is None else item.stock[told]
    return replace(
        item, sales=item.sales[told], censored=item.censored[told], periods=item.periods[told],
        stock=stock,
    )  # fmt: skip


def records_of(items: Sequence[Item], clock: Clock) -> Records:
    """The records of items, one item after the other."""
    sizes = [item.sales.size for item in items]
    holidays = [
        np.zeros(item.sales.size)
        if item.timeline is None
        else item.timeline.at(item.timeline.holidays, item.periods, 0.0)
        for item in items
    ]
    return Records(
        np.append(0, np.cumsum(sizes)),
        np.concatenate([item.counts for item in items]),
        np.concatenate([item.censored for item in items]),
        np.concatenate([clock.days(item.periods) for item in items]),
        np.concatenate(holidays),
    )


def check_terms(calendar: str) -> str | tuple[str, ...]:
    """``auto``, ``none``, or terms of a calendar separated by commas."""
    if calendar in (AUTO, NONE):
        return calendar
    known = (WEEKDAY, SEASON, HOLIDAY)
    terms = tuple(filter(None, map(str.strip, str(calendar).split(","))))
    if not terms or set(terms) - set(known) or len(set(terms)) < len(terms):
        raise InputError(
            f"calendar is {calendar!r}: give auto, none, or some of {', '.join(known)}, "
            "separated by commas."
        )
    return tuple(term for term in known if term in terms)


def check_memory(memory: object) -> str | float:
    """``auto``, ``none``, or a half-life in periods."""
    if memory is None:
        return NONE
    if memory in (AUTO, NONE):
        return str(memory)
    if isinstance(memory, str):
        try:
            memory = float(memory)
        except ValueError:
            raise InputError(
                f"memory is {memory!r}: give auto, none, or a half-life in periods."
            ) from None
    if not check_positive("memory", memory) >= 1:
        raise InputError(f"memory is {memory}: give a half-life of at least one period.")
    return check_positive("memory", memory)


def choose_outlook(
    items: Sequence[Item],
    clock: Clock,
    calendar: str | tuple[str, ...],
    memory: str | float,
    forecast: bool,
) -> Outlook:
    """The outlook for items: what was asked for, or what predicted best.

    With forecasts there is no calendar of one's own.
    """
    asked = Outlook(
        clock,
        () if isinstance(calendar, str) or forecast else calendar,
        None if isinstance(memory, str) else memory,
        forecast,
    )
    options_of_terms = [asked.terms]
    some = [item for item in _sample(items) if item.sales.size]
    length = _span(some)
    if calendar == AUTO and not forecast and length >= _FEWEST:
        known = terms_of(some, clock)
        options_of_terms = [
            tuple(chosen) for size in range(len(known) + 1) for chosen in combinations(known, size)
        ]
    half_lives = [asked.half_life]
    if memory == AUTO and length >= _FEWEST:
        half_lives = [None, *(each for each in _HALF_LIVES[clock.frequency] if each < length)]
    if len(options_of_terms) * len(half_lives) > 1:
        asked = _best(some, asked, options_of_terms, half_lives)
    return asked.fitted(items)


def _span(items: Sequence[Item]) -> int:
    if not items:
        return 0
    return 1 + max(item.end for item in items) - min(int(item.periods[0]) for item in items)


def terms_of(items: Sequence[Item], clock: Clock) -> list[str]:
    """The terms that a history of this length may show."""
    length = _span(items)
    known = [WEEKDAY] * (clock.frequency == "day")
    known += [SEASON] * (length >= SEASON_YEARS * _YEAR[clock.frequency])
    lines = [item.timeline for item in items if item.timeline is not None]
    known += [HOLIDAY] * any(bool((line.holidays > 0).any()) for line in lines)
    return known


def _sample(items: Sequence[Item]) -> list[Item]:
    """Some items of each group, evenly from the first name to the last."""
    groups: dict[str | None, list[Item]] = {}
    for item in sorted(items, key=lambda item: item.name):
        groups.setdefault(item.group, []).append(item)
    usual = np.mean([item.sales.size for item in items]) if items else 1.0
    most = int(min(_MOST_ITEMS, max(_MOST_RECORDS / max(usual, 1.0), _PER_GROUP)))
    each = max(min(_PER_GROUP, most // max(len(groups), 1)), 1)
    if len(groups) == 1:
        each = most
    found = []
    for some in list(groups.values())[: most // each]:
        places = np.unique(np.linspace(0, len(some) - 1, min(each, len(some))).astype(int))
        found += [some[place] for place in places]
    return found


def _best(
    items: Sequence[Item],
    asked: Outlook,
    terms: Sequence[tuple[str, ...]],
    half_lives: Sequence[float | None],
) -> Outlook:
    """What predicts best: half-lives with all terms, then terms, then half-lives again."""
    look = _LookBack(items, asked)
    plain = look.score(terms[0], half_lives[0])
    chosen, life = terms[-1], half_lives[0]
    for _ in range(2):
        life = max(half_lives, key=lambda one: look.score(chosen, one).sum())
        chosen = max(terms, key=lambda some: look.score(some, life).sum())
    # A plain law, which can be certified, is left for more than noise; then little decides.
    found = replace(asked, terms=terms[0], half_life=half_lives[0])
    needed = _GAIN
    for some, one in ((terms[0], life), (chosen, half_lives[0]), (chosen, life)):
        gain = look.score(some, one) - plain
        if gain.any() and gain.sum() > needed * np.sqrt(((gain - gain.mean()) ** 2).sum()):
            found, needed = replace(asked, terms=some, half_life=one), _MORE
            plain = look.score(some, one)
    return found


class _LookBack:
    """Scores of outlooks on the last part of a history, by period."""

    def __init__(self, items: Sequence[Item], asked: Outlook) -> None:
        self._asked, self._items = asked, items
        self._last = max(item.end for item in items)
        tested = max(int(_TESTED * _span(items)), _BLOCKS)
        self._edges = np.linspace(self._last + 1 - tested, self._last + 1, _BLOCKS + 1).astype(int)
        self._all = records_of(items, asked.clock)
        self._periods = np.concatenate([item.periods for item in items])
        self._found: dict[tuple[tuple[str, ...], float | None], Array] = {}
        self._factors: dict[tuple[tuple[str, ...], int], Array] = {}

    def score(self, terms: tuple[str, ...], half_life: float | None) -> Array:
        """The log-likelihood of each tested period, all items together."""
        key = (terms, half_life)
        if key not in self._found:
            self._found[key] = self._score(terms, half_life)
        return self._found[key]

    def _score(self, terms: tuple[str, ...], half_life: float | None) -> Array:
        total = np.zeros(self._edges[-1] - self._edges[0])
        for start, end in zip(self._edges, self._edges[1:], strict=False):
            factors = self._factors_at(terms, int(start))
            known = np.isfinite(factors)
            weights = np.where((self._periods < start) & known, 1.0, 0.0)
            if half_life is not None:
                weights *= 0.5 ** (np.maximum(start - self._periods, 0) / half_life)
            tested = (self._periods >= start) & (self._periods < end) & known
            scores = score_each(
                self._all.first, self._all.counts, self._all.censored,
                np.where(known, factors, 1.0), weights, tested,
            )  # fmt: skip
            places = self._periods[tested] - self._edges[0]
            total += np.bincount(places, scores[tested], total.size)
        return total

    def _factors_at(self, terms: tuple[str, ...], start: int) -> Array:
        """Factors of all records, from what was known before a period."""
        key = (terms, start)
        if key not in self._factors:
            before = [item.before(start) for item in self._items]
            outlook = replace(self._asked, terms=terms).fitted(before)
            self._factors[key] = np.concatenate(
                [outlook.factors(item, item.periods) for item in self._items]
            )
        return self._factors[key]
