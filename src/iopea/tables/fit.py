"""From a history of sales to tonight's orders: the best policy of each item, and how sure it is.

For each item: the law of demand from all records (:mod:`iopea.tables.law`); the cost of each policy
of the family, simulated on the law; and the same on other laws that the records allow, from which
all intervals are taken. They hold for all policies at once that may have been chosen, so that the
chosen one's is not too good for having been chosen. What the history can't tell it says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import ndtri

from iopea.errors import InputError, IopeaError, shown
from iopea.model import check_choice, check_count, check_path, check_share
from iopea.seeds import seed_for
from iopea.storage import clear_drafts_of, make_folder_of, writing
from iopea.tables.borrow import FEW, Prior, borrows, fit_prior
from iopea.tables.calendar import HOLIDAY, SEASON
from iopea.tables.certificate import FEWEST_PERIODS, FEWEST_SALES, reach, trust
from iopea.tables.frames import suffix_of
from iopea.tables.item import Item, items_of
from iopea.tables.jobs import MOST_WORKERS, Watch, each_of, quiet
from iopea.tables.law import ItemLaw
from iopea.tables.outlook import (
    AUTO,
    NONE,
    PLAIN,
    SEASON_YEARS,
    Outlook,
    View,
    check_memory,
    check_terms,
    choose_outlook,
)
from iopea.tables.reading import FORECAST, ID, Sales, read_sales
from iopea.tables.scaled import fit_scaled, moved
from iopea.tables.shop import ItemShop, family_named, largest_order, plugins_named
from iopea.types import Array, Indices, Mask

#: Length of the path on which policies are compared, of those on which laws are drawn anew, and the
#: number of these.
_PATH, _SHORT, _DRAWS = 4096, 1024, 128
#: Least length of a path, and of the other ones, in periods that an order must last.
_LEAD_TIMES, _SHORT_LEAD_TIMES = 64, 16
#: Multipliers of full period whose lattices were the best of 150 for costs of base-stock levels.
_MULTIPLIERS = {1024: (861,), 4096: (209, 2365, 2133, 517)}
#: Paths on which costs are computed.
_PATHS = 4
#: Stands for demand without end, as a multiple of the highest level.
_ENDLESS = 1e3
#: A policy beyond the reach of a history that may be cheaper by less than this share is no reason
#: to say that the history can't tell.
_MATTERS = 0.02
#: Significant digits of the numbers of a plan, besides orders and policies.
_DIGITS = 6
#: Share of a cost that is rounding.
_ROUNDING = 1e-9
#: How far a range is widened, as long as that makes the best policy cheaper by this share.
_WIDER, _CHEAPER = (2.0, 4.0, 8.0), 1e-3
#: How often the search for the best policy looks closer.
_ZOOMS = 6
#: The most stock that is advised, as a multiple of what was ever wanted in a period.
_STEP = 2.0
#: Laws drawn anew from few records differ a little too little: bands get this share of their error.
_SAFE = 0.8
#: The least share of the periods that must tell of demand.
_TOLD = 0.8
#: Share of the periods in which demand may have been more than was ever in stock.
_UNSEEN = 0.05
#: Items that are fitted together by a worker.
_CHUNK = 200

#: The first period in which an order of the end of period t can be sold, for a lead time L.
NEXT, SAME = "t+1+L", "t+L"
#: What is said of an item.
CERTIFIED, PLAUSIBLE, UNKNOWN, REFUSED = "certified", "plausible", "can't tell", "refused"


@dataclass(frozen=True, eq=False)
class Fit:
    """The result for one item.

    Attributes
    ----------
    row : dict. The row of the plan.
    item : Item. Its records.
    shop : ItemShop. The system and the family.
    law : ItemLaw. The law of demand.
    policies : array (n, d). Policies, in ascending order, whose costs were compared on all laws.
    costs : array (n,). Estimated cost per period.
    plain : array (n,). What a history can tell of it: the cost less the worth of all demand.
    low, high : arrays (n,). Band of the plain cost that holds for all judged policies at once.
    judged : bool array (n,). Which of them the history can judge.
    """

    row: dict[str, Any]
    item: Item
    shop: ItemShop
    law: ItemLaw
    policies: Array
    costs: Array
    plain: Array
    low: Array
    high: Array
    judged: Mask


@dataclass(frozen=True, eq=False)
class Plan:
    """Tonight's orders, and why.

    Attributes
    ----------
    table : DataFrame. One row for each item; the guide says what its columns mean.
    sales : Sales. The tables as they were read.
    outlook : Outlook. What is taken from calendar, memory and forecasts.
    """

    table: pl.DataFrame
    sales: Sales
    outlook: Outlook
    _settings: _Settings = field(repr=False)
    _known: _Known = field(repr=False)

    def __repr__(self) -> str:
        of_each = ", ".join(f"{number} {name}" for name, number in self.counts.items())
        return f"Plan({self.table.height} items: {of_each})"

    @property
    def counts(self) -> dict[str, int]:
        """How many items each verdict has."""
        found = dict(self.table["verdict"].value_counts().iter_rows())
        order = (CERTIFIED, PLAUSIBLE, UNKNOWN, REFUSED)
        return {verdict: found[verdict] for verdict in order if verdict in found}

    @property
    def refused(self) -> dict[str, str]:
        """The items that could not be fitted, with the reasons."""
        some = self.table.filter(verdict=REFUSED)
        return dict(some.select(ID, "reason").iter_rows())

    def fits(self) -> Iterator[Fit]:
        """What was computed for each item that was fitted, computed anew: laws and costs."""
        yield from _fits(self.sales, self._settings, self._known)

    def item(self, unique_id: str) -> Fit:
        """The same for one item."""
        unique_id = str(unique_id)
        one = replace(
            self.sales,
            history=self.history(unique_id),
            ahead=self.sales.ahead.filter(pl.col(ID) == unique_id),
        )
        for found in _fits(one, self._settings, self._known):
            return found
        raise InputError(f"The plan has no item {shown(unique_id)} that was fitted.")

    def history(self, unique_id: str) -> pl.DataFrame:
        """The rows of one item as they were read."""
        return self.sales.history.filter(pl.col(ID) == unique_id)

    def write(self, path: str | Path) -> None:
        """Write the table to a file: CSV, Parquet or Arrow, by its ending."""
        write_table(self.table, path)


def write_table(table: pl.DataFrame, path: str | Path) -> None:
    """Write a table to a CSV, Parquet or Arrow file, whole or not at all."""
    target = check_path("path", path)
    suffix = suffix_of("plan", target)
    make_folder_of(target)
    clear_drafts_of(target)
    with writing(target) as file:
        if suffix == ".csv":
            table.write_csv(file)
        elif suffix == ".parquet":
            table.write_parquet(file)
        else:
            table.write_ipc(file)


@dataclass(frozen=True)
class _Settings:
    """What is the same for all items."""

    family: str
    delta: float
    level: float


@dataclass(frozen=True)
class _Known:
    """What is known of all items together."""

    outlook: Outlook
    priors: Mapping[str | None, Prior]
    newest: int


@dataclass(frozen=True)
class Choice:
    """The best policy for an item by estimate.

    Attributes
    ----------
    shop : ItemShop. The system and the family.
    law : ItemLaw. The law of demand.
    path : array. Demand drawn from the law, on which policies were compared.
    net : array (n, d). Policies over the whole range.
    policy : array (d,).
    """

    shop: ItemShop
    law: ItemLaw
    path: Array
    net: Array
    policy: Array


def choose(item: Item, family: str, view: View = PLAIN, prior: Prior | None = None) -> Choice:
    """Choose a policy for one item from all its records."""
    if not item.sales.size:
        raise InputError("no period tells anything of its demand: its stock, sales or both.")
    law = law_of(item, view, prior)
    length = max(_PATH, _LEAD_TIMES * item.lasts)
    path = law.quantiles(length, _shuffled(length))
    kind = family_named(family)
    shop = ItemShop.of(item.row, kind, path, law.whole)
    held = reach(item.sales, item.censored, item.stock)
    net, best, cost = _best(shop, law, path, held)
    for wider in _WIDER:
        top = shop.box.high[0]
        if best.max() < top or (item.row["high"] is not None and top >= item.row["high"]):
            break
        wide = ItemShop.of(item.row, kind, path, law.whole, wider)
        found = _best(wide, law, path, held)
        if not found[2] < cost - _CHEAPER * abs(cost):
            break
        shop, (net, best, cost) = wide, found
    return Choice(shop, law, path, net, best)


def _best(shop: ItemShop, law: ItemLaw, path: Array, held: float) -> tuple[Array, Array, float]:
    """A net of policies, the best one by estimate, and its cost.

    None is chosen whose stock is often above what enough periods had, and more than twice what was
    ever sold between two orders: stock is raised step by step.
    """
    net = shop.coarse()
    most = max(_STEP * law.largest * shop.review, law.unit) + largest_order(shop.system, path)
    most = max(most, held)
    place, cost = _cheapest(shop, path, net, most)
    best, near = net[place], net
    for _ in range(_ZOOMS):
        near = shop.near(near, best)
        place, found = _cheapest(shop, path, near, most)
        if found < cost:
            best, cost = near[place], found
        if shop.fine(near):
            break
    # In a wide range what is near the best would be missing.
    return (net if near.size < net.size else np.unique(np.vstack([net, near]), axis=0)), best, cost


def _cheapest(shop: ItemShop, path: Array, policies: Array, most: float) -> tuple[int, float]:
    """The place of the cheapest policy that has not too much stock, and its cost."""
    costs = shop.costs(path[None], policies)[0]
    best = int(costs.argmin())
    if shop.stocks(policies[best : best + 1], path)[0] > most:
        stocks = shop.stocks(policies, path)
        fits = stocks <= most
        if not fits.any():
            best = int(stocks.argmin())
        else:
            best = int(np.flatnonzero(fits)[costs[fits].argmin()])
    return best, float(costs[best])


def law_of(item: Item, view: View = PLAIN, prior: Prior | None = None) -> ItemLaw:
    """The law of an item's demand in the periods for which tonight's order must last."""
    values, censored, weights = item.sales, item.censored, view.weights
    factors = view.factors
    if factors is not None:
        values = _at_target(item, factors, view)
    if prior is not None:
        ones = np.ones(item.sales.size)
        weights = ones if weights is None else weights
        extra = item.unit * prior.values(
            item.counts, censored, ones if factors is None else factors, weights, view.target
        )
        weights = np.append(weights, np.full(extra.size, prior.worth / extra.size))
        values = np.append(values, np.round(extra) if item.whole else extra)
        censored = np.append(censored, np.zeros(extra.size, dtype=bool))
    return ItemLaw(values, censored, weights, item.whole)


def _at_target(item: Item, factors: Array, view: View, like: Item | None = None) -> Array:
    """What the records would be in periods with the factor of those to come.

    Of counts the mean of a count law is scaled, not the counts: that of these records, or of those
    of another item.
    """
    if item.unit != 1.0:
        found = item.sales * view.target / factors
        return np.round(found) if item.whole else np.asarray(found)
    weights = np.ones(item.sales.size) if view.weights is None else view.weights
    fitted = item if like is None else like
    mean, size = fit_scaled(fitted.counts, fitted.censored, factors, weights)
    places = _steady(item.sales.size)
    return moved(item.counts, item.censored, factors, mean, size, view.target, places)


@lru_cache(maxsize=64)
def _steady(number: int) -> Array:
    """Places within the steps of counts: those of the first records stay as they are."""
    return np.random.default_rng(seed_for("places")).random(number)


def fit(
    history: Any,
    items: Any,
    *,
    family: str = "base-stock",
    calendar: str = AUTO,
    memory: str | float | None = AUTO,
    forecast: bool = True,
    borrow: bool = True,
    sold_from: str = NEXT,
    delta: float = 0.05,
    level: float = 0.95,
    frequency: str | None = None,
    columns: Mapping[str, str] | None = None,
    workers: int = 1,
    watch: Watch = quiet,
) -> Plan:
    """Fit a policy to each item of a history of sales.

    Parameters
    ----------
    history, items : a file (CSV, Parquet, Arrow), or a table of Polars, Arrow or pandas; the
        columns are those of :mod:`iopea.tables.reading`.
    family : str. The kind of policies: ``"base-stock"``, ``"capped-base-stock"``, ``"s-S"``, or one
        of your own.
    calendar : str. Which factors of demand items of a group share: some of ``"weekday"``,
        ``"season"`` and ``"holiday"``, separated by commas; ``"none"``; or ``"auto"``, for what
        would have predicted the last part of the history best.
    memory : str or float. Periods after which a record weighs half as much, ``"none"`` or
        ``"auto"``.
    forecast : bool. Whether a column ``forecast`` is used, instead of a calendar.
    borrow : bool. Whether items with few records borrow from their group.
    sold_from : {"t+1+L", "t+L"}. The first period in which an order of the end of period t, with
        lead time L, can be sold.
    delta : float. Probability with which the surviving range may lose the best policy, and bands of
        a certificate the true cost of any judged policy.
    level : float. Confidence of the interval of the expected cost.
    frequency, columns : see :func:`read_sales`.
    workers : int. Processes; without effect on the results. 0: all cores.
    watch : callable, optional. Told now and then how many items are done, and of how many.

    Examples
    --------
    >>> from iopea.tables import generate_sales
    >>> made = generate_sales(items=2, periods=60, seed=3, trend=0, season=0, policy="level")
    >>> plan = fit(made.history, made.items)
    >>> plan.table.columns[:4]
    ['unique_id', 'order', 'level', 'expected_cost']
    """
    settings = _Settings(family, check_share("delta", delta), check_share("level", level))
    family_named(family)
    terms, half_life = check_terms(calendar), check_memory(memory)
    check_count("workers", workers, 0, MOST_WORKERS)
    sales = with_items(read_sales(history, items, frequency=frequency, columns=columns), sold_from)
    used = check_forecast(sales, forecast, terms)
    every = list(items_of(sales))
    outlook = Outlook(sales.clock, forecast=used)
    if (terms, half_life) != (NONE, NONE):
        outlook = choose_outlook(every, sales.clock, terms, half_life, used)
    remarks = (*sales.remarks, *_short_of(sales, every, outlook))
    sales = replace(sales, remarks=remarks)
    priors = priors_of(every, outlook) if borrow else {}
    newest = sales.history["period"].max() if sales.history.height else 0
    known = _Known(outlook, priors, int(newest))  # type: ignore[arg-type]
    table = _table(sales, every, settings, known, workers, watch)
    return Plan(table, sales, outlook, settings, known)


def check_forecast(sales: Sales, forecast: bool, terms: str | tuple[str, ...]) -> bool:
    """Whether the history has forecasts that are to be used; not beside a calendar."""
    if not isinstance(terms, str) and HOLIDAY in terms and HOLIDAY not in sales.history.columns:
        raise InputError("calendar has holidays, and the history has no column 'holiday': add it.")
    used = bool(forecast) and FORECAST in sales.history.columns
    if used and not isinstance(terms, str):
        raise InputError(
            f"calendar is {','.join(terms)!r}, and the history has forecasts: leave one of them "
            "out."
        )
    return used


def _short_of(sales: Sales, items: Sequence[Item], outlook: Outlook) -> Iterator[str]:
    """Remarks about what a calendar would need."""
    periods = sales.history["period"]
    years = (periods.max() - periods.min() + 1) / outlook.year if sales.history.height else 0.0  # type: ignore[operator]
    if SEASON in outlook.terms and years < SEASON_YEARS:
        yield (
            f"The history is {years:.2g} years long: a season can hardly be told from a trend in "
            f"less than {SEASON_YEARS:g}."
        )
    if HOLIDAY not in outlook.terms:
        return
    names = [
        item.name
        for item in items
        if item.timeline is None or item.timeline.last < item.end + item.lasts
    ]
    if names:
        some = "1 item lacks" if len(names) == 1 else f"{len(names)} items lack"
        yield (
            f"{some} rows for the periods that tonight's order must last for, such as "
            f"{names[0]!r}: no holidays are expected there."
        )


def with_items(sales: Sales, sold_from: str = NEXT) -> Sales:
    """The tables with lead times that count the periods between an order and the first sale."""
    check_choice("sold_from", sold_from, (NEXT, SAME))
    if "lead_time" not in sales.items.columns:
        raise InputError("There is no table of items: give lead times and costs.")
    if sold_from == NEXT:
        return sales
    at_once = sales.items.filter(pl.col("lead_time") < 1)[ID].to_list()
    reason = f"lead_time is 0: with sold_from = {SAME!r} the next period is a lead time of 1."
    left = ~pl.col(ID).is_in(at_once)
    return replace(
        sales,
        history=sales.history.filter(left),
        ahead=sales.ahead.filter(left),
        items=sales.items.filter(left).with_columns(pl.col("lead_time") - 1),
        refused=dict(sorted((sales.refused | dict.fromkeys(at_once, reason)).items())),
    )


def priors_of(items: Iterable[Item], outlook: Outlook) -> dict[str | None, Prior]:
    """What can be borrowed by the items of each group that have few records."""
    few: set[str | None] = set()
    rich: dict[str | None, list[tuple[Array, Mask, Array, Array]]] = {}
    for item in items:
        weights = outlook.weights(item)
        if borrows(item, weights, outlook.plain):
            few.add(item.group)
        if item.sales.size >= FEW and item.sales.any():
            factors = np.ones(item.sales.size)
            if not outlook.plain:
                factors = outlook.factors(item, item.periods)
            known = np.isfinite(factors)
            weights = np.ones(item.sales.size) if weights is None else weights
            each = (item.counts[known], item.censored[known], factors[known], weights[known])
            rich.setdefault(item.group, []).append(each)
    found = {group: fit_prior(rich.get(group, [])) for group in few}
    return {group: prior for group, prior in found.items() if prior is not None}


def _table(
    sales: Sales,
    items: Sequence[Item],
    settings: _Settings,
    known: _Known,
    workers: int,
    watch: Watch,
) -> pl.DataFrame:
    chunks = (items[first : first + _CHUNK] for first in range(0, len(items), _CHUNK))
    jobs = ((chunk, settings, known) for chunk in chunks)
    plugins = plugins_named([settings.family])
    found = list(each_of(_fit_all, jobs, workers, watch, len, sales.items.height, plugins))
    rows = [row for chunk in found for row in chunk]
    for name, reason in sales.refused.items():
        rows.append({ID: name, "verdict": REFUSED, "reason": reason})
    names = family_named(settings.family).parameters
    kinds = {ID: pl.String, "order": pl.Float64, **dict.fromkeys(names, pl.Float64), **_COLUMNS}
    table = pl.DataFrame(rows, schema=kinds).with_columns(
        pl.col(name).round_sig_figs(_DIGITS) for name in _COLUMNS if _COLUMNS[name] == pl.Float64
    )
    notes = pl.DataFrame(
        {ID: list(sales.notes), "note": list(sales.notes.values())},
        schema={ID: pl.String, "note": pl.String},
    )
    return table.join(notes, on=ID, how="left").sort(ID)


#: Columns of a plan besides the item, its order and the parameters of its policy.
_COLUMNS: dict[str, Any] = {
    "expected_cost": pl.Float64,
    "cost_low": pl.Float64,
    "cost_high": pl.Float64,
    "service_level": pl.Float64,
    "fill_rate": pl.Float64,
    "mean_demand": pl.Float64,
    "level_in_force": pl.Float64,
    "cost_in_force": pl.Float64,
    "surviving_low": pl.Float64,
    "surviving_high": pl.Float64,
    "judged_up_to": pl.Float64,
    "try_level": pl.Float64,
    "periods": pl.Int64,
    "sold_out": pl.Int64,
    "verdict": pl.String,
    "reason": pl.String,
}


def _fits(sales: Sales, settings: _Settings, known: _Known) -> Iterator[Fit]:
    for item in items_of(sales):
        with suppress(IopeaError):
            yield fit_item(item, settings, known)


def _fit_all(items: Sequence[Item], settings: _Settings, known: _Known) -> list[dict[str, Any]]:
    """The rows of the plan; what goes wrong with one item is said of that item."""
    rows = []
    for item in items:
        try:
            rows.append(fit_item(item, settings, known).row)
        except IopeaError as error:
            rows.append({ID: item.row[ID], "verdict": REFUSED, "reason": str(error)})
    return rows


def fit_item(item: Item, settings: _Settings, known: _Known) -> Fit:
    """Fit a policy to one item."""
    rng = np.random.default_rng(seed_for("fit", item.name))
    item, view = known.outlook.view(item)
    prior = (
        known.priors.get(item.group) if borrows(item, view.weights, known.outlook.plain) else None
    )
    choice = choose(item, settings.family, view, prior)
    shop, law, path, best = choice.shop, choice.law, choice.path, choice.policy
    in_force = _in_force(item, shop)
    policies = np.unique(
        np.vstack([choice.net, best, *([] if in_force is None else [in_force])]), axis=0
    )
    place = _place(policies, best)
    lost = shop.system.lost_sales_cost
    plain = _costs(path, shop, policies)
    costs = plain + lost * path.mean()
    changes, means = _changes(shop, law, policies, rng)
    high_, low_ = _band(changes + means[:, None], costs, place, settings.level)
    reached = _reach(item, view)
    assumed = _assumed(known.outlook, prior)
    whole = bool((np.diff(item.periods) == 1).all())
    doubt = (
        _stale(item, known.newest, known.outlook)
        or assumed
        or _holes(item)
        or trust(item.sales, item.censored, item.stock, whole)
        or _beyond(law)
    )
    found = _Judgement.of(
        shop,
        path,
        policies,
        plain,
        changes,
        law.number,
        place,
        reached,
        item.row,
        settings.delta,
    )
    verdict, reason = found.verdict(item, doubt, settings)
    chosen = policies[place]
    outcome = _outcome(shop, chosen, path)
    order = None
    if None not in item.state:
        order = shop.tonight(chosen, *item.state)  # type: ignore[arg-type]
    elif reason is None or verdict != UNKNOWN:
        missing = "on_hand" if item.state[0] is None else "on_order"
        reason = f"{reason + '; ' if reason else ''}no order, since {missing} is not known"
    row = {
        ID: item.row[ID],
        "order": order,
        **dict(zip(shop.family.parameters, map(float, chosen), strict=True)),
        "expected_cost": float(costs[place]),
        "cost_low": float(max(costs[place] + low_, 0.0)),
        "cost_high": float(costs[place] + high_),
        **outcome,
        "mean_demand": float(path.mean()),
        "level_in_force": item.row["level"],
        "cost_in_force": None if in_force is None else float(costs[_place(policies, in_force)]),
        "surviving_low": found.least,
        "surviving_high": found.most,
        "judged_up_to": found.judged_up_to,
        "try_level": found.try_level if verdict == UNKNOWN else None,
        "periods": int(item.sales.size),
        "sold_out": int(item.censored.sum()),
        "verdict": verdict,
        "reason": reason,
    }
    return Fit(
        row,
        item,
        shop,
        law,
        policies,
        costs,
        plain,
        plain + found.below,
        plain + found.above,
        found.judged,
    )


def _reach(item: Item, view: View) -> float:
    """The largest stock that enough periods had, at the factor of the periods to come."""
    sales, stock = item.sales, item.stock
    if view.factors is not None:
        sales = _at_target(item, view.factors, view)
        if stock is not None:
            held = replace(item, sales=stock, censored=np.ones(stock.size, dtype=bool))
            stock = _at_target(held, view.factors, view, like=item)
    return reach(sales, item.censored, stock)


def _holes(item: Item) -> str | None:
    """Whether too few of the periods tell of demand to be trusted for all of them."""
    periods = item.end - int(item.periods[0]) + 1
    if item.sales.size >= _TOLD * periods:
        return None
    return f"only {item.sales.size} of {periods} periods tell of demand: the note says why"


def _stale(item: Item, newest: int, outlook: Outlook) -> str | None:
    """Whether the history of an item ended before those of others."""
    late = newest - item.end
    if late <= 0:
        return None
    some = outlook.clock.frequency if late == 1 else f"{late} {outlook.clock.frequency}s"
    return f"its last record is {some} older than the last one of the table"


def _beyond(law: ItemLaw) -> str | None:
    """Whether much of the cost is that of demand which nobody has seen."""
    if law.unseen <= _UNSEEN:
        return None
    return (
        f"in {law.unseen:.0%} of the periods more was wanted than was ever in stock, and costs "
        "depend on how much"
    )


def _assumed(outlook: Outlook, prior: Prior | None) -> str | None:
    """What is assumed besides the records, for which nothing can be certified."""
    used = [] if outlook.plain else [str(outlook)]
    used += ["what was borrowed from its group"] if prior is not None else []
    return f"it depends on {' and '.join(used)}" if used else None


@lru_cache(maxsize=32)
def _shuffled(number: int, which: int = 0) -> Indices:
    """One of some orders of strata, the same for all items, in which neighbours look independent.

    The numbers of a linear congruential generator over its whole period: several in a row are a
    lattice in the cube, so that costs of policies have a third of the error of a random order.

    >>> [int(place) for place in _shuffled(1024)[:4]], np.unique(_shuffled(1024)).size
    ([0, 1, 862, 807], 1024)
    """
    known = _MULTIPLIERS.get(number, ())
    if which >= len(known):
        return np.random.default_rng(seed_for("path", number, which)).permutation(number)
    found = np.zeros(number, dtype=np.intp)
    for place in range(1, number):
        found[place] = (known[which] * found[place - 1] + 1) % number
    return found


def _costs(path: Array, shop: ItemShop, policies: Array) -> Array:
    """Mean costs of policies on several paths of the same law, of which this is the first."""
    values, paths = np.sort(path), np.empty((_PATHS, path.size))
    paths[0] = path
    for which in range(1, _PATHS):
        paths[which, _shuffled(path.size, which)] = values
    return np.asarray(shop.costs(paths, policies).mean(axis=0))


def _in_force(item: Item, shop: ItemShop) -> Array | None:
    """The level in force, where policies are levels."""
    level = item.row["level"]
    return np.array([level]) if level is not None and shop.family.one_level else None


def _place(policies: Array, one: Array) -> int:
    return int(np.flatnonzero((policies == one).all(axis=1))[0])


def _changes(
    shop: ItemShop, law: ItemLaw, policies: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """How much dearer each policy is on other laws, (draws, n), and what all demand is worth."""
    order = _shuffled(max(_SHORT, _SHORT_LEAD_TIMES * (shop.system.lead_time + shop.review)))
    drawn, means = law.redrawn(_DRAWS, order, rng)
    usual = law.quantiles(order.size, order)
    costs = shop.costs(np.vstack([usual, drawn]), policies)
    lost = shop.system.lost_sales_cost
    return costs[1:] - costs[0], lost * (means - usual.mean())


def _band(changes: Array, costs: Array, place: int, level: float) -> tuple[float, float]:
    """How far the cost of the chosen policy may lie above and below its estimate.

    It holds at once for all policies that would have been chosen on one of the laws.
    """
    chosen = (costs + changes).argmin(axis=1)
    among = np.unique(np.append(chosen, place))
    spread = _spread(changes, costs)
    above, below = _simultaneous(changes[:, among] / spread[among], _SAFE * (1 - level) / 2)
    return above * float(spread[place]), below * float(spread[place])


def _spread(changes: Array, costs: Array, unseen: Array | float = 0.0) -> Array:
    """Standard deviation of the cost of each policy, with what records can't show added to it."""
    rounding = _ROUNDING * (1 + np.abs(costs).max())
    return np.asarray(np.hypot(changes.std(axis=0), np.maximum(unseen, rounding)))


def _simultaneous(scaled: Array, share: float) -> tuple[float, float]:
    """Standard deviations that the changes of all policies at once keep between.

    Draws show the two largest of them; what is rarer is as far out as in a normal law.
    """
    draws = len(scaled)
    shown = max(share, 2 / (draws + 1))
    farther = ndtri(share) / ndtri(shown)
    last = min(math.ceil((draws + 1) * (1 - shown)), draws) - 1
    highest, lowest = np.sort(scaled.max(axis=1)), np.sort(scaled.min(axis=1))
    above, below = float(highest[last]), float(lowest[draws - 1 - last])
    return farther * max(above, 0.0), farther * min(below, 0.0)


@dataclass(frozen=True)
class _Judgement:
    """What the history tells of the policies."""

    judged: Mask
    below: Array
    above: Array
    least: float | None
    most: float | None
    judged_up_to: float | None
    try_level: float
    decides: bool
    reached: float

    @classmethod
    def of(
        cls,
        shop: ItemShop,
        path: Array,
        policies: Array,
        plain: Array,
        changes: Array,
        records: float,
        place: int,
        reached: float,
        row: Mapping[str, Any],
        delta: float,
    ) -> _Judgement:
        """Bands of the judged policies, survivors, and whether what is not judged could matter."""
        top = shop.family.most_stock(shop.system)
        tops = policies.max(axis=1)
        # The level in force may lie outside the range: it is judged, and no candidate.
        inside = ((policies >= shop.box.low) & (policies <= shop.box.high)).all(axis=1)
        stocks = shop.stocks(policies, path)
        judged = stocks <= reached * (1 + 1e-9)
        held = max(row["level"] or 0.0, float(tops[judged].max()) if judged.any() else 0.0)
        beyond = tops[~judged & (tops > held)]
        next_one = max(float(tops[place]), float(beyond.min()) if beyond.size else held)
        next_one = min(next_one, math.inf if row["high"] is None else max(row["high"], tops[place]))
        among = np.flatnonzero(judged & inside)
        if not among.size:
            # Nothing of the range was in stock often enough.
            return cls(
                np.zeros_like(judged), np.zeros(len(plain)), np.zeros(len(plain)), None,
                float(tops[inside].max()), None, next_one, False, reached,
            )  # fmt: skip
        # Demand below all that was seen may have a probability of about one record. It costs a
        # policy at most what it could sell of the least demand that was seen.
        system = shop.system
        each = system.lost_sales_cost + (system.lead_time + shop.review) * system.holding_cost
        spread = _spread(changes, plain, each * np.minimum(tops, path.min()) / records)
        above, below = _simultaneous((changes / spread)[:, judged], _SAFE * delta / 2)
        best = int(among[plain[among].argmin()])
        apart = changes - changes[:, [best]]
        between = _spread(apart, plain)
        limit = max(map(abs, _simultaneous(apart / between, delta / 2)))
        endless = np.where(path > reached, _ENDLESS * top, path)
        least = shop.costs(endless[None], policies)[0] if np.isfinite(reached) else plain
        lowest = np.where(judged, plain, np.minimum(least, plain))
        alive = inside & (lowest - plain[best] <= limit * between)
        full = plain[best] + shop.system.lost_sales_cost * path.mean()
        could = inside & ~judged & (lowest < plain[best] - _MATTERS * max(full, 0.0))
        values = policies[alive][:, 0]
        return cls(
            judged=judged,
            below=np.where(judged, below * spread, -np.inf),
            above=np.where(judged, above * spread, np.inf),
            least=float(values.min()),
            most=float(values.max()),
            judged_up_to=float(tops[judged].max()),
            try_level=next_one,
            decides=bool(alive[place]) and not could.any(),
            reached=reached,
        )

    def verdict(self, item: Item, doubt: str | None, settings: _Settings) -> tuple[str, str | None]:
        """What is said of the item, and why."""
        number = item.sales.size
        if number < FEWEST_PERIODS:
            some = "is 1 period" if number == 1 else f"are {number} periods"
            return UNKNOWN, f"there {some}, too few to judge any policy"
        if not self.decides:
            return UNKNOWN, (
                f"stock was hardly ever above {self.reached:.4g}, and demand beyond it could make "
                f"a higher level cheaper: try a level of {self.try_level:.4g} for some periods"
            )
        if doubt is not None:
            return PLAUSIBLE, doubt
        sold = int((item.sales > 0).sum())
        if sold < FEWEST_SALES:
            return PLAUSIBLE, f"only {sold} periods had sales: a certificate needs {FEWEST_SALES}"
        return CERTIFIED, None


def _outcome(shop: ItemShop, policy: Array, path: Array) -> dict[str, float]:
    """The share of periods in which all demand is met, and the share of demand."""
    stock, sales, _ = shop.operate(policy, np.append(path, path))[:, path.size :]
    wanted = float(path.sum())
    return {
        "service_level": float((stock >= path * (1 - 1e-9)).mean()),
        "fill_rate": float(sales.sum()) / wanted if wanted > 0 else 1.0,
    }
