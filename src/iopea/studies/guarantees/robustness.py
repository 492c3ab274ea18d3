"""What happens when an assumption fails, and whether the learner says so."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import stats

from iopea.learners.diagnostics import FALSE_ALARM
from iopea.studies.guarantees.fits import seldom
from iopea.studies.guarantees.robustness_runs import (
    CORRELATION,
    LOOKS,
    RADIUS,
    SEASON,
    STAY,
    LearnerRuns,
    WatchRuns,
)
from iopea.studies.guarantees.robustness_tables import (
    Case,
    Result,
    change_table,
    demand_table,
    figure,
    range_table,
)
from iopea.studies.guarantees.study import Check, Finding, Part, Study, Values
from iopea.types import Array

#: Shares of the runs in which the learner says what fails, at the least, and in which words.
NOTICES = {
    "dependence": (0.9, "that persistent demand depends on the demand before"),
    "change": (0.9, "that demand has changed, after a change by a factor of 2"),
    "edge": (0.99, "that the best policy is at the edge, where it is"),
}
#: Probability with which the guarantee of a run may fail [δ].
DELTA = 0.05
#: The watch's evidence may ever reach this in one run of as many.
EVIDENCE = 20.0
#: Probability with which one check fails although the promise holds, quick and full.
LEVELS = (1e-8, 1e-4)

CASES = (
    Case("lost-sales", "steady", 0.0, 7.0, None, (10, 120)),
    Case("dual-sourcing", "steady", 0.0, 6.0, None, (3, 40)),
    Case("lost-sales", "persistent", 0.0, 7.0, "dependence", (10, 80)),
    Case("dual-sourcing", "persistent", 0.0, 6.0, "dependence", (3, 40)),
    Case("lost-sales", "seasons", 0.0, 7.0, "dependence", (0, 80)),
    Case("dual-sourcing", "seasons", 0.0, 6.0, "dependence", (0, 40)),
    Case("lost-sales", "steady", 0.0, 2.3, "edge", (10, 80)),
    Case("lost-sales", "steady", 4.5, 7.0, "edge", (10, 80)),
    Case("dual-sourcing", "steady", 0.0, 1.8, "edge", (3, 40)),
    Case("lost-sales", "halves", 0.0, 7.0, "change", (10, 80)),
    Case("lost-sales", "doubles", 0.0, 7.0, "change", (10, 80)),
    Case("dual-sourcing", "doubles", 0.0, 6.0, "change", (3, 40)),
)
#: Steps of a run, and on which policies are compared.
STEPS, EVALUATION = (6_000, 20_000), (400_000, 2_000_000)
#: Steps and runs of the watch alone.
WATCH_STEPS, WATCH_RUNS = (4_000, 10_000), (300, 6_000)
_WATCH_LOOKS = 10
_WATCH = "watch"
#: Runs in one part, and rough seconds of a run of 10,000 steps.
_AT_A_TIME = {"lost-sales": 20, "dual-sourcing": 10, _WATCH: 1000}
_SECONDS = {"lost-sales": 0.2, "dual-sourcing": 0.6, _WATCH: 0.008}


class Robustness(Study):
    """The learner notices what it can, and hardly ever cries wolf."""

    name = "robustness"
    title = "When an assumption fails"

    def parts(self, full: bool) -> list[Part]:
        """Runs of all cases, and of the watch alone."""
        steps = STEPS[full]
        found: list[Part] = [
            LearnerRuns(
                case.name, first, number, 1 + number * _SECONDS[case.shop] * steps / 10_000,
                case.shop, case.demand, case.low, case.high, steps, EVALUATION[full],
            )
            for case in CASES
            for first, number in _shares(case.runs[full], _AT_A_TIME[case.shop])
        ]  # fmt: skip
        found += [
            WatchRuns(_WATCH, first, number, number * _SECONDS[_WATCH], WATCH_STEPS[full],
                      _WATCH_LOOKS)
            for first, number in _shares(WATCH_RUNS[full], _AT_A_TIME[_WATCH])
        ]  # fmt: skip
        return found

    def finding(self, full: bool, values: Mapping[str, Values]) -> Finding:
        """Tables, a figure of three panels, and the checks."""
        by_case: dict[str, list[Values]] = {}
        for part in self.parts(full):
            by_case.setdefault(part.case, []).append(values[part.key])
        results = [
            Result(case, by_case[case.name], STEPS[full]) for case in CASES if case.name in by_case
        ]
        watch = np.array([each for part in by_case[_WATCH] for each in part["largest"]])
        alarms = sum(part["noticed"] for part in by_case[_WATCH])
        return Finding(
            lead=_LEAD,
            tables=(demand_table(results), range_table(results), change_table(results)),
            figures=(figure(full, results, watch),),
            checks=_checks(results, watch, alarms, full),
        )


_LEAD = (
    "The learner takes demand to be independent from step to step with one law, and the best "
    "policy to lie inside the range. Here one of these fails. The learner is told records alone, "
    "and says what it notices (`learner.warnings`, part of `learner.outlook`).",
    "Both shops are the paper's small ones with exponential demand. In persistent demand the law "
    f"of each step is the same, and the normal scores have a correlation of {CORRELATION:g} from "
    f"step to step. In seasons of {1 / (1 - STAY):.0f} steps on average, demand is {SEASON:g} "
    "times as high as in those between. A change is in the middle of the run. Nets have a radius "
    f"of {RADIUS:g}; each run is looked at {LOOKS} times, and a warning counts from the first look "
    "at which it was said, even if it is taken back.",
)


def _shares(runs: int, most: int) -> list[tuple[int, int]]:
    """First seeds and numbers of runs."""
    return [(first, min(most, runs - first)) for first in range(0, runs, most)]


def _checks(results: list[Result], largest: Array, alarms: int, full: bool) -> tuple[Check, ...]:
    level = LEVELS[full]
    checks = [_power(results, kind, level) for kind in NOTICES]
    checks += _false_alarms(results, largest, alarms, level)
    if full:  # after a notice, quick runs are too short for learning anew to pay
        checks += [_anew(each, level) for each in results if each.case.fails == "change"]
    return tuple(checks)


def _power(results: list[Result], kind: str, level: float) -> Check:
    """Whether what fails is said often enough, all cases of a kind together."""
    share, words = NOTICES[kind]
    cases = [each for each in results if each.case.fails == kind and each.case.demand != "seasons"]
    runs = sum(len(each.runs) for each in cases)
    said = sum(len(each.steps_until(kind)) for each in cases)
    # Under the promise fewer than this are said with a probability below the level.
    fewest = int(stats.binom.ppf(level, runs, share))
    return Check(
        claim=f"In at least {share:.0%} of the runs the learner says {words}.",
        measured=f"{said} of {runs}; fewer than {fewest} would fail",
        passed=said >= fewest,
        false_alarm=level,
    )


def _false_alarms(results: list[Result], largest: Array, alarms: int, level: float) -> list[Check]:
    steady = [each for each in results if each.case.demand == "steady"]
    inside = [each for each in steady if each.case.fails is None]
    wrong = sum(len(each.steps_until("dependence", "change")) for each in steady)
    total = sum(len(each.runs) for each in steady) + largest.size
    return [
        _at_most(
            f"Of independent demand with one law anything is said in at most {FALSE_ALARM:.1%} of "
            "the runs.",
            alarms + wrong, total, FALSE_ALARM, level,
        ),
        _at_most(
            f"The evidence ever reaches {EVIDENCE:g} in at most {1 / EVIDENCE:.0%} of the runs in "
            "which nothing fails.",
            int((largest >= np.log(EVIDENCE)).sum()), largest.size, 1 / EVIDENCE, level,
        ),
        _at_most(
            f"Where the best policy is inside, the edge is named in at most {DELTA:.0%} of the "
            "runs.",
            sum(len(each.steps_until("edge")) for each in inside),
            sum(len(each.runs) for each in inside), DELTA, level,
        ),
    ]  # fmt: skip


def _at_most(claim: str, count: int, runs: int, share: float, level: float) -> Check:
    return seldom(claim, np.arange(runs) < count, share, level)


def _anew(result: Result, level: float) -> Check:
    """Whether the advice to learn anew is good, by a t-test of the costs of the same runs."""
    case = result.case
    claim = (
        f"Who learns anew when demand {case.demand} ({case.shop}) pays no more from the notice on "
        "than who goes on."
    )
    going_on, anew = result.since_notice.T / result.costs[-1]
    saved = going_on - anew
    if saved.size < 2:
        return Check(claim, "hardly any change was noticed", False, level)
    error = float(saved.std(ddof=1)) / np.sqrt(saved.size)
    worst = -float(stats.t.isf(level, saved.size - 1)) * error
    return Check(
        claim,
        f"{saved.mean():.1%} of the best policy's cost saved; below {worst:.1%} would fail",
        bool(saved.mean() >= worst),
        level,
    )
