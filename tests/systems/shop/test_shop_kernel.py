"""Controllers act on the same system as policies, on one copy of it or on many."""

import numpy as np
import pytest

from iopea.errors import InputError
from iopea.problems.base import PolicyController, Problem
from iopea.problems.stepped import SteppedSimulator
from iopea.simulate import BestInClass, best_in_class, evaluate_controller
from iopea.systems import PROBLEMS
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.dual_sourcing.base_surge import BaseSurge
from iopea.systems.queue import QueueRates, ServiceRateQueue
from iopea.testing.twins import assert_same_state
from iopea.types import Controller, Play, Randomised

KINDS = ("lost-sales", "dual-sourcing", "queue")
POLICIES = {"lost-sales": (5.5,), "dual-sourcing": (1.7, 2.6), "queue": (0.0, 3.0, 2.0)}


class Unknown(Controller):
    """Acts as a policy does, which nobody can tell."""

    def __init__(self, controller):
        self.controller = controller

    def act(self, states):
        return self.controller.act(states)

    def table(self):
        return self.controller.table()

    def __str__(self):
        return "a controller"


def cases():
    for kind in KINDS:
        yield pytest.param(*PROBLEMS[kind].example(), POLICIES[kind], id=kind)
    shop, demand = DualSourcing.example()
    late = shop.changed(regular_lead_time=4, expedited_lead_time=2)
    yield pytest.param(late, demand, (3.0, 5.5), id="dual-sourcing, late")
    rates = QueueRates(arrival_rate=6, deadline_rate=3, clock="continuous")
    yield pytest.param(ServiceRateQueue.example()[0], rates, (0.0, 3.0, 2.0), id="queue, events")


@pytest.mark.parametrize(("problem", "truth", "policy"), list(cases()))
def test_a_policy_as_a_controller_is_the_policy(problem, truth, policy):
    control = problem.control
    played, driven = (problem.simulator(truth, seed=3) for _ in range(2))
    before = played.play(policy, 40)
    driven.drive(PolicyController(problem, policy), 40)
    one, other = played.play(policy, 300), driven.drive(PolicyController(problem, policy), 300)
    np.testing.assert_allclose(one.costs, other.costs, atol=1e-9)
    for name in problem.columns:
        np.testing.assert_allclose(one.trajectory[name], other.trajectory[name], atol=1e-9)
    assert one.elapsed == pytest.approx(other.elapsed)
    assert len(before.costs) == 40
    # By the records alone the cost is known up to what no action changes.
    known = control.costs(other.trajectory.columns)
    unknown = other.costs - known
    assert (unknown >= -1e-9).all()
    again = problem.simulator(truth, seed=3).drive(
        PolicyController(problem, (0.0,) * len(policy)), 340
    )
    rest = again.costs[40:] - control.costs(again.trajectory.columns)[40:]
    if problem.kind != "queue":  # in a queue chance does depend on the state
        np.testing.assert_allclose(unknown, rest, atol=1e-9)
    assert set(other.trajectory.columns) == set(control.columns)
    problem.check(other.trajectory)


@pytest.mark.parametrize(("problem", "truth", "policy"), list(cases()))
def test_copies_take_turns_and_any_cut_is_the_same(problem, truth, policy):
    controller = PolicyController(problem, policy)
    whole, parts = (problem.simulator(truth, seed=4) for _ in range(2))
    one = whole.drive(controller, 100, copies=7)
    pieces = []
    for steps in (1, 3, 12, 7, 2, 75):
        saved = parts.state_dict()
        parts = problem.simulator(truth, seed=4)
        parts.load_state_dict(saved)
        pieces.append(parts.drive(controller, steps, copies=7))
    np.testing.assert_array_equal(one.costs, np.concatenate([piece.costs for piece in pieces]))
    assert_same_state(whole.state_dict(), parts.state_dict())
    # The first copy is the system itself, the others have chance of their own.
    alone = problem.simulator(truth, seed=4).drive(controller, 15)
    np.testing.assert_array_equal(one.costs[::7], alone.costs)
    assert not np.array_equal(one.costs[::7][:14], one.costs[1::7][:14])


def test_a_controller_is_evaluated_as_the_policy_it_is():
    problem, truth = ServiceRateQueue.example()
    system = problem.simulator(truth)
    best = best_in_class(system)
    cost = evaluate_controller(system, PolicyController(problem, best.policy), rounds=2000)
    assert cost == pytest.approx(best.cost, rel=0.01)  # 10⁶ steps: more than 6 standard errors
    gaps = best.relative_gaps(system, [PolicyController(problem, best.policy)])
    assert gaps[0] == pytest.approx(0.0, abs=1e-12)  # as a policy it is known exactly


@pytest.mark.parametrize(("problem", "truth", "policy"), list(cases()))
def test_wrong_actions_are_refused(problem, truth, policy):
    class Wrong(PolicyController):
        def act(self, states):
            return wrong(super().act(states))

    for wrong in (np.negative, lambda actions: actions + np.nan, np.transpose):
        actions = wrong(np.ones((1, len(problem.control.actions))))
        if actions.shape == (1, 1) and wrong is np.transpose:
            continue
        with pytest.raises(InputError, match="shape" if wrong is np.transpose else "An action is"):
            problem.simulator(truth).drive(Wrong(problem, policy), 60)


def test_a_problem_without_actions_says_so():
    problem, truth = PROBLEMS["newsvendor"].example()
    controller = PolicyController(problem, (1.0,))
    with pytest.raises(InputError, match="newsvendor problem has no states and actions"):
        problem.simulator(truth).carry_out(Play(controller, 3, 1), 3)


@pytest.mark.parametrize(("problem", "truth", "policy"), list(cases()))
def test_copies_without_records_cost_what_each_costs_on_the_same_chance(problem, truth, policy):
    controller = PolicyController(problem, policy)
    rounds, settling, copies = 50, 20, 3
    cost = problem.simulator(truth, seed=6).average_cost(controller.act, rounds, settling, copies)
    noise = problem.simulator(truth, seed=6)._noise(96 * copies).reshape(96, copies, -1)
    total = time = 0.0
    for copy in range(copies):
        system = problem.simulator(truth, seed=6)
        system._noise = lambda steps, own=noise[:, copy]: own[:steps]
        path = system.drive(controller, rounds + settling)
        lengths = problem.control.lengths(path.trajectory.columns)
        total += path.costs[settling:].sum()
        time += lengths[settling:].sum()
    assert cost == pytest.approx(total / time, rel=1e-12)


def test_base_surge_policies_are_compared_on_the_path_of_policies():
    problem, truth = DualSourcing.example()
    system = problem.simulator(truth)
    best = best_in_class(system, steps=400_000)
    surge = PolicyController(Problem(problem.system, BaseSurge.within(problem)), (0.3, 2.0))
    on_path = system.costs_on_path([surge], 400_000, 64, 0)
    assert best.relative_gaps(system, [surge])[0] == best.share(on_path[surge] - best.cost)
    copies = evaluate_controller(system, surge, rounds=500)
    assert on_path[surge] == pytest.approx(copies, rel=0.02)  # about 6 standard errors
    own = PolicyController(problem, best.policy)
    assert system.costs_on_path([own, Unknown(own)], 400_000, 64, 0) == {own: best.cost}


@pytest.mark.parametrize("kind", KINDS)
def test_random_policies_cost_on_copies_what_they_cost_one_by_one(kind):
    problem, truth = PROBLEMS[kind].example()
    best = BestInClass(POLICIES[kind], 1.0, 0.0, 1, 0)  # gaps are then costs, less 1
    cost = 1 + best.relative_gaps(problem.simulator(truth), [Randomised()])[0]
    system, steps = problem.simulator(truth, seed=9), 20_000
    draws = problem.policy_class.sample(np.random.default_rng(2), steps).tolist()
    costs = np.array([system.play(tuple(draw), 1).costs[0] for draw in draws])
    means = costs.reshape(50, -1).mean(axis=1)
    assert cost == pytest.approx(means.mean(), abs=5 * means.std(ddof=1) / np.sqrt(50))


def test_the_best_policy_is_run_on_copies_once(monkeypatch):
    problem, truth = PROBLEMS["lost-sales"].example()
    system, runs = problem.simulator(truth), []
    best = BestInClass((5.5,), 5.0, 0.0, steps=2_000_000, seed=41)

    def counted(fleet, act, rounds, settling, copies):
        runs.append((rounds, settling))
        return 7.0 + len(runs)

    monkeypatch.setattr(SteppedSimulator, "average_cost", counted)
    levels = [Unknown(PolicyController(problem, (level,))) for level in (4.0, 5.0)]
    gaps = best.relative_gaps(system, levels)
    np.testing.assert_allclose(gaps, [-0.2, 0.2])
    assert runs == [(500, 500)] * 3
    assert best.relative_gaps(system, levels[:1])[0] == pytest.approx(0.4)
    assert len(runs) == 4
