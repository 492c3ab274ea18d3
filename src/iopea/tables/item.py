"""One item of a sales table: what each period told of its demand, and what is known in advance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from iopea.tables.reading import FORECAST, HOLIDAY, ID, Sales
from iopea.types import Array, Indices, Mask

#: Cells in which demand is counted, where it does not come in whole units, or in more of them than
#: can be counted one by one.
_CELLS, _MOST_COUNT = 512, 1024


@dataclass(frozen=True)
class Timeline:
    """What is known of periods in advance, those after the last sales included.

    Attributes
    ----------
    first : int. The first period.
    holidays : array. How much of a holiday each period is; 0 where unknown.
    forecasts : array. NaN where unknown.
    """

    first: int
    holidays: Array
    forecasts: Array

    @property
    def last(self) -> int:
        """The last period that has a row."""
        return self.first + self.holidays.size - 1

    def at(self, values: Array, periods: Indices, unknown: float) -> Array:
        """Values of some periods, which may lie beyond the last one known."""
        place = periods - self.first
        inside = (place >= 0) & (place < values.size)
        return np.where(inside, values[np.where(inside, place, 0)], unknown)


@dataclass(frozen=True)
class Item:
    """An item: its row, and the periods that tell of its demand, in order of time.

    Attributes
    ----------
    row : dict. Lead time, costs, range and group.
    sales, censored, periods : arrays. What was sold, whether demand may have been more, and when.
    stock : array, optional. What was available, if it is known in all of these periods.
    end : int. The last period of the history, whether it tells of demand or not.
    state : tuple. Stock on hand and on order after it, where known.
    timeline : Timeline, optional. Holidays and forecasts, if the history has them.
    whole : bool. Whether demand comes in whole units.
    unit : float. The unit in which demand is counted: 1 if it comes in whole units, and not in
        many thousands.
    """

    row: Mapping[str, Any]
    sales: Array
    censored: Mask
    stock: Array | None
    periods: Indices
    end: int
    state: tuple[float | None, float | None]
    timeline: Timeline | None
    whole: bool
    unit: float

    @property
    def name(self) -> str:
        """The name of the item."""
        return str(self.row[ID])

    @property
    def group(self) -> str | None:
        """The group of the item."""
        return self.row.get("group")

    @property
    def lasts(self) -> int:
        """Periods for which an order must last: its lead time, and those until the next order."""
        return int(self.row["lead_time"]) + int(self.row["review_period"])

    @property
    def counts(self) -> Array:
        """Sales in units of demand."""
        return self.sales if self.unit == 1.0 else np.round(self.sales / self.unit)

    def before(self, period: int) -> Item:
        """The item as it was known before a period; what is on hand and on order is unknown."""
        last = int(np.searchsorted(self.periods, period))
        stock = None if self.stock is None else self.stock[:last]
        sales = self.sales[:last]
        return replace(
            self,
            sales=sales,
            censored=self.censored[:last],
            stock=stock,
            periods=self.periods[:last],
            end=period - 1,
            state=(None, None),
            **_units(sales),
        )


def items_of(sales: Sales) -> Iterator[Item]:
    """The items that can be used, with their records."""
    history = sales.history
    rows = {row[ID]: row for row in sales.items.iter_rows(named=True)}
    lines = _timelines(sales)
    names = history[ID].to_numpy()
    told = history["told"].to_numpy()
    values = {
        name: history[name].cast(pl.Float64).to_numpy() if name in history.columns else None
        for name in ("sales", "stock", "on_hand", "on_order")
    }
    censored, periods = history["censored"].to_numpy(), history["period"].to_numpy()
    edges = np.flatnonzero(np.append(names.size > 0, names[1:] != names[:-1]))
    for first, last in pairwise([*edges.tolist(), names.size]):
        part = np.flatnonzero(told[first:last]) + first
        stock = None if values["stock"] is None else values["stock"][part]
        sold: Array = values["sales"][part]  # type: ignore[index]
        yield Item(
            row=rows[names[first]],
            sales=sold,
            censored=censored[part],
            stock=None if stock is None or np.isnan(stock).any() else stock,
            periods=periods[part],
            end=int(periods[last - 1]),
            state=_state(rows[names[first]], values, last - 1, bool(censored[last - 1])),
            timeline=lines.get(names[first]),
            **_units(sold),
        )


def _units(sales: Array) -> dict[str, Any]:
    whole = bool((sales == np.floor(sales)).all())
    most = float(sales.max(initial=0.0))
    return {"whole": whole, "unit": 1.0 if whole and most <= _MOST_COUNT else most / _CELLS}


def _timelines(sales: Sales) -> dict[str, Timeline]:
    known = [name for name in (FORECAST, HOLIDAY) if name in sales.history.columns]
    if not known:
        return {}
    both = [frame.select(ID, "period", *known) for frame in (sales.history, sales.ahead)]
    found = {}
    for (item,), rows in pl.concat(both).sort(ID, "period").group_by(ID, maintain_order=True):
        periods = rows["period"].to_numpy()
        columns = []
        for name, unknown in ((HOLIDAY, 0.0), (FORECAST, np.nan)):
            line = np.full(int(periods[-1] - periods[0]) + 1, unknown)
            if name in known:
                line[periods - periods[0]] = rows[name].fill_null(unknown).to_numpy()
            columns.append(line)
        found[str(item)] = Timeline(int(periods[0]), *columns)
    return found


def _state(
    row: Mapping[str, Any], values: Mapping[str, Array | None], last: int, sold_out: bool
) -> tuple[float | None, float | None]:
    """Stock on hand and on order tonight: by the items, or by the last row of the history."""

    def at_end(name: str) -> float | None:
        found = values[name]
        return None if found is None or not found[last] >= 0 else float(found[last])

    on_hand = row["on_hand"] if row["on_hand"] is not None else at_end("on_hand")
    stock, sold = at_end("stock"), at_end("sales")
    if on_hand is None and stock is not None and sold is not None:
        on_hand = max(stock - sold, 0.0)
    if on_hand is None and sold_out:
        on_hand = 0.0
    on_order = row["on_order"] if row["on_order"] is not None else at_end("on_order")
    if on_order is None and row["lead_time"] == 0:
        on_order = 0.0
    return on_hand, on_order
