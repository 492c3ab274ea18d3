"""The true finite system: simulation, and exact solution of policies."""

from __future__ import annotations

import numpy as np
from numpy.random import PCG64, Generator

from iopea.errors import InputError
from iopea.policies import Box
from iopea.problems.base import Problem, Simulator, as_policies
from iopea.seeds import seed_for
from iopea.state import Noise, parts
from iopea.systems.finite import kernel as kernels
from iopea.systems.finite.dynamics import Dynamics
from iopea.types import (
    Array,
    Estimates,
    Indices,
    Policy,
    Rollout,
    Trajectory,
    show_policy,
)


class FiniteSimulator(Simulator):
    """The true system, with probabilities and mean costs; solves policies exactly."""

    saved = parts(at=int, rng=Noise)
    truth: Dynamics

    def __init__(self, problem: Problem, dynamics: Dynamics, seed: int = 0) -> None:
        system = problem.system
        means = dynamics.mean_costs
        states, actions = means.shape
        if (states, actions) != (system.states, system.actions):
            raise InputError(
                f"The dynamics have {states} states and {actions} actions, but the problem has "
                f"{system.states} and {system.actions}."
            )
        low, high = system.cost_bounds
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

    def _play(self, policy: Policy, steps: int, until_start: bool = False) -> Rollout:
        """Play a policy from the present state on; with ``until_start``, stop in state 0."""
        actions = self._actions(np.array([policy]))[0]
        before = self._rng.bit_generator.state
        draws = self._rng.random((steps, 2))
        self._at, states, following = kernels.roll_out(
            actions, self._cumulative, draws[:, 0], self._at, until_start
        )
        if states.size < steps:
            # Numbers that were drawn but not used belong to later steps.
            self._rng.bit_generator.state = before
            draws = self._rng.random((states.size, 2))
        costs = self._draw_costs(states, draws[:, 1])
        row, taken = np.arange(states.size), actions[states]
        if not self.problem.system.sees_every_action:
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
        low, high = self.problem.system.cost_bounds
        return np.asarray(np.where(draws[:, None] < (means - low) / (high - low), high, low))

    def _actions(self, policies: Array) -> Indices:
        """The action of each policy in each state, an array (n, S)."""
        system, family = self.problem.system, self.problem.family
        actions: Indices = np.rint(family.actions_by_state(system, policies, system.states)).astype(
            np.intp
        )
        wrong = ((actions < 0) | (actions >= system.actions)).any(axis=1)
        if wrong.any():  # compiled code would read beyond the tables
            raise InputError(
                f"Policy {show_policy(tuple(policies[wrong.argmax()]))} has an action that is not "
                f"a whole number from 0 to {system.actions - 1}."
            )
        return actions

    def _gains(self, policies: Array) -> Array:
        """Average costs of policies, exactly."""
        solution = kernels.solve_policies(
            self._actions(policies), self.truth.probabilities, self._means
        )
        if not solution.known.all():
            policy = policies[solution.known.argmin()]
            raise InputError(
                f"Policy {show_policy(tuple(policy))} has several recurrent classes: its average "
                "cost depends on where the chain ends up."
            )
        return solution.gain

    def optimum(self) -> tuple[Policy, float] | None:
        """The best policy of the class and its average cost, where all policies can be listed."""
        known = self.problem.policy_class
        if isinstance(known, Box) and known.step is None:
            return None
        policies = known.net(1.0)
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

        Only states that can be reached count.
        """
        return kernels.return_time(
            self._actions(np.array([self.problem.restart_policy]))[0], self.truth.probabilities
        )
