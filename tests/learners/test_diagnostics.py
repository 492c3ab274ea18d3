"""What is noticed of assumptions that fail: error rates, power, and the words."""

import math

import numpy as np
import pytest
from scipy import stats

from iopea import IOPEA, DualSourcing, LostSales, Newsvendor, run
from iopea.demand import Constant, Exponential, Poisson
from iopea.learners.diagnostics import (
    AT_EDGE,
    CHANGED,
    DEPENDS,
    FALSE_ALARM,
    FIRST_SALES,
    MOST_BINS,
    RECENT,
    WEEK,
    DemandWatch,
    edge_warning,
)
from iopea.systems.queue import ServiceRateQueue
from iopea.types import Trajectory

#: Probability with which a statistical test below fails although all is right.
LEVEL = 1e-9


def steady(rng, steps):
    return rng.exponential(1.0, steps) * (rng.random(steps) > 0.3)


def watched(demand, stock, pieces=1):
    watch = DemandWatch()
    sales = np.minimum(demand, stock)
    for part in np.array_split(np.arange(demand.size), pieces):
        watch.observe(sales[part], stock[part])
    return watch


def plain(sales, stock):
    """The same counts, step by step."""
    positive, size, before, follows, codes = [], None, 2, np.zeros((3, 2)), []
    for sold, held in zip(sales, stock, strict=True):
        if size is None:
            if sold > 0:
                positive.append(sold)
            if len(positive) == FIRST_SALES:
                size = sorted(positive)[FIRST_SALES // 2]
            continue
        code = 2 if held < size else int(sold >= size)
        if code != 2:
            follows[before, code] += 1
        codes.append(code)
        before = code
    return size, follows, codes


@pytest.mark.parametrize("pieces", [1, 7, 3000])
def test_counts_are_those_of_a_plain_loop_however_the_steps_are_delivered(pieces):
    rng = np.random.default_rng(1)
    demand, stock = steady(rng, 3000), rng.uniform(0, 3, 3000)
    watch = watched(demand, stock, pieces)
    size, follows, codes = plain(np.minimum(demand, stock), stock)
    state = watch.state_dict()
    assert state["size"] == size
    np.testing.assert_array_equal(state["follows"], follows)
    places = np.arange(len(codes)) // state["bin_steps"]
    bins = np.zeros((MOST_BINS, 2))
    for place, code in zip(places, codes, strict=True):
        if code != 2:
            bins[place, code] += 1
    np.testing.assert_array_equal(state["bins"], bins)


def test_the_evidence_is_a_ratio_of_sequential_predictions():
    rng = np.random.default_rng(2)
    demand, stock = steady(rng, 400), rng.uniform(0, 3, 400)
    watch = watched(demand, stock)
    _, _, codes = plain(np.minimum(demand, stock), stock)
    last, recent, week = predicted(3), predicted(RECENT + 1), predicted(WEEK)
    before, seen = 2, []
    for step, code in enumerate(codes):
        if code != 2:
            last.send((before, code))
            week.send((step % WEEK, code))
            if len(seen) >= RECENT:
                recent.send((sum(seen[-RECENT:]), code))
            seen.append(code)
        before = code
    every = sum(math.exp(model.send(None)) for model in (last, recent, week))
    assert watch.dependence == pytest.approx(math.log(every / 3))


def predicted(contexts):
    """Told contexts and what followed, the evidence for a probability of each context."""
    counts, total, codes = np.full((contexts, 2), 0.5), 0.0, []

    def take():
        nonlocal total
        while (told := (yield)) is not None:
            context, code = told
            total += math.log(counts[context, code] / counts[context].sum())
            counts[context, code] += 1
            codes.append(code)
        rate = np.mean(codes)
        ones = sum(codes)
        yield total - ones * math.log(rate) - (len(codes) - ones) * math.log(1 - rate)

    told = take()
    next(told)
    return told


def test_all_chances_given_to_changes_add_up_to_at_most_one():
    total = sum(1 / (length * (length + 1)) for length in range(1, 60))
    assert total < 1
    watch = DemandWatch()
    # Nothing seen: all explanations are as good, so that the evidence is the chance given to now.
    assert math.exp(watch.change) == pytest.approx(1 / 2)


def test_under_the_assumptions_evidence_is_hardly_ever_large_whatever_the_stock_does():
    """By Ville's inequality 20 is reached in at most 5 % of the runs; 100 in at most 1 %."""
    runs, largest = 150, []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        watch, most, held, alarmed = DemandWatch(), -math.inf, 2.0, False
        for _ in range(12):
            demand = steady(rng, 120)
            # Stock that depends on the demand before: what was sold comes back a step later.
            stock = np.clip(held + 1.0 - np.append(0.0, demand[:-1]), 0.0, None)
            watch.observe(np.minimum(demand, stock), stock)
            held = 1.0 if stock.mean() > 1.5 else 2.5
            most = max(most, np.logaddexp(watch.dependence, watch.change) - math.log(2))
            alarmed |= watch.noticed is not None
        largest.append((most, alarmed))
    reached = sum(most >= math.log(20) for most, _ in largest)
    assert reached <= stats.binom.isf(LEVEL, runs, 1 / 20)
    assert sum(alarmed for _, alarmed in largest) <= stats.binom.isf(LEVEL, runs, FALSE_ALARM)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_change_is_noticed_and_placed(factor):
    """At least 9 of 10 runs notice it, and say when to within a tenth of the run."""
    runs, right = 40, 0
    for seed in range(runs):
        demand = steady(np.random.default_rng(seed), 6000)
        demand[3000:] *= factor
        watch = watched(demand, np.full(6000, 3.0))
        right += watch.noticed == "change" and abs(watch.change_step - 3000) <= 600
    assert right >= stats.binom.ppf(LEVEL, runs, 0.9)


def test_dependence_is_noticed_and_told_from_a_change():
    runs, right = 40, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        demand = steady(rng, 4000)
        demand = np.maximum(demand, 0.8 * np.append(0.0, demand[:-1]))
        right += watched(demand, np.full(4000, 3.0)).noticed == "dependence"
    assert right >= stats.binom.ppf(LEVEL, runs, 0.9)


def test_weekdays_are_noticed():
    """Neither the last day nor a count shows them."""
    means = np.array([2, 2, 2, 3, 5, 10, 0.5])
    for seed in range(20):
        demand = np.random.default_rng(seed).poisson(means[np.arange(365) % 7]).astype(float)
        assert watched(demand, np.full(365, 12.0)).noticed == "dependence"


def test_without_anything_to_see_nothing_is_said():
    watch = DemandWatch()
    assert watch.warning is None
    watch.observe(np.zeros(500), np.full(500, 3.0))
    watch.observe(np.full(500, 2.0), np.full(500, 3.0))
    assert watch.warning is None  # demand that never varies
    rng = np.random.default_rng(0)
    watch.observe(np.zeros(500), rng.uniform(0, 1, 500))
    assert watch.warning is None  # stock that hides whether demand has reached 2


def test_an_end_is_named_only_if_it_can_be_moved_and_all_others_are_gone():
    near, far = np.array([4.6, 5.0]), np.array([4.4, 5.0])
    assert "5 is the highest level" in (
        edge_warning("level", (0, 5), (False, True), 5.0, near) or ""
    )
    assert edge_warning("level", (0, 5), (False, True), 5.0, far) is None
    assert edge_warning("level", (0, 5), (True, False), 5.0, near) is None
    assert edge_warning("level", (0, 5), (False, True), 4.6, near) is None
    assert edge_warning("level", (5, 5), (True, True), 5.0, np.array([5.0])) is None
    low = edge_warning("level", (2, 5), (True, True), 2.0, np.array([2.0]))
    assert low == f"{AT_EDGE}: 2 is the lowest level. A lower 'low' may hold a better one."


def shop(low, high):
    return LostSales(
        lead_time=1, holding_cost=1, lost_sales_cost=9, levels={"low": low, "high": high}
    )


@pytest.mark.parametrize(("low", "high", "said"), [(0, 3, True), (8, 12, True), (0, 12, False)])
def test_the_learner_says_that_the_best_level_is_at_the_edge(low, high, said):
    problem = shop(low, high)
    learner = IOPEA(problem, horizon=4000)
    result = run(learner, problem.simulator(Exponential(mean=2), seed=1), 4000)
    assert any(text.startswith(AT_EDGE) for text in learner.warnings) is said
    assert (AT_EDGE in result.outlook) is said


def test_level_0_is_no_edge():
    """Nothing is ever demanded, so that it is best to hold nothing; levels below mean nothing."""
    problem = shop(0, 12)
    learner = IOPEA(problem, radius=1.0)
    run(learner, problem.simulator(Exponential(mean=1, maximum=0), seed=1), 500)
    assert learner.recommend() == (0.0,)
    assert not any(text.startswith(AT_EDGE) for text in learner.warnings)


def test_the_learner_says_that_demand_has_changed_also_when_one_policy_is_left():
    problem = LostSales(
        lead_time=0, holding_cost=1, lost_sales_cost=9, levels={"low": 0, "high": 12, "step": 4}
    )
    learner = IOPEA(problem, play="maximal")
    run(learner, problem.simulator(Exponential(mean=2), seed=1), 3000)
    assert learner.survivors == 1
    assert not any(text.startswith((CHANGED, DEPENDS)) for text in learner.warnings)
    result = run(learner, problem.simulator(Exponential(mean=5), seed=2), 1500)
    assert f"{CHANGED} around step 3,000" in result.outlook


def test_which_problems_tell_of_demand_and_which_ends_can_be_moved():
    queue, _ = ServiceRateQueue.example()
    assert not any(map(any, map(queue.can_widen, range(queue.policy_class.dimension))))
    assert queue.demand_seen(Trajectory(0.0)) is None
    dual, _ = DualSourcing.example()
    assert dual.can_widen(0) == dual.can_widen(1) == (False, True)
    assert shop(1, 12).can_widen(0) == (True, True)
    vendor, _ = Newsvendor.example()
    sales, stock = vendor.demand_seen(Trajectory(2.0, sales=[1.0, 2.0]))
    assert sales.tolist() == [1.0, 2.0]
    assert stock.tolist() == [2.0, 2.0]


def test_the_watch_is_saved_with_the_learner():
    problem = shop(0, 12)
    truth = Poisson(mean=2)
    system, whole = problem.simulator(truth, seed=1), IOPEA(problem, radius=0.5)
    run(whole, system, 700)
    other = IOPEA(problem, radius=0.5)
    other.load_state_dict(whole.state_dict())
    saved, loaded = whole.state_dict()["state"]["watch"], other.state_dict()["state"]["watch"]
    assert saved["size"] is not None
    for name, value in saved.items():
        np.testing.assert_array_equal(value, loaded[name])


def test_the_edge_is_named_where_levels_come_in_steps():
    stand = Newsvendor(overage_cost=1, underage_cost=9, levels={"low": 0, "high": 6, "step": 2})
    learner = IOPEA(stand)
    run(learner, stand.simulator(Constant(value=30.0), seed=1), 400)
    assert learner.recommend() == (6.0,)
    assert any("6 is the highest" in text for text in learner.warnings)
