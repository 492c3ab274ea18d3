"""What policies would have cost on a history, each deciding from what was known at the time.

Period by period: before each review a contestant sees the records of earlier periods, and gives a
policy; orders follow it in a shop of its own, which starts with the stock of the history, and
arrive after the lead time. All contestants see the same records, those of the history: another
stock would have been sold out at other times. Costs are computed on several readings of what was
wanted in periods that sold out (:mod:`iopea.tables.wanted`), and a winner is named only if it wins
under all of them.
"""

from __future__ import annotations

import datetime
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from iopea.errors import InputError, IopeaError, shown
from iopea.model import check_choice, check_count, check_nonnegative
from iopea.registry import error_text
from iopea.systems.lost_sales.base_stock import BaseStock
from iopea.systems.shop.family import OrderingFamily
from iopea.tables.borrow import Prior, borrows
from iopea.tables.fit import NEXT, check_forecast, choose, priors_of, with_items
from iopea.tables.frames import as_day, as_number, as_text, frame_of, need
from iopea.tables.item import Item, items_of
from iopea.tables.jobs import MOST_WORKERS, Watch, each_of, quiet
from iopea.tables.operate import operate
from iopea.tables.outlook import AUTO, Outlook, check_memory, check_terms, choose_outlook
from iopea.tables.reading import DS, ID, YEARS, Clock, Frequency, Sales, read_sales
from iopea.tables.shop import family_named, plugins_named, system_of
from iopea.tables.wanted import Model, Scored, fit_model
from iopea.types import Array, Indices

#: Names of contestants. A family is added to the first: "iopea:s-S".
IOPEA, ORDER_UP_TO, MOVING_AVERAGE, HISTORY = (
    "iopea", "order-up-to", "moving-average", "history",
)  # fmt: skip
CONTESTANTS = (IOPEA, ORDER_UP_TO, MOVING_AVERAGE, HISTORY)
#: Readings of what was wanted.
NOTHING_MORE, IMPUTED, HIGH_QUANTILE, TRUTH = (
    "nothing more wanted", "imputed", "high quantile", "truth",
)  # fmt: skip
#: Draws of what may have been wanted.
DRAWS = 20
#: Level of the tests.
LEVEL = 0.05
#: Fewest periods before the first that is scored, from which a policy can be chosen.
_FEWEST = 8
#: Periods of sales that a moving average has, and covers that are tried, in periods.
_WINDOW: dict[Frequency, int] = {"day": 28, "week": 8, "month": 3}
_COVERS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
#: Calendars are fitted anew every so many periods.
_REFIT: dict[Frequency, int] = {"day": 91, "week": 13, "month": 3}
#: Items that are scored together by a worker.
_CHUNK = 32

#: Where costs leave a share open, it keeps away from 0 and 1; rounding.
_SURE, _ROUNDING = 1e-3, 1e-9
_BASE_STOCK = "base-stock"
#: A family of levels; orders don't depend on its range.
_LEVELS = BaseStock(levels={"low": 0, "high": 1})

#: A rule of one's own: the level for an item, as it was known before a period.
Rule = Callable[[Item, int], float]


class RuleError(InputError):
    """A rule of one's own failed: no item is left out on its account."""


@dataclass(frozen=True)
class Saving:
    """How much cheaper one contestant is than another, per item and period, on one reading.

    Attributes
    ----------
    mean, half : float. Mean, and half of its 95 % interval.
    p_value : float. Of the test, clustered by period, that they cost the same.
    """

    mean: float
    half: float
    p_value: float


@dataclass(frozen=True, eq=False)
class Backtest:
    """Costs of contestants on a history.

    Attributes
    ----------
    contestants, readings : tuples of str.
    table : DataFrame. By ``contestant`` and ``reading``: the mean ``cost`` per item and period, and
        half of its 95 % interval (``cost_half``); ``saving``, how much less the first contestant
        costs than this one, with ``saving_half`` and the ``p_value`` that they cost the same; the
        share of demand that is met (``fill_rate``), and how many ``item_periods`` were scored.
    items : DataFrame. Mean cost per period by item, contestant and reading.
    periods : DataFrame. Cost of all items together by period, contestant and reading.
    winner : str, optional. The contestant that is cheapest on every reading by more than noise.
    cover : float, optional. Periods of cover of the moving average, the best in hindsight.
    outlook : Outlook. What the fits took from calendar, memory and forecasts.
    skipped : dict. Items that could not be scored, with the reasons.
    """

    contestants: tuple[str, ...]
    readings: tuple[str, ...]
    table: pl.DataFrame
    items: pl.DataFrame
    periods: pl.DataFrame
    winner: str | None
    cover: float | None
    outlook: Outlook
    skipped: dict[str, str]

    def __repr__(self) -> str:
        number = self.items[ID].n_unique()
        said = f"winner: {self.winner}" if self.winner else "no winner"
        return f"Backtest({number} items, {self.periods['ds'].n_unique()} periods, {said})"


def backtest(
    history: Any,
    items: Any,
    start: str | datetime.date,
    *,
    contestants: Sequence[str] = CONTESTANTS,
    rules: Mapping[str, Rule] | None = None,
    demand: Any = None,
    calendar: str = AUTO,
    memory: str | float | None = AUTO,
    forecast: bool = True,
    borrow: bool = True,
    sold_from: str = NEXT,
    frequency: str | None = None,
    columns: Mapping[str, str] | None = None,
    workers: int = 1,
    watch: Watch = quiet,
) -> Backtest:
    """Compare what policies would have cost from a day on.

    Parameters
    ----------
    history, items, calendar, memory, forecast, borrow, sold_from, frequency, columns, workers,
        watch : see :func:`iopea.fit`. For an honest test, a forecast was made before the order that
        must last for its period.
    start : str or date. The first day that is scored; of weeks and months, the first that begins
        on it or later.
    contestants : sequence of str. ``"iopea"``, which fits base-stock levels, or ``"iopea:s-S"`` and
        other families; ``"order-up-to"``, which takes sales for demand, and demand for normal;
        ``"moving-average"`` of sales with some periods of cover, as many as would have been best
        for all items together in hindsight; ``"history"``, what really was in stock, for items
        whose stock is known. Its costs of orders are those of the column ``order``, else of what
        was received, else of rises of the stock.
    rules : dict, optional. Contestants of your own: functions of an item, as it was known before a
        period, and this period, that return a level to order up to.
    demand : table, optional. ``unique_id, ds, demand``, for generated histories: costs are computed
        on the truth alone.

    Examples
    --------
    >>> from iopea.tables import generate_sales
    >>> made = generate_sales(items=4, periods=60, seed=5, season=0, trend=0)
    >>> found = backtest(made.history, made.items, "2023-01-02", calendar="none", memory=None)
    >>> found.table["contestant"].unique(maintain_order=True).to_list()
    ['iopea', 'order-up-to', 'moving-average', 'history']
    """
    names = _names(contestants, {} if rules is None else rules)
    check_count("workers", workers, 0, MOST_WORKERS)
    terms, half_life = check_terms(calendar), check_memory(memory)
    sales = with_items(read_sales(history, items, frequency=frequency, columns=columns), sold_from)
    used = check_forecast(sales, forecast, terms)
    first = sales.clock.period(_day(start) - datetime.timedelta(days=1)) + 1
    every = {item.name: item for item in items_of(sales)}
    scores, skipped = _scores(
        sales, every, first, None if demand is None else _truth(demand, sales)
    )
    if not scores:
        why = next(iter(skipped.values()), "The tables have none.")
        raise InputError(f"No item can be scored from {_day(start)} on, such as: {why}")
    names = _with_history(names, scores)
    some = [every[score.name] for score in scores]
    outlook = Outlook(sales.clock, forecast=used)
    fits = any(name.partition(":")[0] == IOPEA for name in names)
    past = [item for item in (one.before(first) for one in some) if item.sales.size]
    if fits and past:
        outlook = choose_outlook(past, sales.clock, terms, half_life, used)
    last = max(int(score.scored.periods[-1]) for score in scores)
    eras = [_Era(first, outlook, {})]
    if fits:
        starts = range(first, last + 1, _REFIT[sales.frequency])
        eras = [_era(some, start, outlook, borrow) for start in starts]
    context = _Context(
        names, dict(rules or {}), sales.frequency, tuple(eras),
        fit_model(some, sales.clock) if demand is None else None, first, last,
    )  # fmt: skip
    jobs = _chunks(every, scores, context)
    plugins = plugins_named(name.partition(":")[2] for name in names)
    sums = each_of(_play, jobs, workers, watch, lambda part: part.number, len(scores), plugins)
    found = _sum(sums)
    return _result(found, context, sales, skipped)


def _day(start: str | datetime.date) -> datetime.date:
    if isinstance(start, datetime.datetime):
        start = start.date()
    if not isinstance(start, datetime.date):
        try:
            start = datetime.date.fromisoformat(str(start))
        except ValueError:
            raise InputError(f"start is {start!r}: give a day as 2024-03-28.") from None
    if not YEARS[0] <= start.year <= YEARS[1]:
        raise InputError(f"start is {start}: give a year from {YEARS[0]} to {YEARS[1]}.")
    return start


def _names(contestants: Sequence[str], rules: Mapping[str, Rule]) -> tuple[str, ...]:
    """The contestants, each once."""
    if not isinstance(contestants, Sequence | Mapping) or not all(
        isinstance(name, str) for name in contestants
    ):
        raise InputError(f"contestants is {shown(contestants)}: give a list of names.")
    if not isinstance(rules, Mapping) or not all(
        isinstance(name, str) and callable(rule) for name, rule in rules.items()
    ):
        raise InputError(f"rules is {shown(rules)}: give functions by their names.")
    if isinstance(contestants, str):
        contestants = [contestants]
    for name in rules:
        if name.partition(":")[0] in CONTESTANTS:
            raise InputError(f"A rule of your own is called {name!r}, as one of iopea: rename it.")
    found = tuple(dict.fromkeys([*contestants, *rules]))
    if not found:
        raise InputError("There are no contestants: name at least one.")
    for name in found:
        kind, _, family = name.partition(":")
        if kind == IOPEA and family:
            family_named(family)
        elif name not in rules:
            check_choice("contestant", name, CONTESTANTS)
    return found


def _with_history(names: tuple[str, ...], scores: Sequence[_Score]) -> tuple[str, ...]:
    """The contestants, without the history if its stock is not known."""
    if any(score.stock is not None for score in scores):
        return names
    left = tuple(name for name in names if name != HISTORY)
    if not left:
        raise InputError("The history can't be scored: the stock of no item is always known.")
    return left


def _truth(demand: Any, sales: Sales) -> dict[tuple[str, int], float]:
    """What was wanted, by item and period."""
    frame = frame_of("table of demand", demand)
    need("table of demand", frame, (ID, DS, "demand"))
    (number, bad), (day, no_day) = as_number(frame, "demand"), as_day(frame, DS)
    read = frame.select(
        as_text(frame, ID).alias(ID), day.alias(DS), number.alias("demand"),
        (bad | no_day | number.is_null() | (number < 0)).alias("bad"),
    )  # fmt: skip
    if read["bad"].any():
        row = read["bad"].arg_true()[0] + 1
        raise InputError(
            f"Row {row} of the table of demand can't be used: give a day, and at least 0."
        )
    found: dict[tuple[str, int], float] = {}
    for name, when, value, _ in read.iter_rows():
        key = (name, sales.clock.period(when))
        if found.setdefault(key, value) != value:
            raise InputError(
                f"The table of demand has {found[key]:g} and {value:g} for item {name!r} on "
                f"{when}: leave one of them out."
            )
    return found


@dataclass(frozen=True)
class _Score:
    """What an item is scored on.

    Attributes
    ----------
    name : str. The item.
    scored : Scored. The periods.
    truth : array, optional. What was wanted, where it is known.
    stock, orders : arrays, optional. What the history had, where it is known in all periods.
    state : array. On-hand stock and pipeline before the first period.
    """

    name: str
    scored: Scored
    truth: Array | None
    stock: Array | None
    orders: Array | None
    state: Array


def _scores(
    sales: Sales,
    items: Mapping[str, Item],
    first: int,
    truth: Mapping[tuple[str, int], float] | None,
) -> tuple[list[_Score], dict[str, str]]:
    """What can be scored, and why the rest can't."""
    found = []
    skipped = {name: f"item {name!r}: {reason}" for name, reason in sales.refused.items()}
    for (name,), rows in sales.history.group_by(ID, maintain_order=True):
        item = items[str(name)]
        known = int(np.searchsorted(item.periods, first))
        if known < _FEWEST:
            skipped[item.name] = (
                f"item {item.name!r} has {known} periods before the first that is scored: "
                f"{_FEWEST} are needed."
            )
        elif item.end < first:
            skipped[item.name] = f"item {item.name!r} has no rows from then on."
        else:
            found.append(_score(item, rows, first, truth))
    return found, skipped


def _score(
    item: Item, rows: pl.DataFrame, first: int, truth: Mapping[tuple[str, int], float] | None
) -> _Score:
    periods = np.arange(first, item.end + 1)
    place = rows["period"].to_numpy() - first
    later = place >= 0

    def column(name: str) -> Array:
        line = np.full(periods.size, np.nan)
        if name in rows.columns:
            line[place[later]] = rows[name].cast(pl.Float64).to_numpy()[later]
        return line

    told, censored = column("told") == 1, column("censored") == 1
    least = np.maximum(np.nan_to_num(column("sales")), 0.0)
    stock = column("stock")
    orders = _orders(column("order"), column("received"), stock - column("sales"), stock)
    known = None
    if truth is not None:
        known = np.array([truth.get((item.name, period), np.nan) for period in periods.tolist()])
        if np.isnan(known).any():
            raise InputError(
                f"The table of demand lacks a period of item {item.name!r}: give all from "
                "the first on that is scored."
            )
        if (known < least).any():
            less = int((known < least).argmax())
            raise InputError(
                f"The table of demand has {known[less]:g} for item {item.name!r}, and "
                f"{least[less]:g} were sold: give what was wanted."
            )
    return _Score(
        item.name, Scored(periods, least, ~told | censored), known,
        None if np.isnan(stock).any() else np.maximum(stock, least),
        orders,
        _state(item, rows.filter(pl.col("period") < first).tail(1), column("received"), first),
    )  # fmt: skip


def _orders(ordered: Array, received: Array, left: Array, stock: Array) -> Array | None:
    """What was ordered in each period; else what arrived, as far as it is known or can be seen."""
    if not np.isnan(ordered).any():
        return ordered
    if not np.isnan(received).any():
        return received
    more = np.maximum(stock - np.append(np.nan, left[:-1]), 0.0)
    more[:1] = 0.0
    return None if np.isnan(more).any() else more


def _state(item: Item, row: pl.DataFrame, received: Array, first: int) -> Array:
    """On-hand stock and pipeline before the first period, the same for all contestants.

    The pipeline is what was received later; or what was on order in all, or average sales, evenly.
    """
    lead = int(item.row["lead_time"])
    before = item.before(first)
    usual = float(before.sales.mean())
    last = {name: row[name][0] for name in row.columns}
    on_hand = last.get("on_hand")
    if on_hand is None and last.get("stock") is not None and last["sales"] is not None:
        on_hand = last["stock"] - last["sales"]
    if on_hand is None or last["period"] != first - 1:
        on_hand = usual * float(item.row["review_period"])
    coming = received[:lead]
    if coming.size < lead or np.isnan(coming).any():
        total = last.get("on_order")
        coming = np.full(lead, usual if total is None else total / max(lead, 1))
    coming = np.maximum(coming, 0.0)
    if before.whole:
        on_hand, coming = float(np.ceil(on_hand)), np.ceil(coming)
    return np.append(max(float(on_hand), 0.0), coming)


@dataclass(frozen=True)
class _Era:
    """What was known of all items together at a time."""

    start: int
    outlook: Outlook
    priors: Mapping[str | None, Prior]


def _era(items: Sequence[Item], start: int, outlook: Outlook, borrow: bool) -> _Era:
    before = [item for item in (one.before(start) for one in items) if item.sales.size]
    known = outlook.fitted(before)
    return _Era(start, known, priors_of(before, known) if borrow else {})


@dataclass(frozen=True)
class _Context:
    """What the scores of all items share.

    Attributes
    ----------
    names : tuple of str. The contestants.
    rules : dict. Those of one's own.
    frequency : str.
    eras : tuple of _Era. In order of time.
    model : Model, optional. Of what may have been wanted; None if the truth is known.
    first, last : int. The first and the last period that is scored.
    """

    names: tuple[str, ...]
    rules: Mapping[str, Rule]
    frequency: Frequency
    eras: tuple[_Era, ...]
    model: Model | None
    first: int
    last: int

    @property
    def rows(self) -> tuple[tuple[str, float | None], ...]:
        """What is simulated: contestants, and the cover of a moving average."""
        found: list[tuple[str, float | None]] = []
        for name in self.names:
            found += [(name, cover) for cover in (_COVERS if name == MOVING_AVERAGE else (None,))]
        return tuple(found)

    @property
    def versions(self) -> int:
        """How many times each period is scored."""
        return 1 if self.model is None else DRAWS + 2


@dataclass
class _Sums:
    """Costs, added up over items.

    Attributes
    ----------
    costs : array (2, rows, versions, periods). Of all items, and of those with a known history.
    sold, wanted : arrays (rows, versions). Units.
    numbers : array (2,). Item-periods of both.
    items : list. By item: its name, and costs per period (rows, versions).
    skipped : dict.
    """

    costs: Array
    sold: Array
    wanted: Array
    numbers: Array
    items: list[tuple[str, Array]]
    skipped: dict[str, str]

    @classmethod
    def empty(cls, context: _Context) -> _Sums:
        """Nothing yet."""
        shape = (len(context.rows), context.versions)
        length = context.last - context.first + 1
        return cls(
            np.zeros((2, *shape, length)), np.zeros(shape), np.zeros(shape), np.zeros(2), [], {}
        )

    @property
    def number(self) -> int:
        """How many items have been looked at."""
        return len(self.items) + len(self.skipped)

    def add(self, other: _Sums) -> None:
        """Add what was found of other items."""
        self.costs += other.costs
        self.sold += other.sold
        self.wanted += other.wanted
        self.numbers += other.numbers
        self.items += other.items
        self.skipped |= other.skipped


def _chunks(
    items: Mapping[str, Item], scores: Sequence[_Score], context: _Context
) -> Iterator[tuple[list[Item], Sequence[_Score], _Context]]:
    """Items that are scored together."""
    for place in range(0, len(scores), _CHUNK):
        part = scores[place : place + _CHUNK]
        yield [items[score.name] for score in part], part, context


def _sum(parts: Iterable[_Sums]) -> _Sums:
    """All items; in the same order, however many workers there are."""
    each = iter(parts)
    found = next(each)
    for part in each:
        found.add(part)
    return found


def _play(items: Sequence[Item], scores: Sequence[_Score], context: _Context) -> _Sums:
    """Operate the shops of some items with all contestants."""
    sums = _Sums.empty(context)
    for item, score in zip(items, scores, strict=True):
        try:
            _play_one(item, score, context, sums)
        except RuleError:
            raise
        except IopeaError as error:
            sums.skipped[item.name] = f"item {item.name!r}: {error}"
    return sums


def _play_one(item: Item, score: _Score, context: _Context, sums: _Sums) -> None:
    system = system_of(item.row)
    # What is in force today was not known then.
    item = replace(item, row={**item.row, "level": None, "on_hand": None, "on_order": None})
    if context.model is None:
        demand = np.asarray(score.truth)[None]
    else:
        demand = context.model.readings(item, score.scored, DRAWS)
    length = score.scored.periods.size
    review = int(item.row["review_period"])
    reviews = score.scored.periods[::review]
    costs = np.full((len(context.rows), *demand.shape), np.nan)
    sold = np.full(costs.shape[:2], np.nan)
    for row, (name, cover) in enumerate(context.rows):
        if name == HISTORY:
            if score.stock is None:
                continue
            stock = np.broadcast_to(score.stock, demand.shape)
            sales = np.minimum(stock, demand)
            orders = np.zeros(demand.shape) if score.orders is None else score.orders
        else:
            family, policies = _policies(item, reviews, name, cover, context)
            each = np.repeat(policies, review, axis=0)[:length]
            stock, sales, orders = operate(family, system, each, demand, score.state, review)
        terms = system.terms
        costs[row] = terms.holding * (stock - sales) + terms.lost * (demand - sales)
        costs[row] += terms.fixed * (np.asarray(orders) > 0)
        sold[row] = sales.sum(axis=1)
    sums.costs[0, :, :, :length] += np.nan_to_num(costs)
    sums.numbers[0] += length
    if score.stock is not None:
        sums.costs[1, :, :, :length] += np.nan_to_num(costs)
        sums.numbers[1] += length
    sums.sold += np.nan_to_num(sold)
    sums.wanted += np.where(np.isnan(sold), 0.0, demand.sum(axis=1))
    sums.items.append((item.name, costs.mean(axis=2)))


def _policies(
    item: Item, reviews: Indices, name: str, cover: float | None, context: _Context
) -> tuple[OrderingFamily, Array]:
    """The policy of a contestant at each review, and the family that it is of."""
    if name in context.rules:
        own = [_own_level(name, context.rules[name], item, int(period)) for period in reviews]
        return _LEVELS, np.array(own)[:, None]
    if name.partition(":")[0] == IOPEA:
        return _fitted(item, reviews, name.partition(":")[2] or _BASE_STOCK, context)
    window = None if name == ORDER_UP_TO else _WINDOW[context.frequency]
    mean, spread = _past_sales(item, reviews, window)
    if name == MOVING_AVERAGE:
        levels = mean * (item.lasts + (cover or 0.0))
    else:
        holding, lost = item.row["holding_cost"], item.row["lost_sales_cost"]
        share = lost / (lost + holding) if lost + holding > 0 else 0.5
        safety = NormalDist().inv_cdf(min(max(share, _SURE), 1 - _SURE))
        levels = item.lasts * mean + safety * math.sqrt(item.lasts) * spread
    # Whether it comes in whole units is seen from what was known.
    whole = np.minimum.accumulate(item.sales == np.floor(item.sales))
    whole = whole[np.searchsorted(item.periods, reviews) - 1]
    levels = np.where(whole, np.ceil(levels - _ROUNDING), levels)
    # A planner rounds up to whole packs; the shop rounds down, so as not to exceed a level.
    pack = item.row["order_multiple"] or 0.0
    levels = levels + np.where(whole, max(pack - 1.0, 0.0), pack * (1 - _ROUNDING))
    return _LEVELS, np.maximum(levels, 0.0)[:, None]


def _own_level(name: str, rule: Rule, item: Item, period: int) -> float:
    try:
        level = rule(_copy(item.before(period)), period)
        return check_nonnegative(f"the level by the rule {name!r}", level)
    except Exception as error:  # a function of somebody else may raise anything
        reason = str(error) if isinstance(error, IopeaError) else error_text(error)
        raise RuleError(
            f"The rule {name!r} fails for item {item.name!r} in period {period}: {reason}"
        ) from error


def _copy(item: Item) -> Item:
    """An item with a row and arrays of its own."""
    stock = None if item.stock is None else item.stock.copy()
    return replace(
        item, row=dict(item.row), sales=item.sales.copy(), censored=item.censored.copy(),
        stock=stock, periods=item.periods.copy(),
    )  # fmt: skip


def _past_sales(item: Item, reviews: Indices, window: int | None) -> tuple[Array, Array]:
    """Mean and standard deviation of sales before each review, of some periods or of all."""
    last = np.searchsorted(item.periods, reviews)
    first = np.zeros_like(last)
    if window is not None:
        first = np.minimum(np.searchsorted(item.periods, reviews - window), last - 1)
    sums = np.append(0.0, np.cumsum(item.sales))
    squares = np.append(0.0, np.cumsum(item.sales**2))
    number = last - first
    mean = (sums[last] - sums[first]) / number
    return mean, np.sqrt(np.maximum((squares[last] - squares[first]) / number - mean**2, 0.0))


def _fitted(
    item: Item, reviews: Indices, family: str, context: _Context
) -> tuple[OrderingFamily, Array]:
    """The fitted policies at each review."""
    choices = []
    starts = [era.start for era in context.eras]
    for period in reviews.tolist():
        era = context.eras[bisect_right(starts, period) - 1]
        known, view = era.outlook.view(item.before(period))
        few = borrows(known, view.weights, era.outlook.plain)
        prior = era.priors.get(item.group) if few else None
        choices.append(choose(known, family, view, prior))
    return choices[-1].shop.family, np.array([choice.policy for choice in choices])


def _result(found: _Sums, context: _Context, sales: Sales, skipped: dict[str, str]) -> Backtest:
    """Tables, tests and the winner."""
    if not found.items:
        raise InputError(f"No item can be scored, such as: {next(iter(found.skipped.values()))}")
    rows, cover = _one_cover(found, context)
    names = context.names
    costs = found.costs[:, rows]
    readings: dict[str, slice]
    if context.model is None:
        readings = {TRUTH: slice(0, 1)}
    else:
        ends = slice(0, 1), slice(1, DRAWS + 1), slice(DRAWS + 1, DRAWS + 2)
        readings = dict(zip((NOTHING_MORE, IMPUTED, HIGH_QUANTILE), ends, strict=True))
    lags = max(int(row) for row in (sales.items["lead_time"] + sales.items["review_period"]))
    known = [HISTORY not in (name,) for name in names]

    def saving(one: int, other: int, where: slice) -> Saving:
        both = 0 if known[one] and known[other] else 1
        change = costs[both, other, where] - costs[both, one, where]
        return _saving(change, float(found.numbers[both]), lags)

    apart = {
        (one, other, reading): saving(one, other, where)
        for one in range(len(names))
        for other in range(len(names))
        for reading, where in readings.items()
    }
    table = []
    for reading, where in readings.items():
        for place, name in enumerate(names):
            number = found.numbers[0 if known[place] else 1]
            spent = _saving(costs[0, place, where], float(number), lags)
            less = apart[0, place, reading]
            sold, wanted = (each[rows][place, where] for each in (found.sold, found.wanted))
            table.append(
                {
                    "contestant": name, "reading": reading, "cost": spent.mean,
                    "cost_half": spent.half, "saving": less.mean, "saving_half": less.half,
                    "p_value": less.p_value,
                    "fill_rate": float(np.mean(sold / np.maximum(wanted, 1e-300))),
                    "item_periods": int(number),
                }
            )  # fmt: skip
    winner = None
    for place, name in enumerate(names):
        others = [other for other in range(len(names)) if other != place]
        if others and all(
            apart[place, other, reading].mean > 0 and apart[place, other, reading].p_value < LEVEL
            for other in others
            for reading in readings
        ):
            winner = name
    return Backtest(
        contestants=names,
        readings=tuple(readings),
        table=pl.DataFrame(table, schema=_TABLE),
        items=_by_item(found, rows, names, readings),
        periods=_by_period(costs[0], names, readings, context, sales.clock),
        winner=winner,
        cover=cover,
        outlook=context.eras[0].outlook,
        skipped=dict(sorted((skipped | found.skipped).items())),
    )


#: Columns of the table of a backtest.
_TABLE: dict[str, Any] = {
    "contestant": pl.String, "reading": pl.String, "cost": pl.Float64, "cost_half": pl.Float64,
    "saving": pl.Float64, "saving_half": pl.Float64, "p_value": pl.Float64,
    "fill_rate": pl.Float64, "item_periods": pl.Int64,
}  # fmt: skip


def _one_cover(found: _Sums, context: _Context) -> tuple[list[int], float | None]:
    """The rows of all contestants; of moving averages the one that was best in hindsight."""
    rows, best = [], None
    for name in context.names:
        own = [row for row, (of, _) in enumerate(context.rows) if of == name]
        total = found.costs[0, own].sum(axis=(1, 2))
        rows.append(own[int(total.argmin())])
        if name == MOVING_AVERAGE:
            best = context.rows[rows[-1]][1]
    return rows, best


def _saving(changes: Array, number: float, lags: int) -> Saving:
    """The mean of sums by period over ``number`` item-periods; rows are draws of one reading.

    Periods are clusters: what items have in common counts once. Errors of near periods may go
    together (Newey and West), and draws differ (Rubin).
    """
    length = changes.shape[1]
    lags = min(lags, max(length // 4, 0))
    means = changes.sum(axis=1) / number
    centred = changes - changes.mean(axis=1, keepdims=True)
    within = (centred**2).sum(axis=1)
    for lag in range(1, lags + 1):
        share = 1 - lag / (lags + 1)
        within += 2 * share * (centred[:, lag:] * centred[:, :-lag]).sum(axis=1)
    within = np.maximum(within, 0.0) * length / max(length - 1, 1) / number**2
    between = means.var(ddof=1) * (1 + 1 / means.size) if means.size > 1 else 0.0
    spread = math.sqrt(float(within.mean()) + float(between))
    mean = float(means.mean())
    free = max(length / (lags + 1) - 1, 1.0)
    if length < 2:
        return Saving(mean, math.nan, math.nan)
    if spread <= _ROUNDING * abs(mean) or spread == 0:
        return Saving(mean, 0.0, 1.0 if mean == 0 else 0.0)
    half = float(stats.t.ppf(0.975, free)) * spread
    return Saving(mean, half, float(2 * stats.t.sf(abs(mean) / spread, free)))


def _by_item(
    found: _Sums, rows: Sequence[int], names: Sequence[str], readings: Mapping[str, slice]
) -> pl.DataFrame:
    parts = []
    items = [name for name, _ in found.items]
    for place, name in zip(rows, names, strict=True):
        for reading, where in readings.items():
            cost = [float(each[place, where].mean()) for _, each in found.items]
            parts.append(
                pl.DataFrame(
                    {ID: items, "cost": cost}, schema={ID: pl.String, "cost": pl.Float64}
                ).with_columns(contestant=pl.lit(name), reading=pl.lit(reading))
            )
    both = pl.concat(parts).with_columns(pl.col("cost").fill_nan(None))
    return both.select(ID, "contestant", "reading", "cost").sort(ID, maintain_order=True)


def _by_period(
    costs: Array,
    names: Sequence[str],
    readings: Mapping[str, slice],
    context: _Context,
    clock: Clock,
) -> pl.DataFrame:
    days = clock.days(np.arange(context.first, context.last + 1)).astype("datetime64[D]")
    parts = [
        pl.DataFrame({"ds": days, "cost": costs[place, where].mean(axis=0)}).with_columns(
            contestant=pl.lit(name), reading=pl.lit(reading)
        )
        for place, name in enumerate(names)
        for reading, where in readings.items()
    ]
    both = pl.concat(parts).with_columns(pl.col("ds").cast(pl.Date))
    return both.select("ds", "contestant", "reading", "cost")
