"""Tables and figure of regret against the horizon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from iopea.comparison.figures import drawing, finished
from iopea.comparison.tables import Column, Figure, Line, Table
from iopea.studies.guarantees.fits import (
    explained_by_logarithm,
    explained_by_power,
    exponent_text,
    logarithmic,
    power,
)
from iopea.studies.guarantees.sweep import command, draw_mean, log_axes, mean_text
from iopea.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The place of each rule among the styles.
_STYLES = {"paired": 0, "theorem": 1, "published": 2}
_COLUMNS = 3
_DARK = "#222222"


@dataclass(frozen=True)
class Curves:
    """Regret over the horizon of one rule on one system.

    Attributes
    ----------
    title, rule : str.
    steps : array (n,). Horizons.
    values : array (runs, n).
    upper : array (n,). The theorem's bound; NaN where it says nothing.
    quadratic : bool. Whether log T is expected.
    lower : array (n,), optional. The lower bound, where there is one.
    """

    title: str
    rule: str
    steps: Array
    values: Array
    upper: Array
    quadratic: bool = False
    lower: Array | None = None


def exponent_table(found: list[Curves]) -> Table:
    """The fitted exponent of T for each rule on each system."""
    lines = tuple(
        Line(
            (
                each.title,
                each.rule,
                f"10^{np.log10(each.steps[-1]):.3g}",
                len(each.values),
                mean_text(each.values[:, 0]),
                mean_text(each.values[:, -1]),
                exponent_text(power(each.steps, each.values)),
                float(each.upper[-1]),
            )
        )
        for each in found
    )
    return Table(
        name="growth",
        title="Exponents of regret",
        columns=(
            Column.text("system"),
            Column.text("rule"),
            Column("last T"),
            Column("seeds"),
            Column("regret at 10^3"),
            Column("at the last T"),
            Column("exponent of T"),
            Column("upper bound at the last T", ".4g"),
        ),
        lines=lines,
        notes=(
            "Exponents are slopes of the logarithm of mean regret, with the jackknife's standard "
            "error over seeds. There is none where a mean is not positive.",
            "Where no upper bound is given, the theorem's constants are not known or the horizon "
            "is too short for it, or, on the hard instance, another one belongs to each horizon.",
        ),
    )


def shape_table(found: list[Curves]) -> Table:
    """Logarithm against power, for rule paired on smooth costs."""
    lines = []
    for each in found:
        if not (each.quadratic and each.rule == "paired"):
            continue
        fit, line = power(each.steps, each.values), logarithmic(each.steps, each.values)
        per_decade = np.log(10)
        lines.append(
            Line(
                (
                    each.title,
                    f"{line.slope * per_decade:.4g} ± {line.error * per_decade:.2g}",
                    explained_by_logarithm(each.steps, each.values, line),
                    exponent_text(fit),
                    explained_by_power(each.steps, each.values, fit),
                    _decade(each, -1),
                    _decade(each, -3),
                )
            )
        )
    return Table(
        name="growth-shape",
        title="Rule paired on smooth costs: a + b log T against c T^e",
        columns=(
            Column.text("system"),
            Column("b per decade"),
            Column("R² of a + b log T", ".4f"),
            Column("e"),
            Column("R² of c T^e", ".4f"),
            Column("last decade", ".4g"),
            Column("the one before", ".4g"),
        ),
        lines=tuple(lines),
        notes=("The last two columns are what mean regret grew by in these decades of T.",),
    )


def _decade(curves: Curves, place: int) -> float:
    mean = curves.values.mean(axis=0)
    return float(mean[place] - mean[place - 2])


def growth_figure(full: bool, found: list[Curves]) -> Figure:
    """A panel for each system."""
    titles = list(dict.fromkeys(each.title for each in found))
    rows = -(-len(titles) // _COLUMNS)
    with drawing(7.4, 2.5 * rows + 0.5) as canvas:
        panels = canvas.subplots(rows, _COLUMNS, squeeze=False).ravel()
        handles: dict[str, Any] = {}
        for axes, title in zip(panels, titles, strict=False):
            for each in found:
                if each.title == title:
                    draw_mean(axes, each.steps, each.values, each.rule, _STYLES[each.rule])
                    _draw_bounds(axes, each)
            log_axes(axes, "steps T")
            axes.set_title(title, loc="left", fontsize=9)
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        for axes in panels[len(titles) :]:
            axes.remove()
        canvas.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=len(handles)
        )
        return finished(
            canvas,
            "growth",
            "Regret against the horizon",
            "Mean regret with its 95 % interval. The grey line has the slope of √T and begins "
            "where rule “paired” does. The upper bound is the theorem's; the lower one is "
            "about the hard instance with another advantage for each horizon.",
            command("growth", full),
        )


def _draw_bounds(axes: Axes, curves: Curves) -> None:
    if curves.rule != "paired":
        return
    first = curves.values[:, 0].mean()
    axes.plot(
        curves.steps,
        first * np.sqrt(curves.steps / curves.steps[0]),
        color="#999999",
        linewidth=0.9,
        label="√T",
    )
    known = ~np.isnan(curves.upper)
    if known.any():
        axes.plot(
            curves.steps[known],
            curves.upper[known],
            color=_DARK,
            linestyle="--",
            label="upper bound",
        )
    if curves.lower is not None:
        axes.plot(curves.steps, curves.lower, color=_DARK, linestyle=":", label="lower bound")
