"""Regret against the share of informative steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from iopea.comparison.figures import drawing, finished
from iopea.comparison.statistics import fit_power
from iopea.comparison.tables import Column, Figure, Line, Table
from iopea.studies.guarantees.checks import at_most_worst, level
from iopea.studies.guarantees.fits import draw_sweep, exponent_text, mean_text, worst
from iopea.studies.guarantees.regrets import ArmsPart, advantage_at, final_regrets, has_learned
from iopea.studies.guarantees.study import Check, Finding, Part, Study, Values
from iopea.systems.hard_instance import HardInstance
from iopea.types import Array

_POLICIES, _WIDTH = 8, 4
_MULTIPLES = {True: (1.0, 2.0, 3.0, 4.0, 8.0), False: (2.0, 3.0, 8.0)}
_REVEAL = {True: (1, 2, 4, 8, 16, 32, 64), False: (1, 8)}
_HORIZON = {True: 100_000, False: 8_000}
_RUNS = {True: 60, False: 24}
#: Seconds of a run, per step.
_PACE = 1e-6


@dataclass(frozen=True)
class AlphaPart(ArmsPart):
    """Runs with one share and one advantage."""

    study: ClassVar[str] = "alpha"


class Alpha(Study):
    """Regret grows like 1/√α, where a share α of the steps is informative."""

    name = "alpha"
    title = "Regret against the share of informative steps"

    def parts(self, full: bool) -> list[Part]:
        """Every share with every advantage."""
        return [part for row in _rows(full).values() for part in row]

    def finding(self, full: bool, values: Mapping[str, Values]) -> Finding:
        """The exponent of 1/α at the worst advantage."""
        rows = _rows(full)
        regrets = {reveal: final_regrets(row, values) for reveal, row in rows.items()}
        points = np.array(list(rows), dtype=np.float64)
        curves = np.array([worst(each)[0] for each in regrets.values()]).T
        fit = fit_power(points, curves)
        notes = (
            f"The exponent of 1/α, fitted to the worst regrets: {exponent_text(fit)}. "
            "The theorem and the lower bound both say 1/2.",
            "Δ/Δ₀ is the advantage of the best block at which regret was largest, as a multiple of "
            "sqrt(w/T') with T' = αT episodes.",
        )
        table = Table(
            "alpha",
            f"Worst regret after {_HORIZON[full]:,} steps by α",
            (
                Column("α"),
                Column("regret"),
                Column("Δ/Δ₀", "g"),
                Column("lower bound", ".4g"),
                Column("regret · √α", ".4g"),
            ),
            tuple(_line(full, rows[reveal][0].instance, regrets[reveal]) for reveal in rows),
            notes,
        )
        lead = (
            "The theorem says that regret grows like 1/√α, where a share α of the steps is "
            "informative. By the second lower bound, no learner does better.",
            f"Measured on the instances of that bound: {_POLICIES} policies in {_WIDTH} blocks, "
            f"the first of every 1/α steps is observed, {_HORIZON[full]:,} steps, {_RUNS[full]} "
            f"seeds, rule “paired”. Only α changes; for each α, the largest mean regret over "
            f"{len(_MULTIPLES[full])} advantages of the best block is taken.",
        )
        return Finding(
            lead, (table,), (_figure(points, curves, full),), tuple(_checks(full, rows, regrets))
        )


def _rows(full: bool) -> dict[int, list[ArmsPart]]:
    """The parts of each 1/α, one for each advantage."""
    found: dict[int, list[ArmsPart]] = {}
    for reveal in _REVEAL[full]:
        instance = HardInstance(policies=_POLICIES, width=_WIDTH, reveal=reveal)
        found[reveal] = [
            AlphaPart(
                case=f"reveal-{reveal}-{multiple:g}",
                first_seed=0,
                runs=_RUNS[full],
                effort=_RUNS[full] * (0.02 + _PACE * _HORIZON[full]),
                policies=_POLICIES,
                width=_WIDTH,
                span=1,
                reveal=reveal,
                advantage=advantage_at(instance, _HORIZON[full], multiple),
                looks=(_HORIZON[full],),
            )
            for multiple in _MULTIPLES[full]
        ]
    return found


def _share(reveal: int) -> str:
    """α as a fraction."""
    return f"1/{reveal}" if reveal > 1 else "1"


def _line(full: bool, instance: HardInstance, regrets: Array) -> Line:
    sample, place = worst(regrets)
    return Line(
        (
            _share(instance.system.reveal),
            mean_text(sample),
            _MULTIPLES[full][place],
            instance.system.lower_bound(_HORIZON[full]),
            float(sample.mean()) / math.sqrt(instance.system.reveal),
        )
    )


def _checks(full: bool, rows: dict[int, list[ArmsPart]], regrets: dict[int, Array]) -> list[Check]:
    first, last = min(rows), max(rows)
    factor = math.sqrt(last / first)
    found = [
        at_most_worst(
            f"From α = 1 to 1/{last} the worst regret grows at most {factor:.3g}-fold, by 1/√α",
            regrets[last],
            regrets[first],
            factor,
            level(full),
        )
    ]
    found += [
        has_learned(f"α = {_share(reveal)}", rows[reveal][-1], regrets[reveal][:, -1], level(full))
        for reveal in (first, last)
    ]
    return found


def _figure(points: Array, curves: Array, full: bool) -> Figure:
    horizon = _HORIZON[full]
    lower = [
        HardInstance(policies=_POLICIES, width=_WIDTH, reveal=round(each)).system.lower_bound(
            horizon
        )
        for each in points
    ]
    with drawing(4.6, 3.4) as canvas:
        axes = canvas.subplots()
        draw_sweep(axes, points, curves, "paired", "1/α", lower=np.array(lower))
        axes.set_title(f"worst regret after {horizon:,} steps", loc="left", fontsize=9)
        return finished(
            canvas,
            "alpha",
            "Regret against the share of informative steps",
            "Mean regret at the worst advantage with its 95 % interval, the fitted power of 1/α "
            "with the standard error of its exponent, and the lower bound.",
            Alpha.command(full),
        )
