"""Testing a claimed information order on a simulator, and proposing an order from replays.

Policy i informs policy j if the cost of j can be estimated from data collected under i. A claimed
order is tested on pairs of policies of which one is claimed to inform the other.

A sample-path claim (label ``definition_sample_path_order``) says that the cost of j is known
exactly on every path of i. It is tested exactly, under common noise: a true claim is never
rejected.

A distributional claim (label ``definition_general_order``) says that estimates from i's data have
the distribution of the average cost of j over a share α of the steps, or, for plug-in estimators,
that they are close to that cost (label ``queuing_policy_order_definition``). It is tested by the
two-sample tests of :mod:`iopea.orders.trials`: over all pairs, the probability of rejecting a true
claim is at most the error rate, by Bonferroni's inequality.

Both tests compare the problem's estimator on i's data with the same estimator on j's own data. They
can't detect an estimator that is wrong on both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from iopea.errors import InputError
from iopea.information_order import InformationOrder
from iopea.model import check_choice, check_count, check_kind, check_seed, check_share
from iopea.orders.trials import CounterExample, Outcome, Trial
from iopea.policies import Box, Finite
from iopea.problems.base import Problem
from iopea.seeds import seed_for
from iopea.types import Array, Claim, Indices, Mask, Policy, Truth, show_policy

#: Default and least numbers of steps and replications, for each claim.
_DATA: dict[Claim, tuple[int, int]] = {"sample-path": (2000, 4), "distributional": (10_000, 24)}
_LEAST_DATA: dict[Claim, tuple[int, int]] = {"sample-path": (1, 1), "distributional": (2, 4)}
#: Least number of useful steps expected on a path.
_FEW_USEFUL = 8
#: Values per parameter of the default policies, by the number of parameters.
_PER_AXIS = {1: 12, 2: 4}
#: Largest number of default policies, of them where they are listed, and of those tested at all.
_SOME_POLICIES, _SOME_LISTED, _MOST_POLICIES = 16, 50, 500
#: Longest path, which is held in memory.
_MOST_STEPS = 10**7
#: Default of the largest number of pairs to test.
SOME_PAIRS = 1000


@dataclass(frozen=True)
class OrderReport:
    """The result of testing a claimed order.

    Attributes
    ----------
    claim : str. ``"sample-path"`` or ``"distributional"``.
    policies : tuple. The policies that were tested.
    width : int. Width of the order on them [w].
    pairs, pairs_tested : int. Number of pairs of different policies i, j of which i is claimed to
        inform j, and how many of them were tested.
    steps, replications, seed : int. The data of each policy.
    holds : bool. Whether the claim held on all tested pairs.
    pairs_failed : int. Number of pairs on which it did not.
    alpha_claimed : float. The share of useful steps [α]: the problem's, or 1 on sample paths.
    alpha_measured, alpha_least : float. Share of i's steps that were informative about j: mean and
        minimum over the pairs; NaN without pairs.
    counter_example : CounterExample, optional. A pair for which the claim is false.
    error_rate, p_value : float, optional. For a distributional claim: the probability of rejecting
        a true one, and the least p-value times the number of tests, which is compared with it.
    """

    claim: Claim
    policies: tuple[Policy, ...]
    width: int
    pairs: int
    pairs_tested: int
    steps: int
    replications: int
    seed: int
    holds: bool
    pairs_failed: int
    alpha_claimed: float
    alpha_measured: float
    alpha_least: float
    counter_example: CounterExample | None = None
    error_rate: float | None = None
    p_value: float | None = None

    def __str__(self) -> str:
        """The test and its result in words."""
        if not self.pairs_tested:
            return (
                f"Nothing to test: none of the {len(self.policies)} policies is claimed to inform "
                "another."
            )
        where = f"{self.pairs_tested} pairs of {len(self.policies)} policies"
        data = f"{self.replications} paths of {self.steps} steps each"
        if self.counter_example is not None:
            example = self.counter_example
            return (
                f"Rejected: the {self.claim} claim is false on {self.pairs_failed} of {where}, "
                f"on {data}. For example, policy {show_policy(example.informing, 6)} does not "
                f"inform policy {show_policy(example.informed, 6)}: {example.reason}"
            )
        if self.error_rate is None:
            return f"Confirmed: the {self.claim} claim holds on {where}, exactly, on {data}."
        fewer = self.alpha_least < self.alpha_claimed
        return (
            f"Confirmed: the {self.claim} claim is not rejected on {where}, on {data} per policy, "
            f"by tests that reject a true claim with a probability of at most {self.error_rate:g}."
            + (" But for some pair the share of useful steps is below the claimed α." * fewer)
        )

    def as_dict(self) -> dict[str, Any]:
        """All attributes as JSON values."""
        example = self.counter_example
        return {
            **vars(self),
            "policies": [list(policy) for policy in self.policies],
            "alpha_measured": _or_none(self.alpha_measured),
            "alpha_least": _or_none(self.alpha_least),
            "counter_example": None if example is None else example.as_dict(),
        }


@dataclass(frozen=True)
class Evidence:
    """The pairs that passed the tests, and the order proposed from them.

    Attributes
    ----------
    claim, steps, replications, seed, error_rate : as in :class:`OrderReport`.
    policies : array (n, d).
    informs : bool array (n, n). Whether the pair i, j passed the test that i informs j.
    """

    claim: Claim
    policies: Array
    informs: Mask
    steps: int
    replications: int
    seed: int
    error_rate: float

    @property
    def order(self) -> InformationOrder:
        """The proposal: i informs j if i was found to inform all that j was found to inform.

        This is reflexive and transitive, and since each policy informs itself, it claims no pair
        that failed. If the pairs that passed form an order, it is that order.
        """
        return InformationOrder.from_matrix(self._proposed)

    @property
    def dropped(self) -> int:
        """Number of pairs that passed but are left out, so that the proposal is transitive."""
        return int((self.informs & ~self._proposed).sum())

    @property
    def _proposed(self) -> Mask:
        missing = self.informs[None, :, :] & ~self.informs[:, None, :]
        return np.asarray(~missing.any(axis=2))

    def __str__(self) -> str:
        """The evidence and the proposal in words."""
        n = len(self.policies)
        passed = int(self.informs.sum()) - n
        return (
            f"{passed} of {n * (n - 1)} pairs passed as {self.claim}, on {self.replications} paths "
            f"of {self.steps} steps each. The proposed order has width "
            f"{self.order.width()} and leaves out {self.dropped} of them. It is not proved."
        )


def check_order(
    problem: Problem,
    truth: Truth,
    *,
    policies: Array | None = None,
    order: InformationOrder | None = None,
    claim: Claim | None = None,
    pairs: int = SOME_PAIRS,
    steps: int | None = None,
    replications: int | None = None,
    error_rate: float = 0.01,
    seed: int = 0,
) -> OrderReport:
    """Test a claimed information order on the true system.

    Parameters
    ----------
    problem, truth : the system; its own order and claim are tested unless others are given.
    policies : array (n, d), optional. The policies to test; a few of the class by default.
    order : InformationOrder, optional. An order on ``policies``, which must then be given.
    claim : str, optional. ``"sample-path"`` or ``"distributional"``.
    pairs : int. Largest number of pairs to test; of more pairs, a random sample is tested.
    steps, replications : int, optional. Length and number of the paths of each policy; by default
        4 of 2,000 steps for sample-path, 24 of 10,000 for distributional claims.
    error_rate : float. Largest probability of rejecting a true distributional claim.
    seed : int. Seed of all random draws.

    Examples
    --------
    >>> from iopea import LostSales
    >>> from iopea.demand import Poisson
    >>> shop = LostSales(lead_time=1, holding_cost=1, lost_sales_cost=9,
    ...                  levels={"low": 0, "high": 10, "step": 1})
    >>> print(check_order(shop, Poisson(mean=3)))
    Confirmed: the sample-path claim holds on 55 pairs of 11 policies, exactly, on 4 paths of
    2000 steps each.
    >>> levels = np.array([[2.0], [5.0]])
    >>> lower_informs_higher = InformationOrder.from_key([-2.0, -5.0])
    >>> report = check_order(shop, Poisson(mean=3), policies=levels, order=lower_informs_higher)
    >>> report.holds, report.counter_example.step
    (False, 2)
    """
    if order is not None and policies is None:
        raise InputError("An order was given without policies: give the policies, too.")
    points = some_policies(problem, seed) if policies is None else _checked(problem, policies)
    order = problem.order(points) if order is None else order
    if len(order) != len(points):
        raise InputError(f"The order has {len(order)} policies, but {len(points)} are given.")
    tests = _Tests(problem, truth, points, claim, steps, replications, error_rate, seed)
    related = _pairs(order)
    tested = related[_sample(len(related), check_count("pairs", pairs), seed)]
    outcome = tests.outcome(tested)
    shares = outcome.shares if len(tested) else np.array([math.nan])
    distributional = tests.claim == "distributional"
    return OrderReport(
        claim=tests.claim,
        policies=tuple(tuple(map(float, point)) for point in points),
        width=order.width(),
        pairs=len(related),
        pairs_tested=len(tested),
        steps=tests.trial.steps,
        replications=tests.trial.replications,
        seed=seed,
        holds=not outcome.failed.any(),
        pairs_failed=int(outcome.failed.sum()),
        alpha_claimed=problem.constants.alpha if distributional else 1.0,
        alpha_measured=float(shares.mean()),
        alpha_least=float(shares.min()),
        counter_example=outcome.example,
        error_rate=tests.error_rate if distributional else None,
        p_value=outcome.p_value if distributional else None,
    )


def gather_evidence(
    problem: Problem,
    truth: Truth,
    policies: Array,
    *,
    claim: Claim | None = None,
    steps: int | None = None,
    replications: int | None = None,
    error_rate: float = 0.01,
    seed: int = 0,
) -> Evidence:
    """Test for every ordered pair of policies whether one informs the other.

    The parameters are those of :func:`check_order`.
    """
    points = _checked(problem, policies)
    tests = _Tests(problem, truth, points, claim, steps, replications, error_rate, seed)
    pairs = _pairs(InformationOrder.full_feedback(len(points)))
    informs = np.ones((len(points), len(points)), dtype=np.bool_)
    informs[pairs[:, 0], pairs[:, 1]] = ~tests.outcome(pairs).failed
    data = (tests.trial.steps, tests.trial.replications)
    return Evidence(tests.claim, points, informs, *data, seed, tests.error_rate)


def discover_order(
    problem: Problem,
    truth: Truth,
    policies: Array,
    *,
    claim: Claim | None = None,
    steps: int | None = None,
    replications: int | None = None,
    error_rate: float = 0.01,
    seed: int = 0,
) -> InformationOrder:
    """Propose an order on policies from replays, for a family without a proved order.

    It is a proposal from evidence, not a proof: a pair is claimed if it passed the tests on the
    simulated paths. A path on which it fails may be rare, and a difference in distribution may be
    too small to be detected. More steps and replications make both less likely.

    The parameters are those of :func:`check_order`; :func:`gather_evidence` gives the evidence for
    the proposal.

    Examples
    --------
    >>> from iopea import LostSales
    >>> from iopea.demand import Poisson
    >>> shop = LostSales(lead_time=1, holding_cost=1, lost_sales_cost=9,
    ...                  levels={"low": 0, "high": 10, "step": 1})
    >>> order = discover_order(shop, Poisson(mean=3), np.array([[2.0], [6.0], [4.0]]))
    >>> [order.informs(1, j) for j in range(3)], order.width()
    ([True, True, True], 1)
    """
    data = {"steps": steps, "replications": replications}
    return gather_evidence(
        problem, truth, policies, claim=claim, error_rate=error_rate, seed=seed, **data
    ).order


def some_policies(problem: Problem, seed: int = 0) -> Array:
    """A few policies spread over the class, an array (n, d).

    Of policies that are listed: all, or 50 drawn at random. For classes with many parameters: the
    two extreme corners, and policies drawn at random.
    """
    check_kind("The problem", problem, Problem)
    known, dimension = problem.policy_class, problem.policy_class.dimension
    radius = known.extent / 1000 or 1.0
    rng = np.random.default_rng(seed_for("policies", seed))
    if isinstance(known, Finite):
        return known.points[_sample(known.count(radius), _SOME_LISTED, seed)]
    if isinstance(known, Box) and 2**dimension > _SOME_POLICIES:
        axes = [
            Box(low, high, known.step and known.step[axis]).thinned(_PER_AXIS[2], radius)[:, 0]
            for axis, (low, high) in enumerate(zip(known.low, known.high, strict=True))
        ]
        drawn = np.column_stack([rng.choice(values, _SOME_POLICIES - 2) for values in axes])
        return np.unique(np.vstack([known.low, known.high, drawn]), axis=0)
    net = known.thinned(_PER_AXIS.get(dimension, 2), radius)
    if len(net) <= _SOME_POLICIES:
        return net
    return net[np.sort(rng.choice(len(net), _SOME_POLICIES, replace=False))]


class _Tests:
    """The settings of a test, checked and with defaults filled in."""

    def __init__(
        self,
        problem: Problem,
        truth: Truth,
        policies: Array,
        claim: Claim | None,
        steps: int | None,
        replications: int | None,
        error_rate: float,
        seed: int,
    ) -> None:
        check_kind("The problem", problem, Problem)
        self.claim: Claim = problem.claim if claim is None else claim
        check_choice("claim", self.claim, get_args(Claim))
        self.error_rate = check_share("error_rate", error_rate)
        defaults, least = _DATA[self.claim], _LEAST_DATA[self.claim]
        needed = self._steps_needed(problem)
        steps = check_count("steps", max(defaults[0], needed) if steps is None else steps, least[0])
        if steps < needed:
            raise InputError(
                f"{steps} steps are too few to test this claim, by which only a share of "
                f"{problem.constants.alpha:.2g} of them is informative: use at least {needed}."
            )
        if steps > _MOST_STEPS:
            raise InputError(f"steps must be at most {_MOST_STEPS}, not {steps}.")
        paths = defaults[1] if replications is None else replications
        paths = check_count("replications", paths, least[1])
        seed = check_seed(seed)
        self.trial = Trial(problem, truth, policies, steps, paths, seed)

    def _steps_needed(self, problem: Problem) -> int:
        """Steps for a few useful ones, where only a share α of the steps is claimed useful."""
        share = problem.constants.alpha
        if self.claim == "sample-path" or not 0 < share < 1:
            return 1
        return math.ceil(_FEW_USEFUL / share)

    def outcome(self, pairs: Indices) -> Outcome:
        """Test all pairs i, j, an array (m, 2)."""
        if self.claim == "sample-path":
            return self.trial.on_paths(pairs)
        return self.trial.in_distribution(pairs, self.error_rate)


def _checked(problem: Problem, policies: Array) -> Array:
    """Policies of the class, an array (n, d)."""
    points, known = Finite(policies).points, problem.policy_class
    if points.shape[1] != known.dimension:
        raise InputError(
            f"A policy has {known.dimension} parameters, not the {points.shape[1]} of "
            f"({show_policy(tuple(points[0]))})."
        )
    if len(points) > _MOST_POLICIES:
        raise InputError(f"{len(points)} policies are too many: give at most {_MOST_POLICIES}.")
    for axis, name in enumerate(known.names):
        low, high = known.ends(axis)
        outside = points[(points[:, axis] < low) | (points[:, axis] > high)]
        if len(outside):
            raise InputError(
                f"Policy ({show_policy(tuple(outside[0]))}) is not in the class: its {name} must "
                f"lie between {low:g} and {high:g}."
            )
    return points


def _pairs(order: InformationOrder) -> Indices:
    """All pairs of different policies i, j of which i informs j, an array (m, 2)."""
    n = len(order)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j and order.informs(i, j)]
    return np.array(pairs, dtype=np.intp).reshape(-1, 2)


def _sample(count: int, most: int, seed: int) -> Indices:
    """The indices below ``count``, or a random sample of ``most`` of them, ascending."""
    if count <= most:
        return np.arange(count)
    rng = np.random.default_rng(seed_for("pairs", seed))
    return np.sort(rng.choice(count, most, replace=False))


def _or_none(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else value
