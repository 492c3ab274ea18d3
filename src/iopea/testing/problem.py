"""Checks of a problem's description: its name, file, policies, constants and order."""

from __future__ import annotations

import json
from functools import partial
from itertools import product
from typing import get_args

import numpy as np

from iopea.information_order import InformationOrder
from iopea.orders.checking import some_policies
from iopea.problem_files import ORDER, parse_problem, tables_of
from iopea.problems.base import Problem
from iopea.systems import PROBLEMS
from iopea.testing.tools import (
    MOST_NET,
    SAME,
    as_toml,
    name_of,
    random,
    read_again,
    refusal,
    require,
    require_inside,
)
from iopea.types import Claim, Mask, Truth

#: Nets to check, by the number of parts of the longest axis, and values per parameter if thinned.
PARTS, THINNED = (4, 9, 24), 3


def registered(problem: Problem, truth: Truth) -> None:
    """The kind is registered under its own name, with valid columns and tables."""
    kind, name = type(problem), getattr(problem, "kind", None)
    require(
        PROBLEMS.get(str(name)) is kind,
        f"{kind.__name__} is not in the registry PROBLEMS under its kind, {name!r}.",
    )
    examples = [each for each, _ in kind.examples()]
    for family in kind.families:
        require(
            any(type(each.family) is family for each in examples),
            f"examples() of {kind.__name__} has no problem with {family.kind} policies.",
        )
    require(
        examples[0] == kind.example()[0],
        f"The first of examples() of {kind.__name__} must be its example().",
    )
    for what, words, least in (("columns", problem.columns, 1), ("tables", problem.tables, 0)):
        require(
            isinstance(words, tuple)
            and len(set(words)) == len(words) >= least
            and all(isinstance(word, str) and word for word in words),
            f"The {what} must be a tuple of at least {least} different names, not {words!r}.",
        )
    require(
        not {"problem", ORDER} & set(problem.tables),
        f"The tables of the truth are {problem.tables}: 'problem' and {ORDER!r} are reserved.",
    )
    require(
        problem.claim in get_args(Claim),
        f"The claim of the order must be one of {get_args(Claim)}, not {problem.claim!r}.",
    )


def problem_file(problem: Problem, truth: Truth) -> None:
    """``describe()`` and the truth's ``table()`` make a file that gives both back."""
    described = {"describe()": problem.describe(), "table() of the truth": truth.table()}
    for name, value in described.items():
        try:
            same = json.loads(json.dumps(value, allow_nan=False)) == value
        except (TypeError, ValueError):
            same = False
        require(same, f"{name} must be made of JSON values, which {value!r} is not.")
    require(
        described["describe()"].get("kind") == problem.kind,
        f"describe() must hold the kind, {problem.kind!r}.",
    )
    again, same_truth = read_again(problem, truth)
    require(
        type(again) is type(problem) and again == problem,
        f"The file of {problem!r} is read as another problem, {again!r}. (Problems are compared "
        "by ==: derive them from iopea.model.Model, or make them frozen dataclasses.)",
    )
    require(
        again.describe() == problem.describe() and again.constants == problem.constants,
        f"A problem read from its own file has another description: {again.describe()}.",
    )
    require(
        same_truth.table() == truth.table(),
        f"The truth is read back as {same_truth.table()}, not as {truth.table()}.",
    )
    tables = tables_of(problem, truth.table())
    misspelt = {**tables, "problem": {**tables["problem"], "no_such_key": 1}}
    require(
        refusal(partial(parse_problem, as_toml(misspelt))),
        "An unknown key in [problem] must be refused with an InputError.",
    )


def policy_class(problem: Problem, truth: Truth) -> None:
    """Nets and thinned nets lie in the class, have the stated size, and cover the class."""
    known = problem.policy_class
    require(
        known.dimension >= 1 and len(known.names) == known.dimension,
        f"Policies have {known.dimension} parameters, but these have {len(known.names)} names.",
    )
    nets = []
    for radius in (known.extent / parts or 1.0 for parts in PARTS):
        if known.count(radius) <= MOST_NET:
            net = known.net(radius)
            nets.append((radius, net))
            require(
                net.shape == (known.count(radius), known.dimension),
                f"The net of radius {radius:g} has the shape {net.shape}, but its count is "
                f"{known.count(radius)} and there are {known.dimension} parameters.",
            )
            require_inside(problem, net, f"The net of radius {radius:g}")
            require(
                len(np.unique(net, axis=0)) == len(net),
                f"The net of radius {radius:g} has a policy twice.",
            )
        thinned = known.thinned(THINNED, radius)
        require_inside(problem, thinned, "A thinned net")
        most = max(np.unique(column).size for column in thinned.T)
        require(
            most <= THINNED,
            f"A net of {THINNED} values per parameter has {most} values of one parameter.",
        )
    for (radius, coarse), (_, fine) in product(nets, nets[-1:]):
        gaps = np.array([np.abs(coarse - point).max(axis=1).min() for point in fine])
        farthest = name_of(fine[gaps.argmax()])
        require(
            gaps.max() <= radius * (1 + SAME),
            f"The net of radius {radius:g} has no policy within that distance of {farthest}.",
        )


def constants(problem: Problem, truth: Truth) -> None:
    """The constants are valid and fit the policies; the restart policy has their dimension."""
    known, policies = problem.constants, problem.policy_class
    require(
        known.dimension == policies.dimension == len(problem.restart_policy),
        f"Policies have {policies.dimension} parameters, but the constants say {known.dimension} "
        f"and the restart policy has {len(problem.restart_policy)}.",
    )
    require(
        known.bound >= policies.bound,
        f"The bound is {known.bound}, but there are policies up to {policies.bound}.",
    )
    possible = {
        "cost_low < cost_high": known.cost_low < known.cost_high,
        "alpha in [0, 1]": 0 <= known.alpha <= 1,
        "span >= 0": known.span >= 0,
        "lipschitz >= 0": known.lipschitz >= 0,
        "settling >= 0": known.settling >= 0,
        "data_needed(0.05) >= 1": known.data_needed(0.05) >= 1,
    }
    for what, holds in possible.items():
        require(holds, f"The constants must have {what}, but they are {known}.")


def order_axioms(problem: Problem, truth: Truth) -> None:
    """The order is a preorder, also on subsets, and its maximal policies inform all others."""
    points = some_policies(problem)
    order = problem.order(points)
    n = len(points)
    require(len(order) == n, f"The order of {n} policies has {len(order)} elements.")
    informs = _matrix(order)
    require(informs.diagonal().all(), "Every policy must inform itself.")
    through = informs.astype(int) @ informs.astype(int) > 0
    require((informs | ~through).all(), "If i informs j and j informs k, then i must inform k.")
    require(1 <= order.width() <= n, f"The width of {n} policies can't be {order.width()}.")
    best = order.maximal()
    require(
        informs[best].any(axis=0).all() and informs[np.ix_(best, best)].sum() == best.size,
        f"The maximal policies {best} must inform all others, but not each other.",
    )
    some = random("order").permutation(n)[: (n + 1) // 2]
    for fewer in (order.restrict(some), problem.order(points[some])):
        require(
            np.array_equal(_matrix(fewer), informs[np.ix_(some, some)]),
            "The order on a subset of policies must be the restriction of that on all of them.",
        )


def _matrix(order: InformationOrder) -> Mask:
    every = range(len(order))
    return np.array([[order.informs(i, j) for j in every] for i in every], dtype=np.bool_)
