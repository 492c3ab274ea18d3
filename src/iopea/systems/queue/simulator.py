"""The true queue, and its MDP view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from iopea.errors import InputError
from iopea.problems.base import Problem, as_policies
from iopea.problems.control import Control
from iopea.problems.stepped import SteppedSimulator
from iopea.seeds import seed_for
from iopea.state import Noise, parts
from iopea.systems.queue import kernel as kernels
from iopea.types import (
    Array,
    Controller,
    Estimates,
    Policy,
    Rollout,
    Trajectory,
    show_policy,
)

#: Relative tolerance for the length of a step of the uniformised chain.
_ROUNDING = 1e-9


def _rates(problem: Problem, policies: Array) -> Array:
    """Policies as service rates by the number of jobs, an array (n, L + 1)."""
    rates: Array = problem.family.actions_by_state(
        problem.system, policies, problem.system.buffer + 1
    )
    return rates


class QueueControl(Control):
    """Jobs in the system, and the service rate to be chosen."""

    states, actions = ("jobs",), ("rate",)
    whole = True

    def __init__(self, problem: Problem) -> None:
        queue = problem.system
        self._problem = problem
        self.records = queue.columns
        self.highest_state = np.array([float(queue.buffer)])
        self.highest_action = np.array([float(queue.max_rate)])
        self._power, self._penalty = queue.power_costs, queue.miss_penalty
        self._uniform_rate = queue.uniform_rate

    def actions_of(self, policies: Array, states: Array) -> Array:
        """The rate of each policy for the number of jobs in its state."""
        return np.take_along_axis(_rates(self._problem, policies), states.astype(np.intp), axis=1)

    def costs(self, columns: Mapping[str, Array]) -> Array:
        """Power and penalties."""
        power = self._power[columns["rate"].astype(np.intp)] * columns["time"]
        return np.asarray(power + self._penalty * columns["misses"])

    def lengths(self, columns: Mapping[str, Array]) -> Array:
        """Steps of the uniformised chain: one each, unless time is continuous."""
        steps = self._uniform_rate * columns["time"]
        return np.where(np.abs(steps - 1) < _ROUNDING, 1.0, steps)

    def as_policy(self, controller: Controller) -> Policy:
        """The rates that the controller chooses for every number of jobs."""
        jobs = np.arange(self.highest_state[0] + 1)[:, None]
        rates = np.clip(np.rint(controller.act(jobs)), 0, self.highest_action)
        return tuple(rates[:, 0].tolist())


class QueueSimulator(SteppedSimulator):
    """The true queue, with its rates."""

    saved = parts(jobs=int, bits=Noise)

    def __init__(self, problem: Problem, truth: Any, seed: int = 0) -> None:
        super().__init__(problem, truth, seed)
        self._system = problem.system
        self._rates = np.array([truth.arrival_rate, truth.deadline_rate])
        self._bits = np.random.PCG64(seed_for("queue", seed))
        self._jobs = 0

    def _play(self, policy: Policy, steps: int, until_start: bool = False) -> Rollout:
        """Serve at these rates from the present state; with ``until_start``, until it is empty.

        In continuous time a step costs w(θ_s) times its length, plus C for a miss; its length
        counts U times, so that cost over elapsed time is that of the uniformised chain.
        """
        served = self._served(policy)
        profile, power, penalty = self._system.known
        continuous = self.truth.clock == "continuous"
        before = self._bits.state
        draws = np.random.Generator(self._bits).random((steps, 2 if continuous else 1))
        self._jobs, states, times, events = kernels.roll_out(
            served, draws, self._rates, profile, self._system.uniform_rate, self._jobs, until_start
        )
        if states.size < steps:
            # Numbers that were drawn but not used belong to later steps.
            self._bits.state = before
            self._bits.advance(states.size * draws.shape[1])
        trajectory = Trajectory(
            policy,
            state=states,
            time=times,
            arrivals=events == kernels.ARRIVAL,
            services=events == kernels.SERVICE,
            misses=events == kernels.MISS,
        )
        costs = power[served[states].astype(np.intp)] * times + penalty * trajectory["misses"]
        elapsed = float(self._system.uniform_rate * times.sum()) if continuous else None
        return Rollout(trajectory, costs, elapsed)

    def _served(self, policy: Policy) -> Array:
        """A policy as rates by state; refuses what is not a policy."""
        dimension, highest = self.problem.policy_class.dimension, self._system.max_rate
        if len(policy) != dimension:
            raise InputError(
                f"Policy {show_policy(policy)} has {len(policy)} parameters, not {dimension}."
            )
        rates = np.array(_rates(self.problem, np.array([policy], dtype=np.float64))[0])
        if not ((rates == np.floor(rates)) & (rates >= 0) & (rates <= highest)).all():
            raise InputError(
                f"Policy {show_policy(policy)} has a rate that is not a whole number from 0 to "
                f"{highest}."
            )
        return rates

    def _row(self) -> Array:
        return np.array([float(self._jobs)])

    def _set_row(self, row: Array) -> None:
        self._jobs = int(row[0])

    def _noise(self, steps: int) -> Array:
        draws = 2 if self.truth.clock == "continuous" else 1
        return np.random.Generator(self._bits).random((steps, draws))

    def _advance(self, states: Array, actions: Array, noise: Array) -> tuple[Array, Array]:
        rates = np.clip(np.rint(actions), 0, self._system.max_rate)
        births = self._rates[0] * self._system.profile
        uniform = self._system.uniform_rate
        records = kernels.pass_events(states, rates, noise, births, self._rates[1], uniform)
        power = self._system.power_costs[rates[:, 0].astype(np.intp)]
        return records, power * records[:, 1] + self._system.miss_penalty * records[:, 4]

    def _elapsed(self, columns: Mapping[str, Array]) -> float | None:
        if self.truth.clock != "continuous":
            return None
        return float(self._system.uniform_rate * columns["time"].sum())

    def costs(self, policies: Array, steps: int, batches: int, seed: int) -> Estimates:
        """True costs of policies per step, computed exactly: all batches are equal."""
        size = float(-(-steps // batches))
        rates = _rates(self.problem, as_policies(policies))
        costs = kernels.average_costs(rates, self._rates, *self._system.known)
        per_batch = size * costs / self._system.uniform_rate
        return Estimates(np.tile(per_batch, (batches, 1)), np.full(batches, size))

    def optimum(self) -> tuple[Policy, float] | None:
        """The best policy and its cost per step, by policy iteration over all maps; else None."""
        if not self.problem.family.plays_every_map(self._system):
            return None
        best, cost = kernels.best_rates(self._rates, *self._system.known)
        return tuple(map(float, best)), cost / self._system.uniform_rate

    def restart_time(self, seed: int = 0) -> float:
        """Expected steps of the uniformised chain from the full to the empty queue [D_Θ]."""
        fastest = _rates(self.problem, np.array([self.problem.restart_policy]))[0]
        time = kernels.time_to_empty(fastest, self._rates, self._system.profile)
        return float(self._system.uniform_rate * time)
