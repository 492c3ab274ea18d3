"""One convention for sales tables: a history of sales, and a table of items.

History, one row for each item and period:

``unique_id, ds, sales``
    The item, the day, week or month (a date as 2024-03-28), and what was sold.
``stock``, or ``stockout``, or ``hours_out``
    What is known of availability: what was available for sale in the period, deliveries included;
    or whether the item was sold out when the period ended (0 or 1); or for how many hours it was
    out of stock. ``hours_out`` beside one of the others says which periods were out of stock for a
    while and in stock again. Without ``stock`` or ``stockout``, a period with hours out is taken to
    have ended sold out.
``on_hand, on_order, received, order, forecast, holiday``
    Optional: stock and open orders at the end of the period, what arrived and what was ordered in
    it, a forecast of its demand, made before it, and whether it was a holiday (0 or 1, or a share
    of it). Rows after the last one with sales or stock are of the future: its forecasts, holidays.

Items, one row each: ``unique_id, lead_time, holding_cost, lost_sales_cost``, and optionally
``on_hand, on_order, fixed_order_cost, order_multiple, minimum_order, level, review_period, low,
high, step, group``.

What a period tells of demand:

- Stock was left: demand was what was sold.
- Sold out when it ended: demand was at least that.
- Out of stock for a while and in stock again; no stock at all; stock or sales unknown; negative
  sales (returns); more sold than there was: nothing. Such periods stay in the table and are counted
  in the notes.

Rows may come in any order. Periods without a row are gaps, of which nothing is known. Equal rows
count once. An item is left out, with the reason, if two of its rows for a period differ or if one
of its cells can't be read; the others go on.
"""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from iopea.errors import InputError, shown
from iopea.model import check_choice
from iopea.tables.frames import ROW, as_day, as_number, as_text, frame_of, need, renamed
from iopea.types import Array, Indices

Frequency = Literal["day", "week", "month"]

ID, DS, SALES = "unique_id", "ds", "sales"
STOCK, STOCKOUT, HOURS = "stock", "stockout", "hours_out"
AVAILABILITY = (STOCK, STOCKOUT, HOURS)
FORECAST, HOLIDAY = "forecast", "holiday"
OPTIONAL = ("on_hand", "on_order", "received", "order", FORECAST, HOLIDAY)
#: Columns that may not be below 0.
_NO_LESS = (HOURS, FORECAST, HOLIDAY)
#: Columns of the items that must be there, and what an absent or empty cell of the others means.
NEEDED = ("lead_time", "holding_cost", "lost_sales_cost")
DEFAULTS: dict[str, float | None] = {
    "on_hand": None, "on_order": None, "fixed_order_cost": 0.0, "order_multiple": None,
    "minimum_order": None, "level": None, "review_period": 1.0, "low": None, "high": None,
    "step": None,
}  # fmt: skip
GROUP = "group"
#: Columns that hold whole numbers, and those that must be above 0.
_WHOLE = {"lead_time": (0, 1000), "review_period": (1, 1000)}
_ABOVE_0 = ("step",)
#: Relative tolerance within which everything was sold.
_SOLD_OUT = 1e-9
_WEEK, _MONTH = 7, 28
#: If so many rows have the same weekday, or day of the month, the others are slips.
_NEARLY_ALL = 0.8
#: Years that dates may have.
YEARS = (1900, 2200)
#: How alike the names of two columns are, so that one is taken for a slip.
_ALIKE = 0.85

#: What a period tells nothing of, and how often that was, in the order in which it is looked at.
_SILENT = {
    "returned": "{} with negative sales (returns)",
    "impossible": "{} with more sales than stock",
    "unknown": "{} without sales or stock",
    "again": "{} out of stock for a while and in stock again",
    "empty": "{} without any stock",
    "marked": "{} marked sold out although stock was left: taken for sold out",
    "missing": "{} without a row, of which nothing is known: not taken for 0",
}


@dataclass(frozen=True)
class Clock:
    """When periods begin.

    Attributes
    ----------
    frequency : str. day, week or month.
    origin : int. The day since 1970 at which week 0 begins.
    """

    frequency: Frequency
    origin: int = 0

    def days(self, periods: Indices) -> Array:
        """The day since 1970 on which each period begins.

        >>> Clock("month").days(np.array([12 * 1970 + 1, 12 * 1970 + 2]))
        array([ 0., 31.])
        """
        if self.frequency == "day":
            return periods.astype(np.float64)
        if self.frequency == "week":
            return np.asarray(self.origin + 7.0 * periods)
        months = np.asarray(periods - 1 - 12 * 1970, dtype="datetime64[M]")
        return months.astype("datetime64[D]").astype(np.float64)

    def period(self, day: datetime.date) -> int:
        """The period in which a day lies."""
        if self.frequency == "month":
            return day.year * 12 + day.month
        number = (day - datetime.date(1970, 1, 1)).days
        return number if self.frequency == "day" else (number - self.origin) // _WEEK


@dataclass(frozen=True)
class Sales:
    """A history of sales as it was read.

    Attributes
    ----------
    history : DataFrame. By item and time: ``unique_id, ds, period`` (a running number), ``gap``
        (periods without a row just before), ``sales``, ``stock`` (if known), ``told`` (whether the
        period tells of demand), ``censored`` (whether demand may have been more than was sold), and
        the optional columns.
    ahead : DataFrame. Rows of each item after its last sales: ``unique_id, ds, period``, and
        ``forecast`` and ``holiday`` if known.
    items : DataFrame. One row for each item that can be used.
    clock : Clock. When periods begin: they are days, weeks or months.
    refused : dict. The items that are left out, each with a reason.
    notes : dict. Of the others: what their rows have that tells nothing of demand.
    remarks : tuple of str. What concerns the tables as a whole.
    """

    history: pl.DataFrame
    ahead: pl.DataFrame
    items: pl.DataFrame
    clock: Clock
    refused: dict[str, str]
    notes: dict[str, str]
    remarks: tuple[str, ...]

    @property
    def frequency(self) -> Frequency:
        """Day, week or month."""
        return self.clock.frequency

    def __repr__(self) -> str:
        return (
            f"Sales({self.items.height} items, {self.history.height} {self.frequency}s, "
            f"{len(self.refused)} refused)"
        )


def read_sales(
    history: Any,
    items: Any = None,
    *,
    frequency: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Sales:
    """Read a history of sales and the table of its items.

    Parameters
    ----------
    history, items : a file (CSV, Parquet, Arrow), or a table of Polars, Arrow or pandas. Without
        items, those of the history are taken, and nothing is known of their costs.
    frequency : {"day", "week", "month"}, optional. Seen from the dates if not given.
    columns : dict, optional. Names of the columns where they differ, as ``{"sales": "qty"}``; of
        both tables.

    Examples
    --------
    >>> days = ["2024-03-01", "2024-03-02", "2024-03-04"]
    >>> sales = read_sales({"unique_id": ["a"] * 3, "ds": days, "sales": [3, 5, 1],
    ...                     "stock": [5, 5, 4]})
    >>> sales.history["censored"].to_list(), sales.history["gap"].to_list(), sales.frequency
    ([False, True, False], [0, 0, 1], 'day')
    """
    if frequency is not None:
        check_choice("frequency", frequency, get_args(Frequency))
    raw = frame_of("history", history)
    about = None if items is None else frame_of("table of items", items)
    raw, about = renamed({} if columns is None else columns, raw, about)
    need("history", raw, (ID, DS, SALES))
    if not set(AVAILABILITY) & set(raw.columns):
        raise InputError(
            f"The history has no column {STOCK!r}, {STOCKOUT!r} or {HOURS!r}: what sold out is "
            f"unknown. If nothing ever did, add a column {STOCKOUT!r} of zeros."
        )
    refusals = _Refusals()
    frame = _cells(raw, refusals)
    remarks = _alike("history", raw, (ID, DS, SALES, *AVAILABILITY, *OPTIONAL))
    missing = int(raw.select(as_text(raw, ID).is_null().sum()).item())
    if missing:
        remarks.append(f"{_rows(missing)} of the history without a {ID!r}: left out.")
    known = _frequency(frame[DS].drop_nulls(), frequency)
    origin = _weekday(frame[DS].drop_nulls())
    frame = _periods(frame, known, origin, refusals)
    frame = _once(frame, known, refusals)
    about = _items(about, frame, refusals, remarks)
    used = about.select(ID)
    frame = frame.join(used, on=ID, how="semi")
    seen = [pl.col(name).is_not_null() for name in (SALES, *AVAILABILITY) if name in frame.columns]
    last = pl.col("period").filter(pl.any_horizontal(seen)).max().over(ID)
    later = (pl.col("period") > last).fill_null(False)
    future = [name for name in (FORECAST, HOLIDAY) if name in frame.columns]
    ahead = frame.filter(later).select(ID, DS, "period", *future)
    frame, notes = _told(frame.filter(~later))
    refused = dict(sorted(refusals.found.items()))
    return Sales(frame, ahead, about, Clock(known, origin), refused, notes, tuple(remarks))


class _Refusals:
    """The items that are left out, each with the first reason."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def add(self, rows: pl.DataFrame, sentence: Any) -> None:
        """Refuse the items of these rows; the sentence is made of the first row of each."""
        first = rows.sort(ROW).unique(ID, keep="first", maintain_order=True)
        for row in first.iter_rows(named=True):
            self.found.setdefault(row[ID], sentence(row))

    def left(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of all other items."""
        return frame.filter(~pl.col(ID).is_in(list(self.found))) if self.found else frame


def _rows(number: int) -> str:
    return f"{number} row{'' if number == 1 else 's'}"


def _cells(raw: pl.DataFrame, refusals: _Refusals) -> pl.DataFrame:
    """The cells of the history as text, days and numbers; items with others are refused."""
    names = [SALES, *(name for name in (*AVAILABILITY, *OPTIONAL) if name in raw.columns)]
    numbers = {name: as_number(raw, name) for name in names}
    day, no_day = as_day(raw, DS)
    frame = raw.select(
        as_text(raw, ID).alias(ID),
        day.alias(DS),
        *(number.alias(name) for name, (number, _) in numbers.items()),
        ROW,
        no_day.alias("_no_day"),
        pl.col(DS).alias("_ds"),
        *(bad.alias(f"_bad_{name}") for name, (_, bad) in numbers.items()),
        *(pl.col(name).alias(f"_was_{name}") for name in names),
    ).filter(pl.col(ID).is_not_null())
    refusals.add(
        frame.filter("_no_day"),
        lambda row: f"ds in row {row[ROW]} is {shown(row['_ds'])}: give a date as 2024-03-28.",
    )
    refusals.add(
        frame.filter(~pl.col(DS).dt.year().is_between(*YEARS)),
        lambda row: (
            f"ds in row {row[ROW]} is {row[DS]}: give a year from {YEARS[0]} to {YEARS[1]}."
        ),
    )
    rights = dict.fromkeys(names, "a finite number")
    checks = [(name, pl.col(f"_bad_{name}")) for name in names]
    for name in (*_NO_LESS, STOCKOUT):
        if name in names:
            wrong = ~pl.col(name).is_in([0.0, 1.0]) if name == STOCKOUT else pl.col(name) < 0
            checks.append((name, wrong.fill_null(False)))
            rights[name] = "0 or 1" if name == STOCKOUT else "a number of at least 0"
    for name, wrong in checks:
        refusals.add(
            frame.filter(wrong),
            lambda row, name=name: (
                f"{name} in row {row[ROW]} is {shown(row[f'_was_{name}'])}: give {rights[name]}."
            ),
        )
    return refusals.left(frame.select(ID, DS, *names, ROW))


def _frequency(days: pl.Series, given: str | None) -> Frequency:
    """Days, weeks or months, by the distances of the dates of nearly all rows."""
    if given is not None:
        return given  # type: ignore[return-value]
    if days.is_empty():
        return "day"
    number, day = days.dt.epoch("d"), days.dt.day()
    for part in (number % _WEEK, day):  # weeks begin on one weekday, months on one day
        usual = part == part.mode().min()
        if usual.mean() >= _NEARLY_ALL:  # type: ignore[operator]
            number = number.filter(usual)
            break
    numbers = number.unique().sort().to_numpy()
    if numbers.size < 2:
        return "day"
    least = int(np.diff(numbers).min())
    if least >= _MONTH:
        return "month"
    return "week" if least >= _WEEK else "day"


def _weekday(days: pl.Series) -> int:
    """A day, since 1970, of the weekday on which most rows begin, no later than any."""
    numbers = days.dt.epoch("d").to_numpy()
    usual = int(np.bincount(numbers % _WEEK, minlength=_WEEK).argmax()) if numbers.size else 0
    first = int(numbers.min()) if numbers.size else 0
    return first - (first - usual) % _WEEK


def _periods(
    frame: pl.DataFrame, frequency: Frequency, start: int, refusals: _Refusals
) -> pl.DataFrame:
    """Number the periods, and refuse items whose dates don't fit."""
    number = pl.col(DS).dt.epoch("d")
    if frequency == "month":
        period = pl.col(DS).dt.year().cast(pl.Int64) * 12 + pl.col(DS).dt.month()
    elif frequency == "week":
        weekday = (datetime.date(1970, 1, 1) + datetime.timedelta(days=start)).strftime("%A")
        off = (number - start) % _WEEK != 0
        refusals.add(
            frame.filter(off),
            lambda row: (
                f"ds in row {row[ROW]} is {row[DS]}: the weeks of this table begin on a "
                f"{weekday}, so give dates that are whole weeks apart, or say frequency='day'."
            ),
        )
        period = (number - start) // _WEEK
    else:
        period = number
    return refusals.left(frame).with_columns(period.cast(pl.Int64).alias("period"))


def _once(frame: pl.DataFrame, frequency: Frequency, refusals: _Refusals) -> pl.DataFrame:
    """Each period of an item once, in order of time; items with different rows are refused."""
    values = [name for name in frame.columns if name != ROW]
    frame = frame.sort(ID, "period", ROW).unique(values, keep="first", maintain_order=True)
    twice = pl.struct(ID, "period").is_duplicated()
    refusals.add(
        frame.filter(twice),
        lambda row: (
            f"there are different rows for the {frequency} {row[DS]}, the first of them row "
            f"{row[ROW]}: keep one of them, or add them up; or its periods are no {frequency}s: "
            "say which they are by frequency."
        ),
    )
    frame = refusals.left(frame)
    gap = (pl.col("period").diff() - 1).over(ID).fill_null(0)
    return frame.with_columns(gap.alias("gap"))


def _told(frame: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, str]]:
    """What each period tells of demand."""
    nothing = pl.lit(None, dtype=pl.Float64)
    stock, out, hours = (
        pl.col(name) if name in frame.columns else nothing for name in AVAILABILITY
    )
    sales = pl.col(SALES)
    if STOCK in frame.columns:
        full = (sales >= stock * (1 - _SOLD_OUT)).fill_null(False)
        ended_out = full | (out == 1).fill_null(False)
        known = stock.is_not_null() | out.is_not_null()
    elif STOCKOUT in frame.columns:
        ended_out, known = out == 1, out.is_not_null()
    else:
        ended_out, known = hours > 0, hours.is_not_null()
    again = (hours > 0).fill_null(False) & ~ended_out
    above = (sales > stock * (1 + _SOLD_OUT)).fill_null(False)
    empty = pl.coalesce(stock <= 0, ended_out & (sales <= 0))
    reason = (
        pl.when(sales < 0).then(pl.lit("returned"))
        .when(above & (stock >= 0)).then(pl.lit("impossible"))
        .when(sales.is_null() | ~known).then(pl.lit("unknown"))
        .when(again).then(pl.lit("again"))
        .when(empty).then(pl.lit("empty"))
    )  # fmt: skip
    frame = frame.with_columns(reason.alias("_silent")).with_columns(
        pl.col("_silent").is_null().alias("told"),
        (ended_out.fill_null(False) & pl.col("_silent").is_null()).alias("censored"),
    )
    left = (stock > sales * (1 + _SOLD_OUT)) & (out == 1)
    counts = pl.concat(
        [
            frame.drop_nulls("_silent").group_by(ID, "_silent").len("number"),
            _counted(frame.filter(left), "marked", pl.len()),
            _counted(frame.filter(pl.col("gap") > 0), "missing", pl.col("gap").sum()),
        ],
        how="vertical_relaxed",
    )
    found: dict[str, dict[str, int]] = {}
    for item, silent, number in counts.sort(ID).iter_rows():
        found.setdefault(item, {})[silent] = number
    notes = {
        item: "; ".join(
            words.format(f"{by[silent]} period{'' if by[silent] == 1 else 's'}")
            for silent, words in _SILENT.items()
            if silent in by
        )
        for item, by in found.items()
    }
    order = [ID, DS, "period", "gap", SALES, "told", "censored"]
    rest = [name for name in (STOCK, *OPTIONAL) if name in frame.columns]
    return frame.select(*order, *rest), notes


def _counted(rows: pl.DataFrame, reason: str, number: pl.Expr) -> pl.DataFrame:
    return rows.group_by(ID).agg(pl.lit(reason).alias("_silent"), number.alias("number"))


def _alike(what: str, raw: pl.DataFrame, known: tuple[str, ...]) -> list[str]:
    """Sentences about columns that are not used and nearly have the name of one that would be."""
    found = []
    for name in raw.columns:
        near = difflib.get_close_matches(name.strip().lower(), known, 1, _ALIKE)
        if name not in known and near and near[0] not in raw.columns:
            found.append(
                f"The column {name!r} of the {what} is not used: rename it to {near[0]!r}."
            )
    return found


def _items(
    raw: pl.DataFrame | None, frame: pl.DataFrame, refusals: _Refusals, remarks: list[str]
) -> pl.DataFrame:
    """The items that have a history and can be used."""
    there = frame.select(ID).unique(maintain_order=True)
    if raw is None:
        return there.sort(ID)
    need("table of items", raw, (ID, *NEEDED))
    remarks += _alike("table of items", raw, (ID, *NEEDED, *DEFAULTS, GROUP))
    names = [*NEEDED, *(name for name in DEFAULTS if name in raw.columns)]
    numbers = {name: as_number(raw, name) for name in names}
    about = raw.select(
        as_text(raw, ID).alias(ID),
        ROW,
        *(number.alias(name) for name, (number, _) in numbers.items()),
        *(bad.alias(f"_bad_{name}") for name, (_, bad) in numbers.items()),
        *(pl.col(name).alias(f"_was_{name}") for name in names),
        *([as_text(raw, GROUP).alias(GROUP)] if GROUP in raw.columns else []),
    ).filter(pl.col(ID).is_not_null())
    if about.height < raw.height:
        remarks.append(
            f"{_rows(raw.height - about.height)} of the items without a {ID!r}: left out."
        )
    refusals.add(
        about.filter(pl.col(ID).is_duplicated()),
        lambda row: f"it has several rows in the table of items, the first of them row {row[ROW]}.",
    )
    for name in names:
        wrong, right = _wrong(name)
        refusals.add(
            about.filter(pl.col(f"_bad_{name}") | wrong),
            lambda row, name=name, right=right: (
                f"{name} in row {row[ROW]} of the items is {shown(row[f'_was_{name}'])}: "
                f"give {right}."
            ),
        )
    about = refusals.left(about)
    if {"low", "high"} <= set(names):
        refusals.add(
            about.filter(pl.col("low") > pl.col("high")),
            lambda row: f"low is {row['low']:g} and high {row['high']:g}: exchange them.",
        )
        about = refusals.left(about)
    for name in about.join(there, on=ID, how="anti")[ID].to_list():
        refusals.found.setdefault(name, "it has no row in the history that can be used.")
    unknown = there.join(about.select(ID), on=ID, how="anti")[ID].to_list()
    unknown = [name for name in unknown if name not in refusals.found]
    if unknown:
        remarks.append(
            f"{len(unknown)} item{'' if len(unknown) == 1 else 's'} of the history not in the "
            f"table of items: left out, such as {unknown[0]!r}."
        )
    defaults = [
        pl.lit(value, dtype=pl.Float64).alias(name)
        if name not in names
        else pl.col(name).fill_null(value)
        if value is not None
        else pl.col(name)
        for name, value in DEFAULTS.items()
    ]
    group = pl.col(GROUP) if GROUP in about.columns else pl.lit(None, dtype=pl.String).alias(GROUP)
    whole = [pl.col(name).cast(pl.Int64) for name in _WHOLE]
    return (
        about.join(there, on=ID, how="semi")
        .with_columns(defaults)
        .with_columns(whole)
        .select(ID, *NEEDED, *DEFAULTS, group)
        .sort(ID)
    )


def _wrong(name: str) -> tuple[pl.Expr, str]:
    """Whether a number of an item is wrong, and what would be right."""
    value = pl.col(name)
    missing = value.is_null() if name in NEEDED else pl.lit(False)
    if name in _WHOLE:
        low, high = _WHOLE[name]
        outside = (value < low) | (value > high) | (value != value.round())
        return missing | outside.fill_null(False), f"a whole number from {low} to {high}"
    if name in _ABOVE_0:
        return missing | (value <= 0).fill_null(False), "a number above 0"
    return missing | (value < 0).fill_null(False), "a number of at least 0"
