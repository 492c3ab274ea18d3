import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_with_gymnasium
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.env_checker import check_env as check_with_sb3

from environments import public_values
from iopea.demand import Constant, Demand, Empirical, Exponential, Poisson
from iopea.envs import LOST_SALES, LostSalesEnv, register
from iopea.envs.inventory import NO_ORDER
from iopea.errors import InputError
from iopea.systems.lost_sales import LostSales
from iopea.systems.lost_sales import kernel as kernels
from iopea.systems.shop.period_cost import cost_of_each

HIGH = 9.7
#: What single precision may change in stock, sales and, times their rates, in costs.
ROUNDING = 1e-6 * HIGH
SPORADIC = Exponential(mean=1.3, zero_probability=0.3)


def shop(lead_time: int = 2, **others: object) -> LostSales:
    fields = {"holding_cost": 1, "lost_sales_cost": 10, "levels": {"low": 0, "high": HIGH}}
    return LostSales(lead_time=lead_time, **(fields | others))


def play(
    env: LostSalesEnv, level: float, periods: int, seed: int | None = 0
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Observations, rewards and infos of a base-stock level, the infos by name."""
    observation, info = env.reset(seed=seed)
    assert info == {}
    observations, rewards, infos = [observation], [], []
    for _ in range(periods):
        action = env.base_stock_action(level, observation)
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


def own_cost(stock: float, sales: float, order: float) -> float:
    return 0.5 * order + 0.1 * stock * sales


# Checkers and registration


@pytest.mark.parametrize("lead_time", [0, 2, 6])
@pytest.mark.parametrize("render_mode", [None, "ansi"])
def test_both_checkers_are_content(lead_time: int, render_mode: str | None) -> None:
    # Warnings are errors here. Made by its id, the environment has a spec to check rendering.
    made = gymnasium.make(LOST_SALES, problem=shop(lead_time), render_mode=render_mode)
    check_with_gymnasium(made.unwrapped)
    check_with_sb3(made.unwrapped, skip_render_check=False)
    check_with_sb3(made)


def test_checkers_are_content_with_a_class_made_directly() -> None:
    check_with_gymnasium(LostSalesEnv(reveal_demand=True), skip_render_check=True)
    check_with_sb3(LostSalesEnv(reveal_demand=True))


def test_registering_twice_changes_nothing_and_has_no_time_limit() -> None:
    spec = gymnasium.spec(LOST_SALES)
    register()
    assert gymnasium.spec(LOST_SALES) is spec
    assert spec.max_episode_steps is None


@pytest.mark.parametrize(
    "code",
    [
        "import gymnasium; make = gymnasium.make; name = 'iopea.envs:iopea/LostSales-v0'",
        "import iopea.envs; from gymnasium import make; name = 'iopea/LostSales-v0'",
    ],
)
def test_is_made_by_its_id_in_a_fresh_process(code: str) -> None:
    use = "env = make(name); env.reset(seed=1); print(env.step(env.action_space.sample())[2:4])"
    command = [sys.executable, "-W", "error", "-c", f"{code}; {use}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(False, False)\n", "")


def test_episodes_end_where_a_time_limit_is_given() -> None:
    env = gymnasium.make(LOST_SALES, max_episode_steps=3)
    env.reset(seed=0)
    ends = [env.step(np.zeros(1, dtype=np.float32))[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_copies_run_side_by_side() -> None:
    envs = gymnasium.make_vec(LOST_SALES, num_envs=3, vectorization_mode="sync", problem=shop(1))
    observations, _ = envs.reset(seed=5)
    assert observations.shape == (3, 2)
    for _ in range(3):
        infos = envs.step(np.ones((3, 1), dtype=np.float32))[4]
    assert len(set(infos["sales"])) > 1
    envs.close()


# The system


@pytest.mark.parametrize("lead_time", [0, 2, 6])
@pytest.mark.parametrize("level", [0.0, 3.1, 7.0, HIGH])
@pytest.mark.parametrize("cost", [None, own_cost])
def test_base_stock_level_does_what_the_kernel_does(
    lead_time: int, level: float, cost: object
) -> None:
    others = {} if cost is None else {"period_cost": cost, "cost_bound": 100}
    problem = shop(lead_time, **others)
    env = LostSalesEnv(problem=problem, demand=SPORADIC, reveal_demand=True)
    observations, rewards, info = play(env, level, 300)
    held = np.zeros(1 + lead_time)
    stock, sales, orders = kernels.roll_out(level, info["demand"], held)
    own = 0.0 if cost is None else cost_of_each(cost, stock, sales, orders)
    lost, left = info["demand"] - sales, stock - sales
    close = {"rtol": 0, "atol": ROUNDING}
    np.testing.assert_allclose(info["stock"], stock, **close)
    np.testing.assert_allclose(info["sales"], sales, **close)
    np.testing.assert_allclose(info["lost_sales"], lost, **close)
    np.testing.assert_allclose(observations[1:, 0], left, **close)
    np.testing.assert_allclose(observations[-1], held, **close)
    close["atol"] *= 1 + 10 + 2
    np.testing.assert_allclose(info["pseudo_cost"], left - 10 * sales + own, **close)
    np.testing.assert_allclose(info["true_cost"], left + 10 * lost + own, **close)
    assert stock.size == 300
    assert (rewards == -info["pseudo_cost"]).all()
    if 0 < level < HIGH:
        assert lost.max() > 0


@pytest.mark.parametrize("lead_time", [0, 1, 3])
def test_whole_numbers_pass_exactly(lead_time: int) -> None:
    problem = shop(lead_time, levels={"low": 0, "high": 16})
    env = LostSalesEnv(problem=problem, demand=Poisson(mean=2), reveal_demand=True)
    _, rewards, info = play(env, 8, 200)
    stock, sales, _ = kernels.roll_out(8, info["demand"], np.zeros(1 + lead_time))
    left = stock - sales
    assert (info["stock"] == stock).all()
    assert (info["sales"] == sales).all()
    assert (info["order"][0], *info["order"][1:]) == (8, *sales[:-1])
    assert (rewards == 10 * sales - left).all()


def test_an_order_arrives_after_the_lead_time() -> None:
    env = LostSalesEnv(problem=shop(2, levels={"low": 0, "high": 8}), demand=Constant(value=0))
    assert env.reset()[0].tolist() == [0, 0, 0]
    actions = np.array([[0.0], [-1.0], [-0.5], [-1.0]], dtype=np.float32)
    seen = [env.step(action)[0].tolist() for action in actions]
    assert seen == [[0, 0, 4], [0, 4, 0], [4, 0, 2], [4, 2, 0]]


@given(
    lead_time=st.integers(0, 5),
    high=st.floats(1e-30, 1e30) | st.floats(0.1, 100),
    actions=st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=30),
    busy=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_observations_stay_in_bounds_and_what_goes_in_comes_out(
    lead_time: int, high: float, actions: list[float], busy: bool
) -> None:
    demand = Empirical(values=(0.0, high / 3, high / 7) if busy else (0.0,))
    env = LostSalesEnv(problem=shop(lead_time, levels={"low": 0, "high": high}), demand=demand)
    env.reset(seed=3)
    ordered = sold = 0.0
    for action in actions:
        observation, _, _, _, info = env.step(np.array([action], dtype=np.float32))
        assert observation in env.observation_space
        assert 0 <= info["order"] <= (action + 1) / 2 * high
        assert info["sales"] <= info["stock"] <= high * (1 + 1e-12)
        ordered += info["order"]
        sold += info["sales"]
    assert ordered - sold == pytest.approx(observation.sum(dtype=float), abs=1e-5 * high)


@pytest.mark.parametrize("lead_time", [0, 2, 6])
@pytest.mark.parametrize("level", [3.1, 4.1, HIGH])
def test_rounding_is_never_an_order(lead_time: int, level: float) -> None:
    # A fixed cost per order would be charged for it.
    env = LostSalesEnv(problem=shop(lead_time), demand=SPORADIC)
    _, _, info = play(env, level, 400)
    no_sales = info["sales"][:-1] == 0
    assert no_sales.sum() > 50
    assert (info["order"][1:][no_sales] == 0).all()
    orders = info["order"][info["order"] > 0]
    assert orders.min() > NO_ORDER * HIGH


# What is seen


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Constant(value=5), Constant(value=9)),
        (Empirical(values=(0, 1, 2, 4)), Empirical(values=(0, 1, 2, 400))),
        (Exponential(mean=2, maximum=3.1), Exponential(mean=2)),
    ],
)
@pytest.mark.parametrize("lead_time", [0, 2])
def test_lost_demand_is_not_seen(one: Demand, other: Demand, lead_time: int) -> None:
    envs = [
        LostSalesEnv(problem=shop(lead_time), demand=law, render_mode="ansi")
        for law in (one, other)
    ]
    for a, b in zip(*(play(env, 3, 200)[:2] for env in envs), strict=True):
        assert (a == b).all()
    (info, text, public), (other_info, other_text, other_public) = (
        (play(env, 3, 200)[2], env.render(), public_values(env)) for env in envs
    )
    assert sorted(info) == ["order", "pseudo_cost", "sales", "stock"]
    assert all((info[name] == other_info[name]).all() for name in info)
    assert text == other_text
    assert public == other_public


def test_revealed_demand_changes_nothing_else() -> None:
    hidden, shown = (
        play(LostSalesEnv(demand=SPORADIC, reveal_demand=reveal), 3, 100)
        for reveal in (False, True)
    )
    assert (hidden[0] == shown[0]).all()
    assert (hidden[1] == shown[1]).all()
    extra = set(shown[2]) - set(hidden[2])
    assert extra == {"demand", "lost_sales", "true_cost"}
    # The two costs differ by what no order changes.
    difference = shown[2]["true_cost"] - shown[2]["pseudo_cost"]
    np.testing.assert_allclose(difference, 10 * shown[2]["demand"], atol=1e-9)


# Seeds


def test_the_same_seed_gives_the_same_run() -> None:
    env = LostSalesEnv(demand=SPORADIC)
    first = play(env, 4, 60, seed=7)[1]
    second = play(env, 4, 60, seed=None)[1]
    assert (first != second).any()
    assert (play(LostSalesEnv(demand=SPORADIC), 4, 60, seed=7)[1] == first).all()
    assert (play(env, 4, 60, seed=7)[1] == first).all()
    assert (play(env, 4, 60, seed=None)[1] == second).all()
    assert (play(env, 4, 60, seed=8)[1] != first).any()


def test_the_number_of_steps_does_not_change_the_next_run() -> None:
    runs = []
    for periods in (1, 50):
        env = LostSalesEnv(demand=SPORADIC)
        play(env, 4, periods, seed=7)
        runs.append(play(env, 4, 60, seed=None)[1])
    assert (runs[0] == runs[1]).all()


# Text and refusals


def test_render_is_a_line_of_text() -> None:
    env = LostSalesEnv(problem=shop(0), demand=Constant(value=1.5), render_mode="ansi")
    env.reset()
    assert env.render() == "Period 0: 0 on hand, nothing under way, last sales none yet."
    env.step(env.base_stock_action(HIGH, [0]))
    assert env.render() == "Period 1: 8.2 on hand, nothing under way, last sales 1.5."
    assert LostSalesEnv().render() is None


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        ([np.nan], "An action must lie between -1 and 1, not at nan."),
        ([np.inf], "An action must lie between -1 and 1, not at inf."),
        ([1.01], "An action must lie between -1 and 1, not at 1.01."),
        ([-1.01], "An action must lie between -1 and 1, not at -1.01."),
        (0.5, r"An action has shape \(1,\), not \(\)."),
        ([0.5, 0.5], r"An action has shape \(1,\), not \(2,\)."),
        (["much"], r"An action is an array of one number, not \['much'\]."),
    ],
)
def test_bad_actions_are_refused_and_change_nothing(action: object, sentence: str) -> None:
    env = LostSalesEnv(demand=SPORADIC)
    env.reset(seed=1)
    with pytest.raises(InputError, match=sentence):
        env.step(action)  # type: ignore[arg-type]
    fresh = LostSalesEnv(demand=SPORADIC)
    fresh.reset(seed=1)
    good = np.ones(1, dtype=np.float32)
    for _ in range(5):
        got, expected = env.step(good), fresh.step(good)
        assert got[1] == expected[1]
        assert got[0].tolist() == expected[0].tolist()


def test_rounding_beyond_the_bounds_of_an_action_is_allowed() -> None:
    env = LostSalesEnv(problem=shop(1))
    env.reset()
    assert env.step(np.array([-1 - 1e-7]))[4]["order"] == 0
    assert env.step(np.array([1 + 1e-7]))[4]["order"] == HIGH


@pytest.mark.parametrize("render_mode", ["human", "rgb_array", ""])
def test_other_render_modes_are_refused(render_mode: str) -> None:
    with pytest.raises(InputError, match=f"Unknown render mode '{render_mode}'"):
        LostSalesEnv(render_mode=render_mode)


def test_other_refusals_are_sentences() -> None:
    env = LostSalesEnv()
    with pytest.raises(gymnasium.error.ResetNeeded, match="before the first reset"):
        env.step(np.zeros(1, dtype=np.float32))
    with pytest.raises(InputError, match=r"Unknown option 'stock': reset\(\) takes none."):
        env.reset(options={"stock": 3})
    for level in (-1.0, 7.1, np.nan):
        with pytest.raises(InputError, match=f"A level must lie between 0 and 7.0, not {level}."):
            env.base_stock_action(level, [0, 0, 0])
    with pytest.raises(InputError, match=r"An observation has shape \(3,\), not \(2,\)."):
        env.base_stock_action(3, [0, 0])
    for high in (1e-30 / 2, 2e30):
        with pytest.raises(InputError, match="single precision"):
            LostSalesEnv(problem=shop(levels={"low": 0, "high": high}))
