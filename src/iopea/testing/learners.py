"""Contract checks of learners, on every problem that a learner fits.

A check takes a learner's class, a problem and its truth, and raises a :class:`ContractError`
with a sentence. It uses no learner by name::

    @pytest.mark.parametrize("check", LEARNER_CHECKS, ids=lambda check: check.__name__)
    def test_contract(check):
        check(MyLearner, *LostSales.example())
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from iopea.learners.base import Learner
from iopea.problems.base import Problem, Simulator
from iopea.simulate import run
from iopea.testing.learning import held_by
from iopea.testing.tools import (
    ContractError,
    random,
    refusal,
    require,
    require_inside,
    require_same,
    stored,
)
from iopea.types import Controller, Recommendation, State, Trajectory, Truth

LearnerCheck = Callable[[type[Learner], Problem, Any], None]

#: Numbers of steps after which a learner is saved and resumed from the file.
PARTS = (1, 1, 6, 40, 353, 1, 598)
#: Steps of the run that is told in pieces, and the longest piece.
TOLD, LONGEST = 700, 90


def _settings(learner: type[Learner]) -> dict[str, Any]:
    """A horizon and a seed, which every learner must take."""
    names = set(inspect.signature(learner).parameters)
    require(
        {"horizon", "seed"} <= names,
        f"{learner.name} must take a horizon and a seed, but takes {', '.join(sorted(names))}.",
    )
    return {"horizon": sum(PARTS), "seed": 5}


def keeps_its_state(learner: type[Learner], problem: Problem, truth: Truth) -> None:
    """What ``saved`` names is all that changes: loaded into another one, it goes on the same."""
    one, other = (learner(problem, **_settings(learner)) for _ in range(2))
    require(hasattr(one, "problem"), f"{learner.__name__} must call super().__init__().")
    if learner.oracle:  # a resumed oracle has not received the truth again
        return
    require(one.ask() == one.ask(), "ask() must answer the same until tell().")
    run(one, problem.simulator(truth, seed=10), 333)
    advice = "is everything that changes named in `saved`, and made anew by __init__?"
    try:
        other.load_state_dict(stored(one.state_dict()))
        same = other.ask() == one.ask()
    except Exception as error:
        raise ContractError(
            f"The state that {learner.name} saved can't be used by another one "
            f"({type(error).__name__}: {error}): {advice}"
        ) from error
    require(
        same, f"After loading, {learner.name} asks for {other.ask()}, not {one.ask()}: {advice}"
    )


def states_its_settings(learner: type[Learner], problem: Problem, truth: Truth) -> None:
    """``settings`` are JSON values, with the horizon and the seed."""
    given = _settings(learner)
    said: object = learner(problem, **given).settings()
    try:
        same = isinstance(said, dict) and json.loads(json.dumps(said, allow_nan=False)) == said
    except (TypeError, ValueError):
        same = False
    require(
        same and isinstance(said, dict) and given.items() <= said.items(),
        f"{learner.__name__}.settings returns {said!r}: it must return a table of JSON values with "
        "those of super().settings(), which are the horizon and the seed.",
    )


def asks_the_same(learner: type[Learner], problem: Problem, truth: Truth) -> None:
    """``ask`` changes nothing, and neither does a ``tell`` that is refused."""
    one = learner(problem, **_settings(learner))
    system = problem.simulator(truth, seed=10)
    run(one, system, 37)  # the runner has given the truth to an oracle by now
    before = copy.deepcopy(one.state_dict())
    play = one.ask()
    require(play == one.ask(), "ask() must answer the same until tell().")
    require(play.steps >= 1, f"ask() must ask for at least 1 step, not {play.steps}.")
    require_same(one.state_dict(), before, "ask() must change nothing")
    rollout = system.carry_out(play, play.steps if play.steps < LONGEST else LONGEST)
    columns = rollout.trajectory.columns
    wrong = [Trajectory(play.policy, **{name: [] for name in list(columns)[:-1]})]
    if play.steps < LONGEST and not learner.takes_any:
        longer = {name: np.append(values, values[-1:]) for name, values in columns.items()}
        wrong.append(Trajectory(play.policy, **longer))
    if not isinstance(play.policy, Controller):
        # A policy outside the class: some learners take data of all policies in it.
        outside = 2 * problem.policy_class.bound + 1
        wrong.append(Trajectory([value + outside for value in play.policy], **columns))
    elif problem.control is not None:
        for name in (*problem.control.states, *problem.control.actions):
            below = {**columns, name: np.append(columns[name][:-1], -5.0)}
            wrong.append(Trajectory(play.policy, **below))
    for trajectory in wrong:
        said = refusal(lambda told=trajectory: one.tell(told))  # type: ignore[misc]
        require(said.endswith("."), "A trajectory that was not asked for must be refused.")
    one.tell(Trajectory(play.policy, **{name: [] for name in columns}))
    require_same(
        one.state_dict(), before, "A refused tell(), and an empty one, must change nothing"
    )
    one.tell(rollout.trajectory)


def runs_exactly(learner: type[Learner], problem: Problem, truth: Truth) -> None:
    """A run has exactly the given horizon, and resuming from saved states changes no bit."""
    settings = _settings(learner)
    whole, resumed = learner(problem, **settings), learner(problem, **settings)
    result = run(whole, problem.simulator(truth, seed=10), sum(PARTS))
    require(
        result.costs.size == whole.steps == sum(PARTS) and np.isfinite(result.costs).all(),
        f"A run of {sum(PARTS)} steps has {result.costs.size} costs; the learner says "
        f"{whole.steps}.",
    )
    require(result.outlook.endswith("."), f"The outlook is not a sentence: {result.outlook!r}.")
    parts, system = [], problem.simulator(truth, seed=10)
    for steps in PARTS:
        parts.append(run(resumed, system, steps).costs)
        saved, there = stored(resumed.state_dict()), stored(system.state_dict())
        resumed, system = learner(problem, **settings), problem.simulator(truth, seed=10)
        resumed.load_state_dict(saved)
        system.load_state_dict(there)
    require_same(
        {"costs": np.concatenate(parts), "state_dict()": resumed.state_dict()},
        {"costs": result.costs, "state_dict()": whole.state_dict()},
        "A run that was saved and resumed must equal an uninterrupted one",
    )
    if not learner.oracle:  # a resumed oracle has not received the truth again
        _same_choice(resumed.recommend(), result.recommendation, problem)


def _same_choice(one: Recommendation, other: Recommendation, problem: Problem) -> None:
    if isinstance(one, tuple):
        require_inside(problem, np.array([one]), "recommend()")
    if isinstance(one, Controller) and isinstance(other, Controller) and problem.control:
        states = problem.control.highest_state * random("states").random((20, 1))
        if problem.control.whole:
            states = np.floor(states)
        one_acts, other_acts = one.act(states), other.act(states)
        problem.control.check(states, one_acts)
        require(
            np.array_equal(one_acts, other_acts) and one.table() == other.table(),
            f"A resumed learner recommends {one}, which does not act like {other}.",
        )
        return
    require(
        one == other,
        f"A resumed learner recommends {one}, but after an uninterrupted run {other}.",
    )


def told_in_pieces(learner: type[Learner], problem: Problem, truth: Truth) -> None:
    """A learner ends in the same state however its data is split into ``tell`` calls."""
    settings = _settings(learner)
    whole, pieces = learner(problem, **settings), learner(problem, **settings)
    if learner.oracle:  # it learns from the truth, not from trajectories
        return
    system, rng = problem.simulator(truth, seed=11), random("pieces")
    while whole.steps < TOLD:
        play = whole.ask()
        trajectory = system.carry_out(play, TOLD - whole.steps).trajectory
        whole.tell(trajectory)
        first = 0
        while first < len(trajectory):
            last = min(first + int(rng.integers(1, LONGEST)), len(trajectory))
            part = {name: values[first:last] for name, values in trajectory.columns.items()}
            pieces.tell(Trajectory(pieces.ask().policy, **part))
            first = last
    require_same(
        pieces.state_dict(), whole.state_dict(), "Told in pieces, a learner must learn the same"
    )


def same_seed_same_run(learner: type[Learner], problem: Problem, truth: Truth) -> None:
    """Two runs with the same seed are the same."""
    settings = _settings(learner)
    states = []
    for _ in range(2):
        one = learner(problem, **settings)
        costs = run(one, problem.simulator(truth, seed=12), 300).costs
        states.append({"costs": costs, "state_dict()": one.state_dict()})
    require_same(states[0], states[1], "Two runs with the same seed must be the same")


def holds_no_truth(learner: type[Learner], problem: Problem, truth: Truth) -> None:
    """A learner that is not an oracle holds no part of the truth, and accepts none."""
    if learner.oracle:
        return
    one = learner(problem, **_settings(learner))
    run(one, problem.simulator(truth, seed=13), 300)
    held = held_by(one, (type(truth), Simulator))
    require(held is None, f"The learner holds part of the truth: {held!r}.")
    said = refusal(lambda: one.see(None))  # type: ignore[arg-type]
    require(said.endswith("."), f"{learner.name} is not an oracle, but accepts the truth.")


def refuses_states_of_others(learner: type[Learner], problem: Problem, truth: Truth) -> None:
    """A state with other settings, or a damaged one, is refused and changes nothing."""
    settings = _settings(learner)
    one = learner(problem, **settings)
    run(one, problem.simulator(truth, seed=14), 100)
    before = copy.deepcopy(one.state_dict())
    foreign: list[State] = [{**before, "learner": "another"}, {**before, "settings": {}}]
    if before["state"]:
        foreign.append({**before, "state": {}})
    for state in foreign:
        said = refusal(lambda given=state: one.load_state_dict(given))  # type: ignore[misc]
        require(said.startswith("Cannot load"), "A state that does not fit must be refused.")
    require_same(one.state_dict(), before, "A refused state must change nothing")


#: All checks of a learner.
LEARNER_CHECKS: tuple[LearnerCheck, ...] = (
    keeps_its_state,
    states_its_settings,
    asks_the_same,
    runs_exactly,
    told_in_pieces,
    same_seed_same_run,
    holds_no_truth,
    refuses_states_of_others,
)


def check_learner(learner: type[Learner], problem: Problem, truth: Truth) -> None:
    """Run all checks of a learner on a problem; the first that fails is raised."""
    for check in LEARNER_CHECKS:
        check(learner, problem, truth)
