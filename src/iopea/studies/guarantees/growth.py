"""Regret against the horizon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from iopea.comparison.statistics import fit_power
from iopea.comparison.tables import Column, Figure, Line, Table
from iopea.studies.guarantees.checks import at_most, at_most_worst, level
from iopea.studies.guarantees.fits import (
    DARK,
    draw_mean,
    drawing_panels,
    explained_by_logarithm,
    explained_by_power,
    exponent_text,
    finish_panels,
    fit_logarithm,
    mean_text,
)
from iopea.studies.guarantees.regrets import ArmsPart, cases, regret_of_learner
from iopea.studies.guarantees.study import Check, Finding, Part, Study, Values
from iopea.studies.reproduction.curves import upper_bound
from iopea.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The instance of the lower bound, whose worst advantage shrinks with the horizon.
HARD = "hard-instance"
_HARD_POLICIES, _HARD_WIDTH = 16, 8
#: Its advantages: a step of the horizon by half a decade is one of the advantage by a quarter.
_ADVANTAGES = {
    True: tuple(round(0.4 * 10 ** (-place / 4), 6) for place in range(8)),
    False: tuple(round(0.4 * 10 ** (-place / 4), 6) for place in range(5)),
}
#: The last horizon as a power of ten, and the number of seeds, by rule and system. Rule "theorem"
#: evaluates all policies to the end, and needs a run for each horizon.
_FULL: dict[str, dict[str, tuple[float, int]]] = {
    "paired": {
        "lost-sales": (7, 36),
        "dual-sourcing": (6, 12),
        "newsvendor": (7, 36),
        "queue": (7, 36),
        "machine": (7, 36),
    },
    "theorem": {
        "lost-sales": (5, 8),
        "dual-sourcing": (4, 8),
        "newsvendor": (5, 8),
        "queue": (6, 8),
        "machine": (6, 8),
    },
    "published": {
        "lost-sales": (7, 24),
        "dual-sourcing": (6, 24),
        "newsvendor": (7, 24),
        "queue": (7, 24),
    },
}
_QUICK: dict[str, dict[str, tuple[float, int]]] = {
    "paired": {"lost-sales": (5.5, 12), "newsvendor": (5.5, 12), "queue": (4.5, 24)},
    "theorem": {"newsvendor": (4, 12), "queue": (4, 12)},
    "published": {"lost-sales": (4.5, 6)},
}
_HARD_RUNS = {True: (6.0, 48), False: (4.5, 12)}
#: Seconds to 10^6 steps, and per million steps after these.
_PACE = {
    "lost-sales": (0.4, 0.25),
    "dual-sourcing": (6.0, 0.6),
    "newsvendor": (0.3, 0.15),
    "queue": (0.3, 0.25),
    "machine": (0.4, 0.4),
}
#: Relative run time of rule "theorem", which eliminates hardly any policy.
_ALL_POLICIES = {"lost-sales": 20.0, "dual-sourcing": 60.0, "newsvendor": 20.0}
#: Runs of one part.
_AT_ONCE = 12


def looks(power: float) -> tuple[int, ...]:
    """Horizons from 10^3 on, two for each decade.

    >>> looks(4)
    (1000, 3162, 10000)
    """
    return tuple(round(10 ** (each / 2)) for each in range(6, round(2 * power) + 1))


@dataclass(frozen=True)
class GrowthPart(Part):
    """Runs of one rule on one system.

    Attributes
    ----------
    system : str. Problem and truth as text.
    rule : str. Of elimination.
    looks : tuple of int. Horizons at which regret is read.
    """

    study: ClassVar[str] = "growth"

    system: str
    rule: str
    looks: tuple[int, ...]

    def measure(self) -> Values:
        """Regret of each run at each look."""
        return {"regret": [self._regrets(seed) for seed in self.seeds]}

    def _regrets(self, seed: int) -> list[float]:
        settings: dict[str, Any] = {"rule": self.rule}
        if self.rule != "theorem":
            return regret_of_learner(self.system, seed, self.looks, settings)
        return [
            regret_of_learner(self.system, seed, (each,), settings | {"horizon": each})[0]
            for each in self.looks
        ]


@dataclass(frozen=True)
class HardPart(ArmsPart):
    """Runs on the instance of the lower bound with one advantage."""

    study: ClassVar[str] = "growth"


def _parts(full: bool) -> dict[tuple[str, str], list[GrowthPart]]:
    """Parts by system and rule."""
    found: dict[tuple[str, str], list[GrowthPart]] = {}
    for rule, systems in (_FULL if full else _QUICK).items():
        for name, (power, runs) in systems.items():
            found[name, rule] = [
                GrowthPart(
                    case=f"{name}-{rule}",
                    first_seed=first,
                    runs=min(_AT_ONCE, runs - first),
                    effort=min(_AT_ONCE, runs - first) * _seconds(name, rule, power),
                    system=cases()[name].system,
                    rule=rule,
                    looks=looks(power),
                )
                for first in range(0, runs, _AT_ONCE)
            ]
    return found


def _seconds(name: str, rule: str, power: float) -> float:
    start, later = _PACE[name]
    if rule == "theorem":
        return _ALL_POLICIES.get(name, 1.0) * 10 ** (power - 6)
    return start + later * 10 ** (power - 6)


def _hard_parts(full: bool) -> list[HardPart]:
    """One part for each advantage."""
    power, runs = _HARD_RUNS[full]
    return [
        HardPart(
            case=f"{HARD}-{advantage:g}",
            first_seed=0,
            runs=runs,
            effort=runs * (0.03 + 0.3 * 10 ** (power - 6)),
            policies=_HARD_POLICIES,
            width=_HARD_WIDTH,
            span=1,
            reveal=1,
            advantage=advantage,
            looks=looks(power),
        )
        for advantage in _ADVANTAGES[full]
    ]


class Growth(Study):
    """Regret grows no faster than √T, and like log T where the cost is smooth."""

    name = "growth"
    title = "Regret against the horizon"

    def parts(self, full: bool) -> list[Part]:
        """Every rule on every system."""
        return [*(part for row in _parts(full).values() for part in row), *_hard_parts(full)]

    def finding(self, full: bool, values: Mapping[str, Values]) -> Finding:
        """Exponents, shapes, and whether the promise holds."""
        found = [_curves(*key, row, values) for key, row in _parts(full).items()]
        hard = _hard_parts(full)
        by_advantage = np.array([values[part.key]["regret"] for part in hard])
        found.append(_hard_curves(hard, by_advantage))
        return Finding(
            lead=_lead(),
            tables=(_exponents(found), _shapes(found)),
            figures=(_figure(full, found),),
            checks=tuple(_checks(full, found, by_advantage)),
        )


def _curves(name: str, rule: str, parts: list[GrowthPart], values: Mapping[str, Values]) -> Curves:
    case, steps = cases()[name], parts[0].looks
    bounds = [upper_bound(case.system, each) for each in steps]
    return Curves(
        title=case.title,
        rule=rule,
        steps=np.array(steps, dtype=np.float64),
        values=np.array([run for part in parts for run in values[part.key]["regret"]]),
        upper=np.array([np.nan if each is None else each.total for each in bounds]),
        quadratic=case.quadratic,
    )


def _hard_curves(parts: list[HardPart], by_advantage: Array) -> Curves:
    """At each horizon the advantage of the largest mean regret."""
    steps, instance = parts[0].looks, parts[0].instance
    hardest = by_advantage.mean(axis=1).argmax(axis=0)
    return Curves(
        title="hard instance",
        rule="paired",
        steps=np.array(steps, dtype=np.float64),
        values=by_advantage[hardest, :, np.arange(len(steps))].T,
        upper=np.full(len(steps), np.nan),
        lower=np.array([instance.system.lower_bound(each) for each in steps]),
    )


def _lead() -> tuple[str, ...]:
    return (
        "The theorem says that regret grows like √T, up to logarithms. Where costs are smooth "
        "around the best policy of a continuous class, rule “paired” should do better: its errors "
        "shrink with the distance from the best policy, and regret should grow like log T.",
        "Regret is the extra cost over the best policy under the same noise. On the hard instance, "
        f"of {_HARD_POLICIES} policies in {_HARD_WIDTH} blocks, it is the extra mean cost of the "
        "arms that were played, at the worst advantage for the horizon, which shrinks like 1/√T.",
        "Rule “theorem” has the constants of a proof: at practical horizons it eliminates hardly "
        "any policy, and where the most informative policy is a bad one, an exponent near 1 is "
        "expected. Where all policies are equally informative, as in the queue, the estimated best "
        "is played. For this rule only the exponent is shown; its promise is checked in the study "
        "of bounds.",
        "Rule “published” promises nothing. If it ends with a wrong policy, regret is linear from "
        "then on.",
    )


def _checks(full: bool, found: list[Curves], by_advantage: Array) -> list[Check]:
    alarm = level(full)
    checks = []
    for curves in found[:-1]:
        if curves.rule != "paired":
            continue
        checks.append(_no_faster(curves, alarm))
        if curves.quadratic:
            checks.append(_increments(curves, full, alarm))
    return [*checks, _no_faster_on_hard(found[-1], by_advantage, alarm)]


def _no_faster(curves: Curves, alarm: float) -> Check:
    first, last = curves.steps[[0, -1]]
    factor = math.sqrt(last / first)
    return at_most(
        f"{curves.title}: from T = {first:,.0f} to {last:,.0f} regret grows at most "
        f"{factor:.3g}-fold, by √T",
        curves.values[:, -1],
        curves.values[:, 0],
        factor,
        alarm,
    )


def _increments(curves: Curves, full: bool, alarm: float) -> Check:
    """Under log T all decades cost the same; under √T each costs 3.2 times the one before.

    The levels of the tests fall with the number of epochs, which adds a factor of the order
    log log T; decades may cost more in proportion to log T.
    """
    back = 4 if full else 2  # looks, of which two are a decade
    decades = curves.values[:, 2:] - curves.values[:, :-2]
    ends = curves.steps[[-1, -1 - back]]
    factor = float(np.divide(*np.log(ends)))
    return at_most(
        f"{curves.title}: the decade to T = {ends[0]:,.0f} costs at most {factor:.2f} times the "
        f"one to {ends[1]:,.0f}; under √T it would be {math.sqrt(ends[0] / ends[1]):.3g} times",
        decades[:, -1],
        decades[:, -1 - back],
        factor,
        alarm,
    )


def _no_faster_on_hard(curves: Curves, by_advantage: Array, alarm: float) -> Check:
    first, last = curves.steps[[0, -1]]
    factor = math.sqrt(last / first) * math.log(last) / math.log(first)
    return at_most_worst(
        f"hard instance: from T = {first:,.0f} to {last:,.0f} the worst regret grows at most "
        f"{factor:.3g}-fold, by √T log T",
        by_advantage[:, :, -1].T,
        by_advantage[:, :, 0].T,
        factor,
        alarm,
    )


#: The place of each rule among the styles.
_STYLES = {"paired": 0, "theorem": 1, "published": 2}


@dataclass(frozen=True)
class Curves:
    """Regret over the horizon of one rule on one system.

    Attributes
    ----------
    title, rule : str.
    steps : array (n,). Horizons.
    values : array (runs, n).
    upper : array (n,). The theorem's bound; NaN where it does not apply.
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


def _exponents(found: list[Curves]) -> Table:
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
                exponent_text(fit_power(each.steps, each.values)),
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
            "Exponents are slopes of the logarithm of mean regret, with their jackknife standard "
            "errors over seeds. There is none where a mean is not positive.",
            "No upper bound is given where the theorem's constants are not known, where the "
            "horizon is too short, and on the hard instance, which differs by horizon.",
        ),
    )


def _shapes(found: list[Curves]) -> Table:
    """Logarithm against power, for rule paired on smooth costs."""
    lines = []
    for each in found:
        if not (each.quadratic and each.rule == "paired"):
            continue
        fit, line = fit_power(each.steps, each.values), fit_logarithm(each.steps, each.values)
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
        notes=("The last two columns are the growth of mean regret in these decades of T.",),
    )


def _decade(curves: Curves, place: int) -> float:
    mean = curves.values.mean(axis=0)
    return float(mean[place] - mean[place - 2])


def _figure(full: bool, found: list[Curves]) -> Figure:
    """A panel for each system."""
    with drawing_panels(list(dict.fromkeys(each.title for each in found))) as (canvas, panels):
        for each in found:
            axes = panels[each.title]
            draw_mean(axes, each.steps, each.values, each.rule, _STYLES[each.rule])
            _draw_bounds(axes, each)
        return finish_panels(
            canvas,
            panels,
            "growth",
            "Regret against the horizon",
            "Mean regret with its 95 % interval. The grey line has the slope of √T and begins "
            "where rule “paired” does. The upper bound is the theorem's; the lower one is "
            "for the hard instance, with another advantage for each horizon.",
            Growth.command(full),
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
            color=DARK,
            linestyle="--",
            label="upper bound",
        )
    if curves.lower is not None:
        axes.plot(curves.steps, curves.lower, color=DARK, linestyle=":", label="lower bound")
