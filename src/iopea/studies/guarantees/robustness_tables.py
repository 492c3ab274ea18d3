"""What the runs of the study of robustness have left, as tables and a figure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iopea.comparison.figures import drawing, finished
from iopea.comparison.tables import Column, Figure, Line, Table
from iopea.learners.diagnostics import FALSE_ALARM
from iopea.studies.guarantees.study import Values
from iopea.studies.guarantees.sweep import command
from iopea.types import Array, show_policy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#aa3377", "#4477aa", "#228833", "#ccbb44")


@dataclass(frozen=True)
class Case:
    """A system on which the learner is run.

    Attributes
    ----------
    fails : str, optional. What it should say, ``"edge"``, ``"change"`` or ``"dependence"``.
    runs : tuple of int. Of a quick and of a full study.
    """

    shop: str
    demand: str
    low: float
    high: float
    fails: str | None
    runs: tuple[int, int]

    @property
    def name(self) -> str:
        """Fit for a file."""
        return f"{self.shop}-{self.demand}-{self.low:g}-{self.high:g}"


@dataclass(frozen=True)
class Result:
    """A case with what its parts have left, and the steps of a run."""

    case: Case
    parts: list[Values]
    steps: int

    @property
    def runs(self) -> list[Values]:
        """One dictionary for each run."""
        return [each for part in self.parts for each in part["runs"]]

    @property
    def best(self) -> list[list[float]]:
        """The best policies, of the laws one after the other."""
        best: list[list[float]] = self.parts[0]["best"]
        return best

    @property
    def costs(self) -> list[float]:
        """What they cost."""
        costs: list[float] = self.parts[0]["cost"]
        return costs

    def steps_until(self, *kinds: str) -> list[int]:
        """Steps until one of these warnings, of the runs in which it came."""
        said = [[run["said"][kind] for kind in kinds if run["said"][kind]] for run in self.runs]
        return [min(steps) for steps in said if steps]

    def said(self, *kinds: str) -> str:
        """In how many runs one of these warnings came."""
        return f"{len(self.steps_until(*kinds))} of {len(self.runs)}"

    def median_step(self, kind: str, since: int = 0) -> float | None:
        """The median step of a warning, counted from one step on."""
        steps = self.steps_until(kind)
        return float(np.median(steps)) - since if steps else None

    def mean(self, name: str) -> float:
        """Mean of a number over the runs."""
        return float(np.mean([run[name] for run in self.runs]))

    @property
    def since_notice(self) -> Array:
        """Cost per step of going on and of learning anew, an array (n, 2), where it was noticed."""
        found = [run["anew"] for run in self.runs if run["anew"] is not None]
        return np.array(found) if found else np.full((1, 2), np.nan)


def demand_table(results: list[Result]) -> Table:
    """Whether dependence was noticed, and what it did to the recommendation."""
    rows = tuple(
        (
            each.case.shop,
            each.case.demand,
            each.said("dependence"),
            each.median_step("dependence"),
            each.said("change"),
            f"{100 * each.mean('gap'):.2f} %",
            f"{sum(not run['kept'] for run in each.runs)} of {len(each.runs)}",
        )
        for each in results
        if each.case.fails in (None, "dependence")
    )
    return Table(
        name="robustness-demand",
        title="Demand that depends on the demand before",
        columns=(
            Column.text("shop"), Column.text("demand"), Column("said that it depends"),
            Column("median step", ",.0f"), Column("said that it has changed"), Column("gap"),
            Column("best policy dropped"),
        ),
        lines=tuple(map(Line, rows)),
        notes=(
            "The gap is that of the recommended policy to the best one of the net under the true "
            "demand. That the best policy is dropped in at most 5 % of the runs is promised for "
            "independent demand alone.",
        ),
    )  # fmt: skip


def range_table(results: list[Result]) -> Table:
    """Whether the edge was named."""
    rows = tuple(
        (
            each.case.shop,
            f"{each.case.low:g} to {each.case.high:g}",
            show_policy(tuple(each.best[0]), 3),
            "at the edge" if each.case.fails else "inside",
            each.said("edge"),
            each.median_step("edge"),
        )
        for each in results
        if each.case.fails in (None, "edge") and each.case.demand == "steady"
    )
    return Table(
        name="robustness-range",
        title="A range that does not hold the best policy",
        columns=(
            Column.text("shop"), Column("levels"), Column("best policy of the range"),
            Column.text("it is"), Column("said that it is at the edge"),
            Column("median step", ",.0f"),
        ),
        lines=tuple(map(Line, rows)),
        notes=("With two suppliers the range is that of the regular level.",),
    )  # fmt: skip


def change_table(results: list[Result]) -> Table:
    """Whether and when a change was noticed, and what it cost."""
    changed = [each for each in results if each.case.fails == "change"]
    rows = tuple(
        (
            each.case.shop,
            each.case.demand,
            each.said("change"),
            each.median_step("change", since=each.steps // 2),
            _above(each.mean("before"), each.costs[0]),
            _above(each.mean("after"), each.costs[-1]),
            *(_above(cost, each.costs[-1]) for cost in each.since_notice.mean(axis=0)),
        )
        for each in changed
    )
    return Table(
        name="robustness-change",
        title="Demand that changes once",
        columns=(
            Column.text("shop"), Column.text("demand"), Column("said that it has changed"),
            Column("median steps after the change", ",.0f"), Column("cost before"),
            Column("cost after"), Column("since the notice, going on"), Column("learning anew"),
        ),
        lines=tuple(map(Line, rows)),
        notes=(
            "Costs are averages over the run, above that of the best policy under the demand of "
            "the time. Whoever learns anew starts with the highest level, and pays for it.",
        ),
    )  # fmt: skip


def _above(cost: float, best: float) -> str | None:
    """A cost as what it lies above the best, in per cent."""
    return None if math.isnan(cost) else f"{100 * (cost / best - 1):+.1f} %"


def figure(full: bool, results: list[Result], largest: Array) -> Figure:
    """When dependence and changes were noticed, and how large evidence gets by chance."""
    with drawing(7.4, 3.0) as canvas:
        left, middle, right = canvas.subplots(1, 3)
        _draw_notices(left, [each for each in results if each.case.fails == "dependence"], 0)
        left.set_title("demand that depends", loc="left", fontsize=9)
        left.set_xlabel("steps")
        left.set_ylabel("share of the runs that said so")
        changed = [each for each in results if each.case.fails == "change"]
        _draw_notices(middle, changed, results[0].steps // 2)
        middle.set_title("demand that changes", loc="left", fontsize=9)
        middle.set_xlabel("steps after the change")
        _draw_evidence(right, largest)
        caption = (
            "Left and middle: the share of the runs in which the learner has said so, over time. "
            f"Right: in {largest.size:,} runs under the assumptions, the share in which the mean "
            "of both kinds of evidence was ever as large as x, with the bound 1/x. The learner "
            f"speaks from a single evidence of {2 / FALSE_ALARM:,.0f} on."
        )
        return finished(
            canvas,
            "robustness",
            "What is noticed when an assumption fails",
            caption,
            command("robustness", full),
        )


def _draw_notices(axes: Axes, results: list[Result], since: int) -> None:
    for each, colour in zip(results, _COLOURS, strict=False):
        steps = np.sort(each.steps_until(str(each.case.fails))) - since
        share = np.arange(1, steps.size + 1) / len(each.runs)
        last = each.steps - since
        axes.step(
            np.concatenate([[0], steps, [last]]),
            np.concatenate([[0.0], share, share[-1:] if steps.size else [0.0]]),
            where="post",
            color=colour,
            linestyle="-" if each.case.shop == "lost-sales" else "--",
            label=f"{each.case.shop}, {each.case.demand}",
        )
    axes.set_ylim(-0.02, 1.05)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.25), fontsize=8)


def _draw_evidence(axes: Axes, largest: Array) -> None:
    evidence = np.exp(np.sort(largest))
    share = np.arange(evidence.size, 0, -1) / evidence.size
    axes.step(evidence, share, where="pre", color=_COLOURS[0], label="measured")
    bound = np.geomspace(1.0, max(100.0, float(evidence[-1])), 50)
    axes.plot(bound, 1 / bound, color="#222222", linestyle="--", label="bound")
    axes.set_xlim(left=1e-3)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title("nothing fails", loc="left", fontsize=9)
    axes.set_xlabel("largest evidence x")
    axes.set_ylabel("share of the runs")
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.25), fontsize=8)
