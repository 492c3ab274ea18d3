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
from iopea.demand import Constant, Demand, Empirical, Exponential, Poisson
from iopea.envs import DUAL_SOURCING, DualSourcingEnv, register
from iopea.envs.inventory import NO_ORDER
from iopea.errors import InputError
from iopea.seeds import seed_for
from iopea.systems.dual_sourcing import DualSourcing

HIGH = 9.7
#: What single precision may change in stock, sales and, times their rates, in costs.
ROUNDING = 1e-6 * HIGH
SPORADIC = Exponential(mean=1.3, zero_probability=0.3)
#: Regular and expedited lead times.
LEAD_TIMES = [(1, 0), (2, 1), (3, 0), (5, 2), (6, 5)]
#: Expedited and regular levels, of which either may be the higher one.
LEVELS = [(0.0, 0.0), (2.3, 5.1), (4.0, 4.0), (5.1, 2.3), (0.0, HIGH), (HIGH, HIGH)]
HOLDING, PENALTY, REGULAR, EXPEDITED = 1.0, 10.0, 0.7, 1.9


def shop(regular: int = 3, expedited: int = 1, **others: object) -> DualSourcing:
    fields = {
        "holding_cost": HOLDING,
        "lost_sales_cost": PENALTY,
        "regular_cost": REGULAR,
        "expedited_cost": EXPEDITED,
        "expedited_levels": {"low": 0, "high": HIGH},
        "regular_levels": {"low": 0, "high": HIGH},
    }
    return DualSourcing(
        regular_lead_time=regular, expedited_lead_time=expedited, **(fields | others)
    )


def with_high(high: float) -> dict[str, object]:
    return {
        "expedited_levels": {"low": 0, "high": high},
        "regular_levels": {"low": 0, "high": high},
    }


def play(
    env: DualSourcingEnv, levels: tuple[float, float], periods: int, seed: int | None = 0
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Observations, rewards and infos of a dual-index policy, the infos by name."""
    observation, info = env.reset(seed=seed)
    assert info == {}
    return go_on(env, levels, periods, observation)


def go_on(
    env: DualSourcingEnv, levels: tuple[float, float], periods: int, observation: np.ndarray
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    observations, rewards, infos = [observation], [], []
    for _ in range(periods):
        action = env.dual_index_action(*levels, observation)
        observation, reward, terminated, truncated, info = env.step(action)
        assert terminated is False
        assert truncated is False
        assert observation in env.observation_space
        assert action in env.action_space
        observations.append(observation)
        rewards.append(reward)
        infos.append(info)
    columns = {name: np.array([each[name] for each in infos]) for name in infos[0]}
    return np.array(observations), np.array(rewards), columns


def roll_out(
    problem: DualSourcing, levels: tuple[float, float], demand: np.ndarray
) -> dict[str, np.ndarray]:
    """The paper's equations, word by word: orders are looked up by the period they were placed."""
    slow, fast = problem.system.regular_lead_time, problem.system.expedited_lead_time
    expedited_level, regular_level = levels
    on_hand, regular, expedited = 0.0, {}, {}

    def placed(orders: dict[int, float], first: int, last: int) -> float:
        return sum(orders.get(period, 0.0) for period in range(first, last + 1))

    rows = []
    for t, wanted in enumerate(demand.tolist()):
        under_way = placed(expedited, t - fast, t - 1)
        soon = on_hand + under_way + placed(regular, t - slow, t - (slow - fast))
        expedited[t] = max(expedited_level - soon, 0.0)
        position = on_hand + under_way + placed(regular, t - slow, t - 1)
        regular[t] = max(regular_level - position - expedited[t], 0.0)
        stock = on_hand + regular.get(t - slow, 0.0) + expedited.get(t - fast, 0.0)
        on_hand = max(stock - wanted, 0.0)
        lost = max(wanted - stock, 0.0)
        cost = (
            problem.system.holding_cost * on_hand
            + problem.system.lost_sales_cost * lost
            + problem.system.regular_cost * regular[t]
            + problem.system.expedited_cost * expedited[t]
        )
        total = position + expedited[t] + regular[t]
        rows.append((stock, min(stock, wanted), expedited[t], regular[t], lost, cost, total))
    names = ("stock", "sales", "expedited_order", "regular_order", "lost_sales", "true_cost")
    return dict(zip((*names, "position"), np.array(rows).T, strict=True))


# Checkers and registration


@pytest.mark.parametrize(("regular", "expedited"), LEAD_TIMES)
@pytest.mark.parametrize("render_mode", [None, "ansi"])
def test_both_checkers_are_content(regular: int, expedited: int, render_mode: str | None) -> None:
    # Warnings are errors here. Made by its id, the environment has a spec to check rendering.
    made = gymnasium.make(DUAL_SOURCING, problem=shop(regular, expedited), render_mode=render_mode)
    check_with_gymnasium(made.unwrapped)
    check_with_sb3(made.unwrapped, skip_render_check=False)
    check_with_sb3(made)


def test_checkers_are_content_with_a_class_made_directly() -> None:
    check_with_gymnasium(DualSourcingEnv(reveal_demand=True), skip_render_check=True)
    check_with_sb3(DualSourcingEnv(reveal_demand=True))


def test_registering_twice_changes_nothing_and_has_no_time_limit() -> None:
    spec = gymnasium.spec(DUAL_SOURCING)
    register()
    assert gymnasium.spec(DUAL_SOURCING) is spec
    assert spec.max_episode_steps is None


@pytest.mark.parametrize(
    "code",
    [
        "import gymnasium; make = gymnasium.make; name = 'iopea.envs:iopea/DualSourcing-v0'",
        "import iopea.envs; from gymnasium import make; name = 'iopea/DualSourcing-v0'",
    ],
)
def test_is_made_by_its_id_in_a_fresh_process(code: str) -> None:
    use = "env = make(name); env.reset(seed=1); print(env.step(env.action_space.sample())[2:4])"
    command = [sys.executable, "-W", "error", "-c", f"{code}; {use}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(False, False)\n", "")


def test_copies_run_side_by_side() -> None:
    envs = gymnasium.make_vec(DUAL_SOURCING, num_envs=3, vectorization_mode="sync", problem=shop())
    observations, _ = envs.reset(seed=5)
    assert observations.shape == (3, 5)
    for _ in range(4):
        infos = envs.step(np.ones((3, 2), dtype=np.float32))[4]
    assert len(set(infos["sales"])) > 1
    envs.close()


def test_ppo_learns_a_few_hundred_steps() -> None:
    env = gymnasium.make(DUAL_SOURCING, max_episode_steps=50)
    agent = PPO("MlpPolicy", env, n_steps=128, batch_size=64, n_epochs=2, seed=0, device="cpu")
    agent.learn(256)
    action, _ = agent.predict(env.reset(seed=0)[0], deterministic=True)
    assert action in env.action_space


# The system


@pytest.mark.parametrize(("regular", "expedited"), LEAD_TIMES)
@pytest.mark.parametrize("levels", LEVELS)
def test_dual_index_policy_does_what_the_equations_say(
    regular: int, expedited: int, levels: tuple[float, float]
) -> None:
    problem = shop(regular, expedited)
    env = DualSourcingEnv(problem=problem, demand=SPORADIC, reveal_demand=True)
    _, rewards, info = play(env, levels, 300)
    expected = roll_out(problem, levels, info["demand"])
    for name in ("stock", "sales", "lost_sales", "expedited_order", "regular_order"):
        np.testing.assert_allclose(info[name], expected[name], rtol=0, atol=ROUNDING)
    tolerance = ROUNDING * (HOLDING + PENALTY + REGULAR + EXPEDITED)
    pseudo_cost = expected["true_cost"] - PENALTY * info["demand"]
    np.testing.assert_allclose(info["true_cost"], expected["true_cost"], rtol=0, atol=tolerance)
    np.testing.assert_allclose(info["pseudo_cost"], pseudo_cost, rtol=0, atol=tolerance)
    assert (rewards == -info["pseudo_cost"]).all()
    # No order is cut, since the position is lifted to the higher level and never above.
    assert expected["position"] == pytest.approx(max(levels))
    if 0 < levels[0] < levels[1]:
        assert info["expedited_order"].max() > 0
        assert info["regular_order"].max() > 0


@pytest.mark.parametrize(("regular", "expedited"), LEAD_TIMES)
@pytest.mark.parametrize("levels", LEVELS)
def test_costs_are_those_of_the_simulator_on_the_same_noise(
    regular: int, expedited: int, levels: tuple[float, float]
) -> None:
    problem = shop(regular, expedited)
    rollout = problem.simulator(SPORADIC, seed=4).play(levels, 300)
    env = DualSourcingEnv(problem=problem, demand=SPORADIC, reveal_demand=True)
    observation, _ = env.reset()
    env._start(seed_for("demand", 4))  # the simulator's noise
    _, _, info = go_on(env, levels, 300, observation)
    close = {"rtol": 0, "atol": ROUNDING}
    np.testing.assert_allclose(info["stock"], rollout.trajectory["stock"], **close)
    np.testing.assert_allclose(info["sales"], rollout.trajectory["sales"], **close)
    close["atol"] *= HOLDING + PENALTY + REGULAR + EXPEDITED
    np.testing.assert_allclose(info["true_cost"], rollout.costs, **close)


@pytest.mark.parametrize(("regular", "expedited"), LEAD_TIMES)
@pytest.mark.parametrize("levels", [(3, 8), (8, 3), (6, 6)])
def test_whole_numbers_pass_exactly(
    regular: int, expedited: int, levels: tuple[float, float]
) -> None:
    whole = with_high(16) | {"regular_cost": 1, "expedited_cost": 3}
    problem = shop(regular, expedited, **whole)
    env = DualSourcingEnv(problem=problem, demand=Poisson(mean=2), reveal_demand=True)
    _, _, info = play(env, levels, 200)
    expected = roll_out(problem, levels, info["demand"])
    del expected["position"]  # no column of its own
    assert all((info[name] == column).all() for name, column in expected.items())


def test_orders_arrive_after_their_lead_times() -> None:
    env = DualSourcingEnv(problem=shop(3, 1, **with_high(8)), demand=Constant(value=0))
    assert env.reset()[0].tolist() == [0, 0, 0, 0, 0]
    actions = np.array([[-0.75, -0.5], [-1, -0.75], [-0.5, -1], [-1, -1]], dtype=np.float32)
    seen = [env.step(action)[0].tolist() for action in actions]
    # Stock, regular orders, expedited order.
    assert seen == [[0, 0, 0, 2, 1], [1, 0, 2, 1, 0], [1, 2, 1, 0, 2], [5, 1, 0, 0, 0]]


def test_an_expedited_order_without_lead_time_arrives_at_once() -> None:
    env = DualSourcingEnv(problem=shop(1, 0, **with_high(8)), demand=Constant(value=1))
    env.reset()
    observation, _, _, _, info = env.step(np.array([-0.5, 0.0], dtype=np.float32))
    assert observation.tolist() == [1, 4]
    assert (info["stock"], info["sales"]) == (2, 1)
    assert (info["expedited_order"], info["regular_order"]) == (2, 4)
    assert info["pseudo_cost"] == HOLDING - PENALTY + 4 * REGULAR + 2 * EXPEDITED


def test_the_expedited_order_has_the_room_first() -> None:
    env = DualSourcingEnv(problem=shop(3, 1, **with_high(8)), demand=Constant(value=0))
    env.reset()
    placed = [
        env.step(np.array(action, dtype=np.float32))[4] for action in ([0.5, 0.5], [-1, 1], [1, -1])
    ]
    orders = [(info["expedited_order"], info["regular_order"]) for info in placed]
    assert orders == [(6, 2), (0, 0), (0, 0)]


def test_only_a_policy_that_takes_over_from_another_may_be_cut() -> None:
    env = DualSourcingEnv(problem=shop(3, 0, **with_high(8)), demand=Constant(value=0))
    observation, _ = env.reset()
    observation = env.step(env.dual_index_action(0, 6, observation))[0]
    # The regular order of 6 arrives too late to count, so that 5 would lift the position to 11.
    action = env.dual_index_action(5, 6, observation)
    assert action.tolist() == [0.25, -1]
    info = env.step(action)[4]
    assert (info["expedited_order"], info["regular_order"]) == (2, 0)


def test_the_bound_is_the_higher_of_the_two_ranges() -> None:
    for expedited, regular in ((4, 8), (8, 4)):
        ranges = {
            "expedited_levels": {"low": 0, "high": expedited},
            "regular_levels": {"low": 0, "high": regular},
        }
        env = DualSourcingEnv(problem=shop(**ranges))
        assert env.observation_space.high.tolist() == [8] * 5
        assert env.dual_index_action(expedited, regular, np.zeros(5)).shape == (2,)


@given(
    expedited=st.integers(0, 3),
    later=st.integers(1, 3),
    high=st.floats(1e-30, 1e30) | st.floats(0.1, 100),
    actions=st.lists(st.tuples(*[st.floats(-1, 1, width=32)] * 2), min_size=1, max_size=30),
    busy=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_observations_stay_in_bounds_and_what_goes_in_comes_out(
    expedited: int, later: int, high: float, actions: list[tuple[float, float]], busy: bool
) -> None:
    demand = Empirical(values=(0.0, high / 3, high / 7) if busy else (0.0,))
    problem = shop(expedited + later, expedited, **with_high(high))
    env = DualSourcingEnv(problem=problem, demand=demand)
    env.reset(seed=3)
    ordered = sold = 0.0
    for action in actions:
        observation, _, _, _, info = env.step(np.array(action, dtype=np.float32))
        assert observation in env.observation_space
        assert 0 <= info["expedited_order"] <= (action[0] + 1) / 2 * high
        assert 0 <= info["regular_order"] <= (action[1] + 1) / 2 * high
        assert info["sales"] <= info["stock"] <= high * (1 + 1e-12)
        ordered += info["expedited_order"] + info["regular_order"]
        sold += info["sales"]
    held = observation.sum(dtype=float)
    assert held <= high * (1 + 1e-6)
    assert ordered - sold == pytest.approx(held, abs=1e-5 * high)


@given(
    levels=st.lists(st.tuples(*[st.floats(0, HIGH)] * 2), min_size=1, max_size=20),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=50, deadline=None)
def test_a_change_of_policy_never_leaves_the_bounds(
    levels: list[tuple[float, float]], seed: int
) -> None:
    env = DualSourcingEnv(problem=shop(), demand=SPORADIC)
    observation, _ = env.reset(seed=seed)
    for pair in levels:
        action = env.dual_index_action(*pair, observation)
        assert action in env.action_space
        observation = env.step(action)[0]
        assert observation in env.observation_space


@pytest.mark.parametrize(("regular", "expedited"), LEAD_TIMES)
@pytest.mark.parametrize("levels", LEVELS)
def test_rounding_is_never_an_order(
    regular: int, expedited: int, levels: tuple[float, float]
) -> None:
    env = DualSourcingEnv(problem=shop(regular, expedited), demand=SPORADIC)
    _, _, info = play(env, levels, 400)
    for name in ("expedited_order", "regular_order"):
        orders = info[name]
        assert (orders[orders > 0] > NO_ORDER * HIGH).all()
    # Where nothing was sold, the position is at the higher level, and nothing is ordered by
    # the source that lifts it there.
    no_sales = info["sales"][:-1] == 0
    assert no_sales.sum() > 50
    name = "regular_order" if levels[1] >= levels[0] else "expedited_order"
    assert (info[name][1:][no_sales] == 0).all()


# What is seen


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Constant(value=5), Constant(value=9)),
        (Empirical(values=(0, 1, 2, 4)), Empirical(values=(0, 1, 2, 400))),
        (Exponential(mean=2, maximum=3.1), Exponential(mean=2)),
    ],
)
@pytest.mark.parametrize(("regular", "expedited"), [(1, 0), (3, 1)])
def test_lost_demand_is_not_seen(one: Demand, other: Demand, regular: int, expedited: int) -> None:
    envs = [
        DualSourcingEnv(problem=shop(regular, expedited), demand=law, render_mode="ansi")
        for law in (one, other)
    ]
    runs = [play(env, (1, 3), 200) for env in envs]
    (seen, rewards, info), (other_seen, other_rewards, other_info) = runs
    assert (seen == other_seen).all()
    assert (rewards == other_rewards).all()
    assert sorted(info) == ["expedited_order", "pseudo_cost", "regular_order", "sales", "stock"]
    assert all((info[name] == other_info[name]).all() for name in info)
    assert envs[0].render() == envs[1].render()
    assert public_values(envs[0]) == public_values(envs[1])


def test_revealed_demand_changes_nothing_else() -> None:
    hidden, shown = (
        play(DualSourcingEnv(demand=SPORADIC, reveal_demand=reveal), (2, 3), 100)
        for reveal in (False, True)
    )
    assert (hidden[0] == shown[0]).all()
    assert (hidden[1] == shown[1]).all()
    extra = set(shown[2]) - set(hidden[2])
    assert extra == {"demand", "lost_sales", "true_cost"}
    # The two costs differ by what no order changes.
    penalty = DualSourcing.example()[0].system.lost_sales_cost
    difference = shown[2]["true_cost"] - shown[2]["pseudo_cost"]
    np.testing.assert_allclose(difference, penalty * shown[2]["demand"], atol=1e-9)


# Seeds


def test_the_same_seed_gives_the_same_run() -> None:
    env, levels = DualSourcingEnv(demand=SPORADIC), (2, 4)
    first = play(env, levels, 60, seed=7)[1]
    second = play(env, levels, 60, seed=None)[1]
    assert (first != second).any()
    assert (play(DualSourcingEnv(demand=SPORADIC), levels, 60, seed=7)[1] == first).all()
    assert (play(env, levels, 60, seed=7)[1] == first).all()
    assert (play(env, levels, 60, seed=None)[1] == second).all()
    assert (play(env, levels, 60, seed=8)[1] != first).any()


def test_the_number_of_steps_does_not_change_the_next_run() -> None:
    runs = []
    for periods in (1, 50):
        env = DualSourcingEnv(demand=SPORADIC)
        play(env, (2, 4), periods, seed=7)
        runs.append(play(env, (2, 4), 60, seed=None)[1])
    assert (runs[0] == runs[1]).all()


# Text and refusals


def test_render_is_a_line_of_text() -> None:
    env = DualSourcingEnv(problem=shop(2, 0), demand=Constant(value=1.5), render_mode="ansi")
    env.reset()
    nothing = "regular 0 0 and expedited nothing under way"
    assert env.render() == f"Period 0: 0 on hand, {nothing}, last sales none yet."
    env.step(env.dual_index_action(2.0, 5.0, [0, 0, 0]))
    assert env.render() == (
        "Period 1: 0.5 on hand, regular 0 3 and expedited nothing under way, last sales 1.5."
    )
    assert DualSourcingEnv().render() is None


def test_repr_names_what_matters() -> None:
    expected = "DualSourcingEnv(regular_lead_time=3, expedited_lead_time=1, high=9.7)"
    assert repr(DualSourcingEnv(problem=shop())) == expected


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        ([np.nan, 0], "An action must lie between -1 and 1, not at nan."),
        ([0, np.inf], "An action must lie between -1 and 1, not at inf."),
        ([1.01, 0], "An action must lie between -1 and 1, not at 1.01."),
        ([0, -1.01], "An action must lie between -1 and 1, not at -1.01."),
        (0.5, r"An action has shape \(2,\), not \(\)."),
        ([0.5], r"An action has shape \(2,\), not \(1,\)."),
        (["much", "more"], r"An action is an array of 2 numbers, not \['much', 'more'\]."),
    ],
)
def test_bad_actions_are_refused_and_change_nothing(action: object, sentence: str) -> None:
    env = DualSourcingEnv(demand=SPORADIC, render_mode="ansi")
    env.reset(seed=1)
    with pytest.raises(InputError, match=f"^{sentence}$"):
        env.step(action)  # type: ignore[arg-type]
    fresh = DualSourcingEnv(demand=SPORADIC, render_mode="ansi")
    fresh.reset(seed=1)
    good = np.array([-0.5, 0.5], dtype=np.float32)
    for _ in range(5):
        got, expected = env.step(good), fresh.step(good)
        assert got[1] == expected[1]
        assert got[0].tolist() == expected[0].tolist()
        assert env.render() == fresh.render()


def test_rounding_beyond_the_bounds_of_an_action_is_allowed() -> None:
    env = DualSourcingEnv(problem=shop())
    env.reset()
    info = env.step(np.array([-1 - 1e-7, 1 + 1e-7]))[4]
    assert (info["expedited_order"], info["regular_order"]) == (0, HIGH)


@pytest.mark.parametrize("render_mode", ["human", "rgb_array", ""])
def test_other_render_modes_are_refused(render_mode: str) -> None:
    with pytest.raises(InputError, match=f"^Unknown render mode '{render_mode}': use one of"):
        DualSourcingEnv(render_mode=render_mode)


def test_other_refusals_are_sentences() -> None:
    env = DualSourcingEnv(problem=shop())
    with pytest.raises(gymnasium.error.ResetNeeded, match="before the first reset"):
        env.step(np.zeros(2, dtype=np.float32))
    with pytest.raises(InputError, match=r"^Unknown option 'stock': reset\(\) takes none.$"):
        env.reset(options={"stock": 3})
    for level in (-1.0, 9.8, np.nan):
        sentence = f"^A level must lie between 0 and 9.7, not {level}.$"
        with pytest.raises(InputError, match=sentence):
            env.dual_index_action(level, 1.0, np.zeros(5))
        with pytest.raises(InputError, match=sentence):
            env.dual_index_action(1.0, level, np.zeros(5))
    with pytest.raises(InputError, match=r"^An observation has shape \(5,\), not \(2,\).$"):
        env.dual_index_action(1.0, 3.0, [0, 0])
    for high in (1e-30 / 2, 2e30):
        with pytest.raises(InputError, match=r"^The highest level is .* single precision"):
            DualSourcingEnv(problem=shop(**with_high(high)))
