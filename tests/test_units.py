"""Units don't matter: stock counted in pieces, dozens or tons is learned the same.

All quantities, which are levels, steps and demand, are multiplied by one factor. With a power of 2
no digit changes, so that all that is learned must be the same bits. With a power of 10 roundings
differ, but the same policies must survive; not so under frugal play, whose counts have cells of a
power of 2.
"""

import numpy as np
import pytest

import iopea
from iopea.demand import Exponential
from iopea.errors import InputError
from iopea.learners.iopea import IOPEA
from iopea.policies import Box, default_radius
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.dual_sourcing.dual_index import LevelPairs
from iopea.systems.lost_sales import LostSales
from iopea.systems.newsvendor import Newsvendor
from iopea.systems.shop.base import Levels
from iopea.theory import base_stock_bound, regret_bound
from iopea.types import Trajectory

BINARY, DECIMAL = (2.0**20, 2.0**-20), (1e6, 1e-6)
SEEDS = range(3)


def levels(unit, high, step=None, low=0):
    return {"low": low * unit, "high": high * unit} | ({"step": step * unit} if step else {})


def shop(unit, step=None):
    return LostSales(
        lead_time=2, holding_cost=1, lost_sales_cost=10, levels=levels(unit, 7, step)
    )  # fmt: skip


def stand(unit, step=None):
    return Newsvendor(overage_cost=1, underage_cost=4, levels=levels(unit, 9, step, low=0.5))


def dual(unit, regular=2, expedited=0, **more):
    return DualSourcing(
        regular_lead_time=regular, expedited_lead_time=expedited, holding_cost=1,
        lost_sales_cost=10, regular_cost=0.1, expedited_cost=0.5,
        expedited_levels=levels(unit, 6, 0.5), regular_levels=levels(unit, 6, 0.5), **more,
    )  # fmt: skip


PROBLEMS = {
    "lost sales": shop,
    "lost sales in steps": lambda unit: shop(unit, 0.1),
    "newsvendor": stand,
    "dual sourcing": dual,
    "dual sourcing, level": lambda unit: dual(unit, estimator="level"),
    "dual sourcing on paths": lambda unit: dual(unit, 1, 0, order_by="sample-path"),
    "dual sourcing on paths, later": lambda unit: dual(unit, 2, 1, order_by="sample-path"),
}
every_problem = pytest.mark.parametrize("build", PROBLEMS.values(), ids=PROBLEMS)
every_horizon = pytest.mark.parametrize("horizon", [None, 1500], ids=["no horizon", "horizon"])


def learn(build, unit, seed, horizon, steps=1500, play="maximal"):
    """A run with all quantities in this unit, and the numbers of the policies that survived."""
    problem = build(unit)
    truth = Exponential(mean=unit, maximum=3 * unit, zero_probability=0.3)
    learner = IOPEA(problem, play=play, horizon=horizon)
    result = iopea.run(learner, problem.simulator(truth, seed), steps)
    return learner, result, learner.state_dict()["state"]["pool"]["alive"]


def assert_same(one, other, unit):
    """The same bits, up to the unit of one of them."""
    (learner, result, alive), (plain, expected, same) = one, other
    np.testing.assert_array_equal(alive, same)
    np.testing.assert_array_equal(learner.surviving, plain.surviving * unit)
    np.testing.assert_array_equal(learner.estimates().sums, plain.estimates().sums * unit)
    np.testing.assert_array_equal(result.costs, expected.costs * unit)
    assert result.recommendation == tuple(unit * level for level in expected.recommendation)
    assert result.effective_alpha == expected.effective_alpha
    assert [each.threshold for each in result.records] == [
        each.threshold for each in expected.records
    ]


@pytest.mark.parametrize("unit", BINARY)
@pytest.mark.parametrize(
    "name", ["lost sales", "lost sales in steps", "newsvendor", "dual sourcing"]
)
def test_units_change_nothing_under_frugal_play(name, unit):
    plain, scaled = (learn(PROBLEMS[name], u, 0, None, 400, "frugal") for u in (1.0, unit))
    assert_same(scaled, plain, unit)


@every_problem
@every_horizon
@pytest.mark.parametrize("seed", SEEDS)
def test_units_change_nothing(build, horizon, seed):
    plain, result, alive = learn(build, 1.0, seed, horizon)
    assert 0 < alive.size < plain.count
    for unit in BINARY:
        assert_same(learn(build, unit, seed, horizon), (plain, result, alive), unit)
    for unit in DECIMAL:
        learner, other, same = learn(build, unit, seed, horizon)
        np.testing.assert_array_equal(same, alive)
        np.testing.assert_allclose(other.costs, result.costs * unit, rtol=1e-9, atol=1e-9 * unit)
        expected = np.array(result.recommendation) * unit
        np.testing.assert_allclose(other.recommendation, expected, rtol=1e-9, atol=1e-9 * unit)
        assert [each.survivors for each in other.records] == [
            each.survivors for each in result.records
        ]
        assert len(learner.warnings) == len(plain.warnings)


@pytest.mark.parametrize("unit", [*BINARY, *DECIMAL, 1e-30, 1e30])
@pytest.mark.parametrize("horizon", [None, 100, 10**8])
def test_a_net_is_a_share_of_the_range(unit, horizon):
    size = 2001 if horizon != 10**8 else 10_001
    box = Box(unit, 8 * unit)
    assert box.count(default_radius(box.extent, horizon)) == size
    points = box.net(default_radius(box.extent, horizon))[:, 0] / unit
    np.testing.assert_allclose(points, np.linspace(1, 8, size), rtol=1e-12)


def test_the_bound_is_the_same_in_all_units():
    inputs = {"lead_time": 2, "holding_cost": 1, "lost_sales_cost": 10, "restart_time": 9}
    plain = base_stock_bound(10**6, bound=7.0, **inputs)
    for unit in (*BINARY, *DECIMAL):
        bound = base_stock_bound(10**6, bound=7 * unit, **inputs)
        assert bound.inputs["log_policies"] == pytest.approx(plain.inputs["log_policies"])
        expected = {name: unit * term for name, term in plain.terms.items()}
        assert bound.terms == pytest.approx(expected)
        assert bound.total > 0


def test_the_net_of_a_bound_is_that_of_the_learner():
    problem = shop(1.0)
    for horizon in (10**4, 10**8):
        bound = base_stock_bound(
            horizon, lead_time=2, holding_cost=1, lost_sales_cost=10, bound=7, restart_time=9
        )
        learner = IOPEA(problem, rule="theorem", horizon=horizon)
        assert bound.inputs["log_policies"] == pytest.approx(np.log(learner.count))
    narrow = regret_bound(
        10**4, span=1, bound=7, extent=2, dimension=1, lipschitz=1, restart_time=9
    )  # fmt: skip
    assert narrow.inputs["radius"] == 2 / 2000
    with pytest.raises(InputError, match="extent must be a finite number above 0, not 0"):
        regret_bound(10**4, span=1, bound=7, extent=0, dimension=1, lipschitz=1, restart_time=9)


@pytest.mark.parametrize("unit", [1.0, *BINARY, *DECIMAL, 1e-12])
def test_a_level_as_people_write_it_is_told_by_the_size_of_levels(unit):
    learner = IOPEA(shop(unit, 0.1))
    (asked,) = learner.ask().policy
    with pytest.raises(InputError, match="Cannot tell steps of policy"):
        learner.tell(Trajectory(1.1 * asked, stock=[0.0], sales=[0.0]))
    learner.tell(Trajectory(asked * (1 + 1e-12), stock=[0.0], sales=[0.0]))
    assert learner.steps == 1


@pytest.mark.parametrize("unit", [1.0, *BINARY, *DECIMAL, 1e-12, 1e12])
def test_steps_lead_to_the_end_in_any_unit(unit):
    assert Levels(**levels(unit, 7, 0.1)).high == 7 * unit
    assert Levels(**levels(unit, 2_000_000, 0.1)).high == 2_000_000 * unit
    with pytest.raises(InputError, match=r"in steps of .* end at .*: give high ="):
        Levels(**levels(unit, 7, 2))
    with pytest.raises(InputError, match=r"are less than a step of .* apart: give high ="):
        Levels(**levels(unit, 7, 8))


@pytest.mark.parametrize("unit", [1.0, *BINARY, *DECIMAL])
def test_pairs_that_do_the_same_are_found_in_any_unit(unit):
    # 0.1 + 0.1 k and 0.1 (k + 1) differ by a rounding for some k, in some units.
    expedited, regular = levels(unit, 6, 0.1), levels(unit, 6, 0.1, low=0.1)
    pairs = LevelPairs(Levels(**expedited), Levels(**regular))
    assert pairs.count(1.0) == len(pairs.net(1.0)) == 60 + 60 * 61 // 2


@pytest.mark.parametrize("lead", [0, 1])
@pytest.mark.parametrize("unit", [1.0, *BINARY, *DECIMAL])
def test_gaps_that_are_the_same_are_related_in_any_unit(lead, unit):
    whole = dual(unit, 1 + lead, lead, order_by="sample-path")
    z_e = np.arange(0, 1024) * 3.0 / 1024
    # Three gaps, as a sum and as a difference: they differ by roundings.
    pairs = [np.column_stack([z_e, z_e + gap]) * unit for gap in (0.0, 3 / 1024, 3.0)]
    order = whole.order(np.vstack(pairs))
    assert order.width() == 3
