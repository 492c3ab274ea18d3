"""The queue as a table of jobs in the system and service rates."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from iopea.problems.tabular import EveryAction, Revealed, Steps
from iopea.systems.queue import kernel as kernels
from iopea.types import Array, Indices, Trajectory

#: What may happen in a step, and the columns that show it.
_OUTCOMES = 4
_EVENTS = {"arrivals": kernels.ARRIVAL, "services": kernels.SERVICE, "misses": kernels.MISS}
#: Share of a step of the uniformised chain by which its length may be off by rounding.
_SAME_LENGTH = 1e-9


class QueueTable(EveryAction):
    """The queue as a table: the state is the jobs in the system, an action a service rate.

    Outcomes are an arrival, a service, a miss, or nothing, in a step of the uniformised chain. A
    step that lasts longer counts for U times its time, all but one of which nothing happened in, so
    that probabilities are rates over U whatever the clock.

    A step tells of all lower rates too: arrivals and misses do not depend on the rate, and of the
    services at rate a a share a'/a is one at rate a', and nothing happens in the rest. It does not
    tell of higher rates: when nothing happened, there might have been a service at a higher rate,
    and how likely that is depends on how often nothing happens, which is not known.
    """

    def __init__(self, queue: Any) -> None:
        super().__init__(queue.buffer + 1, queue.max_rate + 1, _OUTCOMES)
        self._queue = queue

    @property
    def _rates(self) -> Indices:
        return np.arange(self.pairs) % self.actions

    @cached_property
    def following(self) -> Indices:
        """One job more or less, or as many."""
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
        """By the policy that was played."""
        states = trajectory["state"].astype(np.intp)
        rates = np.array(trajectory.policy).astype(np.intp)[states]
        outcomes = np.zeros(states.size, dtype=np.intp)
        for name, event in _EVENTS.items():
            outcomes[trajectory[name] > 0] = event
        power = self._queue.power_costs[rates] * trajectory["time"]
        costs = power + self._queue.miss_penalty * trajectory["misses"]
        return Steps(states * self.actions + rates, outcomes, costs)

    def _lengths(self, trajectory: Trajectory) -> Array:
        """How long steps are, in steps of the uniformised chain."""
        lengths: Array = self._queue.uniform_rate * trajectory["time"]
        lengths[np.abs(lengths - 1) < _SAME_LENGTH] = 1.0
        return lengths

    def own(self, trajectory: Trajectory) -> Revealed:
        """Own outcomes, and the steps before them in which nothing happened."""
        pairs, outcomes, costs = self.steps(trajectory)
        ones = np.ones(pairs.size)
        return _with_waiting(pairs, outcomes, ones, self._lengths(trajectory) - 1, costs)

    def revealed(self, trajectory: Trajectory) -> Revealed:
        """Own outcomes, and those of lower rates as they would have been on average."""
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
