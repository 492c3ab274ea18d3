import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from iopea.demand import Exponential, Poisson, Uniform
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.shop import product_limit as kernels
from iopea.systems.shop.product_limit import ProductLimit, shares_of

#: Standard errors that a normal variable leaves with probability 2e-9.
SIX = 6.0


def textbook(sales, sold_out):
    """The law of Kaplan and Meier, value by value, where sold out means at least the sales.

    Whoever sold out at v may have met a demand of v or more, so at v they tell nothing.
    """
    law, left = {}, 1.0
    for value in sorted({x for x, out in zip(sales, sold_out, strict=True) if not out}):
        records = list(zip(sales, sold_out, strict=True))
        at_risk = sum(x > value if out else x >= value for x, out in records)
        events = sum(x == value and not out for x, out in records)
        law[value] = left * events / at_risk
        left -= law[value]
    if left > 1e-12:
        law[math.inf] = left
    return law


def as_dict(law):
    result = {}
    for value, probability in zip(law.values, law.probabilities, strict=True):
        result[float(value)] = result.get(float(value), 0.0) + float(probability)
    return result


few_values = st.integers(0, 5).map(float)
#: Not so near to each other that they would be the same but for rounding.
any_values = st.floats(0.0, 10.0).map(lambda value: round(value, 6))


@given(
    st.one_of(
        st.lists(st.tuples(few_values, st.booleans()), min_size=1, max_size=30),
        st.lists(st.tuples(any_values, st.booleans()), min_size=1, max_size=30),
    )
)
@settings(deadline=None, max_examples=300)
def test_the_law_is_that_of_the_textbook(records):
    sales, sold_out = np.array([x for x, _ in records]), np.array([out for _, out in records])
    law = ProductLimit(sales, sold_out)
    expected = textbook(sales.tolist(), sold_out.tolist())
    seen = as_dict(law)
    assert (np.diff(law.values) >= 0).all()
    assert (law.probabilities > 0).all()
    assert sum(seen.values()) == pytest.approx(1.0, abs=1e-12)
    for value in seen.keys() | expected.keys():
        assert seen.get(value, 0.0) == pytest.approx(expected.get(value, 0.0), abs=1e-12)


def test_an_example_by_hand():
    # At 1: 1 of 5. At 2: the one that sold out at 2 tells nothing, 1 of 3. The rest is unknown.
    law = ProductLimit(
        np.array([1.0, 2.0, 2.0, 3.0, 4.0]), np.array([False, False, True, True, True])
    )
    assert as_dict(law) == pytest.approx({1.0: 0.2, 2.0: 0.8 / 3, math.inf: 1.6 / 3})


@given(
    st.lists(st.tuples(few_values, st.booleans()), min_size=1, max_size=30),
    st.sampled_from([1.0, 1e-9, 1e9]),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=100)
def test_a_stock_that_was_rounded_gives_the_same_law(records, unit, seed):
    sales, sold_out = np.array([x for x, _ in records]), np.array([out for _, out in records])
    noise = 1 + 4e-16 * np.random.default_rng(seed).integers(-3, 4, sales.size)
    exact = ProductLimit(unit * sales, sold_out)
    rounded = ProductLimit(np.where(sold_out, unit * sales * noise, unit * sales), sold_out)
    np.testing.assert_array_equal(rounded.values, exact.values)
    np.testing.assert_array_equal(rounded.probabilities, exact.probabilities)


@given(st.lists(st.one_of(few_values, any_values), min_size=1, max_size=40))
@settings(deadline=None, max_examples=100)
def test_where_nothing_is_censored_it_is_the_empirical_law(sales):
    law = ProductLimit(np.array(sales), np.zeros(len(sales), dtype=bool))
    values, counts = np.unique(sales, return_counts=True)
    np.testing.assert_array_equal(law.values, values)
    np.testing.assert_allclose(law.probabilities, counts / len(sales), atol=1e-12)


def test_where_all_is_censored_demand_is_beyond_all_that_was_seen():
    law = ProductLimit(np.array([2.0, 5.0, 3.0]), np.ones(3, dtype=bool))
    assert as_dict(law) == {math.inf: 1.0}
    assert law.beyond == 1.0
    assert np.isinf(law.at_least(np.array([2.0, 5.0, 7.0]), np.array([0.1, 0.5, 0.9]))).all()


# Against the truth


def problem_of(high, **changes):
    values = {
        "regular_lead_time": 3,
        "expedited_lead_time": 1,
        "holding_cost": 1.0,
        "lost_sales_cost": 10.0,
        "expedited_levels": {"low": 0, "high": high},
        "regular_levels": {"low": 0, "high": high},
    }
    return DualSourcing(**{**values, **changes})


def records_of(problem, demand, policies, periods, seed=0):
    """Stock and sales of several policies after each other, and the demand that they met."""
    simulator = problem.simulator(demand, seed)
    paths = [simulator.play(policy, periods).trajectory for policy in policies]
    stock, sales = (np.concatenate([path[name] for path in paths]) for name in ("stock", "sales"))
    stream = problem.simulator(demand, seed)._stream
    return stock, sales, stream.draw(periods * len(policies))


def greenwood(sales, sold_out, values):
    """Standard errors of the estimated distribution function at values, after Greenwood."""
    events, counts = np.unique(sales[~sold_out], return_counts=True)
    gone = np.searchsorted(np.sort(sales[~sold_out]), events)
    gone += np.searchsorted(np.sort(sales[sold_out]), events, side="right")
    at_risk = sales.size - gone
    variance = np.cumsum(counts / (at_risk * np.maximum(at_risk - counts, 1)))
    left = np.cumprod(1 - counts / at_risk)
    last = np.searchsorted(events, values, side="right") - 1
    return np.where(last < 0, 0.0, left[last] * np.sqrt(variance[last]))


CASES = [
    # Demand, policies, values at which to compare, the true distribution function.
    (
        Exponential(mean=2.0),
        [(2.0, 6.0), (4.0, 9.0)],
        np.linspace(0.2, 6.0, 12),
        stats.expon(scale=2.0).cdf,
    ),
    (
        Uniform(low=1.0, high=5.0),
        [(4.5, 12.0)],
        np.linspace(1.2, 4.8, 10),
        stats.uniform(1.0, 4.0).cdf,
    ),
    (Poisson(mean=3.0), [(4.0, 8.0), (2.0, 12.0)], np.arange(0.0, 8.0), stats.poisson(3.0).cdf),
    (Poisson(mean=1.0), [(1.0, 5.0)], np.arange(0.0, 5.0), stats.poisson(1.0).cdf),
]


@pytest.mark.parametrize(("demand", "policies", "values", "true"), CASES)
def test_the_law_is_the_true_one_under_censoring_by_policies(demand, policies, values, true):
    """The stock depends on demand before, never on that of the period: nothing is biased.

    Each of the values is off by six standard errors with probability 2e-9.
    """
    stock, sales, _ = records_of(problem_of(20.0), demand, policies, 10_000)
    sold_out = sales >= stock
    assert 0.15 < sold_out.mean() < 0.9
    law = ProductLimit(sales, sold_out)
    estimated = np.array([law.probabilities[law.values <= value].sum() for value in values])
    naive = np.array([(sales <= value).mean() for value in values])
    errors = greenwood(sales, sold_out, values)
    assert errors.max() < 0.05
    assert (np.abs(estimated - true(values)) <= SIX * errors + 1e-12).all()
    # Sales themselves are far off.
    assert (np.abs(naive - true(values)) > SIX * errors).any()


# Demand filled in


@given(
    st.lists(st.tuples(few_values, st.booleans()), min_size=1, max_size=25),
    st.one_of(few_values, st.floats(0.0, 7.0)),
)
@settings(deadline=None, max_examples=150)
def test_filled_in_demand_has_the_conditional_law(records, limit):
    """Evenly spread shares give each value its share of the law from the limit on."""
    sales, sold_out = np.array([x for x, _ in records]), np.array([out for _, out in records])
    law = ProductLimit(sales, sold_out)
    number = 5000
    shares = (np.arange(number) + 0.5) / number
    drawn = law.at_least(np.full(number, limit), shares)
    assert (drawn >= limit).all()
    assert (drawn[1:] >= drawn[:-1]).all()
    rest = {value: p for value, p in as_dict(law).items() if value >= limit}
    if not rest:
        assert (drawn == limit).all()
        return
    for value, probability in rest.items():
        share = (drawn == value).mean()
        assert share == pytest.approx(probability / sum(rest.values()), abs=1.5 / number)


def filled_in(stock, sales):
    """Demand as the estimator fills it in."""
    return ProductLimit(sales, sales >= stock).demand(shares_of(sales.size))


@pytest.mark.parametrize(("demand", "policies", "values", "true"), CASES)
def test_filled_in_demand_is_distributed_as_demand(demand, policies, values, true):
    """The error is that of the law and that of the shares, which are at most as many as periods.

    Each of the values is off by six standard errors of either with probability 4e-9.
    """
    problem = problem_of(20.0)
    stock, sales, wanted = records_of(problem, demand, policies, 10_000)
    filled = filled_in(stock, sales)
    sold_out = sales >= stock
    np.testing.assert_array_equal(filled[~sold_out], wanted[~sold_out])
    assert (filled[sold_out] >= stock[sold_out]).all()
    shares = np.array([(filled <= value).mean() for value in values])
    p = true(values)
    errors = greenwood(sales, sold_out, values) + np.sqrt(p * (1 - p) / filled.size)
    assert (np.abs(shares - p) <= SIX * errors).all()


def test_a_period_is_filled_in_at_the_same_share_whatever_follows():
    problem = problem_of(20.0)
    stock, sales, _ = records_of(problem, Poisson(mean=3.0), [(4.0, 9.0)], 400)
    # Twice the same records have the same law.
    once = filled_in(stock, sales)
    twice = filled_in(np.tile(stock, 2), np.tile(sales, 2))
    np.testing.assert_array_equal(twice[:400], once)
    assert (twice[400:] != once).any()


def test_without_censoring_demand_is_what_was_sold():
    stock, sales = np.full(50, 9.0), np.linspace(0.0, 8.0, 50)
    np.testing.assert_array_equal(filled_in(stock, sales), sales)


@given(
    st.lists(st.tuples(st.one_of(few_values, any_values), st.booleans()), min_size=2, max_size=40),
    st.data(),
)
@settings(deadline=None, max_examples=200)
def test_a_law_without_some_periods_is_that_of_the_others(records, data):
    """All periods are filled in by it, those that were left out too."""
    sales, sold_out = np.array([x for x, _ in records]), np.array([out for _, out in records])
    first = data.draw(st.integers(0, len(records) - 1))
    last = data.draw(st.integers(first, len(records) - (first == 0)))
    others = np.ones(len(records), dtype=bool)
    others[first:last] = False
    shares = np.random.default_rng(len(records)).random(len(records))
    expected = sales.copy()
    law = ProductLimit(sales[others], sold_out[others])
    expected[sold_out] = law.at_least(sales[sold_out], shares[sold_out])
    demand = ProductLimit(sales, sold_out).demand(shares, without=slice(first, last))
    np.testing.assert_array_equal(demand, expected)


def test_draws_find_their_place_in_any_law():
    """Shares at and around the edges of values; laws with a heavy value or a thin tail."""
    rng = np.random.default_rng(0)
    for weights in (rng.random(500) ** 8, np.r_[1e6, rng.random(99)], np.r_[rng.random(99), 1e6]):
        below = np.concatenate([[0.0], np.cumsum(weights / weights.sum())])
        below[-1] = 1.0
        values = np.arange(weights.size, dtype=np.float64)
        edges = below[:-1]
        shares = np.concatenate([edges, np.nextafter(edges, 1.0), rng.random(2000)])
        drawn = kernels.draw(below, 0.0, values, np.zeros(shares.size, dtype=np.intp), shares)
        expected = np.searchsorted(below[1:], shares, side="right")
        np.testing.assert_array_equal(drawn, np.minimum(expected, weights.size - 1))
