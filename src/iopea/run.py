"""The loop over time: a learner asks, a simulator plays, the learner is told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from iopea.errors import InputError
from iopea.learners.base import Learner
from iopea.model import check_count
from iopea.problems.base import Simulator, as_policies
from iopea.types import Array, Policy, RunResult

Key = TypeVar("Key")
Result = TypeVar("Result")

#: Called after each play with the learner and the steps taken so far.
Watcher = Callable[[Learner, int], None]

#: The most steps of one run: the cost of each is kept.
MOST_STEPS = 10**9
#: Steps and batches of the path on which policies are compared.
EVALUATION_STEPS = 8_000_000
EVALUATION_BATCHES = 64
#: Steps of the first, coarse search for the best policy.
_SEARCH_STEPS = 400_000
#: Points per parameter of the ever finer nets of that search: of one parameter, of several.
_NETS = ((512, 4096), (64, 256, 1024))
#: The most points of the first net; of a class in steps, which is its own net, fewer are taken.
_MOST_COARSE = 2**13
#: Points around which the next finer net is searched.
_PROMISING = 9


def run(
    learner: Learner, simulator: Simulator, steps: int, watch: Watcher | None = None
) -> RunResult:
    """Let a learner play for exactly so many steps.

    Two runs in a row with the same learner and simulator do the same, bit for
    bit, as one run of both lengths together.

    Examples
    --------
    >>> from iopea import IOPEA, LostSales
    >>> from iopea.demand import Poisson
    >>> shop = LostSales(lead_time=1, holding_cost=1, lost_sales_cost=9,
    ...                  levels={"low": 0, "high": 20, "step": 1})
    >>> result = run(IOPEA(shop), shop.simulator(Poisson(mean=3), seed=1), 5000)
    >>> len(result.costs), result.recommendation
    (5000, (9.0,))
    """
    steps = check_count("The horizon", steps)
    if steps > MOST_STEPS:
        raise InputError(f"The horizon must be at most {MOST_STEPS} steps, not {steps}.")
    costs = np.empty(steps)
    done, elapsed = 0, 0.0
    while done < steps:
        play = learner.ask()
        rollout = simulator.play(play.policy, min(play.steps, steps - done), play.until_start)
        if not rollout.costs.size:
            raise InputError(
                "The simulator is in its initial state, but the learner is still on its way there: "
                "go on with the simulator that it has been playing on."
            )
        learner.tell(rollout.trajectory)
        costs[done : done + rollout.costs.size] = rollout.costs
        done += rollout.costs.size
        elapsed += rollout.costs.size if rollout.elapsed is None else rollout.elapsed
        if watch is not None:
            watch(learner, done)
    return RunResult(
        costs=costs,
        elapsed=elapsed,
        recommendation=learner.recommend(),
        stop=learner.stop,
        outlook=learner.outlook,
        survivors=learner.survivors,
        effective_alpha=learner.effective_alpha,
        records=learner.records,
    )


def run_all(task: Callable[[Key], Result], keys: Iterable[Key], workers: int = 1) -> list[Result]:
    """Do a task for each key, in order, on so many threads; the results don't depend on them."""
    workers = check_count("workers", workers)
    pool = ThreadPoolExecutor(workers)
    try:
        return list(pool.map(task, keys))
    finally:
        # After an error or an interrupt, what has not begun is not begun.
        pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Evaluation:
    """Average true costs of policies on one common path of noise.

    Attributes
    ----------
    policies : array (n, d).
    cost : array (n,). Average cost per step.
    standard_error : array (n,). Of each average, by batch means.
    """

    policies: Array
    cost: Array
    standard_error: Array


def evaluate(
    simulator: Simulator, policies: Array, steps: int = EVALUATION_STEPS, seed: int = 0
) -> Evaluation:
    """Average costs by one long simulation on common random numbers."""
    points = as_policies(policies)
    steps = check_count("steps", steps, least=EVALUATION_BATCHES)
    estimates = simulator.costs(points, steps, EVALUATION_BATCHES, seed)
    per_batch = estimates.sums / estimates.sizes[:, None]
    error = per_batch.std(axis=0, ddof=1) / np.sqrt(len(per_batch))
    return Evaluation(points, per_batch.mean(axis=0), error)


@dataclass(frozen=True)
class BestInClass:
    """The best policy of the class by simulation, with the error of its cost [θ*, g*]."""

    policy: Policy
    cost: float
    standard_error: float
    steps: int
    seed: int

    def relative_gaps(self, simulator: Simulator, policies: list[Policy]) -> Array:
        """How much dearer policies are, as a share of g*, on the very same path."""
        costs = evaluate(simulator, np.array(policies), self.steps, self.seed).cost
        return np.array([self.share(cost - self.cost) for cost in costs])

    def share(self, cost: float) -> float:
        """A cost as a share of g*, or of its size where g* is negative; NaN where it is 0."""
        return float(cost / abs(self.cost)) if self.cost else math.nan


def best_in_class(
    simulator: Simulator, steps: int = EVALUATION_STEPS, seed: int = 0
) -> BestInClass:
    """Find the best policy of the class with full knowledge of the system.

    Where the system can't be solved exactly, a coarse net is searched on a short
    path, then ever finer nets around the best points of the one before, the last of
    them on a long path.
    """
    exact = simulator.optimum()
    if exact is not None:
        return BestInClass(exact[0], exact[1], 0.0, steps, seed)
    policies = simulator.problem.policy_class
    nets = _NETS[0] if policies.dimension == 1 else _NETS[1]
    reach = policies.extent / nets[0] or 1.0
    points = (
        policies.net(reach)
        if policies.count(reach) <= _MOST_COARSE
        else (policies.thinned(nets[0], reach))
    )
    for per_axis in nets[1:]:
        found = evaluate(simulator, points, min(steps, _SEARCH_STEPS), seed)
        promising = points[np.argsort(found.cost, kind="stable")[:_PROMISING]]
        radius = policies.extent / per_axis or 1.0
        fine = policies.net(radius)
        near = np.zeros(len(fine), dtype=np.bool_)
        for point in promising:
            near |= np.abs(fine - point).max(axis=1) <= reach
        points, reach = fine[near], radius
    found = evaluate(simulator, points, steps, seed)
    best = int(found.cost.argmin())
    return BestInClass(
        policy=tuple(map(float, points[best])),
        cost=float(found.cost[best]),
        standard_error=float(found.standard_error[best]),
        steps=steps,
        seed=seed,
    )


def relative_regret(result: RunResult, best: BestInClass) -> float:
    """Regret as a share of T g*."""
    return best.share(result.average_cost - best.cost)
