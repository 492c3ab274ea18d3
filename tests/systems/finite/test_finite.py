import itertools
import math

import numpy as np
import pytest

import iopea
from exact_mdp import gain_and_bias, policy_iteration, stationary
from iopea import IOPEA, InputError, ModelMismatchError, Trajectory
from iopea.problem_files import read_problem
from iopea.systems.finite import FiniteMDP
from iopea.systems.finite.dynamics import Dynamics
from iopea.systems.finite.estimators import GroupedBatches
from iopea.systems.finite.kernel import return_time, solve_policies
from iopea.testing.twins import assert_same_state

KINDS = {
    "own": {"policies": [[0, 0, 1], [0, 1, 1], [1, 1, 1]]},
    "model": {"estimator": "model"},
    "full": {"information_order": "full-feedback"},
}


def dynamics(states=3, actions=2, seed=0, **changes):
    rng = np.random.default_rng(seed)
    values = {
        "transitions": rng.dirichlet(np.ones(states), size=(states, actions)),
        "costs": rng.random((states, actions)),
        "bernoulli": True,
    }
    return Dynamics(**{**values, **changes})


def problem_of(kind="own", **changes):
    return FiniteMDP(**{"states": 3, "actions": 2, **KINDS[kind], **changes})


def constants_inform_all(states=3, actions=2):
    """Policies that always take one action inform all but each other: together they try all."""
    policies = list(itertools.product(range(actions), repeat=states))
    same = np.array([len(set(policy)) == 1 for policy in policies])
    order = np.eye(len(policies), dtype=int)
    order[np.ix_(same, ~same)] = 1
    return order


# Solving policies.


@pytest.mark.parametrize("seed", range(5))
def test_gains_are_those_of_brute_force(seed):
    truth = dynamics(4, 3, seed)
    policies = np.array(list(itertools.product(range(3), repeat=4)))
    solution = solve_policies(policies, truth.probabilities, truth.mean_costs)
    assert solution.known.all()
    rows = np.arange(4)
    for policy, gain, bias, law in zip(policies, *solution[1:], strict=True):
        chain, costs = truth.probabilities[rows, policy], truth.mean_costs[rows, policy]
        assert np.linalg.matrix_power(chain, 4096)[0] @ costs == pytest.approx(gain, abs=1e-12)
        np.testing.assert_allclose(law, stationary(chain), atol=1e-12)
        expected, values = gain_and_bias(chain, costs)
        assert gain == pytest.approx(expected, abs=1e-12)
        np.testing.assert_allclose(bias, values, atol=1e-11)
    best, gain = policy_iteration(truth.probabilities, truth.mean_costs)
    problem = FiniteMDP(states=4, actions=3)
    found, cost = problem.simulator(truth).optimum()
    assert cost == pytest.approx(gain, abs=1e-12)
    assert found == tuple(best)


def test_only_what_is_reached_from_the_first_state_counts():
    # State 2 is never reached and never left; state 1 is left for good.
    weights = np.array([[[0, 1, 0]], [[0, 5, 0]], [[0, 0, 0]]], dtype=float)
    costs = np.array([[7.0], [10.0], [0.0]])
    solution = solve_policies(np.array([[0, 0, 0]]), weights, costs)
    assert solution.known[0]
    assert solution.gain[0] == pytest.approx(2.0)
    assert solution.law[0].tolist() == [0, 1, 0]
    assert solution.bias[0, :2].tolist() == pytest.approx([0.0, -5.0])


def test_unseen_actions_and_several_classes_are_not_known():
    unseen = np.array([[[1, 1, 0]], [[0, 0, 1]], [[0, 0, 0]]], dtype=float)
    split = np.array([[[0, 1, 1]], [[0, 1, 0]], [[0, 0, 1]]], dtype=float)
    for weights in (unseen, split, np.zeros((3, 1, 3))):
        solution = solve_policies(np.zeros((1, 3), dtype=int), weights, np.ones((3, 1)))
        assert not solution.known[0]


def test_time_back_to_the_first_state():
    # From state 1 to 2, and from there back with a chance of 1/4: 1 + 4 steps.
    chain = np.array([[[0, 1, 0]], [[0, 0, 1]], [[0.25, 0, 0.75]]])
    assert return_time(np.zeros(3, dtype=int), chain) == 5
    trap = np.array([[[0.5, 0.5]], [[0, 1]]])
    assert return_time(np.zeros(2, dtype=int), trap) == math.inf
    apart = np.array([[[1.0, 0]], [[0, 1]]])
    assert return_time(np.zeros(2, dtype=int), apart) == 0
    truth = dynamics()
    system = problem_of().simulator(truth, seed=1)
    system.play((1.0, 1.0, 1.0), 20)
    steps = []
    for _ in range(4000):
        while system.state_dict()["system"]["at"] == 0:
            system.play((1.0, 1.0, 1.0), 1)
        steps.append(len(system.play((0.0, 0.0, 1.0), 1000, until_start=True).costs))
        assert system.state_dict()["system"]["at"] == 0
    # The bound is for the worst state, so the mean lies below it.
    assert np.mean(steps) <= system.restart_time() + 5 * np.std(steps) / math.sqrt(4000)


# Estimates.


def twin_sums(problem, policy, paths, size):
    """Linearised sums of one policy by the formula, step by step, from counts of these paths."""
    steps = [step for path in paths for step in path]
    count, moves, cost = {}, {}, {}
    for state, action, paid, following in steps:
        count[state, action] = count.get((state, action), 0) + 1
        moves[state, action, following] = moves.get((state, action, following), 0) + 1
        cost[state, action] = cost.get((state, action), 0.0) + paid
    states = range(problem.system.states)
    chain = [
        [moves.get((s, policy[s], n), 0) / count[s, policy[s]] for n in states] for s in states
    ]
    mean = [cost[s, policy[s]] / count[s, policy[s]] for s in states]
    gain, bias = gain_and_bias(np.array(chain), np.array(mean))
    law = stationary(np.array(chain))
    sums = []
    for first in range(0, len(steps), size):
        batch = steps[first : first + size]
        total = len(batch) * gain
        for state, action, paid, following in batch:
            if action == policy[state]:
                error = paid + bias[following] - bias[state] - gain
                total += len(steps) * law[state] / count[state, action] * error
        sums.append(total)
    return gain, sums


def test_linearised_sums_are_those_of_the_formula():
    problem = problem_of("model", information_order=constants_inform_all())
    system, evaluator = (
        problem.simulator(dynamics(), seed=3),
        problem.evaluator(problem.policy_class.net(1.0)),
    )
    paths = []
    for action in (0, 1):
        path = system.play((float(action),) * 3, 400).trajectory
        assert evaluator.observe(path, True) == 400
        columns = (path[name].tolist() for name in ("state", "cost", "next_state"))
        paths.append([(int(s), action, c, int(n)) for s, c, n in zip(*columns, strict=True)])
    estimates = evaluator.estimates()
    policies = problem.policy_class.net(1.0).astype(int)
    for column, policy in enumerate(policies[1:-1], start=1):
        gain, sums = twin_sums(problem, policy, paths, 4)
        assert estimates.mean[column] == pytest.approx(gain)
        np.testing.assert_allclose(estimates.sums[:, column], sums, rtol=0, atol=1e-9)
    # Constant policies are judged by their own data alone.
    assert estimates.steps.tolist() == [400] + [800] * 6 + [400]
    for column, path in ((0, paths[0]), (-1, paths[1])):
        assert estimates.mean[column] == pytest.approx(
            twin_sums(problem, policies[column], [path], 4)[0]
        )


@pytest.mark.parametrize("seed", [1, 2])
def test_the_spread_of_linearised_sums_is_the_error_of_the_estimate(seed):
    """400 runs: the ratio of the two variances is within 6 of its standard deviations of 1."""
    problem, truth = problem_of("full"), dynamics(seed=seed)
    policies = problem.policy_class.net(1.0)
    means, variances = [], []
    for run in range(400):
        evaluator = problem.evaluator(policies)
        evaluator.observe(
            problem.simulator(truth, run).play((0.0, 1.0, 0.0), 2000).trajectory, True
        )
        estimates = evaluator.estimates()
        assert estimates.sizes.sum() == 2000
        spread = (estimates.sums - estimates.sizes[:, None] * estimates.mean) / 2000
        np.testing.assert_allclose(spread.sum(axis=0), 0.0, atol=1e-12)
        means.append(estimates.mean)
        variances.append((spread**2).sum(axis=0))
    ratio = np.mean(variances, axis=0) / np.var(means, axis=0, ddof=1)
    assert (np.abs(ratio - 1) < 6 * math.sqrt(2 / 400)).all()
    error = np.abs(np.mean(means, axis=0) - problem.simulator(truth)._gains(policies))
    assert (error < 6 * np.std(means, axis=0) / 20 + 0.002).all()  # 0.002: the second order


@pytest.mark.parametrize("lengths", [(400, 400), (1000, 60), (300, 0)])
def test_steps_that_tell_are_those_of_the_rarest_action(lengths):
    """As many as a policy would have needed to take each of its actions as often as was seen."""
    problem = problem_of("model", information_order=constants_inform_all().tolist())
    policies = problem.policy_class.net(1.0).astype(int)
    system, evaluator = problem.simulator(dynamics(seed=4), seed=1), problem.evaluator(policies)
    moves = np.zeros((2, 3, 2, 3))
    for action, steps in enumerate(lengths):
        path = system.play((float(action),) * 3, steps).trajectory
        evaluator.observe(path, True)
        cells = tuple(path[name].astype(int) for name in ("state", "next_state"))
        np.add.at(moves[action, :, action], cells, 1)
    estimates, rows = evaluator.estimates(), np.arange(3)
    assert estimates.effective_steps.shape == (8,)
    fewer = 0
    for column, policy in enumerate(policies):
        own = policy[0] if len(set(policy)) == 1 else None
        seen = moves.sum(axis=0) if own is None else moves[own]
        visits = seen[rows, policy].sum(axis=1)
        if not visits.all():
            assert estimates.steps[column] == 0
            continue
        law = stationary(seen[rows, policy] / visits[:, None])
        steps = sum(lengths) if own is None else lengths[own]
        assert estimates.steps[column] == steps
        expected = min((visits / law).min(), steps)
        assert estimates.effective_steps[column] == pytest.approx(expected, rel=1e-9)
        fewer += expected < 0.75 * steps
    # Those that mix the actions were told of by a part of the steps.
    assert fewer == (6 if all(lengths) else 0)


def test_own_costs_tell_of_the_policy_played_alone():
    problem = problem_of("own")
    policies = problem.policy_class.net(1.0)
    evaluator, system = problem.evaluator(policies), problem.simulator(dynamics(), seed=1)
    rollout = system.play((0.0, 1.0, 1.0), 1001)
    assert evaluator.observe(rollout.trajectory, True) == 1001
    estimates = evaluator.estimates()
    assert estimates.steps.tolist() == [0, 1001, 0]
    assert estimates.mean[1] == pytest.approx(rollout.costs.mean())
    assert len(estimates.sums) <= 129
    assert evaluator.estimates().steps[[0, 2]].tolist() == [0, 0]
    assert evaluator.observe(system.play((0.0, 0.0, 1.0), 5).trajectory, True) == 5


def test_full_feedback_tells_what_each_action_would_have_done():
    problem = problem_of("full")
    path = problem.simulator(dynamics(), seed=2).play((0.0, 1.0, 0.0), 50).trajectory
    assert tuple(path.columns) == problem.columns
    state = path["state"].astype(int)
    taken = np.array([0, 1, 0])[state]
    happened = np.where(taken, path["next_state_1"], path["next_state_0"])
    np.testing.assert_array_equal(happened[:-1], state[1:])
    problem.check(path)


def test_grouped_batches_are_joined_group_by_group():
    costs = np.random.default_rng(1).random((3000, 1))
    whole, pieces = (GroupedBatches(np.array([0, 1, 1, 2]), 3) for _ in range(2))
    whole.add(1, costs)
    whole.add(2, costs[:10])
    for first in range(0, 3000, 7):
        pieces.add(1, costs[first : first + 7])
    pieces.add(2, costs[:10])
    assert_same_state(pieces.state_dict(), whole.state_dict())
    estimates = whole.estimates(steps=5)
    assert estimates.steps.tolist() == [0, 15_000, 15_000, 50]
    np.testing.assert_allclose(estimates.mean[1:3], costs.mean())
    assert len(estimates.sums) <= 128
    assert np.unique(estimates.sizes[:-1, 1]).size <= 2
    whole.keep(np.array([True, False, True, True]))
    assert whole.estimates().steps.tolist() == [0, 3000, 10]


# Learning.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", ["paired", "theorem", "published"])
def test_two_runs_equal_one_and_a_saved_one(kind, rule, tmp_path):
    problem, truth = problem_of(kind), dynamics(bernoulli=False)

    def fresh():
        return IOPEA(problem, horizon=20_000, rule=rule, restart="return")

    whole = fresh()
    once = iopea.run(whole, problem.simulator(truth, seed=1), 4000)
    halves, system = fresh(), problem.simulator(truth, seed=1)
    costs = [iopea.run(halves, system, steps).costs for steps in (1, 777)]
    iopea.save_state(halves.state_dict(), tmp_path / "learner.npz")
    iopea.save_state(system.state_dict(), tmp_path / "system.npz")
    halves, system = fresh(), problem.simulator(truth, seed=9)
    halves.load_state_dict(iopea.load_state(tmp_path / "learner.npz"))
    system.load_state_dict(iopea.load_state(tmp_path / "system.npz"))
    costs += [iopea.run(halves, system, steps).costs for steps in (1222, 2000)]
    np.testing.assert_array_equal(np.concatenate(costs), once.costs)
    assert_same_state(halves.state_dict(), whole.state_dict())


@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_is_learned_the_same(kind):
    problem, truth = problem_of(kind), dynamics(bernoulli=False)
    single, at_once = IOPEA(problem), IOPEA(problem)
    iopea.run(at_once, problem.simulator(truth, seed=3), 700)
    system = problem.simulator(truth, seed=3)
    for _ in range(700):
        single.tell(system.play(single.ask().policy, 1).trajectory)
    assert_same_state(single.state_dict(), at_once.state_dict())


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, 200_000),
        ({"information_order": "full-feedback"}, 20_000),
        ({"information_order": constants_inform_all()}, 100_000),
        ({"estimator": "model"}, 200_000),
    ],
)
def test_learners_find_the_best_policy(changes, steps):
    problem, truth = FiniteMDP(states=3, actions=2, **changes), dynamics(seed=4)
    best, cost = problem.simulator(truth).optimum()
    result = iopea.run(IOPEA(problem), problem.simulator(truth, seed=5), steps)
    assert result.recommendation == best
    assert result.survivors < 8
    # Regret is below that of playing a policy at random.
    others = problem.simulator(truth).costs(problem.policy_class.net(1.0), 1, 1, 0).mean
    assert result.average_cost - cost < others.mean() - cost


def test_full_feedback_finds_the_best_of_very_many():
    problem, truth = (
        FiniteMDP(states=10, actions=2, information_order="full-feedback"),
        dynamics(10),
    )
    best, _ = problem.simulator(truth).optimum()
    result = iopea.run(IOPEA(problem), problem.simulator(truth, seed=1), 30_000)
    assert result.survivors < 20
    assert IOPEA(problem).count == 1024
    gains = problem.simulator(truth).costs(np.array([result.recommendation]), 1, 1, 0).mean
    assert gains[0] - problem.simulator(truth).optimum()[1] < 0.01
    assert len(best) == 10


def test_the_best_policy_survives_at_the_promised_rate():
    """At δ = 0.2 it is lost in at most 20 % of runs; a false alarm: 1 in 10^6."""
    problem, truth = problem_of("full"), dynamics(seed=6)
    best, _ = problem.simulator(truth).optimum()

    def lost(seed):
        learner = IOPEA(problem, delta=0.2)
        iopea.run(learner, problem.simulator(truth, seed), 2000)
        return not learner.survives(best)

    # 41 of 100 or more have probability below 10^-6 if each has probability 0.2.
    assert sum(map(lost, range(100))) <= 40


def test_an_order_that_is_not_true_never_loses_what_nobody_has_seen():
    """Policy 0 is claimed to inform all, but takes action 1 nowhere: the others stay."""
    order = np.eye(8, dtype=int)
    order[0] = 1
    problem = FiniteMDP(states=3, actions=2, information_order=order)
    result = iopea.run(IOPEA(problem), problem.simulator(dynamics()), 5000)
    assert result.survivors == 8
    assert result.stop is iopea.Stop.NOTHING_ELIMINATED


def test_rollouts_follow_the_dynamics():
    truth, problem = dynamics(seed=8), problem_of("own", policies=None)
    rollout = problem.simulator(truth, seed=1).play((0.0, 1.0, 0.0), 100_000)
    path = rollout.trajectory
    problem.check(path)
    state, following = path["state"].astype(int), path["next_state"].astype(int)
    assert state[0] == 0
    np.testing.assert_array_equal(path["cost"], rollout.costs)
    for s, action in enumerate((0, 1, 0)):
        here = state == s
        error = 6 * math.sqrt(0.25 / here.sum())
        shares = np.bincount(following[here], minlength=3) / here.sum()
        np.testing.assert_allclose(shares, truth.probabilities[s, action], atol=error)
        assert rollout.costs[here].mean() == pytest.approx(truth.mean_costs[s, action], abs=error)
    gain = problem.simulator(truth).costs(np.array([[0, 1, 0]]), 100, 4, 0)
    assert gain.steps[0] == 100
    assert rollout.costs.mean() == pytest.approx(gain.mean[0], abs=0.02)


def test_costs_without_chance_are_the_means():
    truth = dynamics(bernoulli=False)
    path = problem_of().simulator(truth).play((0.0, 0.0, 1.0), 30).trajectory
    state = path["state"].astype(int)
    np.testing.assert_array_equal(path["cost"], truth.mean_costs[state, np.array([0, 0, 1])[state]])


def test_costs_in_other_units():
    truth = dynamics(costs=np.array([[5.0, -3.0], [0.0, 2.0], [1.0, 1.0]]))
    problem = problem_of("full", cost_bounds=[-3, 5])
    path = problem.simulator(truth).play((0.0, 0.0, 0.0), 500)
    assert set(np.unique(path.costs)) == {-3.0, 5.0}
    assert problem.constants.cost_range == 8
    assert problem.constants.span == 24
    assert problem_of(span=7.5).constants.span == 7.5
    result = iopea.run(IOPEA(problem), problem.simulator(truth, seed=1), 20_000)
    assert result.recommendation == problem.simulator(truth).optimum()[0]


# Files and refusals.


def test_files_with_and_without_arrays(tmp_path):
    truth = dynamics()
    np.savez(tmp_path / "x.npz", transitions=truth.probabilities, costs=truth.mean_costs)
    head = "[problem]\nkind = 'finite-mdp'\nstates = 3\nactions = 2\n"
    (tmp_path / "a.toml").write_text(f"{head}[dynamics]\nfile = 'x.npz'\nbernoulli = true\n")
    problem, read = read_problem(tmp_path / "a.toml")
    assert read == truth
    assert problem == FiniteMDP(states=3, actions=2)
    table = truth.table()
    text = "".join(f"{name} = {str(value).lower()}\n" for name, value in table.items())
    order = "information_order = [[1, 1], [0, 1]]\npolicies = [[0, 0, 0], [1, 1, 1]]\n"
    (tmp_path / "b.toml").write_text(f"{head}{order}[dynamics]\n{text}")
    problem, read = read_problem(tmp_path / "b.toml")
    assert read == truth
    assert problem.order(np.array([[1.0] * 3, [0.0] * 3])).maximal().tolist() == [1]
    described = problem.describe()
    assert described.pop("kind") == "finite-mdp"
    assert FiniteMDP.read({"problem": described, "dynamics": table}) == (problem, truth)
    for name in ("y.npz", "a.toml"):
        with pytest.raises(InputError, match=name):
            Dynamics(file=tmp_path / name)
    np.savez(tmp_path / "z.npz", transitions=truth.probabilities)
    with pytest.raises(InputError, match="transitions and costs"):
        Dynamics(file=tmp_path / "z.npz")
    with pytest.raises(InputError, match="not by both"):
        Dynamics(file=tmp_path / "x.npz", costs=[[1.0]])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"states": 0}, ["states", "0"]),
        ({"actions": 1.5}, ["actions", "1.5"]),
        ({"states": 17}, ["2^17", "65536"]),
        ({"states": 10**9}, ["2^1000000000"]),
        ({"policies": [[0, 1]]}, ["Policy 0", "2 actions", "3 states"]),
        ({"policies": [[0, 1, 2]]}, ["[0, 1, 2]", "0 to 1"]),
        ({"policies": [[0, 1, 0.5]]}, ["0.5"]),
        ({"policies": [[0, 1, 0], [0, 1, 0]]}, ["twice"]),
        ({"policies": []}, ["not 0"]),
        ({"policies": np.zeros((70_000, 3), dtype=int)}, ["70000"]),
        ({"information_order": "trivail"}, ["'trivail'", "did you mean 'trivial'"]),
        ({"information_order": [[1, 0], [0, 1]]}, ["2 policies", "8"]),
        (
            {
                "information_order": [[1, 1, 0], [0, 1, 1], [0, 0, 1]],
                "policies": [[0] * 3, [1] * 3, [0, 1, 0]],
            },
            ["0 informs 1 and 1 informs 2, but 0 does not inform 2"],
        ),
        ({"information_order": [[1, 2], [0, 1]]}, ["2"]),
        ({"information_order": "full-feedback", "estimator": "own"}, ["'own'", "'model'"]),
        ({"estimator": "mine"}, ["'mine'"]),
        ({"estimator": "model", "states": 12}, ["2048", "4096"]),
        ({"cost_bounds": [1, 1]}, ["low < high", "[1.0, 1.0]"]),
        ({"cost_bounds": [0, math.inf]}, ["inf"]),
        ({"span": 0}, ["span", "0"]),
        ({"sates": 3}, ["sates", "did you mean 'states'"]),
    ],
)
def test_a_wrong_problem_is_refused_in_a_sentence(changes, words):
    with pytest.raises(InputError) as caught:
        FiniteMDP(**{"states": 3, "actions": 2, **changes})
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"transitions": [[[0.5, 0.4]], [[1, 0]]]}, ["action 0 in state 0", "0.9"]),
        ({"transitions": [[[1, 0]], [[1.5, -0.5]]]}, ["state 1 after action 0 in state 1", "-0.5"]),
        ({"transitions": [[[1]], [[1]]]}, ["(2, 1, 1)", "(2, 1)"]),
        ({"transitions": [[[1, 0]], [[1]]]}, ["transitions", "as many in every row"]),
        ({"costs": [1, 2]}, ["costs"]),
        ({"costs": [[1], [math.nan]]}, ["costs", "nan"]),
        ({"costs": [["x"], [1]]}, ["costs"]),
        ({"bernoulli": 3}, ["bernoulli", "3"]),
    ],
)
def test_wrong_dynamics_are_refused_in_a_sentence(changes, words):
    values = {"transitions": [[[0.5, 0.5]], [[1, 0]]], "costs": [[1], [0]]}
    with pytest.raises(InputError) as caught:
        Dynamics(**{**values, **changes})
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text


def test_dynamics_must_fit_the_problem():
    with pytest.raises(InputError, match="4 states and 2 actions, but the problem has 3 and 2"):
        problem_of().simulator(dynamics(4))
    with pytest.raises(InputError, match=r"cost of 1\.5, outside the bounds 0\.0 to 1\.0"):
        problem_of().simulator(dynamics(costs=[[0, 1], [1.5, 0], [0, 0]]))
    split = [[[0, 0.5, 0.5]] * 2, [[0, 1, 0]] * 2, [[0, 0, 1]] * 2]
    with pytest.raises(InputError, match="Policy 0, 0, 1 has several recurrent classes"):
        problem_of().simulator(dynamics(transitions=split)).optimum()


def test_impossible_trajectories_are_refused():
    problem = problem_of()
    fine = {"state": [0, 2], "cost": [0.5, 1.0], "next_state": [2, 1]}
    problem.check(Trajectory([0, 0, 1], **fine))
    problem.check(Trajectory([0, 0, 1], **{name: [] for name in fine}))
    for changes, words in [
        ({"state": [0, 3]}, "state is 3.0 at step 1: states are 0 to 2"),
        ({"next_state": [0.5, 1]}, "next_state is 0.5 at step 0"),
        ({"cost": [0.5, -0.1]}, "cost is -0.1 at step 1: costs lie between 0.0 and 1.0"),
        ({"state": [0, 1]}, "state is 1 at step 1, but step 0 has led to state 2"),
    ]:
        with pytest.raises(ModelMismatchError, match=words):
            problem.check(Trajectory([0, 0, 1], **{**fine, **changes}))
    with pytest.raises(InputError, match="state, cost, next_state, not"):
        problem.check(Trajectory([0, 0, 1], **fine, action=[0, 1]))
    for policy in ([0, 0, 0], [0, 0], [0, 0, 7]):
        with pytest.raises(InputError, match="is not one of this problem"):
            problem.check(Trajectory(policy, **fine))


def test_orders_and_claims():
    assert problem_of().claim == "sample-path"
    assert problem_of("full").claim == "distributional"
    policies = problem_of("full").policy_class.net(1.0)
    assert problem_of("full").order(policies).width() == 1
    assert problem_of("model").order(policies).width() == 8
    problem = FiniteMDP(states=3, actions=2, information_order=constants_inform_all())
    assert problem.order(policies).maximal().tolist() == [0, 7]
    assert problem.policy_class.names[1] == "action in state 1"
    assert problem.restart_policy == (0.0, 0.0, 0.0)
    assert FiniteMDP(states=2, actions=1).policy_class.count(1.0) == 1


def test_an_order_that_the_data_contradicts_is_named():
    """All are claimed to inform all, but policy 0 never takes the actions of the others."""
    claimed = problem_of(
        "own", information_order=[[1, 1, 1]] * 3, policies=[[0] * 3, [1] * 3, [0, 1, 0]]
    )
    learner = IOPEA(claimed)
    result = iopea.run(learner, claimed.simulator(dynamics(), seed=1), 2000)
    assert result.survivors == 3  # nothing is eliminated by it
    (warning,) = learner.warnings
    assert "is claimed to inform policy" in warning
    assert "never takes its action" in warning
    assert "`iopea check-order` tests an order" in learner.outlook
    assert not iopea.check_order(claimed, dynamics()).holds
    true = problem_of("own", information_order=[[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    learner = IOPEA(true)
    iopea.run(learner, true.simulator(dynamics(), seed=1), 2000)
    assert learner.warnings == ()
