"""Checks of simulators: reproducible, resumable, returning to s_1, with the stated costs."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np

from iopea.orders.checking import some_policies
from iopea.problems.base import Problem, Simulator
from iopea.testing.tools import (
    BATCH_STEPS,
    BATCHES,
    ERRORS,
    SAME,
    as_policy,
    name_of,
    near,
    random,
    require,
    require_inside,
    require_same,
    stored,
    true_costs,
)
from iopea.types import Array, Policy, State, Truth

#: Number of plays of random length that are repeated, and the longest.
PLAYS, LONGEST = 5, 90
#: Most steps of a return to the initial state, and number of returns tried.
MOST_RETURN, RETURNS = 20_000, 24
#: Number of policies whose average cost in a long play is compared with ``costs()``.
LONG_PLAYS = 4


def _roll_out(system: Simulator, plays: Iterable[tuple[Policy, int]]) -> State:
    """The concatenated columns and costs of consecutive plays."""
    rollouts = [system.play(policy, steps) for policy, steps in plays]
    columns = {
        name: np.concatenate([each.trajectory[name] for each in rollouts])
        for name in system.problem.columns
    }
    return {"columns": columns, "costs": np.concatenate([each.costs for each in rollouts])}


def simulator_repeats(problem: Problem, truth: Truth) -> None:
    """The same seed gives the same bits, also in parts, and after saving and loading."""
    points, rng = some_policies(problem), random("plays")
    plays = [
        (as_policy(points[rng.integers(len(points))]), int(rng.integers(2, LONGEST)))
        for _ in range(PLAYS)
    ]
    system = problem.simulator(truth, seed=5)
    shown = system.play(*plays[0])
    require(
        shown.trajectory.policy == plays[0][0]
        and set(shown.trajectory.columns) == set(problem.columns),
        f"A trajectory must name the policy played and have the columns {problem.columns}.",
    )
    require(
        len(shown.trajectory) == shown.costs.size == plays[0][1] and np.isfinite(shown.costs).all(),
        f"A play of {plays[0][1]} steps must have one finite cost per step; it has "
        f"{shown.costs.size} costs.",
    )
    whole = _roll_out(problem.simulator(truth, seed=5), plays)
    again = problem.simulator(truth, seed=5)
    require_same(_roll_out(again, plays), whole, "The same seed must give the same")
    parts = [
        (policy, size)
        for policy, steps in plays
        for size in (1, steps // 3, steps - 1 - steps // 3)
    ]
    again = problem.simulator(truth, seed=5)
    require_same(_roll_out(again, parts), whole, "Plays of a and b steps must be one of a + b")
    state = again.state_dict()
    saved = copy.deepcopy(state)
    resumed = problem.simulator(truth, seed=6)
    resumed.load_state_dict(stored(state))
    sentence = "A loaded simulator must continue as the saved one does"
    require_same(_roll_out(resumed, plays), _roll_out(again, plays), sentence)
    require_same(state, saved, "A saved state must not change when the simulator continues")


def simulator_returns(problem: Problem, truth: Truth) -> None:
    """With ``until_start`` a play ends in the initial state, and the evaluator knows it."""
    points, rng = some_policies(problem), random("returns")
    back, system = problem.restart_policy, problem.simulator(truth, seed=7)
    follower = problem.evaluator(points)
    require(_at_start(problem, truth, system), "A fresh simulator must be in its initial state.")
    times = []
    for _ in range(RETURNS):
        policy = as_policy(points[rng.integers(len(points))])
        for steps in (*rng.integers(1, 40, 2), 1, 1, 1):
            follower.observe(system.play(policy, int(steps)).trajectory, evaluate=True)
            require(
                follower.at_start == _at_start(problem, truth, system),
                f"The evaluator says at_start = {follower.at_start}, but the simulator does not.",
            )
        twin = _twin(problem, truth, system)
        way = system.play(back, MOST_RETURN, until_start=True)
        steps = way.costs.size
        require_same(
            {**_roll_out(twin, [(back, steps)]), "state_dict()": twin.state_dict()},
            {
                "columns": dict(way.trajectory.columns),
                "costs": way.costs,
                "state_dict()": system.state_dict(),
            },
            f"A return that ended after {steps} steps must equal a play of as many steps",
        )
        follower.observe(way.trajectory, evaluate=False)
        require(
            steps == MOST_RETURN or (follower.at_start and _at_start(problem, truth, system)),
            f"A return that ended after {steps} steps must have led to the initial state.",
        )
        times.append(steps)
    bound, error = system.restart_time(), float(np.std(times, ddof=1)) / len(times) ** 0.5
    require(
        0 <= np.mean(times) <= bound + ERRORS * error + SAME,
        f"The restart time is given as {bound:g}, but {np.mean(times):g} steps were needed on "
        f"average (standard error {error:.2g}).",
    )


def _twin(problem: Problem, truth: Truth, system: Simulator) -> Simulator:
    twin: Simulator = problem.simulator(truth, seed=8)
    twin.load_state_dict(copy.deepcopy(system.state_dict()))
    return twin


def _at_start(problem: Problem, truth: Truth, system: Simulator) -> bool:
    """Whether a return would take no step; the simulator is not changed."""
    twin = _twin(problem, truth, system)
    return not twin.play(problem.restart_policy, 1, until_start=True).costs.size


def simulator_costs(problem: Problem, truth: Truth) -> None:
    """True costs agree with the costs of long plays, and computing them changes nothing."""
    points = some_policies(problem)
    system = problem.simulator(truth, seed=9)
    before = copy.deepcopy(system.state_dict())
    costs = system.costs(points, BATCHES * BATCH_STEPS, BATCHES, seed=1)
    require_same(system.state_dict(), before, "Calling costs() must not change the simulator")
    require(
        costs.sums.shape == (BATCHES, len(points)) and costs.sizes.shape == (BATCHES,),
        f"Costs of {len(points)} policies in {BATCHES} batches have sums of shape "
        f"{costs.sums.shape} and sizes of shape {costs.sizes.shape}.",
    )
    true = true_costs(problem, truth, points)
    scale = float(np.abs(true).max())
    backwards = true_costs(problem, truth, points[::-1])[:, ::-1]
    require(
        np.allclose(true, costs.sums / costs.sizes[:, None], rtol=0, atol=SAME * scale)
        and np.allclose(true, backwards, rtol=0, atol=SAME * scale),
        "Costs on common noise must depend only on the seed given to costs(): not on the "
        "simulator's, nor on which other policies are evaluated.",
    )
    for number in np.unique(np.linspace(0, len(points) - 1, LONG_PLAYS).round().astype(int)):
        played = _long_play(system, as_policy(points[number]))
        require(
            near(played, true[:, number], scale),
            f"By costs() {name_of(points[number])} costs {true[:, number].mean():.6g} per step, "
            f"but {played.mean():.6g} in {BATCHES * BATCH_STEPS} steps that were played.",
        )


def _long_play(system: Simulator, policy: Policy) -> Array:
    """Batch averages whose mean is total cost over total time, also if steps differ in length."""
    system.play(policy, BATCH_STEPS)  # warm-up
    rollouts = [system.play(policy, BATCH_STEPS) for _ in range(BATCHES)]
    costs = np.array([each.costs.sum() for each in rollouts])
    times = np.array([BATCH_STEPS if each.elapsed is None else each.elapsed for each in rollouts])
    average = costs.sum() / times.sum()
    return np.asarray(average + (costs - average * times) / times.mean())


def simulator_optimum(problem: Problem, truth: Truth) -> None:
    """If ``optimum()`` returns a policy, its cost is right, and no other policy costs less."""
    exact = problem.simulator(truth).optimum()
    if exact is None:
        return
    policy, cost = exact
    require_inside(problem, np.array([policy]), "optimum()")
    points = np.vstack([policy, some_policies(problem)])
    true = true_costs(problem, truth, points)
    scale = float(np.abs(true).max())
    require(
        near(np.full(BATCHES, cost), true[:, 0], scale),
        f"By optimum() the best policy costs {cost:.6g}, but {true[:, 0].mean():.6g} by costs().",
    )
    for point, gaps in zip(points, (true - true[:, :1]).T, strict=True):
        require(
            gaps.mean() >= 0 or near(gaps, np.zeros(BATCHES), scale),
            f"By costs() {name_of(point)} costs {-gaps.mean():.6g} less than optimum().",
        )
