"""Measured regret beside the upper bound of the theorem and the lower bound of its instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from iopea.comparison.figures import drawing, finished
from iopea.comparison.tables import Figure
from iopea.comparison.tasks import system_text
from iopea.studies.guarantees.fits import at_most, level, seldom
from iopea.studies.guarantees.gaps import ArmsPart
from iopea.studies.guarantees.regrets import (
    MISSED,
    cases,
    largest_loss,
    regret_on_same_chance,
)
from iopea.studies.guarantees.study import Check, Finding, Grid, Part, Study, Values
from iopea.studies.guarantees.sweep import command, draw_mean, log_axes, mean_text
from iopea.studies.reproduction.curves import upper_bound
from iopea.systems.hard_instance import HardInstance, HiddenArm
from iopea.theory import Bound
from iopea.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RULES = ("paired", "theorem")
#: Horizons by system.
_FULL = {
    "lost-sales": (10_000, 30_000, 100_000),
    "dual-sourcing": (3_000, 10_000),
    "newsvendor": (10_000, 100_000, 300_000),
    "queue": (10_000, 100_000),
    "machine": (10_000, 100_000),
}
_QUICK = {"newsvendor": (1_000, 3_000), "queue": (3_000, 10_000)}
#: The instances of the lower bounds, and their horizons.
_HARD = {
    "full feedback": HardInstance(policies=64, width=1),
    "blocks, half seen": HardInstance(policies=16, width=8, span=2, reveal=2),
}
#: Instances with a large advantage, of which the upper bound says something, and their horizons.
_EASY = {
    "two blocks, easy": HardInstance(policies=4, width=2),
    "full feedback, easy": HardInstance(policies=4, width=1),
}
_ADVANTAGE = 0.45
_EASY_HORIZONS = {True: (10_000, 100_000, 1_000_000), False: (300_000,)}
_HARD_HORIZONS = {True: (1_000, 10_000, 100_000), False: (1_000, 3_000)}
_RUNS = {True: 16, False: 12}
#: Seconds of a run per million steps, by rule and system.
_PACE = {"dual-sourcing": {"paired": 200.0, "theorem": 300.0}}
_USUAL = {"paired": 4.0, "theorem": 10.0}
_STYLES = {"paired": 0, "theorem": 1}
_COLUMNS = 3
_DARK = "#222222"


@dataclass(frozen=True)
class PricePart(Part):
    """Runs of one rule on one system to one horizon.

    Attributes
    ----------
    system : str. Problem and truth as text.
    rule : str. Of elimination.
    horizon : int. Steps [T].
    """

    study: ClassVar[str] = "bounds"

    system: str
    rule: str
    horizon: int

    def measure(self) -> Values:
        """Regret of each run at the end, and the most that a policy loses per step."""
        settings: dict[str, Any] = {"rule": self.rule}
        if self.rule == "theorem":
            settings["horizon"] = self.horizon
        looks = (self.horizon,)
        return {
            "regret": [
                regret_on_same_chance(self.system, seed, looks, settings) for seed in self.seeds
            ],
            "loss": largest_loss(self.system),
        }


@dataclass(frozen=True)
class HardPricePart(ArmsPart):
    """Runs on an instance of a lower bound."""

    study: ClassVar[str] = "bounds"

    def measure(self) -> Values:
        """Regret of each run at the end, and what a wrong arm loses per step."""
        return {**super().measure(), "loss": self.advantage}


@dataclass(frozen=True)
class _Line:
    """One system at one horizon.

    Attributes
    ----------
    title : str.
    horizon : int.
    upper : Bound, optional.
    lower : float, optional.
    parts : dict. By rule.
    """

    title: str
    horizon: int
    upper: Bound | None
    lower: float | None
    parts: dict[str, Part]

    def regrets(self, values: Mapping[str, Values]) -> dict[str, Array]:
        """Arrays (runs,) by rule."""
        return {
            rule: np.array([run[-1] for run in values[part.key]["regret"]])
            for rule, part in self.parts.items()
        }

    def most(self, values: Mapping[str, Values]) -> float:
        """What it costs to play the worst policy all the time."""
        loss: float = values[self.parts["paired"].key]["loss"]
        return self.horizon * loss


def _lines(full: bool) -> list[_Line]:
    found = [
        _line(full, name, horizon)
        for name, horizons in (_FULL if full else _QUICK).items()
        for horizon in horizons
    ]
    found += [
        _hard_line(full, title, instance, horizon, instance.hardest(horizon).advantage, True)
        for title, instance in _HARD.items()
        for horizon in _HARD_HORIZONS[full]
    ]
    found += [
        _hard_line(full, title, instance, horizon, _ADVANTAGE, False)
        for title, instance in _EASY.items()
        for horizon in _EASY_HORIZONS[full]
    ]
    return found


def _line(full: bool, name: str, horizon: int) -> _Line:
    case, runs = cases()[name], _RUNS[full]
    parts: dict[str, Part] = {
        rule: PricePart(
            case=f"{name}-{horizon}-{rule}",
            first_seed=0,
            runs=runs,
            effort=runs * (0.05 + _PACE.get(name, _USUAL)[rule] * horizon / 1e6),
            system=case.system,
            rule=rule,
            horizon=horizon,
        )
        for rule in _RULES
    }
    return _Line(case.title, horizon, upper_bound(case.system, horizon), None, parts)


def _hard_line(
    full: bool,
    title: str,
    instance: HardInstance,
    horizon: int,
    advantage: float,
    hardest: bool,
) -> _Line:
    runs = _RUNS[full]
    parts: dict[str, Part] = {
        rule: HardPricePart(
            case=f"{title.replace(', ', '-').replace(' ', '-')}-{horizon}-{rule}",
            first_seed=0,
            runs=runs,
            effort=runs * (0.05 + 3e-8 * instance.policies * horizon),
            policies=instance.policies,
            width=instance.width,
            span=instance.span,
            reveal=instance.reveal,
            advantage=advantage,
            looks=(horizon,),
            rule=rule,
        )
        for rule in _RULES
    }
    upper = upper_bound(system_text(instance, HiddenArm(advantage=advantage)), horizon)
    lower = instance.lower_bound(horizon) if hardest else None
    return _Line(title, horizon, upper, lower, parts)


class Bounds(Study):
    """Regret lies between the lower bound and the upper one."""

    name = "bounds"
    title = "Regret beside its bounds"

    def parts(self, full: bool) -> list[Part]:
        """Both rules on every system at every horizon."""
        return [part for line in _lines(full) for part in line.parts.values()]

    def finding(self, full: bool, values: Mapping[str, Values]) -> Finding:
        """The bounds, their terms, and what was measured."""
        lines = _lines(full)
        return Finding(
            lead=_lead(full),
            grids=(_grid(lines, values), _terms(lines)),
            figures=(_figure(full, lines, values),),
            checks=tuple(check for line in lines for check in _checks(full, line, values)),
        )


def _lead(full: bool) -> tuple[str, ...]:
    return (
        "The theorem's upper bound is computed with the constants of its proof; it holds for rule "
        f"“theorem” with a probability of {1 - MISSED:.0%}. The lower bounds are about their own "
        "instances, with the best arm drawn at random: no learner has a smaller mean regret on "
        "them.",
        f"Both rules were run with {_RUNS[full]} seeds on each system. On the instances of the "
        "lower bounds, regret is what the arms that were played cost in the mean beyond the best.",
    )


def _grid(lines: list[_Line], values: Mapping[str, Values]) -> Grid:
    return Grid(
        name="bounds",
        title="Bounds and measured regret",
        columns=(
            "system",
            "T",
            "lower bound",
            "paired",
            "theorem",
            "upper bound",
            "upper/paired",
            "paired/lower",
            "upper/most",
        ),
        rows=tuple(_row(line, values) for line in lines),
        notes=(
            "“Most” is what it costs to play the worst policy all the time. Where the last column "
            "is above 1, the upper bound holds for any learner, so nothing is checked.",
            "Where there is no upper bound, the theorem's constants are not known, or the horizon "
            "is too short for it.",
        ),
    )


def _row(line: _Line, values: Mapping[str, Values]) -> tuple[str, ...]:
    regrets = line.regrets(values)
    paired, upper, lower = float(regrets["paired"].mean()), line.upper, line.lower
    return (
        line.title,
        f"{line.horizon:,}",
        "–" if lower is None else f"{lower:.4g}",
        *(mean_text(regrets[rule]) for rule in _RULES),
        "–" if upper is None else f"{upper.total:.4g}",
        "–" if upper is None or paired <= 0 else f"{upper.total / paired:.3g}",
        "–" if not lower else f"{paired / lower:.3g}",
        "–" if upper is None else f"{upper.total / line.most(values):.3g}",
    )


def _terms(lines: list[_Line]) -> Grid:
    known = [(line, line.upper) for line in lines if line.upper is not None]
    names = list(dict.fromkeys(name for _, upper in known for name in upper.terms))
    return Grid(
        name="bounds-terms",
        title="Terms of the upper bounds",
        columns=("system", "T", *names),
        rows=tuple(
            (line.title, f"{line.horizon:,}", *(f"{upper.terms[name]:.4g}" for name in names))
            for line, upper in known
        ),
        notes=("In units of cost. The logarithms and the span of the bias make the first terms.",),
    )


def _checks(full: bool, line: _Line, values: Mapping[str, Values]) -> list[Check]:
    found, alarm = [], level(full)
    for rule, regrets in line.regrets(values).items():
        about = f"{line.title}, T = {line.horizon:,}, rule {rule}"
        if line.upper is not None and line.upper.total < line.most(values):
            claim = f"{about}: regret is above the upper bound in at most {MISSED:.0%} of all runs"
            found.append(seldom(claim, regrets > line.upper.total, MISSED, alarm))
        if line.lower:
            claim = f"{about}: mean regret is no smaller than the lower bound"
            lower = np.full_like(regrets, line.lower)
            names = ("lower bound", "mean regret")
            found.append(at_most(claim, lower, regrets, 1.0, alarm, names))
    return found


def _figure(full: bool, lines: list[_Line], values: Mapping[str, Values]) -> Figure:
    titles = list(dict.fromkeys(line.title for line in lines))
    rows = -(-len(titles) // _COLUMNS)
    with drawing(7.4, 2.5 * rows + 0.5) as canvas:
        panels = canvas.subplots(rows, _COLUMNS, squeeze=False).ravel()
        handles: dict[str, Any] = {}
        for axes, title in zip(panels, titles, strict=False):
            _draw(axes, [line for line in lines if line.title == title], values)
            axes.set_title(title, loc="left", fontsize=9)
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        for axes in panels[len(titles) :]:
            axes.remove()
        canvas.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=len(handles)
        )
        return finished(
            canvas,
            "bounds",
            "Regret beside its bounds",
            "Mean regret with its 95 % interval, between the bounds. Where there is no upper "
            "bound, its constants are not known, or the horizon is too short for the theorem.",
            command("bounds", full),
        )


def _draw(axes: Axes, lines: list[_Line], values: Mapping[str, Values]) -> None:
    steps = np.array([line.horizon for line in lines], dtype=np.float64)
    for rule in _RULES:
        curves = np.array([line.regrets(values)[rule] for line in lines]).T
        draw_mean(axes, steps, curves, rule, _STYLES[rule])
    upper = np.array([np.nan if line.upper is None else line.upper.total for line in lines])
    axes.plot(steps, upper, color=_DARK, linestyle="--", label="upper bound")
    if all(line.lower for line in lines):
        lower = np.array([line.lower or 0.0 for line in lines])
        axes.plot(steps, lower, color=_DARK, linestyle=":", label="lower bound")
    log_axes(axes, "steps T")
