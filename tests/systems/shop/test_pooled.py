"""Estimates from censored records: candidates are simulated on the demand of all periods."""

import numpy as np
import pytest

import iopea
from iopea import IOPEA, LostSales
from iopea.demand import Normal, Poisson
from iopea.learners.diagnostics import DEPENDS
from iopea.storage import load_state, save_state
from iopea.studies.guarantees.truths import Persistent
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.newsvendor import Newsvendor
from iopea.systems.shop.pooled import ProductLimitReplay
from iopea.testing.twins import assert_same_state

DEMAND = Poisson(mean=3)
RUNS = 30


def range_(low, high, step):
    return {"low": low, "high": high, "step": step}


def shop(policies, lead_time=1, **changes):
    costs = {"lead_time": lead_time, "holding_cost": 1, "lost_sales_cost": 9}
    return LostSales(**costs, **changes, policies=policies)


def two_suppliers(policies, expedited=1):
    return DualSourcing(
        regular_lead_time=2, expedited_lead_time=expedited, holding_cost=1, lost_sales_cost=9,
        regular_cost=0.1, expedited_cost=0.5, policies=policies,
    )  # fmt: skip


def capped(**changes):
    levels, caps = range_(0, 16, 2), range_(0, 6, 2)
    return shop({"kind": "capped-base-stock", "levels": levels, "caps": caps}, **changes)


def constant(high=5.0, step=0.5, **changes):
    return shop({"kind": "constant-order", "orders": range_(0, high, step)}, **changes)


def surge(high=4.0, expedited=1):
    ranges = {"orders": range_(0, high, 0.5), "levels": range_(0, 12, 2)}
    return two_suppliers({"kind": "base-surge", **ranges}, expedited)


#: A problem, policies with little stock that are played, each for so many periods, and candidates.
CASES = {
    "capped": (capped(), [((6.0, 4.0), 400)], [[8.0, 4.0], [6.0, 2.0]]),
    "s-S": (
        shop(
            {
                "kind": "s-S",
                "reorder_levels": range_(0, 12, 2),
                "order_up_to_levels": range_(0, 16, 2),
            },
            fixed_order_cost=3,
        ),
        [((4.0, 8.0), 400)],
        [[6.0, 8.0], [4.0, 6.0]],
    ),
    "constant": (constant(), [((2.5,), 1000)], [[2.5], [2.0]]),
    "whole cases": (
        shop({"kind": "base-stock", "levels": range_(0, 16, 1)}, order_multiple=4),
        [((7.0,), 400)],
        [[6.0], [5.0]],
    ),
    "capped dual index": (
        two_suppliers(
            {
                "kind": "capped-dual-index",
                "expedited_levels": range_(0, 10, 2),
                "regular_levels": range_(0, 14, 2),
                "caps": range_(0, 4, 1),
            }
        ),
        [((4.0, 8.0, 2.0), 400)],
        [[4.0, 12.0, 2.0], [2.0, 12.0, 2.0]],
    ),
    "base-surge": (surge(), [((1.0, 4.0), 500)], [[1.0, 4.0], [0.5, 4.0]]),
    "newsvendor": (
        Newsvendor(
            overage_cost=1, underage_cost=4, levels=range_(0, 10, 1), estimator="product-limit"
        ),
        [((2.0,), 300), ((5.0,), 200)],
        [[4.0], [5.0]],
    ),
}


def observed(problem, plays, seed, policies, demand=DEMAND, naive=False):
    """An evaluator with the records of some policies; perhaps with sales in place of demand."""
    evaluator, system = problem.evaluator(policies), problem.simulator(demand, seed)
    for policy, steps in plays:
        evaluator.observe(system.play(policy, steps).trajectory, evaluate=True)
    assert isinstance(evaluator, ProductLimitReplay)
    if naive:
        state = evaluator.state_dict()
        state["records"] = np.array(state["records"])
        state["records"][0] = 1e6  # as if the shop had never been sold out
        evaluator.load_state_dict(state)
    return evaluator


@pytest.mark.parametrize("name", CASES)
def test_estimates_are_right_on_average_though_demand_is_censored(name):
    """Within 6 standard errors, where sales in place of demand are further away than that.

    With these, a constant order seems to fill the shop, so that there is no estimate at all.
    """
    problem, plays, policies = CASES[name]
    policies = np.array(policies)
    rows, naive = (
        np.array(
            [
                observed(problem, plays, seed, policies, naive=each).estimates().mean
                for seed in range(RUNS)
            ]
        )
        for each in (False, True)
    )
    table = problem.describe()
    penalty = table.get("lost_sales_cost", table.get("underage_cost"))
    long = problem.simulator(DEMAND).costs(policies, 300_000, 20, seed=0)
    true = long.mean - penalty * 3
    spread = (long.sums / long.sizes[:, None]).std(axis=0, ddof=1) / np.sqrt(20)
    errors, naive_errors = (
        (each.mean(axis=0) - true) / np.hypot(each.std(axis=0, ddof=1) / np.sqrt(RUNS), spread)
        for each in (rows, naive)
    )
    assert np.isfinite(rows).all()
    assert np.abs(errors).max() <= 6
    assert np.isnan(naive_errors).any() or np.abs(naive_errors).max() > 6
    assert np.isnan(naive_errors).any() == (name == "constant")


@pytest.mark.parametrize(
    ("name", "played"), [("capped", (6.0, 4.0)), ("s-S", (2.0, 4.0)), ("newsvendor", (2.0,))]
)
def test_policies_that_need_more_than_was_ever_held_have_no_estimate(name, played):
    problem = CASES[name][0]
    every = problem.policy_class.net(1.0)
    estimates = observed(problem, [(played, 400)], 1, every).estimates()
    highest = np.flatnonzero((every == every.max(axis=0)).all(axis=1))
    assert np.isnan(estimates.mean[highest]).all()
    known = np.isfinite(estimates.mean)
    assert 0 < known.sum() < len(every)
    # What is unsure of the others is less than their noise.
    sizes = np.broadcast_to(estimates.sizes_by_policy, estimates.sums.shape)
    means = estimates.sums[:, known] / sizes[:, known]
    noise = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    assert (estimates.unsure[known] <= noise).all()
    # A policy that was played itself is known without doubt.
    own = np.flatnonzero((every == played).all(axis=1))
    np.testing.assert_allclose(estimates.unsure[own], 0.0, atol=1e-6)


def test_where_nothing_was_sold_out_demand_is_what_was_sold():
    problem = capped()
    policies = np.array([[6.0, 2.0], [8.0, 4.0]])
    path = np.random.default_rng(1).poisson(3, 200).astype(float)
    trajectory = iopea.Trajectory((16.0, 6.0), stock=np.full(200, 100.0), sales=path)
    evaluator = problem.evaluator(policies)
    evaluator.observe(trajectory, evaluate=True)
    estimates = evaluator.estimates()
    assert estimates.unsure is None or not estimates.unsure.any()
    assert estimates.sizes_by_policy.sum() == 200


# Constant orders


@pytest.mark.parametrize("problem", [constant(), surge()])
def test_constant_orders_not_below_mean_demand_are_neither_estimated_nor_played(problem):
    policies = problem.policy_class.net(1.0)
    orders = policies[:, 0]
    played = (2.0,) if policies.shape[1] == 1 else (1.0, 8.0)
    evaluator = observed(problem, [(played, 1000)], 1, policies)
    means, may_play = evaluator.estimates().mean, evaluator.may_play
    assert np.isnan(means[orders >= 3.0]).all()
    assert not may_play[orders >= 3.0].any()
    assert np.isfinite(means[orders <= 2.0]).any()
    assert may_play[(orders > 0) & (orders <= 2.0)].all()
    assert "neither played nor judged" in evaluator.note


def test_the_learner_says_so():
    problem = constant()
    learner = IOPEA(problem)
    iopea.run(learner, problem.simulator(DEMAND, 1), 4000)
    assert "neither played nor judged" in learner.outlook
    assert 1.5 <= learner.recommend()[0] < 3.0
    low = constant(high=1.5)
    learner = IOPEA(low)
    iopea.run(learner, low.simulator(DEMAND, 1), 2000)
    assert "neither played nor judged" not in learner.outlook


def test_nothing_that_fills_the_shop_is_played():
    problem, played = constant(), []
    learner = IOPEA(problem, play="maximal")

    def watch(learner, done):
        played.append(learner.ask().policy[0])

    iopea.run(learner, problem.simulator(DEMAND, 2), 3000, watch)
    # Above mean demand at most for a while at the start, where all stock is sold.
    assert max(played[len(played) // 2 :]) < 3.0
    assert max(played) > 0.0


@pytest.mark.parametrize("problem", [constant(), surge(), surge(expedited=0)])
def test_something_positive_may_be_played_from_the_start(problem):
    policies = problem.policy_class.net(1.0)
    may_play = problem.evaluator(policies).may_play
    assert may_play.any()
    wide = 1 + sum(problem.system.sources.values())
    orders = problem.family.orders_of(problem.system, policies, np.zeros((len(policies), wide)))
    assert (orders[may_play].sum(axis=1) > 0).any()


def test_it_gets_past_demand_that_is_never_nothing():
    """Every order below 10 is sold at once, so that mean demand can't be seen at first."""
    problem = constant(high=30.0, step=1.0)
    learner = IOPEA(problem)
    result = iopea.run(learner, problem.simulator(Normal(mean=20, sd=3), 1), 3000)
    assert 15 <= result.recommendation[0] < 20


def test_families_without_constant_orders_may_play_everything():
    problem, plays, policies = CASES["capped"]
    evaluator = observed(problem, plays, 0, np.array(policies))
    assert evaluator.may_play is None
    assert evaluator.note is None


# Records


@pytest.mark.parametrize("name", ["capped", "constant", "newsvendor"])
def test_saved_and_loaded_it_gives_the_same_estimates(name, tmp_path):
    problem, plays, _ = CASES[name]
    policies = problem.policy_class.net(1.0)
    evaluator = observed(problem, plays, 3, policies)
    save_state(evaluator.state_dict(), tmp_path / "state")
    other = problem.evaluator(policies)
    other.load_state_dict(load_state(tmp_path / "state"))
    one, two = evaluator.estimates(), other.estimates()
    np.testing.assert_array_equal(one.sums, two.sums)
    np.testing.assert_array_equal(one.sizes, two.sizes)
    np.testing.assert_array_equal(one.unsure, two.unsure)
    assert_same_state(evaluator.state_dict(), other.state_dict())
    assert evaluator.at_start == other.at_start


def test_neither_pieces_nor_a_look_in_between_change_estimates():
    problem, _, policies = CASES["capped"]
    trajectory = problem.simulator(DEMAND, 5).play((6.0, 4.0), 300).trajectory
    whole, pieces = (problem.evaluator(np.array(policies)) for _ in range(2))
    whole.observe(trajectory, evaluate=True)
    system = problem.simulator(DEMAND, 5)
    for steps in (1, 99, 200):
        pieces.observe(system.play((6.0, 4.0), steps).trajectory, evaluate=True)
        pieces.estimates()
    np.testing.assert_array_equal(whole.estimates().sums, pieces.estimates().sums)


@pytest.mark.parametrize("name", ["capped", "constant"])
def test_means_of_other_policies_are_those_of_their_estimates(name):
    """Up to the orders of the sample over which they are averaged, which is less than the noise."""
    problem, plays, _ = CASES[name]
    policies = problem.policy_class.net(1.0)
    evaluator = observed(problem, plays, 4, policies)
    means, estimates = evaluator.means_of(policies), evaluator.estimates()
    np.testing.assert_array_equal(means, evaluator.means_of(policies))
    both = np.isfinite(means) & np.isfinite(estimates.mean)
    assert both.sum() >= 3
    sizes = np.broadcast_to(estimates.sizes_by_policy, estimates.sums.shape)
    per_batch = estimates.sums[:, both] / sizes[:, both]
    noise = per_batch.std(axis=0, ddof=1) / np.sqrt(len(per_batch))
    assert (np.abs(means - estimates.mean)[both] <= noise).all()
    # Means do not depend on what else is asked for, nor are those of other records given.
    assert evaluator.means_of(policies[:3]).shape == (3,)
    evaluator.observe(problem.simulator(DEMAND, 9).play(plays[0][0], 50).trajectory, evaluate=True)
    assert not np.array_equal(evaluator.means_of(policies)[both], means[both])


def test_policies_that_are_gone_change_nothing_for_the_others():
    problem, plays, policies = CASES["capped"]
    evaluator = observed(problem, plays, 6, np.array(policies))
    before = evaluator.estimates().mean
    evaluator.keep(np.array([False, True]))
    np.testing.assert_allclose(evaluator.estimates().mean, before[1:], rtol=1e-12)
    evaluator.forget()
    assert evaluator.estimates().steps.sum() == 0


# Assumptions


def test_nothing_is_eliminated_once_dependence_is_noticed():
    problem = capped()
    learner, seen = IOPEA(problem), []

    def watch(learner, done):
        noticed = any(DEPENDS in text for text in learner.warnings)
        seen.append((noticed, learner.survivors))

    iopea.run(learner, problem.simulator(Persistent(mean=3, correlation=0.9), 1), 6000, watch)
    after = [survivors for noticed, survivors in seen if noticed]
    assert len(after) >= 3
    assert len(set(after)) == 1
    (text,) = [text for text in learner.warnings if DEPENDS in text]
    assert "nothing more is eliminated" in text
    # With demand that is independent, much is eliminated in the same time.
    learner = IOPEA(problem)
    iopea.run(learner, problem.simulator(Persistent(mean=3, correlation=0.0), 1), 6000)
    assert learner.survivors < after[0]
    assert not any(DEPENDS in text for text in learner.warnings)
