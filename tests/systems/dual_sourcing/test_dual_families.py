"""Capped dual-index and base-surge policies for two suppliers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iopea
from environments import drive
from iopea import IOPEA, InputError
from iopea.demand import Poisson
from iopea.envs import DualSourcingEnv
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.dual_sourcing.base_surge import BaseSurge
from iopea.systems.dual_sourcing.capped import CappedDualIndex

DEMAND = Poisson(mean=3)


def range_(low, high, step=None):
    return {"low": low, "high": high} | ({} if step is None else {"step": step})


def shop(policies=None, regular=2, expedited=0, **others):
    return DualSourcing(
        regular_lead_time=regular, expedited_lead_time=expedited, holding_cost=1,
        lost_sales_cost=9, regular_cost=0.1, expedited_cost=1.0,
        **({} if policies is None else {"policies": policies}), **others,
    )  # fmt: skip


def capped(regular=2, expedited=0, levels=None, caps=None):
    levels, caps = levels or range_(0, 16), caps or range_(0, 16)
    ranges = {"expedited_levels": levels, "regular_levels": levels, "caps": caps}
    return shop({"kind": "capped-dual-index", **ranges}, regular, expedited)


def plain(regular=2, expedited=0):
    return shop(None, regular, expedited, expedited_levels=range_(0, 16),
                regular_levels=range_(0, 16))  # fmt: skip


def surge(regular=2, expedited=0, orders=None, levels=None):
    ranges = {"orders": orders or range_(0, 4, 1), "levels": levels or range_(0, 10, 2)}
    return shop({"kind": "base-surge", **ranges}, regular, expedited)


# Capped dual-index policies


@pytest.mark.parametrize(("regular", "expedited"), [(2, 0), (2, 1)])
def test_a_cap_that_does_not_bind_changes_nothing(regular, expedited):
    known, free = capped(regular, expedited), plain(regular, expedited)
    pairs = np.array([[2.0, 6.0], [4.3, 9.7], [8.0, 8.0], [0.0, 12.0]])
    with_cap = np.column_stack([pairs, np.full(4, 16.0)])
    costs = [
        problem.simulator(DEMAND).costs(policies, 2000, 4, seed=1).sums
        for problem, policies in ((known, with_cap), (free, pairs))
    ]
    np.testing.assert_allclose(*costs, rtol=1e-9)
    plays = [
        problem.simulator(DEMAND, 2).play(policy, 300)
        for problem, policy in ((known, (4.3, 9.7, 16.0)), (free, (4.3, 9.7)))
    ]
    for name in ("stock", "sales"):
        one, other = (play.trajectory[name] for play in plays)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)
    np.testing.assert_allclose(plays[0].costs, plays[1].costs, rtol=0, atol=1e-8)
    # A cap that binds does.
    low = np.column_stack([pairs, np.full(4, 1.5)])
    bound = known.simulator(DEMAND).costs(low, 2000, 4, seed=1).sums
    assert (np.abs(bound - costs[0]) > 1).any(axis=0).sum() >= 3


KNOWN = capped(3, 1)
FREE = plain(3, 1)


@given(
    st.lists(st.floats(0, 5), min_size=5, max_size=5),
    st.floats(0, 16),
    st.floats(0, 16),
    st.floats(0, 16),
)
@settings(deadline=None, max_examples=100)
def test_the_regular_order_is_that_of_a_dual_index_up_to_the_cap(state, one, other, cap):
    levels = sorted((one, other))
    states = np.array([state])
    fast, slow = FREE.family.orders_of(FREE.system, np.array([levels]), states)[0]
    orders = KNOWN.family.orders_of(KNOWN.system, np.array([[*levels, cap]]), states)[0]
    assert orders[0] == pytest.approx(fast, abs=1e-9)
    assert orders[1] == pytest.approx(min(slow, cap), abs=1e-9)


def test_orders_by_hand():
    # On hand 1, regular orders 2 (next), 0 and 1 under way, expedited 0.5.
    state = np.array([[1.0, 2.0, 0.0, 1.0, 0.5]])
    orders = KNOWN.family.orders_of(KNOWN.system, np.array([[5.0, 9.0, 2.0]]), state)
    # 3.5 arrive with an expedited order, 4.5 are there or under way.
    np.testing.assert_allclose(orders, [[1.5, 2.0]])
    rich = np.array([[1.0, 2.0, 0.0, 1.0, 6.0]])
    orders = KNOWN.family.orders_of(KNOWN.system, np.array([[5.0, 11.0, 2.0]]), rich)
    np.testing.assert_allclose(orders, [[0.0, 1.0]])
    flow = surge(3, 1)
    orders = flow.family.orders_of(flow.system, np.array([[2.0, 6.0]]), state)
    np.testing.assert_allclose(orders, [[2.5, 2.0]])


def test_families_within_a_dual_index_problem():
    known = shop(
        None, 3, 1, expedited_levels=range_(1, 8), regular_levels=range_(2, 12), zero_demand=0.3
    )
    family = CappedDualIndex.within(known)
    assert (family.caps.low, family.caps.high) == (0.0, 3.0)
    assert (family.regular_levels.low, family.expedited_levels.high) == (2.0, 8.0)
    flow = BaseSurge.within(known)
    assert (flow.orders.high, flow.levels.low, flow.levels.high) == (3.0, 1.0, 8.0)
    assert CappedDualIndex.within(surge()) is None


def test_ranges_that_can_not_be_are_refused():
    with pytest.raises(InputError, match=r"Both highest levels are 0\.0: nothing could be sold"):
        capped(levels=range_(0, 0))
    with pytest.raises(InputError, match="give all a step, or none"):
        capped(levels=range_(0, 4, 1), caps=range_(0, 4))
    high, low = range_(5, 6), range_(0, 4)
    with pytest.raises(InputError, match=r"expedited level is at least 5\.0, above the highest"):
        shop(
            {
                "kind": "capped-dual-index",
                "expedited_levels": high,
                "regular_levels": low,
                "caps": low,
            }
        )


# Claims


def test_base_surge_policies_inform_on_every_path_where_expedited_orders_arrive_at_once():
    some = np.array([[1.0, 4.0], [1.0, 8.0], [2.0, 4.0], [2.0, 8.0]])
    problem = surge()
    assert problem.claim == "sample-path"
    report = iopea.check_order(problem, DEMAND, policies=some, steps=200)
    assert report.holds
    assert report.pairs >= 5
    late = surge(2, 1)
    assert late.claim == "distributional"
    report = iopea.check_order(late, DEMAND, policies=some, steps=500, replications=6)
    assert report.holds
    # With a lead time, more is not always there on every path.
    claimed = iopea.check_order(
        late, DEMAND, policies=some[[0, 2]], claim="sample-path", steps=200, replications=1
    )
    assert not claimed.holds


@pytest.mark.parametrize("problem", [capped(), surge(2, 1)])
def test_the_theorem_does_not_apply_to_orders_in_distribution(problem):
    with pytest.raises(InputError, match=r"[A-Z].*\.$"):
        IOPEA(problem, rule="theorem", horizon=10_000)


# Learning


@pytest.mark.parametrize(
    ("problem", "bound"),
    [
        (capped(levels=range_(2, 12, 2), caps=range_(1, 4, 1)), 0.05),
        (surge(orders=range_(0, 4, 0.5)), 0.05),
    ],
    ids=["capped", "base-surge"],
)
def test_a_good_policy_is_learned(problem, bound):
    policies = problem.policy_class.net(1.0)
    stable = policies
    if isinstance(problem.family, BaseSurge):
        stable = policies[policies[:, 0] < 3]
    costs = problem.simulator(DEMAND).costs(stable, 50_000, 1, seed=0).mean
    learner = IOPEA(problem, play="maximal")
    result = iopea.run(learner, problem.simulator(DEMAND, 1), 5000)
    assert learner.survives(tuple(stable[costs.argmin()]))
    assert learner.survivors <= learner.count / 2
    (found,) = np.flatnonzero((stable == result.recommendation).all(axis=1))
    assert costs[found] <= (1 + bound) * costs.min()


# The environment


@pytest.mark.parametrize(
    ("problem", "policy"),
    [(capped(), (4.3, 9.7, 2.5)), (capped(2, 1), (6.0, 12.0, 2.0))],
)
def test_the_environment_costs_what_the_simulator_does(problem, policy):
    env = DualSourcingEnv(problem=problem, demand=DEMAND, reveal_demand=True)
    seen = drive(env, policy)
    wide = 1 + sum(problem.system.lead_times)
    stock, sales, fast, slow = problem.family.roll_out(
        problem.system, policy, seen["demand"], np.zeros(wide), False
    )
    expected = {"stock": stock, "sales": sales, "expedited_order": fast, "regular_order": slow}
    for name, values in expected.items():
        np.testing.assert_allclose(seen[name], values, rtol=0, atol=1e-4)
    true = problem.system.true_costs(stock, sales, [fast, slow], seen["demand"])
    np.testing.assert_allclose(seen["true_cost"], true, rtol=0, atol=1e-3)
    assert (fast > 0).any()
    assert slow.max() == pytest.approx(policy[2])


def test_the_environment_of_base_surge_policies():
    problem = surge()
    env = DualSourcingEnv(problem=problem, demand=DEMAND, reveal_demand=True)
    observation, _ = env.reset(seed=3)
    for _ in range(60):
        observation, _, _, _, info = env.step(env.policy_action((2.0, 6.0), observation))
        assert info["regular_order"] == pytest.approx(2.0, abs=1e-4)
        assert info["stock"] >= 6.0 - 1e-4
    with pytest.raises(InputError, match="is not one of"):
        env.policy_action((2.0, 5.0), observation)
