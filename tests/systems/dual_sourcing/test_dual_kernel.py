import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iopea.cli.bench import bench
from iopea.systems.dual_sourcing import kernel as kernels
from iopea.systems.lost_sales import kernel as lost_sales
from iopea.testing import twins
from iopea.testing.twins import dual_index_period, dual_replay_speed, dual_replay_twin, replay_speed

COSTS = (1.5, 7.0, 0.8, 2.3)

levels = st.floats(0.0, 12.0)
policies_of = st.lists(st.tuples(levels, levels), min_size=1, max_size=6)
amounts = st.one_of(st.just(0.0), st.floats(0.0, 8.0))
filled = st.sampled_from([0.0, 0.5, 1.0])
demand_of = st.lists(amounts, min_size=1, max_size=40)
# (L_r, L_e) with 1 <= L_r - L_e <= 8.
lead_times_of = st.tuples(st.integers(1, 8), st.integers(0, 4)).map(
    lambda pair: (pair[0] + pair[1], pair[1])
)


@st.composite
def paths_of(draw):
    """A path of demand with the ends of its batches, some of them without a period."""
    demand = draw(demand_of)
    inner = st.lists(st.integers(0, len(demand)), max_size=6)
    return demand, [*sorted(draw(inner)), len(demand)]


@st.composite
def systems_of(draw):
    """Policies, lead times, and for each policy a state from which no order lifts it too high.

    What lies outside the expedited position leaves room for z_e below z_r, and all of it for
    what lies inside.
    """
    regular, expedited = lead_times = draw(lead_times_of)
    policies = draw(policies_of)
    held = []
    for policy in policies:
        rows = 1 + regular + expedited
        state = np.array(draw(st.lists(st.floats(0.0, 1.0), min_size=rows, max_size=rows)))
        outside = slice(2 + expedited, 1 + regular)
        far = draw(filled) * (max(policy) - policy[0])
        near = draw(filled) * (max(policy) - far)
        share_far, share_near = state[outside].sum(), state.sum() - state[outside].sum()
        late = state[outside] * far / max(share_far, far, 1e-9)
        state *= near / max(share_near, near, 1e-9)
        state[outside] = late
        held.append(state)
    return policies, lead_times, np.array(held).T


def replay(policies, lead_times, demand, ends, dtype="float64", held=None, state=None, clock=0):
    """Batch costs, and the state after them."""
    points = np.array(policies, dtype=float)
    if state is None:
        state = kernels.start_state(points, lead_times, dtype, held)
    batches = kernels.replay(
        np.array(demand, dtype=float), np.array(ends, dtype=np.intp), points, state, clock,
        lead_times, COSTS,
    )  # fmt: skip
    return batches, state


def as_states(held, lead_times):
    """The same states as the twin has them."""
    regular = lead_times[0]
    return [
        (float(column[0]), tuple(column[1 : 1 + regular].tolist()), tuple(column[1 + regular :]))
        for column in held.T
    ]


def random_case(seed, lead_times, policies, periods):
    rng = np.random.default_rng([seed, *lead_times])
    pairs = rng.uniform(0, 9, (policies, 2))
    pairs[::3, 0] = np.minimum(pairs[::3, 0], pairs[::3, 1])
    demand = np.where(rng.random(periods) < 0.3, 0.0, rng.exponential(1.5, periods))
    return rng, pairs, demand


# Replay


@given(policies_of, lead_times_of, paths_of())
@settings(deadline=None, max_examples=200)
def test_replay_equals_its_twin(policies, lead_times, path):
    demand, ends = path
    batches, _ = replay(policies, lead_times, demand, ends)
    expected = dual_replay_twin(policies, lead_times, demand, COSTS, ends)
    np.testing.assert_allclose(batches, expected, rtol=0, atol=1e-9)


@given(systems_of(), paths_of())
@settings(deadline=None, max_examples=200)
def test_replay_equals_its_twin_from_any_state(system, path):
    policies, lead_times, held = system
    demand, ends = path
    batches, _ = replay(policies, lead_times, demand, ends, held=held)
    states = as_states(held, lead_times)
    expected = dual_replay_twin(policies, lead_times, demand, COSTS, ends, states)
    np.testing.assert_allclose(batches, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("gap", range(1, 9))
@pytest.mark.parametrize("expedited", [0, 1, 2, 4])
def test_replay_equals_its_twin_over_a_long_path(gap, expedited):
    lead_times = (gap + expedited, expedited)
    rng, pairs, demand = random_case(1, lead_times, 12, 1500)
    ends = np.sort(rng.integers(0, 1501, 40)).tolist()
    batches, _ = replay(pairs, lead_times, demand, ends)
    policies = [tuple(pair) for pair in pairs.tolist()]
    expected = dual_replay_twin(policies, lead_times, demand.tolist(), COSTS, ends)
    np.testing.assert_allclose(batches, expected, rtol=0, atol=1e-9)


@given(systems_of(), paths_of(), st.lists(st.integers(0, 40), max_size=5))
@settings(deadline=None, max_examples=100)
def test_a_path_may_come_in_pieces(system, path, cuts):
    """The state is carried over: batches are cut by the pieces, and add up to the whole."""
    policies, lead_times, held = system
    demand, _ = path
    whole, last = replay(policies, lead_times, demand, [len(demand)], held=held)
    state, total, first = None, 0.0, 0
    for end in [*sorted(min(cut, len(demand)) for cut in cuts), len(demand)]:
        part = demand[first:end]
        batches, state = replay(
            policies, lead_times, part, [len(part)], "float64", held, state, first
        )
        total = total + batches[0]
        first = end
    np.testing.assert_allclose(total, whole[0], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(state, last)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("lead_times", [(1, 0), (2, 0), (4, 0), (5, 0), (7, 0), (3, 2), (6, 2)])
def test_bits_do_not_depend_on_how_batches_are_told(lead_times, dtype):
    rng, pairs, demand = random_case(2, lead_times, 1100, 700)
    ends = np.unique(np.append(rng.integers(1, 700, 30), 700))
    whole, last = replay(pairs, lead_times, demand, ends, dtype)
    state, parts, first = None, [], 0
    for some in np.array_split(ends, 7):
        batches, state = replay(
            pairs, lead_times, demand[first : some[-1]], some - first, dtype, None, state, first
        )
        parts.append(batches)
        first = some[-1]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(state, last)


def test_policies_do_not_disturb_each_other():
    lead_times = (5, 1)
    _, pairs, demand = random_case(3, lead_times, kernels.BLOCK + 3, 100)
    together, _ = replay(pairs, lead_times, demand, [30, 100])
    for j in (0, 7, kernels.BLOCK - 1, kernels.BLOCK, kernels.BLOCK + 2):
        alone, _ = replay(pairs[j : j + 1], lead_times, demand, [30, 100])
        np.testing.assert_array_equal(together[:, j], alone[:, 0])


@pytest.mark.parametrize("lead_times", [(1, 0), (3, 0), (6, 0), (2, 1), (5, 2)])
def test_single_precision_has_its_digits(lead_times):
    """An operation rounds by 2^-24 of a value, and roundings may add up from period to period."""
    _, pairs, demand = random_case(4, lead_times, 40, 2000)
    ends = np.arange(50, 2001, 50)
    double, _ = replay(pairs, lead_times, demand, ends)
    single, _ = replay(pairs, lead_times, demand, ends, "float32")
    assert single.dtype == np.float32
    per_period = np.abs(single - double) / 50
    assert (per_period <= ends[:, None] * 2.0**-24 * sum(COSTS) * 9).all()
    # Typically they do not add up: five digits of a cost of about 10 are right.
    assert np.median(per_period) < 1e-4
    assert per_period.max() > 0


@pytest.mark.parametrize("lead_times", [(1, 0), (6, 0), (4, 2)])
def test_threads_do_not_change_a_bit(lead_times):
    _, pairs, demand = random_case(5, lead_times, 5000, 300)
    ends = np.arange(50, 301, 50)
    results = []
    for threads in (1, 2, 4, 64):
        state = kernels.start_state(pairs, lead_times)
        batches = kernels.replay(demand, ends, pairs, state, 0, lead_times, COSTS, threads)
        results.append((batches, state))
    for batches, state in results[1:]:
        np.testing.assert_array_equal(batches, results[0][0])
        np.testing.assert_array_equal(state, results[0][1])


@given(policies_of, lead_times_of, paths_of())
@settings(deadline=None, max_examples=60)
def test_a_redundant_policy_does_the_same_as_equal_levels(policies, lead_times, path):
    demand, ends = path
    redundant = [(max(policy), min(policy)) for policy in policies]
    equal = [(max(policy), max(policy)) for policy in policies]
    one, _ = replay(redundant, lead_times, demand, ends)
    np.testing.assert_array_equal(one, replay(equal, lead_times, demand, ends)[0])
    twin = dual_replay_twin(redundant, lead_times, demand, COSTS, ends)
    assert twin == dual_replay_twin(equal, lead_times, demand, COSTS, ends)


def test_replay_leaves_what_it_is_given_alone():
    pairs, demand, ends = np.array([[1.0, 2.0]]), np.array([1.0, 0.5]), np.array([2])
    held = np.array([[0.5], [0.25], [0.25]])
    state = kernels.start_state(pairs, (2, 0), held=held)
    given = (demand, ends, pairs, held)
    before = [array.copy() for array in given]
    kernels.replay(demand, ends, pairs, state, 0, (2, 0), COSTS)
    for array, as_before in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, as_before)
    for array in (pairs, demand, held):  # and such arrays are taken, too
        array.flags.writeable = False
    kernels.replay(demand, ends, pairs, state, 2, (2, 0), COSTS)


# The real system


@given(systems_of(), demand_of, st.booleans())
@settings(deadline=None, max_examples=150)
def test_roll_out_equals_the_plain_system_from_any_state(system, demand, above):
    """Also from states above the levels, as after a change of policy."""
    policies, lead_times, held = system
    held = held * 3.0 if above else held
    for j, policy in enumerate(policies):
        state = as_states(held[:, [j]], lead_times)[0]
        row = held[:, j].copy()
        columns = kernels.roll_out(policy, np.array(demand), row, lead_times[0])
        assert columns.shape == (4, len(demand))
        for t, wanted in enumerate(demand):
            state, *expected = dual_index_period(state, policy, wanted)
            assert columns[:, t] == pytest.approx(expected, abs=1e-9)
        assert row == pytest.approx((state[0], *state[1], *state[2]), abs=1e-9)


@given(systems_of(), demand_of)
@settings(deadline=None, max_examples=60)
def test_roll_out_and_replay_are_one_system(system, demand):
    policies, lead_times, held = system
    batches, _ = replay(policies, lead_times, demand, [len(demand)], held=held)
    holding, price, on_regular, on_expedited = COSTS
    for j, policy in enumerate(policies):
        stock, sales, fast, slow = kernels.roll_out(
            policy, np.array(demand), held[:, j].copy(), lead_times[0]
        )
        costs = holding * (stock - sales) - price * sales + on_regular * slow + on_expedited * fast
        assert batches[0, j] == pytest.approx(costs.sum(), abs=1e-8)


def always(policy, periods):
    """The same policy in every period."""
    return np.tile(np.array(policy)[:, None], periods)


@given(systems_of(), st.tuples(levels, levels), demand_of, st.integers(0, 40))
@settings(deadline=None, max_examples=100)
def test_the_real_state_follows_from_stock_and_sales(system, second, demand, change):
    """Bit for bit, also when the policy changes, and whatever the demand that was lost."""
    policies, lead_times, held = system
    change = min(change, len(demand))
    row = held[:, 0].copy()
    followed, last = row[0], 1 + lead_times[0]
    seen_regular, seen_expedited = row[1:last].copy(), row[last:].copy()
    for policy, part in ((policies[0], demand[:change]), (second, demand[change:])):
        columns = kernels.roll_out(policy, np.array(part), row, lead_times[0])
        followed, bad = kernels.follow(
            always(policy, len(part)), followed, seen_regular, seen_expedited, columns[0],
            columns[1], 1e-9,
        )  # fmt: skip
        assert not bad.any()
    assert followed == row[0]
    np.testing.assert_array_equal(seen_regular, row[1:last])
    np.testing.assert_array_equal(seen_expedited, row[last:])


def test_rounded_records_do_not_add_up():
    rng = np.random.default_rng(6)
    demand = np.where(rng.random(2000) < 0.3, 0.0, rng.exponential(1.5, 2000))
    row = np.zeros(6)
    columns = kernels.roll_out((3.3, 7.7), demand, row, 4)
    stock, sales = np.round(columns[:2], 2)
    seen_regular, seen_expedited = np.zeros(4), np.zeros(1)
    _, bad = kernels.follow(
        always((3.3, 7.7), 2000), 0.0, seen_regular, seen_expedited, stock,
        np.minimum(sales, stock), 0.04,
    )  # fmt: skip
    assert not bad.any()
    np.testing.assert_allclose(seen_regular, row[1:5], atol=0.04)


def test_sold_out_is_sold_out_however_records_are_rounded():
    regular, expedited = np.zeros(1), np.zeros(0)
    stock, sales = np.array([2.99]), np.array([2.99])
    left, bad = kernels.follow(always((3.0, 5.0), 1), 0.0, regular, expedited, stock, sales, 0.05)
    assert (left, bad.any()) == (0.0, False)


def test_a_stock_that_orders_do_not_explain_is_counted_and_taken_over():
    regular, expedited = np.zeros(1), np.zeros(0)
    stock, sales = np.array([2.0, 4.0, 4.0]), np.array([0.0, 0.0, 0.0])
    left, bad = kernels.follow(always((3.0, 5.0), 3), 0.0, regular, expedited, stock, sales, 0.01)
    # 3 were to be expected, then 2 + 2 = 4 as the order of 2 arrives; then 5, not 4.
    assert bad.tolist() == [True, False, True]
    assert left == 4.0


def test_roll_out_stops_as_soon_as_the_system_is_empty():
    row = np.array([1.0, 1.0, 0.0, 0.5])
    columns = kernels.roll_out(
        (0.0, 0.0), np.array([0.5, 0.0, 2.5, 1.0]), row, 2, stop_when_empty=True
    )
    assert not row.any()
    assert columns.tolist() == [[2.5, 2.0, 2.0], [0.5, 0.0, 2.0], [0.0] * 3, [0.0] * 3]


@given(levels, st.integers(1, 6), demand_of)
@settings(deadline=None, max_examples=60)
def test_without_an_expedited_level_it_is_the_base_stock_system(level, lead_time, demand):
    path = np.array(demand)
    row, single = np.zeros(2 * lead_time), np.zeros(1 + lead_time)
    stock, sales, fast, _ = kernels.roll_out((0.0, level), path, row, lead_time)
    single_stock, single_sales, _ = lost_sales.roll_out(level, path, single)
    np.testing.assert_allclose(stock, single_stock, rtol=0, atol=1e-9)
    np.testing.assert_allclose(sales, single_sales, rtol=0, atol=1e-9)
    assert row[0] == pytest.approx(single[0], abs=1e-9)
    assert not fast.any()


@pytest.mark.parametrize("lead_times", [(1, 0), (4, 1)])
def test_rounding_is_not_an_order(lead_times):
    rng = np.random.default_rng(7)
    demand = np.where(rng.random(3000) < 0.5, 0.0, rng.exponential(1.0, 3000))
    _, sales, fast, slow = kernels.roll_out(
        (2.1, 5.3), demand, np.zeros(1 + sum(lead_times)), lead_times[0]
    )
    orders = np.concatenate([fast, slow])
    assert (orders[orders > 0] > 1e-9).all()
    # All that is ordered was sold in the period before.
    np.testing.assert_allclose((fast + slow)[1:], sales[:-1], atol=1e-9)
    assert ((fast + slow)[1:][sales[:-1] == 0] == 0).all()


@pytest.mark.parametrize("lead_times", [(1, 0), (3, 1)])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_speed_report_checks_the_kernel_against_the_twin(lead_times, precision):
    speed = dual_replay_speed(lead_times, precision, policies=64, periods=200)
    assert (speed.lead_time, speed.precision) == (lead_times, precision)
    assert speed.largest_error < (1e-9 if precision == "float64" else 1e-3)
    assert speed.ratio == speed.kernel / speed.twin > 1


@pytest.mark.parametrize("as_json", [True, False])
def test_bench_shows_dual_sourcing_in_both_precisions(capsys, monkeypatch, as_json):
    monkeypatch.setattr(twins, "replay_speed", lambda *which: replay_speed(*which, 64, 200))
    monkeypatch.setattr(
        twins, "dual_replay_speed", lambda *which: dual_replay_speed(*which, 64, 200)
    )
    bench(as_json=as_json)
    out = capsys.readouterr().out
    if not as_json:
        assert "dual-index policies" in out
        assert out.count("(3, 1)") == 2
        return
    rows = json.loads(out)["dual_replay"]
    assert sorted((row["precision"], *row["lead_time"]) for row in rows) == [
        (precision, *leads)
        for precision in ("float32", "float64")
        for leads in ((1, 0), (2, 0), (3, 1), (5, 0))
    ]
    for row in rows:
        assert row["ratio"] == pytest.approx(row["kernel"] / row["twin"])
        assert row["largest_error"] < (1e-9 if row["precision"] == "float64" else 1e-3)
