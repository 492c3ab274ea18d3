"""A run compared with the best policy of the class."""

import pytest

import iopea
from iopea.demand import Poisson
from iopea.errors import InputError
from iopea.learners.baselines.optimal import Optimal
from iopea.simulate import (
    best_in_class,
    compare_at,
    compare_runs,
    compare_to_best,
    regret_at,
    run,
)

SHOP = iopea.LostSales(
    lead_time=1, holding_cost=1, lost_sales_cost=9, levels={"low": 0, "high": 20, "step": 1}
)
DEMAND = Poisson(mean=3)
EVALUATION = 64_000


@pytest.fixture(scope="module")
def best():
    return best_in_class(SHOP.simulator(DEMAND), EVALUATION)


def result_of(seed, steps, best):
    return run(iopea.IOPEA(SHOP), SHOP.simulator(DEMAND, seed), steps, best=best.policy)


def test_a_compared_run_is_a_run_with_its_gap_and_regret(best):
    found = compare_to_best(iopea.IOPEA(SHOP), SHOP.simulator(DEMAND, 2), 300, best)
    result = result_of(2, 300, best)
    assert (found.steps, found.elapsed) == (300, 300.0)
    assert found.average_cost == result.average_cost
    assert found.recommendation == result.recommendation
    assert found.survivors == result.survivors
    gap = best.gaps(SHOP.simulator(DEMAND), [result.recommendation])[0]
    assert (found.gap, found.cost) == (gap, best.cost + gap)
    assert found.relative_gap == best.share(gap)
    its = run(Optimal(SHOP), SHOP.simulator(DEMAND, 2), 300, best=best.policy)
    assert found.best_average_cost == its.average_cost
    assert found.regret == 300 * (result.average_cost - its.average_cost)
    assert found.relative_regret == (result.average_cost - its.average_cost) / best.cost


def test_looks_on_the_way_change_nothing(best):
    seen = []
    first, last = compare_at(
        iopea.IOPEA(SHOP),
        SHOP.simulator(DEMAND, 2),
        (100, 300),
        best,
        lambda learner, steps: seen.append(steps),
    )
    assert (first.steps, last.steps) == (100, 300)
    assert seen == sorted(set(seen))
    assert {100, 300} <= set(seen)
    whole = compare_to_best(iopea.IOPEA(SHOP), SHOP.simulator(DEMAND, 2), 300, best)
    assert last.average_cost == pytest.approx(whole.average_cost, rel=1e-12)
    assert (last.recommendation, last.gap) == (whole.recommendation, whole.gap)


def test_runs_are_compared_together(best):
    results = [result_of(seed, 200, best) for seed in range(3)]
    alone = [
        compare_to_best(iopea.IOPEA(SHOP), SHOP.simulator(DEMAND, seed), 200, best)
        for seed in range(3)
    ]
    simulators = [SHOP.simulator(DEMAND, seed) for seed in range(3)]
    assert compare_runs(results, simulators, best) == alone


@pytest.mark.parametrize("horizons", [(5, 5), (5, 3), (0,)])
def test_horizons_must_increase(best, horizons):
    with pytest.raises(InputError, match=f"to {horizons[-1]} steps"):
        compare_at(iopea.IOPEA(SHOP), SHOP.simulator(DEMAND), horizons, best)


@pytest.mark.parametrize("kind", iopea.PROBLEMS)
def test_the_best_policy_has_no_regret_on_its_own_noise(kind):
    """Of every kind of problem: simulators are what their seed and their state make them."""
    problem, truth = iopea.PROBLEMS[kind].example()
    least = best_in_class(problem.simulator(truth), EVALUATION)
    simulator = problem.simulator(truth, 4)
    assert regret_at(Optimal(problem), simulator, (50, 400), least.policy) == [0.0, 0.0]
    # From where the simulator is now, with the noise to come.
    (found,) = compare_at(Optimal(problem), simulator, (150,), least)
    assert (found.regret, found.best_average_cost) == (0.0, found.average_cost)


def test_regret_is_the_difference_of_two_runs(best):
    mine = result_of(5, 400, best)
    its = run(Optimal(SHOP), SHOP.simulator(DEMAND, 5), 400, best=best.policy)
    (found,) = regret_at(iopea.IOPEA(SHOP), SHOP.simulator(DEMAND, 5), (400,), best.policy)
    assert found == 400 * (mine.average_cost - its.average_cost)
    assert found == pytest.approx(float(mine.costs.sum() - its.costs.sum()))


def test_both_begin_with_the_stock_that_is_there(best):
    """A shop that holds 20 units at first loses no sales while others wait for their goods."""
    full = compare_to_best(iopea.IOPEA(SHOP), SHOP.simulator(DEMAND, 3, state=(20, 0)), 30, best)
    its = SHOP.simulator(DEMAND, 3, state=(20, 0)).play(best.policy, 30).costs
    assert full.best_average_cost == its.sum() / 30
    assert its.sum() < SHOP.simulator(DEMAND, 3).play(best.policy, 30).costs.sum()


def test_where_time_is_continuous_regret_is_for_the_time_of_the_run():
    queue, _ = iopea.ServiceRateQueue.example()
    clock = iopea.QueueRates(arrival_rate=6, deadline_rate=3, clock="continuous")
    best = best_in_class(queue.simulator(clock), EVALUATION)
    found = compare_to_best(iopea.IOPEA(queue), queue.simulator(clock, 1), 500, best)
    its = queue.simulator(clock, 1).play(best.policy, 500)
    assert found.elapsed != 500
    paid = found.average_cost * found.elapsed
    assert found.regret == pytest.approx(paid - its.costs.sum() * found.elapsed / its.elapsed)


def test_no_public_name_says_regret_for_anything_else():
    """What is measured is regret on the same noise; the theorem bounds the excess over T g*."""
    assert [name for name in iopea.__all__ if "regret" in name] == ["regret_bound"]
