import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iopea
from iopea import InputError, LostSales, ModelMismatchError, Trajectory
from iopea.demand import Constant, Exponential, Poisson
from iopea.testing.twins import assert_same_state

LEVELS = np.linspace(0.0, 10.0, 21)


def shop(lead_time=2, high=10.0, **changes):
    values = {
        "lead_time": lead_time,
        "holding_cost": 1.0,
        "lost_sales_cost": 9.0,
        "levels": {"low": 0.0, "high": high},
    }
    return LostSales(**{**values, **changes})


class FixedDemand:
    """A stream that gives the demand it was made with."""

    def __init__(self, values):
        self.values, self.at = np.asarray(values, dtype=float), 0

    def draw(self, n):
        self.at += n
        return self.values[self.at - n : self.at].copy()

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def simulator(problem, demand):
    result = problem.simulator(Constant(value=1.0))
    result._stream = FixedDemand(demand)
    return result


demand_path = st.lists(st.one_of(st.just(0.0), st.floats(0.0, 12.0)), min_size=30, max_size=60).map(
    np.array
)


@given(st.integers(0, 6), st.floats(0.0, 10.0), st.floats(0.0, 1.0), demand_path)
@settings(deadline=None, max_examples=150)
def test_replay_from_sales_equals_the_real_rollout(lead_time, level, share, demand):
    """The sample-path order: θ' <= θ is known exactly from the sales of θ."""
    problem = shop(lead_time)
    lower = share * level
    path = simulator(problem, demand).play((level,), demand.size).trajectory
    evaluator = problem.evaluator(np.array([[lower], [level]]))
    assert evaluator.observe(path, evaluate=True) == demand.size
    estimates = evaluator.estimates()
    for column, played in enumerate((lower, level)):
        costs = simulator(problem, demand).play((played,), demand.size).costs
        pseudo = costs - problem.system.lost_sales_cost * demand
        sums = estimates.sums[:, column].sum()
        assert sums == pytest.approx(pseudo.sum(), abs=1e-7)


def rolled_out(problem, level, demand):
    return simulator(problem, demand).play((level,), demand.size)


@given(st.integers(0, 5), st.lists(st.floats(0.0, 10.0), min_size=2, max_size=5), demand_path)
@settings(deadline=None, max_examples=150)
def test_candidates_run_on_through_hand_overs(lead_time, plays, demand):
    """Whatever levels follow each other, a candidate costs what it would from the beginning.

    Unless demand was censored while it held more than was there: then it sold at least as much.
    """
    problem = shop(lead_time)
    plays = sorted(plays, reverse=True)
    candidates = plays[-1] * np.array([0.0, 0.3, 0.7, 1.0])
    system, seen = simulator(problem, demand), problem.evaluator(candidates[:, None])
    parts = np.array_split(np.arange(demand.size), len(plays))
    paths = []
    for level, part in zip(plays, parts, strict=True):
        paths.append(system.play((level,), part.size).trajectory)
        assert seen.observe(paths[-1], evaluate=True) == part.size
    stock = np.concatenate([path["stock"] for path in paths])
    censored = np.concatenate([path["sales"] >= path["stock"] for path in paths])
    for column, level in enumerate(candidates):
        own = rolled_out(problem, level, demand)
        if (censored & (own.trajectory["stock"] > stock + 1e-9)).any():
            continue
        pseudo = own.costs - problem.system.lost_sales_cost * demand
        assert seen.estimates().sums[:, column].sum() == pytest.approx(pseudo.sum(), abs=1e-7)


def test_hardly_any_step_of_a_run_needs_unseen_demand():
    """Of the steps of a run, those in which the best level is known only from below."""
    problem, law = shop(lead_time=2), Exponential(mean=1.0, zero_probability=0.3)
    demand = law.stream(np.random.SeedSequence(7)).draw(20_000)
    learner, paths = iopea.IOPEA(problem, play="maximal", horizon=20_000), []
    system = simulator(problem, demand)
    while sum(map(len, paths)) < demand.size:
        play = learner.ask()
        steps = min(play.steps, demand.size - sum(map(len, paths)))
        paths.append(system.play(play.policy, steps).trajectory)
        learner.tell(paths[-1])
    stock = np.concatenate([path["stock"] for path in paths])
    sales = np.concatenate([path["sales"] for path in paths])
    own = rolled_out(problem, learner.recommend()[0], demand).trajectory["stock"]
    assert ((sales >= stock) & (own > stock + 1e-9)).mean() < 1e-3


def test_every_step_of_a_hand_over_counts():
    problem = shop(lead_time=1)
    system = simulator(problem, np.ones(40))
    evaluator = problem.evaluator(LEVELS[:4])
    assert evaluator.observe(system.play((9.0,), 10).trajectory, True) == 10
    assert evaluator.observe(system.play((4.0,), 10).trajectory, True) == 10
    assert evaluator.estimates().steps.tolist() == [20.0] * 4


def true_pseudo_costs(problem, levels, demand):
    costs = [simulator(problem, demand).play((level,), demand.size).costs for level in levels]
    return np.mean(costs, axis=1) - problem.system.lost_sales_cost * demand.mean()


def test_short_deliveries_are_counted_and_do_not_disturb_lower_levels():
    problem = shop(lead_time=1)
    rng = np.random.default_rng(8)
    demand = rng.exponential(1.0, 4000)
    # Every fifth period two units of the stock are found broken; the shop orders them again.
    on_hand, order, stock, sales = 0.0, 0.0, np.empty(4000), np.empty(4000)
    for t in range(4000):
        placed = 8.0 - on_hand - order
        stock[t] = max(on_hand + order - 2.0 * (t % 5 == 4), 0.0)
        sales[t] = min(stock[t], demand[t])
        on_hand, order = stock[t] - sales[t], placed
    levels = np.array([1.0, 2.0, 3.0])
    evaluator = problem.evaluator(levels)
    assert evaluator.observe(Trajectory(8.0, stock=stock, sales=sales), True) == 4000
    # Each is inconsistent when it is short, and when it is ordered again.
    assert 1400 < evaluator.departures <= 1600
    exact = true_pseudo_costs(problem, levels, demand)
    np.testing.assert_allclose(evaluator.estimates().mean, exact, rtol=2e-3)


@pytest.mark.parametrize("decimals", [2, 6])
def test_rounded_records_are_told_from_wrong_ones(decimals):
    problem = shop(lead_time=2)
    demand = np.random.default_rng(9).exponential(1.0, 3000)
    path = simulator(problem, demand).play((8.0,), 3000).trajectory
    stock = np.round(path["stock"], decimals)
    sales = np.minimum(np.round(path["sales"], decimals), stock)
    evaluator = problem.evaluator(LEVELS[:17])
    assert evaluator.observe(Trajectory(8.0, stock=stock, sales=sales), True) == 3000
    if decimals == 6:
        assert evaluator.contradiction is None
    else:
        assert "rounded to 0.01: levels with a step of 0.04" in evaluator.contradiction
    exact = true_pseudo_costs(problem, LEVELS[:17], demand)
    np.testing.assert_allclose(evaluator.estimates().mean, exact, atol=0.02)


def test_a_shop_that_starts_with_stock_contradicts_nothing():
    problem = shop(lead_time=1)
    stock = 20.0 - np.arange(60.0)
    evaluator = problem.evaluator(LEVELS[:7])
    path = Trajectory(6.0, stock=np.maximum(stock, 5.0), sales=np.ones(60))
    assert evaluator.observe(path, True) == 60
    assert evaluator.contradiction is None


def test_records_that_contradict_the_model_are_told_and_stop_the_verdicts():
    problem = shop(lead_time=0)
    learner = iopea.IOPEA(problem, radius=0.1)
    while learner.steps < 300:
        play = learner.ask()
        wrong = np.full(play.steps, 4.0)
        learner.tell(Trajectory(play.policy, stock=wrong, sales=np.full(play.steps, 1.0)))
    assert learner.survivors == learner.count
    assert "steps contradict the model, so that nothing more is eliminated" in learner.outlook


@pytest.mark.parametrize("lead_time", [0, 2])
def test_learners_never_see_demand_that_was_lost(lead_time):
    problem = shop(lead_time)
    rng = np.random.default_rng(5)
    demand = np.where(rng.random(3000) < 0.3, 0.0, rng.exponential(2.0, 3000))
    for restart in ("none", "return"):
        learner = iopea.IOPEA(problem, restart=restart, radius=0.05)
        system = simulator(problem, demand)
        censored = np.zeros(demand.size, dtype=bool)
        done = 0
        while done < demand.size:
            play = learner.ask()
            rollout = system.play(
                play.policy, min(play.steps, demand.size - done), play.until_start
            )
            path = rollout.trajectory
            censored[done : done + len(path)] = path["sales"] == path["stock"]
            learner.tell(path)
            done += len(path)
        assert censored.sum() > 100
        more = demand + censored * rng.exponential(5.0, demand.size)
        other = iopea.IOPEA(problem, restart=restart, radius=0.05)
        iopea.run(other, simulator(problem, more), demand.size)
        assert_same_state(other.state_dict(), learner.state_dict())


def test_newsvendor_quantile():
    """With no lead time the best level is the quantile p/(h+p) of demand."""
    problem = shop(lead_time=0)
    best = iopea.best_in_class(problem.simulator(Exponential(mean=2.0)), steps=2_000_000)
    quantile = 2.0 * math.log(1 + 9.0)
    assert best.policy[0] == pytest.approx(quantile, rel=0.01)
    # h E(θ-D)^+ + p E(D-θ)^+ = h (θ - m + m e^(-θ/m)) + p m e^(-θ/m)
    exact = quantile - 2.0 + 2.0 / 10 + 9.0 * 2.0 / 10
    assert abs(best.cost - exact) < 5 * best.standard_error + 0.001


def test_learned_newsvendor_level_is_near_the_quantile():
    problem = shop(lead_time=0)
    learner = iopea.IOPEA(problem, horizon=50_000)
    result = iopea.run(learner, problem.simulator(Exponential(mean=2.0), seed=3), 50_000)
    # The standard deviation of an empirical quantile is sqrt(q(1-q)/n) / density = 0.027 here.
    assert result.recommendation[0] == pytest.approx(2.0 * math.log(10.0), abs=6 * 0.027)


def test_constant_demand_is_learned_at_once():
    problem = shop(lead_time=1, levels={"low": 0, "high": 10, "step": 1})
    learner = iopea.IOPEA(problem, play="maximal")
    system = problem.simulator(Constant(value=3.0))
    assert iopea.run(learner, system, 500).recommendation == (6.0,)
    # Higher levels, which would be played, are gone; lower ones cost nothing and may wait.
    assert learner.surviving.max() == 6.0
    assert iopea.run(learner, system, 19_500).stop is iopea.Stop.SINGLE


def stepwise(stock, sales, order):
    """Every started batch of four units costs 6."""
    return 6.0 * math.ceil(order / 4.0)


def test_a_non_convex_cost_is_learned():
    plain = shop(lead_time=1, levels={"low": 0, "high": 20, "step": 1})
    problem = shop(
        lead_time=1,
        levels={"low": 0, "high": 20, "step": 1},
        period_cost=stepwise,
        cost_bound=30.0,
    )
    demand = Poisson(mean=3.0)
    best = iopea.best_in_class(problem.simulator(demand), steps=1_000_000)
    assert best.cost > iopea.best_in_class(plain.simulator(demand), steps=1_000_000).cost + 1
    result = iopea.run(iopea.IOPEA(problem), problem.simulator(demand, seed=2), 100_000)
    gap = best.relative_gaps(problem.simulator(demand), [result.recommendation])
    assert gap[0] < 0.002


def test_a_state_is_bound_to_its_own_cost():
    def dearer(stock, sales, order):
        return 7.0 * math.ceil(order / 4.0)

    one = shop(period_cost=stepwise, cost_bound=30.0)
    other = shop(period_cost=dearer, cost_bound=30.0)
    assert one.describe() == shop(period_cost=stepwise, cost_bound=30.0).describe()
    with pytest.raises(InputError, match="problem"):
        iopea.IOPEA(other).load_state_dict(iopea.IOPEA(one).state_dict())


def test_simulated_costs_are_the_costs_of_real_rollouts():
    problem, demand = shop(lead_time=2), Exponential(mean=1.5, zero_probability=0.2)
    levels = np.array([2.0, 4.0, 7.0])
    estimates = problem.simulator(demand).costs(levels, 4000, 8, seed=1)
    from iopea.seeds import seed_for

    path = demand.stream(seed_for("evaluation", 1)).draw(4000)
    for column, level in enumerate(levels):
        costs = simulator(problem, path).play((level,), 4000).costs
        np.testing.assert_allclose(
            estimates.sums[:, column], costs.reshape(8, -1).sum(axis=1), rtol=1e-10
        )


def test_constants_are_those_of_the_corollary():
    constants = shop(lead_time=3, high=5.0).constants
    assert constants.span == 36 * 9 * 3 * 5
    assert constants.lipschitz == 9
    assert (constants.cost_low, constants.cost_high) == (-45, 5)
    assert (constants.alpha, constants.dimension, constants.bound) == (1, 1, 5)
    assert constants.data_needed(0.05) == 1
    assert shop(lead_time=0).constants.span > 0


def test_numpy_numbers_are_numbers():
    levels = {"low": np.float32(0), "high": np.int64(10)}
    assert shop(lead_time=np.int64(2), levels=levels) == shop(lead_time=2)


def test_time_back_to_the_empty_shop():
    """D_Θ = U E(τ), where τ is geometric if demand is 0 or 1."""
    half = Constant(value=1.0, zero_probability=0.5)
    # τ has mean 2 and standard deviation sqrt(2); there are about 100,000 of them.
    expected = 10.0 * 2
    assert shop().simulator(half).restart_time() == pytest.approx(expected, rel=6 * 0.7 / 316)
    assert shop().simulator(Constant(value=0.25)).restart_time() == 40
    assert shop().simulator(Constant(value=0.0)).restart_time() == math.inf


def test_order_has_width_one_and_the_highest_level_is_maximal():
    order = shop().order(LEVELS)
    assert order.width() == 1
    assert order.maximal().tolist() == [20]
    assert order.informs(5, 3)
    assert not order.informs(3, 5)


def test_float32_estimates_are_close():
    problem = shop()
    path = problem.simulator(Exponential(mean=2.0)).play((10.0,), 2000).trajectory
    means = []
    for precision in ("float64", "float32"):
        evaluator = problem.evaluator(LEVELS, precision=precision)
        evaluator.observe(path, True)
        means.append(evaluator.estimates().mean)
    np.testing.assert_allclose(means[1], means[0], rtol=1e-4)


def test_batches_are_joined_and_nothing_is_lost():
    problem = shop()
    path = problem.simulator(Exponential(mean=2.0)).play((10.0,), 5000).trajectory
    evaluator = problem.evaluator(LEVELS)
    evaluator.observe(path, True)
    estimates = evaluator.estimates()
    assert estimates.sizes.sum() == 5000
    assert len(estimates.sizes) < 256
    costs = problem.simulator(Exponential(mean=2.0)).play((10.0,), 5000)
    held = path["stock"] - path["sales"]
    assert estimates.sums[:, -1].sum() == pytest.approx((held - 9 * path["sales"]).sum())
    assert len(costs.trajectory) == 5000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lead_time": -1}, ["lead_time", "-1", "at least 0"]),
        ({"lead_time": 1.5}, ["lead_time", "1.5", "whole"]),
        ({"lead_time": True}, ["lead_time", "True"]),
        ({"holding_cost": -2.0}, ["holding_cost", "-2.0"]),
        ({"holding_cost": math.nan}, ["holding_cost", "nan"]),
        ({"lost_sales_cost": math.inf}, ["lost_sales_cost", "inf"]),
        ({"lost_sales_cost": "ten"}, ["lost_sales_cost", "'ten'"]),
        ({"levels": {"low": 3.0, "high": 2.0}}, ["3.0", "2.0", "low"]),
        ({"levels": {"low": 0.0, "high": 2.0, "step": 0}}, ["step", "0"]),
        ({"levels": {"low": 0.0, "hihg": 2.0}}, ["hihg", "did you mean 'high'"]),
        ({"levels": {"low": 0.0}}, ["high", "missing"]),
        ({"levels": 7}, ["levels", "7"]),
        ({"levels": {"low": 0.0, "high": 0.0}}, ["high", "0.0"]),
        ({"leadtime": 2}, ["leadtime", "did you mean 'lead_time'"]),
        ({"holding_cost": 0, "lost_sales_cost": 0}, ["0"]),
        ({"period_cost": stepwise}, ["cost_bound"]),
        ({"period_cost": stepwise, "cost_bound": 1.0}, ["18.0", "1.0", "cost_bound"]),
        ({"period_cost": lambda a, b: 0.0, "cost_bound": 1.0}, ["(0.0, 0.0, 0.0)"]),
        ({"period_cost": lambda a, b, c: math.nan, "cost_bound": 1.0}, ["nan"]),
        ({"lead_time": 10**9}, ["lead_time", "1000000000"]),
        ({"holding_cost": 10**400}, ["holding_cost"]),
    ],
)
def test_a_wrong_value_is_refused_in_a_sentence(change, words):
    with pytest.raises(InputError) as caught:
        shop(**change)
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text


def test_impossible_trajectories_are_refused():
    problem = shop()
    for path, words in [
        (Trajectory(3.0, stock=[-1.0], sales=[0.0]), "-1.0"),
        (Trajectory(3.0, stock=[1.0], sales=[-0.5]), "-0.5"),
        (Trajectory(3.0, stock=[1.0]), "stock, sales"),
        (Trajectory(3.0, stock=[1.0], sales=[1.0], demand=[2.0]), "demand"),
    ]:
        with pytest.raises(InputError, match=words):
            problem.check(path)
    with pytest.raises(ModelMismatchError, match=r"3\.5 at step 0, above the 3\.0 in stock"):
        problem.check(Trajectory(3.0, stock=[3.0], sales=[3.5]))
    for columns in ({"stock": [math.nan]}, {"stock": ["x"]}, {"stock": [[1.0]]}):
        with pytest.raises(InputError, match="stock"):
            Trajectory(3.0, **columns)
    with pytest.raises(InputError, match="differ in length"):
        Trajectory(3.0, stock=[1.0, 2.0], sales=[1.0])
