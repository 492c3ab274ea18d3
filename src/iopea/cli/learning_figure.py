"""The figure of the command ``learn``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from iopea.errors import InputError, shown_path
from iopea.policies import PolicyClass
from iopea.simulate import BestInClass
from iopea.storage import check_writable, clear_drafts_of, writing
from iopea.types import RunResult

_RANGE = "#4477aa"
_COST = "#aa3377"
_BEST = "#222222"
_FORMATS = (".png", ".svg", ".pdf")
#: Largest number of parameters of a policy that are drawn.
_MOST_PARAMETERS = 4
#: Number of points at which the average cost is drawn.
_POINTS = 400
#: First step shown: averages over fewer steps are too noisy.
_FIRST_SHOWN = 32


def check_target(path: Path) -> None:
    """Refuse a file that can't be written, before any work is done."""
    if path.suffix.lower() not in _FORMATS:
        raise InputError(
            f"Cannot draw to {shown_path(path)}: its name must end in "
            f"{', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}."
        )
    check_writable(path)


def draw_learning(
    runs: Sequence[RunResult], best: BestInClass, policies: PolicyClass, path: Path, title: str
) -> None:
    """Draw the surviving range of each parameter and the average cost of runs over time.

    Lines are medians over the runs, bands reach from the least to the largest. At most four
    parameters are drawn. For learners without a set of survivors, only the cost is drawn.
    """
    with matplotlib.rc_context({"font.size": 10, "axes.spines.top": False, "svg.hashsalt": "i"}):
        kept = all(run.records for run in runs)
        shown = min(policies.dimension, _MOST_PARAMETERS) if kept else 0
        figure = Figure(
            figsize=(7.2, 3.2 + (3.2 if shown == 1 else 2.4) * shown), layout="constrained"
        )
        *above, below = figure.subplots(1 + shown, 1, sharex=True, squeeze=False)[:, 0]
        for parameter, axes in enumerate(above):
            _draw_survivors(axes, runs, best, parameter, policies.ends(parameter))
            axes.set_ylabel(policies.names[parameter])
        _draw_cost(below, runs, best)
        if above:
            above[0].legend(frameon=False, loc="best")
        (*above, below)[0].set_title(title, loc="left", fontsize=11)
        for axes in (*above, below):
            axes.spines["right"].set_visible(False)
            axes.grid(alpha=0.25)
        below.set_xscale("log")
        below.set_xlabel("steps")
        # Without a creation date, the same figure gives the same file.
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"Cannot draw to {shown_path(path)}: {error.strerror or error}."
            ) from None
        clear_drafts_of(path)
        with writing(path) as file:
            figure.savefig(file, format=path.suffix[1:].lower(), dpi=150, metadata=metadata)


def _draw_survivors(
    axes: Axes,
    runs: Sequence[RunResult],
    best: BestInClass,
    parameter: int,
    ends: tuple[float, float],
) -> None:
    epochs = min(run.epochs for run in runs)
    records = [run.records[:epochs] for run in runs]
    first, last = min(_FIRST_SHOWN, runs[0].costs.size), runs[0].costs.size
    steps = np.median([[first, *(r.steps for r in run), last] for run in records], axis=0)
    low = np.array([[ends[0], *(r.lowest[parameter] for r in run)] for run in records])
    high = np.array([[ends[1], *(r.highest[parameter] for r in run)] for run in records])
    low, high = (np.column_stack([side, side[:, -1]]) for side in (low, high))
    axes.fill_between(steps, low.min(axis=0), high.max(axis=0), color=_RANGE, alpha=0.2,
                      linewidth=0, step="post", label="range over all runs")  # fmt: skip
    axes.step(steps, np.median(high, axis=0), where="post", color=_RANGE,
              label="surviving range, median")  # fmt: skip
    axes.step(steps, np.median(low, axis=0), where="post", color=_RANGE)
    axes.axhline(
        best.policy[parameter], color=_BEST, linewidth=1, linestyle="--", label="best in class"
    )
    axes.legend(frameon=False, loc="upper right")


def _draw_cost(axes: Axes, runs: Sequence[RunResult], best: BestInClass) -> None:
    horizon = runs[0].costs.size
    steps = np.unique(np.geomspace(1, horizon, _POINTS).astype(int))
    running = np.array([np.cumsum(run.costs)[steps - 1] / steps for run in runs])
    shown = steps >= min(_FIRST_SHOWN, horizon)
    axes.fill_between(steps[shown], running.min(axis=0)[shown], running.max(axis=0)[shown],
                      color=_COST, alpha=0.2, linewidth=0)  # fmt: skip
    axes.plot(steps[shown], np.median(running, axis=0)[shown], color=_COST,
              label="average cost so far, median")  # fmt: skip
    axes.axhline(best.cost, color=_BEST, linewidth=1, linestyle="--", label="best in class")
    axes.set_ylabel("cost per step")
    axes.legend(frameon=False, loc="upper right")
