"""Regret against the width of the order, and against the number of policies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from iopea.comparison.figures import drawing, finished
from iopea.comparison.statistics import fit_power
from iopea.comparison.tables import Column, Figure, Line, Table
from iopea.studies.guarantees.checks import at_most, at_most_worst, level
from iopea.studies.guarantees.fits import (
    draw_sweep,
    explained_by_logarithm,
    exponent_text,
    fit_logarithm,
    mean_text,
    worst,
)
from iopea.studies.guarantees.regrets import ArmsPart, advantage_at, final_regrets, has_learned
from iopea.studies.guarantees.study import Check, Finding, Part, Study, Values
from iopea.systems.hard_instance import HardInstance
from iopea.types import Array

#: Advantages of the best block as multiples of sqrt(w/T'), and of the best arm under full feedback
#: as multiples of sqrt(log |Θ|/T').
_BLOCKS = {True: (1.0, 2.0, 3.0, 4.0, 8.0), False: (2.0, 3.0, 8.0)}
_ARMS = {True: (0.5, 1.0, 2.0), False: (1.0,)}
#: The multiple at which two orders are compared, and the least ratio of their regrets.
_COMPARED, _DEARER = 4.0, 2.0
#: Critical values over w blocks grow like sqrt(log(4w/δ)).
_DELTA = 0.05


@dataclass(frozen=True)
class _Size:
    """Amount of work: policies in blocks, and numbers of policies without blocks."""

    blocks: tuple[float, ...]
    policies: int
    widths: tuple[int, ...]
    horizon: int
    runs: int
    arms: tuple[float, ...]
    numbers: tuple[int, ...]
    many: int
    trivial: tuple[int, ...]
    short: int
    few: int


#: Amount of work of the full and the quick study.
SIZES = {
    True: _Size(
        blocks=_BLOCKS[True],
        policies=64,
        widths=(4, 8, 16, 32, 64),
        horizon=100_000,
        runs=48,
        arms=_ARMS[True],
        numbers=(8, 16, 32, 64, 256, 1024),
        many=24,
        trivial=(8, 16, 32, 64),
        short=10_000,
        few=24,
    ),
    False: _Size(
        blocks=_BLOCKS[False],
        policies=16,
        widths=(4, 16),
        horizon=8_000,
        runs=24,
        arms=_ARMS[False],
        numbers=(8, 64),
        many=48,
        trivial=(8, 16),
        short=3_000,
        few=24,
    ),
}


@dataclass(frozen=True)
class WidthPart(ArmsPart):
    """Runs with one order and one advantage."""

    study: ClassVar[str] = "width"


@dataclass(frozen=True)
class _Sweep:
    """Parts by the number that changes, and then by advantage."""

    rows: dict[int, list[WidthPart]]

    @classmethod
    def of(
        cls, orders: Mapping[int, HardInstance], multiples: tuple[float, ...], steps: int, runs: int
    ) -> _Sweep:
        """Every order with every advantage."""
        return cls(
            {
                number: [
                    _part(order, advantage_at(order, steps, each), steps, runs)
                    for each in multiples
                ]
                for number, order in orders.items()
            }
        )

    @property
    def parts(self) -> list[WidthPart]:
        return [part for row in self.rows.values() for part in row]

    @property
    def points(self) -> Array:
        return np.array(list(self.rows), dtype=np.float64)

    def regrets(self, values: Mapping[str, Values]) -> dict[int, Array]:
        """Arrays (runs, advantages)."""
        return {number: final_regrets(row, values) for number, row in self.rows.items()}


def _part(order: HardInstance, advantage: float, steps: int, runs: int) -> WidthPart:
    arms = order.system.policies if order.system.full_feedback else 0
    pace = 0.02 + steps * (1e-6 + 3e-8 * order.system.width + 9e-8 * arms)
    return WidthPart(
        case=f"{order.system.policies}-of-width-{order.system.width}-{advantage:.4g}",
        first_seed=0,
        runs=runs,
        effort=runs * pace,
        policies=order.system.policies,
        width=order.system.width,
        span=1,
        reveal=1,
        advantage=advantage,
        looks=(steps,),
    )


def _by_width(size: _Size) -> _Sweep:
    orders = {each: HardInstance(policies=size.policies, width=each) for each in size.widths}
    return _Sweep.of(orders, size.blocks, size.horizon, size.runs)


def _by_number(size: _Size) -> _Sweep:
    orders = {each: HardInstance(policies=each) for each in size.numbers}
    return _Sweep.of(orders, size.arms, size.short, size.many)


def _trivial(size: _Size) -> _Sweep:
    orders = {each: HardInstance(policies=each, width=each) for each in size.trivial}
    return _Sweep.of(orders, size.blocks, size.short, size.few)


def compared(size: _Size) -> tuple[WidthPart, WidthPart]:
    """The same advantage with the trivial order and under full feedback."""
    number = size.trivial[-1]
    orders = HardInstance(policies=number, width=number), HardInstance(policies=number)
    advantage = advantage_at(orders[0], size.short, _COMPARED)
    trivial, full = (_part(order, advantage, size.short, size.few) for order in orders)
    return trivial, full


class Width(Study):
    """Regret grows like √w with the width of the order, and hardly with the number of policies."""

    name = "width"
    title = "Regret against the width of the order"

    def parts(self, full: bool) -> list[Part]:
        """Every order with every advantage."""
        size = SIZES[full]
        sweeps = (_by_width(size), _by_number(size), _trivial(size))
        parts = [*(part for sweep in sweeps for part in sweep.parts), *compared(size)]
        return list({part.key: part for part in parts}.values())

    def finding(self, full: bool, values: Mapping[str, Values]) -> Finding:
        """The exponents of w and of |Θ|."""
        size = SIZES[full]
        return Finding(
            lead=_lead(size),
            tables=(_width_table(size, values), _number_table(size, values)),
            figures=(_figure(full, size, values),),
            checks=tuple(_checks(full, size, values)),
        )


def _lead(size: _Size) -> tuple[str, ...]:
    return (
        "The theorem says that regret grows like √w with the width w of the order, and like "
        "√log |Θ| with the number of policies. Without an order each policy is informative only "
        "about itself, and the width is |Θ|.",
        f"Measured on the instances of the lower bound with rule “paired”: {size.policies} "
        f"policies in w blocks, {size.horizon:,} steps, {size.runs} seeds; and |Θ| policies under "
        f"full feedback, where w = 1, beside the trivial order, where w = |Θ|, {size.short:,} "
        f"steps, {size.many} and {size.few} seeds. The advantage of the best block is the one, of "
        "several multiples of that of the lower bound, at which mean regret is largest.",
    )


def _wrong(width: float | Array) -> float | Array:
    """The share of the wrong blocks: one block is right."""
    return 1 - 1 / width


def _worst_curves(sweep: _Sweep, values: Mapping[str, Values]) -> Array:
    """Worst regrets, an array (runs, points)."""
    return np.array([worst(each)[0] for each in sweep.regrets(values).values()]).T


def _scaled_curves(sweep: _Sweep, values: Mapping[str, Values]) -> Array:
    """Worst regrets over the share of the wrong blocks."""
    return np.asarray(_worst_curves(sweep, values) / _wrong(sweep.points))


def _width_table(size: _Size, values: Mapping[str, Values]) -> Table:
    sweep = _by_width(size)
    fit = fit_power(sweep.points, _scaled_curves(sweep, values))
    lines = []
    for width, regrets in sweep.regrets(values).items():
        sample, place = worst(regrets)
        instance = sweep.rows[width][0].instance
        lines.append(
            Line(
                (
                    width,
                    mean_text(sample),
                    size.blocks[place],
                    instance.system.lower_bound(size.horizon),
                    float(sample.mean()) / math.sqrt(width) / float(_wrong(width)),
                )
            )
        )
    within = fit is not None and abs(fit.exponent - 0.5) <= 2 * fit.error
    first, last = size.widths[0], size.widths[-1]
    root, logs = math.sqrt(last / first), _logs(first, last)
    scaled = _scaled_curves(sweep, values).mean(axis=0)
    growth = float(scaled[-1] / scaled[0])
    notes = (
        f"The exponent of w, fitted to regret/(1 - 1/w): {exponent_text(fit)}; 1/2 lies "
        f"{'within' if within else 'outside'} two standard errors. One of w blocks is the right "
        "one, hence 1 - 1/w.",
        f"From w = {first} to {last} it grows {growth:.3g}-fold, √w {root:.3g}-fold; with the root "
        f"of log(4w/δ), by which critical values grow, it would be {root * math.sqrt(logs):.3g}, "
        f"with the logarithm itself {root * logs:.3g}.",
        "Δ/Δ₀ is the advantage at which regret was largest, as a multiple of sqrt(w/T).",
    )
    return Table(
        "width",
        f"Worst regret of {size.policies} policies after {size.horizon:,} steps by width",
        (
            Column("w"),
            Column("regret"),
            Column("Δ/Δ₀", "g"),
            Column("lower bound", ".4g"),
            Column("regret/(√w (1 - 1/w))", ".4g"),
        ),
        tuple(lines),
        notes,
    )


def _number_table(size: _Size, values: Mapping[str, Values]) -> Table:
    ordered, trivial = _by_number(size), _trivial(size)
    curves = _worst_curves(ordered, values)
    line = fit_logarithm(ordered.points, curves)
    without = {number: worst(each)[0] for number, each in trivial.regrets(values).items()}
    lines = tuple(
        Line(
            (
                number,
                mean_text(worst(each)[0]),
                mean_text(without[number]) if number in without else None,
            )
        )
        for number, each in ordered.regrets(values).items()
    )
    first, last = size.numbers[0], size.numbers[-1]
    fits = (
        fit_power(ordered.points, curves),
        fit_power(trivial.points, _worst_curves(trivial, values)),
    )
    shared, own = map(exponent_text, fits)
    notes = (
        f"Exponents of |Θ|: {shared} under full feedback, {own} with the trivial order. "
        f"From {first} to {last} policies a factor √log |Θ| would show as an exponent of "
        f"{_seen_as(first, last) / 2:.2f}, a factor log |Θ| as one of {_seen_as(first, last):.2f}.",
        f"Under full feedback regret is {line.intercept:.3g} + {line.slope:.3g} log |Θ|, the slope "
        f"± {line.error:.2g}; R² = {explained_by_logarithm(ordered.points, curves, line):.3f}.",
    )
    return Table(
        "policies",
        f"Worst regret after {size.short:,} steps by the number of policies",
        (Column("|Θ|"), Column("full feedback, w = 1"), Column("trivial order, w = |Θ|")),
        lines,
        notes,
    )


def _logs(first: int, last: int) -> float:
    """Ratio of log(4w/δ) at two widths."""
    return math.log(4 * last / _DELTA) / math.log(4 * first / _DELTA)


def _seen_as(first: int, last: int) -> float:
    """The exponent as which a factor log n appears between two numbers."""
    return math.log(math.log(last) / math.log(first)) / math.log(last / first)


def _checks(full: bool, size: _Size, values: Mapping[str, Values]) -> list[Check]:
    alarm = level(full)
    sweep = _by_width(size)
    regrets = sweep.regrets(values)
    first, last = size.widths[0], size.widths[-1]
    # The theorem leaves logarithms open: as with T in the study of growth, one is allowed.
    allowed = math.sqrt(last / first) * _logs(first, last)
    few, many = size.numbers[0], size.numbers[-1]
    numbers = _by_number(size).regrets(values)
    trivial, ordered = (final_regrets([part], values)[:, 0] for part in compared(size))
    return [
        at_most_worst(
            f"From w = {first} to {last} worst regret/(1 - 1/w) grows at most {allowed:.3g}-fold, "
            "by √w log(4w/δ)",
            regrets[last] / _wrong(last),
            regrets[first] / _wrong(first),
            allowed,
            alarm,
        ),
        *(
            has_learned(f"w = {width}", sweep.rows[width][-1], regrets[width][:, -1], alarm)
            for width in (first, last)
        ),
        at_most_worst(
            f"Under full feedback worst regret grows at most by the factor log |Θ| from {few} to "
            f"{many} policies",
            numbers[many],
            numbers[few],
            math.log(many) / math.log(few),
            alarm,
        ),
        at_most(
            f"Of {size.trivial[-1]} policies, full feedback costs at most 1/{_DEARER:g} of what "
            "the trivial order costs at the same advantage",
            ordered,
            trivial,
            1 / _DEARER,
            alarm,
        ),
    ]


def _figure(full: bool, size: _Size, values: Mapping[str, Values]) -> Figure:
    sweep, ordered, trivial = _by_width(size), _by_number(size), _trivial(size)
    lower = [row[0].instance.system.lower_bound(size.horizon) for row in sweep.rows.values()]
    with drawing(7.4, 3.6) as canvas:
        left, right = canvas.subplots(1, 2)
        curves = _scaled_curves(sweep, values)
        scaled = np.array(lower) / _wrong(sweep.points)
        draw_sweep(left, sweep.points, curves, "paired", "width w", lower=scaled)
        left.set_ylabel("regret / (1 − 1/w)")
        left.set_title(f"{size.policies} policies in w blocks", loc="left", fontsize=9)
        for style, (name, each) in enumerate((("trivial", trivial), ("full feedback", ordered))):
            curves = _worst_curves(each, values)
            draw_sweep(right, each.points, curves, name, "policies |Θ|", style=1 - style)
        right.set_title("with an order and without", loc="left", fontsize=9)
        return finished(
            canvas,
            "width",
            "Regret against the width of the order and the number of policies",
            "Mean regret at the worst advantage with its 95 % interval, and the fitted powers with "
            "the standard errors of their exponents.",
            Width.command(full),
        )
