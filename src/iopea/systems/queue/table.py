"""The queue as a table of jobs in the system and service rates."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from iopea.problems.tabular import EveryAction, Revealed, Steps
from iopea.systems.queue import kernel as kernels
from iopea.types import Array, Indices, Trajectory

#: Number of outcomes of a step: nothing, an arrival, a service or a miss.
_OUTCOMES = 4
_EVENTS = {"arrivals": kernels.ARRIVAL, "services": kernels.SERVICE, "misses": kernels.MISS}
#: Relative tolerance for the length of a step of the uniformised chain.
_SAME_LENGTH = 1e-9


class QueueTable(EveryAction):
    """The queue as a table: a state is the number of jobs, an action a service rate.

    Outcomes are an arrival, a service, a miss, or nothing, in a step of the uniformised chain. A
    longer step counts as U times its duration many steps, in all but one of which nothing happened,
    so that probabilities are rates over U whatever the clock.

    A step also reveals all lower rates: arrivals and misses do not depend on the rate, and a
    service at rate a is one at rate a' with probability a'/a, and nothing otherwise. It does not
    reveal higher rates: when nothing happened, there might have been a service at a higher rate,
    and the probability of that depends on how often nothing happens, which is unknown.
    """

    def __init__(self, queue: Any) -> None:
        super().__init__(queue.buffer + 1, queue.max_rate + 1, _OUTCOMES)
        self._queue = queue

    @property
    def _rates(self) -> Indices:
        return np.arange(self.pairs) % self.actions

    @cached_property
    def following(self) -> Indices:
        """One job more, one less, or no change."""
        jobs = np.arange(self.pairs) // self.actions
        following = np.tile(jobs[:, None], _OUTCOMES)
        following[:, kernels.ARRIVAL] = np.where(self._queue.profile[jobs] > 0, jobs + 1, -1)
        following[:, kernels.SERVICE] = np.where(self._rates > 0, jobs - 1, -1)
        following[:, kernels.MISS] = jobs - 1
        return following

    @cached_property
    def outcome_costs(self) -> Array:
        """Power for the length of a step, and the penalty of a miss."""
        power = self._queue.power_costs[self._rates] / self._queue.uniform_rate
        costs = np.tile(power[:, None], _OUTCOMES)
        costs[:, kernels.MISS] += self._queue.miss_penalty
        return costs

    def steps(self, trajectory: Trajectory) -> Steps:
        """Pairs of the policy that was played, and outcomes."""
        states = trajectory["state"].astype(np.intp)
        rates = np.array(trajectory.policy).astype(np.intp)[states]
        outcomes = np.zeros(states.size, dtype=np.intp)
        for name, event in _EVENTS.items():
            outcomes[trajectory[name] > 0] = event
        power = self._queue.power_costs[rates] * trajectory["time"]
        costs = power + self._queue.miss_penalty * trajectory["misses"]
        return Steps(states * self.actions + rates, outcomes, costs)

    def _lengths(self, trajectory: Trajectory) -> Array:
        """The duration of steps, in steps of the uniformised chain."""
        lengths: Array = self._queue.uniform_rate * trajectory["time"]
        lengths[np.abs(lengths - 1) < _SAME_LENGTH] = 1.0
        return lengths

    def own(self, trajectory: Trajectory) -> Revealed:
        """Outcomes of the rates played, and the steps in which nothing happened."""
        pairs, outcomes, costs = self.steps(trajectory)
        ones = np.ones(pairs.size)
        return _with_waiting(pairs, outcomes, ones, self._lengths(trajectory) - 1, costs)

    def revealed(self, trajectory: Trajectory) -> Revealed:
        """Outcomes of the rates played, and expected outcomes of lower rates."""
        pairs, outcomes, _ = self.steps(trajectory)
        rates = pairs % self.actions
        rows = np.repeat(np.arange(pairs.size), rates + 1)
        lower = np.arange(rows.size) - np.repeat(np.cumsum(rates + 1) - rates - 1, rates + 1)
        kinds = pairs[rows] - rates[rows] + lower
        served = outcomes[rows] == kernels.SERVICE
        share = np.where(served, lower / np.maximum(rates[rows], 1), 1.0)
        waiting = self._lengths(trajectory)[rows] - share
        return _with_waiting(kinds, outcomes[rows], share, waiting, np.zeros(rows.size))


def _with_waiting(
    kinds: Indices, outcomes: Indices, weights: Array, waiting: Array, costs: Array
) -> Revealed:
    """Outcomes, each followed by steps in which nothing happened."""
    nothing = np.full(kinds.size, kernels.NOTHING)
    return Revealed(
        kinds=np.repeat(kinds, 2),
        outcomes=np.column_stack([outcomes, nothing]).ravel(),
        weights=np.column_stack([weights, waiting]).ravel(),
        costs=np.column_stack([costs, np.zeros(kinds.size)]).ravel(),
        seen=kinds,
    )
