"""Service rates of a queue, one for each number of jobs, and their costs at estimated rates.

Errors. Costs are linearised in the two estimated rates, with exact derivatives. So the contribution
of each batch of steps to the estimates gives batch sums for every policy, and paired differences
work as usual (:func:`iopea.systems.queue.kernel.linearised`). They have two dimensions, whatever
the number of policies. Farther away a cost deviates from its tangent; where the difference of two
policies has hardly any slope, that is all of its error. So the deviation from the tangent, at rates
at the limit of the possible, is added to the batch sums as well.

Rare events. A standard error can't be estimated from a handful of events, least of all from none: a
queue in which a few misses happened not to occur looks like one without deadlines. As long as fewer
than :data:`FEWEST_EVENTS` of either kind were observed, everything counts as one batch. Policies
then have estimates, which can be used to play, but nothing is eliminated.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np

from iopea.information_order import InformationOrder
from iopea.policies import Box
from iopea.problems.base import Constants, PlugInEvaluator, PolicyFamily, Problem
from iopea.problems.batches import Batches
from iopea.state import Part, array, parts
from iopea.systems.queue import kernel as kernels
from iopea.systems.queue.system import QueueSystem
from iopea.types import Array, Claim, Estimates, Mask, Policy, Precision, Trajectory

#: With fewer events there is no standard error: their number is too far from Gaussian.
FEWEST_EVENTS = 8
#: Number of unknown parameters, from which all costs follow.
RANK = 2


class ServiceRates(PolicyFamily):
    """All maps from the jobs in the system to a service rate.

    Parameters
    ----------
    estimator : str. ``"likelihood"`` uses every arrival and miss; ``"boundary"``, as in the
        paper, only the stays in the states 0 and L.
    """

    kind: ClassVar[str] = "service-rates"
    made_for: ClassVar[type[Any]] = QueueSystem

    estimator: Literal["likelihood", "boundary"] = "likelihood"

    def policy_class(self, system: QueueSystem) -> Box:
        """All maps from the jobs in the system to a service rate."""
        axes = system.buffer + 1
        labels = tuple(f"rate with {s} job{'' if s == 1 else 's'}" for s in range(axes))
        return Box([0] * axes, [system.max_rate] * axes, step=1, labels=labels)

    @staticmethod
    def order(state: Any, parameters: Any, signal: Any) -> Any:
        """The rate for this number of jobs."""
        return parameters[int(state[0])]

    def plays_every_map(self, system: QueueSystem) -> bool:
        """True: all maps are policies."""
        return True

    def actions_by_state(self, system: QueueSystem, policies: Array, states: int) -> Array:
        """The policies themselves."""
        return policies

    def order_on(self, system: QueueSystem, policies: Array) -> InformationOrder:
        """All policies inform each other."""
        return InformationOrder.full_feedback(len(policies))

    def claim(self, system: QueueSystem) -> Claim:
        """The records of any policy estimate the rates, and these determine all costs."""
        return "distributional"

    def plug_in(self, system: QueueSystem) -> bool:
        """True: all costs follow from two rates."""
        return True

    def constants(self, system: QueueSystem) -> Constants:
        """H of the order L log L, as in ``cor:queuing_regret``; its constant, 1, is not proved.

        The class is finite, so L_Θ is 0. The rule needs no guard against unobserved events, since
        the estimator has one. In the published experiments β_k was multiplied by 10⁴. It is not on
        record that they scaled costs by C_max = w(A_max) + C L μ_max, the bound in the paper's
        proof, but this gives the printed rows.
        """
        high = float(system.power_costs.max() / system.uniform_rate + system.miss_penalty)
        published = float(system.power_costs.max()) + (
            system.miss_penalty * system.buffer * system.deadline_rate_bound
        )
        return Constants(
            span=system.buffer * max(math.log(system.buffer), 1.0) * high,
            lipschitz=0.0,
            bound=float(system.max_rate),
            dimension=system.buffer + 1,
            cost_low=0.0,
            cost_high=high,
            settling=system.buffer,
            sensitivity=0.0,
            published_alpha=1.0,
            published_factor=1e4 * published / high if high > 0 else 1.0,
        )

    def restart(self, system: QueueSystem) -> Policy:
        """The largest rate in every state empties the queue."""
        return (float(system.max_rate),) * (system.buffer + 1)

    def evaluator(
        self, problem: Problem, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> QueueEstimator:
        """Costs at the estimated rates; threads and precision have no effect."""
        return QueueEstimator(problem, policies)


class QueueEstimator(PlugInEvaluator):
    """Estimates the two rates, and from them the cost of any policy."""

    saved = parts(jobs=int, policies=array, batches=Part)

    def __init__(self, problem: Problem, policies: Array) -> None:
        self._system: QueueSystem = problem.system
        self._boundary = problem.family.estimator == "boundary"
        self._policies = policies.copy()
        self._bounds = np.array([self._system.arrival_rate_bound, self._system.deadline_rate_bound])
        self._jobs = 0
        self._batches = Batches(kernels.STATISTICS)
        self._optimum: Policy | None = None

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed steps, each of which is informative about every policy."""
        columns = [trajectory[name] for name in self._system.columns]
        for state, _, arrival, service, miss in zip(*(each[-1:] for each in columns), strict=True):
            self._jobs = int(state + arrival - service - miss)
        if not evaluate:
            return 0
        self._optimum = None
        batches, profile, first = self._batches, self._system.profile, 0
        while first < len(trajectory):
            part = [each[first : first + batches.room] for each in columns]
            filled = kernels.sum_up(
                part, profile, trajectory.policy[-1], self._boundary,
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
        """Sums over the steps of each batch, and the number of steps."""
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
            policies, statistics, sizes, rates, self._bounds, *self._system.known
        )
        return Estimates(sums / self._system.uniform_rate, sizes, RANK)

    def optimum(self) -> Policy | None:
        """The best policy under the estimated rates."""
        rates = self.rates
        if self._optimum is None and rates is not None:
            best, _ = kernels.best_rates(rates, *self._system.known)
            self._optimum = tuple(map(float, best))
        return self._optimum

    def forget(self) -> None:
        """Drop all sums."""
        self._batches.clear()
        self._optimum = None

    def keep(self, mask: Mask) -> None:
        """Keep only these policies."""
        self._policies = self._policies[mask]

    def _loaded(self) -> None:
        self._optimum = None
