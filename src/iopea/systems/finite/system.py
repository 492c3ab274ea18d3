"""Any finite Markov decision process: states and actions.

In each step the system is in one of S states, the policy's action there is taken, and the cost and
the next state are observed. A policy is a list of S actions. The user declares the order:

``"trivial"``
    A policy informs only itself: by the costs observed while it was played (estimator ``"own"``),
    or by the model estimated from its data (``"model"``).
``"full-feedback"``
    In each step the cost and the next state of *every* action are observed, as where the noise does
    not depend on the action. Policies that visit the same states then inform each other.
a matrix
    Row i says which policies policy i informs. A policy is estimated by the model from the pooled
    data of all policies that inform it: a few policies that together take every action in every
    state may inform all others.

The data of one policy does not show the cost of an action that it never takes, so without full
feedback no order holds for single pairs, only for such groups. A policy that reaches a state in
which its action was not observed has no estimate, whatever was declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from iopea.errors import ModelMismatchError, unknown
from iopea.information_order import InformationOrder
from iopea.model import Count, Number, Positive
from iopea.problems.base import Problem, System
from iopea.systems.finite.dynamics import Dynamics
from iopea.systems.finite.simulator import FiniteSimulator
from iopea.systems.finite.table import FiniteTable
from iopea.types import Trajectory

#: Relative tolerance for costs outside their bounds.
ROUNDING = 1e-9
ORDERS = ("trivial", "full-feedback")


def _as_order(value: Any) -> Any:
    if not isinstance(value, str):
        InformationOrder.from_matrix(value)
        return np.asarray(value).astype(int).tolist()
    if value not in ORDERS:
        raise unknown("information_order", value, ORDERS)
    return value


class FiniteSystem(System):
    """A finite system, without probabilities and costs.

    Parameters
    ----------
    states, actions : int. Their numbers [S, A]; the system starts in state 0.
    information_order : ``"trivial"``, ``"full-feedback"`` or a matrix of 0 and 1.
    cost_bounds : (float, float). Least and largest cost of a step.
    span : float, optional. Bound on the span of the bias [H]. By default, S times the range of the
        costs is assumed, which holds if some state is reached from every other in at most S
        expected steps, under every policy.
    """

    kind: ClassVar[str] = "finite-mdp"
    tables: ClassVar[tuple[str, ...]] = ("dynamics",)
    truth_type: ClassVar[type[Any]] = Dynamics

    states: Annotated[Count, Field(ge=1)]
    actions: Annotated[Count, Field(ge=1)]
    information_order: Annotated[str | tuple[tuple[int, ...], ...], BeforeValidator(_as_order)] = (
        "trivial"
    )
    cost_bounds: tuple[Number, Number] = (0.0, 1.0)
    span: Positive | None = None

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if self.cost_bounds[0] >= self.cost_bounds[1]:
            raise ValueError(f"The cost_bounds need low < high, not {list(self.cost_bounds)}.")
        return self

    @classmethod
    def read_truth(cls, content: Mapping[str, dict[str, Any]], directory: Path | None) -> Dynamics:
        """The dynamics; a data file is read from the directory."""
        values = dict(content["dynamics"])
        if directory is not None and "file" in values:
            values["file"] = directory / str(values["file"])
        return Dynamics(**values)

    @property
    def sees_every_action(self) -> bool:
        """Whether cost and next state of every action are observed in each step."""
        return self.information_order == "full-feedback"

    @property
    def columns(self) -> tuple[str, ...]:
        """State, cost and next state; under full feedback, of every action."""
        if not self.sees_every_action:
            return ("state", "cost", "next_state")
        every = range(self.actions)
        return ("state", *(f"cost_{a}" for a in every), *(f"next_state_{a}" for a in every))

    def tabular(self, problem: Problem, radius: float | None = None) -> FiniteTable | None:
        """The states and actions; None unless every map from states to actions is a policy."""
        if not problem.family.plays_every_map(self):
            return None
        return FiniteTable(
            self.states, self.actions, self.cost_bounds, self.columns, self.sees_every_action
        )

    def simulator(self, problem: Problem, truth: Dynamics, seed: int = 0) -> FiniteSimulator:
        """The true system with these dynamics."""
        return FiniteSimulator(problem, truth, seed)

    def check(self, trajectory: Trajectory) -> None:
        """Refuse states that don't exist, and costs outside the bounds."""
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
                raise ModelMismatchError(f"{name} is {values[step]} at step {step}: {right}.")
