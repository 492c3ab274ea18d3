"""Runs of the learner on systems that break an assumption, and what it said of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from iopea.demand import Demand, Exponential
from iopea.learners.diagnostics import AT_EDGE, CHANGED, DEPENDS, DemandWatch
from iopea.learners.iopea import IOPEA
from iopea.problems.base import Problem, Simulator
from iopea.simulate import evaluate, run
from iopea.studies.guarantees.study import Part, Values
from iopea.studies.guarantees.truths import Changing, Persistent, Seasons
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.lost_sales import LostSales
from iopea.types import Array, Policy

#: Radius of the nets: so coarse that the best policy of one is known.
RADIUS = 0.1
#: How often a run is looked at.
LOOKS = 40
#: Warnings by what they are about.
WARNINGS = {"edge": AT_EDGE, "change": CHANGED, "dependence": DEPENDS}
#: Correlation of the normal scores of persistent demand.
CORRELATION = 0.6
#: High seasons have this many times the demand of low ones, and a season lasts 1/(1 - stay) steps.
SEASON, STAY = 4.0, 0.98
#: What demand is multiplied by when it changes.
FACTORS = {"halves": 0.5, "doubles": 2.0}
_LAW: dict[str, Any] = {"mean": 1.0, "maximum": 3.0, "zero_probability": 0.3}
_COSTS: dict[str, Any] = {"holding_cost": 1, "lost_sales_cost": 10}


def problem_of(shop: str, low: float, high: float) -> Problem:
    """A small shop of the paper, with levels (with two suppliers, regular ones) in a range."""
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
    """The true demand of a run of so many steps; a change is in the middle."""
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
    evaluation : int. Steps on which policies are compared.
    """

    study = "robustness"

    shop: str
    demand: str
    low: float
    high: float
    steps: int
    evaluation: int

    def measure(self) -> Values:
        """The best policy of the range, and a dictionary for each run."""
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
        """The laws that hold one after the other."""
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
        """Cost per step from the notice on: of going on, and of learning anew."""
        if fork is None or noticed is None or noticed >= self.steps:
            return None
        anew = run(IOPEA(problem, radius=RADIUS), fork, self.steps - noticed)
        return [float(paid[noticed:].mean()), anew.average_cost]


@dataclass(frozen=True)
class WatchRuns(Part):
    """Runs of what watches demand, under levels drawn at random and steady demand.

    Attributes
    ----------
    steps : int. Of each run.
    looks : int. How often the evidence is looked at.
    """

    study = "robustness"

    steps: int
    looks: int

    def measure(self) -> Values:
        """The largest logarithm of the evidence in each run, and how many runs said something."""
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
    """True costs of the policies of a net, and which of them is best."""

    net: Array
    costs: Array
    place: int

    @property
    def best(self) -> Policy:
        return tuple(map(float, self.net[self.place]))

    def gap(self, policy: Any) -> float:
        """How much dearer than the best policy, as a share."""
        chosen = int(np.abs(self.net - np.array(policy)).max(axis=1).argmin())
        return float(self.costs[chosen] / self.costs[self.place] - 1)


def _kinds(warnings: tuple[str, ...]) -> list[str]:
    return [
        kind for kind, start in WARNINGS.items() if any(text.startswith(start) for text in warnings)
    ]
