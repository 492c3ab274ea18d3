"""The hard instances of the paper's two lower bounds.

Labels ``theorem:lower_bound`` and ``thm:lower_bound_censored``. A policy is an arm, chosen in the
initial state; it can't be changed until the system returns there. An episode has 1/α Bernoulli
draws with the arm's mean, each of which is the cost of each of H steps. Only the first draw is
observed. The average cost of an arm is its mean: 1/2, or 1/2 - Δ for the hidden best one.

Width 1 is full feedback: the first draws of all arms are observed, and are independent. For a width
w > 1 the arms are divided into w blocks of equal size; arms of a block share mean and draws and
inform each other, but no other block. The best block is hidden.

A policy that takes over in the middle of an episode has to wait for its end. An episode counts as
H steps of data of its own arm, once the steps of its first draw are over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.random import PCG64, Generator
from pydantic import Field, model_validator

from iopea.errors import InputError, ModelMismatchError
from iopea.information_order import InformationOrder
from iopea.model import Count, Model, Positive, check_count
from iopea.policies import Box
from iopea.problems.base import (
    Constants,
    Evaluator,
    PolicyFamily,
    Problem,
    Simulator,
    System,
    as_policies,
)
from iopea.problems.batches import GroupedBatches
from iopea.seeds import seed_for
from iopea.state import Noise, Part, array, indices, parts
from iopea.types import (
    Array,
    Claim,
    Estimates,
    Indices,
    Mask,
    Policy,
    Precision,
    Rollout,
    Trajectory,
)

#: Largest advantage of the best arm, however few the episodes.
MOST_ADVANTAGE = 0.25
#: With fewer draws there is no estimate: all may be equal, with a standard error of 0.
LEAST_DRAWS = 8


class HiddenArm(Model):
    """The truth of a hard instance: which arm is best, and by how much.

    Parameters
    ----------
    arm : int. The best arm, or any of the best block.
    advantage : float. 1/2 minus its cost [Δ]; at most 1/2.
    """

    arm: Count = 0
    advantage: Annotated[Positive, Field(le=0.5)]

    def table(self) -> dict[str, object]:
        """The ``[hidden]`` table of a problem file."""
        return self.model_dump()


class HardSystem(System):
    """A bandit whose draws last for many steps, and of which a part is seen.

    Parameters
    ----------
    policies : int. Number of arms, at least 2 [|Θ|].
    width : int. Number of blocks that don't inform each other, or 1 for full feedback [w].
    span : int. Steps for which a draw lasts [H].
    reveal : int. Draws of an episode, one of which is observed [1/α].
    """

    kind: ClassVar[str] = "hard-instance"
    tables: ClassVar[tuple[str, ...]] = ("hidden",)
    truth_type: ClassVar[type[Any]] = HiddenArm

    policies: Annotated[Count, Field(ge=2)]
    width: Annotated[Count, Field(ge=1)] = 1
    span: Annotated[Count, Field(ge=1)] = 1
    reveal: Annotated[Count, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _whole_blocks(self) -> Self:
        if self.policies % self.width:
            raise ValueError(
                f"The width must divide the number of policies into blocks of equal size, but "
                f"{self.width} does not divide {self.policies}."
            )
        return self

    @classmethod
    def read_truth(cls, content: Mapping[str, dict[str, Any]], directory: Path | None) -> HiddenArm:
        """The hidden arm."""
        return HiddenArm(**content["hidden"])

    @property
    def full_feedback(self) -> bool:
        """Whether every arm informs every other."""
        return self.width == 1

    @property
    def episode(self) -> int:
        """Steps from the initial state until it is reached again [H/α]."""
        return self.span * self.reveal

    def block(self, arms: Array) -> Indices:
        """The block of each arm; under full feedback, each arm is its own block."""
        blocks = self.policies if self.full_feedback else self.width
        return np.rint(arms).astype(np.intp) // (self.policies // blocks)

    @property
    def columns(self) -> tuple[str, ...]:
        """Step within the episode, and the cost of the arm, or of every arm; 0 if not observed."""
        if not self.full_feedback:
            return ("phase", "cost")
        return ("phase", *(f"cost_{arm}" for arm in range(self.policies)))

    def simulator(self, problem: Problem, truth: HiddenArm, seed: int = 0) -> HardSimulator:
        """The true system with that arm as the best one."""
        return HardSimulator(problem, truth, seed)

    def check(self, trajectory: Trajectory) -> None:
        """Refuse phases that are not consecutive, and impossible costs."""
        phase = trajectory["phase"]
        expected = (np.floor(phase[:1]) + np.arange(phase.size)) % self.episode
        wrong = np.flatnonzero(phase != expected)
        if wrong.size:
            raise ModelMismatchError(
                f"phase is {phase[wrong[0]]:g} at step {wrong[0]}, not {expected[wrong[0]]:g}: an "
                f"episode has the phases 0 to {self.episode - 1}, one after the other."
            )
        for name in self.columns[1:]:
            cost = trajectory[name]
            wrong = np.flatnonzero((cost != 0) & ((cost != 1) | (phase >= self.span)))
            if wrong.size:
                raise ModelMismatchError(
                    f"{name} is {cost[wrong[0]]} at step {wrong[0]}: it must be 0 or 1, and 0 from "
                    f"phase {self.span} on, where it is not observed."
                )

    def episodes(self, horizon: int) -> int:
        """Full episodes in a run [T' = αT/H]."""
        return check_count("horizon", horizon, least=self.episode) // self.episode

    def hardest(self, horizon: int, arm: int = 0) -> HiddenArm:
        """The hidden arm whose advantage makes the lower bound large for a horizon.

        Δ = sqrt(log |Θ| / (16 T')) under full feedback, as in the paper's proof, and
        sqrt(w/T') / 4 otherwise; at most 1/4.

        >>> HardSystem(policies=8, width=4, span=5).hardest(8_000).advantage
        0.0125
        """
        episodes = self.episodes(horizon)
        squared = math.log(self.policies) if self.full_feedback else self.width
        return HiddenArm(arm=arm, advantage=min(math.sqrt(squared / episodes) / 4, MOST_ADVANTAGE))

    def lower_bound(self, horizon: int) -> float:
        """Least expected regret of any learner, for a uniformly random hidden arm.

        With Δ of :meth:`hardest` and T' episodes, each of which costs Δ H/α if the arm is wrong:

        - under full feedback (H/α) (ΔT'/2) (1 - (4Δ²T' + log 2)/log |Θ|), by Fano's inequality.
          The mutual information is at most T' times the divergence of a mean of 1/2 - Δ from 1/2,
          and that is at most 4Δ². (The paper's sum of two divergences is a little more than 4Δ².)
        - otherwise (H/α) ΔT' (1 - 1/w - sqrt(-(T'/w) log(1 - 4Δ²))/2), by Pinsker's and Jensen's
          inequalities, as in the appendix of Auer, Cesa-Bianchi, Freund and Schapire (2002), "The
          nonstochastic multiarmed bandit problem". For T' >= w it is at least (H/α) sqrt(wT')/20.

        It is 0 where these are negative, as for fewer than three arms under full feedback.
        """
        episodes, advantage = self.episodes(horizon), self.hardest(horizon).advantage
        if self.full_feedback:
            known = (4 * advantage**2 * episodes + math.log(2)) / math.log(self.policies)
            wrong = (1 - known) / 2
        else:
            distance = math.sqrt(-episodes / self.width * math.log1p(-4 * advantage**2))
            wrong = 1 - 1 / self.width - distance / 2
        return self.episode * advantage * episodes * max(wrong, 0.0)


class Arms(PolicyFamily):
    """The arms, by their numbers."""

    kind: ClassVar[str] = "arms"
    made_for: ClassVar[type[Any]] = HardSystem
    parameters: ClassVar[tuple[str, ...]] = ("arm",)

    def policy_class(self, system: HardSystem) -> Box:
        """The arms."""
        return Box(0, system.policies - 1, step=1, labels=("arm",))

    @staticmethod
    def order(state: Any, parameters: Any, signal: Any) -> Any:
        """The arm."""
        return parameters[0]

    def claim(self, system: HardSystem) -> Claim:
        """Exact on every sample path where all draws are observed; else with a share α of steps."""
        return "sample-path" if system.reveal == 1 else "distributional"

    def constants(self, system: HardSystem) -> Constants:
        """A span of H/α, costs in [0, 1], and L_Θ = 0 for a finite class."""
        return Constants(
            span=float(system.episode),
            lipschitz=0.0,
            bound=float(system.policies - 1),
            dimension=1,
            cost_low=0.0,
            cost_high=1.0,
            alpha=1 / system.reveal,
            sensitivity=1.0,
        )

    def restart(self, system: HardSystem) -> Policy:
        """Any arm, since episodes end by themselves."""
        return (0.0,)

    def order_on(self, system: HardSystem, policies: Array) -> InformationOrder:
        """All arms inform each other, or only those of a block."""
        arms = policies[:, 0]
        if system.full_feedback:
            return InformationOrder.full_feedback(arms.size)
        # With the key (b, -b), one arm dominates another only if their blocks are equal.
        return InformationOrder.from_key(np.outer(system.block(arms), [1, -1]))

    def evaluator(
        self, problem: Problem, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> EpisodeCounter:
        """Averages of observed draws; they need neither threads nor single precision."""
        return EpisodeCounter(problem.system, policies[:, 0])


class HardInstance(Problem):
    """A hard instance of the lower bounds: the bandit, and its arms.

    Examples
    --------
    >>> instance = HardInstance(policies=6, width=3, span=5, reveal=2)
    >>> instance.order(instance.policy_class.net(1.0)).width(), instance.constants.alpha
    (3, 0.5)
    """

    system_type = HardSystem
    families = (Arms,)

    @classmethod
    def read(
        cls, content: Mapping[str, dict[str, Any]], directory: Path | None = None
    ) -> tuple[Self, HiddenArm]:
        """Problem and hidden arm; with a ``horizon`` instead of an advantage, the hardest one."""
        instance, hidden = cls(**content["problem"]), dict(content["hidden"])
        if "horizon" in hidden and "advantage" not in hidden:
            hidden["advantage"] = instance.system.hardest(hidden.pop("horizon")).advantage
        return instance, HiddenArm(**hidden)

    @classmethod
    def example(cls) -> tuple[Self, HiddenArm]:
        """Three blocks of two arms; half of the draws are observed."""
        return cls(policies=6, width=3, span=3, reveal=2), HiddenArm(arm=4, advantage=0.3)


class EpisodeCounter(Evaluator):
    """Average costs of arms over the first draws of episodes."""

    saved = parts(phase=int, arm=int, left_out=bool, arms=indices, batches=Part)

    def __init__(self, instance: HardSystem, arms: Array) -> None:
        self._instance = instance
        self._arms = np.rint(arms).astype(np.intp)
        # Under full feedback all arms are one group.
        groups = instance.block(arms) * (not instance.full_feedback)
        self._batches = GroupedBatches(groups, instance.width, first=1)
        self._phase = 0  # of the next step
        self._arm = -1  # of the episode in progress; unknown at first
        self._left_out = False  # whether the draw in progress is left out

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed steps; those of another arm's episode don't count as data."""
        if not len(trajectory):
            return 0
        phase, arm = trajectory["phase"], round(trajectory.policy[0])
        first = int(np.append(np.flatnonzero(phase == 0), phase.size)[0])
        counted = phase.size - (0 if arm == self._arm else first)
        ended = np.flatnonzero(phase == self._instance.span - 1)
        if self._left_out and ended.size:
            ended, self._left_out = ended[1:], False
        if evaluate:
            self._count(self._arm, trajectory, ended[ended < first])
            self._count(arm, trajectory, ended[ended >= first])
        if first < phase.size:
            self._arm = arm
        self._phase = int(phase[-1] + 1) % self._instance.episode
        self._left_out |= not evaluate and self._drawing
        return counted if evaluate else 0

    @property
    def _drawing(self) -> bool:
        """Whether the first draw of an episode is in progress."""
        return 0 < self._phase < self._instance.span

    def _count(self, arm: int, trajectory: Trajectory, steps: Indices) -> None:
        """Count the episodes of an arm whose first draw ends at these steps."""
        if self._instance.full_feedback:
            columns = [trajectory[f"cost_{each}"][steps] for each in self._arms]
            self._batches.add(0, np.array(columns).T)
        elif arm >= 0:
            block = int(self._instance.block(np.array(arm)))
            self._batches.add(block, trajectory["cost"][steps, None])

    @property
    def at_start(self) -> bool:
        """Whether an episode has just ended."""
        return self._phase == 0

    def estimates(self) -> Estimates:
        """Costs by batches of episodes, each of which counts as H steps."""
        estimates = self._batches.estimates(self._instance.span)
        enough = estimates.steps >= LEAST_DRAWS * self._instance.span
        if enough.all():
            return estimates
        sizes = np.broadcast_to(estimates.sizes.T, estimates.sums.T.shape).T
        return Estimates(estimates.sums * enough, sizes * enough)

    def forget(self) -> None:
        """Drop all sums, and count again from the next draw."""
        self._batches.clear()
        self._left_out = self._drawing

    def keep(self, mask: Mask) -> None:
        """Keep only these arms."""
        self._arms = self._arms[mask]
        self._batches.keep(mask)


class HardSimulator(Simulator):
    """The true system, with the best arm and the unobserved draws."""

    saved = parts(phase=int, shown=array, costs=array, rng=Noise)
    truth: HiddenArm

    def __init__(self, problem: Problem, hidden: HiddenArm, seed: int = 0) -> None:
        instance = problem.system
        if hidden.arm >= instance.policies:
            raise InputError(
                f"The hidden arm is {hidden.arm}, but arms are 0 to {instance.policies - 1}."
            )
        super().__init__(problem, hidden, seed)
        blocks = instance.block(np.arange(float(instance.policies)))
        self._means = 0.5 - hidden.advantage * (blocks == blocks[hidden.arm])
        self._rng = Generator(PCG64(seed_for("episodes", seed)))
        self._phase = 0
        # For the episode in progress: the observed draws, and the draws that are the costs.
        self._shown = np.zeros(len(instance.columns) - 1)
        self._costs = np.zeros(instance.reveal)

    def _play(self, policy: Policy, steps: int, until_start: bool = False) -> Rollout:
        """Play an arm after the episode in progress; with ``until_start``, stop when that ends."""
        instance = self.problem.system
        if until_start:
            steps = min(steps, -self._phase % instance.episode)
        position = self._phase + np.arange(steps)
        phase, number = position % instance.episode, position // instance.episode
        shown, costs = self._draw(round(policy[0]), int(np.count_nonzero(phase == 0)))
        number += self._phase == 0  # the first row is the episode in progress
        seen = np.where(phase < instance.span, shown[number].T, 0.0)
        columns = dict(zip(instance.columns, (phase, *seen), strict=True))
        self._phase = (self._phase + steps) % instance.episode
        self._shown, self._costs = shown[-1], costs[-1]
        return Rollout(Trajectory(policy, **columns), costs[number, phase // instance.span])

    def _draw(self, arm: int, episodes: int) -> tuple[Array, Array]:
        """Observed draws and costs, of the episode in progress and of new ones."""
        instance, wide = self.problem.system, self._shown.size
        draws = self._rng.random((episodes, wide + instance.reveal - 1))
        means = self._means if instance.full_feedback else self._means[[arm]]
        shown = (draws[:, :wide] < means).astype(np.float64)
        first = shown[:, [arm if instance.full_feedback else 0]]
        costs = np.hstack([first, draws[:, wide:] < self._means[arm]])
        return np.vstack([self._shown, shown]), np.vstack([self._costs, costs])

    def optimum(self) -> tuple[Policy, float]:
        """The hidden arm."""
        return (float(self.truth.arm),), 0.5 - self.truth.advantage

    def costs(self, policies: Array, steps: int, batches: int, seed: int) -> Estimates:
        """Batch sums of the average cost, which is the mean of the arm."""
        size = float(-(-steps // batches))
        means = self._means[np.rint(as_policies(policies)[:, 0]).astype(np.intp)]
        return Estimates(np.tile(size * means, (batches, 1)), np.full(batches, size))

    def restart_time(self, seed: int = 0) -> float:
        """The longest remainder of an episode."""
        return float(self.problem.system.episode - 1)
