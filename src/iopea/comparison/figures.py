"""The figures of reports, as SVG and PNG."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from iopea.comparison.statistics import growth
from iopea.comparison.tables import Figure
from iopea.studies.reproduction.curves import Curve, RegretPanel
from iopea.studies.reproduction.surface import Surface

#: A colour, a marker and a dash for each method, told apart in grey as well.
_STYLES: dict[str, tuple[str, str, str]] = {
    "optimal": ("#222222", "", "--"),
    "erm": ("#888888", "x", "-"),
    "iopea": ("#aa3377", "o", "-"),
    "iopea-published": ("#aa3377", "s", ":"),
    "ppo": ("#66ccee", "v", "-"),
    "feedback-graph": ("#228833", "^", "-"),
    "problem-specific": ("#4477aa", "D", "-"),
    "random": ("#bbbbbb", "", "-."),
}
_OTHER_COLOURS = ("#ccbb44", "#ee6677", "#228833", "#4477aa", "#66ccee", "#ee7733", "#009988")
_OTHER_MARKERS = "pPX*hd<>"
_PNG_DPI = 200
#: A constant is drawn up to this multiple of everything else.
_WITHIN = 1.2
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


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in the style of all figures."""
    with matplotlib.rc_context(_STYLE):
        yield


def finished(canvas: Canvas, name: str, title: str, caption: str, command: str) -> Figure:
    """The picture on a canvas, in both formats."""
    vector, raster = io.StringIO(), io.BytesIO()
    # Without a date, the same picture is the same file.
    canvas.savefig(vector, format="svg", metadata={"Date": None})
    canvas.savefig(raster, format="png", dpi=_PNG_DPI)
    return Figure(name, title, caption, vector.getvalue(), raster.getvalue(), command)


def _style(name: str, names: Sequence[str]) -> tuple[str, str, str]:
    if name in _STYLES:
        return _STYLES[name]
    others = [each for each in names if each not in _STYLES]
    place = others.index(name)
    return (
        _OTHER_COLOURS[place % len(_OTHER_COLOURS)],
        _OTHER_MARKERS[place % len(_OTHER_MARKERS)],
        "-",
    )


def _draw_curves(axes: Axes, found: Sequence[Curve], level: float | None) -> None:
    names = [curve.name for curve in found]
    moving = [curve for curve in found if not curve.constant]
    highest = max((float(curve.mean.max()) for curve in moving), default=np.inf)
    for curve in found:
        colour, marker, dash = _style(curve.name, names)
        if curve.constant:
            value = float(curve.mean[0])
            if value <= _WITHIN * highest:
                axes.axhline(value, color=colour, linestyle=dash, label=curve.name)
            else:  # it would press all others together
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
            alpha=0.15,
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
    """The cost of what is recommended, and the average cost so far, over time."""
    with drawing():
        canvas = Canvas(figsize=(7.4, 3.4), layout="constrained")
        left, right = canvas.subplots(1, 2)
        _draw_curves(left, recommended, best)
        _draw_curves(right, incurred, best)
        left.set_ylabel("long-run cost per step")
        left.set_title("of the policy recommended after T steps", loc="left", fontsize=9)
        right.set_title("average cost of the first T steps", loc="left", fontsize=9)
        _zoom((left, right), (recommended, incurred), best)
        handles, labels = left.get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
        return finished(canvas, name, title, caption, command)


def _zoom(panels: Sequence[Axes], found: Sequence[Sequence[Curve]], best: float) -> None:
    """Logarithmic axes where costs differ by factors."""
    for axes, curves in zip(panels, found, strict=True):
        largest = max((float(curve.mean.max()) for curve in curves), default=best)
        if best > 0 and largest > 3 * best:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(matplotlib.ticker.ScalarFormatter())
            axes.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
            ticks = [best * factor for factor in (1, 2, 5, 10, 20, 50) if factor * best <= largest]
            axes.set_yticks(ticks, [f"{tick:.3g}" for tick in ticks])


def cost_surface_figure(surface: Surface, command: str) -> Figure:
    """The surface of costs, with the trace of z_e = 0 and a cut that bends downwards."""
    levels, cost = surface.levels, surface.cost
    cut = int(np.searchsorted(levels, 80.0))
    with drawing():
        canvas = Canvas(figsize=(7.4, 3.4), layout="constrained")
        left, right = canvas.subplots(1, 2, width_ratios=[1.15, 1])
        filled = left.contourf(levels, levels, cost, levels=24, cmap="viridis_r")
        for line in filled.get_paths():
            line.should_simplify = True
        row, column = np.nonzero(surface.concave)
        left.scatter(
            levels[column], levels[row + 1], s=3, color="#cc3311", label="not convex along $z_e$"
        )
        best = np.unravel_index(int(cost.argmin()), cost.shape)
        left.plot(levels[best[1]], levels[best[0]], "w*", markersize=8, markeredgecolor="#222222")
        left.axhline(0, color="#222222", linewidth=2, label="$z_e = 0$")
        left.axvline(levels[cut], color="#4477aa", linestyle="--", label="$z_r = 80$")
        left.set_xlabel("$z_r$")
        left.set_ylabel("$z_e$")
        left.grid(visible=False)
        left.set_title("cost per period", loc="left", fontsize=9)
        canvas.colorbar(filled, ax=left)
        right.plot(levels, cost[0], color="#222222", label="over $z_r$, $z_e = 0$")
        right.plot(
            levels, cost[:, cut], color="#4477aa", linestyle="--", label="over $z_e$, $z_r = 80$"
        )
        right.set_xlabel("level")
        right.set_title("two cuts", loc="left", fontsize=9)
        right.legend(loc="upper left")
        handles, labels = left.get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside lower center", ncols=3)
        convex = "convex" if surface.trace_convex else "not convex"
        caption = (
            "Average cost of dual-index policies (L_r = 8, L_e = 2, c_r = 1, c_e = 8, h = 1, "
            "p = 10, exponential demand of mean 40/3, 100,000 periods, one path of demand for "
            f"all). Where nothing is expedited (z_e = 0) the cost is {convex} in z_r. Along z_e it "
            f"is not convex at {int(surface.concave.sum())} points of the grid (second difference "
            "more than 4 standard errors below 0), most of them where z_e passes z_r and the slow "
            f"supplier is no longer used; {surface.concave_inside} lie below that line. The star "
            f"is the cheapest policy of the grid, {cost.min():.4g} at ({levels[best[0]]:g}, "
            f"{levels[best[1]]:g})."
        )
        return finished(canvas, "figure2", "Cost of dual-index policies", caption, command)


def regret_figure(panels: Sequence[RegretPanel], command: str) -> Figure:
    """Regret on log axes, with fitted exponents and bounds."""
    with drawing():
        rows = (len(panels) + 1) // 2
        canvas = Canvas(figsize=(7.4, 3.4 * rows), layout="constrained")
        for axes, panel in zip(canvas.subplots(rows, 2, squeeze=False).flat, panels, strict=False):
            _draw_regret(axes, panel)
        for axes in canvas.axes[len(panels) :]:
            axes.set_visible(False)
        caption = (
            "Cost beyond that of the best policy on the same chance, mean of the runs with its "
            "95 % interval (drawn down to a tenth of the mean), and the exponent of T fitted to it "
            "with its standard error. Upper "
            "bounds are the theorem's with the constants of its proof, which hold for the rule "
            "“theorem” with a probability of 85 %; where none is drawn, its assumptions don't "
            "hold or its horizon is longer. The lower bound is about the hard instance, which is "
            "another one for each T, and about the worst of its arms: no learner stays below it on "
            "all of them."
        )
        return finished(canvas, "regret", "Regret against the horizon", caption, command)


def _draw_regret(axes: Axes, panel: RegretPanel) -> None:
    names = [curve.name for curve in panel.curves]
    for curve in panel.curves:
        colour, marker, dash = _style(curve.name, names)
        fit = growth(curve.steps, curve.values)
        label = curve.name
        if (curve.mean <= 0).all():
            label += ": not above 0"
        if fit is not None:
            error = "" if np.isnan(fit.error) else f" ± {fit.error:.2f}"
            label += f": $T^{{{fit.exponent:.2f}}}${error}"
        shown = curve.mean > 0
        axes.plot(
            curve.steps[shown],
            curve.mean[shown],
            color=colour,
            marker=marker,
            linestyle=dash,
            label=label,
        )
        low = np.maximum(curve.mean - curve.half, curve.mean / 10)
        axes.fill_between(
            curve.steps[shown],
            low[shown],
            (curve.mean + curve.half)[shown],
            color=colour,
            alpha=0.15,
            linewidth=0,
        )
    if panel.upper.size:
        axes.plot(*panel.upper, color="#222222", linestyle="--", label="upper bound")
    if panel.lower is not None:
        axes.plot(*panel.lower, color="#222222", linestyle=":", label="lower bound")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("steps T")
    axes.set_ylabel("regret")
    axes.set_title(panel.title, loc="left", fontsize=9)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.2), fontsize=8)
