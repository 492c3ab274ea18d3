"""The truth of a finite Markov decision process: probabilities, mean costs, and their play."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from numpy.random import PCG64, Generator
from pydantic import BeforeValidator, Field, model_validator

from iopea.errors import InputError
from iopea.model import Model
from iopea.problems.base import Simulator, as_policies
from iopea.seeds import seed_for
from iopea.systems.finite import kernel as kernels
from iopea.types import (
    Array,
    Estimates,
    Indices,
    Policy,
    Rollout,
    State,
    Trajectory,
    show_policy,
)

if TYPE_CHECKING:
    from iopea.systems.finite.system import FiniteMDP

#: How far probabilities may be from adding up to 1.
ROUNDING = 1e-9
#: The arrays of a file.
_NAMES = ("transitions", "costs")


def _nested(value: Any) -> Any:
    """Numbers of any shape as nested lists."""
    try:
        numbers = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("must be numbers, as many in every row.") from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"must be finite numbers, not {numbers[~np.isfinite(numbers)][0]}.")
    return numbers.tolist()


class Dynamics(Model):
    """Where actions lead and what they cost.

    Parameters
    ----------
    transitions : array (S, A, S). Probabilities of the next state.
    costs : array (S, A). Mean cost of a step.
    bernoulli : bool. Whether a step costs either of the problem's cost bounds, with that mean;
        otherwise it always costs the mean.
    file : path, optional. In place of the arrays: an ``.npz`` file with both. It is read once.

    Examples
    --------
    >>> Dynamics(transitions=[[[0.5, 0.4]], [[1, 0]]], costs=[[1], [0]])
    Traceback (most recent call last):
    iopea.errors.InputError: The probabilities of action 0 in state 0 add up to 0.9, not to 1.
    """

    transitions: Annotated[
        tuple[tuple[tuple[float, ...], ...], ...], BeforeValidator(_nested), Field(repr=False)
    ]
    costs: Annotated[tuple[tuple[float, ...], ...], BeforeValidator(_nested), Field(repr=False)]
    bernoulli: bool = False
    file: Path | None = Field(default=None, repr=False, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _read_file(cls, values: dict[str, Any]) -> dict[str, Any]:
        if values.get("file") is None:
            return values
        given = [name for name in _NAMES if name in values]
        if given:
            raise ValueError(f"Give the dynamics by 'file' or by {given[0]!r}, not by both.")
        path = Path(str(values["file"]))
        try:
            with np.load(path, allow_pickle=False) as arrays:
                read = {name: arrays[name] for name in _NAMES}
        except FileNotFoundError:
            raise InputError(f"There is no file '{path}': give an .npz file.") from None
        except Exception:  # whatever a file that is something else makes the reader raise
            raise InputError(
                f"Cannot read '{path}': give an .npz file with the arrays transitions and costs."
            ) from None
        return {**values, **read, "file": None}

    @model_validator(mode="after")
    def _probabilities_fit(self) -> Self:
        probabilities, fitting = self.probabilities, self.mean_costs.shape
        if probabilities.shape != (*fitting, fitting[0]) or not probabilities.size:
            raise ValueError(
                "Transitions have the shape (S, A, S) and costs (S, A), not "
                f"{probabilities.shape} and {fitting}."
            )
        negative = np.argwhere(probabilities < 0)
        if negative.size:
            state, action, other = map(int, negative[0])
            raise ValueError(
                f"The probability of state {other} after action {action} in state {state} is "
                f"{probabilities[state, action, other]}: it can't be negative."
            )
        totals = probabilities.sum(axis=2)
        wrong = np.argwhere(np.abs(totals - 1) > ROUNDING)
        if wrong.size:
            state, action = map(int, wrong[0])
            raise ValueError(
                f"The probabilities of action {action} in state {state} add up to "
                f"{totals[state, action]:.9g}, not to 1."
            )
        return self

    @property
    def probabilities(self) -> Array:
        """The transitions as an array (S, A, S)."""
        return np.array(self.transitions, dtype=np.float64)

    @property
    def mean_costs(self) -> Array:
        """The costs as an array (S, A)."""
        return np.array(self.costs, dtype=np.float64)

    def table(self) -> dict[str, object]:
        """The ``[dynamics]`` table of a problem file."""
        return self.model_dump(mode="json")


class FiniteSimulator(Simulator):
    """The true system: it knows probabilities and mean costs, and solves policies exactly."""

    problem: FiniteMDP
    truth: Dynamics

    def __init__(self, problem: FiniteMDP, dynamics: Dynamics, seed: int = 0) -> None:
        means = dynamics.mean_costs
        states, actions = means.shape
        if (states, actions) != (problem.states, problem.actions):
            raise InputError(
                f"The dynamics have {states} states and {actions} actions, but the problem has "
                f"{problem.states} and {problem.actions}."
            )
        low, high = problem.cost_bounds
        outside = (means < low) | (means > high)
        if outside.any():
            raise InputError(
                f"The dynamics have a cost of {means[outside][0]}, outside the bounds {low} to "
                f"{high} of the problem."
            )
        super().__init__(problem, dynamics, seed)
        self._means = means
        cumulative = np.cumsum(dynamics.probabilities, axis=2)
        self._cumulative = cumulative / cumulative[:, :, -1:]
        self._rng = Generator(PCG64(seed_for("dynamics", seed)))
        self._at = 0

    def play(self, policy: Policy, steps: int, until_start: bool = False) -> Rollout:
        """Play a policy from the present state on; stop early in state 0, if asked."""
        actions = np.rint(policy).astype(np.intp)
        before = self._rng.bit_generator.state
        draws = self._rng.random((steps, 2))
        self._at, states, following = kernels.roll_out(
            actions, self._cumulative, draws[:, 0], self._at, until_start
        )
        if states.size < steps:
            # What was drawn but not used belongs to the steps to come.
            self._rng.bit_generator.state = before
            draws = self._rng.random((states.size, 2))
        costs = self._draw_costs(states, draws[:, 1])
        row, taken = np.arange(states.size), actions[states]
        if self.problem.information_order != "full-feedback":
            shown = (costs[row, taken], following[row, taken])
        else:
            shown = (*costs.T, *following.T)
        columns = dict(zip(self.problem.columns, (states, *shown), strict=True))
        return Rollout(Trajectory(policy, **columns), costs[row, taken])

    def _draw_costs(self, states: Indices, draws: Array) -> Array:
        """The cost of each action in these states, an array (steps, A)."""
        means = self._means[states]
        if not self.truth.bernoulli:
            return means
        low, high = self.problem.cost_bounds
        return np.where(draws[:, None] < (means - low) / (high - low), high, low)

    def _gains(self, policies: Array) -> Array:
        """Average costs of policies, exactly."""
        actions: Indices = np.rint(policies).astype(np.intp)
        solution = kernels.solve_policies(actions, self.truth.probabilities, self._means)
        if not solution.known.all():
            policy = policies[solution.known.argmin()]
            raise InputError(
                f"Policy {show_policy(tuple(policy))} has several recurrent classes: its average "
                "cost depends on chance."
            )
        return solution.gain

    def optimum(self) -> tuple[Policy, float]:
        """The best policy of the class and its average cost."""
        policies = self.problem.policy_class.net(1.0)
        gains = self._gains(policies)
        best = int(gains.argmin())
        return tuple(map(float, policies[best])), float(gains[best])

    def costs(self, policies: Array, steps: int, batches: int, seed: int) -> Estimates:
        """Batch sums of the average cost, which needs no simulation."""
        size = float(-(-steps // batches))
        gains = self._gains(as_policies(policies))
        return Estimates(np.tile(size * gains, (batches, 1)), np.full(batches, size))

    def restart_time(self, seed: int = 0) -> float:
        """Expected steps to state 0 under the restart policy, from the worst state.

        Only states count that any action may lead to.
        """
        return kernels.return_time(
            np.array(self.problem.restart_policy, dtype=np.intp), self.truth.probabilities
        )

    def _state(self) -> State:
        return {"state": self._at, "draws": self._rng.bit_generator.state}

    def _load(self, state: State) -> None:
        self._at = int(state["state"])
        self._rng.bit_generator.state = state["draws"]
