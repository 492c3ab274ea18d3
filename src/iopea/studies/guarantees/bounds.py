"""Measured regret beside the upper bound of the theorem and the lower bound of its instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from iopea.comparison.tables import Column, Figure, Line, Table
from iopea.comparison.tasks import system_text
from iopea.studies.guarantees.checks import at_most, level, seldom
from iopea.studies.guarantees.fits import DARK, draw_mean, drawing_panels, finish_panels, mean_text
from iopea.studies.guarantees.regrets import (
    MISSED,
    ArmsPart,
    cases,
    largest_loss,
    regret_of_learner,
)
from iopea.studies.guarantees.study import Check, Finding, Part, Study, Values
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
#: Instances with a large advantage, where the upper bound is informative, and their horizons.
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
        """Regret of each run at the end, and the largest extra cost of a policy per step."""
        settings: dict[str, Any] = {"rule": self.rule}
        if self.rule == "theorem":
            settings["horizon"] = self.horizon
        looks = (self.horizon,)
        return {
            "regret": [
                regret_of_learner(self.system, seed, looks, settings) for seed in self.seeds
            ],
            "loss": largest_loss(self.system),
        }


@dataclass(frozen=True)
class HardPricePart(ArmsPart):
    """Runs on an instance of a lower bound."""

    study: ClassVar[str] = "bounds"

    def measure(self) -> Values:
        """Regret of each run at the end, and the extra cost of a wrong arm per step."""
        return {**super().measure(), "loss": self.advantage}


@dataclass(frozen=True)
class _System:
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
        """Regret of always playing the worst policy."""
        loss: float = values[self.parts["paired"].key]["loss"]
        return self.horizon * loss


def _systems(full: bool) -> list[_System]:
    found = [
        _system(full, name, horizon)
        for name, horizons in (_FULL if full else _QUICK).items()
        for horizon in horizons
    ]
    found += [
        _hard_system(
            full, title, instance, horizon, instance.system.hardest(horizon).advantage, True
        )
        for title, instance in _HARD.items()
        for horizon in _HARD_HORIZONS[full]
    ]
    found += [
        _hard_system(full, title, instance, horizon, _ADVANTAGE, False)
        for title, instance in _EASY.items()
        for horizon in _EASY_HORIZONS[full]
    ]
    return found


def _system(full: bool, name: str, horizon: int) -> _System:
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
    return _System(case.title, horizon, upper_bound(case.system, horizon), None, parts)


def _hard_system(
    full: bool,
    title: str,
    instance: HardInstance,
    horizon: int,
    advantage: float,
    hardest: bool,
) -> _System:
    runs = _RUNS[full]
    parts: dict[str, Part] = {
        rule: HardPricePart(
            case=f"{title.replace(', ', '-').replace(' ', '-')}-{horizon}-{rule}",
            first_seed=0,
            runs=runs,
            effort=runs * (0.05 + 3e-8 * instance.system.policies * horizon),
            policies=instance.system.policies,
            width=instance.system.width,
            span=instance.system.span,
            reveal=instance.system.reveal,
            advantage=advantage,
            looks=(horizon,),
            rule=rule,
        )
        for rule in _RULES
    }
    upper = upper_bound(system_text(instance, HiddenArm(advantage=advantage)), horizon)
    lower = instance.system.lower_bound(horizon) if hardest else None
    return _System(title, horizon, upper, lower, parts)


class Bounds(Study):
    """Regret lies between the lower bound and the upper one."""

    name = "bounds"
    title = "Regret beside its bounds"

    def parts(self, full: bool) -> list[Part]:
        """Both rules on every system at every horizon."""
        return [part for system in _systems(full) for part in system.parts.values()]

    def finding(self, full: bool, values: Mapping[str, Values]) -> Finding:
        """The bounds, their terms, and the measured regrets."""
        systems = _systems(full)
        return Finding(
            lead=_lead(full),
            tables=(_table(systems, values), _terms(systems)),
            figures=(_figure(full, systems, values),),
            checks=tuple(check for each in systems for check in _checks(full, each, values)),
        )


def _lead(full: bool) -> tuple[str, ...]:
    return (
        "The theorem's upper bound is computed with the constants of its proof; it holds for rule "
        f"“theorem” with probability {1 - MISSED:.0%}. Each lower bound is for its own instances, "
        "with the best arm drawn at random: no learner has a smaller mean regret on them.",
        f"Both rules were run with {_RUNS[full]} seeds on each system. On the instances of the "
        "lower bounds, regret is the extra mean cost of the arms that were played.",
    )


def _table(systems: list[_System], values: Mapping[str, Values]) -> Table:
    return Table(
        name="bounds",
        title="Bounds and measured regret",
        columns=(
            Column.text("system"),
            Column("T", ","),
            Column("lower bound", ".4g"),
            *map(Column, _RULES),
            Column("upper bound", ".4g"),
            Column("upper/paired", ".3g"),
            Column("paired/lower", ".3g"),
            Column("upper/most", ".3g"),
        ),
        lines=tuple(_line(system, values) for system in systems),
        notes=(
            "“Most” is the regret of always playing the worst policy. Where the last column is "
            "above 1, the upper bound holds for any learner, and nothing is checked.",
            "Where there is no upper bound, the theorem's constants are not known, or the horizon "
            "is too short for it.",
        ),
    )


def _line(system: _System, values: Mapping[str, Values]) -> Line:
    regrets = system.regrets(values)
    paired, lower = float(regrets["paired"].mean()), system.lower
    upper = None if system.upper is None else system.upper.total
    return Line(
        (
            system.title,
            system.horizon,
            lower,
            *(mean_text(regrets[rule]) for rule in _RULES),
            upper,
            None if upper is None or paired <= 0 else upper / paired,
            paired / lower if lower else None,
            None if upper is None else upper / system.most(values),
        )
    )


def _terms(systems: list[_System]) -> Table:
    known = [(system, system.upper) for system in systems if system.upper is not None]
    names = list(dict.fromkeys(name for _, upper in known for name in upper.terms))
    return Table(
        name="bounds-terms",
        title="Terms of the upper bounds",
        columns=(
            Column.text("system"),
            Column("T", ","),
            *(Column(name, ".4g") for name in names),
        ),
        lines=tuple(
            Line((system.title, system.horizon, *(upper.terms[name] for name in names)))
            for system, upper in known
        ),
        notes=(
            "In units of cost. The logarithms and the span of the bias dominate the first terms.",
        ),
    )


def _checks(full: bool, system: _System, values: Mapping[str, Values]) -> list[Check]:
    found, alarm = [], level(full)
    for rule, regrets in system.regrets(values).items():
        about = f"{system.title}, T = {system.horizon:,}, rule {rule}"
        if system.upper is not None and system.upper.total < system.most(values):
            claim = f"{about}: regret is above the upper bound in at most {MISSED:.0%} of all runs"
            found.append(seldom(claim, regrets > system.upper.total, MISSED, alarm))
        if system.lower:
            claim = f"{about}: mean regret is no smaller than the lower bound"
            lower = np.full_like(regrets, system.lower)
            names = ("lower bound", "mean regret")
            found.append(at_most(claim, lower, regrets, 1.0, alarm, names))
    return found


def _figure(full: bool, systems: list[_System], values: Mapping[str, Values]) -> Figure:
    """A panel for each system."""
    with drawing_panels(list(dict.fromkeys(each.title for each in systems))) as (canvas, panels):
        for title, axes in panels.items():
            _draw(axes, [each for each in systems if each.title == title], values)
        return finish_panels(
            canvas,
            panels,
            "bounds",
            "Regret beside its bounds",
            "Mean regret with its 95 % interval, between the bounds. Where there is no upper "
            "bound, its constants are not known, or the horizon is too short for the theorem.",
            Bounds.command(full),
        )


def _draw(axes: Axes, systems: list[_System], values: Mapping[str, Values]) -> None:
    steps = np.array([system.horizon for system in systems], dtype=np.float64)
    for rule in _RULES:
        curves = np.array([system.regrets(values)[rule] for system in systems]).T
        draw_mean(axes, steps, curves, rule, _STYLES[rule])
    upper = np.array([np.nan if system.upper is None else system.upper.total for system in systems])
    axes.plot(steps, upper, color=DARK, linestyle="--", label="upper bound")
    if all(system.lower for system in systems):
        lower = np.array([system.lower or 0.0 for system in systems])
        axes.plot(steps, lower, color=DARK, linestyle=":", label="lower bound")
