"""Scores of censored demand: a martingale under independent demand, whatever the stock."""

import numpy as np
import pytest

from iopea.systems.shop.dependence import dependence, scores

RUNS = 400


def reacting(demand, most):
    """A shop whose stock of a period depends on the sales before it; its stock and sales."""
    stock, sales = np.empty(demand.size), np.empty(demand.size)
    there = most
    for period, wanted in enumerate(demand):
        stock[period], sales[period] = there, min(there, wanted)
        there = max(1.0, most - sales[period])  # what was sold is missing in the next period
    return stock, sales


@pytest.mark.parametrize("whole", [False, True])
def test_scores_have_mean_0_also_where_sold_out(whole):
    rng = np.random.default_rng(3)
    demand = rng.exponential(3.0, 200_000)
    demand = np.floor(demand) if whole else demand
    stock, sales = reacting(demand, 5.0)
    found = scores(stock, sales)
    assert np.abs(found).max() <= 1
    for level in np.quantile(stock, [0.2, 0.5, 0.8]):
        some = found[np.abs(stock - level) < 0.5]
        assert abs(some.mean()) < 5 * some.std() / np.sqrt(some.size)


def test_independent_demand_looks_dependent_no_more_often_than_normal_numbers_would():
    rng = np.random.default_rng(4)
    found = np.array([dependence(*reacting(rng.exponential(3.0, 120), 5.0)) for _ in range(RUNS)])
    # One number is taken in absolute value, the others on one side: at most 4 tails of 6.7 %.
    # The count is binomial: five standard deviations above that.
    share = 4 * 0.067
    assert (found > 1.5).mean() < share + 5 * np.sqrt(share * (1 - share) / RUNS)


@pytest.mark.parametrize("kind", ["persistent", "alternating", "seasons", "weekdays"])
def test_dependence_is_seen_although_the_stock_hides_much(kind):
    rng = np.random.default_rng(5)
    seen = 0
    for _ in range(50):
        demand = rng.exponential(1.0, 200)
        if kind == "seasons":
            demand *= np.repeat([1.0, 4.0, 1.0, 4.0], 50)
        elif kind == "weekdays":
            demand *= np.resize([0.4, 2.0, 0.3, 0.5, 2.5, 0.4, 0.3], 200)
        else:
            demand[1::2] = demand[::2] if kind == "persistent" else 2 / (1 + demand[::2])
        seen += dependence(*reacting(demand, 2.5)) > 1.5
    assert seen >= 45


def test_no_records_show_no_dependence():
    assert dependence(np.empty(0), np.empty(0)) == 0
    assert dependence(np.full(50, 3.0), np.full(50, 3.0)) == 0
    assert dependence(np.full(50, 3.0), np.full(50, 1.0)) == 0
