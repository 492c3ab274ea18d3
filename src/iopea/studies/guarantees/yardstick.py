"""The best policy of a net: by exact costs where they are known, else by a long evaluation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

import numpy as np

from iopea.demand import Demand
from iopea.learners.iopea import IOPEA
from iopea.problems.base import Simulator
from iopea.studies.guarantees.truths import system_from
from iopea.systems.newsvendor import Newsvendor
from iopea.types import Array, Estimates, Policy

#: Steps on which all policies of a net are compared, and on which those near the best are.
_SHORT, _LONG, _LONGEST = 200_000, 4_000_000, 64_000_000
_BATCHES = 64
#: Relative error of a cost by rounding.
_ROUNDING = 1e-12
#: Standard errors at which a policy is ruled out after few steps, and at which the best is certain.
_FAR, CERTAIN = 6.0, 4.0


@dataclass(frozen=True)
class Yardstick:
    """The best policy of a net, and the gap to its closest rival with its standard error."""

    best: Policy
    cost: float
    gap: float
    error: float

    @property
    def certain(self) -> bool:
        """Whether the best policy is certain."""
        return self.gap > CERTAIN * self.error


@cache
def yardstick(system: str, settings: str, horizon: int, rule: str) -> Yardstick:
    """The best policy of the net that a learner works on, by exact values or long evaluation."""
    problem, truth = system_from(system)
    simulator = problem.simulator(truth)
    learner = IOPEA(problem, rule=rule, horizon=horizon, **json.loads(settings))
    net = learner.surviving
    if len(net) < learner.count:  # too many to list: only the neighbours of the best are compared
        exact = simulator.optimum()
        net = problem.policy_class.neighbours(np.array(exact[0])) if exact else net
    if isinstance(problem, Newsvendor) and isinstance(truth, Demand):
        return _chosen(net, newsvendor_costs(problem, truth, net[:, 0]), np.zeros(len(net)))
    return _best_of(simulator, net)


def newsvendor_costs(problem: Newsvendor, law: Demand, quantities: Array) -> Array:
    """Cost of each quantity θ: h θ - (h + p) E min(D, θ) + p E D."""
    over, under = problem.system.overage_cost, problem.system.underage_cost
    most = np.inf if law.maximum is None else law.maximum
    sold = [
        law.model_copy(update={"maximum": min(most, quantity)}).mean_demand()
        for quantity in quantities.tolist()
    ]
    costs = over * quantities - (over + under) * np.array(sold) + under * law.mean_demand()
    return np.asarray(costs)


def _chosen(net: Array, costs: Array, errors: Array) -> Yardstick:
    """The policy of the least cost, and the rival with the least significant gap."""
    best = int(costs.argmin())
    gaps = costs - costs[best]
    sure = gaps / np.maximum(errors, _ROUNDING * max(abs(float(costs[best])), _ROUNDING))
    sure[best] = np.inf
    rival = int(sure.argmin())
    return Yardstick(
        best=tuple(map(float, net[best])),
        cost=float(costs[best]),
        gap=float(gaps[rival]),
        error=float(errors[rival]),
    )


def _best_of(simulator: Simulator, net: Array) -> Yardstick:
    """Rule out most policies by few steps, and compare the rest until the best is certain."""
    gaps, errors = _gaps(simulator.costs(net, _SHORT, _BATCHES, seed=1))
    near = gaps <= _FAR * errors
    near[np.argsort(gaps, kind="stable")[:2]] = True
    net, steps = net[near], _LONG
    while True:
        estimates = simulator.costs(net, steps, _BATCHES, seed=2)
        found = _chosen(net, estimates.mean, _gaps(estimates)[1])
        if found.certain or steps >= _LONGEST:
            return found
        steps *= 4


def _gaps(estimates: Estimates) -> tuple[Array, Array]:
    """Differences to the least average under common noise, and their standard errors."""
    averages = estimates.sums / estimates.sizes[:, None]
    differences = averages - averages[:, [averages.mean(axis=0).argmin()]]
    error = differences.std(axis=0, ddof=1) / np.sqrt(len(differences))
    error[error <= _ROUNDING * np.abs(averages).max()] = 0.0  # exact values, all batches alike
    return differences.mean(axis=0), error
