import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iopea.systems.lost_sales import kernel as kernels
from iopea.systems.shop.period_cost import cost_of_each
from iopea.testing.twins import base_stock_period, replay_speed, replay_twin

levels_of = st.lists(st.floats(0.1, 20.0), min_size=1, max_size=6)
demand_of = st.lists(st.one_of(st.just(0.0), st.floats(0.0, 8.0)), min_size=1, max_size=40)


def start(levels, lead_time, costs, dtype="float64"):
    n = len(levels)
    ring = kernels.start_ring(
        np.asarray(levels, dtype=float), np.zeros(n), np.zeros((lead_time, n)), dtype
    )
    return ring, kernels.potential(ring, 0, costs).astype(dtype)


def in_steps(stock, sales, order):
    return 3.0 if order > 2.0 else (1.0 if order > 0.0 else 0.0)


@given(levels_of, st.integers(0, 8), demand_of, st.integers(1, 9))
@settings(deadline=None, max_examples=150)
def test_replay_equals_its_twin(levels, lead_time, demand, size):
    ring, running = start(levels, lead_time, (1.5, 7.0))
    batches, _ = kernels.replay(
        np.array(demand), np.array(levels), ring, 0, 0, (1.5, 7.0), running, 0, size
    )
    expected = replay_twin(levels, lead_time, demand, 1.5, 7.0, size)
    assert batches.shape == (len(demand) // size, len(levels))
    np.testing.assert_allclose(batches, np.reshape(expected, batches.shape), rtol=0, atol=1e-9)


@given(levels_of, st.integers(0, 4), st.integers(1, 9))
@settings(deadline=None, max_examples=30)
def test_replay_with_a_cost_of_ones_own_equals_its_twin(levels, lead_time, size):
    # Whole units, so that no order is a remainder of rounding on either side.
    rng = np.random.default_rng(size)
    demand = rng.integers(0, 5, 40).astype(float)
    whole = [float(round(level)) for level in levels]
    ring, running = start(whole, lead_time, (1.0, 2.0))
    batches, _ = kernels.replay(
        demand, np.array(whole), ring, 0, 0, (1.0, 2.0), running, 0, size, own=in_steps
    )
    expected = replay_twin(whole, lead_time, demand.tolist(), 1.0, 2.0, size, in_steps)
    np.testing.assert_allclose(batches, np.reshape(expected, batches.shape), rtol=0, atol=1e-9)


@pytest.mark.parametrize("own", [None, in_steps])
@pytest.mark.parametrize("lead_time", [0, 1, 2, 6])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bits_do_not_depend_on_how_a_path_is_cut(lead_time, dtype, own):
    rng = np.random.default_rng(3)
    levels, demand, size = rng.uniform(0, 9, 1100), rng.exponential(1.0, 2500), 1200
    costs = (0.7, 3.3)
    ring, running = start(levels, lead_time, costs, dtype)
    whole, since = kernels.replay(demand, levels, ring, 0, 0, costs, running, 0, size, own)
    ring2, running2 = start(levels, lead_time, costs, dtype)
    parts, first, since2 = [], 0, 0
    while first < demand.size:
        part = demand[first : first + int(rng.integers(1, 30))]
        batches, since2 = kernels.replay(
            part, levels, ring2, first % (lead_time + 2), since2, costs, running2,
            first % size, size, own,
        )  # fmt: skip
        parts.append(batches)
        first += part.size
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(running2, running)
    np.testing.assert_array_equal(ring2, ring)
    assert since2 == since


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(4)
    levels, demand = rng.uniform(0, 9, 5000), rng.exponential(1.0, 600)
    results = []
    for threads in (1, 2, 4):
        ring, running = start(levels, 2, (1, 9))
        results.append(
            kernels.replay(demand, levels, ring, 0, 0, (1, 9), running, 0, 50, threads=threads)[0]
        )
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_more_threads_than_blocks_settle_together():
    rng = np.random.default_rng(5)
    levels, demand = rng.uniform(0, 9, 600), rng.exponential(1.0, 12_000)
    results = []
    for threads in (1, 8):
        ring, running = start(levels, 2, (1, 9))
        since, parts = 0, []
        for first in range(0, 12_000, 3000):
            batches, since = kernels.replay(
                demand[first : first + 3000], levels, ring, first % 4, since, (1, 9), running,
                first % 5000, 5000, threads=threads,
            )  # fmt: skip
            parts.append(batches)
        results.append((np.concatenate(parts), since, running))
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


@given(st.floats(0.0, 20.0), st.integers(0, 6), demand_of, st.integers(0, 5))
@settings(deadline=None, max_examples=100)
def test_roll_out_equals_the_plain_system_from_any_state(level, lead_time, demand, seed):
    rng = np.random.default_rng(seed)
    state = tuple(rng.uniform(0, 6, lead_time + 1))
    held = np.array(state)
    stock, sales, orders = kernels.roll_out(level, np.array(demand), held)
    assert stock.size == len(demand)
    for t, wanted in enumerate(demand):
        state, expected_stock, expected_sales, order = base_stock_period(state, level, wanted)
        assert stock[t] == pytest.approx(expected_stock, abs=1e-9)
        assert sales[t] == pytest.approx(expected_sales, abs=1e-9)
        assert stock[t] - sales[t] == pytest.approx(state[0], abs=1e-9)
        assert orders[t] == pytest.approx(order, abs=1e-9)
    assert tuple(held) == pytest.approx(state, abs=1e-9)


def test_roll_out_stops_as_soon_as_the_shop_is_empty():
    held = np.array([1.0, 1.0, 0.0])
    stock, sales, orders = kernels.roll_out(
        0.0, np.array([0.5, 0.0, 2.0, 1.0]), held, stop_when_empty=True
    )
    assert not held.any()
    assert orders.tolist() == [0.0] * 3
    assert stock.tolist() == [2.0, 1.5, 1.5]
    assert sales.tolist() == [0.5, 0.0, 1.5]


def test_rounding_is_not_an_order():
    # 0.1 + 0.2 + ... leave remainders of 1e-16; a cost per order must not be charged for them.
    rng = np.random.default_rng(0)
    demand = np.where(rng.random(3000) < 0.5, 0.0, rng.exponential(1.0, 3000))
    cost = 0.0 * demand
    stock, sales, orders = kernels.roll_out(5.3, demand, np.zeros(3))
    own = cost_of_each(lambda stock, sales, order: 1.0 if order > 0 else 0.0, stock, sales, orders)
    cost[1:] = sales[:-1] > 0
    cost[0] = 1.0
    np.testing.assert_array_equal(own, cost)


def test_speed_report_checks_the_kernel_against_the_twin():
    speed = replay_speed(2, policies=64, periods=200)
    assert speed.largest_error < 1e-9
    assert speed.ratio == speed.kernel / speed.twin
