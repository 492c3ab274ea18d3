"""Contract checks of policy families and of elimination rules, on the examples of problems."""

from __future__ import annotations

from itertools import product
from typing import Any

from iopea.elimination import as_rule
from iopea.elimination.rule import Rule
from iopea.errors import InputError, shown
from iopea.learners.iopea import IOPEA
from iopea.orders.checking import some_policies
from iopea.problems.base import FAMILIES, PolicyFamily, Problem, example_of
from iopea.registry import called
from iopea.simulate import run
from iopea.systems import PROBLEMS
from iopea.testing.evaluators import (
    any_delivery,
    estimates_fit,
    evaluator_state,
    fresh_evaluator,
    order_claim,
    trajectories_checked,
)
from iopea.testing.problem import constants, order_axioms, policy_class, problem_file
from iopea.testing.simulators import simulator_repeats
from iopea.testing.tools import Check, ContractError, as_policy, require
from iopea.types import Truth

#: Steps for which each policy is played, to see how much it holds.
PLAYED = 300
#: Number of epochs whose lengths are looked at, and steps of the runs with a rule.
EPOCHS, RUN = 40, 2000


def named_parameters(problem: Problem, truth: Truth) -> None:
    """The names of the parameters are as many as the parameters."""
    family = problem.family
    number, names = problem.policy_class.dimension, family.parameters
    require(
        isinstance(names, tuple) and len(names) in (0, number),
        f"{called(type(family))}.parameters are {shown(names)}, but policies have {number}: name "
        "each of them in a tuple, or none.",
    )


def plays(problem: Problem, truth: Truth) -> None:
    """Policies can be played, and hold no more than the family says."""
    for point in some_policies(problem):
        try:
            problem.simulator(truth, seed=3).play(as_policy(point), PLAYED)
        except InputError as error:
            raise ContractError(str(error)) from error


#: All checks of a family, simple ones first.
FAMILY_CHECKS: tuple[Check, ...] = (
    policy_class,
    named_parameters,
    constants,
    order_axioms,
    plays,
    simulator_repeats,
    trajectories_checked,
    fresh_evaluator,
    estimates_fit,
    any_delivery,
    evaluator_state,
    order_claim,
)


def check_family(family: PolicyFamily) -> None:
    """Run all checks of a family on the examples of the systems that it is made for.

    The first that fails is raised. A family that is registered is also read from a problem file.
    """
    if isinstance(family, type) or not isinstance(family, PolicyFamily):
        raise InputError(
            f"The family is {called(family)}: give an instance with its ranges, such as "
            'BaseStock(levels={"low": 0, "high": 20}).'
        )
    known = FAMILIES.get(family.kind) is type(family)
    problems = _problems_with(family)
    for check, (problem, truth) in product(FAMILY_CHECKS, problems):
        check(problem, truth)
    for problem, truth in problems if known else ():
        problem_file(problem, truth)


def _problems_with(family: PolicyFamily) -> list[tuple[Problem, Any]]:
    """The examples whose systems the family can act in, with its policies."""
    found, refused = [], []
    for name, kind in PROBLEMS.items():
        example, truth = example_of(kind)
        if isinstance(example.system, family.made_for):
            try:
                found.append((type(example)(example.system, family), truth))
            except InputError as error:
                refused.append(f"In the example of {name}: {error}")
    require(
        found,
        f"The family {family.kind!r} acts in the system of no example. "
        + (" ".join(refused) or f"None has a {family.made_for.__name__}: see made_for."),
    )
    return found


def check_rule(rule: type[Rule] | Rule) -> None:
    """Check a rule: what it lacks, its epochs, and its tests in short runs of IOPEA."""
    try:
        for name in ("lost-sales", "newsvendor"):
            _try_rule(as_rule(rule), *example_of(PROBLEMS[name]))
    except InputError as error:
        raise ContractError(str(error)) from error


def _try_rule(rule: Rule, problem: Problem, truth: Truth) -> None:
    one, other = (
        IOPEA(problem, rule=rule, play="maximal", horizon=RUN, radius=1.0) for _ in range(2)
    )
    _check_epochs(one.rule)
    run(one, problem.simulator(truth, seed=4), RUN)
    other.load_state_dict(one.state_dict())
    require(
        other.ask() == one.ask(),
        f"After loading, the rule {rule.name!r} goes on otherwise: it may keep no state.",
    )


def _check_epochs(rule: Rule) -> None:
    lengths = [rule.epoch_length(epoch) for epoch in range(1, EPOCHS + 1)]
    wrong = [length for length in lengths if type(length) is not int or length < 1]
    require(
        not wrong,
        f"{called(type(rule))}.epoch_length gives {shown(wrong and wrong[0])}: it must give whole "
        "numbers of at least 1.",
    )
    require(
        lengths[-1] > lengths[0],
        f"{called(type(rule))}.epoch_length is {lengths[0]} for epoch 1 and {lengths[-1]} for "
        f"epoch {EPOCHS}: epochs must grow, or there are more and more tests.",
    )
