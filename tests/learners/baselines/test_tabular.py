"""Learners that count in a table: planning, what steps reveal, episodes, and what is learned."""

import itertools
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from exact_mdp import gain_and_bias, policy_iteration
from iopea.demand import Exponential, Poisson
from iopea.errors import InputError
from iopea.learners.baselines.feedback_graph import FeedbackGraph
from iopea.learners.baselines.planning import free_steps, plan
from iopea.learners.baselines.ucrl2 import UCRL2
from iopea.problem_files import read_problem
from iopea.problems.base import PolicyController
from iopea.simulate import best_in_class, run
from iopea.storage import load_state, save_state
from iopea.systems import PROBLEMS
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.finite import FiniteMDP
from iopea.systems.lost_sales import LostSales
from iopea.systems.queue import QueueRates, ServiceRateQueue
from iopea.systems.queue.kernel import ARRIVAL, MISS, NOTHING, SERVICE
from iopea.systems.shop.simplex import nearest_entries, nearest_ranks
from iopea.systems.shop.table import Simplex
from iopea.testing.twins import assert_same_state
from iopea.types import Controller, Trajectory
from small_problems import PAPER

LEARNERS = (UCRL2, FeedbackGraph)


# Planning.


def random_mdp(rng, states, actions):
    """Transitions (S, A, S), some of them 0, and costs (S, A)."""
    chances = rng.dirichlet(np.full(states, 0.4), size=(states, actions))
    chances = 0.95 * chances + 0.05 / states
    return chances, rng.uniform(-1, 3, size=(states, actions))


def plan_of(chances, costs, distances=None, tolerance=1e-8):
    states, actions, _ = chances.shape
    pairs = states * actions
    return plan(
        costs.ravel(),
        chances.reshape(pairs, states),
        np.arange(states + 1) * actions,
        np.tile(np.arange(states), (pairs, 1)),
        tolerance,
        None if distances is None else distances.ravel(),
    )


@pytest.mark.parametrize("seed", range(20))
def test_planning_without_doubt_is_policy_iteration(seed):
    rng = np.random.default_rng(seed)
    states, actions = (int(n) for n in rng.integers(2, 9, size=2))
    chances, costs = random_mdp(rng, states, actions)
    found = plan_of(chances, costs)
    best, gain = policy_iteration(chances, costs)
    assert found.low - 1e-12 <= gain <= found.high + 1e-12
    assert found.high - found.low <= 1e-8
    assert_array_equal(found.choice - np.arange(states) * actions, best)


def test_planning_settles_where_chains_are_periodic():
    # Round a ring of 4 states, or back by one: the first is cheaper where it is cheap to go on.
    around, back = np.roll(np.eye(4), 1, axis=1), np.roll(np.eye(4), -1, axis=1)
    chances = np.stack([around, back], axis=1)
    found = plan_of(chances, np.array([[1.0, 9], [2, 9], [3, 9], [4, 9]]))
    assert found.low == pytest.approx(2.5, abs=1e-6)
    assert_array_equal(found.choice, [0, 2, 4, 6])
    # Between the first two states it is cheaper.
    found = plan_of(chances, np.array([[1.0, 9], [9, 1], [9, 1], [9, 1]]))
    assert found.high == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_extended_planning_is_below_every_model_of_the_set(seed):
    rng = np.random.default_rng(100 + seed)
    states, actions = (int(n) for n in rng.integers(2, 7, size=2))
    truth, costs = random_mdp(rng, states, actions)
    centre = 0.7 * truth + 0.3 * random_mdp(rng, states, actions)[0]
    distances = np.abs(truth - centre).sum(axis=2)
    gain = plan_of(centre, costs, distances).low
    assert gain <= policy_iteration(truth, costs)[1] + 1e-8
    assert gain <= policy_iteration(centre, costs)[1] + 1e-8
    wider = plan_of(centre, costs, 1.5 * distances).low
    assert wider <= gain + 1e-8


@pytest.mark.parametrize("seed", range(4))
def test_extended_planning_finds_the_best_model_of_the_set(seed):
    # The average cost of a policy is smallest at a corner of the set: that is what moves d/2 of
    # probability from one state to another, as long as there is so much.
    rng = np.random.default_rng(200 + seed)
    states, actions = 3, 2
    centre = 0.4 * random_mdp(rng, states, actions)[0] + 0.2
    costs = rng.uniform(0, 1, size=(states, actions))
    distances = rng.uniform(0.0, 0.3, size=(states, actions))
    moves = [np.eye(3)[i] - np.eye(3)[j] for i, j in itertools.permutations(range(3), 2)]
    best = np.inf
    for policy in itertools.product(range(actions), repeat=states):
        rows = [
            [centre[s, a] + distances[s, a] / 2 * move for move in moves]
            for s, a in enumerate(policy)
        ]
        paid = costs[np.arange(states), policy]
        for chain in itertools.product(*rows):
            best = min(best, gain_and_bias(np.array(chain), paid)[0])
    found = plan_of(centre, costs, distances)
    assert found.low == pytest.approx(best, abs=1e-6)


def test_mass_is_taken_from_the_worst_states_first():
    # All but 0.1 may move from states 2 and 1, in this order, to state 0, where it is free.
    chances = np.array([[[0.2, 0.3, 0.5]]] * 3)
    costs = np.array([[0.0], [1.0], [4.0]])
    found = plan_of(chances, costs, np.array([[1.4]] * 3))
    assert found.low == pytest.approx(0.1 * 1.0, abs=1e-6)
    assert plan_of(chances, costs, np.array([[2.0]] * 3)).low == pytest.approx(0.0, abs=1e-6)


def test_impossible_outcomes_stay_impossible():
    # The cheap state 1 can't be got to, however far the probabilities may be off.
    following = np.array([[0, -1], [0, 1]])
    chances = np.array([[1.0, 0.0], [0.5, 0.5]])
    found = plan(
        np.array([3.0, 0.0]), chances, np.array([0, 1, 2]), following, 1e-9, np.full(2, 2.0)
    )
    assert found.high >= 3.0 - 1e-9  # from state 0 it stays at 3
    assert found.values[0] == 0.0


@pytest.mark.parametrize("seed", range(10))
def test_free_steps_are_never_too_many(seed):
    # On random walks, the first step of a kind that was seen often enough comes no earlier.
    rng = np.random.default_rng(300 + seed)
    states = 6
    following = np.where(rng.random((states, 3)) < 0.7, rng.integers(0, states, (states, 3)), -1)
    following[:, 0] = rng.integers(0, states, states)
    kinds = rng.integers(0, 3, states)
    missing = rng.integers(1, 6, 3)
    free = free_steps(0, np.arange(states), kinds, following, missing)
    for _ in range(50):
        seen, at, steps = np.zeros(3, int), 0, 0
        while steps < 200:
            steps += 1
            seen[kinds[at]] += 1
            if seen[kinds[at]] >= missing[kinds[at]]:
                break
            at = int(rng.choice(following[at][following[at] >= 0]))
        assert free <= steps


# Tables.


@pytest.mark.parametrize(("dimension", "total"), [(1, 5), (3, 4), (5, 2), (2, 0)])
def test_points_of_a_simplex_are_numbered_in_order(dimension, total):
    simplex = Simplex(dimension, total)
    points = simplex.points()
    assert len(points) == simplex.count
    assert len(np.unique(points, axis=0)) == simplex.count
    assert (points.sum(axis=1) <= total).all()
    assert_array_equal(simplex.ranks(points), np.arange(simplex.count))


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_point_of_a_simplex_is_found(seed):
    """Round, halves up; cut what is too much, the last first; find the point in the list."""
    rng = np.random.default_rng(400 + seed)
    simplex = Simplex(int(rng.integers(1, 5)), int(rng.integers(0, 7)))
    radius = float(rng.choice([0.25, 1.0, 1.7]))
    amounts = radius * np.round(rng.uniform(0, 6, (60, simplex.dimension)), rng.integers(0, 3))
    amounts[rng.random(amounts.shape) < 0.3] += radius / 2 * (1 - 1e-9)
    amounts[0], amounts[1] = 1e300, -1e-17
    places = {tuple(point): number for number, point in enumerate(simplex.points().tolist())}
    expected = []
    for row in amounts:
        point, room = [], simplex.total
        for amount in row:
            point.append(min(int(np.floor(amount / radius + 0.5 + 1e-6)), room))
            room -= point[-1]
        expected.append(places[tuple(point)])
    sizes = simplex.sizes()
    assert_array_equal(nearest_ranks(amounts, radius, sizes), expected)
    table = rng.random((simplex.count, 2))
    assert_array_equal(nearest_entries(amounts, radius, sizes, table), table[expected])
    with pytest.raises(InputError, match="coordinates"):
        nearest_entries(amounts[:, 1:], radius, sizes, table)


def shops(high=7):
    levels = {"low": 0, "high": high}
    costs = {"holding_cost": 1, "lost_sales_cost": 10}
    for lead in (0, 1, 2):
        yield LostSales(lead_time=lead, levels=levels, **costs)
    for regular, expedited in ((1, 0), (2, 0), (3, 1)):
        yield DualSourcing(
            regular_lead_time=regular, expedited_lead_time=expedited, expedited_cost=0.5,
            expedited_levels=levels, regular_levels=levels, **costs,
        )  # fmt: skip


@pytest.mark.parametrize("shop", list(shops()), ids=repr)
def test_a_shop_on_the_grid_is_its_table(shop):
    rng = np.random.default_rng(1)
    table = shop.tabular()
    ends = table.first[1:] - 1
    choice = rng.integers(table.first[:-1], ends, endpoint=True)
    system = shop.simulator(Poisson(mean=1.5), seed=2)
    rollout = system.drive(table.playing(choice), 400)
    pairs, outcomes, costs = table.steps(rollout.trajectory)
    after = table.following[pairs, outcomes]
    states = np.searchsorted(table.first, pairs, side="right") - 1
    assert states[0] == table.start
    assert_array_equal(after[:-1], states[1:])
    assert_array_equal(choice[states], pairs)
    assert_allclose(costs, table.outcome_costs[pairs, outcomes], atol=1e-9)
    # Costs are the true ones up to the term of demand, which is the same for every action.
    fresh = shop.simulator(Poisson(mean=1.5), seed=2)
    demand = fresh._stream.draw(400)
    assert_allclose(rollout.costs - shop.system.lost_sales_cost * demand, costs, atol=1e-9)
    # Every smaller stock is told of, as it would have been, and no larger one.
    told = table.revealed(rollout.trajectory)
    expected = np.zeros((table.kinds, table.outcomes))
    stock = rollout.trajectory["stock"].astype(int)
    for most, wanted in zip(stock, demand.astype(int), strict=True):
        for held in range(most + 1):
            expected[held, max(held - wanted, 0)] += 1
    counts = np.zeros_like(expected)
    np.add.at(counts, (told.kinds, told.outcomes), told.weights)
    assert_allclose(counts, expected, atol=1e-9)
    assert_array_equal(np.bincount(told.seen, minlength=table.kinds), expected.sum(axis=1))
    assert_array_equal(table.kind_of[pairs], stock)


class Slowly(Controller):
    """Acts like another controller, one step at a time."""

    def __init__(self, controller):
        self._controller = controller

    def act(self, states):
        return self._controller.act(states)

    def table(self):
        return {}

    def __str__(self):
        return "slowly"


@pytest.mark.parametrize("shop", list(shops()), ids=repr)
def test_a_table_acts_as_it_does_step_by_step(shop):
    rng = np.random.default_rng(11)
    table = shop.tabular(0.5)
    playing = table.playing(rng.integers(table.first[:-1], table.first[1:]))
    fast, slow = (shop.simulator(Exponential(mean=1.5), seed=12) for _ in range(2))
    for steps in (1, 300, 7):
        one, other = fast.drive(playing, steps), slow.drive(Slowly(playing), steps)
        assert_array_equal(one.costs, other.costs)
        for name, column in other.trajectory.columns.items():
            assert_array_equal(one.trajectory[name], column)
        assert_same_state(fast.state_dict(), slow.state_dict())


def test_between_points_of_the_grid_the_mean_is_right():
    shop = next(shops())
    table = shop.tabular(0.5)
    rollout = shop.simulator(Exponential(mean=2), seed=3).drive(
        table.playing(table.first[1:] - 1), 300
    )
    told = table.revealed(rollout.trajectory)
    stock, sales = rollout.trajectory["stock"], rollout.trajectory["sales"]
    counts = np.zeros((table.kinds, table.outcomes))
    np.add.at(counts, (told.kinds, told.outcomes), told.weights)
    assert counts.min() >= 0
    for kind in range(1, table.kinds):
        above = stock >= kind * 0.5 - 0.25 - 1e-6
        left = np.maximum(kind * 0.5 - sales[above], 0.0).sum()
        assert 0.5 * counts[kind] @ np.arange(table.outcomes) == pytest.approx(left)
        assert counts[kind].sum() == pytest.approx(above.sum())
    # The own kind is always among what is seen, though stock is rounded.
    pairs = table.steps(rollout.trajectory).pairs
    rounded = np.floor(stock / 0.5 + 0.5 + 1e-6)
    assert_array_equal(table.kind_of[pairs], np.minimum(rounded, table.units))


def queue_records(rate, events, times):
    """Steps with one job at a rate, as the shop floor writes them down."""
    events = np.array(events)
    return Trajectory(
        (0.0, float(rate), 0.0),
        state=np.ones(events.size),
        time=times,
        **{name: events == i for i, name in enumerate(("arrivals", "services", "misses"), 1)},
    )


@pytest.mark.parametrize("clock", ["uniformized", "continuous"])
def test_a_queue_tells_of_lower_rates_without_bias(clock):
    # Events in the shares of their probabilities: λ_1 = 3, rate 2 and μ = 3 of U = 23.
    queue, _ = read_problem(PAPER / "queue-decaying.toml")
    table = queue.tabular()
    events = [1] * 3 + [2] * 2 + [3] * 3
    if clock == "uniformized":
        events += [0] * 15
        times = np.full(23, 1 / 23)
    else:
        times = np.random.default_rng(4).dirichlet(np.ones(8))
    trajectory = queue_records(2, events, times)
    told = table.revealed(trajectory)
    counts = np.zeros((table.kinds, table.outcomes))
    np.add.at(counts, (told.kinds, told.outcomes), told.weights)
    for rate in range(3):
        assert_allclose(counts[4 + rate], [17 - rate, 3, rate, 3], atol=1e-9)
    assert not counts[7].any()  # a higher rate is not told of
    assert not counts[:4].any()
    assert_array_equal(np.bincount(told.seen, minlength=12)[4:8], [len(events)] * 3 + [0])
    own = table.own(trajectory)
    only = np.zeros_like(counts)
    np.add.at(only, (own.kinds, own.outcomes), own.weights)
    assert_allclose(only[6], counts[6], atol=1e-9)
    assert own.costs.sum() == pytest.approx(4.0 + 300)  # power for a unit of time, 3 misses


@pytest.mark.parametrize("arrivals", ["decaying", "fixed"])
def test_the_table_of_a_queue_is_the_queue(arrivals):
    queue, truth = read_problem(PAPER / f"queue-{arrivals}.toml")
    table, uniform = queue.tabular(), queue.system.uniform_rate
    jobs, rate = np.arange(table.pairs) // 4, np.arange(table.pairs) % 4
    events = np.column_stack(
        [
            truth.arrival_rate * queue.system.profile[jobs],
            rate * (jobs > 0),
            truth.deadline_rate * jobs,
        ]
    )
    chances = np.column_stack([uniform - events.sum(axis=1), events]) / uniform
    assert not chances[table.following < 0].any()
    costs = (chances * table.outcome_costs).sum(axis=1)
    found = plan(costs, chances, table.first, table.following, 1e-9)
    policy, cost = queue.simulator(truth).optimum()
    assert table.playing(found.choice) == policy
    assert found.low == pytest.approx(cost, abs=1e-6)


# What all such learners keep to.


def wearing_out(order):
    _, dynamics = FiniteMDP.example()
    return FiniteMDP(states=3, actions=2, information_order=order), dynamics


def cases():
    yield pytest.param(*ServiceRateQueue.example(), id="queue")
    rates = QueueRates(arrival_rate=6, deadline_rate=3, clock="continuous")
    yield pytest.param(ServiceRateQueue.example()[0], rates, id="queue, events")
    for order in ("trivial", "full-feedback"):
        yield pytest.param(*wearing_out(order), id=f"finite-mdp, {order}")
    demand = Exponential(mean=1.3, maximum=3, zero_probability=0.3)
    for shop in itertools.islice(shops(high=4), 1, 4):
        yield pytest.param(shop, demand, id=f"{shop.kind}, {shop.control.states}")


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize(("problem", "truth"), list(cases()))
def test_any_pieces_give_the_same_learner(kind, problem, truth, tmp_path):
    whole, parts = kind(problem), kind(problem)
    systems = [problem.simulator(truth, seed=5) for _ in range(2)]
    result = run(whole, systems[0], 700)
    costs, rng = [], np.random.default_rng(6)
    while parts.steps < 700:
        play = parts.ask()
        before = parts.state_dict()
        assert parts.ask() == play
        assert_same_state(parts.state_dict(), before)
        steps = int(rng.integers(1, play.steps, endpoint=True))
        rollout = systems[1].carry_out(play, min(steps, 700 - parts.steps))
        parts.tell(rollout.trajectory)
        costs.append(rollout.costs)
        if rng.random() < 0.05:
            save_state(parts.state_dict(), tmp_path / "state")
            parts = kind(problem)
            parts.load_state_dict(load_state(tmp_path / "state"))
    assert_array_equal(np.concatenate(costs), result.costs)
    assert_same_state(whole.state_dict(), parts.state_dict())
    assert whole.recommend() == parts.recommend()
    assert whole.episode > 3


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize(("problem", "truth"), list(cases()))
def test_an_episode_ends_exactly_when_a_count_has_doubled(kind, problem, truth):
    learner, system = kind(problem), problem.simulator(truth, seed=7)
    kinds = learner._kinds
    while learner.steps < 500:
        episode, before = learner.episode, learner._before.copy()
        play = learner.ask()
        rollout = system.carry_out(play, play.steps)
        seen = learner._seen.copy()
        tell = learner._revealed
        own = kinds[learner._table.steps(rollout.trajectory).pairs]
        ended = []
        for step in range(play.steps):
            columns = {k: v[step : step + 1] for k, v in rollout.trajectory.columns.items()}
            np.add.at(seen, tell(Trajectory(play.policy, **columns)).seen, 1)
            ended.append(seen[own[step]] - before[own[step]] >= max(before[own[step]], 1))
        learner.tell(rollout.trajectory)
        assert not any(ended[:-1])
        assert (learner.episode == episode + 1) == ended[-1]
        assert learner.ask().epoch == learner.episode


@pytest.mark.parametrize("kind", LEARNERS)
def test_what_does_not_fit_is_refused_at_once(kind):
    for name, size in (
        ("inventory-large-exponential", r"1\.8e\+15 pairs \(4\.8e\+13 states\)"),
        ("dual-large-normal", r"7\.6e\+13 pairs \(9\.9e\+10 states\)"),
    ):
        problem, _ = read_problem(PAPER / f"{name}.toml")
        assert not kind.fits(problem)
        tracemalloc.start()
        with pytest.raises(InputError, match=rf"{kind.name} needs a table of at most .*{size}"):
            kind(problem)
        assert tracemalloc.get_traced_memory()[1] < 2**20
        tracemalloc.stop()
    listed, _ = FiniteMDP.example()
    with pytest.raises(InputError, match="no table in which any action may be taken"):
        kind(listed)
    with pytest.raises(InputError, match="no table"):
        kind(PROBLEMS["newsvendor"].example()[0])
    small, _ = LostSales.example()
    with pytest.raises(InputError, match=r"with a radius of 0\.01 there are about .* pairs"):
        kind(small, radius=0.01)
    with pytest.raises(InputError, match="bonus"):
        kind(small, bonus=-1)
    # Coarser levels make a table of any shop.
    large = read_problem(PAPER / "inventory-large-uniform.toml")[0]
    coarse = large.changed(levels={**dict(large.family.levels), "step": 75.0})
    assert kind(coarse)._table.units == 4


def test_only_the_feedback_graph_counts_on_the_side():
    problem, dynamics = wearing_out("full-feedback")
    for kind, each in ((UCRL2, 1), (FeedbackGraph, 2)):
        learner = kind(problem)
        run(learner, problem.simulator(dynamics, seed=8), 200)
        assert learner._seen.sum() == 200 * each
        assert learner._counts.sum() == 200 * each


# What they learn. Seeds are fixed, and none is used by a comparison.


@pytest.mark.parametrize("arrivals", ["decaying", "fixed"])
@pytest.mark.parametrize(("kind", "gap"), [(UCRL2, 0.02), (FeedbackGraph, 0.1)])
def test_a_queue_is_learned(kind, gap, arrivals):
    queue, truth = read_problem(PAPER / f"queue-{arrivals}.toml")
    best = best_in_class(queue.simulator(truth))
    for seed in (90100, 90101):
        result = run(kind(queue), queue.simulator(truth, seed), 300_000)
        assert best.relative_gaps(queue.simulator(truth), [result.recommendation])[0] <= gap


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("clock", ["uniformized", "continuous"])
def test_the_clock_makes_no_difference(kind, clock):
    queue, _ = ServiceRateQueue.example()
    truth = QueueRates(arrival_rate=6, deadline_rate=3, clock=clock)
    learner = kind(queue)
    run(learner, queue.simulator(truth, 90102), 30_000)
    pairs = [4 * 1 + 3, 4 * 2 + 3]
    frequencies = learner._probabilities[pairs]
    expected = np.array([[33 - 9, 3, 3, 3], [33 - 9, 0, 3, 6]]) / 33
    counts = learner._seen[learner._kinds[pairs]]
    for row, law, seen in zip(frequencies, expected, counts, strict=True):
        assert seen > 1000
        # Four standard errors of a frequency; there are 8 of them: 5 in 10,000 go wrong.
        assert (np.abs(row - law) <= 4 * np.sqrt(law * (1 - law) / seen) + 1e-12).all()


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("order", ["trivial", "full-feedback"])
def test_a_finite_problem_is_learned(kind, order):
    problem, dynamics = wearing_out(order)
    system = problem.simulator(dynamics, 90103)
    result = run(kind(problem), system, 20_000)
    # Policies that differ where they never get to are equally good.
    learned = system.costs(np.array([result.recommendation]), 64, 1, 0).mean[0]
    assert learned == pytest.approx(system.optimum()[1], rel=1e-9)


def test_a_table_learns_a_shop_without_chance():
    # Demand of 2 in every period, lead time 1: hold 2 and have 2 under way, at no cost at all.
    shop = LostSales(
        lead_time=1, holding_cost=1, lost_sales_cost=9, levels={"low": 0, "high": 8, "step": 1}
    )
    always = Poisson(mean=1e9, maximum=2)
    learner = FeedbackGraph(shop)
    run(learner, shop.simulator(always, 90104), 3000)
    system = shop.simulator(always, 90105)
    assert system.drive(learner.recommend(), 50).costs[10:].max() == 0


@pytest.mark.parametrize(
    ("name", "policy", "gap"),
    [("inventory-small-exponential", (3.3,), 0.05), ("dual-small-uniform", (2.4, 2.9), 0.12)],
)
def test_a_shop_is_learned_up_to_the_grid(name, policy, gap):
    # On a common path of 180,000 steps the difference to the best policy is known to 1 %.
    shop, truth = read_problem(PAPER / f"{name}.toml")
    learned = run(FeedbackGraph(shop), shop.simulator(truth, 90106), 6000).recommendation
    costs = [
        shop.simulator(truth, 90107).drive(each, 400 * 512, copies=512).costs[50 * 512 :].mean()
        for each in (learned, PolicyController(shop, policy))
    ]
    assert costs[0] <= (1 + gap) * costs[1]


def test_planning_sees_costs_far_ahead_and_settles_slow_chains():
    """A choice whose price shows 100 steps later; and a chain that hardly ever moves."""
    branch = 200
    # State 0 chooses a branch of 200 states that leads back; the cheap one is dear at its end.
    following = [[1], [1 + branch]] + [[s + 1] for s in range(1, 2 * branch + 1)]
    following[branch + 1], following[2 * branch + 1] = [0], [0]
    costs = np.zeros(2 * branch + 2)
    costs[0], costs[branch + 102 :] = 0.4, 1.0
    first = np.array([0, *range(2, 2 * branch + 3)])
    found = plan(costs, np.ones((costs.size, 1)), first, np.array(following), 1e-6)
    assert found.choice[0] == 0
    assert found.low == pytest.approx(0.4 / (branch + 1), rel=1e-6)

    known = ServiceRateQueue(buffer=30, max_rate=2, arrival_rate_bound=2, deadline_rate_bound=1,
                             miss_penalty=10, uniformization=20_000.0)  # fmt: skip
    truth = QueueRates(arrival_rate=1.5, deadline_rate=0.05)
    policy, cost = known.simulator(truth).optimum()
    table = known.tabular()
    jobs, rate = np.divmod(np.arange(table.pairs), known.system.max_rate + 1)
    chances = np.zeros((table.pairs, table.outcomes))
    chances[:, ARRIVAL] = 1.5 * known.system.profile[jobs]
    chances[:, SERVICE] = rate * (jobs > 0)
    chances[:, MISS] = 0.05 * jobs
    chances /= known.system.uniform_rate
    chances[:, NOTHING] = 1 - chances.sum(axis=1)
    means = (chances * table.outcome_costs).sum(axis=1)
    found = plan(means, chances, table.first, table.following, 1e-12)
    assert table.playing(found.choice) == policy
    assert found.low == pytest.approx(cost, rel=1e-6)
