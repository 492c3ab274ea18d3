import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from iopea import IOPEA, InformationOrder, InputError, LostSales, cli
from iopea.checking import (
    Evidence,
    check_order,
    discover_order,
    gather_evidence,
    some_policies,
)
from iopea.demand import Constant, Exponential, Poisson
from iopea.files import parse_order, parse_problem, read_order, read_problem
from iopea.policies import Box, Finite
from iopea.problems import PROBLEMS
from iopea.problems.base import Constants, Evaluator, Problem, Simulator
from iopea.trials import _joined, _smirnov, _welch
from iopea.types import Estimates, Rollout, Trajectory

ORDERS = Path(__file__).parent.parent / "examples" / "orders"
DEMAND = Exponential(mean=1.0, maximum=3.0, zero_probability=0.3)
#: A statistical test here fails by chance with at most this probability.
CHANCE = 1e-6


def shop(**changes):
    values = {
        "lead_time": 2,
        "holding_cost": 1.0,
        "lost_sales_cost": 10.0,
        "levels": {"low": 0.0, "high": 7.0},
    }
    return LostSales(**{**values, **changes})


def levels(*values):
    return np.array(values, dtype=float)[:, None]


def reversed_order(points):
    return InformationOrder.from_key(-points)


# A toy: two blocks of three policies; each tells the cost of those below it in its block.

MEANS = np.array([0.5, 0.4, 0.6, 0.3, 0.7, 0.55])


class Toy(Problem):
    """Costs are a mean and noise: the same for all policies, or each policy's own."""

    kind = "toy"
    columns = ("cost",)
    claim = "sample-path"
    restart_policy = (0.0,)
    policy_class = Finite(np.arange(6.0))

    def __init__(self, common=True, spread=1.0, every=1, bias=0.0, batch=8):
        self.common, self.spread, self.every, self.bias = common, spread, every, bias
        self.batch = batch

    @classmethod
    def read(cls, content, directory=None):
        raise NotImplementedError

    @classmethod
    def example(cls):
        raise NotImplementedError

    @property
    def constants(self):
        return Constants(1.0, 1.0, 5.0, 1, -10.0, 10.0, alpha=1.0)

    def order(self, policies):
        known = policies[:, 0]
        same = known[:, None] // 3 == known[None, :] // 3
        return InformationOrder.from_matrix(same & (known[None, :] <= known[:, None]))

    def evaluator(self, policies, threads=1, precision="float64"):
        return ToyEvaluator(self, policies[:, 0])

    def path_evaluator(self, policies):
        exact = Toy(self.common, bias=self.bias, batch=self.batch)
        return ToyEvaluator(exact, policies[:, 0])

    def simulator(self, truth, seed=0):
        return ToySimulator(self, seed)

    def describe(self):
        return {"kind": self.kind}


class ToyEvaluator(Evaluator):
    def __init__(self, problem, policies):
        self.problem, self.policies = problem, policies.astype(int)
        self.costs = np.empty((0, policies.size))
        self.known = np.empty((0, policies.size), dtype=bool)

    def observe(self, trajectory, evaluate):
        played, problem = int(trajectory.policy[0]), self.problem
        noise = trajectory["cost"] - MEANS[played]
        scale = np.where(self.policies == played, 1.0, problem.spread)
        bias = problem.bias * (self.policies != played)
        costs = MEANS[self.policies] + bias + np.outer(noise, scale)
        self.costs = np.vstack([self.costs, costs])
        told = (self.policies // 3 == played // 3) & (self.policies <= played)
        step = len(self.known) + np.arange(len(noise))
        self.known = np.vstack([self.known, (step % problem.every == 0)[:, None] & told])
        return len(noise)

    def estimates(self):
        cuts = np.arange(0, len(self.costs), self.problem.batch)
        sums = np.add.reduceat(np.where(self.known, self.costs, 0.0), cuts, axis=0)
        sizes = np.add.reduceat(self.known.astype(float), cuts, axis=0)
        return Estimates(sums, sizes)

    at_start = True

    def forget(self):
        raise NotImplementedError

    keep = state_dict = load_state_dict = forget


class ToySimulator(Simulator):
    def __init__(self, problem, seed):
        self.problem, self.seed, self.rng = problem, seed, None

    def play(self, policy, steps, until_start=False):
        if self.rng is None:
            own = 0 if self.problem.common else 1 + int(policy[0])
            self.rng = np.random.default_rng([self.seed, own])
        costs = MEANS[int(policy[0])] + self.rng.normal(size=steps)
        return Rollout(Trajectory(policy, cost=costs), costs)

    def costs(self, policies, steps, batches, seed):
        raise NotImplementedError

    restart_time = state_dict = load_state_dict = costs


@pytest.mark.parametrize("kind", PROBLEMS)
def test_the_claim_of_every_problem_is_confirmed(kind):
    problem, truth = PROBLEMS[kind].example()
    less = {} if problem.claim == "sample-path" else {"steps": 4000, "replications": 12}
    report = check_order(problem, truth, error_rate=1e-4, **less)
    assert report.holds, str(report)
    assert report.claim == problem.claim
    assert report.counter_example is None
    assert report.alpha_least >= report.alpha_claimed
    assert "Confirmed" in str(report) or not report.pairs


@pytest.mark.parametrize("lead_time", [0, 1, 4])
@pytest.mark.parametrize("demand", [DEMAND, Poisson(mean=2), Constant(value=2)])
def test_the_base_stock_order_is_confirmed_exactly(lead_time, demand):
    report = check_order(shop(lead_time=lead_time), demand, seed=lead_time)
    assert report.holds
    assert (report.pairs, report.pairs_tested, report.width) == (66, 66, 1)
    assert (report.alpha_measured, report.alpha_least, report.alpha_claimed) == (1, 1, 1)
    assert report.p_value is None
    words = "on 66 pairs of 12 policies, exactly, on 4 paths of 2000 steps each"
    assert words in str(report)


def told(problem, informing, informed, seed, steps):
    """Total cost of one policy by the first steps of another's path."""
    path = problem.simulator(DEMAND, seed).play(informing, 2000).trajectory
    part = {name: column[:steps] for name, column in path.columns.items()}
    evaluator = problem.path_evaluator(np.array([informed]))
    evaluator.observe(Trajectory(informing, **part), evaluate=True)
    return evaluator.estimates().sums.sum()


@pytest.mark.parametrize("seed", range(5))
def test_the_counter_example_of_a_reversed_order_really_is_one(seed):
    problem, points = shop(), levels(1, 2.5, 4, 6)
    report = check_order(problem, DEMAND, policies=points, order=reversed_order(points), seed=seed)
    assert not report.holds
    assert report.pairs_failed == 6
    example = report.counter_example
    assert example.informing < example.informed
    pair, seed = (example.informing, example.informed), example.seed
    found = told(problem, *pair, seed, example.step)
    expected = told(problem, example.informed, example.informed, seed, example.step)
    assert (found, expected) == pytest.approx((example.found, example.expected), rel=1e-12)
    assert found != pytest.approx(expected, rel=1e-6)
    # Costs may only be told apart where the stock of the higher level has arrived.
    before = example.step - 1
    if before:
        expected = told(problem, example.informed, example.informed, seed, before)
        assert told(problem, *pair, seed, before) == pytest.approx(expected, rel=1e-9)
    assert f"after step {example.step} of the path with seed {seed}" in str(report)


def test_a_path_that_says_nothing_is_a_counter_example():
    problem, points = Toy(), levels(0, 4)
    report = check_order(problem, None, policies=points, order=InformationOrder.full_feedback(2))
    assert not report.holds
    assert report.pairs_failed == 2
    assert (report.counter_example.step, report.alpha_least) == (1, 0)
    assert np.isnan(report.counter_example.found)
    assert "says nothing" in str(report)
    assert report.as_dict()["counter_example"]["found"] is None


def test_a_path_that_tells_a_part_of_the_steps_is_no_sample_path():
    class Half(Toy):
        def path_evaluator(self, policies):
            return self.evaluator(policies)

    report = check_order(Half(every=2), None)
    assert not report.holds  # its own data tells no more, but from other steps nothing is said
    assert report.alpha_least == 0.5
