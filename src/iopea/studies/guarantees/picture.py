"""The figure of losses: one dot with its bound for each case and δ."""

from __future__ import annotations

from collections.abc import Sequence

from iopea.comparison.figures import drawing, finished
from iopea.comparison.tables import Figure

#: Case, δ, fraction of runs that were lost, and the upper bound on its probability.
Point = tuple[str, float, float, float]

_COLOUR, _PROVED, _BROKEN = "#aa3377", "#4477aa", "#cc3311"
#: Inches of a case, and of what is around them.
_LINE, _MARGIN = 0.15, 1.1


def losses_figure(points: Sequence[Point], command: str) -> Figure:
    """Fractions of lost runs with their bounds, against δ."""
    names = list(dict.fromkeys(name for name, *_ in points))
    deltas = list(dict.fromkeys(delta for _, delta, *_ in points))
    with drawing(7.4, _MARGIN + _LINE * len(names)) as canvas:
        panels = canvas.subplots(1, len(deltas), sharey=True, squeeze=False)[0]
        for axes, delta in zip(panels, deltas, strict=True):
            for name, at, share, upper in points:
                if at != delta:
                    continue
                place = names.index(name)
                proves = name.startswith("all of ")
                colour = _COLOUR if not proves else _PROVED if upper <= delta else _BROKEN
                axes.plot([share, upper], [place, place], color=colour, linewidth=1)
                axes.plot([share], [place], "o", color=colour, markersize=3)
            axes.axvline(delta, color="#222222", linestyle="--", linewidth=1)
            highest = max([delta, *(upper for _, at, _, upper in points if at == delta)])
            axes.set_xlim(-0.03 * highest, 1.08 * highest)
            axes.set_ylim(len(names) - 0.4, -0.6)
            axes.set_title(f"δ = {delta:g}", loc="left", fontsize=9)
            axes.set_xlabel("fraction of runs")
        panels[0].set_yticks(range(len(names)), names, fontsize=6.5)
        caption = (
            "Fraction of runs in which the best policy of the net was ever eliminated (dot) and "
            "its exact 99 % upper bound (end of the line), for each case; the dashed line is what "
            "is promised. Few losses in few runs prove nothing either way; what must end to the "
            "left of it are the lines of all runs of a kind of problem, in blue (red if broken)."
        )
        return finished(canvas, "survival", "How often the best policy is lost", caption, command)
