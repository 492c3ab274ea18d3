"""Runs in which an assumption fails, and whether the learner reports it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from iopea.comparison.figures import drawing, finished
from iopea.comparison.tables import Column, Figure, Line, Table
from iopea.demand import Demand, Exponential
from iopea.learners.diagnostics import AT_EDGE, CHANGED, DEPENDS, FALSE_ALARM, DemandWatch
from iopea.learners.iopea import IOPEA
from iopea.problems.base import Problem, Simulator
from iopea.simulate import evaluate, run
from iopea.studies.guarantees.checks import seldom
from iopea.studies.guarantees.study import Check, Finding, Part, Study, Values
from iopea.studies.guarantees.truths import Changing, Persistent, Seasons
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.lost_sales import LostSales
from iopea.types import Array, Policy, show_policy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Radius of the nets, coarse enough that the best policy of a net is certain.
RADIUS = 0.1
#: Looks at a run.
LOOKS = 40
#: Beginnings of the warnings, by kind.
WARNINGS = {"edge": AT_EDGE, "change": CHANGED, "dependence": DEPENDS}
#: Correlation of the normal scores of persistent demand.
CORRELATION = 0.6
#: High seasons have this many times the demand of low ones, and a season lasts 1/(1 - stay) steps.
SEASON, STAY = 4.0, 0.98
#: Factors by which demand changes.
FACTORS = {"halves": 0.5, "doubles": 2.0}
_LAW: dict[str, Any] = {"mean": 1.0, "maximum": 3.0, "zero_probability": 0.3}
_COSTS: dict[str, Any] = {"holding_cost": 1, "lost_sales_cost": 10}


def problem_of(shop: str, low: float, high: float) -> Problem:
    """A small shop of the paper, with its (regular) levels in a range."""
    levels = {"low": low, "high": high}
    if shop == "lost-sales":
        return LostSales(lead_time=2, levels=levels, **_COSTS)
    return DualSourcing(
        regular_lead_time=1,
        expedited_lead_time=0,
        expedited_cost=0.5,
        expedited_levels={"low": 0, "high": 6},
        regular_levels=levels,
        **_COSTS,
    )


def demand_of(kind: str, steps: int) -> Demand:
    """The true demand of a run; a change is in the middle."""
    match kind:
        case "steady":
            return Exponential(**_LAW)
        case "persistent":
            return Persistent(correlation=CORRELATION, **_LAW)
        case "seasons":
            return Seasons(factor=SEASON, stay=STAY, **_LAW)
    return Changing(factor=FACTORS[kind], after=steps // 2, **_LAW)


@dataclass(frozen=True)
class LearnerRuns(Part):
    """Runs of the learner.

    Attributes
    ----------
    shop : str. ``"lost-sales"`` or ``"dual-sourcing"``.
    demand : str. ``"steady"``, ``"persistent"``, ``"seasons"``, ``"halves"`` or ``"doubles"``.
    low, high : float. Range of levels.
    steps : int. Of each run [T].
    evaluation : int. Steps of the path on which policies are evaluated.
    """

    study = "robustness"

    shop: str
    demand: str
    low: float
    high: float
    steps: int
    evaluation: int

    def measure(self) -> Values:
        """The best policy of the range, and the results of each run."""
        problem = problem_of(self.shop, self.low, self.high)
        net = problem.policy_class.net(RADIUS)
        costs = [
            evaluate(problem.simulator(law), net, self.evaluation).cost for law in self._laws()
        ]
        best = [int(each.argmin()) for each in costs]
        yardstick = _Yardstick(net, costs[-1], best[-1])
        return {
            "best": [list(map(float, net[place])) for place in best],
            "cost": [float(each[place]) for each, place in zip(costs, best, strict=True)],
            "runs": [self._run(problem, yardstick, seed) for seed in self.seeds],
        }

    def _laws(self) -> list[Demand]:
        """The successive demand laws."""
        if self.demand not in FACTORS:
            return [demand_of(self.demand, self.steps)]
        later = {**_LAW, "mean": _LAW["mean"] * FACTORS[self.demand]}
        return [Exponential(**_LAW), Exponential(**later)]

    def _run(self, problem: Problem, yardstick: _Yardstick, seed: int) -> Values:
        truth = demand_of(self.demand, self.steps)
        system, learner = problem.simulator(truth, seed), IOPEA(problem, radius=RADIUS)
        said: dict[str, int | None] = dict.fromkeys(WARNINGS)
        costs: list[Array] = []
        fork: Simulator | None = None
        for look in range(LOOKS):
            costs.append(run(learner, system, self.steps // LOOKS).costs)
            for kind in _kinds(learner.warnings):
                if said[kind] is None:
                    said[kind] = (look + 1) * (self.steps // LOOKS)
            if said["change"] is not None and fork is None and self.demand in FACTORS:
                fork = problem.simulator(truth, seed)
                fork.load_state_dict(system.state_dict())
        found: Values = {
            "said": said,
            "gap": yardstick.gap(learner.recommend()),
            "kept": learner.survives(yardstick.best),
        }
        if self.demand in FACTORS:
            paid = np.concatenate(costs)
            found |= {
                "before": float(paid[: self.steps // 2].mean()),
                "after": float(paid[self.steps // 2 :].mean()),
                "anew": self._anew(problem, fork, paid, said["change"]),
            }
        return found

    def _anew(
        self, problem: Problem, fork: Simulator | None, paid: Array, noticed: int | None
    ) -> list[float] | None:
        """Cost per step after the warning: of continuing, and of starting again."""
        if fork is None or noticed is None or noticed >= self.steps:
            return None
        anew = run(IOPEA(problem, radius=RADIUS), fork, self.steps - noticed)
        return [float(paid[noticed:].mean()), anew.average_cost]


@dataclass(frozen=True)
class WatchRuns(Part):
    """Runs of the demand watch alone, under random levels and steady demand.

    Attributes
    ----------
    steps : int. Of each run.
    looks : int. Looks at the evidence.
    """

    study = "robustness"

    steps: int
    looks: int

    def measure(self) -> Values:
        """The largest log-evidence of each run, and the number of runs with a warning."""
        problem, truth = problem_of("lost-sales", 0.0, 7.0), demand_of("steady", self.steps)
        largest, noticed = [], 0
        for seed in self.seeds:
            system, watch = problem.simulator(truth, seed), DemandWatch()
            levels = problem.policy_class.sample(np.random.default_rng(seed), self.looks)
            most, said = -math.inf, False
            for level in levels:
                path = system.play((float(level[0]),), self.steps // self.looks).trajectory
                watch.observe(path["sales"], path["stock"])
                both = float(np.logaddexp(watch.dependence, watch.change)) - math.log(2)
                most, said = max(most, both), said or watch.noticed is not None
            largest.append(most)
            noticed += said
        return {"largest": largest, "noticed": noticed}


@dataclass(frozen=True)
class _Yardstick:
    """True costs of the policies of a net, and the place of the best one."""

    net: Array
    costs: Array
    place: int

    @property
    def best(self) -> Policy:
        return tuple(map(float, self.net[self.place]))

    def gap(self, policy: Any) -> float:
        """Extra cost of a policy over the best one, as a share."""
        chosen = int(np.abs(self.net - np.array(policy)).max(axis=1).argmin())
        return float(self.costs[chosen] / self.costs[self.place] - 1)


def _kinds(warnings: tuple[str, ...]) -> list[str]:
    return [
        kind for kind, start in WARNINGS.items() if any(text.startswith(start) for text in warnings)
    ]


_COLOURS = ("#aa3377", "#4477aa", "#228833", "#ccbb44")


@dataclass(frozen=True)
class Case:
    """A system on which the learner is run.

    Attributes
    ----------
    fails : str, optional. The warning to expect: ``"edge"``, ``"change"`` or ``"dependence"``.
    runs : tuple of int. In the quick and in the full study.
    """

    shop: str
    demand: str
    low: float
    high: float
    fails: str | None
    runs: tuple[int, int]

    @property
    def name(self) -> str:
        """Valid in a file name."""
        return f"{self.shop}-{self.demand}-{self.low:g}-{self.high:g}"


@dataclass(frozen=True)
class Result:
    """A case with the values of its parts, and the steps of a run."""

    case: Case
    parts: list[Values]
    steps: int

    @property
    def runs(self) -> list[Values]:
        """The results of each run."""
        return [each for part in self.parts for each in part["runs"]]

    @property
    def best(self) -> list[list[float]]:
        """The best policies under the successive laws."""
        best: list[list[float]] = self.parts[0]["best"]
        return best

    @property
    def costs(self) -> list[float]:
        """Their costs."""
        costs: list[float] = self.parts[0]["cost"]
        return costs

    def steps_until(self, *kinds: str) -> list[int]:
        """Steps until the first of some warnings, in the runs that have one."""
        said = [[run["said"][kind] for kind in kinds if run["said"][kind]] for run in self.runs]
        return [min(steps) for steps in said if steps]

    def reported(self, *kinds: str) -> str:
        """The number of runs with one of some warnings, as text."""
        return f"{len(self.steps_until(*kinds))} of {len(self.runs)}"

    def median_step(self, kind: str, since: int = 0) -> float | None:
        """The median step of a warning, counted from some step."""
        steps = self.steps_until(kind)
        return float(np.median(steps)) - since if steps else None

    def mean(self, name: str) -> float:
        """Mean of a number over the runs."""
        return float(np.mean([run[name] for run in self.runs]))

    @property
    def since_notice(self) -> Array:
        """Cost per step of continuing and of starting again after a warning, an array (n, 2)."""
        found = [run["anew"] for run in self.runs if run["anew"] is not None]
        return np.array(found) if found else np.full((1, 2), np.nan)


def _demand_table(results: list[Result]) -> Table:
    """Reports of dependence, and its effect on the recommendation."""
    rows = tuple(
        (
            each.case.shop,
            each.case.demand,
            each.reported("dependence"),
            each.median_step("dependence"),
            each.reported("change"),
            f"{100 * each.mean('gap'):.2f} %",
            f"{sum(not run['kept'] for run in each.runs)} of {len(each.runs)}",
        )
        for each in results
        if each.case.fails in (None, "dependence")
    )
    return Table(
        name="robustness-demand",
        title="Autocorrelated demand",
        columns=(
            Column.text("shop"), Column.text("demand"), Column("dependence reported"),
            Column("median step", ",.0f"), Column("change reported"), Column("gap"),
            Column("best policy eliminated"),
        ),
        lines=tuple(map(Line, rows)),
        notes=(
            "The gap is that of the recommended policy to the best one of the net under the true "
            "demand. That the best policy is eliminated in at most 5 % of the runs is promised for "
            "independent demand only.",
        ),
    )  # fmt: skip


def _range_table(results: list[Result]) -> Table:
    """Reports that the best policy is at the edge."""
    rows = tuple(
        (
            each.case.shop,
            f"{each.case.low:g} to {each.case.high:g}",
            show_policy(tuple(each.best[0]), 3),
            "at the edge" if each.case.fails else "inside",
            each.reported("edge"),
            each.median_step("edge"),
        )
        for each in results
        if each.case.fails in (None, "edge") and each.case.demand == "steady"
    )
    return Table(
        name="robustness-range",
        title="A range that does not contain the best policy",
        columns=(
            Column.text("shop"), Column("levels"), Column("best policy of the range"),
            Column.text("position"), Column("edge reported"),
            Column("median step", ",.0f"),
        ),
        lines=tuple(map(Line, rows)),
        notes=("With two suppliers the range is that of the regular level.",),
    )  # fmt: skip


def _change_table(results: list[Result]) -> Table:
    """Reports of a change, and its cost."""
    changed = [each for each in results if each.case.fails == "change"]
    rows = tuple(
        (
            each.case.shop,
            each.case.demand,
            each.reported("change"),
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
            Column.text("shop"), Column.text("demand"), Column("change reported"),
            Column("median steps after the change", ",.0f"), Column("cost before"),
            Column("cost after"), Column("after the warning, continuing"),
            Column("starting again"),
        ),
        lines=tuple(map(Line, rows)),
        notes=(
            "Costs are averages over the run, relative to the best policy under the demand of the "
            "time. A learner that starts again begins with the highest level, which is costly.",
        ),
    )  # fmt: skip


def _above(cost: float, best: float) -> str | None:
    """A cost relative to the best one, in percent."""
    return None if math.isnan(cost) else f"{100 * (cost / best - 1):+.1f} %"


def _figure(full: bool, results: list[Result], largest: Array) -> Figure:
    """When dependence and changes were reported, and the evidence if nothing fails."""
    with drawing(7.4, 3.0) as canvas:
        left, middle, right = canvas.subplots(1, 3)
        _draw_notices(left, [each for each in results if each.case.fails == "dependence"], 0)
        left.set_title("autocorrelated demand", loc="left", fontsize=9)
        left.set_xlabel("steps")
        left.set_ylabel("share of the runs with a report")
        changed = [each for each in results if each.case.fails == "change"]
        _draw_notices(middle, changed, results[0].steps // 2)
        middle.set_title("demand changes once", loc="left", fontsize=9)
        middle.set_xlabel("steps after the change")
        _draw_evidence(right, largest)
        caption = (
            "Left and middle: the share of the runs in which the learner has reported it, over "
            f"time. Right: the share of {largest.size:,} runs under the assumptions in which the "
            "mean of both kinds of evidence ever reached x, with the bound 1/x. The learner "
            f"reports from an evidence of {2 / FALSE_ALARM:,.0f} on."
        )
        return finished(
            canvas,
            "robustness",
            "Reports when an assumption fails",
            caption,
            Robustness.command(full),
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


#: Least shares of the runs in which the learner reports what fails, and what that is.
NOTICES = {
    "dependence": (0.9, "that persistent demand is autocorrelated"),
    "change": (0.9, "that demand has changed, after a change by a factor of 2"),
    "edge": (0.99, "that the best policy is at the edge, if it is"),
}
#: Probability that the guarantee of a run fails [δ].
DELTA = 0.05
#: The evidence may ever reach this value in one of as many runs.
EVIDENCE = 20.0
#: Probability that one check fails although the promise holds, quick and full.
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
#: Steps of a run, and of the path on which policies are evaluated.
STEPS, EVALUATION = (6_000, 20_000), (400_000, 2_000_000)
#: Steps and runs of the demand watch alone.
WATCH_STEPS, WATCH_RUNS = (4_000, 10_000), (300, 6_000)
_WATCH_LOOKS = 10
_WATCH = "watch"
#: Runs in one part, and estimated seconds of a run of 10,000 steps.
_AT_A_TIME = {"lost-sales": 20, "dual-sourcing": 10, _WATCH: 1000}
_SECONDS = {"lost-sales": 0.2, "dual-sourcing": 0.6, _WATCH: 0.008}


class Robustness(Study):
    """The learner reports failures of assumptions, with few false alarms."""

    name = "robustness"
    title = "When an assumption fails"

    def parts(self, full: bool) -> list[Part]:
        """Runs of all cases, and of the demand watch alone."""
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
            tables=(_demand_table(results), _range_table(results), _change_table(results)),
            figures=(_figure(full, results, watch),),
            checks=_checks(results, watch, alarms, full),
        )


_LEAD = (
    "The learner assumes that demand is independent from step to step with one law, and that the "
    "best policy lies inside the range. Here one of these assumptions fails. The learner sees only "
    "records, and reports what it detects (`learner.warnings`, part of `learner.outlook`).",
    "Both shops are the paper's small ones with exponential demand. In persistent demand the law "
    f"of each step is the same, and the normal scores have a correlation of {CORRELATION:g} from "
    f"step to step. In seasons of {1 / (1 - STAY):.0f} steps on average, demand is {SEASON:g} "
    "times as high as in the others. A change is in the middle of the run. Nets have a radius "
    f"of {RADIUS:g}; each run is looked at {LOOKS} times, and a warning counts from the first look "
    "at which it appears, even if it is withdrawn later.",
)


def _shares(runs: int, most: int) -> list[tuple[int, int]]:
    """First seeds and numbers of runs."""
    return [(first, min(most, runs - first)) for first in range(0, runs, most)]


def _checks(results: list[Result], largest: Array, alarms: int, full: bool) -> tuple[Check, ...]:
    level = LEVELS[full]
    checks = [_power(results, kind, level) for kind in NOTICES]
    checks += _false_alarms(results, largest, alarms, level)
    if full:  # after a warning, quick runs are too short for starting again to pay off
        checks += [_anew(each, level) for each in results if each.case.fails == "change"]
    return tuple(checks)


def _power(results: list[Result], kind: str, level: float) -> Check:
    """Check that failures of one kind are reported often enough."""
    share, words = NOTICES[kind]
    cases = [each for each in results if each.case.fails == kind and each.case.demand != "seasons"]
    runs = sum(len(each.runs) for each in cases)
    said = sum(len(each.steps_until(kind)) for each in cases)
    # Under the promise, fewer reports than this have a probability below the level.
    fewest = int(stats.binom.ppf(level, runs, share))
    return Check(
        claim=f"In at least {share:.0%} of the runs the learner reports {words}.",
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
            f"Under independent demand with one law, there is a report in at most "
            f"{FALSE_ALARM:.1%} of the runs.",
            alarms + wrong, total, FALSE_ALARM, level,
        ),
        _at_most(
            f"If no assumption fails, the evidence ever reaches {EVIDENCE:g} in at most "
            f"{1 / EVIDENCE:.0%} of the runs.",
            int((largest >= np.log(EVIDENCE)).sum()), largest.size, 1 / EVIDENCE, level,
        ),
        _at_most(
            f"If the best policy is inside the range, the edge is reported in at most "
            f"{DELTA:.0%} of the runs.",
            sum(len(each.steps_until("edge")) for each in inside),
            sum(len(each.runs) for each in inside), DELTA, level,
        ),
    ]  # fmt: skip


def _at_most(claim: str, count: int, runs: int, share: float, level: float) -> Check:
    return seldom(claim, np.arange(runs) < count, share, level)


def _anew(result: Result, level: float) -> Check:
    """Check that starting again after a warning is no worse, by a paired t-test."""
    case = result.case
    claim = (
        f"When demand {case.demand} ({case.shop}), starting again after the warning costs no more "
        "than continuing."
    )
    going_on, anew = result.since_notice.T / result.costs[-1]
    saved = going_on - anew
    if saved.size < 2:
        return Check(claim, "fewer than two changes were reported", False, level)
    worst = -float(stats.t.isf(level, saved.size - 1) * stats.sem(saved))
    return Check(
        claim,
        f"{saved.mean():.1%} of the best policy's cost saved; below {worst:.1%} would fail",
        bool(saved.mean() >= worst),
        level,
    )
