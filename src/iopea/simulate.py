"""The loop over time: a learner asks, a simulator plays, and the learner gets the trajectory.

:func:`run` is that loop, :func:`best_in_class` finds the best policy, and :func:`compare_to_best`
compares a run with it.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from iopea.errors import InputError, shown
from iopea.learners.base import Learner, first_difference
from iopea.learners.baselines.optimal import Optimal
from iopea.model import check_count, check_kind, check_seed
from iopea.policies import PolicyClass
from iopea.problems.base import (
    PolicyController,
    Problem,
    Simulator,
    as_policies,
    sound_estimates,
)
from iopea.problems.stepped import SteppedSimulator
from iopea.seeds import seed_for
from iopea.types import (
    Array,
    Controller,
    Policy,
    Randomised,
    Recommendation,
    RunResult,
    show_policy,
)

Key = TypeVar("Key")
Result = TypeVar("Result")

#: Called after each play with the learner and the steps taken so far.
Watcher = Callable[[Learner, int], None]

#: Longest run: the cost of each step is kept in memory.
MOST_STEPS = 10**9
#: Most threads or processes.
MOST_WORKERS = 4096
#: Steps and batches of the sample path on which policies are compared.
EVALUATION_STEPS = 8_000_000
EVALUATION_BATCHES = 64
#: Copies of the system on which a controller is evaluated, and steps of each copy where policies
#: are compared on a path of ``EVALUATION_STEPS``.
CONTROLLER_COPIES, CONTROLLER_ROUNDS = 2048, 2000
#: Least number of steps of each copy where the path is shorter, and longest warm-up period.
SETTLING_ROUNDS = 500
#: Steps on which random policies are evaluated where copies can't be simulated.
RANDOM_STEPS = 200_000
#: Steps of the first, coarse search for the best policy.
_SEARCH_STEPS = 400_000
#: Points per parameter of the successively finer nets: for one parameter, two, and more.
_NETS = ((512, 4096), (64, 256, 1024), (20, 80, 320, 1280))
#: Largest size of the first net; a larger one is thinned.
_MOST_COARSE = 2**13
#: Largest size of the last net; of a larger one, the best points on the short path are taken.
_MOST_FINE = 2**10
#: Number of best points around which the next finer net is searched.
_PROMISING = 9
#: Largest number of parameters of a class that is searched by nets.
_MOST_SEARCHED = 3
#: A best cost up to this size counts as 0.
_NOTHING = 1e-12
#: The best policies found for oracles, by system.
_FOUND: dict[str, Policy] = {}
_FINDING = threading.Lock()
#: Costs of best policies on copies, by system, policy, rounds and seed.
_LEVELS: dict[tuple[str, Policy, int, int], float] = {}


def run(
    learner: Learner,
    simulator: Simulator,
    steps: int,
    watch: Watcher | None = None,
    best: Policy | None = None,
) -> RunResult:
    """Let a learner play for exactly ``steps`` steps.

    Two runs in a row with the same learner and simulator give the same bits as one run of both
    lengths together.

    Parameters
    ----------
    learner : Learner.
    simulator : Simulator. The true system.
    steps : int. [T]
    watch : callable, optional. Called after each play with the learner and the steps so far.
    best : policy, optional. The best policy of the class, for oracles; searched for if not given.

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
    check_kind("The learner", learner, Learner)
    check_kind("The simulator", simulator, Simulator)
    steps = check_count("The horizon", steps, most=MOST_STEPS)
    if watch is not None and not callable(watch):
        raise InputError(f"watch is {shown(watch)}: give a function of the learner and the steps.")
    best = None if best is None else simulator.problem.as_policy(best, "best policy")
    if not hasattr(learner, "problem"):
        raise InputError(
            f"The learner {learner.name!r} has no problem: call super().__init__(problem, horizon, "
            "seed) in its __init__."
        )
    _check_same(learner.problem, simulator.problem)
    if learner.oracle:
        learner.see(_TrueSystem(simulator, best))
    costs = np.empty(steps)
    done, elapsed = 0, 0.0
    while done < steps:
        play = learner.ask()
        rollout = simulator.carry_out(play, steps - done)
        if not rollout.costs.size:
            raise InputError(
                "The simulator is in its initial state, but the learner is still returning to it: "
                "continue with the simulator that the learner has been playing on."
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
        recommendation=_recommended(learner),
        stop=learner.stop,
        outlook=learner.outlook,
        survivors=learner.survivors,
        effective_alpha=learner.effective_alpha,
        records=learner.records,
    )


def _recommended(learner: Learner) -> Recommendation:
    """What a learner recommends: a policy of the class, or something else that can be evaluated."""
    choice: object = learner.recommend()
    if isinstance(choice, Controller | Randomised):
        return choice
    if isinstance(choice, tuple) and learner.problem.policy_class.contains(choice):
        return choice
    raise InputError(
        f"The learner {learner.name!r} recommends {shown(choice)}: recommend() returns a policy of "
        "the class as a tuple of numbers, a Controller or Randomised()."
    )


def _check_same(mine: Problem, true: Problem) -> None:
    """Refuse a learner and a simulator of different systems or policies."""
    if (mine.system, mine.family) == (true.system, true.family):
        return
    where, one, other = first_difference("problem", mine.describe(), true.describe())
    differ = f"{where} is {shown(one)} for the learner and {shown(other)} for the simulator"
    raise InputError(
        "The learner and the simulator are of different problems"
        + (f": {differ}." if one != other else ": their functions differ.")
        + " To see what a wrong model does, ask, play and tell in a loop of your own."
    )


def run_all(task: Callable[[Key], Result], keys: Iterable[Key], workers: int = 1) -> list[Result]:
    """Apply a task to each key on several threads; the results are in the order of the keys."""
    workers = check_count("workers", workers, most=MOST_WORKERS)
    if not callable(task):
        raise InputError(f"The task is {shown(task)}: give a function of one key.")
    try:
        keys = list(keys)
    except TypeError:
        raise InputError(f"The keys are {shown(keys)}: give a list.") from None
    pool = ThreadPoolExecutor(workers)
    try:
        return list(pool.map(task, keys))
    finally:
        # After an error or an interrupt, tasks that have not started are cancelled.
        pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Evaluation:
    """Average true costs of policies under common noise.

    Attributes
    ----------
    policies : array (n, d).
    cost : array (n,). Average cost per step.
    standard_error : array (n,). Standard error of each average, by batch means.
    """

    policies: Array
    cost: Array
    standard_error: Array


def evaluate(
    simulator: Simulator, policies: Array, steps: int = EVALUATION_STEPS, seed: int = 0
) -> Evaluation:
    """Average costs of policies by one long simulation with common random numbers."""
    check_kind("The simulator", simulator, Simulator)
    points = as_policies(policies)
    parameters = simulator.problem.policy_class.dimension
    if not len(points):
        raise InputError("There are no policies to evaluate: give at least one.")
    if points.shape[1] != parameters:
        raise InputError(
            f"The policies have {points.shape[1]} parameters, but those of a "
            f"{simulator.problem.kind} problem have {parameters} here: give rows of {parameters}."
        )
    simulator.problem.check_policies(points)
    steps = check_count("steps", steps, EVALUATION_BATCHES, MOST_STEPS)
    return evaluate_any(simulator, points, steps, check_seed(seed))


def evaluate_any(simulator: Simulator, points: Array, steps: int, seed: int) -> Evaluation:
    """:func:`evaluate` for an array (n, d) that need not be checked, nor be of the class."""
    found = simulator.costs(points, steps, EVALUATION_BATCHES, seed)
    estimates = sound_estimates(simulator, "costs", found, len(points))
    unknown = np.flatnonzero(np.isnan(estimates.sums).any(axis=0))
    if unknown.size:
        raise InputError(
            f"{type(simulator).__name__}.costs gives nan for policy "
            f"{show_policy(tuple(points[unknown[0]]))}: each cost must be a number."
        )
    per_batch = estimates.sums / estimates.sizes[:, None]
    error = per_batch.std(axis=0, ddof=1) / np.sqrt(len(per_batch))
    return Evaluation(points, per_batch.mean(axis=0), error)


@dataclass(frozen=True)
class BestInClass:
    """The best policy of the class, its cost and the standard error of that cost [θ*, g*].

    ``steps`` and ``seed`` are those of the path on which it was found.
    """

    policy: Policy
    cost: float
    standard_error: float
    steps: int
    seed: int

    def relative_gaps(self, simulator: Simulator, choices: Sequence[Recommendation]) -> Array:
        """Extra cost per step over the best policy, divided by g*."""
        return np.array([self.share(gap) for gap in self.gaps(simulator, choices)])

    def gaps(self, simulator: Simulator, choices: Sequence[Recommendation]) -> Array:
        """Extra cost per step over the best policy.

        Policies and compiled controllers are evaluated on the path on which the best policy was
        found. Other controllers are evaluated on many copies of the system and compared with the
        best policy on the same copies.
        """
        check_kind("The simulator", simulator, Simulator)
        if not isinstance(choices, list | tuple | np.ndarray):
            raise InputError(f"The choices are {shown(choices)}: give a list of recommendations.")
        choices = [self._checked(choice, simulator.problem) for choice in choices]
        control = simulator.problem.control
        if control is not None:
            choices = [_as_policy_if_possible(choice, simulator.problem) for choice in choices]
        different = list(dict.fromkeys(choices))
        gaps: dict[Recommendation, float] = {self.policy: 0.0}
        policies = [
            choice for choice in different if isinstance(choice, tuple) and choice not in gaps
        ]
        if policies:
            costs = evaluate_any(simulator, np.array(policies), self.steps, self.seed).cost
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

    def _checked(self, choice: object, problem: Problem) -> Recommendation:
        """What can be compared: a policy of the class, a controller, or policies at random."""
        if isinstance(choice, Controller | Randomised):
            return choice
        if isinstance(choice, tuple) and choice == self.policy:
            return choice
        return problem.as_policy(cast(Policy, choice))

    def _gap_on_copies(self, simulator: Simulator, controller: Controller) -> float:
        """Extra cost per step of a controller, estimated on copies of the system."""
        least = min(SETTLING_ROUNDS, CONTROLLER_ROUNDS)
        rounds = max(CONTROLLER_ROUNDS * self.steps // EVALUATION_STEPS, least)
        cost = evaluate_controller(simulator, controller, rounds, self.seed)
        key = (_system(simulator), self.policy, rounds, self.seed)
        control = simulator.problem.control
        if key not in _LEVELS and control is not None:
            best = PolicyController(simulator.problem, self.policy)
            _LEVELS[key] = evaluate_controller(simulator, best, rounds, self.seed)
        return cost - _LEVELS[key]

    def share(self, cost: float) -> float:
        """A cost divided by |g*|; NaN where that is 0."""
        return float(cost / abs(self.cost)) if abs(self.cost) > _NOTHING else math.nan


def _as_policy_if_possible(choice: Recommendation, problem: Problem) -> Recommendation:
    """The policy of the class that is equivalent to a controller, if there is one."""
    if not isinstance(choice, Controller):
        return choice
    if isinstance(choice, PolicyController) and choice.problem == problem:
        inside = problem.system.holds_stock or problem.policy_class.contains(choice.policy)
        if inside:
            return choice.policy
    policy: Policy | None = problem.control.as_policy(choice)
    return choice if policy is None else policy


def evaluate_controller(
    simulator: Simulator, controller: Controller, rounds: int = CONTROLLER_ROUNDS, seed: int = 0
) -> float:
    """Average cost of a controller over many copies of the system.

    A warm-up period from the initial state towards the stationary distribution is left out.
    """
    rounds = check_count("rounds", rounds, least=2)
    return _on_copies(simulator, controller.act, rounds, seed)


def _on_copies(
    simulator: Simulator, act: Callable[[Array], Array], rounds: int, seed: int
) -> float:
    """Average cost over many copies of the system, with actions chosen by ``act``."""
    problem = simulator.problem
    fleet = problem.simulator(simulator.truth, _evaluation_seed(seed))
    if not isinstance(fleet, SteppedSimulator):
        raise InputError(f"A {problem.kind} problem has no states and actions to control.")
    return fleet.average_cost(act, rounds, min(rounds, SETTLING_ROUNDS), CONTROLLER_COPIES)


def _random_cost(simulator: Simulator, seed: int) -> float:
    """Average cost of drawing a new policy in each step."""
    problem = simulator.problem
    control, policies = problem.control, problem.policy_class
    rng = np.random.Generator(np.random.PCG64(seed_for("random policies", seed)))
    if control is not None:
        return _on_copies(
            simulator,
            lambda states: control.actions_of(policies.sample(rng, len(states)), states),
            SETTLING_ROUNDS,
            seed,
        )
    fresh = problem.simulator(simulator.truth, _evaluation_seed(seed))
    total, elapsed = 0.0, 0.0
    for policy in policies.sample(rng, RANDOM_STEPS).tolist():
        rollout = fresh.play(tuple(policy), 1)
        total += float(rollout.costs[0])
        elapsed += 1.0 if rollout.elapsed is None else rollout.elapsed
    return total / elapsed


def _evaluation_seed(seed: int) -> int:
    """A seed that no run uses."""
    return int.from_bytes(seed_for("evaluation", seed).generate_state(4).tobytes(), "little")


def best_in_class(
    simulator: Simulator, steps: int = EVALUATION_STEPS, seed: int = 0
) -> BestInClass:
    """Find the best policy of the class with full knowledge of the system.

    If the system has no exact solution, a coarse net is searched on a short path, then
    successively finer nets around the best points of the net before, the last on a long path.
    """
    exact = check_kind("The simulator", simulator, Simulator).optimum()
    steps = check_count("steps", steps, EVALUATION_BATCHES, MOST_STEPS)
    seed = check_seed(seed)
    if exact is not None:
        return BestInClass(exact[0], exact[1], 0.0, steps, seed)
    short = min(steps, _SEARCH_STEPS)
    points = _promising(
        simulator.problem.policy_class, lambda net: evaluate_any(simulator, net, short, seed).cost
    )
    found = evaluate_any(simulator, points, steps, seed)
    best = int(found.cost.argmin())
    return BestInClass(
        policy=tuple(map(float, points[best])),
        cost=float(found.cost[best]),
        standard_error=float(found.standard_error[best]),
        steps=steps,
        seed=seed,
    )


def _promising(policies: PolicyClass, costs: Callable[[Array], Array]) -> Array:
    """The points of the finest net around the best points of the coarser ones."""
    nets = _NETS[min(policies.dimension, len(_NETS)) - 1]
    reach = policies.extent / nets[0] or 1.0
    if policies.count(reach) <= _MOST_COARSE:
        points = policies.net(reach)
    else:
        points = policies.thinned(nets[0], reach)
    for per_axis in nets[1:]:
        nearest = points[np.argsort(costs(points), kind="stable")[:_PROMISING]]
        radius = policies.extent / per_axis or 1.0
        points, reach = policies.near(nearest, reach, radius), radius
    if len(points) > _MOST_FINE:
        points = points[np.argsort(costs(points), kind="stable")[:_MOST_FINE]]
    return points


class _TrueSystem:
    """The access to the true system that oracles get."""

    def __init__(self, simulator: Simulator, best: Policy | None) -> None:
        self._simulator, self._best = simulator, best

    def best_policy(self) -> Policy:
        """The best policy of the class."""
        return _known_best(self._simulator) if self._best is None else self._best

    def best_in_hindsight(self, steps: int) -> Policy:
        """The policy with the lowest cost under the noise of the first steps of this run."""
        policies = self._simulator.problem.policy_class
        if policies.dimension > _MOST_SEARCHED and policies.count(1.0) > _MOST_COARSE:
            raise InputError(
                f"Cannot search for the best policy in hindsight: the class has "
                f"{policies.dimension} parameters and more than {_MOST_COARSE} policies."
            )

        def costs(net: Array) -> Array:
            return self._simulator.hindsight(net, steps)

        points = _promising(policies, costs)
        return tuple(map(float, points[costs(points).argmin()]))


def _system(simulator: Simulator) -> str:
    """The identity of a system: its problem and its truth."""
    problem = {key: value for key, value in simulator.problem.describe().items() if key != "start"}
    return json.dumps([problem, simulator.truth.table()], default=str)


def _known_best(simulator: Simulator) -> Policy:
    """The best policy of the class, searched for once per system."""
    system = _system(simulator)
    with _FINDING:
        if system not in _FOUND:
            _FOUND[system] = best_in_class(simulator).policy
        return _FOUND[system]


@dataclass(frozen=True)
class ComparedRun:
    """A run up to some step, compared with the best policy of the class.

    Attributes
    ----------
    steps : int. [T]
    elapsed : float. Elapsed time, in the unit to which the average cost refers: the number of
        steps, unless steps differ in length.
    average_cost : float. True cost of the run per unit of time.
    best_average_cost : float. The same of the best policy of the class, on the same noise.
    recommendation : policy or controller. What the learner recommends after these steps.
    survivors : int, optional. Policies that may still be the best.
    gap : float. Extra long-run cost per step of the recommendation over the best policy.
    best : BestInClass.
    """

    steps: int
    elapsed: float
    average_cost: float
    best_average_cost: float
    recommendation: Recommendation
    survivors: int | None
    gap: float
    best: BestInClass

    @property
    def cost(self) -> float:
        """Long-run cost per step of the recommendation."""
        return self.best.cost + self.gap

    @property
    def relative_gap(self) -> float:
        """The gap divided by g*."""
        return self.best.share(self.gap)

    @property
    def regret(self) -> float:
        """Extra cost of the run over the best policy of the class on the same noise."""
        return self.elapsed * (self.average_cost - self.best_average_cost)

    @property
    def relative_regret(self) -> float:
        """Regret divided by T g*."""
        return self.best.share(self.average_cost - self.best_average_cost)


def compare_to_best(
    learner: Learner,
    simulator: Simulator,
    steps: int,
    best: BestInClass | None = None,
    watch: Watcher | None = None,
) -> ComparedRun:
    """Let a learner play, and compare the run and its recommendation with the best policy.

    Parameters
    ----------
    learner : Learner.
    simulator : Simulator. The true system.
    steps : int. [T]
    best : BestInClass, optional. Searched for if not given.
    watch : callable, optional. Called after each play with the learner and the steps so far.

    Examples
    --------
    >>> from iopea import IOPEA, LostSales
    >>> from iopea.demand import Poisson
    >>> shop = LostSales(lead_time=1, holding_cost=1, lost_sales_cost=9,
    ...                  levels={"low": 0, "high": 20, "step": 1})
    >>> found = compare_to_best(IOPEA(shop), shop.simulator(Poisson(mean=3), seed=1), 5000)
    >>> found.recommendation, found.relative_gap, found.relative_regret < 0.2
    ((9.0,), 0.0, True)
    """
    return compare_at(learner, simulator, (steps,), best, watch)[0]


def compare_at(
    learner: Learner,
    simulator: Simulator,
    horizons: Sequence[int],
    best: BestInClass | None = None,
    watch: Watcher | None = None,
    twin: Simulator | None = None,
) -> list[ComparedRun]:
    """:func:`compare_to_best` at several horizons of one run, in increasing order.

    The best policy is played on ``twin``, by default a copy of the simulator with its state.
    """
    best = best_in_class(simulator) if best is None else best
    twin = _copy(simulator) if twin is None else twin
    stages = list(_stages(learner, simulator, horizons, best.policy, watch))
    return _compared(simulator, best, stages, [*_of_best(twin, horizons, best.policy)])


def compare_runs(
    results: Sequence[RunResult], simulators: Sequence[Simulator], best: BestInClass
) -> list[ComparedRun]:
    """:func:`compare_to_best` for finished runs, whose recommendations are evaluated together.

    Parameters
    ----------
    results : sequence of RunResult. At least one.
    simulators : sequence of Simulator. As they were before each run: the best policy plays on them.
    best : BestInClass.
    """
    stages = [
        _Stage(result.costs.size, result.elapsed, result.average_cost, result) for result in results
    ]
    theirs = [
        its
        for stage, simulator in zip(stages, simulators, strict=True)
        for its in _of_best(simulator, (stage.steps,), best.policy)
    ]
    return _compared(simulators[0], best, stages, theirs)


def regret_at(
    learner: Learner,
    simulator: Simulator,
    horizons: Sequence[int],
    best: Policy | None = None,
) -> list[float]:
    """Regret at several horizons of one run, without evaluating what is recommended.

    Parameters
    ----------
    learner : Learner.
    simulator : Simulator. The true system.
    horizons : sequence of int. Steps after which regret is measured; the last ends the run [T].
    best : policy, optional. Searched for if not given.
    """
    both = (
        _of_best(_copy(simulator), horizons, best),
        _stages(learner, simulator, horizons, best),
    )
    return [
        mine.elapsed * (mine.average_cost - its.average_cost)
        for its, mine in zip(*both, strict=True)
    ]


def _copy(simulator: Simulator) -> Simulator:
    """A simulator of the same system, in the same state, with the same noise to come."""
    other: Simulator = simulator.problem.simulator(simulator.truth, simulator.seed)
    other.load_state_dict(simulator.state_dict())
    return other


def _of_best(
    simulator: Simulator, horizons: Sequence[int], best: Policy | None
) -> Iterator[_Stage]:
    """A run of the best policy of the class."""
    return _stages(Optimal(simulator.problem), simulator, horizons, best)


@dataclass(frozen=True)
class _Stage:
    """A run up to some step; ``result`` covers the steps since the previous stage."""

    steps: int
    elapsed: float
    average_cost: float
    result: RunResult


def _stages(
    learner: Learner,
    simulator: Simulator,
    horizons: Sequence[int],
    best: Policy | None,
    watch: Watcher | None = None,
) -> Iterator[_Stage]:
    """One run, interrupted after each of the horizons."""
    done, total, elapsed = 0, 0.0, 0.0
    for horizon in horizons:
        if horizon <= done:
            raise InputError(f"Horizons must increase, not go from {done} to {horizon} steps.")
        before = done

        def watch_all(learner: Learner, steps: int, before: int = before) -> None:
            if watch is not None:
                watch(learner, before + steps)

        result = run(learner, simulator, horizon - done, watch_all, best)
        total, elapsed, done = total + float(result.costs.sum()), elapsed + result.elapsed, horizon
        yield _Stage(horizon, elapsed, total / elapsed, result)


def _compared(
    simulator: Simulator, best: BestInClass, stages: Sequence[_Stage], theirs: Sequence[_Stage]
) -> list[ComparedRun]:
    """Compare all stages with those of the best policy; recommendations share one path."""
    fresh = simulator.problem.simulator(simulator.truth)
    gaps = best.gaps(fresh, [stage.result.recommendation for stage in stages])
    return [
        ComparedRun(
            steps=stage.steps,
            elapsed=stage.elapsed,
            average_cost=stage.average_cost,
            best_average_cost=its.average_cost,
            recommendation=stage.result.recommendation,
            survivors=stage.result.survivors,
            gap=gap,
            best=best,
        )
        for stage, its, gap in zip(stages, theirs, gaps.tolist(), strict=True)
    ]
