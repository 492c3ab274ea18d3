"""The compiled loops of any ordering rule, beside a twin in plain Python."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iopea import InputError
from iopea.systems.shop.base import ShopControl
from iopea.systems.shop.rule import LANES, CompiledRule, Terms

#: No multiple of the lanes of a processor.
POLICIES = 2 * LANES + 7


def up_to(state, parameters, signal):
    return min(max(parameters[0] - state.sum(), 0.0), parameters[1])


def both(state, parameters, signal):
    """An expedited order up to a level of all stock, and a regular one up to another."""
    position = 0.0
    for i in range(state.shape[0]):
        position += state[i]
    fast = max(0.4 * parameters[0] - position, 0.0)
    return fast, min(max(parameters[0] - position - fast, 0.0), parameters[1])


def own_cost(stock, sales, order):
    return 0.3 * order**2 + (0.7 if stock > 2.0 else 0.0) - 0.1 * sales


def delivered(order, terms):
    """What a supplier delivers of an order."""
    if terms.multiple > 0:
        order = terms.multiple * math.floor(order / terms.multiple + 1e-9)
    return 0.0 if terms.minimum > 0 and order < terms.minimum * (1 - 1e-9) else order


def twin(rule, leads, terms, policy, demand, state=None):
    """One policy, period by period: costs, states before each period, orders, stock, sales.

    A state has the pipeline of the slowest source first.
    """
    starts = np.cumsum([1, *leads[:0:-1]])[::-1]  # of the pipeline of each source
    state = np.zeros(1 + sum(leads)) if state is None else np.array(state, dtype=float)
    rows = []
    for wanted in demand:
        before = state.copy()
        orders = [
            delivered(order, terms)
            for order in np.atleast_1d(rule(state.copy(), policy, np.zeros(0)))
        ]
        stock = state[0]
        for order, lead, start in zip(orders, leads, starts, strict=True):
            pipeline = [*state[start : start + lead], order]
            stock += pipeline[0]
            state[start : start + lead] = pipeline[1:]
        sales = min(stock, wanted)
        state[0] = stock - sales
        cost = terms.holding * (stock - sales) - terms.lost * sales
        cost += sum(each * order for each, order in zip(terms.on_orders, orders, strict=True))
        cost += terms.fixed * (orders[0] > 0)
        if terms.own is not None:
            cost += terms.own(stock, sales, orders[0])
        rows.append((cost, before, orders, stock, sales))
    costs, states, orders, stock, sales = map(np.array, zip(*rows, strict=True))
    return costs, states, orders, stock, sales, state


def compiled(rule, leads, terms):
    names = {f"order {i}": lead for i, lead in enumerate(leads)}
    return CompiledRule(rule, *ShopControl.places(names), terms)


def path(periods=90, seed=3):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(periods) < 0.3, 0.0, rng.exponential(1.5, periods).round(3))


def some_policies(number=POLICIES, seed=1):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.uniform(0, 9, number), rng.uniform(0.5, 4, number)])


CASES = [
    (up_to, (1,), Terms(1.0, 9.0, fixed=2.5)),
    (up_to, (2,), Terms(0.7, 9.0, multiple=0.75, fixed=1.0)),
    (up_to, (3,), Terms(1.0, 9.0, on_orders=(0.4,), minimum=1.5)),
    (up_to, (4,), Terms(1.0, 4.0, multiple=0.5, minimum=1.0, own=own_cost)),
    (up_to, (0,), Terms(1.0, 9.0, own=own_cost)),
    (both, (0, 1), Terms(1.0, 9.0, on_orders=(0.8, 0.1))),
    (both, (1, 3), Terms(1.0, 9.0, on_orders=(0.8, 0.1), fixed=1.5, own=own_cost)),
]


# Simulation


@pytest.mark.parametrize(("rule", "leads", "terms"), CASES)
def test_simulated_costs_are_those_of_plain_python(rule, leads, terms):
    demand, policies = path(), some_policies()
    ends = np.array([1, 30, 31, 90])
    loop = compiled(rule, leads, terms)
    states = np.zeros((loop.wide, POLICIES))
    sums = loop.simulate(demand, ends, policies, states)
    assert sums.shape == (4, POLICIES)
    for column in (0, 5, LANES - 1, LANES, 2 * LANES, POLICIES - 1):
        costs, *_, state = twin(rule, leads, terms, policies[column], demand)
        expected = [part.sum() for part in np.split(costs, ends[:-1])]
        np.testing.assert_allclose(sums[:, column], expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(states[:, column], state, rtol=0, atol=1e-9)


SHARED = Terms(1.0, 9.0, fixed=2.5)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.integers(1, POLICIES),
    st.integers(0, 10**6),
)
@settings(deadline=None, max_examples=40)
def test_neither_pieces_nor_batches_change_costs_or_states(lengths, number, seed):
    loop = compiled(up_to, (1,), SHARED)
    demand, policies = path(sum(lengths), seed), some_policies(number, seed)
    whole_states, states = np.zeros((2, loop.wide, number))
    ends = np.cumsum(lengths)
    whole = loop.simulate(demand, ends, policies, whole_states)
    pieces = [
        loop.simulate(piece, np.array([piece.size]), policies, states)[0]
        for piece in np.split(demand, ends[:-1])
    ]
    np.testing.assert_array_equal(pieces, whole)
    np.testing.assert_array_equal(states, whole_states)
    # Nor do the policies beside it.
    alone = np.zeros((loop.wide, 1))
    last = loop.simulate(demand, ends, policies[-1:], alone)
    np.testing.assert_array_equal(last[:, 0], whole[:, -1])


def test_threads_change_nothing():
    loop = compiled(up_to, (1,), SHARED)
    # So much that several threads are used.
    demand, policies = path(5000), some_policies(300)
    ends = np.array([1, 2500, 5000])
    results = []
    for threads in (1, 2, 3):
        states = np.zeros((loop.wide, 300))
        sums = loop.simulate(demand, ends, policies, states, threads=threads)
        totals, rows = np.zeros((2, 300)), np.zeros((300, loop.wide))
        loop.replay(demand, policies, rows, totals, np.full(5000, np.inf), threads=threads)
        results.append((sums, states, totals, rows))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_other_terms_may_be_given_such_as_those_of_the_stock():
    loop = compiled(up_to, (1,), Terms(1.0, 9.0, fixed=2.5, on_orders=(0.4,)))
    demand, policies = path(), some_policies(3)
    sums = loop.simulate(demand, np.array([90]), policies, np.zeros((2, 3)), terms=loop.terms.stock)
    for column, policy in enumerate(policies):
        stock = twin(up_to, (1,), loop.terms, policy, demand)[3]
        assert sums[0, column] == pytest.approx(stock.sum(), abs=1e-9)


# The other loops


PLAYED = [case for case in CASES if case[1] in ((2,), (1, 3))]


@pytest.mark.parametrize(("rule", "leads", "terms"), PLAYED)
def test_replays_traces_and_orders_agree_with_it(rule, leads, terms):
    demand, policies = path(), some_policies(5)
    loop = compiled(rule, leads, terms)
    start = np.linspace(0.1, 0.6, loop.wide)
    states, totals = np.tile(start, (5, 1)), np.zeros((2, 5))
    loop.replay(demand, policies, states, totals, np.full(demand.size, np.inf))
    sums = loop.simulate(demand, np.array([90]), policies, np.tile(start[:, None], (1, 5)))
    np.testing.assert_allclose(totals[0], sums[0], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(totals[1], 90)
    for number, policy in enumerate(policies):
        expected = twin(rule, leads, terms, policy, demand, start)
        costs, before, orders, stock, sales, end = expected
        assert totals[0, number] == pytest.approx(costs.sum(), abs=1e-9)
        np.testing.assert_allclose(states[number], end, rtol=0, atol=1e-9)
        state = start[None].copy()
        columns = loop.roll_out(policy, demand, state)
        np.testing.assert_allclose(columns, [stock, sales, *orders.T], rtol=0, atol=1e-9)
        np.testing.assert_allclose(state[0], end, rtol=0, atol=1e-9)
        rows = loop.trace(policy, demand, start[None].copy())
        expected = [*before.T, *orders.T, stock, sales]
        np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-9)
        asked = loop.orders(policy[None], before)
        np.testing.assert_allclose(asked, orders, rtol=0, atol=1e-9)


def test_policies_wait_for_periods_that_tell_of_them():
    """A replay skips periods with less stock than a policy has, and its state does not change."""
    loop, demand = compiled(up_to, (1,), SHARED), path()
    most = np.where(np.arange(90) % 3 == 0, 0.0, 100.0)
    policies = some_policies(4)
    states, totals = np.zeros((4, 2)), np.zeros((2, 4))
    loop.replay(demand, policies, states, totals, most)
    for number, policy in enumerate(policies):
        state, cost, periods = np.zeros(2), 0.0, 0
        for wanted, limit in zip(demand, most, strict=True):
            if state[0] + state[1] > limit:
                continue
            costs, *_, state = twin(up_to, (1,), SHARED, policy, [wanted], state)
            cost, periods = cost + costs[0], periods + 1
        assert totals[0, number] == pytest.approx(cost, abs=1e-9)
        assert totals[1, number] == periods < 90
        np.testing.assert_allclose(states[number], state, rtol=0, atol=1e-9)


def test_a_policy_is_played_until_the_shop_is_empty():
    loop = compiled(up_to, (1,), SHARED)
    state = np.array([[2.0, 1.0]])
    columns = loop.roll_out(np.zeros(2), np.ones(50), state, until_empty=True)
    np.testing.assert_array_equal(columns, [[3, 2, 1], [1, 1, 1], [0, 0, 0]])
    np.testing.assert_array_equal(state, [[0.0, 0.0]])


def test_records_are_followed_and_those_that_do_not_fit_are_counted():
    loop = compiled(up_to, (1,), SHARED)
    policy, state = np.array([6.0, 3.0]), np.zeros((1, 2))
    columns = loop.roll_out(policy, path(), np.zeros((1, 2)))
    assert loop.follow(policy, state, columns[0].copy(), columns[1].copy(), 1e-6) == 0
    stock = columns[0].copy()
    stock[40] += 1.0
    state = np.zeros((1, 2))
    assert loop.follow(policy, state, stock, columns[1].copy(), 1e-6) >= 1


# Rules of many forms


def three_arguments(state, parameters, signal):
    return max(0.0, min(parameters[0] - state.sum(), parameters[1], 2.5), 0.125)


def early(state, parameters, signal):
    if state[0] > parameters[0]:
        return 0.0
    for i in range(1, state.shape[0]):
        if state[i] > 3.0:
            return 0.25
    return min(parameters[0] - state[0], parameters[1])


def whole(state, parameters, signal):
    """Whole numbers in some states."""
    return 2 if state.sum() < parameters[0] else 0


def with_arrays(state, parameters, signal):
    return np.maximum(parameters[0] - np.sum(state[1:]) - state[0], 0.0)


def closing():
    factor = 0.5

    def missing(state, level):
        return max(level - state.sum(), 0.0)

    def capped(order, cap):
        return min(order, cap)

    def order(state, parameters, signal):
        return capped(factor * missing(state, parameters[0]), parameters[1])

    return order


def nested():
    def inner(x):
        return max(x, 0.0)

    def outer(x, y):
        return inner(x) if x < y else inner(y)

    def order(state, parameters, signal):
        return outer(parameters[0] - state.sum(), parameters[1])

    return order


def with_own_minimum():
    """A rule whose ``min`` is another function."""

    def min(one, other):  # noqa: A001
        return one if one > other else other

    def order(state, parameters, signal):
        return min(0.0, parameters[0] - state.sum())

    return order


@pytest.mark.parametrize(
    "rule",
    [three_arguments, early, whole, with_arrays, closing(), nested(), with_own_minimum()],
)
def test_rules_of_many_forms_are_compiled(rule):
    demand, policies = path(40), some_policies(3)
    loop = compiled(rule, (2,), Terms(1.0, 9.0))
    sums = loop.simulate(demand, np.array([40]), policies, np.zeros((3, 3)))
    costs = [twin(rule, (2,), loop.terms, policy, demand)[0].sum() for policy in policies]
    np.testing.assert_allclose(sums[0], costs, rtol=0, atol=1e-9)


def test_what_can_not_be_compiled_is_refused():
    def unknown(state, parameters, signal):
        return no_such_function(state)  # noqa: F821

    loop = compiled(unknown, (1,), Terms(1.0, 9.0))
    with pytest.raises(InputError, match="can't be compiled: it must be plain scalar Python"):
        loop.orders(np.ones((1, 1)), np.zeros((1, 2)))
    loop = compiled(lambda state, parameters, signal: 1.0, (0, 1), Terms(1.0, 9.0, (0.0, 0.0)))
    with pytest.raises(InputError, match="returns a tuple of 2 numbers"):
        loop.orders(np.ones((1, 1)), np.zeros((1, 2)))


# Orders that are none


def wrong_in_some_states(state, parameters, signal):
    if 1.0 < state[0] < 2.0:
        return parameters[1]
    return max(parameters[0] - state.sum(), 0.0)


@pytest.mark.parametrize("limits", [{}, {"multiple": 0.5}, {"minimum": 0.5}])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_orders_that_are_none_are_refused_naming_the_policy(value, limits):
    loop = compiled(wrong_in_some_states, (0,), Terms(1.0, 9.0, **limits))
    policies, demand = np.array([[4.0, 1.0], [5.0, value], [6.0, 1.0]]), path(200)
    with pytest.raises(InputError, match=r"The rule of policy 5, .* orders .*at least 0"):
        loop.simulate(demand, np.array([100, 200]), policies, np.zeros((1, 3)))
    with pytest.raises(InputError, match=r"The rule of policy 5, .* orders .*at least 0"):
        loop.roll_out(policies[1], demand, np.zeros((1, 1)))
    # The other policies are fine.
    some = loop.simulate(demand, np.array([200]), policies[::2], np.zeros((1, 2)))
    assert np.isfinite(some).all()


def test_a_wrong_order_of_the_second_supplier_is_refused():
    def order(state, parameters, signal):
        return max(parameters[0] - state[0] - state[1], 0.0), 1.0 - state[0]

    loop = compiled(order, (0, 1), Terms(1.0, 9.0, on_orders=(0.1, 0.1)))
    with pytest.raises(InputError, match="The rule of policy 3 orders less than nothing"):
        loop.simulate(path(), np.array([90]), np.array([[3.0]]), np.zeros((2, 1)))
