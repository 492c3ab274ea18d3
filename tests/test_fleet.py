"""Controllers act on the same system as policies, on one copy of it or on many."""

import numpy as np
import pytest

from iopea.errors import InputError
from iopea.problems import PROBLEMS
from iopea.problems.control import PolicyController
from iopea.problems.dual_sourcing import DualSourcing
from iopea.problems.queue import QueueRates, ServiceRateQueue
from iopea.run import best_in_class, evaluate_controller
from iopea.testing import assert_same_state
from iopea.types import Play

KINDS = ("lost-sales", "dual-sourcing", "queue")
POLICIES = {"lost-sales": (5.5,), "dual-sourcing": (1.7, 2.6), "queue": (0.0, 3.0, 2.0)}


def cases():
    for kind in KINDS:
        yield pytest.param(*PROBLEMS[kind].example(), POLICIES[kind], id=kind)
    shop, demand = DualSourcing.example()
    late = {**shop.model_dump(exclude_none=True), "regular_lead_time": 4, "expedited_lead_time": 2}
    yield pytest.param(DualSourcing(**late), demand, (3.0, 5.5), id="dual-sourcing, late")
    rates = QueueRates(arrival_rate=6, deadline_rate=3, clock="continuous")
    yield pytest.param(ServiceRateQueue.example()[0], rates, (0.0, 3.0, 2.0), id="queue, events")


@pytest.mark.parametrize(("problem", "truth", "policy"), list(cases()))
def test_a_policy_as_a_controller_is_the_policy(problem, truth, policy):
    control = problem.control
    played, driven = (problem.simulator(truth, seed=3) for _ in range(2))
    before = played.play(policy, 40)
    driven.drive(PolicyController(control, policy), 40)
    one, other = played.play(policy, 300), driven.drive(PolicyController(control, policy), 300)
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
        PolicyController(control, (0.0,) * len(policy)), 340
    )
    rest = again.costs[40:] - control.costs(again.trajectory.columns)[40:]
    if problem.kind != "queue":  # in a queue chance does depend on the state
        np.testing.assert_allclose(unknown, rest, atol=1e-9)
    assert set(other.trajectory.columns) == set(control.columns)
    problem.check(other.trajectory)


@pytest.mark.parametrize(("problem", "truth", "policy"), list(cases()))
def test_copies_take_turns_and_any_cut_is_the_same(problem, truth, policy):
    controller = PolicyController(problem.control, policy)
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
    cost = evaluate_controller(system, PolicyController(problem.control, best.policy), rounds=2000)
    assert cost == pytest.approx(best.cost, rel=0.01)  # 10⁶ steps: more than 6 standard errors
    gaps = best.relative_gaps(system, [PolicyController(problem.control, best.policy)])
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
            problem.simulator(truth).drive(Wrong(problem.control, policy), 60)


def test_a_problem_without_actions_says_so():
    problem, truth = PROBLEMS["newsvendor"].example()
    controller = PolicyController(None, (1.0,))
    with pytest.raises(InputError, match="newsvendor problem has no states and actions"):
        problem.simulator(truth).carry_out(Play(controller, 3, 1), 3)
