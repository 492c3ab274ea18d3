"""Regret against the horizon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from iopea.studies.guarantees.fits import at_most, at_most_worst, level
from iopea.studies.guarantees.gaps import ArmsPart
from iopea.studies.guarantees.growth_tables import (
    Curves,
    exponent_table,
    growth_figure,
    shape_table,
)
from iopea.studies.guarantees.regrets import cases, regret_on_same_chance
from iopea.studies.guarantees.study import Check, Finding, Part, Study, Values
from iopea.studies.reproduction.curves import upper_bound
from iopea.types import Array

#: The instance of the lower bound, whose worst advantage shrinks with the horizon.
HARD = "hard-instance"
_HARD_POLICIES, _HARD_WIDTH = 16, 8
#: Its advantages: a step of the horizon by half a decade is one of the advantage by a quarter.
_ADVANTAGES = {
    True: tuple(round(0.4 * 10 ** (-place / 4), 6) for place in range(8)),
    False: tuple(round(0.4 * 10 ** (-place / 4), 6) for place in range(5)),
}
#: The last horizon as a power of ten, and the seeds, by rule and system; what is left out is not
#: run. Rule "theorem" judges all policies to the end, and needs a run for each horizon.
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
#: How many times as long a run of rule "theorem" takes, which drops no policy.
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
            return regret_on_same_chance(self.system, seed, self.looks, settings)
        return [
            regret_on_same_chance(self.system, seed, (each,), settings | {"horizon": each})[0]
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
            tables=(exponent_table(found), shape_table(found)),
            figures=(growth_figure(full, found),),
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
        "Regret is the cost beyond that of the best policy on the same chance. On the hard "
        f"instance, of {_HARD_POLICIES} policies in {_HARD_WIDTH} blocks, it is what the arms that "
        "were played cost in the mean beyond the best one, at the advantage which is the worst for "
        "the horizon; with the horizon that shrinks like 1/√T.",
        "Rule “theorem” has the constants of a proof: at horizons that somebody runs it drops "
        "hardly anything, and where the policy that tells most is a bad one an exponent near 1 is "
        "to be expected. Where all policies tell as much, as in the queue, the best by estimate is "
        "played. Of this rule the exponent is shown; what it promises is checked in the study of "
        "bounds.",
        "Rule “published” promises nothing. If it settles on a wrong policy, regret is linear from "
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
