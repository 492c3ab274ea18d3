"""Slow systems: nothing is dropped before the data spans 20 memories of the system."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

import iopea
from exact_mdp import gain_and_bias
from iopea import IOPEA, InputError
from iopea.demand import Poisson
from iopea.elimination.paired import MEMORIES
from iopea.systems.finite import FiniteMDP
from iopea.systems.finite.dynamics import Dynamics
from iopea.systems.finite.estimators import SeenChain
from iopea.systems.finite.kernel import chain_memory, returns
from iopea.systems.lost_sales import LostSales
from iopea.testing.twins import assert_same_state

#: The probability with which a statistical test may fail although all is well.
FALSE_ALARM = 1e-6

STUCK = 1e-12


def two_state(there, back):
    """Transitions between two states."""
    return np.array([[1 - there, there], [back, 1 - back]])


def slow_chain(switch, estimator="own", costs=(0.0, 0.9), start_dear=False):
    """Policy 0 pays 0.45 on average, now little and now much; policy 1 always pays 0.5."""
    cheap, dear = reversed(costs) if start_dear else costs
    problem = FiniteMDP(states=2, actions=2, policies=[[0, 0], [1, 1]], estimator=estimator)
    transitions = np.repeat(two_state(switch, switch)[:, None], 2, axis=1)
    return problem, Dynamics(transitions=transitions, costs=[[cheap, 0.5], [dear, 0.5]])


def long_pipeline(lead_time=50, high=408):
    return LostSales(
        lead_time=lead_time,
        holding_cost=1,
        lost_sales_cost=10,
        levels={"low": 0, "high": high, "step": 1},
    )


# The memory of a chain.


@pytest.mark.parametrize(
    ("counts", "came_back"),
    [
        ([[5]], False),
        ([[5, 1], [0, 9]], False),
        ([[5, 1], [1, 9]], True),
        ([[0, 1, 0], [0, 0, 1], [0, 0, 7]], False),
        ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], True),
        ([[0, 1, 0], [0, 3, 1], [0, 1, 0]], True),
        ([[0, 0], [0, 0]], False),
    ],
)
def test_a_chain_returns_if_it_comes_back_to_a_state_that_it_had_left(counts, came_back):
    assert returns(np.array(counts)) is came_back
    assert returns(np.array(counts, dtype=float)) is came_back


@pytest.mark.parametrize("there", [0.5, 0.2, 0.03, 0.01])
@pytest.mark.parametrize("back", [0.7, 0.03])
def test_the_memory_of_two_states_follows_from_the_probabilities_to_switch(there, back):
    expected = max(2 / (there + back) - 1, 0.0)
    assert chain_memory(two_state(there, back)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("states", [2, 3, 7])
def test_no_cost_adds_up_for_longer_than_the_memory(states):
    """The variance of a mean is at most that of independent steps, times the memory.

    For chains that can be reversed in time: of no cost the sum of all correlations is larger.
    """
    rng = np.random.default_rng(states)
    weights = rng.random((states, states)) ** 4
    weights += weights.T
    chain, law = weights / weights.sum(axis=1, keepdims=True), weights.sum(axis=1) / weights.sum()
    memory = float(chain_memory(chain))
    largest = 0.0
    for _ in range(200):
        costs = rng.normal(size=states)
        costs -= law @ costs
        bias = gain_and_bias(chain, costs)[1]
        bias -= law @ bias
        variance = law @ costs**2
        largest = max(largest, (2 * law @ (costs * bias) - variance) / variance)
    assert largest <= memory * (1 + 1e-9)
    assert largest > 0.5 * memory


def test_chains_that_merely_go_round_remember_nothing():
    assert chain_memory(np.roll(np.eye(5), 1, axis=1)) == pytest.approx(0.0, abs=1e-9)


def test_a_slow_part_counts_whatever_it_costs_and_although_it_was_left():
    fast = [[0.5, 0.5, 0, 0], [0.5, 0.49, 0.01, 0], [0, 0, 0.5, 0.5], [0, 0.01, 0.49, 0.5]]
    assert chain_memory(np.array(fast)) > 100
    left = np.array([[0.5, 0.5, 0, 0], [0.5, 0.49, 0.01, 0], [0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5]])
    assert chain_memory(left) > 100


def chain_twin(stretches):
    """The same as a list of moves, the path closed at its end."""
    moves, last = [], None
    for states, following in stretches:
        if last not in (None, states[0]):
            moves.append((last, states[0]))
        moves += list(zip(states, following, strict=True))
        last = following[-1]
    moves.append((last, stretches[0][0][0]))
    count, names = Counter(moves), sorted({state for state, _ in moves})
    chain = np.array([[count[one, other] for other in names] for one in names], dtype=float)
    values = np.linalg.eigvals(chain / chain.sum(axis=1, keepdims=True))
    values = np.delete(values, np.abs(values - 1).argmin())
    return max(((1 + values) / (1 - values)).real.max(), 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_a_seen_chain_equals_its_twin(seed):
    """Stretches of own steps; what others did between them is one move."""
    rng = np.random.default_rng(seed)
    chain, seen, stretches = rng.dirichlet(np.ones(4), size=4), SeenChain(5), []
    for length in (40, 1, 25):
        path = [int(rng.integers(4))]
        for _ in range(length):
            path.append(int(rng.choice(4, p=chain[path[-1]])))
        stretches.append((path[:-1], path[1:]))
        seen.add(*(np.array(each) for each in stretches[-1]))
    assert seen.memory == pytest.approx(chain_twin(stretches), rel=1e-9)
    other = SeenChain(5)
    other.load_state_dict(seen.state_dict())
    assert other.memory == seen.memory


def test_a_chain_must_come_back_or_be_brought_back():
    seen = SeenChain(2)
    assert seen.memory == math.inf
    stretch = np.array([0, 0, 1]), np.array([0, 1, 1])
    seen.add(*stretch)
    assert seen.memory == math.inf
    seen.add(*stretch)  # others have brought it back, and it has gone the same way
    assert seen.memory < math.inf


@pytest.mark.parametrize("estimator", ["own", "model"])
@pytest.mark.parametrize("switch", [0.3, 0.03])
def test_both_estimators_find_the_memory_of_two_states(estimator, switch):
    """By counts of n switches, n Poisson: 6 standard errors are 6/√n."""
    problem, truth = slow_chain(switch, estimator)
    evaluator = problem.evaluator(problem.policy_class.net(1.0))
    path = problem.simulator(truth, seed=1).play((0.0, 0.0), 100_000).trajectory
    evaluator.observe(path, True)
    memory = evaluator.estimates().memory
    error = 6 / math.sqrt(100_000 * switch)
    assert memory[0] == pytest.approx(1 / switch - 1, rel=error)
    assert memory[1] == math.inf  # it was never played


@pytest.mark.parametrize("estimator", ["own", "model"])
def test_a_policy_that_has_left_a_state_for_good_may_remember_for_ever(estimator):
    problem, _ = slow_chain(0.1, estimator)
    truth = Dynamics(
        transitions=[[[0.9, 0.1]] * 2, [[0.0, 1.0]] * 2], costs=[[0.0, 0.5], [0.9, 0.5]]
    )
    evaluator = problem.evaluator(problem.policy_class.net(1.0))
    evaluator.observe(problem.simulator(truth, seed=1).play((0.0, 0.0), 500).trajectory, True)
    estimates = evaluator.estimates()
    assert estimates.steps[0] == 500
    assert estimates.memory[0] == math.inf


def test_where_there_is_one_state_nothing_is_remembered():
    for changes in ({}, {"information_order": "full-feedback"}):
        problem = FiniteMDP(states=1, actions=2, **changes)
        truth = Dynamics(transitions=[[[1.0], [1.0]]], costs=[[0.3, 0.6]], bernoulli=True)
        result = iopea.run(IOPEA(problem), problem.simulator(truth, seed=1), 3000)
        assert result.recommendation == (0.0,)
        assert result.survivors == 1


# Learning in slow systems.


@pytest.mark.parametrize("estimator", ["own", "model"])
def test_the_best_policy_of_a_slow_chain_survives(estimator):
    """At δ = 0.05, in 60 runs each of two chains; every other run begins in the dear state.

    If each run loses it with probability 0.05, 15 losses of 60 or 21 of 120 have a probability
    below 10^-6. Without a look at the memory it is lost in about 40 of 120.
    """
    runs, lost = 60, []
    for switch in (0.03, 0.01):
        systems = [slow_chain(switch, estimator, start_dear=dear) for dear in (False, True)]
        assert all(each.simulator(truth).optimum()[0] == (0.0, 0.0) for each, truth in systems)
        lost.append(0)
        for seed in range(runs):
            problem, truth = systems[seed % 2]
            learner = IOPEA(problem, delta=0.05)
            iopea.run(learner, problem.simulator(truth, seed), 5000)
            lost[-1] += not learner.survives((0.0, 0.0))
    assert max(lost) <= stats.binom.isf(FALSE_ALARM, runs, 0.05)
    assert sum(lost) <= stats.binom.isf(FALSE_ALARM, 2 * runs, 0.05)


@pytest.mark.parametrize("estimator", ["own", "model"])
@pytest.mark.parametrize("start_dear", [True, False])
def test_what_never_came_back_is_neither_dropped_nor_compared_with(estimator, start_dear):
    """Policy 0 never leaves the state in which it begins, be that dear or for nothing."""
    problem, truth = slow_chain(STUCK, estimator, start_dear=start_dear)
    learner = IOPEA(problem)
    iopea.run(learner, problem.simulator(truth), 3000)
    assert learner.survivors == 2
    # Whoever declares that 3,000 steps span many memories has the word of the data.
    declared = IOPEA(problem, memory=1)
    iopea.run(declared, problem.simulator(truth), 3000)
    assert declared.surviving.tolist() == [[1.0, 1.0] if start_dear else [0.0, 0.0]]


@pytest.mark.parametrize("settings", [{}, {"first_epoch": 8}, {"horizon": 3000}])
def test_nothing_is_dropped_before_twenty_lead_times(settings):
    problem = long_pipeline()
    learner = IOPEA(problem, **settings)
    iopea.run(learner, problem.simulator(Poisson(mean=4), seed=1), 2000)
    early = [record for record in learner.records if record.steps < MEMORIES * 50]
    assert len(early) >= 3
    assert all(record.survivors == learner.count for record in early)
    assert all(record.threshold == math.inf for record in early)
    # And not long after that many are.
    assert learner.survivors < 0.9 * learner.count


@pytest.mark.parametrize("settings", [{}, {"first_epoch": 8}])
@pytest.mark.parametrize("memory", [40, 60.5])
def test_nothing_is_dropped_before_twenty_declared_memories(memory, settings):
    problem = long_pipeline(lead_time=2, high=40)
    learner = IOPEA(problem, memory=memory, **settings)
    iopea.run(learner, problem.simulator(Poisson(mean=4), seed=1), 2000)
    early = [record for record in learner.records if record.steps < MEMORIES * memory]
    assert early
    assert all(record.survivors == learner.count for record in early)
    assert learner.survivors < learner.count
    # It does not shorten what the problem knows.
    assert IOPEA(long_pipeline(), memory=memory).rule.setting.memory == max(memory, 50)


@pytest.mark.parametrize("seed", range(10))
def test_the_best_level_of_a_long_pipeline_survives(seed):
    """183 is the best of 409 levels: by 2·10^6 steps it costs 9.738, and 182 costs 9.741."""
    problem = long_pipeline()
    learner = IOPEA(problem)
    iopea.run(learner, problem.simulator(Poisson(mean=4), seed=seed), 3000)
    assert learner.survives(183.0)


# The setting.


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (0.5, "memory is 0.5 steps: give at least 1"),
        (0, "memory must be a finite number above 0, not 0"),
        (-3, "memory must be a finite number above 0, not -3"),
        (math.nan, "memory must be a finite number.*nan"),
        (math.inf, "memory must be a finite number.*inf"),
        ("ten", "memory must be a finite number.*'ten'"),
        ("10", "memory must be a finite number.*'10'"),
        (True, "memory must be a finite number.*True"),
        ([10], r"memory must be a finite number.*\[10\]"),
    ],
)
def test_a_wrong_memory_is_refused_in_a_sentence(memory, words):
    with pytest.raises(InputError, match=words) as caught:
        IOPEA(long_pipeline(), memory=memory)
    assert "\n" not in str(caught.value)


def test_another_memory_makes_another_state():
    one, other = (IOPEA(long_pipeline(), memory=memory) for memory in (60, 70))
    before = one.state_dict()
    assert one.settings()["memory"] == 60.0
    assert IOPEA(long_pipeline()).settings()["memory"] is None
    for state in (other.state_dict(), IOPEA(long_pipeline()).state_dict()):
        with pytest.raises(InputError, match="settings"):
            one.load_state_dict(state)
    assert_same_state(one.state_dict(), before)


SYSTEMS = {
    "lost sales": (long_pipeline(5, 60), Poisson(mean=4)),
    "own": slow_chain(0.03),
    "model": slow_chain(0.03, "model"),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("memory", [None, 30.5])
@pytest.mark.parametrize("steps", [3, 555, 1800])
def test_saved_and_loaded_it_goes_on_bit_for_bit(name, memory, steps, tmp_path):
    problem, truth = SYSTEMS[name]
    whole = IOPEA(problem, memory=memory)
    once = iopea.run(whole, problem.simulator(truth, seed=3), steps + 1500)
    first, system = IOPEA(problem, memory=memory), problem.simulator(truth, seed=3)
    before = iopea.run(first, system, steps)
    iopea.save_state(first.state_dict(), tmp_path / "learner.npz")
    iopea.save_state(system.state_dict(), tmp_path / "system.npz")
    second, resumed = IOPEA(problem, memory=memory), problem.simulator(truth, seed=9)
    second.load_state_dict(iopea.load_state(tmp_path / "learner.npz"))
    resumed.load_state_dict(iopea.load_state(tmp_path / "system.npz"))
    after = iopea.run(second, resumed, 1500)
    np.testing.assert_array_equal(np.concatenate([before.costs, after.costs]), once.costs)
    assert_same_state(second.state_dict(), whole.state_dict())
    # 20 lead times are over, 20 declared memories perhaps not.
    if name == "lost sales":
        assert (whole.survivors < whole.count) == (memory is None or steps + 1500 >= 20 * memory)
