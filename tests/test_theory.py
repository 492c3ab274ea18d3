import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iopea.errors import InputError
from iopea.theory import (
    Bound,
    base_stock_bound,
    dual_index_bound,
    excess_cost,
    queue_bound,
    regret_bound,
)

#: A slow machine is no failure.
patient = settings(deadline=None)

PLAIN = {"span": 2.0, "bound": 5.0, "dimension": 1, "lipschitz": 1.5, "restart_time": 3.0}

CASES = [
    (10**6, {}),
    (10**7, {"width": 3, "alpha": 0.3, "data_needed": 7, "delta": 0.01, "dimension": 2}),
    (10**5, {"policies": 1000, "cost_range": 12.0}),
    (10**9, {"width": 12, "alpha": 0.05, "data_needed": 40, "span": 300.0, "cost_range": 80.0}),
    (5, {}),
]


def epochs_of(horizon, width, alpha, data_needed):
    """The lengths N_1, N_2, ... that fit in the horizon; at least one."""
    lengths, used, k = [], 0, 1
    while True:
        length = math.ceil(4**k * data_needed * math.log(horizon) / alpha)
        used += width * length
        if used > horizon and lengths:
            return lengths
        lengths.append(length)
        if used > horizon:
            return lengths
        k += 1


def direct(horizon, *, span, bound, dimension, width=1, alpha=1.0, data_needed=1, delta=0.05,
           cost_range=1.0, policies=None, **_):  # fmt: skip
    """Σ_k 7 w N_k β_k with β_k as the theorem writes it, and K."""
    scaled = span / cost_range
    size = policies or (max(2000, math.sqrt(horizon)) + 1) ** dimension
    lengths = epochs_of(horizon, width, alpha, data_needed)
    total = 0.0
    for length in lengths:
        data = alpha * length
        root = math.sqrt(2 * math.log(4 * size * len(lengths) / delta) / data)
        total += 7 * width * length * (scaled / data + (scaled + 2) * root)
    data = data_needed * math.log(horizon) * 4 ** (len(lengths) + 1)
    root = math.sqrt(2 * math.log(4 * size * len(lengths) / delta) / data)
    rest = max(horizon - width * sum(lengths), 0)
    unfinished = 7 * rest * (scaled / data + (scaled + 2) * root)
    return cost_range * total, len(lengths), cost_range * unfinished


@patient
@given(st.lists(st.floats(-100, 100), max_size=30), st.floats(-10, 10))
def test_excess_cost(costs, optimal):
    expected = sum(cost - optimal for cost in costs)
    assert excess_cost(np.array(costs), optimal) == pytest.approx(expected, abs=1e-9)


def test_the_excess_of_the_best_policy_and_of_nothing():
    assert excess_cost(np.full(7, 2.5), 2.5) == 0.0
    assert excess_cost([], 3.0) == 0.0
    assert isinstance(excess_cost([1, 2], 1), float)


@pytest.mark.parametrize(("horizon", "changes"), CASES)
def test_terms(horizon, changes):
    inputs = {**PLAIN, **changes}
    bound = regret_bound(horizon, **inputs)
    total, epochs, unfinished = direct(horizon, **inputs)
    terms = bound.terms
    width, alpha = inputs.get("width", 1), inputs.get("alpha", 1.0)
    cost_range = inputs.get("cost_range", 1.0)
    assert terms["confidence"] + terms["bias"] == pytest.approx(total, rel=1e-12)
    assert terms["bias"] == pytest.approx(7 * width * epochs * inputs["span"] / alpha, rel=1e-12)
    assert terms["restart"] == pytest.approx(cost_range * width * epochs * 3.0, rel=1e-12)
    radius = 0.0 if "policies" in inputs else 5.0 / max(2000, math.sqrt(horizon))
    assert terms["discretisation"] == pytest.approx(horizon * 1.5 * radius, rel=1e-12)
    # N_{K+1} is rounded up to a whole number of steps.
    assert terms["unfinished epoch"] == pytest.approx(unfinished, rel=0.02)
    assert set(terms) == {"confidence", "bias", "restart", "discretisation", "unfinished epoch"}
    assert bound.total == pytest.approx(sum(terms.values()), rel=1e-12)


@pytest.mark.parametrize(("horizon", "changes"), CASES)
def test_inputs_tell_what_the_terms_came_from(horizon, changes):
    inputs = {**PLAIN, **changes}
    said = regret_bound(horizon, **inputs).inputs
    _, epochs, _ = direct(horizon, **inputs)
    spacings = max(2000, math.sqrt(horizon))
    size = inputs.get("policies") or (spacings + 1) ** inputs["dimension"]
    assert said["epochs"] == epochs
    assert said["horizon"] == horizon
    assert said["log_policies"] == pytest.approx(math.log(size), rel=1e-12)
    assert said["radius"] == (0.0 if "policies" in inputs else pytest.approx(5.0 / spacings))
    named = {"span", "lipschitz", "restart_time", *changes} - {"dimension", "policies"}
    assert {name: said[name] for name in named} == {name: inputs[name] for name in named}


def test_total_is_the_exact_sum():
    assert Bound({"a": 1e16, "b": 1.0, "c": -1e16}, {}).total == 1.0


def test_a_horizon_too_short_is_refused():
    shape = {"width": 2, "data_needed": 5, "alpha": 0.25}
    with pytest.raises(InputError, match=r"4 w T_h/α = 160, not 159"):
        regret_bound(159, **PLAIN, **shape)
    assert regret_bound(160, **PLAIN, **shape).inputs["epochs"] == 1


@pytest.mark.parametrize("horizon", [10**4, 10**5, 10**6])
def test_grows_like_the_root_of_the_horizon(horizon):
    ratio = regret_bound(100 * horizon, **PLAIN).total / regret_bound(horizon, **PLAIN).total
    assert 10 <= ratio <= 10 * math.log(100 * horizon) / math.log(horizon)


@patient
@given(st.integers(20, 10**15), st.integers(1, 50), st.floats(0.05, 1.0), st.integers(1, 50))
def test_lies_within_constants_of_the_theorem(horizon, width, alpha, data_needed):
    # Σ_k 2^k against sqrt(Σ_k 4^k), with the horizon between the sums over K and K+1 epochs.
    shape = {"width": width, "alpha": alpha, "data_needed": data_needed}
    while width * math.ceil(4 * data_needed * math.log(horizon) / alpha) > horizon:
        horizon *= 2  # the first epoch must fit
    bound = regret_bound(horizon, **PLAIN, **shape)
    logarithm = math.log(4 * bound.inputs["epochs"] / 0.05) + bound.inputs["log_policies"]
    rate = 7 * 4.0 * math.sqrt(2 * width * horizon * logarithm / alpha)
    assert math.sqrt(3) / 4 * 0.95 <= bound.terms["confidence"] / rate <= math.sqrt(3)


@patient
@given(st.integers(10, 10**15))
def test_a_longer_run_has_a_larger_bound(horizon):
    shorter, longer = (regret_bound(t, **PLAIN) for t in (horizon, 2 * horizon))
    assert shorter.total <= longer.total


@pytest.mark.parametrize("horizon", [10**6, 10**8])
def test_grows_with_the_width(horizon):
    # Fourfold widths: N_k does not depend on w, so K falls by one or stays, from step to step.
    totals = [regret_bound(horizon, width=4**k, **PLAIN).total for k in range(5)]
    assert totals == sorted(totals)


def test_a_wider_order_never_has_a_smaller_bound():
    totals = [regret_bound(10**6, width=w, **PLAIN).total for w in range(1, 40)]
    assert totals == sorted(totals)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("span", [0.0, 1.0, 5.0]),
        ("lipschitz", [0.0, 1.0, 5.0]),
        ("restart_time", [0.0, 1.0, 50.0]),
        ("dimension", [1, 2, 3]),
        ("bound", [0.5, 1.0, 50.0]),
        ("delta", [0.5, 0.05, 1e-6]),
    ],
)
def test_grows_with_each_difficulty(name, values):
    totals = [regret_bound(10**6, **{**PLAIN, name: value}).total for value in values]
    assert totals == sorted(totals)
    assert totals[0] < totals[-1]


@patient
@given(st.floats(1e-3, 1e3))
def test_scales_with_the_unit_of_cost(unit):
    plain = regret_bound(10**6, width=2, cost_range=3.0, **PLAIN)
    costs = {"span": 2.0 * unit, "lipschitz": 1.5 * unit, "cost_range": 3.0 * unit}
    scaled = regret_bound(10**6, width=2, **{**PLAIN, **costs})
    expected = {name: unit * term for name, term in plain.terms.items()}
    assert scaled.terms == pytest.approx(expected, rel=1e-9)
    assert scaled.total == pytest.approx(unit * plain.total, rel=1e-9)


@pytest.mark.parametrize(("holding", "lost"), [(1.0, 10.0), (4.0, 0.5)])
@pytest.mark.parametrize("lead_time", [0, 1, 4])
def test_base_stock_bound(holding, lost, lead_time):
    bound = base_stock_bound(
        10**6,
        lead_time=lead_time,
        holding_cost=holding,
        lost_sales_cost=lost,
        bound=7.0,
        restart_time=9.0,
        delta=0.01,
    )
    expected = regret_bound(
        10**6,
        span=36 * max(holding, lost) * max(lead_time, 1) * 7.0,
        bound=7.0,
        dimension=1,
        lipschitz=max(holding, lost),
        restart_time=9.0,
        delta=0.01,
        cost_range=7.0 * (holding + lost),
    )
    assert bound == expected
    assert (bound.inputs["width"], bound.inputs["alpha"], bound.inputs["data_needed"]) == (1, 1, 1)


@pytest.mark.parametrize(("gamma", "lead"), [(0.5, 2), (0.8, 5)])
def test_dual_index_bound(gamma, lead):
    dual = {"regular_lead_time": lead, "bound": 6.0, "lipschitz": 2.0, "restart_time": 4.0}
    bound = dual_index_bound(10**9, zero_probability=gamma, delta=0.1, **dual)
    said = bound.inputs
    assert said["alpha"] == pytest.approx((1 - gamma) / 2 * gamma**lead)
    assert said["span"] == pytest.approx(1 / ((1 - gamma) * gamma**lead))
    root = (2 * math.sqrt(2 * math.log(2 / 0.1)) + 2) / ((1 - gamma) ** 2 * gamma**lead)
    assert said["data_needed"] == math.ceil(root**2)
    assert said["log_policies"] == pytest.approx(2 * math.log(math.sqrt(10**9) + 1))
    assert (said["width"], said["cost_range"], said["delta"]) == (1, 1.0, 0.1)
    total, epochs, _ = direct(
        10**9,
        span=said["span"],
        bound=6.0,
        dimension=2,
        alpha=said["alpha"],
        data_needed=said["data_needed"],
        delta=0.1,
    )
    assert bound.terms["confidence"] + bound.terms["bias"] == pytest.approx(total, rel=1e-12)
    assert bound.terms["restart"] == pytest.approx(4.0 * epochs)
    assert bound.terms["discretisation"] == pytest.approx(2.0 * 6.0 * math.sqrt(10**9))


@pytest.mark.parametrize("gamma", [0.0, 1.0, -0.2, 1.5])
def test_dual_index_bound_refuses_a_trivial_demand(gamma):
    with pytest.raises(InputError, match=f"zero_probability .* not {gamma}"):
        dual_index_bound(
            10**9,
            zero_probability=gamma,
            regular_lead_time=2,
            bound=6.0,
            lipschitz=2.0,
            restart_time=4.0,
        )


def test_dual_index_bound_refuses_a_horizon_too_short():
    with pytest.raises(InputError, match="4 w T_h/α"):
        dual_index_bound(
            10**3,
            zero_probability=0.5,
            regular_lead_time=4,
            bound=6.0,
            lipschitz=2.0,
            restart_time=4.0,
        )


def test_queue_bound():
    bound = queue_bound(10**6, buffer=3, max_rate=8)
    assert bound.total == pytest.approx(27 * math.sqrt(4 * math.log(8)) * 1000, rel=1e-12)
    assert bound.inputs["log_policies"] == pytest.approx(4 * math.log(8))
    assert queue_bound(4 * 10**6, buffer=3, max_rate=8).total == pytest.approx(2 * bound.total)


def test_queue_bound_grows_like_the_corollary_says():
    small, large = (queue_bound(10**6, buffer=size, max_rate=8).total for size in (100, 400))
    assert large / small == pytest.approx(4**3.5, rel=0.01)
