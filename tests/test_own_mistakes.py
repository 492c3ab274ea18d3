"""Mistakes of people who write classes of their own: each gets a sentence that names the method."""

import numpy as np
import pytest

import iopea
from iopea.errors import InputError
from iopea.learners.base import fits, made
from iopea.problems.base import Evaluator, Simulator, example_of
from iopea.registry import Registry
from iopea.testing import ContractError, check_problem
from iopea.testing.evaluators import estimates_fit, fresh_evaluator
from iopea.types import Estimates, Rollout, Trajectory


def shop_with(**methods):
    """The example of a lost-sales shop, whose family has some methods of its own."""
    shop, demand = iopea.LostSales.example()
    kind = type("Own", (type(shop.family),), {"kind": "own", **methods})
    return iopea.LostSales(shop.system, kind(levels=shop.family.levels)), demand


def learner_with(**changes):
    return type("Own", (iopea.OrderUpTo,), {"name": "own", **changes})


@pytest.mark.parametrize("play", [iopea.Play(3.0, 10, 1), iopea.Play((1.0,), "10", 1)])
def test_a_play_has_a_policy_and_a_number_of_steps(play):
    shop, demand = iopea.LostSales.example()
    learner = learner_with(_ask=lambda self: play)(shop)
    with pytest.raises(InputError, match=r"The learner 'own' asks for Play\(.*_ask returns a Play"):
        iopea.run(learner, shop.simulator(demand), 50)


def test_a_learner_without_a_horizon_is_told_what_it_takes():
    kind = learner_with(__init__=lambda self, problem: None)
    with pytest.raises(InputError, match=r"Own.__init__ of the learner 'own' fails.*'horizon'"):
        made(kind, iopea.LostSales.example()[0], horizon=5)


def test_a_learner_says_of_any_problem_whether_it_fits():
    def broken(cls, problem):
        return problem.nothing

    kind = learner_with(fits=classmethod(broken))
    with pytest.raises(InputError, match=r"Own.fits of the learner 'own' fails on a lost-sales"):
        fits(kind, iopea.LostSales.example()[0])
    with pytest.raises(InputError, match=r"Own.fits of the learner 'own' fails on a lost-sales"):
        kind(iopea.LostSales.example()[0])


class Unfinished(iopea.Rule):
    def epoch_length(self, epoch):
        return 10


def rule_with(**methods):
    return type("Own", (iopea.Paired,), methods)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Unfinished, "The rule Unfinished can't be used: it lacks eliminate, which every Rule has"),
        (rule_with(__init__=lambda self, number: None), "The rule Own can't be made without arg"),
        (rule_with(GROWTH=0.5), "GROWTH of the rule 'Own' is 0.5: give a number above 1"),
        (rule_with(GROWTH=1.0), "GROWTH of the rule 'Own' is 1: give a number above 1"),
        (rule_with(GROWTH="2"), "GROWTH of the rule 'Own' must be a finite number"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_at_once(rule, words):
    with pytest.raises(InputError, match=words):
        iopea.IOPEA(iopea.LostSales.example()[0], rule=rule)


@pytest.mark.parametrize(
    ("eliminate", "words"),
    [
        (
            lambda self, estimates: None,
            r"Own.eliminate of the rule 'Own' can't be called: too many",
        ),
        (
            lambda *given: None,
            "Own.eliminate of the rule 'Own' must return an Elimination, not None",
        ),
        (
            lambda self, estimates, policies, *more: iopea.Elimination(policies[:, 0] >= 0, "x"),
            "Own.eliminate of the rule 'Own' gives the threshold 'x': it must be a number",
        ),
        (
            lambda self, estimates, policies, *more: iopea.Elimination(policies[:, 0] >= 0, np.nan),
            "Own.eliminate of the rule 'Own' gives the threshold nan: it must be a number",
        ),
    ],
)
def test_what_a_rule_returns_is_checked(eliminate, words):
    shop, demand = iopea.LostSales.example()
    learner = iopea.IOPEA(shop, rule=rule_with(eliminate=eliminate), play="maximal")
    with pytest.raises(InputError, match=words):
        iopea.run(learner, shop.simulator(demand), 200)


class Broken(Evaluator):
    """An evaluator that returns something else."""

    at_start = True

    def __init__(self, counted, found):
        self._counted, self._found = counted, found

    def observe(self, trajectory, evaluate):
        return self._counted

    def estimates(self):
        return self._found

    def forget(self):
        pass

    def keep(self, mask):
        pass


NARROW = Estimates(np.ones((1, 3)), np.ones(1))


@pytest.mark.parametrize(
    ("evaluator", "words"),
    [
        (None, "Own.evaluator returns None: it must return an Evaluator"),
        (Broken(None, NARROW), "Broken.observe returns None: it must return an int"),
        (Broken(1, None), "Broken.estimates returns None: it must return an Estimates"),
        (Broken(1, NARROW), r"Broken.estimates returns sums of shape \(1, 3\) and sizes of shape"),
    ],
)
def test_what_an_evaluator_returns_is_checked(evaluator, words):
    shop, demand = shop_with(evaluator=lambda *given, **named: evaluator)
    with pytest.raises(InputError, match=words):
        iopea.run(iopea.IOPEA(shop, play="maximal"), shop.simulator(demand), 200)


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        (
            {"policy_class": lambda *given: None},
            "Own.policy_class returns None: it must return a P",
        ),
        (
            {"order_on": lambda self, system, policies: policies},
            r"Own.order_on returns array\(.*: it must return an InformationOrder",
        ),
        (
            {"order_on": lambda *given: iopea.InformationOrder.trivial(3)},
            "Own.order_on returns an order of 3 policies for 25",
        ),
    ],
)
def test_what_a_family_returns_is_checked(methods, words):
    shop, _ = shop_with(**methods)
    with pytest.raises(InputError, match=words):
        iopea.IOPEA(shop)


@pytest.mark.parametrize(
    ("evaluator", "words"),
    [
        (
            Broken(None, Estimates(np.zeros((0, 12)), np.zeros(0))),
            r"Broken.observe returns None: it",
        ),
        (Broken(1, None), "Broken.estimates returns None: it must return an Estimates"),
        (Broken(1, NARROW), r"Broken.estimates returns sums of shape \(1, 3\) and sizes of shape"),
    ],
)
def test_the_contract_says_what_an_evaluator_returns(evaluator, words):
    shop, demand = shop_with(evaluator=lambda *given, **named: evaluator)
    check = estimates_fit if "observe" in words else fresh_evaluator
    with pytest.raises(ContractError, match=words):
        check(shop, demand)


class Told(Simulator):
    """Plays what it is given."""

    def __init__(self, problem, rollout):
        super().__init__(problem, None)
        self._rollout = rollout

    def _play(self, policy, steps, until_start=False):
        return self._rollout

    def costs(self, policies, steps, batches, seed):
        return self._rollout

    def restart_time(self, seed=0):
        return 0.0


def rollout(costs, steps=5):
    return Rollout(Trajectory((3.0,), stock=np.full(steps, 3.0), sales=np.zeros(steps)), costs)


@pytest.mark.parametrize(
    ("played", "words"),
    [
        (None, "Told._play returns None: it must return a Rollout"),
        (rollout(np.ones(4)), "Told._play returns a trajectory of 5 steps with 4 costs for 5"),
        (rollout(np.ones(6), 6), "Told._play returns a trajectory of 6 steps with 6 costs for 5"),
        (rollout([1.0] * 5), "and an array with one cost for each step"),
        (rollout(np.array([1, 1, np.nan, 1, 1])), "gives the cost nan at step 2 under policy 3:"),
        (rollout(np.array([1, 1, 1, np.inf, 1])), "gives the cost inf at step 3 under policy 3:"),
    ],
)
def test_what_a_simulator_plays_is_checked(played, words):
    shop, _ = iopea.LostSales.example()
    with pytest.raises(InputError, match=words):
        iopea.run(
            learner_with(_ask=lambda self: iopea.Play((3.0,), 5, 1))(shop), Told(shop, played), 5
        )


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "Told.costs returns None: it must return an Estimates"),
        (NARROW, "Told.costs returns sums of shape"),
        (Estimates(np.array([[1.0, np.nan]]), np.ones(1)), "Told.costs gives nan for policy 2:"),
    ],
)
def test_true_costs_are_numbers(found, words):
    shop, _ = iopea.LostSales.example()
    with pytest.raises(InputError, match=words):
        iopea.evaluate(Told(shop, found), [1.0, 2.0], 100)


def test_a_simulator_is_made_by_its_system(monkeypatch):
    shop, demand = iopea.LostSales.example()
    monkeypatch.setattr(type(shop.system), "simulator", lambda *given: None)
    with pytest.raises(InputError, match=r"System.simulator returns None: it must return a Simula"):
        shop.simulator(demand)


def test_an_example_is_a_problem_and_its_truth():
    kind = type("Own", (iopea.LostSales,), {"example": classmethod(lambda cls: None)})
    with pytest.raises(InputError, match=r"Own.example returns None: it must return a problem and"):
        example_of(kind)
    with pytest.raises(InputError, match=r"Own\.example returns"):
        check_problem(kind)
    kind = type("Own", (iopea.LostSales,), {"example": classmethod(lambda cls: 1 / 0)})
    with pytest.raises(InputError, match=r"Own.example fails, because of ZeroDivisionError"):
        example_of(kind)


# How much policies hold.


class Greedy(iopea.OrderingFamily):
    """Base-stock levels that say that they hold less than they do."""

    kind = "greedy"
    levels: iopea.Range
    says: float
    late: bool = False

    def policy_class(self, system):
        return iopea.box_of(self.levels)

    @property
    def most(self):
        return self.says

    def rule(self, system):
        return _late if self.late else _at_once

    def order_on(self, system, policies):
        return iopea.InformationOrder.from_key(policies[:, 0])

    def claim(self, system):
        return "distributional"

    def most_stock(self, system):
        return self.says


def _at_once(state, parameters, signal):
    return max(parameters[0] - state.sum(), 0.0)


def _late(state, parameters, signal):
    """More where some was sold."""
    level = parameters[0] + 5.0 if 0.0 < state[0] < parameters[0] - 1.0 else parameters[0]
    return max(level - state.sum(), 0.0)


RANGE = {"low": 0, "high": 12, "step": 1}


def greedy(**keys):
    return iopea.LostSales(
        lead_time=1, holding_cost=1, lost_sales_cost=9, policies=Greedy(levels=RANGE, **keys)
    )


def test_a_family_that_holds_more_than_it_says_is_refused_before_anything_runs():
    with pytest.raises(InputError, match=r"Greedy.most_stock is 6, but policy \(12\) brings 12 on"):
        greedy(says=6)
    assert greedy(says=12).family.says == 12


def test_a_family_that_holds_more_than_it_says_is_refused_when_it_does():
    shop = greedy(says=12, late=True)
    with pytest.raises(
        InputError, match=r"Greedy.most_stock is 12, but policy \(12\) brings 1[67]"
    ):
        shop.simulator(iopea.Poisson(mean=4), seed=1).play((12.0,), 200)


def test_a_shop_that_begins_with_more_than_its_policies_hold_is_no_mistake():
    shop = greedy(says=12)
    stock = (
        shop.simulator(iopea.Poisson(mean=1), state=(40, 0)).play((12.0,), 100).trajectory["stock"]
    )
    assert stock.max() == 40


def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(InputError, match=r"learner must be one of 'iopea'.*, not \['iopea'\]"):
        iopea.LEARNERS.named(["iopea"])


def test_a_registry_is_made_of_names_classes_and_instances():
    rules = Registry("rule", "nothing", iopea.Rule, (iopea.Paired,))
    assert all(type(rules.made_of(it)) is iopea.Paired for it in ("paired", iopea.Paired))
