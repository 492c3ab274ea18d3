"""Fits of growth, and how curves are written and drawn with them.

Runs are the unit: everything is an array (runs, points), each row of which has a seed of its own.
Points of one run may depend on each other, so that errors are those over runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from iopea.comparison.figures import drawing, finished
from iopea.comparison.statistics import PowerFit, fit_power, mean_of
from iopea.comparison.tables import Figure
from iopea.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Colours of curves, which have different markers as well.
COLOURS = ("#aa3377", "#4477aa", "#ccbb44", "#228833")
MARKERS = ("o", "s", "^", "D")
#: Colour of bounds.
DARK = "#222222"
#: Panels of a figure side by side.
_COLUMNS = 3


@dataclass(frozen=True)
class LogFit:
    """A curve a + b log x, with the standard error of b."""

    intercept: float
    slope: float
    error: float


def fit_logarithm(points: Array, curves: Array) -> LogFit:
    """Fit a + b log x to the mean of curves, an array (runs, points).

    >>> x = np.array([1.0, np.e, np.e**2])
    >>> fit_logarithm(x, np.array([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]))
    LogFit(intercept=1.5, slope=2.0, error=0.0)
    """
    slopes, intercepts = np.polyfit(np.log(points), np.atleast_2d(curves).T, 1).round(12)
    error = float(stats.sem(slopes)) if slopes.size > 1 else float("nan")
    return LogFit(float(intercepts.mean()), float(slopes.mean()), error)


def explained(mean: Array, fitted: Array) -> float:
    """The share of the variation of a mean curve that a fit explains [R²].

    >>> explained(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0]))
    1.0
    """
    return float(1 - ((mean - fitted) ** 2).sum() / ((mean - mean.mean()) ** 2).sum())


def explained_by_power(points: Array, curves: Array, fit: PowerFit | None) -> float | None:
    """R² of a fitted power; None where there is no fit."""
    if fit is None:
        return None
    return explained(curves.mean(axis=0), fit.factor * points**fit.exponent)


def explained_by_logarithm(points: Array, curves: Array, fit: LogFit) -> float:
    """R² of a fitted logarithm."""
    return explained(curves.mean(axis=0), fit.intercept + fit.slope * np.log(points))


def exponent_text(fit: PowerFit | None) -> str:
    """An exponent with its standard error.

    >>> exponent_text(PowerFit(0.5, 0.01, 1.0)), exponent_text(None)
    ('0.500 ± 0.010', '–')
    """
    if fit is None:
        return "–"
    error = "" if np.isnan(fit.error) else f" ± {fit.error:.3f}"
    return f"{fit.exponent:.3f}{error}"


def worst(values: Array) -> tuple[Array, int]:
    """Of an array (runs, gaps), the column of the largest mean, and its number."""
    column = int(values.mean(axis=0).argmax())
    return values[:, column], column


def mean_text(sample: Array) -> str:
    """A mean with half of its 95 % interval.

    >>> mean_text(np.array([1.0, 2.0, 3.0]))
    '2 ± 2.48'
    """
    found = mean_of(sample)
    return f"{found.value:.4g} ± {found.half:.3g}"


def draw_sweep(
    axes: Axes,
    points: Array,
    curves: Array,
    name: str,
    variable: str,
    *,
    style: int = 0,
    lower: Array | None = None,
) -> None:
    """Draw a mean over runs with its interval and the fitted power, on logarithmic axes."""
    draw_mean(axes, points, curves, name, style)
    fit = fit_power(points, curves)
    if fit is not None:
        axes.plot(
            points,
            fit.factor * points**fit.exponent,
            color=COLOURS[style],
            linestyle=":",
            label=f"exponent {exponent_text(fit)}",
        )
    if lower is not None and (lower > 0).all():
        axes.plot(points, lower, color=DARK, linestyle="--", label="lower bound")
    log_axes(axes, variable)
    axes.set_xticks(points, [f"{each:g}" for each in points])
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.2))


def draw_mean(axes: Axes, points: Array, curves: Array, name: str, style: int = 0) -> None:
    """Draw the positive part of a mean over runs, with its 95 % interval."""
    means = [mean_of(column) for column in curves.T]
    mean = np.array([each.value for each in means])
    half = np.nan_to_num(np.array([each.half for each in means]))
    shown = mean > 0
    axes.plot(points[shown], mean[shown], color=COLOURS[style], marker=MARKERS[style], label=name)
    axes.fill_between(
        points[shown],
        np.maximum(mean - half, mean / 10)[shown],
        (mean + half)[shown],
        color=COLOURS[style],
        alpha=0.15,
        linewidth=0,
    )


def log_axes(axes: Axes, variable: str) -> None:
    """Logarithmic axes with their names."""
    from matplotlib.ticker import NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(variable)
    axes.set_ylabel("regret")


@contextmanager
def drawing_panels(titles: Sequence[str]) -> Iterator[tuple[Canvas, dict[str, Axes]]]:
    """A canvas with a panel for each title; what is drawn within has the style of all figures."""
    rows = -(-len(titles) // _COLUMNS)
    with drawing(7.4, 2.5 * rows + 0.5) as canvas:
        panels = canvas.subplots(rows, _COLUMNS, squeeze=False).ravel()
        for axes in panels[len(titles) :]:
            axes.remove()
        yield canvas, dict(zip(titles, panels, strict=False))


def finish_panels(
    canvas: Canvas, panels: dict[str, Axes], name: str, title: str, caption: str, command: str
) -> Figure:
    """A figure of regret over time, with the titles of its panels and one legend for all."""
    handles: dict[str, Any] = {}
    for heading, axes in panels.items():
        log_axes(axes, "steps T")
        axes.set_title(heading, loc="left", fontsize=9)
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    canvas.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=len(handles)
    )
    return finished(canvas, name, title, caption, command)
