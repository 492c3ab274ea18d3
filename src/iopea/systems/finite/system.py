"""Any finite Markov decision process: states, actions, and a list of policies.

In each step the system is in one of S states, the policy's action there is taken, and the cost and
the next state are seen. A policy is a list of S actions. What tells of what is for the user to say:

``"trivial"``
    A policy tells of itself alone: by the costs that were seen while it was played (estimator
    ``"own"``), or by the model that is counted from its data (``"model"``).
``"full-feedback"``
    In each step the cost and the next state of *every* action are seen, as where chance does not
    depend on what is done. Policies that visit the same states then inform each other.
a matrix
    Row i says which policies policy i informs. A policy is judged by the model that is counted from
    the data of all that inform it, taken together: a few policies that between them take every
    action everywhere may inform all others.

By the data of a single other policy nobody can say what an action costs that it never takes, so
without full feedback no order is true of single pairs, only of such groups. Where a policy gets to
a state in which its action was not seen, the data says nothing of it, whatever was claimed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BeforeValidator, Field, model_validator

from iopea.errors import InputError, unknown
from iopea.information_order import InformationOrder
from iopea.model import Count, Model, Number, Positive
from iopea.policies import Box, Finite, PolicyClass
from iopea.problems.base import Constants, Evaluator, Problem, as_policies
from iopea.problems.tabular import EveryAction, Revealed, Steps
from iopea.systems.finite.dynamics import Dynamics, FiniteSimulator
from iopea.systems.finite.estimators import CountedModel, Outcomes, OwnCosts
from iopea.types import (
    Array,
    Claim,
    Indices,
    Mask,
    Policy,
    Precision,
    Trajectory,
    show_policy,
)

#: The most policies, and the most where the data of each is kept apart for a model.
MOST_POLICIES, MOST_APART = 2**16, 2**11
#: How far costs may be outside their bounds, as a share of them, by rounding.
ROUNDING = 1e-9
ORDERS = ("trivial", "full-feedback")


def _rows(value: Any) -> Any:
    """Arrays as nested lists, which is how files write them."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def _as_order(value: Any) -> Any:
    if not isinstance(value, str):
        InformationOrder.from_matrix(value)
        return np.asarray(value).astype(int).tolist()
    if value not in ORDERS:
        raise unknown("information_order", value, ORDERS)
    return value


class FiniteMDP(Model, Problem):
    """What is known of a finite problem: no probability and no cost.

    Parameters
    ----------
    states, actions : int. How many there are [S, A]; the system starts in state 0.
    policies : list of lists, optional. The action of each policy in each state; all A^S policies
        if not given.
    information_order : ``"trivial"``, ``"full-feedback"`` or a matrix of 0 and 1.
    estimator : ``"own"`` or ``"model"``; for the trivial order ``"own"`` unless given.
    cost_bounds : (float, float). Least and largest cost of a step.
    span : float, optional. Bound on the span of the bias [H]. Nothing that is known gives one; if
        none is given, S times the range of the costs is assumed, which holds if from anywhere it
        takes at most S steps, in the mean, to some state that all policies come back to.

    Examples
    --------
    >>> problem = FiniteMDP(states=3, actions=2)
    >>> len(problem.policy_class.net(1.0)), problem.constants.span
    (8, 3.0)
    """

    kind: ClassVar[str] = "finite-mdp"
    tables: ClassVar[tuple[str, ...]] = ("dynamics",)

    states: Annotated[Count, Field(ge=1)]
    actions: Annotated[Count, Field(ge=1)]
    policies: Annotated[tuple[tuple[int, ...], ...] | None, BeforeValidator(_rows)] = None
    information_order: Annotated[str | tuple[tuple[int, ...], ...], BeforeValidator(_as_order)] = (
        "trivial"
    )
    estimator: Literal["own", "model"] | None = None
    cost_bounds: tuple[Number, Number] = (0.0, 1.0)
    span: Positive | None = None

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if self.cost_bounds[0] >= self.cost_bounds[1]:
            raise ValueError(f"Cost_bounds need low < high, not {list(self.cost_bounds)}.")
        self._check_policies()
        order, n = self.information_order, self.policy_class.count(1.0)
        if not isinstance(order, str) and len(order) != n:
            raise ValueError(f"The matrix is one of {len(order)} policies, but there are {n}.")
        if self.estimator == "own" and order != "trivial":
            raise ValueError(
                "Estimator 'own' judges a policy by its own costs alone: leave out the information "
                "order, or use 'model'."
            )
        if self._judged_by_model and order != "full-feedback" and n > MOST_APART:
            raise ValueError(
                f"Estimator 'model' keeps the data of at most {MOST_APART} policies apart, not of "
                f"{n}: list fewer policies, or use 'own'."
            )
        return self

    def _check_policies(self) -> None:
        if self.policies is None:
            if self.states * math.log2(self.actions) > math.log2(MOST_POLICIES):
                raise ValueError(
                    f"There are {self.actions}^{self.states} policies, more than {MOST_POLICIES}: "
                    "list some of them as policies."
                )
            return
        if not 0 < len(self.policies) <= MOST_POLICIES:
            raise ValueError(
                f"Policies are listed 1 to {MOST_POLICIES} at a time, not {len(self.policies)}."
            )
        for number, policy in enumerate(self.policies):
            if len(policy) != self.states:
                raise ValueError(
                    f"Policy {number} has {len(policy)} actions, but there are {self.states} "
                    "states."
                )
            if not all(0 <= action < self.actions for action in policy):
                raise ValueError(
                    f"Policy {number} is {list(policy)}: actions are 0 to {self.actions - 1}."
                )

    @classmethod
    def read(
        cls, content: Mapping[str, dict[str, Any]], directory: Path | None = None
    ) -> tuple[Self, Dynamics]:
        """Problem and dynamics from the tables of a problem file."""
        values = dict(content["dynamics"])
        if directory is not None and "file" in values:
            values["file"] = directory / str(values["file"])
        return cls(**content["problem"]), Dynamics(**values)

    @classmethod
    def example(cls) -> tuple[Self, Dynamics]:
        """A machine that wears out from state 0 to 2, and is repaired by action 1."""
        wear, repair = [[0.7, 0.3, 0], [0, 0.6, 0.4], [0, 0, 1]], [[0.9, 0.1, 0]] * 3
        dynamics = Dynamics(
            transitions=np.swapaxes([wear, repair], 0, 1),
            costs=[[0, 0.3], [0.2, 0.5], [0.9, 0.7]],
            bernoulli=True,
        )
        return cls(states=3, actions=2, policies=[[0, 0, 1], [0, 1, 1], [1, 1, 1]]), dynamics

    @property
    def _judged_by_model(self) -> bool:
        return self.estimator == "model" or self.information_order != "trivial"

    @property
    def plug_in(self) -> bool:  # type: ignore[override]
        """Whether policies are judged by a counted model."""
        return self._judged_by_model

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """State, cost and next state; under full feedback, of every action."""
        if self.information_order != "full-feedback":
            return ("state", "cost", "next_state")
        every = range(self.actions)
        return ("state", *(f"cost_{a}" for a in every), *(f"next_state_{a}" for a in every))

    @property
    def claim(self) -> Claim:
        """Own costs are known exactly; costs by a model are near the truth."""
        return "distributional" if self._judged_by_model else "sample-path"

    @cached_property
    def policy_class(self) -> PolicyClass:
        """The policies that were listed, or all."""
        if self.policies is not None:
            return Finite(self.policies)
        high = [float(self.actions - 1)] * self.states
        labels = tuple(f"action in state {state}" for state in range(self.states))
        return Box([0.0] * self.states, high, step=1.0, labels=labels)

    @cached_property
    def _numbers(self) -> dict[Policy, int]:
        """The number of each policy."""
        return {row: n for n, row in enumerate(map(tuple, self.policy_class.net(1.0).tolist()))}

    def number(self, policy: ArrayLike) -> int:
        """The number of a policy of the class."""
        row = tuple(np.rint(np.atleast_1d(policy)).tolist())
        if row not in self._numbers:
            raise InputError(f"Policy {show_policy(row)} is not one of this problem.")
        return self._numbers[row]

    @property
    def constants(self) -> Constants:
        """H as given or assumed, and L_Θ = 0 for a finite class.

        A transition that was never seen may change the cost of a policy by H times its
        probability, so elimination is only as sure as H is right.
        """
        low, high = self.cost_bounds
        span = self.span or self.states * (high - low)
        return Constants(
            span=span,
            lipschitz=0.0,
            bound=float(max(self.actions - 1, 1)),
            dimension=self.states,
            cost_low=low,
            cost_high=high,
            sensitivity=np.inf,
            unseen=span,
        )

    @property
    def restart_policy(self) -> Policy:
        """The first policy, until it happens to come to state 0."""
        return tuple(map(float, self.policy_class.net(1.0)[0]))

    def order(self, policies: Array) -> InformationOrder:
        """The order that was given, on these policies."""
        if self.information_order == "trivial":
            return InformationOrder.trivial(len(policies))
        if self.information_order == "full-feedback":
            return InformationOrder.full_feedback(len(policies))
        numbers = [self.number(policy) for policy in policies]
        return InformationOrder.from_matrix(self.information_order).restrict(numbers)

    def source(self, policy: Policy) -> int:
        """Whose data this policy's is counted as: under full feedback there is no difference."""
        return 0 if self.information_order == "full-feedback" else self.number(policy)

    def informed(self, sources: Sequence[int], policies: Array) -> Mask:
        """Which policies the data of each source tells of, an array (sources, n)."""
        if self.information_order == "full-feedback":
            return np.ones((len(sources), len(policies)), dtype=np.bool_)
        numbers = np.array([self.number(policy) for policy in policies])
        if self.information_order == "trivial":
            return np.asarray(np.array(sources)[:, None] == numbers)
        return np.array([self.information_order[source] for source in sources], dtype=np.bool_)[
            :, numbers
        ]

    def evaluator(
        self, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """Own costs or a counted model; neither needs threads or single precision."""
        kind = CountedModel if self._judged_by_model else OwnCosts
        return kind(self, as_policies(policies))

    def tabular(self, radius: float | None = None) -> FiniteTable | None:
        """The states and actions; none where policies are listed, as others can't be played."""
        return FiniteTable(self) if self.policies is None else None

    def simulator(self, truth: Dynamics, seed: int = 0) -> FiniteSimulator:
        """The true system: this problem with these dynamics."""
        return FiniteSimulator(self, truth, seed)

    def describe(self) -> dict[str, object]:
        """The ``[problem]`` table of a problem file."""
        return {"kind": self.kind, **self.model_dump(mode="json", exclude_none=True)}

    def outcomes(self, trajectory: Trajectory) -> Outcomes:
        """The columns of a trajectory as arrays of states, actions, costs and next states."""
        states = trajectory["state"].astype(np.intp)
        action = np.rint(trajectory.policy).astype(np.intp)[states]
        costs, following = np.split(
            np.array([trajectory[name] for name in self.columns[1:]]).T, 2, axis=1
        )
        if self.information_order != "full-feedback":
            taken, actions = np.zeros(len(trajectory), dtype=np.intp), action[:, None]
        else:
            taken, actions = action, np.broadcast_to(np.arange(self.actions), costs.shape)
        return Outcomes(states, taken, actions, costs, following.astype(np.intp))

    def check(self, trajectory: Trajectory) -> None:
        """Refuse states that there are not, costs outside the bounds and jumps between steps."""
        super().check(trajectory)
        self.number(trajectory.policy)
        low, high = self.cost_bounds
        room = ROUNDING * max(abs(low), abs(high))
        for name in self.columns:
            values = trajectory[name]
            if "cost" in name:
                wrong = (values < low - room) | (values > high + room)
                right = f"costs lie between {low} and {high}"
            else:
                wrong = (values < 0) | (values >= self.states) | (values != np.floor(values))
                right = f"states are 0 to {self.states - 1}"
            if wrong.any():
                step = int(wrong.argmax())
                raise InputError(f"{name} is {values[step]} at step {step}: {right}.")
        seen = self.outcomes(trajectory)
        happened = seen.following[np.arange(len(trajectory)), seen.taken]
        jumps = np.flatnonzero(happened[:-1] != seen.states[1:])
        if jumps.size:
            step = int(jumps[0])
            raise InputError(
                f"The state is {seen.states[step + 1]} at step {step + 1}, but step {step} has led "
                f"to state {happened[step]}."
            )


class FiniteTable(EveryAction):
    """The problem as a table; under full feedback a step tells of every action of its state."""

    def __init__(self, problem: FiniteMDP) -> None:
        super().__init__(problem.states, problem.actions, problem.states)
        self._problem = problem

    @cached_property
    def following(self) -> Indices:
        """An outcome is the next state."""
        return np.tile(np.arange(self.states), (self.pairs, 1))

    @cached_property
    def outcome_costs(self) -> None:
        """The next state does not fix the cost."""
        return None

    @cached_property
    def cost_bounds(self) -> tuple[Array, Array]:
        """Those of the problem."""
        low, high = self._problem.cost_bounds
        return np.full(self.pairs, low), np.full(self.pairs, high)

    def steps(self, trajectory: Trajectory) -> Steps:
        """What happened by the action that was taken."""
        seen = self._problem.outcomes(trajectory)
        own = (np.arange(seen.states.size), seen.taken)
        pairs = seen.states * self.actions + seen.actions[own]
        return Steps(pairs, seen.following[own], seen.costs[own])

    def revealed(self, trajectory: Trajectory) -> Revealed:
        """All that was seen."""
        seen = self._problem.outcomes(trajectory)
        pairs = (seen.states[:, None] * self.actions + seen.actions).ravel()
        weights = np.ones(pairs.size)
        return Revealed(pairs, seen.following.ravel(), weights, seen.costs.ravel(), pairs)
