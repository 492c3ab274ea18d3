"""The policy families of lost sales, fixed costs, whole cases and least orders."""

import numpy as np
import pytest

import iopea
from environments import drive
from iopea import IOPEA, InputError, LostSales
from iopea.demand import Constant, Poisson
from iopea.envs.lost_sales import LostSalesEnv
from iopea.envs.vector import SystemVectorEnv
from iopea.problem_files import parse_problem, problem_from, tables_of
from iopea.systems.lost_sales.capped import CappedBaseStock

DEMAND = Poisson(mean=3)


def range_(low, high, step=None):
    return {"low": low, "high": high} | ({} if step is None else {"step": step})


CAPPED = {
    "kind": "capped-base-stock", "levels": range_(0, 16, 2), "caps": range_(0, 6, 2),
}  # fmt: skip
REORDER = {
    "kind": "s-S", "reorder_levels": range_(0, 12, 2), "order_up_to_levels": range_(0, 16, 2),
}  # fmt: skip
CONSTANT = {"kind": "constant-order", "orders": range_(0, 5, 0.5)}
BASE_STOCK = {"kind": "base-stock", "levels": range_(0, 16, 1)}


def shop(policies, lead_time=1, **changes):
    costs = {"holding_cost": 1, "lost_sales_cost": 9}
    return LostSales(lead_time=lead_time, **{**costs, **changes}, policies=policies)


# Rules


@pytest.mark.parametrize(
    ("policies", "policy", "state", "order"),
    [
        (CAPPED, (6, 2), [1.0, 0.0], 2.0),
        (CAPPED, (6, 4), [1.5, 1.0], 3.5),
        (CAPPED, (6, 4), [5.0, 3.0], 0.0),
        (CAPPED, (6, 0), [0.0, 0.0], 0.0),
        (REORDER, (4, 8), [4.0, 0.0], 4.0),
        (REORDER, (4, 8), [3.0, 1.5], 0.0),
        (REORDER, (4, 8), [0.0, 0.0], 8.0),
        (REORDER, (8, 8), [3.0, 2.0], 3.0),
        (REORDER, (0, 8), [0.1, 0.0], 0.0),
        (CONSTANT, (2.5,), [0.0, 0.0], 2.5),
        (CONSTANT, (2.5,), [90.0, 2.5], 2.5),
        (BASE_STOCK, (7,), [1.0, 2.5], 3.5),
        (BASE_STOCK, (7,), [8.0, 2.5], 0.0),
    ],
)
def test_orders_by_hand(policies, policy, state, order):
    problem = shop(policies)
    rule = problem.family.rule(problem.system)
    assert rule(np.array(state), np.array(policy, float), np.zeros(0)) == pytest.approx(order)
    orders = problem.family.orders_of(problem.system, np.array([policy], float), np.array([state]))
    assert orders.tolist() == [[pytest.approx(order)]]


def test_rounding_does_not_keep_a_position_above_the_reorder_level():
    family = {
        "kind": "s-S",
        "reorder_levels": range_(0, 1, 0.1),
        "order_up_to_levels": range_(0, 1, 0.1),
    }
    problem = shop(family, lead_time=2)
    state = np.array([0.1, 0.1, 0.1])
    assert state.sum() > 0.3
    orders = problem.family.orders_of(problem.system, np.array([[0.3, 1.0]]), state[None])
    assert orders[0, 0] == pytest.approx(0.7)


def test_only_pairs_of_levels_that_ascend_are_policies():
    problem = shop(REORDER)
    net = problem.policy_class.net(1.0)
    assert (net[:, 0] <= net[:, 1]).all()
    assert not problem.policy_class.contains((8, 6))
    assert problem.policy_class.names == ("reorder level", "order-up-to level")


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ({**CAPPED, "levels": range_(0, 0)}, "levels need high > 0.*nothing is sold"),
        ({**CAPPED, "caps": range_(0, 0), "levels": range_(0, 4)}, "caps need high > 0"),
        (
            {"kind": "s-S", "reorder_levels": range_(0, 0), "order_up_to_levels": range_(0, 0)},
            "order_up_to_levels need high > 0.*nothing could be sold",
        ),
        ({"kind": "constant-order", "orders": range_(0, 0)}, "orders need high > 0"),
        ({"kind": "base-stock", "levels": range_(0, 0)}, "levels need high > 0"),
        (
            {"kind": "s-S", "reorder_levels": range_(9, 12), "order_up_to_levels": range_(0, 8)},
            "reorder level is at least 9.0, above the highest order-up-to level, which is 8.0",
        ),
        ({**CAPPED, "caps": range_(0, 6)}, "give all a step, or none"),
        ({**CAPPED, "order_by": "cap"}, "order_by"),
        ({"kind": "capped-base-stock", "levels": range_(0, 4)}, "caps"),
    ],
)
def test_ranges_with_which_nothing_is_sold_are_refused(policies, message):
    with pytest.raises(InputError, match=message):
        shop(policies)


def test_the_capped_family_within_a_problem():
    known = LostSales(lead_time=3, holding_cost=1, lost_sales_cost=9, levels=range_(2, 16))
    family = CappedBaseStock.within(known)
    assert (family.levels.low, family.levels.high, family.caps.low, family.caps.high) == (
        2, 16, 0, 4,
    )  # fmt: skip
    assert CappedBaseStock.within(shop(CONSTANT)) is None


# Claims


@pytest.mark.parametrize(
    ("policies", "claim"),
    [
        (CAPPED, "distributional"),
        ({**CAPPED, "order_by": "sample-path"}, "sample-path"),
        (CONSTANT, "sample-path"),
    ],
)
def test_what_is_claimed_is_confirmed(policies, claim):
    problem = shop(policies)
    assert problem.claim == claim
    some = np.array([[6, 2], [6, 4], [10, 2], [10, 4]], dtype=float)
    if policies is CONSTANT:
        some = np.array([[1.0], [2.0], [2.5]])
    short = {"steps": 200} if claim == "sample-path" else {"steps": 500, "replications": 6}
    report = iopea.check_order(problem, DEMAND, policies=some, **short)
    assert report.holds
    assert report.pairs >= 2


def test_whole_cases_are_claimed_in_distribution_alone():
    for policies in (BASE_STOCK, {**CAPPED, "order_by": "sample-path"}):
        assert shop(policies).claim == "sample-path"
        assert shop(policies, order_multiple=4).claim == "distributional"
        assert shop(policies, minimum_order=4).claim == "distributional"
        assert shop(policies, fixed_order_cost=4).claim == "sample-path"


@pytest.mark.parametrize(
    "problem", [shop(CAPPED), shop(REORDER), shop(BASE_STOCK, order_multiple=4)]
)
def test_the_theorem_does_not_apply_to_orders_in_distribution(problem):
    with pytest.raises(InputError, match=r"[A-Z].*\.$"):
        IOPEA(problem, rule="theorem", horizon=10_000)


# Costs and deliveries


def by_hand(problem, orders, demand, lead_time, order_cost):
    """Costs of orders that are delivered, period by period."""
    stock, pipeline, costs = 0.0, [0.0] * lead_time, []
    for order, wanted in zip(orders, demand, strict=True):
        pipeline.append(order)
        stock += pipeline.pop(0)
        sold = min(stock, wanted)
        stock -= sold
        costs.append(stock + 9 * (wanted - sold) + (order_cost if order > 0 else 0.0))
    return costs


def test_a_fixed_cost_is_paid_for_each_order():
    problem = shop(REORDER, fixed_order_cost=5)
    rollout = problem.simulator(Constant(value=2)).play((4.0, 8.0), 6)
    # Positions before each order: 0, 8 (nothing sold yet), 6, 4, 6, 4.
    orders = [8, 0, 0, 4, 0, 4]
    assert rollout.costs.tolist() == by_hand(problem, orders, [2] * 6, 1, 5.0)
    free = shop(REORDER).simulator(Constant(value=2)).play((4.0, 8.0), 6)
    assert (rollout.costs - free.costs).tolist() == [5, 0, 0, 5, 0, 5]


def test_a_supplier_delivers_whole_cases():
    problem = shop(BASE_STOCK, order_multiple=4)
    rollout = problem.simulator(Constant(value=3)).play((10.0,), 6)
    # Missing to 10: 10, 2, 5, 4, 3, 6.
    orders = [8, 0, 4, 4, 0, 4]
    assert rollout.costs.tolist() == by_hand(problem, orders, [3] * 6, 1, 0.0)
    np.testing.assert_array_equal(rollout.trajectory["stock"], [0, 8, 5, 6, 7, 4])


def test_a_least_order_is_all_or_nothing():
    problem = shop(BASE_STOCK, minimum_order=4)
    rollout = problem.simulator(Constant(value=3)).play((10.0,), 6)
    # Missing to 10: 10, 0, 3, 6, 3, 6.
    orders = [10, 0, 0, 6, 0, 6]
    assert rollout.costs.tolist() == by_hand(problem, orders, [3] * 6, 1, 0.0)


def test_a_least_order_of_whole_cases():
    problem = shop(CAPPED, order_multiple=2, minimum_order=4, fixed_order_cost=1)
    states = np.array([[0.0, 0.0], [3.0, 0.0], [1.0, 2.0], [0.5, 0.5], [3.0, 2.0]])
    orders = problem.family.orders_of(problem.system, np.full((5, 2), 6.0), states)
    assert orders[:, 0].tolist() == [6, 0, 0, 4, 0]


@pytest.mark.parametrize(
    "changes", [{"fixed_order_cost": 3}, {"order_multiple": 4}, {"minimum_order": 2.5}]
)
@pytest.mark.parametrize("policies", [BASE_STOCK, CAPPED], ids=["base-stock", "capped"])
def test_simulated_costs_are_those_of_rollouts(changes, policies):
    problem = shop(policies, **changes)
    policy = (10.0,) if policies is BASE_STOCK else (10.0, 4.0)
    estimates = problem.simulator(DEMAND).costs(np.array([policy]), 400, 4, seed=3)
    # The demand of an evaluation, played by hand.
    stream = DEMAND.stream(iopea.seeds.seed_for("evaluation", 3))
    demand = stream.draw(400)
    columns = problem.family.roll_out(problem.system, policy, demand, np.zeros(2), False)
    stock, sales, orders = columns
    costs = (stock - sales) + 9 * (demand - sales)
    costs += changes.get("fixed_order_cost", 0) * (orders > 0)
    if "order_multiple" in changes:
        assert (orders % 4 == 0).all()
    if "minimum_order" in changes:
        assert ((orders == 0) | (orders >= 2.5)).all()
    np.testing.assert_allclose(
        estimates.sums[:, 0], costs.reshape(4, -1).sum(axis=1), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fixed_order_cost": -1}, "fixed_order_cost"),
        ({"fixed_order_cost": float("nan")}, "fixed_order_cost"),
        ({"order_multiple": 0}, "order_multiple"),
        ({"order_multiple": -6}, "order_multiple"),
        ({"order_multiple": float("inf")}, "order_multiple"),
        ({"minimum_order": 0}, "minimum_order"),
        ({"minimum_order": "some"}, "minimum_order"),
    ],
)
def test_bad_values_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        shop(BASE_STOCK, **changes)


# Problem files

TEXT = """
[problem]
kind = "lost-sales"
lead_time = 1
holding_cost = 1.0
lost_sales_cost = 9.0
{keys}
[policies]
{policies}
[demand]
distribution = "poisson"
mean = 3.0
"""


def toml(table):
    """A table of one level, whose values may be ranges."""

    def value(each):
        if isinstance(each, dict):
            return "{" + ", ".join(f"{name} = {item}" for name, item in each.items()) + "}"
        return f'"{each}"' if isinstance(each, str) else str(each)

    return "\n".join(f"{name} = {value(each)}" for name, each in table.items())


@pytest.mark.parametrize("policies", [CAPPED, REORDER, CONSTANT])
@pytest.mark.parametrize(
    "keys", [{}, {"fixed_order_cost": 5.0}, {"order_multiple": 6.0, "minimum_order": 12.0}]
)
def test_problem_files_are_read_and_written(policies, keys):
    problem, demand = parse_problem(TEXT.format(keys=toml(keys), policies=toml(policies)))
    assert problem == shop(policies, **keys)
    assert demand == DEMAND
    tables = tables_of(problem, demand.table())
    assert tables["policies"]["kind"] == policies["kind"]
    assert {name: tables["problem"][name] for name in keys} == keys
    assert problem_from(tables) == (problem, demand)


@pytest.mark.parametrize(
    ("keys", "policies", "message"),
    [
        ("order_multiple = 0.0", CAPPED, "order_multiple"),
        ("order_multiples = 6.0", CAPPED, "order_multiples"),
        ('fixed_order_cost = "high"', CAPPED, "fixed_order_cost"),
        ("", {**CAPPED, "kind": "capped"}, "Unknown kind of policies for lost-sales"),
        ("", {**CONSTANT, "order": 3}, "order"),
        ("levels = { low = 0, high = 3 }", CAPPED, "levels"),
    ],
)
def test_bad_problem_files_are_refused(keys, policies, message):
    with pytest.raises(InputError, match=message):
        parse_problem(TEXT.format(keys=keys, policies=toml(policies)))


# Learning with whole cases


def test_the_best_level_for_whole_cases_is_learned():
    problem = shop(BASE_STOCK, order_multiple=6)
    levels = problem.policy_class.net(1.0)
    costs = problem.simulator(DEMAND).costs(levels, 200_000, 1, seed=0).mean
    learner = IOPEA(problem)
    result = iopea.run(learner, problem.simulator(DEMAND, 1), 10_000)
    assert learner.survives(tuple(levels[costs.argmin()]))
    assert learner.survivors < learner.count
    assert costs[int(result.recommendation[0])] <= 1.05 * costs.min()
    # It is not the best level of a shop without cases.
    free = shop(BASE_STOCK).simulator(DEMAND).costs(levels, 200_000, 1, seed=0).mean
    assert costs[free.argmin()] > 1.02 * costs.min()


# Environments

STEPPED = [
    (shop(CAPPED), (10.0, 4.0)),
    (shop(CAPPED, lead_time=0), (6.0, 4.0)),
    (shop(REORDER, fixed_order_cost=5), (6.0, 12.0)),
    (shop(BASE_STOCK, order_multiple=0.7), (11.0,)),
    (shop(BASE_STOCK, order_multiple=4, minimum_order=8, fixed_order_cost=2), (14.0,)),
]


@pytest.mark.parametrize(("problem", "policy"), STEPPED)
def test_an_environment_costs_what_the_simulator_does(problem, policy):
    env = LostSalesEnv(problem=problem, demand=DEMAND, reveal_demand=True)
    seen = drive(env, policy)
    wide = 1 + problem.system.lead_time
    columns = problem.family.roll_out(problem.system, policy, seen["demand"], np.zeros(wide), False)
    stock, sales, orders = columns
    for name, expected in (("stock", stock), ("sales", sales), ("order", orders)):
        np.testing.assert_allclose(seen[name], expected, rtol=0, atol=1e-4)
    true = problem.system.true_costs(stock, sales, [orders], seen["demand"])
    np.testing.assert_allclose(seen["true_cost"], true, rtol=0, atol=1e-3)
    if problem.system.order_multiple:
        cases = seen["order"] / problem.system.order_multiple
        np.testing.assert_allclose(cases, cases.round(), rtol=0, atol=1e-9)
    assert (orders > 0).sum() > 5


@pytest.mark.parametrize(("problem", "policy"), STEPPED)
def test_the_vector_environment_costs_what_the_single_one_does(problem, policy):
    demand = Constant(value=2.3)
    envs = SystemVectorEnv(problem, demand, num_envs=2)
    env = LostSalesEnv(problem=problem, demand=demand)
    observation, _ = env.reset(seed=1)
    envs.reset(seed=1)
    for _ in range(60):
        action = env.policy_action(policy, observation)
        observation, reward, _, _, info = env.step(action)
        seen, rewards, _, _, told = envs.step(np.tile(action, (2, 1)))
        np.testing.assert_allclose(seen, [observation] * 2, rtol=1e-6, atol=1e-5)
        np.testing.assert_allclose(rewards, reward, rtol=0, atol=1e-4)
        np.testing.assert_allclose(told["order"], info["order"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("limits", [{"minimum_order": 2}, {"order_multiple": 2}, {}])
def test_an_environment_never_orders_more_than_it_is_asked_for(limits):
    """Nor does the stock rise above the highest level; rounding of an action is less than 1e-6."""
    problem = shop(BASE_STOCK, **limits)
    envs = SystemVectorEnv(problem, Constant(value=2.25), num_envs=1)
    env = LostSalesEnv(problem=problem, demand=Constant(value=2.25))
    env.reset(seed=0)
    envs.reset(seed=0)
    for step in range(60):
        # Exactly representable: 0, 2.5, 5, 7.5, ... units.
        action = np.array([2 * (2.5 * (step % 6)) / 16 - 1], dtype=np.float32)
        _, _, _, _, info = env.step(action)
        _, _, _, _, told = envs.step(action[None])
        asked = (float(action[0]) + 1) / 2 * 16
        assert info["order"] <= asked
        assert told["order"][0] <= asked
        if "minimum_order" in limits:
            assert info["order"] == 0 or info["order"] >= 2


def test_a_policy_that_is_none_of_the_class_has_no_action():
    env = LostSalesEnv(problem=shop(REORDER))
    with pytest.raises(InputError, match=r"Policy \(8, 6\) is not one of"):
        env.policy_action((8, 6), [0, 0])
    with pytest.raises(InputError, match="An observation has shape"):
        env.policy_action((6, 8), [0, 0, 0])
