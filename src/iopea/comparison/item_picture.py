"""One item of a plan as a picture: its history, its law, what policies cost, its calendar."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from iopea.comparison.figures import drawing
from iopea.errors import InputError, shown
from iopea.model import check_path
from iopea.storage import clear_drafts_of, make_folder_of, writing
from iopea.tables.calendar import WEEKDAYS
from iopea.tables.fit import Fit, Plan
from iopea.tables.reading import DS
from iopea.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE, _RED, _GREY = "#4477aa", "#aa3377", "#888888"
#: Equally likely values by which a law is drawn, and those of its band.
_VALUES, _DRAWS, _CONFIDENCE = 2000, 200, 0.95
_SUFFIXES = (".png", ".svg", ".pdf")


def draw_item(plan: Plan, unique_id: str, path: str | Path) -> None:
    """Draw one item of a plan: history, law, costs with their band, calendar.

    Parameters
    ----------
    plan : Plan. From :func:`iopea.fit`.
    unique_id : str.
    path : path. A PNG, SVG or PDF file.
    """
    target = check_path("path", path)
    if target.suffix not in _SUFFIXES:
        raise InputError(f"Cannot draw {target.name!r}: its name must end in .png, .svg or .pdf.")
    if not isinstance(plan, Plan):
        raise InputError(f"plan is {shown(plan)}: give what iopea.fit returns.")
    found = plan.item(unique_id)
    with drawing(7.4, 5.2) as canvas:
        from iopea.comparison.axes import label_ticks

        panels = canvas.subplots(2, 2)
        _history(panels[0, 0], plan, found)
        _law(panels[0, 1], found)
        _costs(panels[1, 0], found)
        _factors(panels[1, 1], plan, found)
        for axes in panels.ravel():
            label_ticks(axes.yaxis)
        canvas.suptitle(f"{unique_id}: {found.row['verdict']}", fontsize=10, parse_math=False)
        make_folder_of(target)
        clear_drafts_of(target)
        with writing(target) as file:
            canvas.savefig(file, format=target.suffix[1:], dpi=200)


def _history(axes: Axes, plan: Plan, found: Fit) -> None:
    """Sales by time; where more may have been wanted, an arrow up."""
    rows = plan.history(found.item.name)
    out = rows["censored"].to_numpy()
    silent = ~rows["told"].to_numpy()
    days: Any = rows[DS].to_numpy()
    sales = rows["sales"].to_numpy().astype(float)
    axes.plot(
        days[~out & ~silent],
        sales[~out & ~silent],
        ".",
        color=_BLUE,
        label="stock was left: all demand",
    )
    axes.plot(days[out], sales[out], "^", color=_RED, label="sold out: at least that")
    if silent.any():
        axes.plot(days[silent], sales[silent], "x", color=_GREY, label="tells nothing")
    axes.set_title("what was sold", loc="left", fontsize=9)
    top = 1.4 * max(float(np.nanmax(sales)), 1e-9)
    axes.set_ylim(bottom=-0.03 * top, top=top)
    axes.legend(fontsize=7, loc="upper left")
    axes.tick_params(axis="x", rotation=30, labelsize=7)


def _law(axes: Axes, found: Fit) -> None:
    """The probability that more is wanted, with what sales alone would say."""
    law, order = found.law, np.arange(_VALUES)
    values = law.quantiles(_VALUES)
    drawn, _ = law.redrawn(_DRAWS, order, np.random.default_rng(0))
    grid = np.linspace(0.0, float(np.quantile(values, 0.998)) or 1.0, 200)
    above = np.array([1 - np.searchsorted(row, grid, side="right") / _VALUES for row in drawn])
    low, high = np.quantile(above, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2], axis=0)
    axes.fill_between(grid, low, high, color=_BLUE, alpha=0.2, linewidth=0)
    share = 1 - np.searchsorted(values, grid, side="right") / _VALUES
    axes.plot(grid, share, color=_BLUE, label="demand, all records")
    sales = np.sort(found.item.sales)
    naive = 1 - np.searchsorted(sales, grid, side="right") / sales.size
    axes.plot(grid, naive, color=_GREY, linestyle="--", label="sales, taken for demand")
    axes.set_title("probability that more is wanted", loc="left", fontsize=9)
    axes.set_xlabel("units per period", fontsize=8)
    axes.legend(fontsize=7)


def _costs(axes: Axes, found: Fit) -> None:
    """Expected cost of each policy, with its band."""
    first, least = _least(found.policies[:, 0], found.costs)
    axes.plot(first, least, color=_BLUE)
    if found.policies.shape[1] == 1 and found.judged.any():
        shift = found.costs - found.plain
        known = found.judged
        place = found.policies[known, 0]
        low, high = found.low[known] + shift[known], found.high[known] + shift[known]
        axes.fill_between(place, low, high, color=_BLUE, alpha=0.2, linewidth=0)
        if not known.all():
            axes.axvspan(
                float(place.max()), float(first.max()), color=_GREY, alpha=0.12, linewidth=0,
                label="stock hardly ever reached it",
            )  # fmt: skip
    names = found.shop.family.parameters
    best = float(found.row[names[0]])
    axes.axvline(best, color=_RED, linestyle="--", linewidth=1, label=f"best: {best:.4g}")
    if found.row["level_in_force"] is not None and found.shop.family.one_level:
        axes.axvline(
            found.row["level_in_force"], color=_GREY, linestyle=":", label="in force"
        )  # fmt: skip
    axes.set_ylim(bottom=0, top=4 * float(least.min()) or None)
    axes.set_title("cost per period", loc="left", fontsize=9)
    axes.set_xlabel(names[0], fontsize=8)
    axes.legend(fontsize=7)


def _least(first: Array, costs: Array) -> tuple[Array, Array]:
    """The least cost for each value of the first parameter."""
    values, places = np.unique(first, return_inverse=True)
    least = np.full(values.size, np.inf)
    np.minimum.at(least, places, costs)
    return values, least


def _factors(axes: Axes, plan: Plan, found: Fit) -> None:
    """Factors of weekdays, or of the weeks of a year."""
    outlook, item = plan.outlook, found.item
    axes.set_title("factors of demand", loc="left", fontsize=9)
    if outlook.terms:
        axes.axhline(1.0, color="#222222", linewidth=0.8, linestyle=(0, (1, 2)))
    weekdays = outlook.weekdays(item)
    if weekdays is not None:
        axes.bar([name[:3] for name in WEEKDAYS], weekdays, color=_BLUE)
    elif "season" in outlook.terms:
        ahead = item.end + 1 + np.arange(round(outlook.year))
        each = outlook.factors(item, ahead)
        axes.plot(outlook.clock.days(ahead).astype("datetime64[D]"), each, color=_BLUE)
        axes.tick_params(axis="x", rotation=30, labelsize=7)
    else:
        axes.set_axis_off()
        axes.text(0.5, 0.5, str(outlook), ha="center", va="bottom", transform=axes.transAxes,
                  fontsize=8)  # fmt: skip
