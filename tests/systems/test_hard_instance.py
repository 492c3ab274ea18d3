import math

import numpy as np
import pytest

import iopea
from iopea import IOPEA, InputError, ModelMismatchError, Trajectory
from iopea.problem_files import parse_problem
from iopea.systems.hard_instance import HardInstance, HiddenArm
from iopea.testing.twins import assert_same_state
from iopea.theory import regret_bound

FULL = {"policies": 5, "width": 1, "span": 3, "reveal": 2}
BLOCKS = {"policies": 6, "width": 3, "span": 4, "reveal": 3}
PLAIN = {"policies": 4, "width": 4}
INSTANCES = [FULL, BLOCKS, PLAIN]


def arms_of(instance):
    return instance.policy_class.net(1.0)


# The system.


@pytest.mark.parametrize("values", INSTANCES)
def test_the_average_cost_of_an_arm_is_its_mean(values):
    instance, hidden = HardInstance(**values), HiddenArm(arm=2, advantage=0.2)
    exact = instance.simulator(hidden).costs(arms_of(instance), 100, 4, 0).mean
    best = instance.order(arms_of(instance)).restrict([2, 3]).informs(0, 1)
    same_block = instance.system.width > 1 and best
    for arm, mean in enumerate(exact):
        is_best = arm == 2 or (same_block and arm == 3)
        assert mean == pytest.approx(0.3 if is_best else 0.5)
        episodes = 20_000 // instance.system.episode
        costs = instance.simulator(hidden, seed=arm).play((float(arm),), 20_000).costs
        # Independent draws: one in each block of an episode.
        error = 0.5 / math.sqrt(episodes * instance.system.reveal)
        assert costs.mean() == pytest.approx(mean, abs=6 * error)
    assert instance.simulator(hidden).optimum() == ((2.0,), pytest.approx(0.3))


def test_a_draw_lasts_and_only_the_first_one_of_an_episode_is_seen():
    instance = HardInstance(**BLOCKS)
    rollout = instance.simulator(HiddenArm(arm=0, advantage=0.1), seed=1).play((3.0,), 12 * 500)
    path, costs = rollout.trajectory, rollout.costs.reshape(500, 3, 4)
    instance.check(path)
    np.testing.assert_array_equal(path["phase"], np.tile(np.arange(12), 500))
    assert (costs == costs[:, :, :1]).all()
    seen = path["cost"].reshape(500, 3, 4)
    np.testing.assert_array_equal(seen[:, 0], costs[:, 0])
    assert not seen[:, 1:].any()
    # Draws of an episode are independent: each pair agrees half of the time.
    agree = (costs[:, 0, 0] == costs[:, 1, 0]).mean()
    assert agree == pytest.approx(0.5, abs=6 * 0.5 / math.sqrt(500))


def test_under_full_feedback_all_arms_are_seen_by_draws_of_their_own():
    instance = HardInstance(**FULL)
    rollout = instance.simulator(HiddenArm(arm=1, advantage=0.2), seed=2).play((4.0,), 6 * 4000)
    path = rollout.trajectory
    instance.check(path)
    assert tuple(path.columns) == ("phase", *(f"cost_{arm}" for arm in range(5)))
    first = path["phase"] < 3
    np.testing.assert_array_equal(path["cost_4"][first], rollout.costs[first])
    draws = np.array([path[f"cost_{arm}"][path["phase"] == 0] for arm in range(5)])
    np.testing.assert_allclose(draws.mean(axis=1), [0.5, 0.3, 0.5, 0.5, 0.5], atol=6 * 0.5 / 63)
    correlation = np.corrcoef(draws) - np.eye(5)
    assert np.abs(correlation).max() < 6 / 63


def test_an_arm_goes_on_until_its_episode_ends():
    instance, hidden = HardInstance(policies=2, width=2, span=5, reveal=2), HiddenArm(advantage=0.5)
    switched, stayed = (instance.simulator(hidden, seed=4) for _ in range(2))
    switched.play((1.0,), 7)
    stayed.play((1.0,), 7)
    # Arm 0 costs nothing; what is left of the episode is that of arm 1 all the same.
    costs = switched.play((0.0,), 103).costs
    np.testing.assert_array_equal(costs[:3], stayed.play((1.0,), 3).costs)
    assert not costs[3:].any()
    back = instance.simulator(hidden)
    back.play((1.0,), 13)
    assert len(back.play((0.0,), 100, until_start=True).costs) == 7
    assert len(back.play((0.0,), 100, until_start=True).costs) == 0
    assert back.restart_time() == 9


@pytest.mark.parametrize("values", INSTANCES)
def test_rollouts_do_not_depend_on_how_steps_are_split(values):
    instance, hidden = HardInstance(**values), HiddenArm(arm=1, advantage=0.2)
    whole = instance.simulator(hidden, seed=3).play((1.0,), 1000)
    system, costs = instance.simulator(hidden, seed=3), []
    for steps in (1, 6, 0, 293, 700):
        other = instance.simulator(hidden, seed=8)
        other.load_state_dict(system.state_dict())
        system = other
        costs.append(system.play((1.0,), steps).costs)
    np.testing.assert_array_equal(np.concatenate(costs), whole.costs)


# What is known of it.


def test_orders():
    full, blocks = HardInstance(**FULL), HardInstance(**BLOCKS)
    assert full.order(arms_of(full)).width() == 1
    order = blocks.order(arms_of(blocks))
    assert order.width() == 3
    assert order.maximal().tolist() == [0, 2, 4]
    for i in range(6):
        assert [order.informs(i, j) for j in range(6)] == [i // 2 == j // 2 for j in range(6)]
    assert HardInstance(policies=4, width=4).claim == "sample-path"
    assert blocks.claim == "distributional"
    many = HardInstance(policies=6000, width=3)
    assert many.order(arms_of(many)).width() == 3


def test_constants_are_those_of_the_theorem():
    constants = HardInstance(**BLOCKS).constants
    assert (constants.span, constants.alpha, constants.cost_range) == (12, 1 / 3, 1)
    assert (constants.lipschitz, constants.dimension, constants.data_needed(0.1)) == (0, 1, 1)


def test_an_episode_tells_of_its_own_block(monkeypatch):
    monkeypatch.setattr("iopea.systems.hard_instance.LEAST_DRAWS", 1)
    instance = HardInstance(policies=4, width=2, span=2, reveal=2)
    evaluator = instance.evaluator(arms_of(instance))
    phase = np.arange(10) % 4
    path = Trajectory(0, phase=phase, cost=[1, 1, 0, 0, 0, 0, 0, 0, 1, 1])
    assert evaluator.observe(path, True) == 10
    assert evaluator.estimates().steps.tolist() == [6, 6, 0, 0]
    assert evaluator.estimates().mean[:2] == pytest.approx([2 / 3, 2 / 3])
    assert not evaluator.at_start
    # Arm 2 has to wait for two steps; its own episode is not over after one.
    path = Trajectory(2, phase=[2, 3, 0], cost=[0, 0, 1])
    assert evaluator.observe(path, True) == 1
    assert evaluator.estimates().steps.tolist() == [6, 6, 0, 0]
    # What is left of it belongs to arm 2, whoever is played.
    path = Trajectory(1, phase=[1, 2, 3], cost=[1, 0, 0])
    assert evaluator.observe(path, True) == 0
    assert evaluator.estimates().steps.tolist() == [6, 6, 2, 2]
    assert evaluator.at_start
    evaluator.keep(np.array([True, False, False, True]))
    assert evaluator.estimates().mean == pytest.approx([2 / 3, 1.0])
    evaluator.forget()
    assert evaluator.estimates().steps.tolist() == [0, 0]


@pytest.mark.parametrize("values", INSTANCES)
def test_a_few_draws_say_nothing(values):
    instance, hidden = HardInstance(**values), HiddenArm(advantage=0.1)
    for episodes, known in ((7, False), (8, True)):
        evaluator = instance.evaluator(arms_of(instance))
        steps = episodes * instance.system.episode
        evaluator.observe(instance.simulator(hidden).play((0.0,), steps).trajectory, True)
        assert np.isfinite(evaluator.estimates().mean[0]) == known


@pytest.mark.parametrize("width", [1, 3])
def test_the_best_arm_survives_even_if_draws_are_few(width):
    """64 steps are two draws here; at δ = 0.2 it is lost in at most 20 % of runs."""
    instance, hidden = HardInstance(policies=6, width=width, span=32), HiddenArm(advantage=0.05)

    def lost(seed):
        learner = IOPEA(instance, delta=0.2)
        iopea.run(learner, instance.simulator(hidden, seed), 6000)
        return not learner.survives(0.0)

    # 41 of 100 or more have probability below 10^-6 if each has probability 0.2.
    assert sum(map(lost, range(100))) <= 40


@pytest.mark.parametrize("values", INSTANCES)
def test_the_measured_share_of_useful_steps_is_alpha(values):
    instance = HardInstance(**values)
    evaluator = instance.evaluator(arms_of(instance))
    path = instance.simulator(HiddenArm(advantage=0.1)).play((0.0,), 12_000).trajectory
    evaluator.observe(path, True)
    assert evaluator.estimates().steps[0] / 12_000 == pytest.approx(instance.constants.alpha)
    learner = IOPEA(HardInstance(policies=8, span=3, reveal=4))
    system = learner.problem.simulator(HiddenArm(advantage=0.01))
    assert iopea.run(learner, system, 12_000).effective_alpha == pytest.approx(0.25, abs=0.001)


# Learning.


@pytest.mark.parametrize("values", INSTANCES)
@pytest.mark.parametrize("rule", ["paired", "theorem"])
@pytest.mark.parametrize("restart", ["none", "return"])
def test_two_runs_equal_one_and_a_saved_one(values, rule, restart, tmp_path):
    instance, hidden = HardInstance(**values), HiddenArm(arm=1, advantage=0.4)

    def fresh():
        return IOPEA(instance, horizon=20_000, rule=rule, restart=restart)

    whole = fresh()
    once = iopea.run(whole, instance.simulator(hidden, seed=1), 4000)
    halves, system = fresh(), instance.simulator(hidden, seed=1)
    costs = [iopea.run(halves, system, steps).costs for steps in (1, 777)]
    iopea.save_state(halves.state_dict(), tmp_path / "learner.npz")
    iopea.save_state(system.state_dict(), tmp_path / "system.npz")
    halves, system = fresh(), instance.simulator(hidden, seed=9)
    halves.load_state_dict(iopea.load_state(tmp_path / "learner.npz"))
    system.load_state_dict(iopea.load_state(tmp_path / "system.npz"))
    costs += [iopea.run(halves, system, steps).costs for steps in (1222, 2000)]
    np.testing.assert_array_equal(np.concatenate(costs), once.costs)
    assert_same_state(halves.state_dict(), whole.state_dict())


@pytest.mark.parametrize("values", INSTANCES)
def test_step_by_step_is_learned_the_same(values):
    instance, hidden = HardInstance(**values), HiddenArm(arm=1, advantage=0.4)
    single, at_once = IOPEA(instance), IOPEA(instance)
    iopea.run(at_once, instance.simulator(hidden, seed=3), 900)
    system = instance.simulator(hidden, seed=3)
    for _ in range(900):
        single.tell(system.play(single.ask().policy, 1).trajectory)
    assert_same_state(single.state_dict(), at_once.state_dict())


@pytest.mark.parametrize("values", INSTANCES)
def test_the_best_arm_is_found(values):
    instance = HardInstance(**values)
    hidden = HiddenArm(arm=instance.system.policies - 2, advantage=0.3)
    learner = IOPEA(instance)
    result = iopea.run(learner, instance.simulator(hidden, seed=2), 20_000)
    best = instance.simulator(hidden).costs(np.array([result.recommendation]), 1, 1, 0).mean[0]
    assert best == pytest.approx(0.2)
    # Arms of one block can't be told apart.
    assert result.survivors == (
        1 if instance.system.full_feedback else instance.system.policies // instance.system.width
    )


def test_learners_never_see_the_draws_that_are_not_shown():
    instance, hidden = HardInstance(**BLOCKS), HiddenArm(arm=1, advantage=0.1)
    learner = IOPEA(instance)
    result = iopea.run(learner, instance.simulator(hidden, seed=1), 6000)
    system = instance.simulator(hidden, seed=1)
    other = IOPEA(instance)
    costs = []
    while other.steps < 6000:
        play = other.ask()
        rollout = system.play(play.policy, min(play.steps, 6000 - other.steps))
        phase = rollout.trajectory["phase"]
        costs.append(np.where(phase < instance.system.span, rollout.costs, 1 - rollout.costs))
        other.tell(rollout.trajectory)
    assert_same_state(other.state_dict(), learner.state_dict())
    assert np.concatenate(costs).sum() != result.costs.sum()


# Lower bounds.


def test_the_hardest_advantage_and_the_lower_bounds_have_the_forms_of_the_proofs():
    full = HardInstance(policies=100, span=5, reveal=4)
    delta = math.sqrt(math.log(100) / (16 * 1000))
    assert full.system.hardest(20_019).advantage == pytest.approx(delta)
    wrong = 1 - (math.log(100) / 4 + math.log(2)) / math.log(100)
    assert full.system.lower_bound(20_019) == pytest.approx(20 * delta * 1000 / 2 * wrong)
    assert wrong > 0.5  # as the proof says, for sufficiently many policies
    blocks = HardInstance(policies=12, width=6, span=5, reveal=4)
    for episodes in (6, 100, 10_000):
        advantage = blocks.system.hardest(20 * episodes).advantage
        assert advantage == pytest.approx(math.sqrt(6 / episodes) / 4)
        bound = blocks.system.lower_bound(20 * episodes)
        assert 20 * math.sqrt(6 * episodes) / 20 <= bound <= 20 * advantage * episodes
    # It grows as sqrt(H T/α): four times the horizon, twice the bound.
    for instance in (full, blocks):
        ratio = instance.system.lower_bound(800_000) / instance.system.lower_bound(200_000)
        assert ratio == pytest.approx(2, rel=1e-3)
    assert HardInstance(policies=2).system.lower_bound(1000) == 0
    assert blocks.system.hardest(20).advantage == 0.25
    assert blocks.system.hardest(20, arm=7).arm == 7


def test_the_divergence_that_the_bound_rests_on():
    delta = np.linspace(1e-3, 0.49, 200)
    down = (0.5 - delta) * np.log(1 - 2 * delta) + (0.5 + delta) * np.log(1 + 2 * delta)
    back = -0.5 * np.log(1 - 4 * delta**2)
    assert (down <= 4 * delta**2).all()
    assert (down + back > 4 * delta**2).all()  # which is why the paper's sum is not used


def test_the_best_learner_there_is_stays_above_the_full_feedback_bound():
    """Under full feedback no learner beats the leader so far, on average over hidden arms."""
    instance, episodes, runs = HardInstance(policies=16), 1000, 400
    delta, rng = instance.system.hardest(episodes).advantage, np.random.default_rng(5)
    wrong = np.empty(runs)
    for run in range(runs):
        costs = rng.random((episodes, 16)) < 0.5 - delta * (np.arange(16) == run % 16)
        before = np.vstack([np.zeros(16), np.cumsum(costs, axis=0)[:-1]])
        leader = (before + 1e-6 * rng.random((episodes, 16))).argmin(axis=1)
        wrong[run] = np.count_nonzero(leader != run % 16)
    regret = delta * wrong
    error = regret.std() / math.sqrt(runs)
    assert instance.system.lower_bound(episodes) <= regret.mean() + 5 * error
    assert regret.mean() < 4 * instance.system.lower_bound(episodes)


@pytest.mark.parametrize("rule", ["paired", "theorem"])
@pytest.mark.parametrize(
    "values",
    [
        {"policies": 16, "width": 1, "span": 1},
        {"policies": 32, "width": 1, "span": 4, "reveal": 2},
        {"policies": 16, "width": 4, "span": 1},
        {"policies": 16, "width": 4, "span": 5, "reveal": 3},
        {"policies": 8, "width": 8, "span": 2},
    ],
)
def test_the_excess_lies_between_the_bounds(values, rule):
    """The mean over hidden arms is above the lower bound, each run below the upper one.

    A false alarm below: a mean of 64 runs five standard errors off, 1 in 10^6. Above: the bound
    fails in at most 3δ = 15 % of runs; 30 of 64 have probability below 10^-8.
    """
    instance, horizon, runs = HardInstance(**values), 10_000, 64
    constants = instance.constants
    upper = regret_bound(
        horizon,
        span=constants.span,
        bound=constants.bound,
        dimension=1,
        lipschitz=0.0,
        restart_time=instance.system.episode - 1,
        width=instance.system.width,
        alpha=constants.alpha,
        policies=instance.system.policies,
    ).total
    excesses = []
    for run in range(runs):
        hidden = instance.system.hardest(horizon, arm=run % instance.system.policies)
        learner = IOPEA(instance, rule=rule, horizon=horizon, restart="return")
        result = iopea.run(learner, instance.simulator(hidden, seed=run), horizon)
        excesses.append(iopea.excess_cost(result.costs, 0.5 - hidden.advantage))
    error = np.std(excesses, ddof=1) / math.sqrt(runs)
    lower = instance.system.lower_bound(horizon)
    assert lower > 0
    assert np.mean(excesses) + 5 * error > lower
    assert np.count_nonzero(np.array(excesses) > upper) < 30


@pytest.mark.parametrize("values", INSTANCES)
def test_a_clear_advantage_is_found_and_kept(values):
    """Regret stays far below that of never learning, and hardly grows in the second half.

    The bound above exceeds T at horizons that a test can run; this is one that can fail. A mean of
    24 runs has a standard error of at most 1 % of T Δ.
    """
    instance, horizon, advantage = HardInstance(**values), 40_000, 0.25
    halves = []
    for run in range(24):
        hidden = HiddenArm(arm=run % instance.system.policies, advantage=advantage)
        learner = IOPEA(instance)
        result = iopea.run(learner, instance.simulator(hidden, seed=run), horizon)
        excess = result.costs - (0.5 - advantage)
        halves.append([excess[: horizon // 2].sum(), excess[horizon // 2 :].sum()])
    first, second = np.mean(halves, axis=0) / (advantage * horizon / 2)
    assert first < 0.25
    assert second < 0.06


# Files and refusals.


def test_a_file_is_read_and_described():
    text = """
    [problem]
    kind = "hard-instance"
    policies = 6
    width = 3
    span = 3
    reveal = 2
    [hidden]
    arm = 4
    """
    instance, hidden = parse_problem(f"{text}advantage = 0.3")
    assert (instance, hidden) == HardInstance.example()
    described = instance.describe()
    assert described.pop("kind") == "hard-instance"
    assert HardInstance.read({"problem": described, "hidden": hidden.table()}) == (instance, hidden)
    assert parse_problem(f"{text}horizon = 6000")[1] == instance.system.hardest(6000, arm=4)
    with pytest.raises(InputError, match="horizon"):
        parse_problem(f"{text}advantage = 0.3\nhorizon = 6000")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: HardInstance(policies=1), ["policies", "1"]),
        (lambda: HardInstance(policies=6, width=4), ["4 does not divide 6"]),
        (lambda: HardInstance(policies=6, width=0), ["width", "0"]),
        (lambda: HardInstance(policies=6, span=2.5), ["span", "2.5"]),
        (lambda: HardInstance(policies=6, reveal=-1), ["reveal", "-1"]),
        (lambda: HiddenArm(advantage=0.7), ["advantage", "0.7", "0.5"]),
        (lambda: HiddenArm(advantage=0.0), ["advantage", "0.0"]),
        (lambda: HiddenArm(arm=-1, advantage=0.1), ["arm", "-1"]),
        (
            lambda: HardInstance(policies=3).simulator(HiddenArm(arm=3, advantage=0.1)),
            ["arm is 3", "0 to 2"],
        ),
        (lambda: HardInstance(policies=3, span=50).system.hardest(49), ["horizon", "50", "49"]),
        (lambda: HardInstance(policies=3).system.lower_bound(0), ["horizon", "0"]),
    ],
)
def test_a_wrong_value_is_refused_in_a_sentence(make, words):
    with pytest.raises(InputError) as caught:
        make()
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text


def test_impossible_trajectories_are_refused():
    instance = HardInstance(**BLOCKS)
    instance.check(Trajectory(0, phase=[], cost=[]))
    instance.check(Trajectory(0, phase=[11, 0, 1], cost=[0, 1, 1]))
    for phase, cost, words in [
        ([12], [0], "phase is 12 at step 0"),
        ([0.5], [0], "phase is 0.5 at step 0"),
        ([-1], [0], "phase is -1 at step 0"),
        ([3, 5], [0, 0], "phase is 5 at step 1, not 4"),
        ([11, 12], [0, 0], "phase is 12 at step 1, not 0"),
        ([0, 1], [0, 0.5], "cost is 0.5 at step 1"),
        ([3, 4], [1, 1], "cost is 1.0 at step 1: .* from phase 4 on"),
    ]:
        with pytest.raises(ModelMismatchError, match=words):
            instance.check(Trajectory(0, phase=phase, cost=cost))
    with pytest.raises(InputError, match="columns phase, cost, not phase"):
        instance.check(Trajectory(0, phase=[0]))


@pytest.mark.parametrize("width", [1, 3])
def test_a_draw_that_began_before_counting_is_left_out(width):
    instance = HardInstance(policies=6, width=width, span=3, reveal=1)
    system = instance.simulator(HiddenArm(arm=4, advantage=0.3), seed=10)
    evaluator = instance.evaluator(np.arange(6.0)[:, None])
    evaluator.observe(system.play((0.0,), 7).trajectory, evaluate=True)
    evaluator.forget()
    evaluator.observe(system.play((0.0,), 35).trajectory, evaluate=True)
    # 2 steps of the old draw, then 11 draws of 3 steps.
    assert evaluator.estimates().steps[0] == 33
