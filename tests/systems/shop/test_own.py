"""Policies of one's own: a Python function with named parameters and their ranges."""

import copy
import functools
import pickle
import re

import numpy as np
import pytest

import iopea
from iopea import IOPEA, InputError, LostSales
from iopea.demand import Poisson
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.shop.own import OwnPolicies

DEMAND = Poisson(mean=3)
LEVEL = {"level": {"low": 0, "high": 10, "step": 1}}


def up_to(state, level):
    return max(level - state.sum(), 0.0)


def partly(state, level, share):
    return share * max(level - state.sum(), 0.0)


def shop(function=up_to, ranges=LEVEL, lead_time=1, **changes):
    own = OwnPolicies(function=function, ranges=ranges, **changes)
    return LostSales(lead_time=lead_time, holding_cost=1, lost_sales_cost=9, policies=own)


def two_suppliers(function, ranges=LEVEL, **changes):
    own = OwnPolicies(function=function, ranges=ranges, **changes)
    return DualSourcing(
        regular_lead_time=2, expedited_lead_time=0, holding_cost=1, lost_sales_cost=9, policies=own
    )


PARTLY = {
    "level": {"low": 0, "high": 16, "step": 2},
    "share": {"low": 0.25, "high": 1, "step": 0.25},
}


# Learning


@pytest.mark.parametrize("higher_informs", [False, True])
def test_it_learns_a_good_policy(higher_informs):
    problem = shop(partly, PARTLY, most_held=16, higher_informs=higher_informs)
    policies = problem.policy_class.net(1.0)
    costs = problem.simulator(DEMAND).costs(policies, 200_000, 1, seed=0).mean
    learner = IOPEA(problem)
    result = iopea.run(learner, problem.simulator(DEMAND, 1), 10_000)
    assert learner.survives(tuple(policies[costs.argmin()]))
    assert learner.survivors < learner.count / 2
    (found,) = np.flatnonzero((policies == result.recommendation).all(axis=1))
    assert costs[found] <= 1.1 * costs.min()


def test_a_function_that_is_a_base_stock_level_costs_what_that_does():
    level = {"low": 0, "high": 10, "step": 1}
    known = LostSales(lead_time=1, holding_cost=1, lost_sales_cost=9, levels=level)
    policies = np.arange(11.0)[:, None]
    costs = [
        each.simulator(DEMAND).costs(policies, 4000, 4, seed=1).sums for each in (shop(), known)
    ]
    np.testing.assert_allclose(*costs, rtol=1e-12)
    plays = [each.simulator(DEMAND, 3).play((7.0,), 200) for each in (shop(), known)]
    np.testing.assert_allclose(plays[0].costs, plays[1].costs, atol=1e-9)


def test_two_suppliers_get_two_orders():
    def both(state, fast, slow):
        return max(fast - state[0] - state[1], 0.0), min(slow, 2.0)

    ranges = {"fast": {"low": 0, "high": 4, "step": 1}, "slow": {"low": 0, "high": 2, "step": 1}}
    problem = two_suppliers(both, ranges, most_held=300)
    orders = problem.family.orders_of(
        problem.system, np.array([[4.0, 2.0]]), np.array([[1.0, 0.5, 7.0]])
    )
    np.testing.assert_array_equal(orders, [[2.5, 2.0]])
    played = problem.simulator(DEMAND, 1).play((4.0, 1.0), 300)
    assert played.trajectory["stock"].min() >= 4.0


def test_higher_ones_inform_only_if_one_says_so():
    policies = np.array([[4.0, 0.5], [8.0, 0.5], [8.0, 1.0], [4.0, 1.0]])
    free, claimed = (
        shop(partly, PARTLY, most_held=16, higher_informs=each) for each in (False, True)
    )
    assert free.claim == claimed.claim == "distributional"
    order = free.order(policies)
    assert [order.informs(i, j) for i in range(4) for j in range(4)] == np.eye(4).ravel().tolist()
    order = claimed.order(policies)
    assert order.informs(2, 0)
    assert order.informs(2, 1)
    assert not order.informs(1, 3)
    assert not order.informs(0, 1)
    report = iopea.check_order(claimed, DEMAND, policies=policies, steps=300, replications=6)
    assert report.holds
    assert report.pairs > 0


def test_without_more_the_most_held_is_the_sum_of_the_highest_parameters():
    problem = shop(partly, PARTLY)
    assert problem.family.most_stock(problem.system) == 17.0
    problem = shop(partly, PARTLY, most_held=20)
    assert problem.family.most_stock(problem.system) == 20.0


# What is refused


def counting():
    calls = [0.0]

    def function(state, level):
        calls[0] += 1.0
        return calls[0]

    return function


def failing(state, level):
    raise ValueError("no such level")


def only_in_some_states(state, level):
    return -1.0 if 2.0 < state[0] < 3.0 else max(level - state.sum(), 0.0)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda state, s: 1.0, r"must have the arguments \(state, level\).*not \(state, s\)"),
        (lambda state: 1.0, r"must have the arguments \(state, level\).*not \(state\)"),
        (lambda state, level, cap: 1.0, r"not \(state, level, cap\)"),
        (lambda state, *, level: 1.0, r"must have the arguments \(state, level\)"),
        (lambda state, *level: 1.0, r"must have the arguments \(state, level\)"),
        (lambda state, level: np.random.random(), "and then .* the same order"),  # noqa: NPY002
        (counting(), "can't be compiled"),
        (lambda state, level: level - state.sum(), r"returns -.*at least 0"),
        (lambda state, level: float("nan"), r"returns (nan|None).*finite number"),
        (lambda state, level: float("inf"), r"returns inf.*finite number"),
        (lambda state, level: None, r"returns (nan|None).*finite number"),
        (lambda state, level: "much", "returns 'much' .*finite number"),
        (lambda state, level: (level, level), r"returns \(.*, .*one for each supplier"),
        (failing, "failed for policy .* in the state .*: no such level"),
        (only_in_some_states, r"returns -1.0.*at least 0"),
        (3, "function must be a function, not 3"),
        ("up_to", "function must be a function, not 'up_to'"),
        (max, "must be a Python function, not <built-in function max>"),
        (int, "must be a Python function, not <class 'int'>"),
        (
            lambda state, level: [level for _ in "a"] and {"a": "b"}["a"],
            "returns 'b' .*finite number",
        ),
    ],
)
def test_what_is_no_rule_is_refused(function, message):
    with pytest.raises(InputError, match=message):
        shop(function)


class UpTo:
    def __call__(self, state, level):
        return max(level - state.sum(), 0.0)

    def order(self, state, level):
        return max(level - state.sum(), 0.0)


class NotHashable(UpTo):
    __hash__ = None


@pytest.mark.parametrize(
    "function",
    [UpTo(), UpTo().order, NotHashable(), functools.partial(lambda more, state, level: level, 1.0)],
)
def test_callables_that_are_no_functions_are_refused(function):
    with pytest.raises(InputError, match=r"can't be compiled|must be a Python function"):
        shop(function)


def emptying(state, level):
    missing = max(level - state.sum(), 0.0)
    state[0] = 0.0
    return missing


def test_a_function_may_not_change_its_state():
    """Compiled, it would take the stock of the real shop away."""
    with pytest.raises(InputError, match="changed its state"):
        shop(emptying)


@pytest.mark.parametrize(
    "function", [lambda state, level: level, lambda state, level: (level, level, level)]
)
def test_two_suppliers_need_two_orders(function):
    with pytest.raises(InputError, match="one for each supplier"):
        two_suppliers(function)


SOME = {"low": 0, "high": 1}


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({}, "ranges needs 1 to 4 parameters, not 0"),
        (dict.fromkeys("abcde", SOME), "ranges needs 1 to 4 parameters, not 5"),
        ([1], r"must be a mapping from the names of parameters .* not \[1\]"),
        (None, "must be a mapping from the names of parameters .* not None"),
        ({"level": 3}, "must be a table such as .* not 3"),
        ({"level": {"low": 3, "high": 1}}, "low is 3.0 > 1.0"),
        ({"level": {"low": -3, "high": 1}}, "at least 0, not -3"),
        ({"level": {"low": 0, "high": 1, "step": 0.3}}, "give high = 0.9 or 1.2"),
        ({"level": {"low": 0, "high": 1, "stp": 0.5}}, "stp"),
        ({"level": {"low": 0}}, "high"),
    ],
)
def test_ranges_that_are_none_are_refused(ranges, message):
    with pytest.raises(InputError, match=message):
        OwnPolicies(function=lambda state, level: level, ranges=ranges)


def test_ranges_have_all_a_step_or_none():
    ranges = {"level": {"low": 0, "high": 4, "step": 1}, "share": {"low": 0, "high": 1}}
    with pytest.raises(InputError, match="give all a step, or none"):
        shop(partly, ranges)


@pytest.mark.parametrize("most_held", [0, -1, float("nan"), float("inf"), "much"])
def test_what_is_most_held_must_be_a_number(most_held):
    with pytest.raises(InputError, match="most_held"):
        shop(most_held=most_held)


def test_up_to_four_parameters():
    def four(state, a, b, c, d):
        return a + b + c + d

    ranges = {name: {"low": 0, "high": 1, "step": 1} for name in "abcd"}
    problem = shop(four, ranges, most_held=400)
    assert problem.policy_class.names == ("a", "b", "c", "d")
    assert problem.policy_class.count(1.0) == 16
    orders = problem.family.orders_of(
        problem.system, np.array([[1.0, 0.0, 1.0, 1.0]]), np.zeros((1, 2))
    )
    np.testing.assert_array_equal(orders, [[3.0]])


# Identity


def test_it_can_be_copied_compared_and_pickled():
    problem, again = shop(), shop()
    family = problem.family
    assert family == again.family
    assert hash(family) == hash(again.family)
    assert problem == again
    for other in (copy.copy(family), copy.deepcopy(family), pickle.loads(pickle.dumps(family))):
        assert other == family
        assert hash(other) == hash(family)
    assert family != shop(ranges={"level": {"low": 0, "high": 11, "step": 1}}).family
    assert family != shop(lambda state, level: max(level - state.sum(), 0.0)).family
    assert family != shop(higher_informs=True).family
    with pytest.raises((InputError, ValueError, TypeError)):
        family.most_held = 3.0


def fingerprint(function, ranges=LEVEL):
    return OwnPolicies(function=function, ranges=ranges).describe()["function"]


def named(function):
    """The same function under one name, so that its code alone can tell it from others."""
    function.__code__ = function.__code__.replace(co_name="order")
    return function


def scaled(factor):
    def order(state, level):
        return factor * level

    return order


def test_a_description_has_the_ranges_and_a_fingerprint():
    table = OwnPolicies(function=up_to, ranges=LEVEL, most_held=12).describe()
    assert table["ranges"] == {"level": {"low": 0.0, "high": 10.0, "step": 1.0}}
    assert table["most_held"] == 12.0
    assert table["higher_informs"] is False
    assert re.fullmatch(r"up_to-[0-9a-f]{16}", table["function"])
    assert fingerprint(up_to) == table["function"]


def test_a_fingerprint_changes_with_numbers_and_arguments():
    codes = [
        named(lambda state, level: max(level - state.sum(), 0.0)),
        named(lambda state, level: max(level - state.sum(), 1.0)),
        named(lambda state, level: max(state.sum() - level, 0.0)),
    ]
    assert len(set(map(fingerprint, codes))) == 3


def test_a_fingerprint_changes_with_the_functions_that_are_called():
    """The smaller of two numbers is not the larger."""
    codes = [
        named(lambda state, level: max(level - state.sum(), 0.0)),
        named(lambda state, level: min(level - state.sum(), 0.0)),
    ]
    assert len(set(map(fingerprint, codes))) == 2


def test_a_fingerprint_changes_with_the_values_that_a_function_closes_over():
    assert fingerprint(scaled(0.5)) != fingerprint(scaled(0.75))


def test_a_state_is_not_loaded_with_another_function():
    learner = IOPEA(shop())
    iopea.run(learner, learner.problem.simulator(DEMAND, 1), 50)
    other = IOPEA(shop(named(lambda state, level: max(level - state.sum(), 0.0) / 2)))
    with pytest.raises(InputError):
        other.load_state_dict(learner.state_dict())
    again = IOPEA(shop())
    again.load_state_dict(learner.state_dict())
    assert again.recommend() == learner.recommend()


# Restarts


def test_a_restart_policy_orders_nothing_in_an_empty_shop():
    problem = shop(partly, PARTLY, most_held=16)
    assert problem.family.restart(problem.system)[0] == 0.0

    def constant(state, level):
        return level + 1.0

    filling = shop(constant, most_held=3000)
    with pytest.raises(InputError, match=r"orders nothing in an empty shop.*restart = 'none'"):
        filling.family.restart(filling.system)


def test_the_restart_policy_need_not_be_the_first():
    def less(state, level):
        return max(10.0 - level - state.sum(), 0.0)

    problem = shop(less)
    assert problem.family.restart(problem.system) == (10.0,)


def test_what_fills_the_shop_for_ever_is_refused_unless_it_may():
    def constant(state, level):
        return 3.0

    with pytest.raises(InputError, match=r"raises the inventory position to \d+ while nothing"):
        shop(constant, most_held=30)
    assert shop(constant, most_held=300).family.most_held == 300
