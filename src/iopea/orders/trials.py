"""Tests on a simulator of whether the data of one policy informs another.

On sample paths. Both policies face the same noise, each from the initial state. The cost of j
computed from data under i must equal that computed from data under j, batch by batch, up to
rounding. A path on which they differ is a counter-example: the test is exact.

In distribution. R estimates of the cost of j from independent paths of i are compared with the
average costs of R independent paths of j by two tests, each at half of the error rate:

- equality of means, by Welch's t-test, which takes averages over many steps as normal. The number
  of useful steps may differ, and with it a bias of order 1/T: from the initial transient, from
  ratios and from functions of estimates. It is removed first: twice the estimate from all steps
  minus that from the first half, which for plain averages is the average over the second half;
- equality of distributions, by Smirnov's exact test, at a number of useful steps n that all paths
  have reached (the αT of the definition), if all paths have a batch that ends there. If the claim
  is true, both are averages over n steps from the initial state, whatever their distribution.

Plug-in estimators are claimed to be close to the cost, not to have the distribution of an average.
For them, and where there is no such n, only the means are tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import stdtr

from iopea.problems.base import Evaluator, Problem
from iopea.seeds import seed_for
from iopea.types import Array, Indices, Mask, Policy, Trajectory, Truth

#: Costs that differ by less than this share of all costs on the path are equal.
SAME_COST = 1e-9
#: Largest share of the replications without an estimate for a policy.
MOST_WITHOUT_ESTIMATE = 0.1
#: Additional rounding error of the cost of a step, as a share of the cost range.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class CounterExample:
    """A pair for which a claim is false, with the evidence.

    Attributes
    ----------
    informing, informed : tuple. Policies i and j: i does not inform j.
    reason : str. The evidence in words.
    expected, found : float. Cost of j from its own data and from i's; NaN without an estimate. On a
        sample path, the sum up to ``step``; in distribution, the mean estimate of the average cost.
    seed, step : int, optional. On a sample path: the simulator's seed, and the first step, counted
        from 1, after which the two differ.
    """

    informing: Policy
    informed: Policy
    reason: str
    expected: float
    found: float
    seed: int | None = None
    step: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """All attributes as JSON values, with None for NaN."""
        values = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in vars(self).items()
        }
        return {**values, "informing": list(self.informing), "informed": list(self.informed)}


@dataclass(frozen=True)
class Outcome:
    """The results of testing pairs, and an example of one that failed.

    Attributes
    ----------
    failed : bool array. For each pair, whether the test found that i does not inform j.
    shares : array. For each pair, the share of i's steps that were informative about j [α].
    p_value : float. The least of all pairs, times their number; 0 or 1 on sample paths.
    example : CounterExample, optional.
    """

    failed: Mask
    shares: Array
    p_value: float
    example: CounterExample | None


@dataclass(frozen=True)
class _Record:
    """Estimates for one policy from one path: batch sums, and the average of the first half."""

    sums: Array
    sizes: Array
    halfway: float

    @property
    def steps(self) -> float:
        return float(self.sizes.sum())

    @property
    def total(self) -> float:
        return float(self.sums.sum())

    @property
    def unbiased(self) -> float:
        """The average without its bias of order 1/T; NaN without an informative step."""
        return 2 * self.total / self.steps - self.halfway if self.steps else math.nan

    @cached_property
    def averages(self) -> dict[float, float]:
        """The average up to the end of each batch, by its number of useful steps."""
        steps, totals = np.cumsum(self.sizes), np.cumsum(self.sums)
        some = steps > 0
        return dict(zip(steps[some].tolist(), (totals[some] / steps[some]).tolist(), strict=True))


@dataclass(frozen=True)
class Trial:
    """The system, the policies to test, an array (n, d), and how much data to simulate."""

    problem: Problem
    truth: Truth
    policies: Array
    steps: int
    replications: int
    seed: int

    def on_paths(self, pairs: Indices) -> Outcome:
        """Compare replays with rollouts under common noise, for pairs i, j, an array (m, 2)."""
        failed, shares = np.zeros(len(pairs), dtype=np.bool_), np.zeros(len(pairs))
        example = None
        records = self._records(pairs, self.problem.path_evaluator, "path", "path")
        for pair, own, other in records:
            shares[pair] = _share(other, self.steps)
            for seed, real, replayed in zip(self._seeds("path"), own, other, strict=True):
                if self._differ(real, replayed):
                    failed[pair] = True
                    example = example or self._first_difference(pairs[pair], seed)
        return Outcome(failed, shares, float(example is None), example)

    def in_distribution(self, pairs: Indices, error_rate: float) -> Outcome:
        """Compare distributions of estimates for pairs i, j, an array (m, 2).

        If all claims are true, the probability that any pair fails is at most ``error_rate``.
        """
        p_values, shares = np.ones(len(pairs)), np.zeros(len(pairs))
        example = None
        for pair, own, other in self._records(pairs, self.problem.evaluator, "own", "other"):
            shares[pair] = _share(other, self.steps)
            compared = _compare(own, other, distributions=not self.problem.plug_in)
            p_values[pair] = compared.p_value * len(pairs)
            if p_values[pair] <= error_rate and p_values[pair] == p_values.min():
                i, j = map(self._policy, pairs[pair])
                reason = compared.reason(p_values[pair], error_rate)
                expected, found = map(_mean, (compared.expected, compared.found))
                example = CounterExample(i, j, reason, expected, found)
        least = min(1.0, float(p_values.min(initial=1.0)))
        return Outcome(p_values <= error_rate, shares, least, example)

    def _records(
        self, pairs: Indices, evaluator: Callable[[Array], Evaluator], own_use: str, other_use: str
    ) -> Iterator[tuple[int, list[_Record], list[_Record]]]:
        """Each pair's number, and the estimates for j from paths of j and from paths of i."""
        own = {
            j: [
                _estimated(self.problem.path_evaluator(self.policies[[j]]), self._play(j, seed))[0]
                for seed in self._seeds(own_use)
            ]
            for j in np.unique(pairs[:, 1])
        }
        for i in np.unique(pairs[:, 0]):
            numbers = np.flatnonzero(pairs[:, 0] == i)
            informed = self.policies[pairs[numbers, 1]]
            other = [
                _estimated(evaluator(informed), self._play(i, seed))
                for seed in self._seeds(other_use)
            ]
            for column, pair in enumerate(numbers.tolist()):
                yield pair, own[pairs[pair, 1]], [path[column] for path in other]

    def _seeds(self, use: str) -> list[int]:
        """Seeds of the simulator, one for each replication."""
        return [
            int(seed_for("order", use, self.seed, replication).generate_state(1)[0])
            for replication in range(self.replications)
        ]

    def _play(self, i: np.intp, seed: int) -> list[Trajectory]:
        """One path of policy i, in two halves."""
        simulator = self.problem.simulator(self.truth, seed)
        parts = (self.steps - self.steps // 2, self.steps // 2)
        return [simulator._play(self._policy(i), part).trajectory for part in parts if part]

    def _policy(self, i: np.intp) -> Policy:
        return tuple(map(float, self.policies[i]))

    def _differ(self, one: _Record, other: _Record) -> bool:
        """Whether two records of a policy differ by more than rounding."""
        if one.steps != other.steps:
            return True
        if np.array_equal(one.sizes, other.sizes):
            gap = float(np.abs(one.sums - other.sums).max(initial=0.0))
        else:
            gap = abs(one.total - other.total)
        scale = max(float(np.abs(record.sums).sum()) for record in (one, other))
        rounding = _ROUNDING * self.problem.constants.cost_range * one.steps
        return not gap <= SAME_COST * scale + rounding

    def _first_difference(self, pair: Indices, seed: int) -> CounterExample:
        """Evaluate policy j on both paths step by step until the estimates differ."""
        i, j = pair
        paths = [self._play(j, seed), self._play(i, seed)]
        evaluators = [self.problem.path_evaluator(self.policies[[j]]) for _ in paths]
        real, replayed = (_estimated(*both)[0] for both in zip(evaluators, paths, strict=True))
        step = self.steps
        evaluators = [self.problem.path_evaluator(self.policies[[j]]) for _ in paths]
        for number, steps in enumerate(zip(*map(_single_steps, paths), strict=True), start=1):
            records = [
                _estimated(evaluator, [one])[0]
                for evaluator, one in zip(evaluators, steps, strict=True)
            ]
            if self._differ(*records):
                step, (real, replayed) = number, records
                break
        found = replayed.total if replayed.steps else math.nan
        if not replayed.steps:
            finding = "its data gives no estimate of the other's cost"
        elif replayed.steps != real.steps:
            finding = (
                f"its data gives the other's cost in {replayed.steps:g} of {real.steps:g} steps"
            )
        else:
            finding = (
                f"the other's cost so far is {found:.9g} by its data, "
                f"but {real.total:.9g} by the other's own data"
            )
        reason = f"after step {step} of the path with seed {seed}, {finding}."
        return CounterExample(
            self._policy(i), self._policy(j), reason, real.total, found, seed, step
        )


def _estimated(evaluator: Evaluator, path: Sequence[Trajectory]) -> list[_Record]:
    """Estimates for each policy of an evaluator from a path, which is observed part by part."""
    evaluator.observe(path[0], evaluate=True)
    estimates = evaluator.estimates()
    halfway = estimates.mean
    for part in path[1:]:
        evaluator.observe(part, evaluate=True)
        estimates = evaluator.estimates()
    sums, sizes = estimates.sums, estimates.sizes
    if sizes.ndim == 1:
        sizes = np.broadcast_to(sizes[:, None], sums.shape)
    return [
        _Record(sums[:, column], sizes[:, column], float(halfway[column]))
        for column in range(sums.shape[1])
    ]


def _single_steps(path: Sequence[Trajectory]) -> Iterator[Trajectory]:
    for part in path:
        for step in range(len(part)):
            row = {name: values[step] for name, values in part.columns.items()}
            yield Trajectory(part.policy, **row)


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else math.nan


def _share(records: Sequence[_Record], steps: int) -> float:
    return float(np.mean([record.steps for record in records])) / steps


@dataclass(frozen=True)
class _Comparison:
    """Estimates of a policy's cost from its own data and from another's, and their p-value."""

    expected: Array
    found: Array
    p_value: float
    without_estimate: int = 0

    def reason(self, p_value: float, error_rate: float) -> str:
        """Why the two differ, in words."""
        if self.without_estimate:
            return (
                f"on {self.without_estimate} paths its data gives no estimate of the other's cost, "
                "or none from the first half."
            )
        found, expected = (f"{np.mean(values):.6g}" for values in (self.found, self.expected))
        spreads = [f"{np.std(values, ddof=1):.2g}" for values in (self.found, self.expected)]
        return (
            f"by its data the other costs {found} per step (standard deviation {spreads[0]} over "
            f"{len(self.found)} paths), by the other's own data {expected} ({spreads[1]}); "
            f"p = {p_value:.2g}, corrected for all pairs, at an error rate of {error_rate:g}."
        )


def _compare(own: Sequence[_Record], other: Sequence[_Record], distributions: bool) -> _Comparison:
    """Test for equal means and, if ``distributions`` is set, for equal distributions."""
    samples = [np.array([record.unbiased for record in records]) for records in (own, other)]
    expected, found = (sample[np.isfinite(sample)] for sample in samples)
    without_estimate = len(other) - min(expected.size, found.size)
    if without_estimate > MOST_WITHOUT_ESTIMATE * len(other):
        return _Comparison(expected, found, 0.0, without_estimate)
    p_value = _welch(*_joined(expected, found))
    common = _common_steps([*own, *other]) if distributions else None
    if common is not None:
        averages = [np.array([each.averages[common] for each in side]) for side in (own, other)]
        p_value = min(1.0, 2 * min(p_value, _smirnov(*_joined(*averages))))
    return _Comparison(expected, found, p_value)


def _common_steps(records: Sequence[_Record]) -> float | None:
    """The largest number of useful steps at which a batch of every path ends, if large enough."""
    common = set(records[0].averages).intersection(*(record.averages for record in records[1:]))
    most, least = max(common, default=0.0), min(record.steps for record in records)
    return most if most > 0 and most >= least / 2 else None


def _joined(one: Array, other: Array) -> tuple[Array, Array]:
    """Two samples, in which values that are equal up to rounding are made equal."""
    pooled = np.concatenate([one, other])
    rank = pooled.argsort()
    ascending = pooled[rank]
    apart = np.diff(ascending, prepend=-np.inf) > SAME_COST * np.abs(pooled).max(initial=0.0)
    pooled[rank] = ascending[apart][np.cumsum(apart) - 1]
    return pooled[: one.size], pooled[one.size :]


def _welch(one: Array, other: Array) -> float:
    """Two-sided p-value of equal means, by Welch's t.

    >>> round(_welch(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 9.0])), 4)
    0.2838
    """
    gap = abs(one.mean() - other.mean())
    parts = [sample.var(ddof=1) / sample.size for sample in (one, other)]
    if sum(parts) == 0:
        return float(gap == 0)
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (one.size - 1) + parts[1] ** 2 / (other.size - 1))
    return float(2 * stdtr(freedom, -gap / math.sqrt(sum(parts))))


def _smirnov(one: Array, other: Array) -> float:
    """Exact two-sided p-value for equal distributions; conservative where values are tied.

    The larger sample is cut to the size n of the other; then n D has the distribution of the
    largest distance from 0 of a random bridge of 2 n steps.

    >>> round(_smirnov(np.arange(4.0), np.arange(10.0, 14.0)), 4)
    0.0286
    """
    n = min(one.size, other.size)
    one, other = np.sort(one[:n]), np.sort(other[:n])
    points = np.concatenate([one, other])
    counts = [sample.searchsorted(points, side="right") for sample in (one, other)]
    reach = int(np.abs(counts[0] - counts[1]).max())
    if reach == 0:
        return 1.0
    paths = sum(
        (-1) ** (turn + 1) * math.comb(2 * n, n - turn * reach) for turn in range(1, n // reach + 1)
    )
    return float(2 * paths / math.comb(2 * n, n))
