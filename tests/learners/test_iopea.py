import json
import math
from typing import ClassVar

import numpy as np
import pytest
from scipy.stats import binom

import iopea
from iopea import (
    IOPEA,
    InformationOrder,
    InputError,
    ModelMismatchError,
    Trajectory,
)
from iopea.demand import Normal
from iopea.policies import Finite
from iopea.problems.base import Constants, Evaluator, PolicyFamily, Problem, Simulator, System
from iopea.simulate import compare_runs
from iopea.state import sealed
from iopea.systems.dual_sourcing import DualSourcing
from iopea.testing.twins import assert_same_state
from iopea.types import Estimates, Rollout
from small_problems import DEMAND, shop

SETTINGS = [
    {"rule": rule, "restart": restart}
    for rule in ("paired", "theorem", "published")
    for restart in ("none", "return")
] + [{"play": "maximal"}, {"play": "maximal", "precision": "float32"}]


def learner_with(settings, problem=None):
    return IOPEA(problem or shop(), horizon=20_000, radius=0.05, **settings)


@pytest.mark.parametrize("settings", SETTINGS)
def test_two_runs_equal_one(settings):
    problem = shop()
    whole, halves = learner_with(settings), learner_with(settings)
    once = iopea.run(whole, problem.simulator(DEMAND, seed=1), 5000)
    system = problem.simulator(DEMAND, seed=1)
    parts = [iopea.run(halves, system, steps).costs for steps in (1, 777, 2222, 2000)]
    np.testing.assert_array_equal(np.concatenate(parts), once.costs)
    assert_same_state(halves.state_dict(), whole.state_dict())
    assert halves.recommend() == once.recommendation


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("steps", [1, 100, 1777])
def test_saved_in_the_middle_of_an_epoch_and_loaded(settings, steps, tmp_path):
    problem = shop()
    whole = learner_with(settings)
    once = iopea.run(whole, problem.simulator(DEMAND, seed=2), steps + 3000)

    first, system = learner_with(settings), problem.simulator(DEMAND, seed=2)
    before = iopea.run(first, system, steps)
    iopea.save_state(first.state_dict(), tmp_path / "learner.npz")
    iopea.save_state(system.state_dict(), tmp_path / "system.npz")
    second, resumed = learner_with(settings), problem.simulator(DEMAND, seed=99)
    second.load_state_dict(iopea.load_state(tmp_path / "learner.npz"))
    resumed.load_state_dict(iopea.load_state(tmp_path / "system.npz"))
    assert second.ask() == first.ask()
    after = iopea.run(second, resumed, 3000)
    np.testing.assert_array_equal(np.concatenate([before.costs, after.costs]), once.costs)
    assert_same_state(second.state_dict(), whole.state_dict())


@pytest.mark.parametrize("restart", ["none", "return"])
@pytest.mark.parametrize("looks", [0, 1, 3])
def test_what_the_last_look_knew_is_saved(looks, restart, tmp_path):
    """The next test takes off what the last one has spent: a state without it would not do."""
    problem, settings = shop(), {"restart": restart, "play": "maximal"}
    first, system = learner_with(settings), problem.simulator(DEMAND, seed=5)
    epochs = first.rule.silent + looks if looks else 0
    while len(first.records) < epochs or first.steps < 20:
        play = first.ask()
        first.tell(system.play(play.policy, 1).trajectory)
    state = first.state_dict()
    look = state["state"]["pool"]["look"]
    assert (look is None) == (looks == 0)
    if look is not None:
        assert look["steps"].shape == (first.survivors,)
        assert all(0 < each < 0.05 for each in look["probabilities"])
    iopea.save_state(state, tmp_path / "learner.npz")
    iopea.save_state(system.state_dict(), tmp_path / "system.npz")
    second, again = learner_with(settings), problem.simulator(DEMAND, seed=9)
    second.load_state_dict(iopea.load_state(tmp_path / "learner.npz"))
    again.load_state_dict(iopea.load_state(tmp_path / "system.npz"))
    assert_same_state(second.state_dict(), state)
    costs = [iopea.run(*pair, 500).costs for pair in ((first, system), (second, again))]
    np.testing.assert_array_equal(*costs)
    assert_same_state(second.state_dict(), first.state_dict())
    assert [vars(each) for each in first.records] == [vars(each) for each in second.records]
    # It matters: without the look the next threshold is another one.
    if look is not None:
        state["state"]["pool"]["look"] = None
        del state["digest"]
        blind, again = learner_with(settings), problem.simulator(DEMAND, seed=9)
        blind.load_state_dict(sealed(state))
        again.load_state_dict(iopea.load_state(tmp_path / "system.npz"))
        iopea.run(blind, again, 500)
        assert blind.records[epochs].threshold > first.records[epochs].threshold


@pytest.mark.parametrize("first", [1, 3, 17, 200])
def test_the_first_epoch_is_as_long_as_asked_for(first):
    problem = shop()
    learner = IOPEA(problem, play="maximal", radius=0.05, first_epoch=first)
    assert learner.ask().steps == first
    assert learner.settings()["first_epoch"] == first
    iopea.run(learner, problem.simulator(DEMAND, seed=1), 1000)
    ends = [record.steps for record in learner.records]
    assert ends[0] >= first
    assert (np.diff(ends) >= 1).all()
    # Other settings make other states.
    with pytest.raises(InputError, match="settings"):
        IOPEA(problem, radius=0.05).load_state_dict(learner.state_dict())


@pytest.mark.parametrize("lead_time", [0, 2, 3, 50])
def test_without_a_wish_the_first_test_comes_after_48_steps_or_20_lead_times(lead_time):
    """Before it the data is doubled three times, and nothing is dropped."""
    first = max(48, 20 * lead_time)
    learner = IOPEA(shop(lead_time=lead_time), play="maximal", radius=0.05)
    assert learner.settings()["first_epoch"] is None
    assert learner.ask().steps == first // 8
    same = IOPEA(shop(lead_time=lead_time), play="maximal", radius=0.05, first_epoch=first)
    totals = [
        np.cumsum([each.rule.epoch_length(k) for k in range(1, 30)]) for each in (learner, same)
    ]
    assert totals[0][:3].tolist() == [first // 8, first // 4, first // 2]
    np.testing.assert_array_equal(totals[0][3:], totals[1][:-3])
    assert (learner.rule.silent, same.rule.silent) == (3, 0)


def test_a_shop_that_reports_once_a_day_learns_the_same():
    problem = shop()
    daily, at_once = learner_with({}), learner_with({})
    iopea.run(at_once, problem.simulator(DEMAND, seed=3), 600)
    system = problem.simulator(DEMAND, seed=3)
    for _ in range(600):
        daily.tell(system.play(daily.ask().policy, 1).trajectory)
    assert_same_state(daily.state_dict(), at_once.state_dict())


@pytest.mark.parametrize("settings", SETTINGS)
def test_ask_is_idempotent_and_the_horizon_exact(settings):
    problem, learner = shop(), learner_with(settings)
    for steps in (1, 13, 500):
        before = learner.state_dict()
        assert learner.ask() == learner.ask()
        assert_same_state(learner.state_dict(), before)
        told = learner.steps
        result = iopea.run(learner, problem.simulator(DEMAND), steps)
        assert len(result.costs) == steps
        assert learner.steps == told + steps
        learner = learner_with(settings)


@pytest.mark.parametrize(
    ("play", "radius", "steps"), [("maximal", 0.002, 4000), ("frugal", 0.02, 400)]
)
def test_threads_and_workers_do_not_change_a_bit(play, radius, steps):
    problem = shop()

    def once(seed, **threads):
        learner = IOPEA(problem, play=play, horizon=4000, radius=radius, **threads)
        return iopea.run(learner, problem.simulator(DEMAND, seed), steps)

    def threaded(seed):
        return once(seed, threads=1 + seed % 3)

    results = [iopea.run_all(threaded, range(6), workers) for workers in (1, 2, 4)]
    results.append([once(seed) for seed in range(6)])
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one.costs, two.costs)
            assert one.recommendation == two.recommendation
            assert one.records == two.records


def test_paired_finds_the_best_level():
    problem = shop()
    best = iopea.best_in_class(problem.simulator(DEMAND), steps=2_000_000)
    result = iopea.run(IOPEA(problem, horizon=50_000), problem.simulator(DEMAND, seed=7), 50_000)
    gap = best.relative_gaps(problem.simulator(DEMAND), [result.recommendation])[0]
    # Every survivor is within a few standard errors of the best: 0.5 % is ten of them.
    assert gap < 0.005
    assert result.records[-1].lowest < best.policy < result.records[-1].highest
    survivors = [record.survivors for record in result.records]
    assert survivors == sorted(survivors, reverse=True)
    assert result.survivors < 300
    (found,) = compare_runs([result], [problem.simulator(DEMAND, seed=7)], best)
    assert 0 < found.relative_regret < 0.05


def test_paired_needs_no_horizon():
    problem = shop()
    learner = IOPEA(problem)
    assert learner.count == 2001
    iopea.run(learner, problem.simulator(DEMAND), 3000)
    assert learner.survivors < 2001


def test_theorem_says_that_nothing_was_eliminated_and_when_it_would_be():
    problem = shop()
    learner = IOPEA(problem, rule="theorem", horizon=10_000, radius=0.05)
    result = iopea.run(learner, problem.simulator(DEMAND), 10_000)
    assert result.stop is iopea.Stop.NOTHING_ELIMINATED
    assert "Nothing was eliminated in 10000 steps" in result.outlook
    horizon = float(result.outlook.split("T = ")[1].split(" ")[0])
    assert 1e7 < horizon < 1e11
    with pytest.raises(InputError, match="needs the horizon"):
        IOPEA(problem, rule="theorem")


def test_published_uses_fifty_levels_and_is_soon_down_to_one():
    problem = shop()
    learner = IOPEA(problem, rule="published", horizon=100_000, restart="return")
    assert learner.count == 50
    assert learner.ask().steps == 4 + 2
    result = iopea.run(learner, problem.simulator(DEMAND, seed=1), 10_000)
    assert result.stop is iopea.Stop.SINGLE


def test_return_goes_through_the_empty_shop_and_none_does_not():
    problem = shop()
    learner = learner_with({"restart": "return"})
    system = problem.simulator(DEMAND, seed=4)
    returned, previous = 0, learner.ask()
    for _ in range(40):
        play = learner.ask()
        if play.until_start:
            assert play.policy == (0.0,)
            returned += 1
        elif play.epoch != previous.epoch:
            assert not system._held.any()
            previous = play
        rollout = system.play(play.policy, play.steps, play.until_start)
        learner.tell(rollout.trajectory)
    assert returned >= 10
    stays = learner_with({"restart": "none"})
    for _ in range(40):
        play = stays.ask()
        assert not play.until_start
        stays.tell(system.play(play.policy, play.steps).trajectory)


def test_a_wrong_tell_is_refused_and_changes_nothing():
    learner = learner_with({"start": 7.0})
    before = learner.state_dict()
    for path, kind, words in [
        (
            Trajectory(9.0, stock=[3.0], sales=[1.0]),
            InputError,
            "Cannot tell steps of policy 9, which is not in the class: .* ask.. requested, 7, or",
        ),
        (Trajectory(7.0, stock=[3.0], sales=[4.0]), ModelMismatchError, "4.0"),
        (Trajectory(7.0, sales=[4.0]), InputError, "columns"),
    ]:
        with pytest.raises(kind, match=words):
            learner.tell(path)
    assert_same_state(learner.state_dict(), before)


def test_loading_a_state_of_something_else_is_refused_and_changes_nothing():
    learner = learner_with({})
    before = learner.state_dict()
    for other, words in [
        (learner_with({"rule": "published"}), "settings"),
        (learner_with({}, shop(lead_time=3)), "problem"),
    ]:
        with pytest.raises(InputError, match=words):
            learner.load_state_dict(other.state_dict())
    with pytest.raises(InputError, match="schema"):
        learner.load_state_dict({**before, "schema": 0})
    assert_same_state(learner.state_dict(), before)


def test_a_state_is_json_and_arrays():
    learner, problem = learner_with({}), shop()
    iopea.run(learner, problem.simulator(DEMAND), 300)

    def without_arrays(value):
        if isinstance(value, dict):
            return {key: without_arrays(part) for key, part in value.items()}
        return "array" if isinstance(value, np.ndarray) else value

    state = without_arrays(learner.state_dict())
    assert state["schema"] == 10
    assert json.loads(json.dumps(state))["learner"] == "iopea"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rule": "pared"}, "did you mean 'paired'"),
        ({"restart": "retrun"}, "did you mean 'return'"),
        ({"delta": 0.0}, "delta.*0.0"),
        ({"delta": 1.0}, "delta.*1.0"),
        ({"horizon": 0}, "horizon.*0"),
        ({"horizon": 1.5}, "horizon.*1.5"),
        ({"radius": -1.0}, "-1.0"),
        ({"first_epoch": 0}, "first_epoch.*at least 1.*0"),
        ({"first_epoch": -3}, "first_epoch.*-3"),
        ({"first_epoch": 2.5}, "first_epoch.*2.5"),
        ({"first_epoch": "a"}, "first_epoch.*'a'"),
        ({"threads": 0}, "threads.*0"),
        ({"threads": 1.5}, "threads.*1.5"),
        ({"horizon": math.nan}, "horizon.*nan"),
        ({"horizon": "a"}, "horizon.*'a'"),
        ({"delta": "x"}, "delta.*'x'"),
        ({"rule": None}, "None"),
        ({"precision": "float16"}, "float16"),
        ({"restart": None}, "None"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        IOPEA(shop(), **settings)


@pytest.mark.parametrize("steps", [0, -3, 2.5, math.inf, True])
def test_wrong_horizons_are_refused(steps):
    with pytest.raises(InputError, match=str(steps)):
        iopea.run(IOPEA(shop()), shop().simulator(DEMAND), steps)


def test_a_damaged_state_is_refused_and_changes_nothing():
    learner = learner_with({})
    before = learner.state_dict()
    damaged = learner_with({}).state_dict()
    del damaged["state"]["records"]
    with pytest.raises(InputError, match="missing or damaged"):
        learner.load_state_dict(damaged)
    assert_same_state(learner.state_dict(), before)


def test_a_level_may_be_told_as_people_write_it():
    learner = IOPEA(shop(levels={"low": 0, "high": 0.1 * 66, "step": 0.1}), play="maximal")
    assert learner.ask().policy[0] == 6.6000000000000005
    learner.tell(Trajectory(6.6, stock=[0.0], sales=[0.0]))
    assert learner.steps == 1


def test_a_simulator_that_is_not_where_the_learner_is_is_refused():
    problem, learner = shop(), learner_with({"restart": "return"})
    system = problem.simulator(DEMAND)
    while not learner.ask().until_start:
        learner.tell(system.play(learner.ask().policy, 1).trajectory)
    with pytest.raises(InputError, match="still returning to it"):
        iopea.run(learner, problem.simulator(DEMAND), 10)


def test_published_takes_fifty_points_of_a_class_in_steps():
    problem = shop(levels={"low": 0, "high": 7, "step": 0.1})
    policies = IOPEA(problem, rule="published").surviving[:, 0]
    assert len(policies) == 50
    assert (policies[0], policies[-1]) == (0.0, 7.0)
    assert IOPEA(problem).count == 71


def test_a_single_level_needs_no_learning():
    problem = shop(levels={"low": 3.0, "high": 3.0})
    result = iopea.run(IOPEA(problem), problem.simulator(DEMAND), 100)
    assert result.recommendation == (3.0,)
    assert result.stop is iopea.Stop.SINGLE


def test_recommendation_before_any_data_is_what_is_played():
    assert IOPEA(shop(), play="maximal").recommend() == (7.0,)
    assert IOPEA(shop(), start=2.0).recommend() == (2.0,)


@pytest.mark.parametrize(("play", "runs"), [("maximal", 100), ("frugal", 20)])
def test_the_best_level_survives_at_the_promised_rate(play, runs):
    """At δ = 0.2 the best level is lost in at most 20 % of runs; a false alarm: 1 in 10^6."""
    problem = shop(levels={"low": 0.0, "high": 7.0, "step": 0.05})
    best = iopea.best_in_class(problem.simulator(DEMAND), steps=4_000_000).policy

    def lost(seed):
        learner = IOPEA(problem, play=play, delta=0.2)
        iopea.run(learner, problem.simulator(DEMAND, seed), 3000)
        return not np.isclose(learner.surviving[:, 0], best[0]).any()

    assert sum(iopea.run_all(lost, range(runs), 2)) <= binom.isf(1e-6, runs, 0.2)


# A problem with an order of width 3: each policy of a block tells of those below it in the block.


MEANS = np.array([0.5, 0.45, 0.6, 0.4, 0.55, 0.3, 0.7, 0.65, 0.5])


class Arms(System):
    kind: ClassVar = "blocks"
    columns: ClassVar = ("cost",)

    @classmethod
    def read_truth(cls, content, directory):
        raise NotImplementedError

    def simulator(self, problem, truth, seed=0):
        return BlocksSimulator(seed)

    def check(self, trajectory):
        return


class InBlocks(PolicyFamily):
    kind: ClassVar = "in-blocks"

    def policy_class(self, system):
        return Finite(np.arange(9.0))

    def constants(self, system):
        return Constants(1.0, 1.0, 8.0, 1, 0.0, 1.0)

    def restart(self, system):
        return (0.0,)

    def claim(self, system):
        return "sample-path"

    def order_on(self, system, policies):
        def informs(a, b):
            return a[0] // 3 == b[0] // 3 and b[0] <= a[0]

        return InformationOrder.from_relation(list(policies), informs)

    def evaluator(self, problem, policies, threads=1, precision="float64"):
        return BlocksEvaluator(policies[:, 0])


class Blocks(Problem):
    system_type = Arms
    families = (InBlocks,)


class BlocksEvaluator(Evaluator):
    """Costs of the played policy are seen; those below it in the block differ by a constant."""

    def __init__(self, policies):
        self.policies, self.rows, self.known = policies, [], []

    def observe(self, trajectory, evaluate):
        played = trajectory.policy[0]
        below = (self.policies // 3 == played // 3) & (self.policies <= played)
        shift = MEANS[self.policies.astype(int)] - MEANS[int(played)]
        self.rows.append((len(trajectory), trajectory["cost"].sum() + shift * len(trajectory)))
        self.known.append(below)
        return len(trajectory)

    @property
    def at_start(self):
        return True

    def estimates(self):
        sizes = np.array([float(n) for n, _ in self.rows])
        known = np.array(self.known).reshape(len(self.rows), self.policies.size)
        sums = np.array([row for _, row in self.rows]).reshape(known.shape)
        return Estimates(np.where(known, sums, 0.0), sizes[:, None] * known)

    def forget(self):
        self.rows, self.known = [], []

    def keep(self, mask):
        self.policies = self.policies[mask]
        self.rows = [(n, row[mask]) for n, row in self.rows]
        self.known = [known[mask] for known in self.known]


class BlocksSimulator(Simulator):
    def __init__(self, seed):
        super().__init__(Blocks(), None, seed)
        self.rng, self.played = np.random.default_rng(seed), []

    def _play(self, policy, steps, until_start=False):
        costs = (self.rng.random(steps) < MEANS[int(policy[0])]).astype(float)
        self.played.append((policy[0], steps))
        return Rollout(Trajectory(policy, cost=costs), costs)

    def costs(self, policies, steps, batches, seed):
        raise NotImplementedError

    def restart_time(self, seed=0):
        return 0.0


def test_each_maximal_policy_is_played_in_an_order_of_width_three():
    learner, system = IOPEA(Blocks(), rule="theorem", horizon=1_000_000), BlocksSimulator(1)
    assert learner.rule.setting.width == 3
    first = learner.rule.epoch_length(1)
    result = iopea.run(learner, system, 1_000_000)
    assert system.played[:3] == [(2.0, first), (5.0, first), (8.0, first)]
    second = learner.rule.epoch_length(2)
    assert [steps for _, steps in system.played[3:6]] == [second] * 3
    assert first == math.ceil(4 * math.log(1_000_000))
    assert result.survivors < 9
    assert result.recommendation == (5.0,)
    # In the end the block of the best policy is the only one that is played.
    assert {policy for policy, _ in system.played[-2:]} == {5.0}


def test_paired_works_across_paths_that_are_not_shared():
    class Daily(BlocksSimulator):
        """Reports in small pieces, so that there are batches to learn a variance from."""

        def _play(self, policy, steps, until_start=False):
            return super()._play(policy, min(steps, 16), until_start)

    result = iopea.run(IOPEA(Blocks()), Daily(2), 60_000)
    assert result.recommendation == (5.0,)
    assert result.survivors < 9


def test_between_the_points_of_a_thinned_net_the_recommendation_is_finer():
    """Levels up to 200 where the best are near 20: a net of 256 of them is 0.065 % off."""
    shop = DualSourcing(
        regular_lead_time=5, expedited_lead_time=0, holding_cost=1, lost_sales_cost=10,
        regular_cost=0, expedited_cost=0.5, expedited_levels={"low": 0, "high": 200},
        regular_levels={"low": 0, "high": 200},
    )  # fmt: skip
    demand = Normal(mean=40 / 3, sd=20 / 3, maximum=40, zero_probability=0.3)
    learner = IOPEA(shop, play="maximal", horizon=100_000)
    recommended = iopea.run(learner, shop.simulator(demand, 1), 30_000).recommendation
    listed = learner.surviving
    best = listed[np.nanargmin(learner.estimates().mean)]
    spacing = 200 / 255
    assert 0 < np.abs(listed - np.array(recommended)).max(axis=1).min() < spacing
    costs = iopea.evaluate(shop.simulator(demand), np.array([recommended, best]), 2_000_000).cost
    assert costs[0] < costs[1] * (1 - 3e-4)
    state = learner.state_dict()
    again = IOPEA(shop, play="maximal", horizon=100_000)
    again.load_state_dict(state)
    assert again.recommend() == recommended
    # The net's own spacing, where it was asked for, is left alone.
    coarse = IOPEA(shop, play="maximal", horizon=100_000, radius=4.0)
    chosen = iopea.run(coarse, shop.simulator(demand, 1), 10_000).recommendation
    assert np.allclose(np.array(chosen) / 4.0, np.rint(np.array(chosen) / 4.0))
