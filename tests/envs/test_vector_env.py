"""The vector environment does in all copies what the environment of one system does."""

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import MultiDiscrete

from iopea.demand import Constant
from iopea.envs import DualSourcingEnv, LostSalesEnv, ServiceRateQueueEnv
from iopea.envs.vector import SystemVectorEnv
from iopea.errors import InputError
from iopea.systems import PROBLEMS
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.queue import QueueRates, ServiceRateQueue

SINGLE = {
    "lost-sales": LostSalesEnv,
    "dual-sourcing": DualSourcingEnv,
    "queue": ServiceRateQueueEnv,
}
COPIES = 3


def late():
    shop, demand = DualSourcing.example()
    times = {"regular_lead_time": 4, "expedited_lead_time": 2}
    return shop.changed(**times), demand


def vector(kind, **others):
    return SystemVectorEnv(*PROBLEMS[kind].example(), num_envs=COPIES, **others)


@pytest.mark.parametrize("kind", SINGLE)
def test_spaces_shapes_and_types_are_those_of_one_system(kind):
    problem, truth = PROBLEMS[kind].example()
    envs, single = vector(kind), SINGLE[kind](problem=problem)
    assert envs.single_observation_space == single.observation_space
    assert envs.single_action_space == single.action_space
    observations, info = envs.reset(seed=4)
    assert info == {}
    assert envs.observation_space.contains(observations)
    assert observations.dtype == envs.observation_space.dtype
    assert envs.num_envs == COPIES
    envs.action_space.seed(1)
    for _ in range(300):
        actions = envs.action_space.sample()
        observations, rewards, terminations, truncations, info = envs.step(actions)
        assert envs.observation_space.contains(observations)
        assert rewards.shape == terminations.shape == truncations.shape == (COPIES,)
        assert not terminations.any()
        assert not truncations.any()
        np.testing.assert_array_equal(rewards, -info["cost"])
        assert rewards.dtype == np.float64
    assert all(info[f"_{name}"].all() for name in info if not name.startswith("_"))
    assert truth is not None


SHOPS = (PROBLEMS["lost-sales"].example()[0], DualSourcing.example()[0], late()[0])


@pytest.mark.parametrize("problem", SHOPS, ids=["lost-sales", "dual-sourcing", "late"])
def test_shops_do_what_the_single_environment_does(problem):
    demand = Constant(value=1.25)
    envs = SystemVectorEnv(problem, demand, num_envs=COPIES)
    singles = [SINGLE[problem.kind](problem=problem, demand=demand) for _ in range(COPIES)]
    observations, _ = envs.reset(seed=1)
    for env in singles:
        env.reset(seed=1)
    envs.action_space.seed(3)
    for step in range(60):
        actions = envs.action_space.sample() * (0.1 if step % 2 else 1.0)
        actions[0] = -1 + 1e-7  # an order so small that none is placed
        observations, rewards, _, _, info = envs.step(actions)
        for copy, env in enumerate(singles):
            seen, reward, _, _, told = env.step(actions[copy])
            np.testing.assert_allclose(observations[copy], seen, rtol=1e-6, atol=1e-6)
            assert rewards[copy] == pytest.approx(reward, abs=1e-9)
            assert info["sales"][copy] == pytest.approx(told["sales"], abs=1e-9)
            assert info["stock"][copy] == pytest.approx(told["stock"], abs=1e-9)


def test_a_queue_moves_by_its_records_and_costs_what_they_say():
    problem, rates = ServiceRateQueue.example()
    envs = SystemVectorEnv(problem, rates, num_envs=COPIES)
    before, _ = envs.reset(seed=1)
    assert envs.action_space == MultiDiscrete([4] * COPIES)
    events = np.zeros(3)
    for step in range(400):
        actions = np.array([0, step % 4, 3])
        after, rewards, _, _, info = envs.step(actions)
        np.testing.assert_array_equal(
            after, before + info["arrivals"] - info["services"] - info["misses"]
        )
        expected = actions**2 / problem.system.uniform_rate + 100 * info["misses"]
        np.testing.assert_allclose(-rewards, expected)
        events += [info[name].sum() for name in ("arrivals", "services", "misses")]
        before = after
    assert (events > 0).all()


@pytest.mark.parametrize("kind", SINGLE)
def test_a_seed_gives_its_sequences_and_no_seed_the_next(kind):
    def path(envs, seed):
        envs.reset(seed=seed)
        actions = np.ones_like(envs.action_space.sample())
        return np.array([envs.step(actions)[1] for _ in range(600)])

    one, other = vector(kind, seed=7), vector(kind, seed=7)
    first = path(one, None)
    np.testing.assert_array_equal(first, path(other, None))
    second = path(one, None)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(path(one, 5), path(vector(kind), 5))
    # Copies differ from each other.
    assert not np.array_equal(first[:, 0], first[:, 1])


def test_gymnasium_wrappers_take_it():
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(vector("lost-sales"))
    envs = gymnasium.wrappers.vector.NormalizeObservation(envs)
    observations, _ = envs.reset(seed=1)
    for _ in range(20):
        observations, *_ = envs.step(envs.action_space.sample())
    assert observations.shape == (COPIES, envs.single_observation_space.shape[0])


@pytest.mark.parametrize(
    ("kind", "actions", "words"),
    [
        ("lost-sales", np.full((COPIES, 1), 1.5), "between -1 and 1, not at 1.5"),
        ("lost-sales", np.full((COPIES, 1), np.nan), "between -1 and 1, not at nan"),
        ("lost-sales", np.zeros(COPIES), r"actions have shape \(3, 1\), not \(3,\)"),
        ("queue", np.array([0, 1, 4]), "whole number from 0 to 3, not 4"),
        ("queue", np.array([0, 1, 0.5]), "whole number from 0 to 3, not 0.5"),
        ("queue", np.array(["a", "b", "c"]), "actions are an array of numbers"),
    ],
)
def test_a_refused_action_changes_nothing(kind, actions, words):
    envs, twin = vector(kind), vector(kind)
    envs.reset(seed=2)
    twin.reset(seed=2)
    with pytest.raises(InputError, match=words):
        envs.step(actions)
    good = np.zeros_like(envs.action_space.sample())
    for _ in range(5):
        np.testing.assert_array_equal(envs.step(good)[1], twin.step(good)[1])


def test_wrong_use_is_refused():
    with pytest.raises(ResetNeeded, match="before the first reset"):
        vector("queue").step(np.zeros(COPIES))
    with pytest.raises(InputError, match="Unknown option 'x'"):
        vector("queue").reset(options={"x": 1})
    with pytest.raises(InputError, match="num_envs must be a whole number of at least 1"):
        SystemVectorEnv(*ServiceRateQueue.example(), num_envs=0)
    with pytest.raises(InputError, match="newsvendor problem has no states and actions"):
        SystemVectorEnv(*PROBLEMS["newsvendor"].example())


def test_a_continuous_clock_steps_from_event_to_event():
    rates = QueueRates(arrival_rate=6, deadline_rate=3, clock="continuous")
    envs = SystemVectorEnv(ServiceRateQueue.example()[0], rates, num_envs=COPIES)
    envs.reset(seed=1)
    info = envs.step(np.full(COPIES, 2))[4]
    np.testing.assert_array_equal(info["arrivals"] + info["services"] + info["misses"], 1)
    assert len(set(info["time"])) == COPIES
