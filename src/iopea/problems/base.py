"""What the learner needs to know of a problem, and what a problem must offer.

A :class:`Problem` is what a manager knows: the policy class, the information
order, how to evaluate one policy on another's data, and the constants of the
regret theorem. A :class:`Simulator` is the truth and never reaches a learner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from iopea.errors import InputError
from iopea.information_order import InformationOrder
from iopea.model import check_count
from iopea.policies import PolicyClass
from iopea.problems.control import Control
from iopea.problems.tabular import Tabular
from iopea.systems.dual_sourcing.base_surge import SurgeSetting
from iopea.types import (
    Array,
    Claim,
    Controller,
    Estimates,
    Mask,
    Play,
    Policy,
    Precision,
    Rollout,
    State,
    Trajectory,
)


@dataclass(frozen=True)
class Constants:
    """The constants of the regret theorem (label ``thm:regret_bound``), in cost units.

    Attributes
    ----------
    span : float. Bound on the span of the bias [H].
    lipschitz : float. Change of the average cost per unit of policy [L_Θ].
    bound : float. Largest policy parameter [U].
    dimension : int. Parameters of a policy [d].
    cost_low, cost_high : float. Range of the cost of one step.
    alpha : float. Share of the steps that are of use to a counterfactual estimate [α].
    settling : int. Steps until a decision shows in the cost: the lead time.
    sensitivity : float. Change of the cost of one step per unit of policy; L_Θ if not given.
    unseen : float. The most that an event which stayed unseen may change the cost of a policy
        by, times its probability; the range of costs if not given.
    published_alpha, published_factor : float. What the published experiments put for α (α if
        not given), and what they multiplied β_k by.

    The expected time back to the initial state [D_Θ] depends on the truth: it is a method of
    the simulator, :meth:`Simulator.restart_time`.
    """

    span: float
    lipschitz: float
    bound: float
    dimension: int
    cost_low: float
    cost_high: float
    alpha: float = 1.0
    settling: int = 0
    sensitivity: float | None = None
    unseen: float | None = None
    published_alpha: float | None = None
    published_factor: float = 1.0

    @property
    def memory(self) -> float:
        """Steps that the system is known to remember: as many as a decision needs to show."""
        return float(max(self.settling, 1))

    @property
    def cost_range(self) -> float:
        """Width of the range of the cost of one step."""
        return self.cost_high - self.cost_low

    @property
    def scaled_span(self) -> float:
        """The span H once costs are scaled to [0, 1]."""
        return self.span / self.cost_range

    def data_needed(self, delta: float) -> int:
        """Steps from which on the order holds up to δ [T_h(δ)]; 1 for sample-path orders."""
        return 1


@dataclass(frozen=True)
class BaseStock:
    """A shop whose policies are base-stock levels and whose costs are linear.

    Attributes
    ----------
    lead_time : int. Periods between order and arrival [L].
    holding_cost, lost_sales_cost : float. Per unit left over, and of demand not met [h, p].
    perishes : bool. Whether what is left over is lost at the end of the period.
    """

    lead_time: int
    holding_cost: float
    lost_sales_cost: float
    perishes: bool = False


class Evaluator(ABC):
    """Follows the real system and evaluates all candidates along its trajectory.

    It is given what was observed, never the truth. One evaluator lives as long
    as a run; eliminated policies are dropped from it with :meth:`keep`.
    """

    #: Whether policies that the played one does not inform are estimated nevertheless.
    sees_beyond: ClassVar[bool] = False

    @abstractmethod
    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Take in observed steps; return how many of them counted as data."""

    @property
    @abstractmethod
    def at_start(self) -> bool:
        """Whether the real system is in its initial state s_1."""

    @property
    def departures(self) -> int:
        """Steps inconsistent with the policy that was played, where that can happen."""
        return 0

    @property
    def contradiction(self) -> str | None:
        """Why nothing may be eliminated on these records, in a sentence; None if they fit."""
        return None

    @property
    def demand_records(self) -> tuple[Array, Array] | None:
        """Sales and stock of all steps, where the evaluator keeps them and reads them anew."""
        return None

    @property
    def note(self) -> str | None:
        """How records are read, where that is not as the problem says; None otherwise."""
        return None

    @abstractmethod
    def estimates(self) -> Estimates:
        """Batch sums of every remaining policy, the batch in progress included."""

    def means_of(self, policies: Array) -> Array | None:
        """Estimated costs of any policies, an array (n, d); None where candidates alone are known.

        NaN of those of which the data says nothing.
        """
        return None

    @abstractmethod
    def forget(self) -> None:
        """Drop the sums, not the states: a new epoch of a rule that doesn't pool."""

    @abstractmethod
    def keep(self, mask: Mask) -> None:
        """Keep only these of the remaining policies."""

    @abstractmethod
    def state_dict(self) -> State:
        """Everything needed to go on, as JSON values and arrays."""

    @abstractmethod
    def load_state_dict(self, state: State) -> None:
        """Go on from a saved state."""


class PlugInEvaluator(Evaluator):
    """Estimates a few unknown numbers, from which the cost of any policy follows.

    The surviving policies need no list: any of them can be asked about, and the best
    one is found directly.
    """

    @abstractmethod
    def optimum(self) -> Policy | None:
        """The policy that is best by estimate; None while nothing is known."""

    @abstractmethod
    def estimates_of(self, policies: Array) -> Estimates:
        """Linearised batch sums of any policies, an array (n, d), with their ``rank``."""


class Problem(ABC):
    """What is known before the first step: no demand law, no arrival rate."""

    kind: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    #: Columns that a trajectory may have as well.
    optional_columns: ClassVar[tuple[str, ...]] = ()
    #: Tables of a problem file, beside ``[problem]``, that hold the truth.
    tables: ClassVar[tuple[str, ...]] = ("demand",)
    #: Whether the evaluator is a :class:`PlugInEvaluator`.
    plug_in: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def read(
        cls, content: Mapping[str, dict[str, Any]], directory: Path | None = None
    ) -> tuple[Self, Any]:
        """Problem and truth from the tables of a problem file, ``kind`` taken out.

        Data files are looked for in ``directory``.
        """

    @classmethod
    @abstractmethod
    def example(cls) -> tuple[Self, Any]:
        """A small problem and its truth, on which the contract of all problems is tested."""

    @property
    @abstractmethod
    def claim(self) -> Claim:
        """How the order is claimed: exactly on every path, or in distribution."""

    @property
    @abstractmethod
    def policy_class(self) -> PolicyClass:
        """All policies that may be played."""

    def can_widen(self, axis: int) -> tuple[bool, bool]:
        """Whether the range of a parameter could be given a lower end, and a higher one."""
        return False, False

    def demand_seen(self, trajectory: Trajectory) -> tuple[Array, Array] | None:
        """Of each step the sales and the stock, which they can't exceed; None if nothing is sold.

        What is sold is demand, or the stock where demand was larger, and demand is taken to be
        independent from step to step, with one law.
        """
        return None

    @property
    @abstractmethod
    def constants(self) -> Constants:
        """The constants of the regret theorem."""

    @property
    @abstractmethod
    def restart_policy(self) -> Policy:
        """A policy that brings the system back to its initial state [θ_R]."""

    @abstractmethod
    def order(self, policies: Array) -> InformationOrder:
        """The information order on these policies, an array (n, d)."""

    def preference(self, policies: Array) -> Array | None:
        """Which of policies that inform each other to play while some survivor is unknown.

        Or while one survives only because few steps told of it. The lowest value is preferred.
        None: the best by estimate, as far as there is one.
        """
        return None

    @abstractmethod
    def evaluator(
        self, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """An evaluator of these policies, an array (n, d), from the initial state on."""

    @property
    def control(self) -> Control | None:
        """States and actions, for those who act step by step; None if there are none to offer."""
        return None

    @property
    def base_stock(self) -> BaseStock | None:
        """What a planner knows, where policies are base-stock levels and costs linear."""
        return None

    @property
    def base_surge(self) -> SurgeSetting | None:
        """What is known of two sources of supply, where there are two and costs are linear."""
        return None

    def tabular(self, radius: float | None = None) -> Tabular | None:
        """States and actions as a table, for those who count; None if there is none to offer.

        Where they are not whole, they are put on a grid of that radius, or of the problem's own.
        """
        return None

    def path_evaluator(self, policies: Array) -> Evaluator:
        """The evaluator by which a claim of a sample-path order is tested."""
        return self.evaluator(policies)

    @abstractmethod
    def simulator(self, truth: Any, seed: int = 0) -> Simulator:
        """The true system: this problem under that truth."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """The problem as JSON values: the ``[problem]`` table of a problem file."""

    def check(self, trajectory: Trajectory) -> None:
        """Refuse a trajectory that can't have been observed."""
        control = self.control if isinstance(trajectory.played, Controller) else None
        expected = self.columns if control is None else control.columns
        possible = self.optional_columns if control is None else ()
        given = set(trajectory.columns)
        if not set(expected) <= given <= {*expected, *possible}:
            more = f" and may have {', '.join(possible)}" if possible else ""
            raise InputError(
                f"A trajectory of a {self.kind} problem has the columns "
                f"{', '.join(expected)}{more}, not {', '.join(trajectory.columns) or 'none'}."
            )
        if control is not None:
            control.check_records(trajectory.columns)


class Simulator(ABC):
    """The truth: plays policies and knows what they cost.

    A subclass writes how policies are played and what is saved. Where the problem has a
    ``control``, it is a :class:`~iopea.problems.stepped.SteppedSimulator`.
    """

    problem: Problem

    def __init__(self, problem: Problem, truth: Any, seed: int = 0) -> None:
        self.problem = problem
        self.truth = truth
        self.seed = check_count("seed", seed, least=0)

    def optimum(self) -> tuple[Policy, float] | None:
        """The best policy and its cost, where they can be computed exactly."""
        return None

    @abstractmethod
    def play(self, policy: Policy, steps: int, until_start: bool = False) -> Rollout:
        """Play a policy from the present state on; stop early at s_1 if so asked."""

    def carry_out(self, play: Play, most: int) -> Rollout:
        """Do what a learner asks for, for at most so many steps."""
        steps = min(play.steps, most)
        if isinstance(play.policy, Controller):
            return self.drive(play.policy, steps, play.copies)
        return self.play(play.policy, steps, play.until_start)

    def drive(self, controller: Controller, steps: int, copies: int = 1) -> Rollout:
        """Let a controller act; for problems with states and actions."""
        raise InputError(
            f"A {self.problem.kind} problem has no states and actions for {controller}."
        )

    @abstractmethod
    def restart_time(self, seed: int = 0) -> float:
        """Bound on the expected steps back to s_1 under the restart policy [D_Θ]."""

    @abstractmethod
    def costs(self, policies: Array, steps: int, batches: int, seed: int) -> Estimates:
        """Batch sums of the true cost of policies, an array (n, d), on common noise."""

    def hindsight(self, policies: Array, steps: int) -> Array:
        """Average true cost of policies on the chance that this run's first steps have met."""
        averages = np.empty(len(policies))
        for number, policy in enumerate(policies):
            system = self.problem.simulator(self.truth, self.seed)
            rollout = system.play(tuple(map(float, policy)), steps)
            averages[number] = rollout.costs.sum() / (rollout.elapsed or steps)
        return averages

    def state_dict(self) -> State:
        """Everything needed to go on, as JSON values and arrays."""
        return {"system": self._state(), "seed": str(self.seed)}

    def load_state_dict(self, state: State) -> None:
        """Go on from a saved state."""
        self._load(state["system"])
        self.seed = int(state["seed"])  # of which hindsight and further copies are made

    @abstractmethod
    def _state(self) -> State: ...

    @abstractmethod
    def _load(self, state: State) -> None: ...


def as_policies(policies: Array) -> Array:
    """Policies as an array (n, d)."""
    array = np.asarray(policies, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array
