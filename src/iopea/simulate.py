"""The loop over time: a learner asks, a simulator plays, the learner is told."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from iopea.errors import InputError
from iopea.learners.base import Learner
from iopea.model import check_count
from iopea.policies import PolicyClass
from iopea.problems.base import Simulator, as_policies
from iopea.problems.control import Control, PolicyController
from iopea.problems.stepped import SteppedSimulator
from iopea.seeds import seed_for
from iopea.types import Array, Controller, Policy, Randomised, Recommendation, RunResult

Key = TypeVar("Key")
Result = TypeVar("Result")

#: Called after each play with the learner and the steps taken so far.
Watcher = Callable[[Learner, int], None]

#: The most steps of one run: the cost of each is kept.
MOST_STEPS = 10**9
#: Steps and batches of the path on which policies are compared.
EVALUATION_STEPS = 8_000_000
EVALUATION_BATCHES = 64
#: Copies by which a controller is evaluated, and steps of each beside a path of that length.
CONTROLLER_COPIES, CONTROLLER_ROUNDS = 2048, 2000
#: The fewest such steps beside a shorter path, and the most before them that don't count.
SETTLING_ROUNDS = 500
#: Steps by which random policies are evaluated on one system.
RANDOM_STEPS = 200_000
#: Steps of the first, coarse search for the best policy.
_SEARCH_STEPS = 400_000
#: Points per parameter of the ever finer nets of that search: of one parameter, of several.
_NETS = ((512, 4096), (64, 256, 1024))
#: The most points of the first net; of a class in steps, which is its own net, fewer are taken.
_MOST_COARSE = 2**13
#: Points around which the next finer net is searched.
_PROMISING = 9
#: Parameters up to which a class is searched by nets.
_MOST_SEARCHED = 2
#: A best cost no larger than this is 0 but for rounding.
_NOTHING = 1e-12
#: The best policies that were found for oracles, by their system.
_FOUND: dict[str, Policy] = {}
_FINDING = threading.Lock()
#: What best policies cost on copies, by system, policy, rounds and seed.
_LEVELS: dict[tuple[str, Policy, int, int], float] = {}


def run(
    learner: Learner,
    simulator: Simulator,
    steps: int,
    watch: Watcher | None = None,
    best: Policy | None = None,
) -> RunResult:
    """Let a learner play for exactly so many steps.

    Oracles are told the ``best`` policy of the class; it is searched for if not given.

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
    if learner.oracle:
        learner.see(_Sight(simulator, best))
    costs = np.empty(steps)
    done, elapsed = 0, 0.0
    while done < steps:
        play = learner.ask()
        rollout = simulator.carry_out(play, steps - done)
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

    def relative_gaps(self, simulator: Simulator, choices: Sequence[Recommendation]) -> Array:
        """How much dearer than the best policy things are, as a share of g*."""
        return np.array([self.share(gap) for gap in self.gaps(simulator, choices)])

    def gaps(self, simulator: Simulator, choices: Sequence[Recommendation]) -> Array:
        """How much dearer than the best policy things are, per step.

        Policies are compared on the very same path, and so are controllers that run compiled;
        others on many copies of the system, beside the best policy on the same copies.
        """
        control = simulator.problem.control
        if control is not None:
            choices = [_plainly(choice, control) for choice in choices]
        different = list(dict.fromkeys(choices))
        gaps: dict[Recommendation, float] = {self.policy: 0.0}
        policies = [
            choice for choice in different if isinstance(choice, tuple) and choice not in gaps
        ]
        if policies:
            costs = evaluate(simulator, np.array(policies), self.steps, self.seed).cost
            gaps.update(zip(policies, costs - self.cost, strict=True))
        if Randomised() in different:
            gaps[Randomised()] = _random_cost(simulator, self.seed) - self.cost
        controllers = [choice for choice in different if isinstance(choice, Controller)]
        if isinstance(simulator, SteppedSimulator):
            on_path = simulator.costs_on_path(
                controllers, self.steps, EVALUATION_BATCHES, self.seed
            )
            gaps.update({choice: cost - self.cost for choice, cost in on_path.items()})
        for choice in controllers:
            if choice not in gaps:
                gaps[choice] = self._gap_on_copies(simulator, choice)
        return np.array([gaps[choice] for choice in choices])

    def _gap_on_copies(self, simulator: Simulator, controller: Controller) -> float:
        """How much dearer a controller is than the best policy, which is run once per process."""
        least = min(SETTLING_ROUNDS, CONTROLLER_ROUNDS)
        rounds = max(CONTROLLER_ROUNDS * self.steps // EVALUATION_STEPS, least)
        cost = evaluate_controller(simulator, controller, rounds, self.seed)
        key = (_system(simulator), self.policy, rounds, self.seed)
        control = simulator.problem.control
        if key not in _LEVELS and control is not None:
            best = PolicyController(control, self.policy)
            _LEVELS[key] = evaluate_controller(simulator, best, rounds, self.seed)
        return cost - _LEVELS[key]

    def share(self, cost: float) -> float:
        """A cost as a share of g*, or of its size where g* is negative; NaN where it is 0."""
        return float(cost / abs(self.cost)) if abs(self.cost) > _NOTHING else math.nan


def _plainly(choice: Recommendation, control: Control) -> Recommendation:
    """A controller as the policy of the class that does the same, if there is one."""
    policy = control.as_policy(choice) if isinstance(choice, Controller) else None
    return choice if policy is None else policy


def evaluate_controller(
    simulator: Simulator, controller: Controller, rounds: int = CONTROLLER_ROUNDS, seed: int = 0
) -> float:
    """Average cost of a controller over many copies of the system side by side.

    The first steps of each copy don't count: in these it comes from its initial state to where it
    usually is.
    """
    rounds = check_count("rounds", rounds, least=2)
    return _on_copies(simulator, controller.act, rounds, seed)


def _on_copies(
    simulator: Simulator, act: Callable[[Array], Array], rounds: int, seed: int
) -> float:
    """Average cost of acting like this on many copies side by side."""
    problem = simulator.problem
    fleet = problem.simulator(simulator.truth, _evaluation_seed(seed))
    if not isinstance(fleet, SteppedSimulator):
        raise InputError(f"A {problem.kind} problem has no states and actions.")
    return fleet.average_cost(act, rounds, min(rounds, SETTLING_ROUNDS), CONTROLLER_COPIES)


def _random_cost(simulator: Simulator, seed: int) -> float:
    """Average cost of a new policy in each step."""
    problem = simulator.problem
    control, policies = problem.control, problem.policy_class
    chance = np.random.Generator(np.random.PCG64(seed_for("random policies", seed)))
    if control is not None:
        return _on_copies(
            simulator,
            lambda states: control.actions_of(policies.sample(chance, len(states)), states),
            SETTLING_ROUNDS,
            seed,
        )
    fresh = problem.simulator(simulator.truth, _evaluation_seed(seed))
    total, elapsed = 0.0, 0.0
    for policy in policies.sample(chance, RANDOM_STEPS).tolist():
        rollout = fresh.play(tuple(policy), 1)
        total += float(rollout.costs[0])
        elapsed += 1.0 if rollout.elapsed is None else rollout.elapsed
    return total / elapsed


def _evaluation_seed(seed: int) -> int:
    """A seed that no run has."""
    return int.from_bytes(seed_for("evaluation", seed).generate_state(4).tobytes(), "little")


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
    short = min(steps, _SEARCH_STEPS)
    points = _promising(
        simulator.problem.policy_class, lambda net: evaluate(simulator, net, short, seed).cost
    )
    found = evaluate(simulator, points, steps, seed)
    best = int(found.cost.argmin())
    return BestInClass(
        policy=tuple(map(float, points[best])),
        cost=float(found.cost[best]),
        standard_error=float(found.standard_error[best]),
        steps=steps,
        seed=seed,
    )


def _promising(policies: PolicyClass, costs: Callable[[Array], Array]) -> Array:
    """The finest net around the points that cost least on the coarser ones."""
    nets = _NETS[0] if policies.dimension == 1 else _NETS[1]
    reach = policies.extent / nets[0] or 1.0
    if policies.count(reach) <= _MOST_COARSE:
        points = policies.net(reach)
    else:
        points = policies.thinned(nets[0], reach)
    for per_axis in nets[1:]:
        nearest = points[np.argsort(costs(points), kind="stable")[:_PROMISING]]
        radius = policies.extent / per_axis or 1.0
        fine = policies.net(radius)
        points, reach = _near(fine, nearest, reach), radius
    return points


def _near(points: Array, centres: Array, reach: float) -> Array:
    """The points no parameter of which is further than the reach from one of the centres."""
    for axis, middle in enumerate(centres.T):  # most are far from all of them
        values = points[:, axis]
        points = points[(values >= middle.min() - 2 * reach) & (values <= middle.max() + 2 * reach)]
    near = np.zeros(len(points), dtype=np.bool_)
    for centre in centres:
        near |= np.abs(points - centre).max(axis=1) <= reach
    return points[near]


class _Sight:
    """What oracles are told."""

    def __init__(self, simulator: Simulator, best: Policy | None) -> None:
        self._simulator, self._best = simulator, best

    def best_policy(self) -> Policy:
        """The best policy of the class."""
        return _known_best(self._simulator) if self._best is None else self._best

    def best_in_hindsight(self, steps: int) -> Policy:
        """The best policy on the chance of the first steps of this run."""
        policies = self._simulator.problem.policy_class
        if policies.dimension > _MOST_SEARCHED and policies.count(1.0) > _MOST_COARSE:
            raise InputError(
                f"Of {policies.dimension} parameters the best policy in hindsight can't be found "
                f"by trying: the class has more than {_MOST_COARSE} policies."
            )

        def costs(net: Array) -> Array:
            return self._simulator.hindsight(net, steps)

        points = _promising(policies, costs)
        return tuple(map(float, points[costs(points).argmin()]))


def _system(simulator: Simulator) -> str:
    """What tells a system from others."""
    return json.dumps([simulator.problem.describe(), simulator.truth.table()], default=str)


def _known_best(simulator: Simulator) -> Policy:
    """The best policy of the class, found once for each system."""
    system = _system(simulator)
    with _FINDING:
        if system not in _FOUND:
            _FOUND[system] = best_in_class(simulator).policy
        return _FOUND[system]


def relative_regret(result: RunResult, best: BestInClass) -> float:
    """Regret as a share of T g*."""
    return best.share(result.average_cost - best.cost)
