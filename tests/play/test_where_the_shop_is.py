"""Start where the shop is: the policy in force, and stock on hand and on order."""

import numpy as np
import pytest

from iopea import IOPEA, LostSales, run
from iopea.demand import Poisson
from iopea.errors import InputError
from iopea.learners import LEARNERS
from iopea.problem_files import parse_problem, problem_from, tables_of
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.newsvendor import Newsvendor
from shop_floor import ShopFloor

FILE = """
[problem]
kind = "lost-sales"
lead_time = 2
holding_cost = 1.0
lost_sales_cost = 9.0
levels = { low = 0.0, high = 40.0, step = 1.0 }
[policies]
start = 12.0
[demand]
distribution = "poisson"
mean = 4.0
"""


def shop(**more):
    levels = {"low": 0, "high": 40, "step": 1}
    return LostSales(lead_time=2, holding_cost=1, lost_sales_cost=9, levels=levels, **more)


def test_a_problem_file_may_name_the_policy_in_force():
    problem, demand = parse_problem(FILE)
    assert problem.start == (12.0,)
    assert IOPEA(problem, play="frugal").ask().policy == (12.0,)
    assert IOPEA(problem, play="frugal", start=7).ask().policy == (7.0,)
    assert LEARNERS["order-up-to"](problem).ask().policy == (12.0,)
    assert problem_from(tables_of(problem, demand.table()))[0] == problem
    assert problem != shop()
    assert problem.changed(lead_time=1).start == (12.0,)


def test_maximal_play_does_not_need_the_policy_in_force():
    problem, _ = parse_problem(FILE)
    assert IOPEA(problem, play="maximal").ask().policy == (40.0,)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("41.0", "The start 41 is not a policy of the class"),
        ('"high"', "The start is 'high': give the parameters of a policy"),
        ("[1.0, 2.0]", "The start 1, 2 is not a policy of the class"),
    ],
)
def test_a_wrong_start_in_a_file_is_refused(start, words):
    with pytest.raises(InputError, match=words):
        parse_problem(FILE.replace("12.0", start))


def test_what_is_on_order_arrives_oldest_first():
    stock = shop().simulator(Poisson(mean=1e-9), state=[1, 7, 3]).play((0.0,), 3)
    assert stock.trajectory["stock"].tolist() == [8.0, 11.0, 11.0]


@pytest.mark.parametrize("play", ["maximal", "frugal"])
def test_records_fit_only_if_the_state_is_known(play):
    def learned(**more):
        learner = IOPEA(capped, play=play, **more)
        run(learner, capped.simulator(Poisson(mean=4), seed=1, state=[30, 9, 4]), 20)
        return learner._pool.evaluator.departures

    capped = shop().changed(order_multiple=2.0)
    assert learned(state=[30, 9, 4]) == 0
    assert learned() > 0


def test_a_full_shop_contradicts_nothing():
    learner = IOPEA(shop(), play="frugal", start=12, state=[30, 9, 4])
    run(learner, shop().simulator(Poisson(mean=4), seed=1, state=[30, 9, 4]), 200)
    assert not learner.warnings


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ([1, 2], r"give 3 quantities of at least 0, on_hand, order_2, order_1"),
        ([1, 2, -3], "The state is"),
        ([1, 2, float("nan")], "The state is"),
        ("full", "The state is 'full'"),
    ],
)
def test_a_wrong_state_is_refused(state, words):
    with pytest.raises(InputError, match=words):
        shop().simulator(Poisson(mean=4), state=state)
    with pytest.raises(InputError, match=words):
        IOPEA(shop(), play="frugal", state=state)


def test_a_stand_that_starts_afresh_has_no_state():
    stand = Newsvendor(overage_cost=1, underage_cost=4, levels={"low": 0, "high": 10})
    with pytest.raises(InputError, match="no stock to begin with"):
        IOPEA(stand, play="frugal", state=[3])


def test_two_suppliers_may_begin_with_stock():
    problem, demand = DualSourcing.example()
    names = problem.control.states
    learner = IOPEA(problem, play="frugal", state=np.ones(len(names)))
    run(learner, problem.simulator(demand, state=np.ones(len(names))), 50)
    assert learner._pool.evaluator.departures == 0


def test_a_level_too_low_for_any_delivery_is_left():
    """Cases of six: up to a level of 5 nothing is delivered, and nothing is ever sold."""
    learner = IOPEA(shop(), play="frugal", start=1)
    ShopFloor(seed=0, multiple=6.0).teach(learner, 120)
    assert learner.ask().policy[0] >= 6
