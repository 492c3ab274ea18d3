import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iopea.errors import InputError
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.dual_sourcing.zero_runs import c_gamma, expected_run_time, lipschitz


def law_of_run_time(gamma, length, most):
    """P(Y = 1), ..., P(Y = most), from the law of the present run of periods without demand."""
    runs = [1.0] + [0.0] * (length - 1)
    law = []
    for _ in range(most):
        law.append(gamma * runs[-1])
        runs = [(1 - gamma) * sum(runs)] + [gamma * run for run in runs[:-1]]
    return np.array(law)


def growth(most):
    """W(1), ..., W(most) by the paper's recursion."""
    return list(itertools.accumulate(range(most - 1), lambda w, _: 4 * w + 3, initial=1))


def expected_growth(gamma, length, most):
    """The sum of P(Y = t) W(t) up to ``most`` periods."""
    return sum(
        p * w for p, w in zip(law_of_run_time(gamma, length, most), growth(most), strict=True)
    )


def test_the_law_of_the_runs_is_that_of_simulated_ones():
    """Of 4,000 runs; a share is off by six standard errors once in 10^9 times."""
    rng = np.random.default_rng(1)
    times = []
    for _ in range(4000):
        run = t = 0
        while run < 2:
            t += 1
            run = run + 1 if rng.random() < 0.6 else 0
        times.append(t)
    law = law_of_run_time(0.6, 2, 12)
    shares = np.array([times.count(t) for t in range(1, 13)]) / 4000
    assert law[0] == 0
    assert (np.abs(shares - law) <= 6 * np.sqrt(law * (1 - law) / 4000)).all()


@given(st.floats(0.2, 0.99), st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_expected_run_time(gamma, length):
    most = 4000 if gamma**length > 0.02 else 60_000
    law = law_of_run_time(gamma, length, most)
    assert law.sum() == pytest.approx(1.0, abs=1e-9)
    mean = (law * np.arange(1, most + 1)).sum()
    assert expected_run_time(gamma, length) == pytest.approx(mean, rel=1e-6)
    assert expected_run_time(gamma, length) <= 1 / ((1 - gamma) * gamma**length)


def test_two_in_a_row_of_fair_coins_take_six_throws():
    assert expected_run_time(0.5, 2) == 6
    assert expected_run_time(0.25, 1) == 4


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_the_lipschitz_constant_is_the_papers_sum(length):
    edge = c_gamma(length)
    for gamma in (edge + share * (1 - edge) for share in (0.25, 0.5, 0.9)):
        expected = expected_growth(gamma, length, 500) / expected_run_time(gamma, length)
        assert lipschitz(gamma, length, 1.0) == pytest.approx(expected, rel=1e-9)
        assert lipschitz(gamma, length, 11.5) == pytest.approx(11.5 * expected, rel=1e-9)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_below_c_gamma_the_papers_sum_is_infinite(length):
    """Its terms fall above c_γ, and rise below; at c_γ they stay."""
    edge = c_gamma(length)
    near = 1e-3 * (1 - edge)
    for gamma, sign in ((edge + near, -1), (edge - near, 1), (0.5 * edge, 1), (0.3, 1)):
        law = law_of_run_time(gamma, length, 401)
        assert np.sign(4 * law[-1] / law[-2] - 1) == sign
        assert math.isinf(lipschitz(gamma, length, 1.0)) == (sign > 0)
    law = law_of_run_time(edge, length, 401)
    assert 4 * law[-1] / law[-2] == pytest.approx(1.0, abs=1e-7)
    assert lipschitz(edge, length, 1.0) == math.inf


def test_c_gamma_of_small_lead_times():
    # For L_r = 1 the runs are geometric: 4 (1 - γ) < 1.
    assert c_gamma(1) == pytest.approx(0.75, abs=1e-12)
    # The paper's remark: for L_r = 2 a γ above 0.96 suffices.
    assert c_gamma(2) == pytest.approx(0.948, abs=5e-4)
    assert math.isfinite(lipschitz(0.96, 2, 1.0))
    assert lipschitz(0.94, 2, 1.0) == math.inf
    assert c_gamma(2) < c_gamma(3) < c_gamma(4) < 1


def shop(**changes):
    values = {
        "regular_lead_time": 2,
        "expedited_lead_time": 1,
        "holding_cost": 1.0,
        "lost_sales_cost": 10.0,
        "regular_cost": 0.25,
        "expedited_cost": 0.5,
        "expedited_levels": {"low": 0, "high": 4},
        "regular_levels": {"low": 0, "high": 8},
        "zero_demand": 0.3,
    }
    return DualSourcing(**{**values, **changes})


def test_constants_are_those_of_the_paper():
    constants = shop().constants
    # α = (1-γ)/2 γ^L_r = 0.35 · 0.09, and H = 1/((1-γ) γ^L_r) for costs in [0, 1].
    assert constants.alpha == pytest.approx(0.0315)
    assert constants.scaled_span == pytest.approx(1 / 0.063)
    # A period costs between -p U and (h + c_e) U, with U = 8.
    assert (constants.cost_low, constants.cost_high) == (-80, 12)
    assert constants.span == pytest.approx(92 / 0.063)
    assert (constants.bound, constants.dimension, constants.settling) == (8, 2, 2)
    # A unit is left over or sold, and was bought.
    assert constants.sensitivity == 10.75
    assert constants.lipschitz == math.inf
    # The published experiments left out the factor 1-γ.
    assert constants.published_alpha == pytest.approx(0.045)


@pytest.mark.parametrize(
    ("gamma", "regular", "delta", "steps"),
    [
        # (2 sqrt(2 log(2/δ)) + 2)/((1-γ)² γ^L_r), squared: (5.432404 + 2) · 16, ...
        (0.5, 2, 0.05, 14142),
        (0.5, 3, 0.05, 56566),
        # 2 sqrt(2 log 4) = 3.33022: 5.33022²/(0.1² · 0.9)² = 28.4112/8.1e-5
        (0.9, 1, 0.5, 350756),
    ],
)
def test_data_needed_for_the_order_to_hold(gamma, regular, delta, steps):
    problem = shop(regular_lead_time=regular, expedited_lead_time=0, zero_demand=gamma)
    assert problem.constants.data_needed(delta) == pytest.approx(steps, rel=1e-4)


def test_slow_movers_have_a_finite_lipschitz_constant():
    expected = 11.75 * expected_growth(0.97, 2, 500) / expected_run_time(0.97, 2)
    assert shop(zero_demand=0.97).constants.lipschitz == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("gamma", [None, 0.0, 1.0])
def test_without_zero_demand_nothing_is_claimed(gamma):
    constants = shop(zero_demand=gamma).constants
    assert (constants.alpha, constants.span, constants.lipschitz) == (0, math.inf, math.inf)
    assert constants.published_alpha is None
    assert constants.data_needed(0.05) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: expected_run_time(0.0, 2), ["zero_probability", "0.0"]),
        (lambda: expected_run_time(1.0, 2), ["zero_probability", "1.0"]),
        (lambda: expected_run_time(0.5, 0), ["length", "0"]),
        (lambda: expected_run_time(0.5, 1.5), ["length", "1.5"]),
        (lambda: c_gamma(0), ["regular_lead_time", "0"]),
        (lambda: lipschitz(-0.1, 2, 1.0), ["zero_probability", "-0.1"]),
        (lambda: lipschitz(0.5, 0, 1.0), ["regular_lead_time", "0"]),
    ],
)
def test_a_wrong_value_is_refused_in_a_sentence(call, words):
    with pytest.raises(InputError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text
