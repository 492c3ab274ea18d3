"""Checks of IOPEA on a problem: exact horizon, resumable, better than random, no truth used."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, pairwise, product
from typing import Any, get_args

import numpy as np

from iopea.elimination import RULES
from iopea.errors import InputError
from iopea.learners.iopea import IOPEA, Restart
from iopea.orders.checking import some_policies
from iopea.problem_files import parse_problem, tables_of
from iopea.problems.base import Problem, Simulator
from iopea.simulate import run
from iopea.testing.tools import (
    BATCHES,
    as_toml,
    name_of,
    near,
    read_again,
    refusal,
    require,
    require_inside,
    require_same,
    stored,
    true_costs,
)
from iopea.types import Array, Trajectory, Truth

#: Numbers of steps after which a learner is saved and resumed from the file.
PARTS = (1, 1, 1, 5, 40, 353, 799)
#: Length and number of the runs that must improve on random policies.
LONG_RUN, RUNS = 6000, 3
#: Points per parameter of the learner's net.
POINTS = 12
#: Number of other truths that are tried.
OTHER_TRUTHS = 4


def _learner(problem: Problem, rule: str = "paired", restart: Restart = "none") -> IOPEA:
    radius = problem.policy_class.extent / POINTS or 1.0
    return IOPEA(problem, rule=rule, restart=restart, horizon=sum(PARTS), radius=radius)


def learner_runs(problem: Problem, truth: Truth) -> None:
    """IOPEA runs for exactly the given horizon under every rule, uninterrupted and resumed."""
    for rule, restart in product(RULES, get_args(Restart)):
        make = partial(_learner, problem, rule, restart)
        refused = refusal(make)
        if refused:
            require(
                rule != "paired" and refused[0].isupper() and refused.endswith("."),
                f"Rule {rule!r} refuses the problem: {refused}",
            )
            continue
        whole, resumed = make(), make()
        costs = _exact_run(problem, whole, problem.simulator(truth, seed=10))
        parts, system = [], problem.simulator(truth, seed=10)
        for steps in PARTS:
            before = copy.deepcopy(resumed.state_dict())
            require(resumed.ask() == resumed.ask(), "ask() must answer the same until tell().")
            require_same(resumed.state_dict(), before, "ask() must change nothing")
            parts.append(run(resumed, system, steps).costs)
            saved, there = stored(resumed.state_dict()), stored(system.state_dict())
            resumed, system = make(), problem.simulator(truth, seed=11)
            resumed.load_state_dict(saved)
            system.load_state_dict(there)
        how = f"Under rule {rule!r} with restart {restart!r}"
        require_same(
            {"costs": np.concatenate(parts), "state_dict()": resumed.state_dict()},
            {"costs": costs, "state_dict()": whole.state_dict()},
            f"{how}, a run that was saved and resumed must equal an uninterrupted one",
        )
        require(resumed.recommend() == whole.recommend(), f"{how}, recommend() must be the same.")


def _exact_run(problem: Problem, learner: IOPEA, system: Simulator) -> Array:
    """The costs of a run, whose reported results must be plausible."""
    steps = sum(PARTS)
    result = run(learner, system, steps)
    require(
        result.costs.size == learner.steps == steps and np.isfinite(result.costs).all(),
        f"A run of {steps} steps has {result.costs.size} costs; the learner says {learner.steps}.",
    )
    require_inside(problem, np.array([result.recommendation]), "recommend()")
    alpha = result.effective_alpha
    require(np.isnan(alpha) or 0 <= alpha <= 1, f"The effective α is {alpha}, not in [0, 1].")
    survivors = [each.survivors for each in result.records if each.survivors is not None]
    require(
        all(one >= other for one, other in pairwise(survivors)),
        f"Eliminated policies must not come back, but the numbers of survivors are {survivors}.",
    )
    require(result.outlook.endswith("."), f"The outlook is not a sentence: {result.outlook!r}.")
    return result.costs


def learner_improves(problem: Problem, truth: Truth) -> None:
    """Recommended policies are no worse than random policies."""
    radius = problem.policy_class.extent / POINTS or 1.0
    learned = np.array(
        [
            run(IOPEA(problem, radius=radius), problem.simulator(truth, seed), LONG_RUN)
            .recommendation
            for seed in range(RUNS)
        ]
    )  # fmt: skip
    costs = true_costs(problem, truth, np.vstack([learned, some_policies(problem)]))
    gaps = costs[:, :RUNS].mean(axis=1) - costs[:, RUNS:].mean(axis=1)
    require(
        gaps.mean() <= 0 or near(gaps, np.zeros(BATCHES), float(np.abs(costs).max())),
        f"The recommendation, {' or '.join(map(name_of, learned))}, costs {gaps.mean():.6g} more "
        "than random policies.",
    )


def truth_hidden(problem: Problem, truth: Truth) -> None:
    """The truth in a problem file affects neither the problem nor what is learned from data."""
    told: list[Trajectory] = []
    learner, system = _learner(problem), problem.simulator(truth, seed=12)
    while learner.steps < sum(PARTS):
        play = learner.ask()
        told.append(system.carry_out(play, play.steps).trajectory)
        learner.tell(told[-1])
    held = held_by(learner, (type(truth), Simulator))
    require(held is None, f"The learner holds part of the truth: {held!r}.")
    others = list(_other_truths(problem, truth))
    require(others, "No other truth could be made by changing a value in table() of the truth.")
    for again, other in (read_again(problem, truth), *others):
        where = f"the problem that was read with the truth {other.table()}"
        require(
            again == problem and again.describe() == problem.describe(),
            f"The problem must not know the truth, but {where} is another one: {again!r}.",
        )
        again.simulator(other, seed=12).play(told[0].policy, 1)  # it may have changed the problem
        also = _learner(again)
        for trajectory in told:
            require(
                also.ask().policy == trajectory.policy,
                f"Given the same data, a learner of {where} asks for another policy.",
            )
            also.tell(trajectory)
        require_same(
            {"state_dict()": also.state_dict(), "estimates()": dict(vars(also.estimates()))},
            {"state_dict()": learner.state_dict(), "estimates()": dict(vars(learner.estimates()))},
            f"Given the same data, a learner of {where} must learn the same",
        )


def _other_truths(problem: Problem, truth: Truth) -> Iterator[tuple[Problem, Truth]]:
    """The problem read again with a few other truths, each with one value changed."""
    count = 0
    for table in _changed(truth.table()):
        try:
            again, other = parse_problem(as_toml(tables_of(problem, table)))
            again.simulator(other)
        except InputError:
            continue
        if other.table() != truth.table():
            yield again, other
            count += 1
        if count == OTHER_TRUTHS:
            return


def _changed(value: Any) -> Iterator[Any]:
    """Copies with one value changed or one list reversed.

    >>> list(_changed({"mean": 2, "zeros": False}))
    [{'mean': 1, 'zeros': False}, {'mean': 3, 'zeros': False}, {'mean': 2, 'zeros': True}]
    """
    match value:
        case bool():
            yield not value
        case int():
            yield from (value - 1, value + 1)
        case float():
            yield from (0.9 * value, value + 0.1)
        case list():
            yield value[::-1]
            for number, part in enumerate(value):
                yield from ([*value[:number], new, *value[number + 1 :]] for new in _changed(part))
        case dict():
            for key, part in value.items():
                yield from ({**value, key: new} for new in _changed(part))


def held_by(root: object, kinds: tuple[type, ...]) -> object:
    """An object of these types that is reachable from another one; None if there is none.

    >>> held_by({"a": [1, (2.5, "b")]}, (float,))
    2.5
    """
    waiting, known = [root], {id(root)}
    while waiting:
        value = waiting.pop()
        if isinstance(value, kinds):
            return value
        parts: Iterable[object] = ()
        if isinstance(value, Mapping):
            parts = value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            parts = value
        elif callable(value):
            cells = getattr(value, "__closure__", None) or ()
            parts = [getattr(value, name, None) for name in ("__self__", "func", "args")]
            parts += [cell.cell_contents for cell in cells]
        else:
            slots = chain(*(getattr(each, "__slots__", ()) for each in type(value).__mro__))
            parts = [getattr(value, name, None) for name in (*slots, "__dict__")]
        for part in parts:
            if id(part) not in known:
                known.add(id(part))
                waiting.append(part)
    return None
