import math
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_with_gymnasium
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env as check_with_sb3

from environments import public_values
from iopea.envs import SERVICE_RATE_QUEUE, ServiceRateQueueEnv, register
from iopea.errors import InputError
from iopea.seeds import seed_for
from iopea.systems.queue import QueueRates, ServiceRateQueue

#: How often a statistical test may fail by chance, were its seed not fixed.
ERROR_RATE = 1e-6
PENALTY = 4.0
RATES = QueueRates(arrival_rate=3, deadline_rate=0.5)


def queue(buffer: int = 4, max_rate: int = 3, **others: object) -> ServiceRateQueue:
    fields = {"arrival_rate_bound": 4, "deadline_rate_bound": 1, "miss_penalty": PENALTY}
    return ServiceRateQueue(buffer=buffer, max_rate=max_rate, **(fields | others))


def play(
    env: ServiceRateQueueEnv, policy: tuple[int, ...], steps: int, seed: int | None = 0
) -> tuple[np.ndarray, np.ndarray, list[dict[str, object]]]:
    """States, rewards and infos of a policy; the states with the one after the last step."""
    state, info = env.reset(seed=seed)
    assert info == {}
    return go_on(env, policy, steps, state)


def go_on(
    env: ServiceRateQueueEnv, policy: tuple[int, ...], steps: int, state: np.int64
) -> tuple[np.ndarray, np.ndarray, list[dict[str, object]]]:
    states, rewards, infos = [state], [], []
    for _ in range(steps):
        state, reward, terminated, truncated, info = env.step(env.policy_action(policy, state))
        assert (terminated, truncated) == (False, False)
        states.append(state)
        rewards.append(reward)
        infos.append(info)
    return np.array(states), np.array(rewards), infos


# Checkers and registration


@pytest.mark.parametrize("buffer", [1, 2, 30])
@pytest.mark.parametrize("render_mode", [None, "ansi"])
def test_both_checkers_are_content(buffer: int, render_mode: str | None) -> None:
    # Warnings are errors here. Made by its id, the environment has a spec to check rendering.
    options = {"problem": queue(buffer), "rates": RATES, "render_mode": render_mode}
    made = gymnasium.make(SERVICE_RATE_QUEUE, **options)
    check_with_gymnasium(made.unwrapped)
    check_with_sb3(made.unwrapped, skip_render_check=False)
    check_with_sb3(made)


def test_checkers_are_content_with_a_class_made_directly() -> None:
    check_with_gymnasium(ServiceRateQueueEnv(), skip_render_check=True)
    check_with_sb3(ServiceRateQueueEnv())


def test_registering_twice_changes_nothing_and_has_no_time_limit() -> None:
    spec = gymnasium.spec(SERVICE_RATE_QUEUE)
    register()
    assert gymnasium.spec(SERVICE_RATE_QUEUE) is spec
    assert spec.max_episode_steps is None


@pytest.mark.parametrize(
    "code",
    [
        "import gymnasium; make = gymnasium.make; name = 'iopea.envs:iopea/ServiceRateQueue-v0'",
        "import iopea.envs; from gymnasium import make; name = 'iopea/ServiceRateQueue-v0'",
    ],
)
def test_is_made_by_its_id_in_a_fresh_process(code: str) -> None:
    use = "env = make(name); env.reset(seed=1); print(env.step(env.action_space.sample())[2:4])"
    command = [sys.executable, "-W", "error", "-c", f"{code}; {use}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(False, False)\n", "")


def test_copies_run_side_by_side() -> None:
    envs = gymnasium.make_vec(SERVICE_RATE_QUEUE, num_envs=3, vectorization_mode="sync")
    observations, _ = envs.reset(seed=5)
    assert observations.tolist() == [0, 0, 0]
    seen = [envs.step(np.array([1, 2, 3]))[0].tolist() for _ in range(40)]
    assert len(set(zip(*seen, strict=True))) == 3
    envs.close()


def test_ppo_learns_a_few_hundred_steps() -> None:
    env = gymnasium.make(SERVICE_RATE_QUEUE, max_episode_steps=50)
    agent = PPO("MlpPolicy", env, n_steps=128, batch_size=64, n_epochs=2, seed=0, device="cpu")
    agent.learn(256)
    action, _ = agent.predict(env.reset(seed=0)[0], deterministic=True)
    assert env.step(action)[0] in env.observation_space


# The system


def chain(problem: ServiceRateQueue, rates: QueueRates, policy: tuple[int, ...]) -> np.ndarray:
    """Probabilities of (state, event), the events in the order of NAMES, by the paper."""
    full = problem.system.buffer
    steps = (
        problem.system.arrival_rate_bound
        + full * problem.system.deadline_rate_bound
        + problem.system.max_rate
    )
    rows = []
    for s in range(full + 1):
        share = (1 - s / full) if problem.system.arrivals == "decaying" else float(s < full)
        events = [rates.arrival_rate * share, policy[s] * (s > 0), s * rates.deadline_rate]
        rows.append([rate / steps for rate in events] + [1 - sum(events) / steps])
    return np.array(rows)


NAMES = ("arrival", "service", "miss", "none")
CHANGES = np.array([1, -1, -1, 0])


def largest_error(chance: np.ndarray, values: np.ndarray, steps: int) -> tuple[float, float]:
    """Average of values by (state, event), and how far that of a path may lie off.

    With the bias v, the values less their average plus v(next) - v(now) are a martingale's
    differences, to which Freedman's inequality applies.
    """
    states = np.arange(len(chance))
    following = np.clip(states[:, None] + CHANGES, 0, len(chance) - 1)
    # The birth-death law: what goes up from s comes down from s + 1.
    law = [1.0]
    for s in range(len(chance) - 1):
        law.append(law[-1] * chance[s, 0] / (chance[s + 1, 1] + chance[s + 1, 2]))
    law = np.array(law) / sum(law)
    means = (chance * values).sum(axis=1)
    average = float(law @ means)
    matrix = np.zeros((len(chance), len(chance)))
    for event in range(4):
        np.add.at(matrix, (states, following[:, event]), chance[:, event])
    bias = np.linalg.solve(np.eye(len(chance)) - matrix + law, means - average)
    differences = values - average + bias[following] - bias[:, None]
    possible = chance > 0
    bound = np.abs(differences[possible]).max()
    variance = (chance * differences**2).sum(axis=1).max()
    logarithm = math.log(2 / ERROR_RATE)
    half = logarithm * bound / 3
    deviation = half + math.sqrt(half**2 + 2 * logarithm * steps * variance)
    return average, float(deviation + np.ptp(bias)) / steps


@pytest.mark.parametrize("arrivals", ["decaying", "fixed"])
@pytest.mark.parametrize("policy", [(0, 1, 2, 3, 3), (3, 0, 1, 0, 2)])
def test_averages_are_those_of_the_birth_death_law(arrivals: str, policy: tuple[int, ...]) -> None:
    steps = 60_000
    problem = queue(arrivals=arrivals)
    states, rewards, infos = play(ServiceRateQueueEnv(problem=problem, rates=RATES), policy, steps)
    chance = chain(problem, RATES, policy)
    power = np.array([rate**2 for rate in policy]) / (4 + 4 * 1 + 3)
    costs = power[:, None] + np.array([0, 0, PENALTY, 0])
    average, error = largest_error(chance, costs, steps)
    assert -rewards.mean() == pytest.approx(average, abs=error)
    assert error < 0.1 * average
    for state in range(5):
        time = np.tile(np.arange(5)[:, None] == state, 4).astype(float)
        average, error = largest_error(chance, time, steps)
        assert (states[:-1] == state).mean() == pytest.approx(average, abs=error)
    for event, name in enumerate(NAMES):
        happened = np.tile(np.arange(4) == event, (5, 1)).astype(float)
        average, error = largest_error(chance, happened, steps)
        share = np.mean([info["event"] == name for info in infos])
        assert share == pytest.approx(average, abs=error)


@pytest.mark.parametrize(
    "problem",
    [
        queue(),
        queue(arrivals="fixed", uniformization=40),
        queue(2, 5, power=[0, 1, 1, 4, 2, 7], arrivals=[1, 2, 0]),
        ServiceRateQueue.example()[0],
    ],
)
def test_costs_are_those_of_the_simulator_on_the_same_noise(problem: ServiceRateQueue) -> None:
    policy = tuple(
        (3 * s + 1) % (problem.system.max_rate + 1) for s in range(problem.system.buffer + 1)
    )
    rollout = problem.simulator(RATES, seed=3).play(policy, 2000)
    env = ServiceRateQueueEnv(problem=problem, rates=RATES)
    empty, _ = env.reset()
    env._start(seed_for("queue", 3))  # the simulator's noise
    states, rewards, infos = go_on(env, policy, 2000, empty)
    assert (-rewards == rollout.costs).all()
    assert (states[:-1] == rollout.trajectory["state"]).all()
    assert [info["time"] for info in infos] == rollout.trajectory["time"].tolist()
    for name, column in zip(NAMES, ("arrivals", "services", "misses"), strict=False):
        assert [info["event"] == name for info in infos] == rollout.trajectory[column].tolist()
        assert rollout.trajectory[column].sum() > 20


def test_the_clock_of_the_rates_does_not_matter() -> None:
    policy, fields = (0, 1, 2, 3, 3), RATES.model_dump()
    runs = [
        play(ServiceRateQueueEnv(problem=queue(), rates=QueueRates(**fields | clock)), policy, 200)
        for clock in ({}, {"clock": "continuous"})
    ]
    assert runs[0][1].tolist() == runs[1][1].tolist()


@given(
    buffer=st.integers(1, 6),
    max_rate=st.integers(1, 5),
    arrivals=st.sampled_from(["decaying", "fixed"]),
    load=st.floats(0.01, 1),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=40),
    seed=st.integers(0, 2**63),
)
@settings(max_examples=150, deadline=None)
def test_every_step_adds_up(
    buffer: int, max_rate: int, arrivals: str, load: float, shares: list[float], seed: int
) -> None:
    problem = queue(buffer, max_rate, arrivals=arrivals)
    rates = QueueRates(arrival_rate=4 * load, deadline_rate=1 - load / 2)
    env = ServiceRateQueueEnv(problem=problem, rates=rates)
    state, _ = env.reset(seed=seed)
    assert state == 0
    steps_per_time = 4 + buffer + max_rate
    for share in shares:
        rate = round(share * max_rate)
        before = state
        state, reward, _, _, info = env.step(np.int64(rate))
        assert state in env.observation_space
        assert sorted(info) == ["cost", "event", "time"]
        assert state - before == CHANGES[NAMES.index(info["event"])]
        assert info["time"] == 1 / steps_per_time
        miss = PENALTY * (info["event"] == "miss")
        assert info["cost"] == pytest.approx(rate**2 / steps_per_time + miss)
        assert reward == -info["cost"]
        assert rate > 0 or info["event"] != "service"


def test_power_is_paid_in_the_empty_queue_as_well() -> None:
    never = QueueRates(arrival_rate=1e-9, deadline_rate=0.5)
    env = ServiceRateQueueEnv(problem=queue(), rates=never)
    states, rewards, infos = play(env, (3,) * 5, 50)
    assert not states.any()
    assert {info["event"] for info in infos} == {"none"}
    assert rewards == pytest.approx(-9 / 11)


# What is seen


def test_the_true_rates_are_not_seen() -> None:
    envs = [
        ServiceRateQueueEnv(problem=queue(), rates=rates, render_mode="ansi")
        for rates in (RATES, QueueRates(arrival_rate=1, deadline_rate=1))
    ]
    for env in envs:
        env.reset(seed=3)
    one, other = map(public_values, envs)
    assert "problem" in one
    assert one == other


# Seeds


def test_the_same_seed_gives_the_same_run() -> None:
    env, policy = ServiceRateQueueEnv(), (0, 1, 2)
    first = play(env, policy, 60, seed=7)[1]
    second = play(env, policy, 60, seed=None)[1]
    assert (first != second).any()
    assert (play(ServiceRateQueueEnv(), policy, 60, seed=7)[1] == first).all()
    assert (play(env, policy, 60, seed=7)[1] == first).all()
    assert (play(env, policy, 60, seed=None)[1] == second).all()
    assert (play(env, policy, 60, seed=8)[1] != first).any()


def test_the_number_of_steps_does_not_change_the_next_run() -> None:
    runs = []
    for steps in (1, 50):
        env = ServiceRateQueueEnv()
        play(env, (0, 1, 2), steps, seed=7)
        runs.append(play(env, (0, 1, 2), 60, seed=None)[1])
    assert (runs[0] == runs[1]).all()


# Text and refusals


def test_render_is_a_line_of_text() -> None:
    env = ServiceRateQueueEnv(problem=queue(), rates=RATES, render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "Step 0: 0 jobs in the system, last event none yet."
    for step in range(1, 40):
        state, _, _, _, info = env.step(np.int64(1))
        jobs = "1 job" if state == 1 else f"{state} jobs"
        assert env.render() == f"Step {step}: {jobs} in the system, last event {info['event']}."
    env.reset()
    assert env.render() == "Step 0: 0 jobs in the system, last event none yet."
    assert ServiceRateQueueEnv().render() is None


def test_repr_names_what_matters() -> None:
    assert repr(ServiceRateQueueEnv()) == "ServiceRateQueueEnv(buffer=2, max_rate=3)"


@pytest.mark.parametrize(
    ("action", "shown"),
    [
        (4, "4"),
        (-1, "-1"),
        (1.5, "1.5"),
        (np.float32(1.5), "1.5"),
        (np.nan, "nan"),
        (np.inf, "inf"),
        (None, "None"),
        (True, "True"),
        ("fast", "'fast'"),
        ([1], r"\[1\]"),
        ([[1], [1, 2]], r"\[\[1\], \[1, 2\]\]"),
        (np.array([1]), r"array\(\[1\]\)"),
    ],
)
def test_bad_actions_are_refused_and_change_nothing(action: object, shown: str) -> None:
    env = ServiceRateQueueEnv(render_mode="ansi")
    env.reset(seed=1)
    sentence = f"^An action is a whole number from 0 to 3, not {shown}.$"
    with pytest.raises(InputError, match=sentence):
        env.step(action)  # type: ignore[arg-type]
    fresh = ServiceRateQueueEnv(render_mode="ansi")
    fresh.reset(seed=1)
    for _ in range(30):
        assert env.step(np.int64(1)) == fresh.step(np.int64(1))
        assert env.render() == fresh.render()


@pytest.mark.parametrize("action", [2, 2.0, np.int64(2), np.uint8(2), np.array(2)])
def test_every_way_to_write_a_rate_is_understood(action: object) -> None:
    env = ServiceRateQueueEnv()
    env.reset(seed=1)
    assert env.step(action)[4]["cost"] == pytest.approx(4 / 33)  # type: ignore[arg-type]


def test_a_policy_may_be_written_as_the_library_does() -> None:
    problem, rates = ServiceRateQueue.example()
    policy, _ = problem.simulator(rates).optimum()
    env = ServiceRateQueueEnv()
    actions = [env.policy_action(policy, jobs) for jobs in range(3)]
    assert actions == [0, 3, 3]
    assert all(action in env.action_space for action in actions)


@pytest.mark.parametrize("render_mode", ["human", "rgb_array", ""])
def test_other_render_modes_are_refused(render_mode: str) -> None:
    with pytest.raises(InputError, match=f"^Unknown render mode '{render_mode}': use one of"):
        ServiceRateQueueEnv(render_mode=render_mode)


def test_other_refusals_are_sentences() -> None:
    env = ServiceRateQueueEnv()
    with pytest.raises(gymnasium.error.ResetNeeded, match="before the first reset"):
        env.step(np.int64(0))
    with pytest.raises(InputError, match=r"^Unknown option 'jobs': reset\(\) takes none.$"):
        env.reset(options={"jobs": 3})
    with pytest.raises(InputError, match=r"^A policy has 3 rates, one per state, not \(1, 2\).$"):
        env.policy_action((1, 2), 0)
    with pytest.raises(InputError, match=r"^A policy has 3 rates, one per state, not "):
        env.policy_action([[0], [1, 2], 3], 0)  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"^An observation is a whole number from 0 to 2, not 3.$"):
        env.policy_action((0, 1, 2), 3)
    for rate in (4, -1, 0.5, np.nan):
        sentence = rf"^A rate of a policy is a whole number from 0 to 3, not {rate}.$"
        with pytest.raises(InputError, match=sentence):
            env.policy_action((0, rate, 0), 1)
    with pytest.raises(InputError, match=r"^arrival_rate is 5.0, above arrival_rate_bound"):
        ServiceRateQueueEnv(problem=queue(), rates=QueueRates(arrival_rate=5, deadline_rate=0.5))
