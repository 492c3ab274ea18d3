"""The figures of reports, as SVG and PNG; Matplotlib is loaded when the first one is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from iopea.comparison.statistics import half_width
from iopea.comparison.tables import Figure
from iopea.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Colour, marker and dash of each method, which differ in grey as well.
_STYLES: dict[str, tuple[str, str, str]] = {
    "optimal": ("#222222", "", "--"),
    "erm": ("#888888", "x", "-"),
    "iopea": ("#aa3377", "o", "-"),
    "iopea-maximal": ("#aa3377", "D", "--"),
    "iopea-published": ("#aa3377", "s", ":"),
    "ppo": ("#66ccee", "v", "-"),
    "feedback-graph": ("#228833", "^", "-"),
    "problem-specific": ("#4477aa", "D", "-"),
    "convex": ("#223377", "D", "-"),
    "ucrl2": ("#009988", "h", "-"),
    "sgd-base-stock": ("#ccbb44", "p", "-"),
    "order-up-to": ("#ee6677", "P", "-"),
    "random": ("#bbbbbb", "", "-."),
}
#: Of all others: none of the above.
_OTHER_COLOURS = ("#ee7733", "#33bbee", "#997700", "#004488", "#cc3311", "#bb5566", "#44aa99")
_OTHER_MARKERS = "X*d<>8H"
_OTHER_DASHES = ("-", "--", ":")
_PNG_DPI = 200
#: A constant above this multiple of all other values is not drawn.
_WITHIN = 1.2
#: Costs that reach this multiple of the best one are drawn on a logarithmic axis.
_FACTOR = 3
_BAND = 0.15
#: Share of the least mean down to which bands of regret are drawn where they reach 0: on any axis,
#: that is below its bottom.
_BELOW = 1e-9
_STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.hashsalt": "iopea",
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
}


@dataclass(frozen=True)
class Curve:
    """A quantity over time in several runs.

    Attributes
    ----------
    name : str. Of the method.
    steps : array (n,).
    values : array (runs, n).
    constant : bool. Whether it is the same at all times, and known at one of them.
    """

    name: str
    steps: Array
    values: Array
    constant: bool = False

    @property
    def mean(self) -> Array:
        """Mean over the runs."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def half(self) -> Array:
        """Half the width of the 95 % interval of the mean; 0 for a single run."""
        if len(self.values) < 2:
            return np.zeros_like(self.steps)
        return np.asarray(half_width(self.values))


@contextmanager
def drawing(width: float, height: float) -> Iterator[Canvas]:
    """An empty canvas of a size in inches, in the style of all figures."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context(_STYLE):
        yield Canvas(figsize=(width, height), layout="constrained")


def finished(canvas: Canvas, name: str, title: str, caption: str, command: str) -> Figure:
    """The figure on a canvas as SVG and PNG; call it within :func:`drawing`."""
    vector, raster = io.StringIO(), io.BytesIO()
    # Without a date, the same figure is the same file.
    canvas.savefig(vector, format="svg", metadata={"Date": None})
    canvas.savefig(raster, format="png", dpi=_PNG_DPI)
    return Figure(name, title, caption, vector.getvalue(), raster.getvalue(), command)


def style_of(name: str, names: Sequence[str]) -> tuple[str, str, str]:
    """Colour, marker and dash of one of several methods."""
    if name in _STYLES:
        return _STYLES[name]
    place = [each for each in names if each not in _STYLES].index(name)
    number = len(_OTHER_COLOURS)
    dash = _OTHER_DASHES[place // number % len(_OTHER_DASHES)]
    return _OTHER_COLOURS[place % number], _OTHER_MARKERS[place % number], dash


def _draw_curves(axes: Axes, found: Sequence[Curve], level: float | None) -> None:
    names = [curve.name for curve in found]
    moving = [curve for curve in found if not curve.constant]
    highest = max((float(curve.mean.max()) for curve in moving), default=np.inf)
    for curve in found:
        colour, marker, dash = style_of(curve.name, names)
        if curve.constant:
            value = float(curve.mean[0])
            if value <= _WITHIN * highest:
                axes.axhline(value, color=colour, linestyle=dash, label=curve.name)
            else:  # it would squeeze all other curves
                label = f"{curve.name}: {value:.3g}, above the axis"
                axes.plot([], [], color=colour, linestyle=dash, label=label)
            continue
        axes.plot(
            curve.steps, curve.mean, color=colour, marker=marker, linestyle=dash, label=curve.name
        )
        axes.fill_between(
            curve.steps,
            curve.mean - curve.half,
            curve.mean + curve.half,
            color=colour,
            alpha=_BAND,
            linewidth=0,
        )
    if level is not None:
        axes.axhline(level, color="#222222", linewidth=0.8, linestyle=(0, (1, 2)))
    if moving:
        axes.set_xscale("log")
    axes.set_xlabel("steps T")


def costs_over_time(
    name: str,
    title: str,
    recommended: Sequence[Curve],
    incurred: Sequence[Curve],
    best: float,
    command: str,
    caption: str,
) -> Figure:
    """The cost of the recommendation, and the average cost so far, over time."""
    with drawing(7.4, 3.4) as canvas:
        from iopea.comparison.axes import label_ticks, legend_below, lines_of

        panels = canvas.subplots(1, 2)
        for axes, curves in zip(panels, (recommended, incurred), strict=True):
            _draw_curves(axes, curves, best)
            largest = max((float(curve.mean.max()) for curve in curves), default=best)
            if best > 0 and largest > _FACTOR * best:
                axes.set_yscale("log")
            label_ticks(axes.xaxis)
            label_ticks(axes.yaxis)
        panels[0].set_ylabel("cost per step")
        panels[0].set_title("recommended after T steps: long-run cost", loc="left", fontsize=9)
        panels[1].set_title("first T steps: average cost", loc="left", fontsize=9)
        legend_below(canvas, lines_of(panels[:1]))
        return finished(canvas, name, title, caption, command)


def regret_over_time(
    name: str, title: str, curves: Sequence[Curve], command: str, caption: str
) -> Figure:
    """Regret over time on logarithmic axes."""
    with drawing(7.4, 3.8) as canvas:
        from iopea.comparison.axes import legend_below, lines_of

        axes = canvas.subplots()
        draw_regret(axes, curves)
        legend_below(canvas, lines_of([axes]))
        return finished(canvas, name, title, " ".join([caption, *said_of_regret(curves)]), command)


def said_of_regret(curves: Sequence[Curve]) -> list[str]:
    """How regret is drawn, in sentences."""
    means = [curve.mean for curve in curves]
    logarithmic = _is_logarithmic(curves)
    said = []
    if any(len(curve.values) > 1 for curve in curves):
        below = ", and goes on below the axis where it reaches its bottom" if logarithmic else ""
        said.append(f"The band is the 95 % interval of the mean{below}.")
    if logarithmic and any((mean <= 0).any() for mean in means):
        said.append("Points at or below 0 are not drawn.")
    return said


def _is_logarithmic(curves: Sequence[Curve]) -> bool:
    return any((curve.mean > 0).any() for curve in curves)


def draw_regret(
    axes: Axes, curves: Sequence[Curve], about: Callable[[Curve], str] = lambda curve: ""
) -> None:
    """Mean regret with its interval on logarithmic axes; what is said of a curve is in its label.

    Where no regret is above 0, the axis of regret is linear.
    """
    from iopea.comparison.axes import label_ticks

    names = [curve.name for curve in curves]
    logarithmic = _is_logarithmic(curves)
    positive = [mean for curve in curves for mean in curve.mean.tolist() if mean > 0]
    for curve in curves:
        colour, marker, dash = style_of(curve.name, names)
        label = curve.name + ("" if (curve.mean > 0).any() else ": not above 0")
        shown = curve.mean > 0 if logarithmic else np.ones(curve.mean.shape, dtype=bool)
        steps, mean, half = curve.steps[shown], curve.mean[shown], curve.half[shown]
        axes.plot(
            steps, mean, color=colour, marker=marker, linestyle=dash, label=label + about(curve)
        )
        low, high = mean - half, mean + half
        limits = axes.dataLim.frozen()
        least = np.maximum(low, _BELOW * min(positive)) if logarithmic else low
        axes.fill_between(steps, least, high, color=colour, alpha=_BAND, linewidth=0)
        # The axis does not follow a band far down.
        axes.dataLim.set(limits)
        edge = np.maximum(low, mean / 10) if logarithmic else low
        axes.update_datalim(np.column_stack([np.tile(steps, 2), np.append(edge, high)]))
    axes.set_xscale("log")
    if logarithmic:
        axes.set_yscale("log")
    label_ticks(axes.xaxis)
    label_ticks(axes.yaxis)
    axes.set_xlabel("steps T")
    several = any(len(curve.values) > 1 for curve in curves)
    axes.set_ylabel("regret, mean and 95 % interval" if several else "regret")
