"""The report of a backtest: first where the first contestant lost, then costs, then over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from iopea.comparison.figures import drawing, finished, style_of
from iopea.comparison.tables import (
    IMPROVED,
    WORSE,
    Column,
    Entry,
    Figure,
    Line,
    Report,
    Table,
    percent,
    versions,
)
from iopea.tables.backtest import (
    HIGH_QUANTILE,
    HISTORY,
    IMPUTED,
    LEVEL,
    MOVING_AVERAGE,
    NOTHING_MORE,
    TRUTH,
    Backtest,
)
from iopea.tables.reading import ID
from iopea.types import Array

#: Most items and periods that are named, and reasons for items that were left out.
_MOST, _MOST_PERIODS, _MOST_SKIPPED = 20, 5, 20
#: What the readings are.
_ABOUT = {
    NOTHING_MORE: "as if no more had been wanted than was sold",
    IMPUTED: "the mean of 20 draws of what may have been wanted",
    HIGH_QUANTILE: "as if much had been wanted: its 95 % quantile in each period",
    TRUTH: "what was wanted, which is known here",
}


def backtest_report(found: Backtest, command: str = "") -> Report:
    """Tables and figures of a backtest."""
    parts: list[Table | Figure] = []
    if len(found.contestants) > 1:
        parts += [_lost_items(found), _lost_periods(found)]
    parts.append(_costs(found, command))
    if len(found.contestants) > 1:
        parts.append(_figure(found, command))
    if found.skipped:
        parts.append(_skipped(found))
    return Report("Backtest", (_about(found), _verdict(found)), tuple(parts), versions())


def _about(found: Backtest) -> str:
    days = sorted(set(found.periods["ds"].to_list()))
    said = (
        f"{found.items[ID].n_unique()} items, {len(days)} periods from {days[0]} to "
        f"{days[-1]}. Each contestant decided from what was known before each review; orders "
        "were sold after the lead time."
    )
    if found.cover is not None:
        said += (
            f" The moving average has {found.cover:g} periods of cover, which was best in "
            "hindsight."
        )
    return f"{said} Fits used {found.outlook}."


def _verdict(found: Backtest) -> str:
    if len(found.contestants) < 2:
        return "With one contestant there is nothing to compare."
    readings = "what was really wanted" if found.readings == (TRUTH,) else "every reading"
    if found.winner is not None:
        return f"Winner: {found.winner}. It is the cheapest on {readings}, by more than noise."
    return (
        f"No winner is named: no contestant is the cheapest on {readings} by more than noise. "
        "Where demand was censored, a cost is not a fact."
        if found.readings != (TRUTH,)
        else "No winner is named: the cheapest is not cheaper by more than noise."
    )


def _middle(found: Backtest) -> str:
    return IMPUTED if IMPUTED in found.readings else found.readings[0]


def _wide(frame: pl.DataFrame, found: Backtest, key: str) -> tuple[list[Any], Array]:
    """Costs on the middle reading: a row for each item or period, a column for each contestant."""
    some = frame.filter(reading=_middle(found))
    wide = some.pivot("contestant", index=key, values="cost")
    return wide[key].to_list(), wide.select(found.contestants).to_numpy().astype(float)


def _lost(
    found: Backtest, frame: pl.DataFrame, key: str, most: int, show: Callable[[Any], str]
) -> tuple[list[Line], int, int]:
    """Rows where the first contestant was dearer than the cheapest other, worst first."""
    names, costs = _wide(frame, found, key)
    others = np.where(np.isnan(costs[:, 1:]), np.inf, costs[:, 1:])
    best = others.argmin(axis=1)
    extra = costs[:, 0] - others.min(axis=1)
    order = np.argsort(-extra, kind="stable")[:most]
    lines = [
        Line(
            (
                show(names[place]), float(costs[place, 0]), found.contestants[1 + best[place]],
                float(others[place, best[place]]), float(extra[place]),
            )
        )
        for place in order
        if extra[place] > 0
    ]  # fmt: skip
    return lines, int((extra > 0).sum()), len(names)


def _columns(first: str, what: str) -> tuple[Column, ...]:
    return (
        Column.text(what), Column(first, ".4g"), Column.text("cheapest other"),
        Column("its cost", ".4g"), Column("lost", ".4g"),
    )  # fmt: skip


def _lost_items(found: Backtest) -> Table:
    lines, number, total = _lost(found, found.items, ID, _MOST, str)
    first = found.contestants[0]
    note = (
        f"Of {total} items {first} was dearer than the cheapest other in {number}. Costs per "
        f"period, {_ABOUT[_middle(found)]}; the cheapest of several is a hard opponent: chosen "
        "for each item in hindsight, it is lucky."
    )
    title = f"Where {first} lost: items"
    return Table("lost-items", title, _columns(first, "item"), tuple(lines), (note,))


def _lost_periods(found: Backtest) -> Table:
    # The history has costs of some items only.
    some = [name for name in found.contestants if name != HISTORY]
    if len(some) < 2:
        return Table("lost-periods", "Periods", _columns(some[0], "period"), ())
    among = replace(found, contestants=tuple(some))
    frame = found.periods.filter(pl.col("contestant").is_in(some))
    lines, number, total = _lost(among, frame, "ds", _MOST_PERIODS, str)
    note = f"Of {total} periods it was dearer in {number}. Costs of all items together."
    title = f"Where {some[0]} lost: periods"
    return Table("lost-periods", title, _columns(some[0], "period"), tuple(lines), (note,))


def _costs(found: Backtest, command: str) -> Table:
    first = found.contestants[0]
    periods = found.periods["ds"].n_unique()
    lines = []
    for reading in found.readings:
        base = found.table.filter(reading=reading, contestant=first)["cost"][0]
        for row in found.table.filter(reading=reading).iter_rows(named=True):
            sign = ""
            mine = row["contestant"] == first
            if row["p_value"] < LEVEL and not mine:
                sign = WORSE if row["saving"] > 0 else IMPROVED
            share = "" if mine or base <= 0 else percent(row["saving"] / base)
            cost = Entry(
                row["cost"], row["cost_half"], periods, sign=sign, command=command, over="period"
            )
            more = Entry(row["saving"], row["saving_half"], periods, over="period")
            cells = (
                row["contestant"], cost, None if mine else more, share,
                percent(row["fill_rate"]), float(row["item_periods"]),
            )  # fmt: skip
            lines.append(Line(cells, section=reading))
    notes = [
        f"Mean cost per item and period with its 95 % interval. Periods are clusters: what all "
        f"items have in common counts once. {WORSE} dearer than {first} by more than noise, "
        f"{IMPROVED} cheaper (at {100 * LEVEL:g} %)."
    ]
    if HISTORY in found.contestants:
        notes.append(
            "history is what really was in stock; it and its difference are of items whose stock "
            "is known in all periods."
        )
    if MOVING_AVERAGE in found.contestants:
        notes.append("The cover of moving-average was chosen in hindsight, all others before.")
    notes += [f"{reading}: {_ABOUT[reading]}." for reading in found.readings]
    columns = (
        Column.text("contestant"), Column("cost"), Column(f"more than {first}"),
        Column("in per cent"), Column("fill rate"), Column("item-periods", ",.0f"),
    )  # fmt: skip
    return Table("costs", "Costs", columns, tuple(lines), tuple(notes))


def _figure(found: Backtest, command: str) -> Figure:
    first = found.contestants[0]
    others = [name for name in found.contestants[1:] if name != HISTORY]
    title = f"What {first} saved"
    caption = (
        f"Costs of all items of the others less those of {first}, added up from the first period "
        "on. Solid lines: the middle reading. The band reaches from the lowest to the highest of "
        "all readings."
    )
    with drawing(7.4, 3.6) as canvas:
        from iopea.comparison.axes import label_ticks, legend_below, lines_of

        axes = canvas.subplots()
        for name in others:
            colour, _, dash = style_of(name, found.contestants)
            saved = {}
            for reading in found.readings:
                mine, theirs = (
                    found.periods.filter(reading=reading, contestant=each)["cost"].to_numpy()
                    for each in (first, name)
                )
                saved[reading] = np.cumsum(theirs - mine)
            days = found.periods.filter(reading=found.readings[0], contestant=name)["ds"].to_numpy()
            every = np.array(list(saved.values()))
            axes.plot(days, saved[_middle(found)], color=colour, linestyle=dash, label=name)
            axes.fill_between(
                days, every.min(axis=0), every.max(axis=0), color=colour, alpha=0.15, linewidth=0
            )
        axes.axhline(0.0, color="#222222", linewidth=0.8, linestyle=(0, (1, 2)))
        label_ticks(axes.yaxis)
        axes.set_ylabel(f"saved by {first}, in all")
        axes.tick_params(axis="x", rotation=30)
        legend_below(canvas, lines_of([axes]))
        return finished(canvas, "saved", title, caption, command)


def _skipped(found: Backtest) -> Table:
    some = list(found.skipped.items())[:_MOST_SKIPPED]
    number = len(found.skipped)
    note = f"{number} item{'' if number == 1 else 's'} in all."
    return Table(
        "left-out", "Items that were left out", (Column.text("item"), Column.text("reason")),
        tuple(Line((name, reason)) for name, reason in some), (note,),
    )  # fmt: skip
