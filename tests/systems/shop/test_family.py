"""Families of ordering policies: one that a user writes, and the compiled loop that all can use."""

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iopea
from iopea import IOPEA, InformationOrder, InputError, LostSales
from iopea.demand import Exponential, Poisson
from iopea.policies import Box
from iopea.seeds import seed_for
from iopea.storage import load_state, save_state
from iopea.systems.dual_sourcing.base_surge import BaseSurge
from iopea.systems.dual_sourcing.dual_index import DualIndex
from iopea.systems.dual_sourcing.system import DualSourcingSystem
from iopea.systems.lost_sales.base_stock import BaseStock
from iopea.systems.lost_sales.system import LostSalesSystem
from iopea.systems.shop.base import Levels, Range
from iopea.systems.shop.family import OrderingFamily, higher_informs_lower
from iopea.testing.twins import assert_same_state

DEMAND = Poisson(mean=3)


class Capped(OrderingFamily):
    """Order up to a level, but at most a cap: the family of docs/add-a-problem.md."""

    kind: ClassVar[str] = "capped-base-stock"
    parameters: ClassVar[tuple[str, ...]] = ("level", "cap")

    levels: Range
    caps: Range

    def policy_class(self, system):
        axes = (self.levels, self.caps)
        low, high, step = ([getattr(axis, end) for axis in axes] for end in ("low", "high", "step"))
        return Box(low, high, None if None in step else step, labels=("level", "cap"))

    @staticmethod
    def order(state, parameters, signal):
        return min(max(parameters[0] - state.sum(), 0.0), parameters[1])

    def order_on(self, system, policies):
        level, cap = policies.T
        return higher_informs_lower(level, within=cap)

    def claim(self, system):
        return "sample-path"

    def most_stock(self, system):
        return self.levels.high


def shop(lead_time=2, **changes):
    family = {
        "levels": {"low": 0, "high": 20, "step": 2},
        "caps": {"low": 1, "high": 7, "step": 2},
    }
    return LostSales(
        lead_time=lead_time, holding_cost=1, lost_sales_cost=9,
        policies=Capped(**{**family, **changes}),
    )  # fmt: skip


def play(problem, policy, steps, seed, demand=DEMAND):
    return problem.simulator(demand, seed).play(policy, steps)


# A family of one's own.


@pytest.mark.parametrize(("lead_time", "best"), [(1, (8.0, 5.0)), (4, (18.0, 3.0))])
def test_the_best_survives_and_what_is_learned_is_close_to_it(lead_time, best):
    """Of 80 other runs none lost the best, and the worst was 9.7 % above it.

    The promise is to lose it with a probability of at most 5 %, so 2 of 3 with at most 0.8 %.
    """
    problem = shop(lead_time)
    found = iopea.best_in_class(problem.simulator(DEMAND), steps=200_000)
    assert found.policy == best
    learned, lost = [], 0
    for seed in range(3):
        learner = IOPEA(problem)
        result = iopea.run(learner, problem.simulator(DEMAND, seed), 20_000)
        learned.append(result.recommendation)
        lost += not learner.survives(best)
        assert learner.survivors <= learner.count / 4
    assert lost <= 1
    assert found.relative_gaps(problem.simulator(DEMAND), learned).max() <= 0.12


@given(
    st.integers(0, 4), st.floats(0, 20), st.floats(0, 1), st.floats(0.1, 6), st.integers(0, 10**6)
)
@settings(deadline=None, max_examples=60)
def test_the_replay_of_a_dominated_policy_is_its_real_rollout(lead_time, level, share, cap, seed):
    problem = shop(lead_time, levels={"low": 0, "high": 20}, caps={"low": 0, "high": 6})
    demand = Exponential(mean=2, zero_probability=0.3)
    lower = (share * level, cap)
    evaluator = problem.evaluator(np.array([lower]))
    evaluator.observe(play(problem, (level, cap), 80, seed, demand).trajectory, evaluate=True)
    real = play(problem, lower, 80, seed, demand).trajectory
    costs = (real["stock"] - real["sales"]) - 9 * real["sales"]
    estimates = evaluator.estimates()
    assert estimates.steps[0] == 80
    assert estimates.sums.sum() == pytest.approx(costs.sum(), abs=1e-9)
    assert evaluator.departures == 0


@pytest.mark.parametrize("steps", [40, 200])
def test_estimates_are_right_though_other_policies_leave_an_empty_shop(steps):
    """A cap of 1 empties the shop each time; with a cap of 3, the mean demand, it hardly recovers.

    Of 5 policies no estimate is more than 5 standard errors off, which fails once in 10^5. Replays
    that went on as if the real stock were not less than theirs were 80 (16) standard errors off.
    """
    problem = shop(4)
    policies = np.array([[level, 3.0] for level in (10, 12, 14, 16, 18)])
    evaluator, system = problem.evaluator(policies), problem.simulator(DEMAND, seed=1)
    for _ in range(200_000 // steps):
        for cap in (1.0, 3.0):
            evaluator.observe(system.play((20.0, cap), steps).trajectory, evaluate=True)
    estimates = evaluator.estimates()
    true = system.costs(policies, 4_000_000, 64, seed=0).mean - 9 * 3
    means = estimates.sums / estimates.sizes
    errors = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    assert (np.abs(estimates.mean - true) <= 5 * errors).all()
    assert (estimates.steps >= 0.6 * 200_000).all()


def test_saved_and_resumed_it_is_the_same_run(tmp_path):
    problem = shop()
    whole, system = IOPEA(problem), problem.simulator(DEMAND, seed=5)
    costs = iopea.run(whole, system, 3000).costs
    resumed, system, pieces = IOPEA(problem), problem.simulator(DEMAND, seed=5), []
    for steps in (1, 2, 40, 357, 2600):
        pieces.append(iopea.run(resumed, system, steps).costs)
        for name, thing in (("learner", resumed), ("system", system)):
            save_state(thing.state_dict(), tmp_path / name)
        resumed, system = IOPEA(problem), problem.simulator(DEMAND, seed=99)
        resumed.load_state_dict(load_state(tmp_path / "learner"))
        system.load_state_dict(load_state(tmp_path / "system"))
    np.testing.assert_array_equal(np.concatenate(pieces), costs)
    assert_same_state(resumed.state_dict(), whole.state_dict())
    assert resumed.recommend() == whole.recommend()


def test_its_order_is_confirmed_and_a_false_one_rejected():
    problem, points = shop(), np.array([[6.0, 5.0], [6.0, 3.0], [12.0, 3.0], [16.0, 1.0]])
    for lead_time in (0, 1, 4):
        report = iopea.check_order(shop(lead_time), DEMAND)
        assert report.holds
        assert report.pairs > 0
        assert report.width == 4  # one chain for each cap
    by_cap = InformationOrder.from_key(points[:, 1])
    report = iopea.check_order(problem, DEMAND, policies=points, order=by_cap)
    assert not report.holds
    assert report.counter_example.step > 0
    # Of the same level, a higher cap informs a lower one only where there is no lead time.
    same = np.array([[12.0, cap] for cap in (1.0, 3.0, 5.0, 7.0)])
    by_cap = InformationOrder.from_key(same[:, 1])
    assert iopea.check_order(shop(0), DEMAND, policies=same, order=by_cap).holds
    assert not iopea.check_order(shop(1), DEMAND, policies=same, order=by_cap).holds


def test_it_is_described_with_its_kind_and_ranges():
    problem = shop()
    assert problem.describe()["family"] == {
        "kind": "capped-base-stock",
        "levels": {"low": 0.0, "high": 20.0, "step": 2.0},
        "caps": {"low": 1.0, "high": 7.0, "step": 2.0},
    }
    assert problem == shop()
    assert problem != shop(caps={"low": 1, "high": 9, "step": 2})
    assert problem.policy_class.names == ("level", "cap")


def test_what_a_family_can_not_be_is_refused():
    system = LostSalesSystem(lead_time=1, holding_cost=1, lost_sales_cost=9)

    class Returns(Capped):
        @staticmethod
        def order(state, parameters, signal):
            # In states that are not among those on which a rule is tried.
            return -1.0 if 0.0 < state[0] < 4.0 else max(parameters[0] - state.sum(), 0.0)

    returning = iopea.Problem(
        system, Returns(levels={"low": 0, "high": 9}, caps=Levels(low=0, high=1))
    )
    simulator = returning.simulator(DEMAND)
    simulator.play((0.0, 1.0), 3)
    with pytest.raises(InputError, match=r"The rule of policy 9, 1 orders -1.*at least 0"):
        simulator.play((9.0, 1.0), 50)


# The compiled loop of any rule, beside the kernels of families that have their own.


def systems():
    for lead_time in (0, 1, 4):
        system = LostSalesSystem(lead_time=lead_time, holding_cost=1, lost_sales_cost=9)
        yield system, BaseStock(levels=Levels(low=0, high=12)), (7.3,)
    for leads in ((1, 0), (3, 1), (4, 2)):
        system = DualSourcingSystem(
            regular_lead_time=leads[0], expedited_lead_time=leads[1], holding_cost=1,
            lost_sales_cost=9, regular_cost=0.1, expedited_cost=0.5,
        )  # fmt: skip
        levels = Levels(low=0, high=12)
        yield system, DualIndex(expedited_levels=levels, regular_levels=levels), (2.9, 7.3)
        yield system, BaseSurge(orders=Levels(low=0, high=2), levels=levels), (0.7, 3.3)


every_family = pytest.mark.parametrize(("system", "family", "policy"), list(systems()))


def path(periods=400, seed=3):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(periods) < 0.3, 0.0, rng.exponential(1.5, periods))


@every_family
@pytest.mark.parametrize("until_empty", [False, True])
def test_any_rule_compiled_is_the_kernel_of_the_family(system, family, policy, until_empty):
    start = np.random.default_rng(1).uniform(0, 1, 1 + sum(system.sources.values()))
    played = (0.0,) * len(policy) if until_empty else policy
    own, state = start.copy(), start.copy()
    columns = family.roll_out(system, played, path(), own, until_empty)
    generic = OrderingFamily.roll_out(family, system, played, path(), state, until_empty)
    np.testing.assert_allclose(columns, generic, rtol=0, atol=1e-12)
    np.testing.assert_allclose(own, state, rtol=0, atol=1e-12)
    assert columns.shape[1] == 400 or (until_empty and not own.any())


@every_family
def test_traces_orders_and_costs_are_those_of_the_compiled_rule(system, family, policy):
    wide, sources = 1 + sum(system.sources.values()), len(system.sources)
    rows = [
        kind.trace(family, system, policy, path(), np.zeros(wide))
        for kind in (type(family), OrderingFamily)
    ]
    np.testing.assert_allclose(*rows, rtol=0, atol=1e-9)
    stock, sales, *orders = family.roll_out(system, policy, path(), np.zeros(wide), False)
    np.testing.assert_allclose(rows[0][wide:], [*orders, stock, sales], rtol=0, atol=1e-9)
    policies = np.tile(policy, (400, 1))
    for kind in (type(family), OrderingFamily):
        asked = kind.orders_of(family, system, policies, rows[0][:wide].T.copy())
        np.testing.assert_allclose(asked, np.column_stack(orders), rtol=0, atol=1e-9)
    assert asked.shape == (400, sources)
    points = np.vstack([policy, np.multiply(policy, 0.6)])
    demand = Exponential(mean=1.5, zero_probability=0.3)
    one, other = (
        kind.path_costs(family, system, demand.stream(seed_for("path")), points, 3000, 3)
        for kind in (type(family), OrderingFamily)
    )
    np.testing.assert_allclose(one.sums, other.sums, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(one.sizes, other.sizes)


# What a rule of one's own may do wrong.


def changing(state, parameters, signal):
    state[0] = 0.0
    return 1.0


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda state, parameters, signal: -1.0, "gives -1.0 .* at least 0"),
        (lambda state, parameters, signal: float("nan"), "gives nan"),
        (lambda state, parameters, signal: (1.0, 2.0), r"gives \(1.0, 2.0\) .* an order"),
        (lambda state, parameters, signal: None, "gives None"),
        (lambda state, parameters, signal: "much", "gives 'much'"),
        (lambda state, parameters, signal: parameters[5], "failed .* out of bounds"),
        (lambda state, parameters, signal: 1.0 / 0, "failed .* division by zero"),
        (changing, "changed its state or parameters"),
    ],
)
def test_a_rule_is_tried_before_anything_runs_on_it(rule, message):
    class Wrong(Capped):
        order = staticmethod(rule)

    with pytest.raises(InputError, match=message):
        LostSales(
            lead_time=1, holding_cost=1, lost_sales_cost=9,
            policies=Wrong(levels={"low": 0, "high": 4}, caps={"low": 1, "high": 2}),
        )  # fmt: skip


def test_two_suppliers_need_two_orders():
    class One(BaseSurge):
        def rule(self, system):
            return lambda state, parameters, signal: (1.0, 1.0, 7.0)

        check_system = OrderingFamily.check_system

    ranges = {"orders": {"low": 0, "high": 1}, "levels": {"low": 0, "high": 4}}
    with pytest.raises(InputError, match="one for each supplier, of which there are 2"):
        iopea.DualSourcing(
            regular_lead_time=2, expedited_lead_time=0, holding_cost=1, lost_sales_cost=9,
            policies=One(**ranges),
        )  # fmt: skip


class Listed(Capped):
    """Policies of which each informs itself alone, by their place in the list."""

    def policy_class(self, system):
        return iopea.Finite([[4, 4], [8, 5], [16, 7]])

    def order_on(self, system, policies):
        return InformationOrder.trivial(len(policies))


def test_an_order_by_place_is_learned_too():
    family = Listed(levels=Levels(low=0, high=16), caps=Levels(low=4, high=7))
    problem = LostSales(lead_time=1, holding_cost=1, lost_sales_cost=9, policies=family)
    learner = IOPEA(problem)
    result = iopea.run(learner, problem.simulator(DEMAND, seed=1), 6000)
    assert result.recommendation == (8.0, 5.0)
    assert result.survivors == 1
    assert isinstance(learner.warnings, tuple)  # though parameters have no ranges of their own


def test_a_rule_made_for_a_system_is_compiled_once():
    made = []

    class Fresh(Capped):
        def rule(self, system):
            def order(state, parameters, signal):
                return min(max(parameters[0] - state.sum(), 0.0), parameters[1])

            made.append(order)
            return order

    family = Fresh(levels={"low": 0, "high": 20, "step": 2}, caps={"low": 1, "high": 7, "step": 2})
    problem = LostSales(lead_time=2, holding_cost=1, lost_sales_cost=9, policies=family)
    learner = IOPEA(problem)
    simulator = problem.simulator(DEMAND, seed=1)
    for _ in range(5):
        iopea.run(learner, simulator, 20)
    assert 1 <= len(made) <= 2  # tried once, made once


# What does not go together.


def test_ranges_have_all_a_step_or_none():
    family = BaseSurge(orders={"low": 0, "high": 1, "step": 0.5}, levels={"low": 0, "high": 4})
    with pytest.raises(InputError, match="give all a step, or none"):
        iopea.DualSourcing(
            regular_lead_time=2, expedited_lead_time=0, holding_cost=1, lost_sales_cost=9,
            policies=family,
        )  # fmt: skip


def test_a_problem_is_made_of_a_pair_or_of_keys():
    known = shop()
    system, family = known.system, known.family
    assert LostSales(system, family) == known
    for wrong, message in (
        ({"lead_time": 7}, "leave out lead_time"),
        ({"policies": 3}, "leave out policies"),
    ):
        with pytest.raises(InputError, match=message):
            LostSales(system, family, **wrong)
    two = iopea.DualSourcing.example()[0]
    with pytest.raises(InputError, match="is a LostSalesSystem, not a DualSourcingSystem"):
        LostSales(two.system, two.family)
    with pytest.raises(InputError, match="made for a DualSourcingSystem"):
        LostSales(system, two.family)
    with pytest.raises(InputError, match="with capped-base-stock policies has the columns"):
        known.check(iopea.Trajectory((4.0, 1.0), stock=[1.0], sales=[1.0], ordered=[0.0]))


@pytest.mark.parametrize("kind", [["base-stock"], {"a": 1}, 3, "base-stok"])
def test_a_kind_that_is_none_is_refused(kind):
    with pytest.raises(
        InputError,
        match="kind of policies for lost-sales",
    ):
        LostSales(
            lead_time=1, holding_cost=1, lost_sales_cost=9,
            policies={"kind": kind, "levels": {"low": 0, "high": 4}},
        )  # fmt: skip
