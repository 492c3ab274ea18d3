"""Costs of all policies of a queue from estimates of its two unknown rates.

Errors. A cost moves with the two estimates along its derivatives, which are exact, so what each
batch of steps contributes to the estimates gives batch sums for every policy, on which paired
differences work as on any others (:func:`iopea.systems.queue.kernel.linearised`). They have two
dimensions, whatever the number of policies. Further away a cost leaves its tangent; where the
difference of two policies hardly has a slope, that is all of its error. So what the difference to
the tangent is at rates that are just possible goes into the batch sums as well.

Rare events. No error can be told from a handful of events, least of all from none: a few misses
that happen not to have come look like a queue without deadlines. So long as fewer than
:data:`FEWEST_EVENTS` of either kind were seen, everything counts as one batch. Policies then have
estimates, by which one can play, but nothing is eliminated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iopea.problems.base import PlugInEvaluator
from iopea.problems.batches import Batches
from iopea.systems.queue import kernel as kernels
from iopea.types import Array, Estimates, Mask, Policy, State, Trajectory

if TYPE_CHECKING:
    from iopea.systems.queue.system import ServiceRateQueue

#: Fewer events than this tell no error: their number is too far from Gaussian.
FEWEST_EVENTS = 8
#: Unknown numbers from which all costs follow.
RANK = 2


class QueueEstimator(PlugInEvaluator):
    """Estimates the two rates, and from them the cost of any policy."""

    def __init__(self, problem: ServiceRateQueue, policies: Array) -> None:
        self._problem = problem
        self._policies = policies.copy()
        self._bounds = np.array([problem.arrival_rate_bound, problem.deadline_rate_bound])
        self._jobs = 0
        self._batches = Batches(kernels.STATISTICS)
        self._optimum: Policy | None = None

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Take in observed steps; each of them tells of every policy."""
        columns = [trajectory[name] for name in self._problem.columns]
        for state, _, arrival, service, miss in zip(*(each[-1:] for each in columns), strict=True):
            self._jobs = int(state + arrival - service - miss)
        if not evaluate:
            return 0
        self._optimum = None
        batches, profile, first = self._batches, self._problem.profile, 0
        while first < len(trajectory):
            part = [each[first : first + batches.room] for each in columns]
            filled = kernels.sum_up(
                part, profile, trajectory.policy[-1], self._problem.estimator == "boundary",
                batches.running, batches.filled, batches.size,
            )  # fmt: skip
            batches.add(len(part[0]), filled)
            first += len(part[0])
        return len(trajectory)

    @property
    def at_start(self) -> bool:
        """Whether the queue is empty."""
        return self._jobs == 0

    @property
    def rates(self) -> Array | None:
        """Estimated arrival and deadline rate [λ, μ], within their bounds; None if unknown."""
        arrivals, at_risk, misses, jobs_at_risk, _ = self._statistics()[0].sum(axis=0)
        if not (at_risk > 0 and jobs_at_risk > 0):
            return None
        rates = np.array([arrivals / at_risk, misses / jobs_at_risk])
        return kernels.within(rates, self._bounds)

    def _statistics(self) -> tuple[Array, Array]:
        """Sums over the steps of each batch, and the number of these."""
        batches = self._batches
        sizes = np.full(len(batches.costs), float(batches.size))
        if not batches.filled:
            return batches.costs, sizes
        return np.vstack([batches.costs, batches.running]), np.append(sizes, batches.filled)

    def estimates(self) -> Estimates:
        """Linearised batch sums of the remaining policies."""
        return self.estimates_of(self._policies)

    def estimates_of(self, policies: Array) -> Estimates:
        """Linearised batch sums of any policies; over all batches they add up to N g."""
        rates = self.rates
        if rates is None:
            return Estimates(np.empty((0, len(policies))), np.empty(0), RANK)
        statistics, sizes = self._statistics()
        fewest = min(statistics[:, 0].sum(), statistics[:, 4].sum())
        if fewest < FEWEST_EVENTS or len(sizes) <= kernels.DIRECTIONS:
            statistics, sizes = statistics.sum(axis=0, keepdims=True), sizes.sum(keepdims=True)
        sums = kernels.linearised(
            policies, statistics, sizes, rates, self._bounds, *self._problem.known
        )
        return Estimates(sums / self._problem.uniform_rate, sizes, RANK)

    def optimum(self) -> Policy | None:
        """The best policy under the estimated rates."""
        rates = self.rates
        if self._optimum is None and rates is not None:
            best, _ = kernels.best_rates(rates, *self._problem.known)
            self._optimum = tuple(map(float, best))
        return self._optimum

    def forget(self) -> None:
        """Start counting anew."""
        self._batches.clear()
        self._optimum = None

    def keep(self, mask: Mask) -> None:
        """Keep only these policies."""
        self._policies = self._policies[mask]

    def state_dict(self) -> State:
        """Jobs in the system, policies and sums."""
        return {
            "jobs": self._jobs,
            "policies": self._policies.copy(),
            "batches": self._batches.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Go on from a saved state."""
        self._jobs, self._policies = int(state["jobs"]), np.array(state["policies"])
        self._batches.load_state_dict(state["batches"])
        self._optimum = None
