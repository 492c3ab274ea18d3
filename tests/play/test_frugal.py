"""Frugal play: a year costs little from any start, and the best policy still survives."""

import numpy as np
import pytest

from iopea import IOPEA, LostSales, ReorderUpTo, Trajectory, best_in_class, run
from iopea.demand import Constant, Empirical, Exponential, NegativeBinomial, Normal, Poisson
from iopea.errors import InputError
from iopea.learners.diagnostics import DEPENDS
from iopea.play import PLAYERS, Frugal, Maximal, as_player
from iopea.problems.base import Choice, Evaluator
from iopea.storage import load_state, save_state
from iopea.studies.guarantees.truths import Persistent
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.newsvendor import Newsvendor
from iopea.systems.queue import ServiceRateQueue
from iopea.testing.twins import assert_same_state

YEAR = 365


def levels(high=20, step=1):
    return {"low": 0, "high": high, "step": step}


def shop(high=20, step=1, lead_time=1, **changes):
    return LostSales(
        lead_time=lead_time, holding_cost=1, lost_sales_cost=9, levels=levels(high, step), **changes
    )


def regret(problem, demand, best, seed, steps=YEAR, **settings):
    learner = IOPEA(problem, **settings)
    costs = run(learner, problem.simulator(demand, seed=seed), steps).costs.sum()
    least = problem.simulator(demand, seed=seed).play(best, steps).costs.sum()
    return (costs - least) / least


def test_names_classes_and_objects_are_taken():
    assert isinstance(as_player("frugal"), Frugal)
    assert isinstance(as_player(Maximal), Maximal)
    mine = Frugal(inertia=2.0)
    assert as_player(mine) is mine
    assert set(PLAYERS) == {"maximal", "frugal"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"play": "boldly"}, "Unknown play 'boldly'"),
        ({"play": 3}, "play is a name, a class or an instance of Player, not 3"),
        ({"play": "frugal", "rule": "published"}, "there is no rule 'published'"),
        ({"play": "frugal", "restart": "return"}, "there is no restart 'return'"),
        ({"play": "frugal", "start": 21}, "The start 21 is not a policy of the class"),
        ({"play": "frugal", "start": (3, 4)}, "The start 3, 4 is not a policy"),
        ({"play": "maximal", "start": 3}, "or use play = 'frugal'"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, words):
    with pytest.raises(InputError, match=words):
        IOPEA(shop(), horizon=100, **settings)


def test_frugal_play_is_the_default_where_demand_drives_the_system():
    queue, _ = ServiceRateQueue.example()
    stand = {"overage_cost": 1, "underage_cost": 4, "levels": levels()}
    assert {
        "shop": IOPEA(shop()).player.name,
        "own rule": IOPEA(shop(), rule="published").player.name,
        "restarts": IOPEA(shop(), restart="return").player.name,
        "stand": IOPEA(Newsvendor(**stand)).player.name,
        "replay": IOPEA(Newsvendor(**stand, estimator="replay")).player.name,
        "queue": IOPEA(queue).player.name,
    } == {
        "shop": "frugal", "own rule": "maximal", "restarts": "maximal", "stand": "frugal",
        "replay": "maximal", "queue": "maximal",
    }  # fmt: skip


def test_a_problem_without_demand_is_refused():
    queue, _ = ServiceRateQueue.example()
    with pytest.raises(InputError, match="use play = 'maximal'"):
        IOPEA(queue, play="frugal")


def test_play_begins_with_the_start_and_without_one_far_below_the_top():
    assert IOPEA(shop(), play="frugal", start=7).ask().policy == (7.0,)
    assert IOPEA(shop(high=640), play="frugal").ask().policy == (40.0,)
    assert IOPEA(shop(high=5), play="frugal").ask().policy == (1.0,)


@pytest.mark.parametrize("start", [2, 4, 8, 16])
def test_a_year_costs_a_fraction_of_what_maximal_play_costs(start):
    """Best level 8 of 0 to 20; maximal play pays about half of the least cost in a year."""
    problem, demand = shop(), Poisson(mean=3)
    frugal = [regret(problem, demand, (8.0,), s, play="frugal", start=start) for s in range(4)]
    maximal = [regret(problem, demand, (8.0,), s, play="maximal") for s in range(8)]
    assert np.mean(frugal) < 0.15
    assert np.mean(frugal) < np.mean(maximal) / 3


def test_a_range_ten_times_as_wide_costs_next_to_nothing_for_pairs():
    """Pairs of a net that is coarser than the steps are refined before they are played."""

    def problem(wide):
        return LostSales(
            lead_time=1, holding_cost=1, lost_sales_cost=10, fixed_order_cost=15,
            policies=ReorderUpTo(
                reorder_levels=levels(30 * wide), order_up_to_levels=levels(50 * wide)
            ),
        )  # fmt: skip

    demand, best = Poisson(mean=4), (7.0, 18.0)
    narrow, wide = (
        [regret(problem(wide), demand, best, seed, start=(3, 11)) for seed in range(2)]
        for wide in (1, 10)
    )
    # Without it: 9 %, where the narrow range has 2 %.
    assert np.mean(wide) < np.mean(narrow) + 0.03
    assert np.mean([regret(problem(1), demand, best, seed) for seed in range(2)]) < 0.1


@pytest.mark.parametrize(("lead_time", "high", "start"), [(60, 500, 217), (30, 354, 118)])
def test_one_day_sold_out_does_not_fill_a_slow_shop(lead_time, high, start):
    """Prior demand follows from the start, also where that is the best reply to no demand tried."""
    slow = shop(high, lead_time=lead_time)
    daily = start / lead_time
    learner = IOPEA(slow, start=start, state=[0.0] + [daily] * lead_time)
    learner.tell(Trajectory(start, stock=[daily], sales=[daily]))
    assert learner.ask().policy[0] < 2.5 * start


@pytest.mark.parametrize("stock", [3000, 10_000, 1e300])
def test_a_stock_far_above_demand_does_not_blur_it(stock):
    problem, state = shop(60, lead_time=2), [stock, 0, 0]
    best = best_in_class(problem.simulator(Poisson(mean=4))).policy
    for seed in range(4):
        learner = IOPEA(problem, start=15, state=state)
        run(learner, problem.simulator(Poisson(mean=4), seed=seed, state=state), 300)
        assert learner.survives(best)
        assert abs(learner.recommend()[0] - best[0]) <= 2


def test_without_demand_little_stock_is_held_and_none_is_recommended():
    problem = LostSales(lead_time=2, holding_cost=1, lost_sales_cost=10, levels=levels(150))
    learner, simulator = IOPEA(problem, start=15), problem.simulator(Constant(value=0))
    run(learner, simulator, 30)
    assert learner.ask().policy == (1.0,)
    assert learner.recommend() == (0.0,)
    run(learner, simulator, 30)
    assert 1 < learner.survivors < 150  # levels from 1 on are eliminated, those from 16 on are not
    run(learner, simulator, 600)
    assert learner.ask().policy == learner.recommend() == (0.0,)


def test_where_holding_nothing_is_best_no_stock_is_held_for_ever():
    """One customer in 67 periods is worth less than the shelf: 0.98 a period against 0.75."""
    problem = LostSales(lead_time=0, holding_cost=1, lost_sales_cost=50, levels=levels(30))
    demand = Poisson(mean=0.015)
    learner, simulator = IOPEA(problem, start=1), problem.simulator(demand, seed=3)
    found = run(learner, simulator, 10_000)
    least = problem.simulator(demand, seed=3).play((0.0,), 10_000).costs
    assert found.recommendation == (0.0,)
    assert found.costs[-5000:].sum() == least[-5000:].sum()


@pytest.mark.parametrize("size", [12_000, 1e6, 1e300])
def test_one_impossible_record_does_not_blur_demand(size):
    """A typing error in one of many records: the best level survives, and is found."""
    problem = shop(30, lead_time=2)
    best = best_in_class(problem.simulator(Poisson(mean=4))).policy
    for seed in range(3):
        learner, simulator = IOPEA(problem, start=15), problem.simulator(Poisson(mean=4), seed=seed)
        run(learner, simulator, 100)
        learner.tell(Trajectory(15, stock=[size], sales=[0.9 * size]))
        run(learner, simulator, 1500)
        assert learner.survives(best)
        assert abs(learner.recommend()[0] - best[0]) <= 1


def test_prior_demand_does_not_depend_on_how_far_the_range_extends():
    """Levels near multiples of the start are compared, however wide the range is."""
    problem = shop(100_000, lead_time=2)
    for seed in range(2):
        learner = IOPEA(problem, start=15)
        simulator = problem.simulator(Poisson(mean=4), seed=seed)
        highest = 0.0
        for _ in range(60):
            highest = max(highest, learner.ask().policy[0])
            learner.tell(simulator.play(learner.ask().policy, 1).trajectory)
        assert highest < 30


def test_a_slow_mover_does_not_jump_at_the_first_sale():
    """The policy in force tells how slow demand is: one sale, and days without, say little more."""
    spare = LostSales(lead_time=7, holding_cost=1, lost_sales_cost=100, levels=levels(30))
    demand = Poisson(mean=0.05)
    seeds = range(20)
    low = [regret(spare, demand, (2.0,), seed, start=1) for seed in seeds]
    best = [regret(spare, demand, (2.0,), seed, start=2) for seed in seeds]
    # Without it: 31 % and 20 %.
    assert np.mean(low) < 0.22
    assert np.mean(best) < 0.14


def test_a_state_of_another_inertia_is_refused():
    patient = IOPEA(shop(), start=10, play=Frugal(inertia=9.0))
    with pytest.raises(InputError, match="inertia"):
        IOPEA(shop(), start=10).load_state_dict(patient.state_dict())


def test_nothing_is_said_of_informative_steps_before_the_first_delivery():
    problem = shop(30, lead_time=4)
    learner, simulator = IOPEA(problem, start=10), problem.simulator(Poisson(mean=4), seed=0)
    run(learner, simulator, 3)
    assert learner.warnings == ()


def test_a_range_ten_times_as_wide_costs_next_to_nothing():
    """At most 1.2 times as much; a true ratio of 1.2 fails in one of 100 runs."""
    demand, seeds = Poisson(mean=3), range(8)
    narrow, wide = (
        np.array([regret(shop(high), demand, (8.0,), s, play="frugal", start=4) for s in seeds])
        for high in (20, 200)
    )
    excess = wide - 1.2 * narrow
    assert excess.mean() < 3.0 * excess.std(ddof=1) / np.sqrt(len(seeds))
    assert wide.mean() < 0.1


class Says(Evaluator):
    """Always says the same."""

    at_start = estimates = forget = keep = observe = None

    def __init__(self, choice):
        self.choice = choice

    def choose(self, current=None):
        return self.choice


def chosen(player, *choice, **more):
    """What a player plays after a choice."""
    return player.choose(Says(Choice(*choice, **more)), lambda policy: True)


def begun(start=5.0, in_force=True):
    player = Frugal()
    player.begin((start,), in_force)
    return player


def test_the_start_is_left_only_for_more_than_noise():
    """Choices that are better by a standard error don't move it, by two they do."""
    player = begun()
    assert chosen(player, (3.0,), 1.0, 1.0) == player.recommended == (5.0,)
    assert chosen(player, (3.0,), 2.0, 1.0) == player.recommended == (3.0,)
    eliminated = Says(Choice((3.0,), 0.0, 1.0))
    assert begun().choose(eliminated, lambda policy: False) == (3.0,)


def test_half_as_much_is_enough_for_a_policy_that_holds_more():
    assert chosen(begun(), (9.0,), 0.7, 1.0, holds_more=True) == (9.0,)
    assert chosen(begun(), (9.0,), 0.4, 1.0, holds_more=True) == (5.0,)


def test_a_start_that_was_left_for_less_is_taken_up_again():
    player = begun()
    assert chosen(player, (3.0,), 2.0, 1.0, records=20) == (3.0,)
    assert chosen(player, (3.0,), 0.1, 1.0, records=20) == (3.0,)  # too early
    assert chosen(player, (3.0,), 0.9, 1.0, records=90) == (3.0,)
    assert chosen(player, (9.0,), 0.1, 1.0, records=90, holds_more=True) == (9.0,)
    assert chosen(player, (3.0,), 0.1, 1.0, records=90) == player.recommended == (5.0,)


def test_where_play_begins_without_a_start_is_left_at_once():
    assert chosen(begun(in_force=False), (9.0,), 0.0, 1.0) == (9.0,)


def test_a_start_that_is_kept_does_not_hide_demand_for_ever():
    player = begun()
    assert chosen(player, (6.0,), 0.1, 1.0, bolder=(7.0,), records=199) == (5.0,)
    assert chosen(player, (6.0,), 0.1, 1.0, bolder=(7.0,), records=200) == (7.0,)
    assert player.recommended == (5.0,)


def test_what_is_played_to_learn_more_is_not_recommended():
    player = begun()
    assert chosen(player, (3.0,), 5.0, 1.0, bolder=(12.0,)) == (12.0,)
    assert player.recommended == (3.0,)


def test_it_chooses_after_every_step_at_first_and_by_growing_stretches_later():
    player = Frugal()
    assert [player.review(steps) for steps in (0, 5, 19, 20, 1000)] == [1, 1, 1, 2, 100]


@pytest.mark.parametrize("cut", [1, 50, 333])
def test_two_runs_equal_one(cut):
    problem, demand = shop(), Poisson(mean=3)
    one, two = (IOPEA(problem, play="frugal", start=4) for _ in range(2))
    whole = run(one, problem.simulator(demand, seed=1), 700).costs
    simulator = problem.simulator(demand, seed=1)
    parts = [run(two, simulator, cut).costs, run(two, simulator, 700 - cut).costs]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    assert_same_state(one.state_dict(), two.state_dict())


def test_a_shop_that_reports_once_a_day_learns_the_same():
    problem, demand = shop(), Exponential(mean=3)
    daily, rarely = (IOPEA(problem, play="frugal", start=4) for _ in range(2))
    run(rarely, problem.simulator(demand, seed=1), 300)
    simulator = problem.simulator(demand, seed=1)
    for _ in range(300):
        daily.tell(simulator.play(daily.ask().policy, 1).trajectory)
    assert_same_state(daily.state_dict(), rarely.state_dict())
    assert daily.recommend() == rarely.recommend()


@pytest.mark.parametrize("steps", [1, 60, 500])
def test_saved_and_loaded_it_goes_on_with_the_same_bits(steps, tmp_path):
    problem, demand = shop(), Poisson(mean=3)
    learner, other = (IOPEA(problem, play="frugal", start=4) for _ in range(2))
    simulator = problem.simulator(demand, seed=1)
    run(learner, simulator, steps)
    save_state(learner.state_dict(), tmp_path / "state.zip")
    other.load_state_dict(load_state(tmp_path / "state.zip"))
    assert other.recommend() == learner.recommend()
    trajectory = simulator.play(learner.ask().policy, 40).trajectory
    for each in (learner, other):
        each.tell(trajectory)
    assert_same_state(learner.state_dict(), other.state_dict())


def test_history_of_other_levels_is_taken():
    problem, demand = shop(), Poisson(mean=3)
    learner = IOPEA(problem, play="frugal", start=4)
    simulator = problem.simulator(demand, seed=1)
    for level in (12.0, 3.0, 9.0):
        learner.tell(simulator.play((level,), 150).trajectory)
    assert abs(learner.recommend()[0] - 8) <= 1


def test_the_best_level_is_found_and_the_worst_are_eliminated():
    problem, demand = shop(lead_time=3), NegativeBinomial(mean=2, size=2)
    learner = IOPEA(problem, play="frugal", start=3)
    run(learner, problem.simulator(demand, seed=2), 20_000)
    assert learner.survivors < 10
    best = best_in_class(problem.simulator(demand)).policy
    assert abs(learner.recommend()[0] - best[0]) <= 1
    assert learner.survives(best)


def test_dependent_demand_is_seen_in_order_and_eliminates_nothing():
    problem = shop(high=30)
    learner = IOPEA(problem, play="frugal", start=10)
    run(learner, problem.simulator(Persistent(mean=3, correlation=0.8), seed=1), 4000)
    before = learner.survivors
    assert any(DEPENDS in warning for warning in learner.warnings)
    run(learner, problem.simulator(Persistent(mean=3, correlation=0.8), seed=2), 3000)
    assert learner.survivors == before


def test_dependence_that_is_not_yet_certain_eliminates_nothing():
    problem = LostSales(
        lead_time=2, holding_cost=1, lost_sales_cost=10,
        levels={"low": 0, "high": 12, "step": 0.1},
    )  # fmt: skip
    lost = 0
    for seed in range(40):
        learner = IOPEA(problem, delta=0.2, horizon=240)
        run(learner, problem.simulator(Persistent(mean=1, correlation=0.8), seed=seed), 240)
        lost += not learner.survives(4.4)
    # Without a look at dependence before each test it is lost in one run of five: at most 3 with
    # a probability of 3 %. With it, it was lost in none of 120.
    assert lost <= 3
    assert "by chance" in learner.outlook or learner.warnings


def rent(stock: float, sales: float, order: float) -> float:
    return 27.0 if stock > 30.5 else 0.0


def test_much_larger_demand_is_thought_of_where_more_stock_has_a_rent():
    """Demand is 60 in one of 25 periods. A stock of 31 pays the rent and shows hardly more.

    Levels of 30 and 60 are local minima; 60 is better by 5 %. From 4 this run stayed at 30.
    """
    demand = Empirical(values=[0.0, 1.0, 2.0, 3.0, 4.0] * 24 + [60.0] * 5)
    problem = LostSales(
        lead_time=0, holding_cost=1, lost_sales_cost=50, period_cost=rent, cost_bound=27,
        levels={"low": 0, "high": 150, "step": 1},
    )  # fmt: skip
    learner = IOPEA(problem, start=4)
    run(learner, problem.simulator(demand, seed=7002), 6000)
    assert learner.recommend() == (60,)


def test_weekdays_are_noticed_before_the_best_level_is_lost():
    means = np.array([2, 2, 2, 3, 5, 10, 0.5])
    problem = shop(high=100, lead_time=2)
    for seed in range(4):
        learner = IOPEA(problem, start=17)
        state = np.zeros(3)
        for wanted in np.random.default_rng(seed).poisson(np.resize(means, 1000)):
            (level,) = learner.ask().policy
            order = max(level - state.sum(), 0.0)
            stock = state[0] + state[1]
            state = np.array([max(stock - wanted, 0.0), state[2], order])
            learner.tell(Trajectory((level,), stock=[stock], sales=[float(min(stock, wanted))]))
        # On the path the best level is 17; on independent draws of the same law it is 14 or 15,
        # and without a look at weekdays 17 was lost in 9 of 24 runs, mostly without a warning.
        assert learner.survives(17)
        assert any(DEPENDS in warning for warning in learner.warnings)


def two_suppliers(**policies):
    return DualSourcing(
        regular_lead_time=2, expedited_lead_time=0, holding_cost=1, lost_sales_cost=9,
        regular_cost=0.1, expedited_cost=0.5, **policies,
    )  # fmt: skip


FAMILIES = {
    "capped": LostSales(
        lead_time=1, holding_cost=1, lost_sales_cost=9,
        policies={"kind": "capped-base-stock", "levels": levels(), "caps": levels(6)},
    ),
    "s-S": LostSales(
        lead_time=1, holding_cost=1, lost_sales_cost=9, fixed_order_cost=5,
        policies={
            "kind": "s-S", "reorder_levels": levels(12), "order_up_to_levels": levels(20),
        },
    ),
    "constant": LostSales(
        lead_time=1, holding_cost=1, lost_sales_cost=9,
        policies={"kind": "constant-order", "orders": levels(5, 0.5)},
    ),
    "cases": shop(order_multiple=6),
    "dual-index": two_suppliers(expedited_levels=levels(12), regular_levels=levels(16)),
    "surge": two_suppliers(
        policies={"kind": "base-surge", "orders": levels(4, 0.5), "levels": levels(12)}
    ),
    "newsvendor": Newsvendor(overage_cost=1, underage_cost=9, levels=levels(20)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_driven_by_demand_plays_frugally(name):
    """In a year it pays less than maximal play; regret is that to what is recommended later."""
    problem, demand = FAMILIES[name], Poisson(mean=3)
    frugal, maximal = IOPEA(problem), IOPEA(problem, play="maximal")
    cost = [
        run(learner, problem.simulator(demand, seed=4), YEAR).costs.sum()
        for learner in (frugal, maximal)
    ]
    assert cost[0] < 1.02 * cost[1]
    assert frugal.survives(frugal.recommend()) or frugal.survivors > 1


def test_what_few_records_tell_of_large_demand_is_not_taken_for_certain():
    """A single day with more stock once fixed the level at 11 for ever; the best is 17."""
    stand = Newsvendor(overage_cost=1, underage_cost=4, levels=levels(40))
    learner = IOPEA(stand, play="frugal", start=8)
    run(learner, stand.simulator(NegativeBinomial(mean=12, size=4), seed=2), YEAR)
    assert learner.recommend()[0] >= 15


def test_two_suppliers_leave_a_low_start():
    pairs = {"low": 0, "high": 6, "step": 0.5}
    problem = DualSourcing(
        regular_lead_time=2, expedited_lead_time=0, holding_cost=1, lost_sales_cost=10,
        regular_cost=0.1, expedited_cost=0.5, expedited_levels=pairs, regular_levels=pairs,
    )  # fmt: skip
    demand = Exponential(mean=1, maximum=3, zero_probability=0.3)
    learner = IOPEA(problem, play="frugal")
    run(learner, problem.simulator(demand, seed=0), YEAR)
    assert learner.recommend()[0] >= 1.0


@pytest.mark.parametrize("start", [1, 6, 25])
def test_rare_large_demand_is_found_from_a_low_level(start):
    """A stock of 2, the most that is usually wanted, would hide it for ever."""
    rare = Empirical(values=[0] * 50 + [1] * 30 + [2] * 15 + [25] * 5)
    kiosk = LostSales(lead_time=0, holding_cost=1, lost_sales_cost=80, levels=levels(150))
    best = best_in_class(kiosk.simulator(rare)).policy
    paid = [
        regret(kiosk, rare, best, seed, steps=1000, play="frugal", start=start)
        for seed in range(16)
    ]
    assert np.mean(paid) <= 0.3


def test_a_level_that_is_too_low_is_left_in_the_long_run():
    """Seeds on which a fixed number of hidden records kept 14 of 17 for 10,000 periods."""
    stand = Newsvendor(overage_cost=1, underage_cost=4, levels=levels(40))
    demand = NegativeBinomial(mean=12, size=4)
    for seed in (9, 18):
        assert regret(stand, demand, (17.0,), seed, steps=10_000, start=4) < 0.01


@pytest.mark.parametrize("sold", [0, 4, 5, 9])
def test_two_equal_days_are_no_reason_to_leave_the_policy_in_force(sold):
    """Leaving out one of two equal records changes nothing: that is no standard error of zero."""
    shop = LostSales(lead_time=4, holding_cost=1, lost_sales_cost=19, levels=levels(60))
    learner = IOPEA(shop, start=30, state=[10, 5, 5, 5, 5])
    for _ in range(2):
        learner.tell(Trajectory(learner.ask().policy, stock=[15.0], sales=[float(sold)]))
    assert learner.ask().policy == learner.recommend() == (30.0,)


@pytest.mark.parametrize("seed", [9, 18])
def test_pairs_of_a_coarse_net_are_not_stuck_where_one_record_hides_demand(seed):
    """A pair between points of the net hid what exceeds it for 300,000 periods: 2 and 33 %."""
    problem = DualSourcing(
        regular_lead_time=5, expedited_lead_time=0, holding_cost=1, lost_sales_cost=10,
        regular_cost=0, expedited_cost=0, zero_demand=0.3, order_by="regular-level",
        expedited_levels={"low": 0, "high": 200}, regular_levels={"low": 0, "high": 200},
    )  # fmt: skip
    demand = Normal(mean=20, sd=20 / 3, maximum=40, zero_probability=0.3)
    learner = IOPEA(problem, horizon=300_000)
    run(learner, problem.simulator(demand, seed=seed), 4000)
    assert np.abs(np.array(learner.recommend()) - 27.5).max() < 1
