"""What the studies of a growth have in common: how curves are written and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iopea.comparison.statistics import mean_of
from iopea.studies.guarantees.fits import exponent_text, power
from iopea.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of curves, told apart by their markers as well.
COLOURS = ("#aa3377", "#4477aa", "#ccbb44", "#228833")
MARKERS = ("o", "s", "^", "D")
_DARK = "#222222"


def command(study: str, full: bool) -> str:
    """What makes a study again.

    >>> command("width", True)
    'iopea validate width --full'
    """
    return f"iopea validate {study} --{'full' if full else 'quick'}"


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
    fit = power(points, curves)
    if fit is not None:
        axes.plot(
            points,
            fit.factor * points**fit.exponent,
            color=COLOURS[style],
            linestyle=":",
            label=f"exponent {exponent_text(fit)}",
        )
    if lower is not None and (lower > 0).all():
        axes.plot(points, lower, color=_DARK, linestyle="--", label="lower bound")
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
