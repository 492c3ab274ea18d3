import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import exact_mdp as mdp
import iopea
from iopea import InputError, ModelMismatchError, Trajectory
from iopea.problem_files import parse_problem
from iopea.simulate import compare_runs
from iopea.systems.queue import QueueRates, ServiceRateQueue
from iopea.systems.queue import kernel as kernels
from iopea.systems.queue.service_rates import FEWEST_EVENTS
from iopea.testing.twins import assert_same_state

ALL = np.array([[a, b, c] for a in range(4) for b in range(4) for c in range(4)], dtype=float)
BEST = (0.0, 3.0, 3.0)
RATES = QueueRates(arrival_rate=6.0, deadline_rate=3.0)
CONTINUOUS = QueueRates(arrival_rate=6.0, deadline_rate=3.0, clock="continuous")


def queue(**changes):
    values = {
        "buffer": 2,
        "max_rate": 3,
        "arrival_rate_bound": 10.0,
        "deadline_rate_bound": 10.0,
        "miss_penalty": 100.0,
        "uniformization": 23.0,
    }
    if changes.get("buffer", 2) != 2 or changes.get("max_rate", 3) != 3:
        del values["uniformization"]
    return ServiceRateQueue(**{**values, **changes})


def large(**changes):
    values = {"buffer": 50, "max_rate": 20, "arrival_rate_bound": 40.0, "deadline_rate_bound": 2.0}
    return queue(**{**values, **changes})


def model(problem, rates):
    """Transitions (S, A, S) and costs (S, A) of the uniformised chain, as in the paper."""
    arrival_rate, deadline_rate = rates
    states, actions, uniform = (
        problem.system.buffer + 1,
        problem.system.max_rate + 1,
        problem.system.uniform_rate,
    )
    transitions = np.zeros((states, actions, states))
    costs = np.zeros((states, actions))
    for s in range(states):
        for a in range(actions):
            if s < problem.system.buffer:
                transitions[s, a, s + 1] = arrival_rate * problem.system.profile[s] / uniform
            if s > 0:
                transitions[s, a, s - 1] = (s * deadline_rate + a) / uniform
            transitions[s, a, s] = 1 - transitions[s, a].sum()
            missed = s * deadline_rate / uniform
            costs[s, a] = (
                problem.system.power_costs[a] / uniform + problem.system.miss_penalty * missed
            )
    return transitions, costs


def true_rates(truth=RATES):
    return np.array([truth.arrival_rate, truth.deadline_rate])


def exact(problem, policies, truth=RATES):
    return problem.simulator(truth).costs(np.array(policies), 1, 1, 0).sums[0]


def told(problem, steps, policy=BEST, truth=RATES, seed=1, policies=ALL):
    """An evaluator that has observed so many steps."""
    evaluator = problem.evaluator(policies)
    evaluator.observe(problem.simulator(truth, seed).play(policy, steps).trajectory, True)
    return evaluator


# The chain.


@pytest.mark.parametrize(
    ("arrivals", "uniformization", "cost"),
    [
        ("decaying", 23.0, 9.5404),
        ("fixed", 23.0, 11.6576),
        ("decaying", 33.0, 6.6494),
        ("fixed", 33.0, 8.1250),
        ("decaying", None, 6.6494),
    ],
)
def test_the_best_policy_of_the_paper(arrivals, uniformization, cost):
    problem = queue(arrivals=arrivals, uniformization=uniformization)
    policy, found = problem.simulator(RATES).optimum()
    assert policy == BEST
    assert round(found, 4) == cost
    costs = exact(problem, ALL)
    assert tuple(ALL[costs.argmin()]) == BEST
    assert costs.min() == pytest.approx(found, rel=1e-13)


@pytest.mark.parametrize(("arrivals", "cost"), [("decaying", 11.07), ("fixed", 13.45)])
def test_a_rate_drawn_anew_each_step_costs_what_the_paper_prints(arrivals, cost):
    transitions, costs = (each.mean(axis=1) for each in model(queue(arrivals=arrivals), (6.0, 3.0)))
    gain, _ = mdp.gain_and_bias(transitions, costs)
    assert round(gain, 2) == cost


@st.composite
def instances(draw, longest=6):
    """A queue of any kind, and rates within its bounds."""
    buffer, max_rate = draw(st.integers(1, longest)), draw(st.integers(1, 4))
    share = st.floats(0.05, 1.0)
    profile = draw(st.lists(share, min_size=buffer + 1, max_size=buffer + 1))
    power = draw(st.lists(st.floats(0.0, 20.0), min_size=max_rate + 1, max_size=max_rate + 1))
    problem = queue(
        buffer=buffer,
        max_rate=max_rate,
        miss_penalty=draw(st.floats(0.1, 100.0)),
        arrivals=draw(st.sampled_from(["decaying", "fixed", profile])),
        power=draw(st.sampled_from(["square", power])),
    )
    return problem, np.array([draw(st.floats(0.1, 10.0)), draw(st.floats(0.05, 10.0))])


@given(instances(), st.data())
@settings(deadline=None, max_examples=100)
def test_costs_are_those_of_the_uniformised_chain(instance, data):
    problem, rates = instance
    rate = st.integers(0, problem.system.max_rate)
    policy = data.draw(st.tuples(*[rate] * (problem.system.buffer + 1)))
    truth = QueueRates(arrival_rate=rates[0], deadline_rate=rates[1])
    transitions, costs = model(problem, rates)
    assert transitions.min() >= -1e-12
    states = np.arange(problem.system.buffer + 1)
    chain = transitions[states, policy], costs[states, policy]
    gain, _ = mdp.gain_and_bias(*chain)
    assert exact(problem, [policy], truth)[0] == pytest.approx(gain, rel=1e-9)
    law = kernels.stationary(np.array([policy], dtype=float), rates, problem.system.profile)[0]
    np.testing.assert_allclose(law, mdp.stationary(chain[0]), atol=1e-12)


@given(instances(longest=3))
@settings(deadline=None, max_examples=60)
def test_the_best_rates_are_those_of_brute_force_and_of_policy_iteration(instance):
    problem, rates = instance
    truth = QueueRates(arrival_rate=rates[0], deadline_rate=rates[1])
    policy, cost = problem.simulator(truth).optimum()
    costs = exact(problem, problem.policy_class.net(1.0), truth)
    assert cost == pytest.approx(costs.min(), rel=1e-8)
    assert exact(problem, [policy], truth)[0] == pytest.approx(cost, rel=1e-12)
    _, gain = mdp.policy_iteration(*model(problem, rates))
    assert cost == pytest.approx(gain, rel=1e-8)


def by_value_iteration(problem, rates):
    """Rates and cost of the best policy; the cost lies between the least and the largest gain."""
    transitions, costs = model(problem, rates)
    value = np.zeros(len(costs))
    for _ in range(100_000):
        choices = costs + transitions @ value
        gains = choices.min(axis=1) - value
        if np.ptp(gains) < 1e-10:
            break
        value = choices.min(axis=1) - choices.min()
    return tuple(map(float, choices.argmin(axis=1))), gains.mean()


@pytest.mark.parametrize("arrivals", ["decaying", "fixed"])
def test_a_long_queue_is_solved_as_by_value_iteration(arrivals):
    problem = large(arrivals=arrivals)
    policy, cost = problem.simulator(QueueRates(arrival_rate=18, deadline_rate=0.3)).optimum()
    expected, gain = by_value_iteration(problem, (18.0, 0.3))
    assert cost == pytest.approx(gain, abs=1e-9)
    assert policy == expected


@given(instances(), st.data())
@settings(deadline=None, max_examples=100)
def test_slopes_are_derivatives(instance, data):
    problem, rates = instance
    rate = st.integers(0, problem.system.max_rate)
    policy = np.array([data.draw(st.tuples(*[rate] * (problem.system.buffer + 1)))], dtype=float)
    cost, *slopes = kernels.slopes(policy, rates, *problem.system.known)
    assert cost == pytest.approx(
        kernels.average_costs(policy, rates, *problem.system.known), rel=1e-12
    )
    for axis, slope in enumerate(slopes):
        step = np.zeros(2)
        step[axis] = 1e-4 * rates[axis]
        up, down = (
            kernels.average_costs(policy, rates + sign * step, *problem.system.known)
            for sign in (1, -1)
        )
        # Central differences are off by the third derivative, a share of 1e-8, and by rounding.
        assert slope * step.max() == pytest.approx((up - down) / 2, rel=1e-5, abs=1e-9 * cost[0])


@pytest.mark.parametrize("rates", [(40.0, 2e-9), (40.0, 1e-3), (4e-8, 2.0), (4e-8, 2e-9), (40, 2)])
def test_no_rates_are_too_extreme(rates):
    problem = large(arrivals="fixed")
    rates = np.array(rates)
    policy, cost = kernels.best_rates(rates, *problem.system.known)
    some = np.array([policy, np.zeros(51), np.full(51, 20), [0] * 50 + [20], [20] * 25 + [0] * 26])
    costs, *slopes = kernels.slopes(some.astype(float), rates, *problem.system.known)
    assert costs[0] == pytest.approx(cost)
    assert costs.min() >= cost * (1 - 1e-9)
    assert np.isfinite(slopes).all()


def test_states_that_no_job_reaches_do_no_harm():
    problem = queue(buffer=4, arrivals=[6.0, 2.0, 0.0, 5.0, 0.0])
    shorter = queue(buffer=2, arrivals=[6.0, 2.0, 0.0], uniformization=problem.system.uniform_rate)
    policy, cost = problem.simulator(RATES).optimum()
    assert (policy[:3], cost) == (
        shorter.simulator(RATES).optimum()[0],
        pytest.approx(shorter.simulator(RATES).optimum()[1]),
    )
    assert max(problem.simulator(RATES).play(policy, 2000).trajectory["state"]) == 2


def test_the_profile_of_arrivals():
    assert queue(buffer=4).system.profile.tolist() == [1, 0.75, 0.5, 0.25, 0]
    assert queue(buffer=4, arrivals="fixed").system.profile.tolist() == [1, 1, 1, 1, 0]
    assert queue(buffer=1).system.profile.tolist() == [1, 0]
    assert queue(arrivals=[3.0, 6.0, 9.0]).system.profile.tolist() == [0.5, 1, 0]


@pytest.mark.parametrize("arrivals", ["decaying", "fixed"])
def test_time_back_to_the_empty_queue(arrivals):
    problem = queue(arrivals=arrivals, buffer=4)
    transitions = model(problem, (6.0, 3.0))[0][:, problem.system.max_rate]
    expected = np.linalg.solve(np.eye(4) - transitions[1:, 1:], np.ones(4))
    assert problem.simulator(RATES).restart_time() == pytest.approx(expected.max())


# The simulator.


@pytest.mark.parametrize("truth", [RATES, CONTINUOUS])
@pytest.mark.parametrize("arrivals", ["decaying", "fixed", [6.0, 4.0, 0.0]])
@pytest.mark.parametrize("policy", [(0.0, 3.0, 3.0), (2.0, 0.0, 1.0)])
def test_simulated_costs_are_the_exact_ones(truth, arrivals, policy):
    """Batch means, within 5 standard errors: one test in a million fails by chance."""
    problem = queue(arrivals=arrivals)
    system = problem.simulator(truth, seed=4)
    batches, size = 100, 4000
    costs, elapsed = np.empty(batches), np.empty(batches)
    for b in range(batches):
        rollout = system.play(policy, size)
        costs[b] = rollout.costs.sum()
        elapsed[b] = size if rollout.elapsed is None else rollout.elapsed
        problem.check(rollout.trajectory)
    mean = costs.sum() / elapsed.sum()
    error = (costs - mean * elapsed).std(ddof=1) / elapsed.mean() / math.sqrt(batches)
    assert abs(mean - exact(problem, [policy])[0]) < 5 * error
    assert error < 0.02 * mean
    assert truth.clock == "continuous" or elapsed.sum() == batches * size


@pytest.mark.parametrize("truth", [RATES, CONTINUOUS])
def test_steps_played_in_parts_are_the_same_steps(truth):
    problem = queue()
    whole = problem.simulator(truth, seed=2).play(BEST, 1000)
    system = problem.simulator(truth, seed=2)
    parts = [system.play(BEST, steps) for steps in (1, 299, 700)]
    for name in problem.columns:
        joined = np.concatenate([part.trajectory[name] for part in parts])
        np.testing.assert_array_equal(joined, whole.trajectory[name])
    np.testing.assert_array_equal(np.concatenate([part.costs for part in parts]), whole.costs)
    other = problem.simulator(truth, seed=3).play(BEST, 1000)
    assert (other.trajectory["state"] != whole.trajectory["state"]).any()


@pytest.mark.parametrize("truth", [RATES, CONTINUOUS])
def test_a_play_until_the_start_ends_when_the_queue_is_empty(truth):
    problem = queue()
    system, other = (problem.simulator(truth, seed=5) for _ in range(2))
    assert len(system.play(BEST, 50, until_start=True).trajectory) == 0
    while not other.state_dict()["system"]["jobs"]:
        system.play(BEST, 1)
        other.play(BEST, 1)
    path = system.play(problem.restart_policy, 1000, until_start=True).trajectory
    assert 0 < len(path) < 1000
    assert path["state"].min() >= 1
    assert system.state_dict()["system"]["jobs"] == 0
    # The rest of the randomness was given back.
    other.play(problem.restart_policy, len(path))
    assert_same_state(system.state_dict(), other.state_dict())


def test_a_simulator_goes_on_from_a_saved_state():
    problem = queue()
    system, other = problem.simulator(CONTINUOUS, seed=1), problem.simulator(CONTINUOUS, seed=9)
    system.play(BEST, 100)
    other.load_state_dict(system.state_dict())
    np.testing.assert_array_equal(system.play(BEST, 100).costs, other.play(BEST, 100).costs)


@pytest.mark.parametrize(
    ("policy", "words"),
    [((0, 3), ["0, 3", "2", "3"]), ((0, 1.5, 3), ["1.5", "3"]), ((0, 4, 3), "4")],
)
def test_a_policy_that_is_none_is_refused(policy, words):
    with pytest.raises(InputError) as caught:
        queue().simulator(RATES).play(policy, 10)
    assert all(word in str(caught.value) for word in words)


# The estimator.


@pytest.mark.parametrize("estimator", ["likelihood", "boundary"])
@pytest.mark.parametrize("truth", [RATES, CONTINUOUS])
@pytest.mark.parametrize("arrivals", ["decaying", "fixed", [3.0, 6.0, 0.0]])
@pytest.mark.parametrize("policy", [BEST, (3.0, 1.0, 2.0)])
def test_rates_are_found(estimator, truth, arrivals, policy):
    """Within 5 standard errors: one test in a million fails by chance."""
    problem = queue(estimator=estimator, arrivals=arrivals)
    evaluator = told(problem, 200_000, policy, truth)
    _, at_risk, _, jobs_at_risk, _ = evaluator._statistics()[0].sum(axis=0)
    leaving = 3.0 if estimator == "likelihood" else 3.0 + policy[-1] / 2
    errors = np.sqrt([6.0 / at_risk, leaving / jobs_at_risk])
    assert errors.max() < 0.1
    assert (np.abs(evaluator.rates - true_rates()) < 5 * errors).all()
    assert evaluator.optimum() == problem.simulator(truth).optimum()[0]


def test_likelihood_knows_more_than_the_boundary():
    seen = {}
    for estimator in ("likelihood", "boundary"):
        found = [told(queue(estimator=estimator), 4000, seed=s).rates for s in range(100)]
        seen[estimator] = np.std(found, axis=0)
    # The ratios are about 0.9 and 0.65, each known to 10 % from the same 100 runs.
    assert (seen["likelihood"] < [1.0, 0.85] * seen["boundary"]).all()


def test_both_estimators_by_hand():
    columns = {
        "state": [0, 0, 1, 2, 2, 1],
        "time": [0.5, 0.25, 1.0, 0.5, 0.25, 2.0],
        "arrivals": [0, 1, 1, 0, 0, 0],
        "services": [0, 0, 0, 0, 1, 0],
        "misses": [0, 0, 0, 0, 0, 1],
    }
    path = Trajectory((0.0, 1.0, 1.0), **columns)
    for estimator, expected in {
        "likelihood": (2 / (0.75 + 3.0 / 2), 1 / (3.0 + 2 * 0.75)),
        "boundary": (1 / 0.75, (1 / 0.75 - 1) / 2),
    }.items():
        evaluator = queue(estimator=estimator).evaluator(ALL)
        assert evaluator.at_start
        assert evaluator.observe(path, True) == 6
        assert evaluator.at_start
        assert evaluator.rates == pytest.approx(expected)


def test_estimates_stay_within_the_bounds_and_above_0():
    problem = queue(arrival_rate_bound=6.0, deadline_rate_bound=3.0)
    path = queue().simulator(QueueRates(arrival_rate=9, deadline_rate=9)).play(BEST, 3000)
    evaluator = problem.evaluator(ALL)
    evaluator.observe(path.trajectory, True)
    assert evaluator.rates.tolist() == [6.0, 3.0]
    estimates = evaluator.estimates()
    np.testing.assert_allclose(estimates.mean, exact(problem, ALL), rtol=1e-10)
    idle = queue(estimator="boundary").evaluator(ALL)
    quiet = Trajectory(
        BEST, state=[0, 2], time=[1, 1], arrivals=[0, 0], services=[0, 0], misses=[0, 0]
    )
    idle.observe(quiet, True)
    assert 0 < idle.rates.min() <= idle.rates.max() < 1e-7
    assert np.isfinite(idle.estimates().mean).all()


@pytest.mark.parametrize("estimator", ["likelihood", "boundary"])
@pytest.mark.parametrize("steps", [40, 64, 1000, 30_001])
def test_batch_sums_add_up_to_the_plug_in_cost(estimator, steps):
    problem = queue(estimator=estimator)
    evaluator = told(problem, steps)
    estimates = evaluator.estimates()
    assert estimates.rank == 2
    assert estimates.sizes.sum() == steps
    plug_in = kernels.average_costs(ALL, evaluator.rates, *problem.system.known) / 23.0
    np.testing.assert_allclose(estimates.sums.sum(axis=0), steps * plug_in, rtol=1e-10)
    some = evaluator.estimates_of(ALL[10:20])
    np.testing.assert_allclose(some.sums, estimates.sums[:, 10:20], rtol=1e-12, atol=1e-9)


def test_batch_sums_are_linear_where_there_is_much_data():
    """Each batch moves a cost along its slopes; the bend adds next to nothing."""
    problem = queue()
    evaluator = told(problem, 300_000)
    statistics, sizes = evaluator._statistics()
    arrivals, at_risk, misses, jobs_at_risk, _ = statistics.T
    rates = evaluator.rates
    costs, by_arrival, by_deadline = kernels.slopes(ALL, rates, *problem.system.known)
    moved = np.outer((arrivals - rates[0] * at_risk) / at_risk.sum(), by_arrival)
    moved += np.outer((misses - rates[1] * jobs_at_risk) / jobs_at_risk.sum(), by_deadline)
    expected = (sizes[:, None] * costs + sizes.sum() * moved) / 23.0
    spread = (expected / sizes[:, None]).std(axis=0)
    off = (evaluator.estimates().sums - expected) / sizes[:, None]
    assert (np.sqrt((off**2).mean(axis=0)) < 0.05 * spread).all()


def test_the_spread_of_batch_sums_is_the_error_of_the_estimates():
    problem = queue()
    means, errors = [], []
    for seed in range(200):
        estimates = told(problem, 2000, seed=seed).estimates()
        deviations = estimates.sums - estimates.sizes[:, None] * estimates.mean
        means.append(estimates.mean)
        errors.append(np.sqrt((deviations**2).sum(axis=0)) / 2000)
    # A standard deviation over 200 runs is known to 5 %.
    ratio = np.mean(errors, axis=0) / np.std(means, axis=0)
    assert (np.abs(ratio - 1) < 0.25).all()


def test_nothing_is_known_before_both_rates_can_be_told():
    evaluator = queue().evaluator(ALL)
    assert evaluator.rates is None
    assert evaluator.optimum() is None
    assert np.isnan(evaluator.estimates().mean).all()
    quiet = {"arrivals": [0], "services": [0], "misses": [0], "time": [0.1]}
    evaluator.observe(Trajectory(BEST, state=[0], **quiet), True)
    assert evaluator.optimum() is None
    evaluator.observe(Trajectory(BEST, state=[1], **quiet), True)
    assert not evaluator.at_start
    # With no miss yet, to save power seems best; what is known so far is one batch.
    assert evaluator.optimum()[0] == 0
    assert evaluator.estimates().sums.shape == (1, 64)


def test_nothing_is_eliminated_on_a_handful_of_misses():
    """A miss is so rare here that none comes for a while: that proves nothing."""
    problem = queue(miss_penalty=1e6)
    rare = QueueRates(arrival_rate=6, deadline_rate=0.003)
    assert problem.simulator(rare).optimum()[0] == BEST
    learner = iopea.IOPEA(problem)
    system = problem.simulator(rare, seed=1)
    misses = 0
    while misses < FEWEST_EVENTS:
        play = learner.ask()
        path = system.play(play.policy, min(play.steps, 20)).trajectory
        before = misses
        misses += int(path["misses"].sum())
        learner.tell(path)
        assert before >= FEWEST_EVENTS or learner.survivors == 64
    assert learner.steps > 1000
    iopea.run(learner, system, 200_000)
    assert learner.recommend() == BEST


def test_the_best_policy_survives_where_costs_bend():
    """Near these rates the difference of the best two policies has hardly any slope.

    A run may lose the best policy with probability δ = 0.05; that 15 of 100 do has one of 5,000.
    """
    problem = queue(buffer=3, miss_penalty=1.445, arrivals="fixed")
    truth = QueueRates(arrival_rate=1.6, deadline_rate=0.73)
    best, _ = problem.simulator(truth).optimum()
    lost = 0
    for seed in range(100):
        learner = iopea.IOPEA(problem)
        iopea.run(learner, problem.simulator(truth, seed), 1500)
        lost += not learner.survives(best)
    assert lost < 15


@pytest.mark.parametrize("estimator", ["likelihood", "boundary"])
@pytest.mark.parametrize("truth", [RATES, CONTINUOUS])
def test_every_delivery_gives_the_same_bits(estimator, truth):
    problem = queue(estimator=estimator)
    whole = told(problem, 5000, truth=truth)
    system = problem.simulator(truth, seed=1)
    other = problem.evaluator(ALL)
    rng, done = np.random.default_rng(1), 0
    while done < 5000:
        steps = min(int(rng.choice([1, 1, 2, 7, 300])), 5000 - done)
        assert other.observe(system.play(BEST, steps).trajectory, True) == steps
        done += steps
    assert_same_state(other.state_dict(), whole.state_dict())
    np.testing.assert_array_equal(other.estimates().sums, whole.estimates().sums)
    assert len(whole.estimates().sizes) <= 256


def test_steps_that_are_not_judged_only_move_the_queue():
    problem = queue()
    evaluator = problem.evaluator(ALL)
    before = evaluator.state_dict()["batches"]
    path = problem.simulator(RATES).play(BEST, 200).trajectory
    assert evaluator.observe(path, evaluate=False) == 0
    assert_same_state(evaluator.state_dict()["batches"], before)
    assert evaluator.at_start == (
        problem.simulator(RATES).play(BEST, 201).trajectory["state"][-1] == 0
    )


def test_an_evaluator_forgets_keeps_and_goes_on():
    problem = queue()
    evaluator = told(problem, 3000)
    other = problem.evaluator(ALL[:1])
    other.load_state_dict(evaluator.state_dict())
    more = problem.simulator(RATES, seed=7).play(BEST, 500).trajectory
    for each in (evaluator, other):
        each.observe(more, True)
    assert_same_state(other.state_dict(), evaluator.state_dict())
    assert evaluator.optimum() == BEST
    full = evaluator.estimates().mean
    evaluator.keep(np.arange(64) % 2 == 0)
    np.testing.assert_array_equal(evaluator.estimates().mean, full[::2])
    evaluator.forget()
    assert evaluator.rates is None
    assert evaluator.optimum() is None


# Learning.


@pytest.mark.parametrize("arrivals", ["decaying", "fixed"])
@pytest.mark.parametrize("truth", [RATES, CONTINUOUS])
def test_the_paper_s_queue_is_learned(arrivals, truth):
    problem = queue(arrivals=arrivals)
    learner = iopea.IOPEA(problem)
    plays = []
    result = iopea.run(
        learner, problem.simulator(truth, seed=3), 20_000, lambda each, done: plays.append(done)
    )
    assert result.recommendation == BEST
    assert learner.survives(BEST)
    assert result.effective_alpha == 1.0
    assert result.survivors < 64
    # After the first epochs it is played, not something that would tell as much.
    assert learner.ask().policy == BEST
    assert {record.best for record in result.records if record.steps > 2000} == {BEST}
    best = iopea.best_in_class(problem.simulator(truth))
    assert best.policy == BEST
    assert best.standard_error == 0
    # After the first epochs the best rates are played, on the same noise, per unit of time.
    (found,) = compare_runs([result], [problem.simulator(truth, seed=3)], best)
    assert abs(found.relative_regret) < 0.01


@pytest.mark.parametrize("estimator", ["likelihood", "boundary"])
@pytest.mark.parametrize("restart", ["none", "return"])
def test_a_learner_goes_on_from_a_saved_state(estimator, restart, tmp_path):
    problem = queue(estimator=estimator, arrivals=[6.0, 3.0, 0.0])
    learner = iopea.IOPEA(problem, restart=restart)
    system = problem.simulator(RATES)
    iopea.run(learner, system, 3000)
    iopea.save_state(learner.state_dict(), tmp_path / "state")
    other = iopea.IOPEA(problem, restart=restart)
    other.load_state_dict(iopea.load_state(tmp_path / "state"))
    copy = problem.simulator(RATES)
    copy.load_state_dict(system.state_dict())
    one, two = iopea.run(learner, system, 2000), iopea.run(other, copy, 2000)
    np.testing.assert_array_equal(one.costs, two.costs)
    assert_same_state(other.state_dict(), learner.state_dict())


def test_theorem_plays_and_recommends_the_best_by_estimate():
    problem = queue()
    learner = iopea.IOPEA(problem, rule="theorem", horizon=20_000)
    result = iopea.run(learner, problem.simulator(RATES), 20_000)
    assert learner.survives(BEST)
    assert result.recommendation == BEST


def test_published_recommends_what_was_played_last_by_chance():
    problem = queue(estimator="boundary")
    recommended = set()
    for seed in range(8):
        learner = iopea.IOPEA(problem, rule="published", horizon=30_000, seed=seed)
        iopea.run(learner, problem.simulator(RATES), 30_000)
        assert learner.survives(BEST)
        assert learner.recommend() == learner.ask().policy
        recommended.add(learner.recommend())
    assert len(recommended) > 2


@pytest.mark.parametrize("arrivals", ["decaying", "fixed"])
def test_a_queue_with_more_policies_than_could_be_listed(arrivals):
    problem = large(arrivals=arrivals)
    truth = QueueRates(arrival_rate=18, deadline_rate=0.3)
    learner = iopea.IOPEA(problem)
    assert learner.count == 21**51
    result = iopea.run(learner, problem.simulator(truth, seed=1), 20_000)
    evaluator = learner._pool.evaluator
    expected, cost = by_value_iteration(problem, evaluator.rates)
    assert result.recommendation == expected
    estimated = evaluator.estimates_of(np.array([result.recommendation])).mean[0]
    assert estimated == pytest.approx(cost, abs=1e-9)
    best = iopea.best_in_class(problem.simulator(truth))
    assert best.relative_gaps(problem.simulator(truth), [result.recommendation])[0] < 0.01
    assert learner.survives(best.policy)
    assert not learner.survives((20.0, *best.policy[1:]))


def test_all_policies_inform_each_other():
    order = queue().order(ALL)
    assert order.width() == 1
    assert order.informs(0, 63)
    assert order.informs(63, 0)
    assert queue().claim == "distributional"


def test_a_learner_is_told_nothing_of_the_scale():
    one, other = queue(arrivals=[6.0, 3.0, 0.0]), queue(arrivals=[4.0, 2.0, 9.0])
    assert one.describe() == other.describe()
    learners, system = [iopea.IOPEA(each) for each in (one, other)], one.simulator(RATES)
    while learners[0].steps < 400:
        play = learners[0].ask()
        path = system.play(play.policy, play.steps).trajectory
        for learner in learners:
            learner.tell(path)
    assert_same_state(learners[0].state_dict(), learners[1].state_dict())


# What is written down, and what is refused.

TEXT = """
[problem]
kind = "queue"
buffer = 2
max_rate = 3
arrival_rate = 6.0
arrival_rate_bound = 10.0
deadline_rate = 3.0
deadline_rate_bound = 10.0
arrivals = "decaying"
miss_penalty = 100.0
power = "square"
uniformization = 23.0
"""


def test_a_problem_file_holds_the_rates_beside_the_rest():
    problem, truth = parse_problem(TEXT)
    assert (problem, truth) == (queue(), RATES)
    more = TEXT + 'clock = "continuous"\nestimator = "boundary"'
    problem, truth = parse_problem(more)
    assert (problem, truth) == (queue(estimator="boundary"), CONTINUOUS)
    assert ServiceRateQueue.example() == (queue(uniformization=None), RATES)


def test_a_list_of_arrivals_gives_the_arrival_rate():
    text = TEXT.replace('"decaying"', "[3.0, 6.0, 9.0]")
    problem, truth = parse_problem(text.replace("arrival_rate = 6.0", ""))
    assert (problem.system.arrivals, truth) == ((0.5, 1.0, 0.0), RATES)
    assert parse_problem(text) == (problem, truth)
    with pytest.raises(InputError, match=r"arrival_rate is 5.0, but .* is 6.0"):
        parse_problem(text.replace("rate = 6.0", "rate = 5.0"))


@pytest.mark.parametrize("arrivals", ["fixed", [3.0, 6.0, 1.0]])
def test_what_is_described_is_read_back(arrivals):
    problem = queue(arrivals=arrivals, power=[0, 1, 1, 5])
    table = {**problem.describe(), **CONTINUOUS.table()}
    assert table.pop("kind") == "queue"
    assert ServiceRateQueue.read({"problem": table}) == (problem, CONTINUOUS)


def test_constants():
    constants = queue().constants
    high = 9 / 23 + 100
    assert (constants.cost_low, constants.cost_high) == (0, pytest.approx(high))
    assert constants.span == pytest.approx(2 * high)
    assert large().constants.scaled_span == pytest.approx(50 * math.log(50))
    assert (constants.lipschitz, constants.sensitivity, constants.alpha) == (0, 0, 1)
    assert (constants.settling, constants.dimension, constants.bound) == (2, 3, 3)
    assert (constants.published_alpha, constants.published_factor * high) == (1, 1e4 * 2009)
    assert queue(power=[0, 50, 3, 2]).constants.cost_high == pytest.approx(50 / 23 + 100)
    assert queue().policy_class.names == ("rate with 0 jobs", "rate with 1 job", "rate with 2 jobs")


@pytest.mark.parametrize("arrivals", ["decaying", "fixed"])
def test_the_smallest_uniformisation_constant_is_the_published_one(arrivals):
    assert queue(arrivals=arrivals, uniformization=23.0).system.uniform_rate == 23
    assert queue(arrivals=arrivals, uniformization=None).system.uniform_rate == 33
    with pytest.raises(InputError, match=r"uniformization is 22\.9, but must be at least 23,"):
        queue(arrivals=arrivals, uniformization=22.9)
    for buffer in (1, 3, 7):
        problem = queue(buffer=buffer, arrivals=arrivals)
        least = problem.system.uniform_rate - (
            10.0 if buffer * 10 + 3 >= 10 + (buffer - 1) * 10 + 3 else 0
        )
        assert (
            queue(buffer=buffer, arrivals=arrivals, uniformization=least).system.uniform_rate
            == least
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"buffer": 0}, ["buffer", "0", "1"]),
        ({"buffer": 1.5}, ["buffer", "1.5", "whole"]),
        ({"max_rate": -1}, ["max_rate", "-1"]),
        ({"buffer": 1000, "max_rate": 1000}, ["1000", "1002001000", "33554432"]),
        ({"arrival_rate_bound": 0}, ["arrival_rate_bound", "0"]),
        ({"deadline_rate_bound": math.inf}, ["deadline_rate_bound", "inf"]),
        ({"miss_penalty": -1.0}, ["miss_penalty", "-1.0"]),
        ({"arrivals": "decayed"}, ["decayed", "did you mean 'decaying'"]),
        ({"arrivals": 6.0}, ["arrivals", "6.0", "decaying", "list"]),
        ({"arrivals": [6.0, 3.0]}, ["arrivals", "3 entries", "not 2"]),
        ({"arrivals": [0.0, 3.0, 0.0]}, ["arrivals", "above 0"]),
        ({"arrivals": [6.0, "x", 0.0]}, ["Entry 1 of arrivals", "'x'"]),
        ({"arrivals": [6.0, -3.0, 0.0]}, ["Entry 1 of arrivals", "-3.0"]),
        ({"power": "cube"}, ["cube", "square"]),
        ({"power": [0, 1, 4]}, ["power", "4 entries", "not 3"]),
        ({"power": [0, 1, 4, math.nan]}, ["Entry 3 of power", "nan"]),
        ({"power": [0, 0, 0, 0], "miss_penalty": 0}, ["0", "costs"]),
        ({"uniformization": 20}, ["uniformization", "20", "23"]),
        ({"uniformization": -1}, ["uniformization", "-1"]),
        ({"estimator": "bounday"}, ["estimator", "bounday", "boundary"]),
        ({"arrival_rate": 6.0}, ["arrival_rate", "did you mean"]),
    ],
)
def test_a_wrong_value_is_refused_in_a_sentence(change, words):
    with pytest.raises(InputError) as caught:
        queue(**change)
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("rate = 6.0", "rate = 12.0", ["arrival_rate is 12.0", "arrival_rate_bound", "10.0"]),
        ("rate = 3.0", "rate = 10.5", ["deadline_rate is 10.5", "deadline_rate_bound", "10.0"]),
        ("rate = 3.0", "rate = 0", ["deadline_rate", "0"]),
        ("arrival_rate = 6.0", "", ["arrival_rate", "missing"]),
        ("arrival_rate = 6.0", "arival_rate = 6.0", ["arival_rate", "did you mean 'arrival_rate'"]),
        ("uniformization", 'clock = "wall"\nuniformization', ["clock", "wall", "continuous"]),
        ("[problem]", "[demand]\nmean = 1\n[problem]", ["demand"]),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(old, new, words):
    with pytest.raises(InputError) as caught:
        parse_problem(TEXT.replace(old, new, 1))
    assert all(word in str(caught.value) for word in words)


def test_a_simulator_with_rates_above_their_bounds_is_refused():
    with pytest.raises(InputError, match=r"arrival_rate is 11.0, above .*, which is 10.0"):
        queue().simulator(QueueRates(arrival_rate=11, deadline_rate=3))
    with pytest.raises(InputError, match=r"deadline_rate is 11.0, above .*, which is 10.0"):
        queue().simulator(QueueRates(arrival_rate=1, deadline_rate=11))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": [3]}, ["state", "3.0", "step 0", "2"]),
        ({"state": [-1]}, ["state", "-1.0"]),
        ({"state": [0.5]}, ["state", "0.5", "whole"]),
        ({"time": [0.0]}, ["time", "0.0", "above 0"]),
        ({"time": [-0.1]}, ["time", "-0.1"]),
        ({"arrivals": [2]}, ["arrivals", "2", "0 or 1"]),
        ({"misses": [0.5]}, ["misses", "0.5"]),
        ({"arrivals": [1], "services": [1]}, ["1, 1 and 0", "step 0", "only one"]),
        ({"state": [0], "services": [1]}, ["left", "step 0", "0"]),
        ({"state": [0], "misses": [1]}, ["left", "step 0", "0"]),
        ({"state": [2], "arrivals": [1]}, ["entered", "2 jobs", "lost"]),
    ],
)
def test_impossible_trajectories_are_refused(change, words):
    row = {"state": [1], "time": [0.1], "arrivals": [0], "services": [0], "misses": [0]}
    queue().check(Trajectory(BEST, **row))
    with pytest.raises(ModelMismatchError) as caught:
        queue(arrivals="fixed").check(Trajectory(BEST, **{**row, **change}))
    assert all(word in str(caught.value) for word in words)
    with pytest.raises(InputError, match="state, time, arrivals, services, misses"):
        queue().check(Trajectory(BEST, state=[1], time=[0.1]))
