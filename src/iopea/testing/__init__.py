"""Contract checks of problems, families, learners and rules, for people who write new ones.

A check takes a problem and its truth, as returned by ``kind.examples()``, and raises a
:class:`ContractError` with a sentence where the contract is broken. Checks use the interface of
:mod:`iopea.problems.base` and no problem by name, so all registered problems are checked alike::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    @pytest.mark.parametrize("kind", PROBLEMS.values(), ids=PROBLEMS)
    def test_contract(kind, check):
        for problem, truth in kind.examples():
            check(problem, truth)

All seeds are fixed, so a check always gives the same verdict on the same problem. The probability
that noise makes a check fail for a correct problem is below 10^-3.
"""

from itertools import product

from iopea.problems.base import Problem, example_of, examples_of
from iopea.testing.evaluators import (
    any_delivery,
    any_threads,
    estimates_are_costs,
    estimates_fit,
    evaluator_state,
    forgotten,
    fresh_evaluator,
    kept_policies,
    order_claim,
    plug_in_evaluator,
    trajectories_checked,
)
from iopea.testing.families import FAMILY_CHECKS, check_family, check_rule
from iopea.testing.learners import LEARNER_CHECKS, check_learner
from iopea.testing.learning import learner_improves, learner_runs, truth_hidden
from iopea.testing.problem import (
    constants,
    order_axioms,
    policy_class,
    problem_file,
    registered,
)
from iopea.testing.simulators import (
    simulator_costs,
    simulator_optimum,
    simulator_repeats,
    simulator_returns,
)
from iopea.testing.tools import Check, ContractError

__all__ = [
    "CHECKS",
    "FAMILY_CHECKS",
    "LEARNER_CHECKS",
    "Check",
    "ContractError",
    "check_family",
    "check_learner",
    "check_problem",
    "check_rule",
]

#: All checks, simple ones first; later ones rely on earlier ones.
CHECKS: tuple[Check, ...] = (
    registered,
    problem_file,
    policy_class,
    constants,
    order_axioms,
    simulator_repeats,
    simulator_returns,
    simulator_costs,
    simulator_optimum,
    trajectories_checked,
    fresh_evaluator,
    estimates_fit,
    any_delivery,
    any_threads,
    forgotten,
    kept_policies,
    evaluator_state,
    plug_in_evaluator,
    order_claim,
    estimates_are_costs,
    learner_runs,
    learner_improves,
    truth_hidden,
)


def check_problem(kind: type[Problem]) -> None:
    """Run all checks on the examples of a kind of problem; the first that fails is raised."""
    example_of(kind)
    for check, (problem, truth) in product(CHECKS, examples_of(kind)):
        check(problem, truth)
