import json
import warnings
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from iopea import InformationOrder, InputError
from iopea.demand import Constant, Poisson
from iopea.orders.checking import (
    Evidence,
    check_order,
    discover_order,
    gather_evidence,
    some_policies,
)
from iopea.orders.trials import _joined, _smirnov, _welch
from iopea.policies import Box, Finite
from iopea.problem_files import parse_order, parse_problem, read_order, read_problem
from iopea.problems.base import Constants, Evaluator, PolicyFamily, Problem, Simulator, System
from iopea.systems import PROBLEMS
from iopea.types import Estimates, Rollout, Trajectory
from small_problems import DEMAND, shop

ORDERS = Path(__file__).parents[2] / "examples" / "orders"
#: A statistical test here fails by chance with at most this probability.
CHANCE = 1e-6


def levels(*values):
    return np.array(values, dtype=float)[:, None]


def reversed_order(points):
    return InformationOrder.from_key(-points)


# A toy: two blocks of three policies; each tells the cost of those below it in its block.

MEANS = np.array([0.5, 0.4, 0.6, 0.3, 0.7, 0.55])


class Draws(System):
    """Costs are a mean and noise: the same for all policies, or each policy's own."""

    kind: ClassVar = "toy"
    columns: ClassVar = ("cost",)

    common: bool = True

    @classmethod
    def read_truth(cls, content, directory):
        raise NotImplementedError

    def simulator(self, problem, truth, seed=0):
        return ToySimulator(problem, seed)

    def check(self, trajectory):
        return


class InBlocks(PolicyFamily):
    kind: ClassVar = "in-blocks"

    spread: float = 1.0
    every: int = 1
    bias: float = 0.0
    batch: int = 8

    def policy_class(self, system):
        return Finite(np.arange(6.0))

    def claim(self, system):
        return "sample-path"

    def restart(self, system):
        return (0.0,)

    def constants(self, system):
        return Constants(1.0, 1.0, 5.0, 1, -10.0, 10.0, alpha=1.0)

    def order_on(self, system, policies):
        known = policies[:, 0]
        same = known[:, None] // 3 == known[None, :] // 3
        return InformationOrder.from_matrix(same & (known[None, :] <= known[:, None]))

    def evaluator(self, problem, policies, threads=1, precision="float64"):
        return ToyEvaluator(self, policies[:, 0])

    def path_evaluator(self, problem, policies):
        return ToyEvaluator(InBlocks(bias=self.bias, batch=self.batch), policies[:, 0])


class Toy(Problem):
    system_type = Draws
    families = (InBlocks,)


class ToyEvaluator(Evaluator):
    def __init__(self, family, policies):
        self.family, self.policies = family, policies.astype(int)
        self.costs = np.empty((0, policies.size))
        self.known = np.empty((0, policies.size), dtype=bool)

    def observe(self, trajectory, evaluate):
        played, family = int(trajectory.policy[0]), self.family
        noise = trajectory["cost"] - MEANS[played]
        scale = np.where(self.policies == played, 1.0, family.spread)
        bias = family.bias * (self.policies != played)
        costs = MEANS[self.policies] + bias + np.outer(noise, scale)
        self.costs = np.vstack([self.costs, costs])
        told = (self.policies // 3 == played // 3) & (self.policies <= played)
        step = len(self.known) + np.arange(len(noise))
        self.known = np.vstack([self.known, (step % family.every == 0)[:, None] & told])
        return len(noise)

    def estimates(self):
        cuts = np.arange(0, len(self.costs), self.family.batch)
        sums = np.add.reduceat(np.where(self.known, self.costs, 0.0), cuts, axis=0)
        sizes = np.add.reduceat(self.known.astype(float), cuts, axis=0)
        return Estimates(sums, sizes)

    at_start = True

    def forget(self):
        raise NotImplementedError

    keep = forget


class ToySimulator(Simulator):
    def __init__(self, problem, seed):
        super().__init__(problem, None, seed)
        self.rng = None

    def _play(self, policy, steps, until_start=False):
        if self.rng is None:
            own = 0 if self.problem.system.common else 1 + int(policy[0])
            self.rng = np.random.default_rng([self.seed, own])
        costs = MEANS[int(policy[0])] + self.rng.normal(size=steps)
        return Rollout(Trajectory(policy, cost=costs), costs)

    def costs(self, policies, steps, batches, seed):
        raise NotImplementedError

    restart_time = costs


@pytest.mark.parametrize(
    ("problem", "truth"), [each for kind in PROBLEMS.values() for each in kind.examples()]
)
def test_the_claim_of_every_problem_is_confirmed(problem, truth):
    less = {} if problem.claim == "sample-path" else {"steps": 4000, "replications": 12}
    report = check_order(problem, truth, error_rate=1e-4, **less)
    assert report.holds, str(report)
    assert report.claim == problem.claim
    assert report.counter_example is None
    assert not report.pairs or report.alpha_least >= report.alpha_claimed
    assert str(report).startswith("Confirmed" if report.pairs else "Nothing to test")


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
    # It is the first step after which they differ.
    before = example.step - 1
    if before:
        expected = told(problem, example.informed, example.informed, seed, before)
        assert told(problem, *pair, seed, before) == pytest.approx(expected, rel=1e-9)
    assert f"after step {example.step} of the path with seed {seed}" in str(report)


def test_a_path_without_an_estimate_is_a_counter_example():
    problem, points = Toy(), levels(0, 4)
    report = check_order(problem, None, policies=points, order=InformationOrder.full_feedback(2))
    assert not report.holds
    assert report.pairs_failed == 2
    assert (report.counter_example.step, report.alpha_least) == (1, 0)
    assert np.isnan(report.counter_example.found)
    assert "gives no estimate" in str(report)
    assert report.as_dict()["counter_example"]["found"] is None


@pytest.mark.parametrize("seed", range(8))
def test_a_censored_order_is_rejected_in_distribution_and_the_true_one_is_not(seed):
    problem, points = shop(), levels(1, 2.5, 4)
    data = {"claim": "distributional", "policies": points, "seed": seed}
    wrong = check_order(problem, DEMAND, order=reversed_order(points), **data)
    assert not wrong.holds
    assert wrong.p_value < 1e-9
    assert wrong.counter_example.seed is None
    assert "does not inform" in str(wrong)
    # The true claim is rejected with probability 1e-4 at the most in each of these runs.
    right = check_order(problem, DEMAND, error_rate=1e-4, **data)
    assert right.holds
    assert right.p_value > right.error_rate == 1e-4
    assert (right.alpha_least, right.alpha_claimed) == (1, 1)


def rejections(problem, truth, runs, **settings):
    reports = [
        check_order(problem, truth, claim="distributional", error_rate=0.1, seed=seed, **settings)
        for seed in range(runs)
    ]
    return sum(not report.holds for report in reports)


def most(runs, rate=0.1):
    """Rejections that are exceeded with probability ``CHANCE`` at the rate."""
    return stats.binom.isf(CHANCE, runs, rate)


@pytest.mark.parametrize(
    ("problem", "settings"),
    [
        (Toy(common=False), {}),  # laws and means
        (Toy(common=False, every=3), {}),  # fewer useful steps, whose batches match
        (Toy(common=False, every=3, batch=7), {}),  # means alone: batches don't match
        (shop(), {"policies": levels(1, 3, 5)}),
    ],
    ids=["toy", "every third step", "means alone", "shop"],
)
def test_a_true_claim_is_rejected_at_the_stated_rate_at_the_most(problem, settings):
    runs = 100
    truth = DEMAND if settings else None
    count = rejections(problem, truth, runs, steps=200, replications=10, **settings)
    assert count <= most(runs)


def test_useful_steps_are_measured():
    problem = Toy(common=False, every=4)
    report = check_order(problem, None, claim="distributional", steps=400, error_rate=1e-6)
    assert report.holds
    assert (report.alpha_measured, report.alpha_least) == (0.25, 0.25)
    assert "below the claimed" in str(report)


def test_a_law_of_another_mean_or_spread_is_rejected():
    data = {"claim": "distributional", "policies": levels(0, 1), "steps": 64}
    assert check_order(Toy(common=False), None, replications=400, error_rate=1e-6, **data).holds
    spread = check_order(Toy(common=False, spread=3.0), None, replications=400, **data)
    assert not spread.holds
    biased = check_order(Toy(common=False, bias=0.4), None, replications=40, **data)
    assert not biased.holds
    assert biased.counter_example.found == pytest.approx(MEANS[0] + 0.4, abs=0.2)
    assert biased.counter_example.expected == pytest.approx(MEANS[0], abs=0.2)
    # Spread is a matter of laws, which need batches that match.
    means = check_order(
        Toy(common=False, spread=3.0, every=3, batch=7), None, replications=40, **data
    )
    assert means.p_value > 1e-6


def test_too_few_informative_steps_in_distribution_are_a_counter_example():
    report = check_order(
        Toy(common=False),
        None,
        claim="distributional",
        policies=levels(0, 4),
        order=InformationOrder.full_feedback(2),
        steps=10,
        replications=4,
    )
    assert not report.holds
    assert (report.p_value, report.alpha_least) == (0, 0)
    assert "on 4 paths its data gives no estimate of the other's cost" in str(report)
    assert json.loads(json.dumps(report.as_dict(), allow_nan=False))["holds"] is False


def test_without_noise_the_law_is_one_value():
    constant = Constant(value=2)
    points = levels(1, 2, 4)
    data = {"claim": "distributional", "policies": points, "steps": 100}
    assert check_order(shop(), constant, **data).p_value == 1
    assert check_order(shop(), constant, order=reversed_order(points), **data).p_value == 0


@settings(deadline=None)
@given(st.integers(2, 12), st.integers(0, 2**32 - 1), st.booleans())
def test_the_tests_are_those_of_scipy(size, seed, ties):
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=(2, size)) * [[1.0], [3.0]] + [[0.0], [rng.normal()]]
    if ties:
        one, other = one.round(), other.round()
    with warnings.catch_warnings(record=True) as refused:
        warnings.simplefilter("always")
        exact = stats.ks_2samp(one, other, method="exact").pvalue
    assume(not refused)  # where SciPy can't compute the exact value, it takes another one
    assert _smirnov(one, other) == pytest.approx(exact, abs=1e-12)
    if one.std() > 0 and other.std() > 0:
        welch = stats.ttest_ind(one, other, equal_var=False).pvalue
        assert _welch(one, other) == pytest.approx(welch, rel=1e-9)


def test_values_that_differ_by_rounding_become_one():
    one, other = _joined(np.array([1.0, 2.0, 1.0 + 1e-13]), np.array([2.0 - 1e-13, 3.0]))
    assert one.tolist() == [1.0, 2.0 - 1e-13, 1.0]
    assert other.tolist() == [2.0 - 1e-13, 3.0]


def matrix(order):
    return [[order.informs(i, j) for j in range(len(order))] for i in range(len(order))]


def test_discovery_finds_the_base_stock_order():
    points = levels(3, 1, 5, 2, 4)
    evidence = gather_evidence(shop(), DEMAND, points)
    assert matrix(evidence.order) == matrix(shop().order(points))
    assert evidence.dropped == 0
    assert "10 of 20 pairs passed as sample-path" in str(evidence)
    assert matrix(discover_order(shop(), DEMAND, points, seed=1)) == matrix(evidence.order)


@pytest.mark.parametrize("claim", ["sample-path", "distributional"])
def test_discovery_finds_blocks(claim):
    problem = Toy(common=claim == "sample-path")
    points = problem.policy_class.points
    order = discover_order(
        problem, None, points, claim=claim, steps=50, replications=8, error_rate=1e-6
    )
    assert matrix(order) == matrix(problem.order(points))
    assert order.width() == 2


def evidence_of(informs):
    informs = np.array(informs, dtype=bool)
    return Evidence("sample-path", np.arange(len(informs))[:, None], informs, 1, 1, 0, 0.01)


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_a_proposal_claims_nothing_that_was_not_seen_and_keeps_orders(n, seed):
    informs = np.random.default_rng(seed).random((n, n)) < 0.5
    np.fill_diagonal(informs, True)
    evidence = evidence_of(informs)
    proposed = np.array(matrix(evidence.order))  # a preorder, or it would have been refused
    assert not (proposed & ~informs).any()
    assert evidence.dropped == (informs & ~proposed).sum()
    assert matrix(evidence_of(proposed).order) == proposed.tolist()


def test_pairs_are_sampled_by_the_seed():
    reports = [check_order(shop(), DEMAND, pairs=7, seed=seed, steps=50) for seed in (1, 1, 2)]
    assert reports[0] == reports[1]
    assert (reports[0].pairs, reports[0].pairs_tested) == (66, 7)
    assert reports[2].holds


def test_an_order_without_pairs_has_nothing_to_test():
    for claim in ("sample-path", "distributional"):
        report = check_order(
            shop(),
            DEMAND,
            claim=claim,
            policies=levels(1, 2),
            order=InformationOrder.trivial(2),
        )
        assert (report.holds, report.pairs, report.width) == (True, 0, 2)
        assert "Nothing to test" in str(report)
        assert json.loads(json.dumps(report.as_dict(), allow_nan=False))["alpha_least"] is None


def test_a_few_policies_stand_for_a_class_of_any_dimension():
    class Many(Toy):
        policy_class = Box(0, 3, step=1)

    for dimension in (1, 2, 3, 4, 5, 30):
        Many.policy_class = Box([0] * dimension, [3] * dimension, step=1)
        points = some_policies(Many())
        assert 4 <= len(points) <= 16
        assert points.shape[1] == dimension
        assert len(np.unique(points, axis=0)) == len(points)
        assert {0, 3} <= set(points[:, 0])
        np.testing.assert_array_equal(points, some_policies(Many()))
    Many.policy_class = Finite(np.random.default_rng(0).random((99, 1)))
    assert len(some_policies(Many())) == 50  # of those listed


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"claim": "path"}, "path.*did you mean 'sample-path'"),
        ({"policies": levels(1, 9)}, r"Policy \(9\).*level must lie between 0 and 7"),
        ({"policies": levels(1, 1)}, "given twice"),
        ({"policies": [[1.0, 2.0]]}, "1 parameters, not the 2"),
        ({"policies": levels(*np.linspace(0, 7, 501))}, "501 policies.*at most 500"),
        ({"order": InformationOrder.trivial(2)}, "give the policies"),
        ({"order": InformationOrder.trivial(3), "policies": levels(1, 2)}, "3 policies, but 2"),
        ({"pairs": 0}, "pairs.*0"),
        ({"steps": 0}, "steps.*0"),
        ({"steps": 10**8}, "steps.*at most 10000000, not 100000000"),
        ({"replications": 1.5}, "replications.*1.5"),
        ({"claim": "distributional", "replications": 3}, "replications.*at least 4, not 3"),
        ({"error_rate": 0.0}, "error_rate.*0.0"),
        ({"seed": -1}, "seed.*-1"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        check_order(shop(), DEMAND, **settings)


# The table [order] and the command.

SHOP = """
[problem]
kind = "lost-sales"
lead_time = 1
holding_cost = 1.0
lost_sales_cost = 10.0
levels = { low = 0.0, high = 7.0 }
[demand]
distribution = "poisson"
mean = 2.0
"""


def test_the_table_is_read_and_no_matter_to_the_problem():
    points = levels(1, 2)
    assert parse_order(SHOP).order_on(points) is None
    assert parse_order(SHOP) == parse_order("order = {}")
    table = parse_order(SHOP + "[order]\nclaim = 'distributional'\nkeys = [[-1]]")
    assert table.claim == "distributional"
    assert table.order_on(points).informs(0, 1)
    table = parse_order("order = { policies = [1, 2.5], matrix = [[true, false], [1, 1]] }")
    assert table.policies.tolist() == [[1.0], [2.5]]
    assert matrix(table.order_on(table.policies)) == [[True, False], [True, True]]
    assert parse_problem(SHOP + "[order]\nkeys = [[-1]]") == parse_problem(SHOP)
    # 0.3 - 0.1 and 0.4 - 0.2 differ by rounding: they are a tie.
    table = parse_order("order = { keys = [[-1, 1]] }")
    assert matrix(table.order_on(np.array([[0.1, 0.3], [0.2, 0.4]]))) == [[True] * 2] * 2


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("clam = 'sample-path'", ["clam", "did you mean 'claim'"]),
        ("claim = 'sample'", ["'sample'", "did you mean 'sample-path'"]),
        ("claim = 3", ["not 3", "sample-path"]),
        ("keys = [1.0]", ["keys", "[1.0]", "[[0.0, 1.0]]"]),
        ("keys = [[1.0], [1.0, 2.0]]", ["keys", "[1.0, 2.0]"]),
        ("keys = [['1']]", ["keys", "'1'"]),
        ("keys = [[nan]]", ["keys", "nan"]),
        ("keys = []", ["keys", "[]"]),
        ("keys = [[1.0, 2.0]]", ["2 weights", "1 parameters"]),
        ("policies = [[1.0, 2.0]]", ["1 parameters", "1, 2"]),
        ("policies = [1.0, 9.0]", ["9", "between 0 and 7"]),
        ("policies = 3", ["policies", "3"]),
        ("matrix = [[1]]", ["matrix", "policies"]),
        ("matrix = [[1]]\nkeys = [[1]]\npolicies = [1]", ["keys", "matrix"]),
        ("matrix = [[1, 0], [0, 1]]\npolicies = [1]", ["2 rows", "1 policies"]),
        ("matrix = [[1, 0]]\npolicies = [1]", ["matrix", "(1, 2)"]),
        ("matrix = [[1, 2], [0, 1]]\npolicies = [1, 2]", ["2", "neither true nor false"]),
        (
            "matrix = [[1, 1, 0], [0, 1, 1], [0, 0, 1]]\npolicies = [1, 2, 3]",
            ["0 informs 1 and 1 informs 2, but 0 does not inform 2"],
        ),
    ],
)
def test_a_wrong_table_is_refused_in_a_sentence(iopea, tmp_path, table, words):
    file = tmp_path / "shop.toml"
    file.write_text(f"{SHOP}[order]\n{table}\n")
    status, out, err = iopea("check-order", file)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    for word in words:
        assert word in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-file.toml"], ["no-such-file.toml"]),
        (["FILE", "--pairs", "0"], ["pairs", "0"]),
        (["FILE", "--steps", "many"], ["steps", "'many'"]),
        (["FILE", "--error-rate", "2"], ["--error-rate", "2"]),
        (["FILE", "--replications", "0"], ["replications", "0"]),
        (["FILE", "--seed", "-1"], ["seed", "-1"]),
        ([], ["FILE"]),
    ],
)
def test_wrong_arguments_end_with_a_sentence_and_status_2(iopea, tmp_path, arguments, words):
    (tmp_path / "shop.toml").write_text(SHOP)
    given = [tmp_path / "shop.toml" if each == "FILE" else each for each in arguments]
    status, out, err = iopea("check-order", *given)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    for word in words:
        assert word.lower() in err.lower()


CONFIRMED = {
    "base-stock": True,
    "base-stock-reversed": False,
    "dual-index": True,
    "dual-index-sample-path": False,
    "dual-index-gaps": True,
    "dual-index-levels": False,
    "queue": True,
    "queue-sample-path": False,
}


@pytest.mark.parametrize("name", CONFIRMED)
def test_the_examples_are_confirmed_or_rejected(iopea, name):
    status, out, _ = iopea("check-order", ORDERS / f"{name}.toml", "--json")
    report = json.loads(out)
    assert report["holds"] is CONFIRMED[name]
    assert status == (0 if CONFIRMED[name] else 1)
    assert (report["counter_example"] is None) is CONFIRMED[name]
    assert report.keys() >= {"version", "problem", "truth", "width", "alpha_claimed"}
    assert report["alpha_least"] >= report["alpha_claimed"]


def test_all_examples_are_tested():
    assert {path.stem for path in ORDERS.glob("*.toml")} == set(CONFIRMED)


def test_the_command_prints_a_table_and_a_sentence(iopea):
    few = ["--steps", 300, "--replications", 2, "--pairs", 20, "--seed", 3]
    file = ORDERS / "base-stock-reversed.toml"
    status, out, _ = iopea("check-order", file, *few)
    assert status == 1
    for word in ("width", "α", "claimed", "measured", "Rejected: the sample-path claim is false"):
        assert word in out
    file = ORDERS / "base-stock.toml"
    status, out, _ = iopea("check-order", file, *few)
    assert status == 0
    assert "20 pairs of 12 policies, exactly, on 2 paths of 300 steps each" in out


def test_two_periods_show_that_lower_levels_of_both_kinds_are_not_informed():
    # Demand is 2 in each period. Policy (1, 2) sells 1, and has 1 unit more in period 2. Policy
    # (0, 2) sells nothing at first, then has 2 units: that demand was 2 and not 1 is not seen.
    file = ORDERS / "dual-index-levels.toml"
    problem, _ = read_problem(file)
    points = np.array([[1.0, 2.0], [0.0, 2.0]])
    report = check_order(
        problem,
        Constant(value=2),
        claim="sample-path",
        policies=points,
        order=read_order(file).order_on(points),
        replications=1,
    )
    assert report.counter_example.step == 2
    assert (report.counter_example.expected, report.counter_example.found) == (-20.0, -9.0)
