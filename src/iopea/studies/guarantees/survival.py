"""Survival: with probability at least 1 - δ, the best policy of the net is never eliminated.

A run is lost if the best policy of the net was eliminated in any of its epochs. The losses of
independent runs are binomial, so an exact bound on their probability follows from their number.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.stats import binom, binomtest

from iopea.comparison.figures import drawing, finished
from iopea.comparison.tables import Cell, Column, Figure, Line, Table, percent
from iopea.learners.base import Learner
from iopea.learners.iopea import IOPEA
from iopea.problems.base import Simulator
from iopea.simulate import run
from iopea.studies.guarantees.cases import QUICK, Case, cases, published_cases
from iopea.studies.guarantees.study import Check, Finding, Part, Study, Values
from iopea.studies.guarantees.truths import system_from
from iopea.studies.guarantees.yardstick import CERTAIN, Yardstick, yardstick
from iopea.types import Policy

_QUICK_DELTA = 0.05
#: Confidence of the bound on the probability to lose the best policy.
CONFIDENCE = 0.99
#: The first seed: those of the paper's runs lie below.
FIRST_SEED = 10_000
#: Runs at each δ of a kind of problem with one rule, and of a case, at the least; of a case in the
#: quick study and of the published rule; of a part.
RUNS, CASE_RUNS, QUICK_RUNS, PUBLISHED_RUNS, PART_RUNS = 2000, 125, 120, 300, 125
#: Probability that a full check fails on account of a single case although the promise holds.
CASE_ALARM = 1e-3
#: Probability that any check of the quick study fails although the promise holds.
QUICK_ALARM = 1e-7
#: Seconds of a thousand steps, roughly, by rule; and of a run of frugal play.
_SECONDS = {"paired": 0.02, "theorem": 0.003, "published": 0.001}
_FRUGAL = 0.15
#: Policies of a player who reacts to demand, as multiples of the best one.
_LOW, _HIGH = 0.5, 1.5


@dataclass(frozen=True)
class Runs(Part):
    """Some runs of a case with one rule and one δ.

    Attributes
    ----------
    system, settings : str. Problem and truth, and the learner's settings, as text.
    horizon : int. Steps of a run.
    rule : str. Of elimination.
    delta : float. Promised failure probability [δ].
    reacting : bool. Whether somebody else plays, who reacts to demand.
    """

    study: ClassVar[str] = "survival"

    system: str
    settings: str
    horizon: int
    rule: str
    delta: float
    reacting: bool = False

    def measure(self) -> Values:
        """The runs in which the best policy was lost, and the mean share of surviving policies."""
        problem, truth = system_from(self.system)
        settings = json.loads(self.settings)
        standard = yardstick(self.system, self.settings, self.horizon, self.rule)
        lost, left = [], 0.0
        for seed in self.seeds:
            learner = IOPEA(
                problem,
                rule=self.rule,
                delta=self.delta,
                horizon=self.horizon,
                seed=seed,
                **settings,
            )
            system = problem.simulator(truth, seed)
            if is_lost(learner, system, self.horizon, standard.best, self.reacting):
                lost.append(seed)
            # Some classes can't be counted once policies are eliminated: their share is not shown.
            left += (learner.survivors or 0) / learner.count / self.runs
        return {
            "lost": lost,
            "left": left,
            "policies": learner.count,
            "best": list(standard.best),
            "cost": standard.cost,
            "gap": standard.gap,
            "error": standard.error,
        }


class _Decided(Exception):  # noqa: N818 - no error: it ends the run
    """The outcome is known before the end of the run."""


def is_lost(
    learner: IOPEA, simulator: Simulator, horizon: int, best: Policy, reacting: bool = False
) -> bool:
    """Whether the best policy was eliminated in any epoch of a run."""
    lost, epoch = False, learner.epoch

    def watch(after: Learner, done: int) -> None:
        nonlocal lost, epoch
        if learner.epoch == epoch:
            return
        epoch = learner.epoch
        lost = not learner.survives(best)
        if lost or learner.survivors == 1:
            raise _Decided

    with contextlib.suppress(_Decided):
        if reacting:
            _react(learner, simulator, horizon, best, watch)
        else:
            run(learner, simulator, horizon, watch)
    return lost


def _react(
    learner: IOPEA,
    simulator: Simulator,
    horizon: int,
    best: Policy,
    watch: Callable[[Learner, int], None],
) -> None:
    """Play a high policy after high demand and a low one after low demand."""
    net = learner.surviving
    reach = np.maximum(np.ptp(net, axis=0), 1e-300)
    low, high = (
        tuple(map(float, net[(np.abs(net - factor * np.array(best)) / reach).max(axis=1).argmin()]))
        for factor in (_LOW, _HIGH)
    )
    policy, sold = high, 0.0
    for done in range(1, horizon + 1):
        path = simulator.play(policy, 1).trajectory
        learner.tell(path)
        watch(learner, done)
        seen = learner.problem.demand_seen(path)
        last = 0.0 if seen is None else float(seen[0][0])
        sold += last
        policy = high if last * done > sold else low


def upper_bound(lost: int, runs: int, confidence: float = CONFIDENCE) -> float:
    """Upper confidence bound on the probability of a loss (Clopper and Pearson).

    >>> round(upper_bound(0, 2000), 5), upper_bound(7, 7)
    (0.0023, 1.0)
    """
    test = binomtest(lost, runs, alternative="less")
    return float(test.proportion_ci(confidence, method="exact").high)


def most_lost(runs: int, delta: float, alarm: float) -> int:
    """The most losses without an alarm: more have a probability of at most ``alarm``.

    >>> most_lost(100, 0.05, 1e-9)
    22
    """
    return int(binom.isf(alarm, runs, delta))


def most_proved(runs: int, delta: float) -> int:
    """The most losses with which the upper bound is at most δ; -1 where none are few enough.

    >>> most = most_proved(2000, 0.05)
    >>> upper_bound(most, 2000) <= 0.05 < upper_bound(most + 1, 2000)
    True
    """
    return int(binom.ppf(1 - CONFIDENCE, runs, delta)) - 1


@dataclass(frozen=True)
class _Count:
    """The result of all parts of a case with one rule and δ."""

    case: Case
    delta: float
    runs: int
    lost: int
    left: float
    policies: int
    standard: Yardstick

    @property
    def upper(self) -> float:
        return upper_bound(self.lost, self.runs)

    @property
    def share(self) -> str:
        return f"{self.lost} of {self.runs}"


class Survival(Study):
    """The promise of δ, counted."""

    name: ClassVar[str] = "survival"
    title: ClassVar[str] = "The best policy survives"

    def parts(self, full: bool) -> list[Part]:
        """All cases at every δ, and rule published; or some cases at one δ."""
        return [part for case, delta in _pairs(full) for part in _parts(case, delta, full)]

    def finding(self, full: bool, values: Mapping[str, Values]) -> Finding:
        """Counts, bounds and checks."""
        counts = [
            _count(case, delta, _parts(case, delta, full), values) for case, delta in _pairs(full)
        ]
        promised = [count for count in counts if count.case.rule != "published"]
        others = [count for count in counts if count.case.rule == "published"]
        tables = [_systems(promised), _losses(promised)]
        if others:
            tables.append(_published(others))
        points = [
            (count.case.name, count.delta, count.lost / count.runs, count.upper)
            for count in promised
        ]
        if full:
            points += [
                (f"all of {kind}, {rule}", delta, lost / runs, upper_bound(lost, runs))
                for (rule, kind, delta), (lost, runs) in _pooled(promised).items()
            ]
        return Finding(
            lead=_lead(full, promised),
            tables=tuple(tables),
            figures=(_figure(points, self.command(full)),),
            checks=(*_checks(promised, full), _certainty(promised)),
        )


def _pooled(counts: Sequence[_Count]) -> dict[tuple[str, str, float], tuple[int, int]]:
    """Losses and runs by rule, kind of problem and δ."""
    found: dict[tuple[str, str, float], tuple[int, int]] = {}
    for count in counts:
        key = (count.case.rule, count.case.kind, count.delta)
        lost, runs = found.get(key, (0, 0))
        found[key] = (lost + count.lost, runs + count.runs)
    return found


def _pairs(full: bool) -> Iterator[tuple[Case, float]]:
    """Each case with each δ."""
    chosen = cases().values() if full else [cases()[name] for name in QUICK]
    for case in chosen:
        for delta in case.deltas if full else (_QUICK_DELTA,):
            yield case, delta
    if full:
        for case in published_cases().values():
            yield case, _QUICK_DELTA


def _runs(case: Case, delta: float) -> int:
    """Runs of a case at a δ, such that all cases of its kind and rule have at least 2,000."""
    alike = [
        each
        for each in cases().values()
        if (each.kind, each.rule) == (case.kind, case.rule) and delta in each.deltas
    ]
    return max(CASE_RUNS, -(-RUNS // (PART_RUNS * len(alike))) * PART_RUNS)


def _seconds(case: Case) -> float:
    """Seconds of a run, roughly."""
    usual = case.horizon / 1000 * _SECONDS[case.rule]
    frugal = case.rule == "paired" and "maximal" not in case.settings
    return max(usual, _FRUGAL) if frugal and "levels" in case.systems[0] else usual


def _parts(case: Case, delta: float, full: bool) -> list[Runs]:
    runs = QUICK_RUNS
    if full:
        runs = PUBLISHED_RUNS if case.rule == "published" else _runs(case, delta)
    each = runs // len(case.systems)
    return [
        Runs(
            case=f"{case.name}-{delta:g}",
            first_seed=FIRST_SEED + number * each + first,
            runs=min(PART_RUNS, each - first),
            effort=min(PART_RUNS, each - first) * _seconds(case),
            system=system,
            settings=case.settings,
            horizon=case.horizon,
            rule=case.rule,
            delta=delta,
            reacting=case.reacting,
        )
        for number, system in enumerate(case.systems)
        for first in range(0, each, PART_RUNS)
    ]


def _count(case: Case, delta: float, parts: Sequence[Runs], values: Mapping[str, Values]) -> _Count:
    found = [values[part.key] for part in parts]
    # Of several systems, the one whose best policy is the least certain.
    first = min(found, key=lambda each: each["gap"] / max(each["error"], 1e-300))
    runs = sum(part.runs for part in parts)
    return _Count(
        case=case,
        delta=delta,
        runs=runs,
        lost=sum(len(each["lost"]) for each in found),
        left=sum(part.runs * each["left"] for part, each in zip(parts, found, strict=True)) / runs,
        policies=first["policies"],
        standard=Yardstick(tuple(first["best"]), first["cost"], first["gap"], first["error"]),
    )


def _lead(full: bool, counts: Sequence[_Count]) -> tuple[str, ...]:
    number = len({count.case.name for count in counts})
    how = (
        f"A check passes only if the exact {percent(CONFIDENCE)} upper bound on the probability of "
        "a loss (Clopper and Pearson), over all runs of a kind of problem, is at most δ. So a "
        "check that passes proves the promise: if the promise is broken, it passes with a "
        "probability of at most 1 %. It may fail for a rule that loses with a probability just "
        "below δ; its false-alarm rate is that for losses with probability exactly δ everywhere. "
        "It also fails if a single case has so many losses that this would happen in one of "
        f"{1 / CASE_ALARM:,.0f} studies if the promise holds."
        if full
        else "A check fails if a case has too many losses for a probability of δ: all checks "
        f"together fail once in {1 / QUICK_ALARM:,.0f} runs of this study if the promise holds."
    )
    return (
        "Promise: with probability at least 1 - δ, the best policy of the net is never eliminated, "
        "over the whole run. "
        f"Measured on {number} systems by {min(count.runs for count in counts):,} independent runs "
        f"or more each for every δ, from seed {FIRST_SEED:,} on. The learner knows the horizon, so "
        "that all of δ is spent within it; most runs are short, since the first tests are based on "
        "the fewest batches. Where demand drives the system, it plays frugally by default, unless "
        "the case is named maximal; in cases named reacting, somebody else plays half of the best "
        "policy after low demand and one and a half times the best after high demand. The best "
        "policy is computed exactly where that is possible, and otherwise found by a long "
        "evaluation of all policies under common noise.",
        how,
    )


def _checks(counts: Sequence[_Count], full: bool) -> Iterator[Check]:
    alarm = (CASE_ALARM if full else QUICK_ALARM) / len(counts)
    for rule in dict.fromkeys(count.case.rule for count in counts):
        for delta in dict.fromkeys(count.delta for count in counts):
            chosen = [count for count in counts if count.case.rule == rule and count.delta == delta]
            if not chosen:
                continue
            if not full:
                yield _check(rule, delta, "each of", chosen, alarm)
                continue
            for kind in dict.fromkeys(count.case.kind for count in chosen):
                some = [count for count in chosen if count.case.kind == kind]
                yield _proved(_check(rule, delta, f"{kind}, in", some, alarm), delta, some)


def _check(rule: str, delta: float, where: str, counts: Sequence[_Count], alarm: float) -> Check:
    """Check that no case contradicts the promise of a rule."""
    worst = max(counts, key=lambda count: (count.upper, count.case.name))
    broken = [count for count in counts if count.lost > most_lost(count.runs, delta, alarm)]
    measured = (
        f"most in {worst.case.name}: {worst.share}, no alarm up to "
        f"{most_lost(worst.runs, delta, alarm)}"
    )
    if broken:
        measured = "broken in " + "; ".join(
            f"{count.case.name} ({count.share}, up to {percent(count.upper)})" for count in broken
        )
    return Check(
        claim=f"Rule {rule} loses the best policy with probability at most {delta:g} "
        f"in {where} {len(counts)} case{'s' if len(counts) > 1 else ''}",
        measured=measured,
        passed=not broken,
        false_alarm=len(counts) * alarm,
    )


def _proved(check: Check, delta: float, counts: Sequence[_Count]) -> Check:
    """A check of single cases that must also prove the promise by all of their runs."""
    lost, runs = sum(count.lost for count in counts), sum(count.runs for count in counts)
    upper = upper_bound(lost, runs)
    return Check(
        claim=check.claim,
        measured=f"{lost} of {runs:,} runs, at most {percent(upper)}; {check.measured}",
        passed=check.passed and upper <= delta,
        false_alarm=min(
            1.0, check.false_alarm + float(binom.sf(most_proved(runs, delta), runs, delta))
        ),
    )


def _certainty(counts: Sequence[_Count]) -> Check:
    """Check that the best policy of each case is certain."""
    unsure = sorted({count.case.name for count in counts if not count.standard.certain})
    return Check(
        claim="The best policy of the net is certain in each case: its gap to the next one is more "
        f"than {CERTAIN:g} standard errors",
        measured=f"not in {', '.join(unsure)}" if unsure else "in all cases",
        passed=not unsure,
        false_alarm=0.0,
    )


def _losses(counts: Sequence[_Count]) -> Table:
    """One row for each case, with the losses at each δ."""
    lines = []
    deltas = tuple(dict.fromkeys(count.delta for count in counts))
    for name in dict.fromkeys(count.case.name for count in counts):
        found = {count.delta: count for count in counts if count.case.name == name}
        cells: list[Cell] = [name]
        for delta in deltas:
            count = found.get(delta)
            cells += [None, None] if count is None else [count.share, percent(count.upper)]
        last = found[deltas[-1]]
        cells.append(None if last.policies > 2**16 else percent(last.left))
        lines.append(Line(tuple(cells)))
    titles = [text for delta in deltas for text in (f"lost, δ = {delta:g}", "at most")]
    return Table(
        name="survival",
        title="Runs in which the best policy was lost",
        columns=(Column.text("case"), *map(Column, titles), Column("policies left")),
        lines=tuple(lines),
        notes=(
            f"“At most” is the exact {percent(CONFIDENCE)} upper bound on the probability of a "
            "loss.",
            f"“Policies left” is the mean share of the net at the end of a run with δ = "
            f"{deltas[-1]:g}: where it is 100 %, nothing was ever eliminated.",
        ),
    )


def _systems(counts: Sequence[_Count]) -> Table:
    """The cases."""
    lines = []
    for case, count in {count.case.name: count for count in counts}.items():
        standard = count.standard
        error = "exact" if standard.error == 0 else percent(standard.error / abs(standard.cost))
        lines.append(
            Line(
                (
                    case,
                    count.case.section,
                    count.case.rule,
                    count.policies,
                    count.case.horizon,
                    percent(standard.gap / abs(standard.cost)) if standard.cost else None,
                    error,
                )
            )
        )
    return Table(
        name="survival-cases",
        title="The cases",
        columns=(
            *map(Column.text, ("case", "group", "rule")),
            Column("policies", ","),
            Column("steps", ","),
            Column("second best"),
            Column("error"),
        ),
        lines=tuple(lines),
        notes=(
            "“Second best” is the gap between the best and the second best policy of the net, and "
            "“error” the standard error of that gap.",
        ),
    )


def _published(counts: Sequence[_Count]) -> Table:
    """Rule published, which promises nothing."""
    return Table(
        name="survival-published",
        title="Rule published, which promises nothing",
        columns=(
            Column.text("setting"),
            Column("runs"),
            Column("steps", ","),
            Column("lost"),
            Column("at most"),
        ),
        lines=tuple(
            Line(
                (
                    count.case.name.removeprefix("published-"),
                    count.runs,
                    count.case.horizon,
                    count.lost,
                    percent(count.upper),
                )
            )
            for count in counts
        ),
        notes=("Its constants have no δ, so there is nothing to check.",),
    )


#: Case, δ, fraction of runs that were lost, and the upper bound on its probability.
_Point = tuple[str, float, float, float]

_COLOUR, _PROVED, _BROKEN = "#aa3377", "#4477aa", "#cc3311"
#: Inches per case, and of the margins.
_LINE, _MARGIN = 0.15, 1.1


def _figure(points: Sequence[_Point], command: str) -> Figure:
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
            "its exact 99 % upper bound (end of the line), for each case; the dashed line is the "
            "promised δ. The few runs of a single case prove nothing either way: the lines of all "
            "runs of a kind of problem, in blue (red if broken), must end to the left of δ."
        )
        return finished(canvas, "survival", "How often the best policy is lost", caption, command)
