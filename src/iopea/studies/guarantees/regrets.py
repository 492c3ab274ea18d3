"""Systems on which regret is measured, and how: by runs under the same noise, or by arms played.

On the instances of the lower bound, an advantage is a multiple of the least one that can be
detected in the given time. At small multiples nobody finds the best arm and little is lost, at
large ones it is found at once: the worst regret lies between, and that is what the theorem bounds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from iopea.comparison.tasks import system_text
from iopea.demand import Exponential
from iopea.learners.iopea import IOPEA
from iopea.problem_files import problem_from
from iopea.seeds import seed_for
from iopea.simulate import evaluate, regret_at, run
from iopea.studies.guarantees.checks import at_most
from iopea.studies.guarantees.study import Check, Part, Values
from iopea.studies.reproduction.scenarios import scenarios
from iopea.systems.finite import FiniteMDP
from iopea.systems.hard_instance import HardInstance, HardSimulator, HiddenArm
from iopea.systems.newsvendor import Newsvendor
from iopea.types import Array, Policy, Rollout

#: The theorem's bound holds with probability 1 - 3δ.
DELTA = 0.05
MISSED = 3 * DELTA
#: Points per parameter, and steps, of the search for the worst policy.
_COARSE, _COARSE_STEPS = 17, 100_000


@dataclass(frozen=True)
class Case:
    """A system on which regret is measured.

    Attributes
    ----------
    name : str. Fit for a file.
    title : str. For people.
    system : str. Problem and truth as text.
    quadratic : bool. Whether the cost is smooth around its least value, in a continuous class.
    """

    name: str
    title: str
    system: str
    quadratic: bool = False


@cache
def cases() -> dict[str, Case]:
    """All systems by name."""
    paper = scenarios("as-stated")
    stand = Newsvendor(overage_cost=1, underage_cost=4, levels={"low": 0, "high": 10})
    _, machine = FiniteMDP.example()
    # The first policy, which repairs, is the one that leads back to the initial state.
    policies = list(product((1, 0), repeat=3))
    repair = FiniteMDP(states=3, actions=2, policies=policies)
    found = (
        Case("lost-sales", "lost sales", paper["inventory-small-exponential"].system(), True),
        Case("dual-sourcing", "dual sourcing", paper["dual-small-exponential"].system(), True),
        Case("newsvendor", "newsvendor", system_text(stand, Exponential(mean=2)), True),
        Case("queue", "queue", paper["queue-decaying"].system()),
        Case("machine", "machine repair", system_text(repair, machine)),
    )
    return {case.name: case for case in found}


def regret_of_learner(
    system: str, seed: int, looks: Sequence[int], settings: dict[str, Any]
) -> list[float]:
    """Regret of the learner against the best policy under the same noise, at several steps.

    The theorems are about play ``maximal``.
    """
    problem, truth = problem_from(json.loads(system))
    learner = IOPEA(problem, play="maximal", seed=seed, **settings)
    return regret_at(learner, problem.simulator(truth, seed), looks)


class ArmsPlayed(HardSimulator):
    """A hard instance that adds up the extra mean costs of the arms that were played."""

    def __init__(self, instance: HardInstance, hidden: HiddenArm, seed: int = 0) -> None:
        super().__init__(instance, hidden, seed)
        self.excess = 0.0
        self._running = 0

    def _play(self, policy: Policy, steps: int, until_start: bool = False) -> Rollout:
        """Play an arm, after the rest of the episode in progress."""
        rollout = super()._play(policy, steps, until_start)
        phase = rollout.trajectory["phase"]
        first = int(np.append(np.flatnonzero(phase == 0), phase.size)[0])
        self._add(first)
        if first < phase.size:
            self._running = round(policy[0])
            self._add(phase.size - first)
        return rollout

    def _add(self, steps: int) -> None:
        """Count steps of an episode of the present arm."""
        self.excess += steps * float(self._means[self._running] - self._means.min())


def hidden_arm(instance: HardInstance, advantage: float, seed: int) -> HiddenArm:
    """The best arm of a run, drawn at random."""
    rng = np.random.Generator(np.random.PCG64(seed_for("hidden arm", seed)))
    return HiddenArm(arm=int(rng.integers(instance.system.policies)), advantage=advantage)


def regret_of_arms(
    instance: HardInstance,
    advantage: float,
    seed: int,
    looks: Sequence[int],
    settings: dict[str, Any],
) -> list[float]:
    """Extra mean cost of the arms that were played, at several steps.

    It has the same mean as the regret, without the noise of the costs.
    """
    hidden = hidden_arm(instance, advantage, seed)
    simulator = ArmsPlayed(instance, hidden, seed)
    learner = IOPEA(instance, seed=seed, **settings)
    done, found = 0, []
    for look in looks:
        run(learner, simulator, look - done)
        done = look
        found.append(simulator.excess)
    return found


def largest_loss(system: str) -> float:
    """Extra cost per step of the worst policy of a coarse net over the best one."""
    problem, truth = problem_from(json.loads(system))
    policies = problem.policy_class
    finite = problem.constants.lipschitz == 0
    net = policies.net(1.0) if finite else policies.thinned(_COARSE, policies.extent / _COARSE)
    costs = evaluate(problem.simulator(truth), net, _COARSE_STEPS).cost
    return float(costs.max() - costs.min())


#: The largest advantage; at 1/2 the best arm would have no noise.
_MOST = 0.45


@dataclass(frozen=True)
class ArmsPart(Part):
    """Runs on one instance with one advantage.

    Attributes
    ----------
    policies, width, span, reveal : int. Of the instance.
    advantage : float. Of the hidden arm [Δ].
    looks : tuple of int. Steps after which regret is read; the last ends the run.
    rule : str. Of elimination.
    """

    policies: int
    width: int
    span: int
    reveal: int
    advantage: float
    looks: tuple[int, ...]
    rule: str = "paired"

    @property
    def instance(self) -> HardInstance:
        """The instance that is played."""
        return HardInstance(
            policies=self.policies, width=self.width, span=self.span, reveal=self.reveal
        )

    def measure(self) -> Values:
        """Regret of each run at each look, the hidden arm being drawn at random."""
        settings = {"rule": self.rule}
        if self.rule == "theorem":
            settings |= {"horizon": self.looks[-1]}  # type: ignore[dict-item]
        return {
            "regret": [
                regret_of_arms(self.instance, self.advantage, seed, self.looks, settings)
                for seed in self.seeds
            ]
        }


def advantage_at(instance: HardInstance, horizon: int, multiple: float) -> float:
    """Δ = c sqrt(w/T'), under full feedback c sqrt(log |Θ|/T'), with T' episodes; at most 0.45.

    >>> advantage_at(HardInstance(policies=8, width=4), 10_000, 2.0)
    0.04
    """
    squared = (
        math.log(instance.system.policies)
        if instance.system.full_feedback
        else instance.system.width
    )
    return min(multiple * math.sqrt(squared / instance.system.episodes(horizon)), _MOST)


def final_regrets(parts: Sequence[ArmsPart], values: Mapping[str, Values]) -> Array:
    """Regret at the end of each run, an array (runs, parts)."""
    return np.array([[run[-1] for run in values[part.key]["regret"]] for part in parts]).T


def has_learned(what: str, part: ArmsPart, regrets: Array, alarm: float) -> Check:
    """Check that regret is at most half of that of blocks drawn at random.

    A rule that eliminates nothing plays all blocks equally often, and fails.
    """
    blind = part.advantage * part.looks[-1] * (1 - 1 / part.width)
    claim = f"{what}: regret is at most half of that of learning nothing"
    return at_most(claim, regrets, np.full_like(regrets, blind), 0.5, alarm)
