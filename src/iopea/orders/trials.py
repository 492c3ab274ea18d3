"""Whether the data of one policy tells the cost of another, tried on a simulator.

On paths. Both policies meet the same noise, each from the initial state. What the data under i
says of the cost of j must be what the data under j says, batch by batch, but for rounding. One path
on which they differ is a counter-example: no noise is involved.

In law. R estimates of the cost of j from independent paths of i are held against the average costs
of R independent paths of j by two tests, each at half of the error rate:

- of their means, by Welch's t, which takes averages over many steps for normal. Numbers of useful
  steps may differ, and so may what falls like 1/T: the initial transient, the bias of ratios and of
  functions of estimates. It is taken away first: twice the estimate by all steps, less that by the
  first half of them, which for plain averages is the average over the second half;
- of their laws, by Smirnov's exact test, at a number of useful steps n that all paths have reached
  (the αT of the definition), where batches of all paths end there. If the claim is true, both are
  averages over n steps from the initial state, whatever their law is.

Plug-in estimators are claimed to be near the cost, not to have the law of an average: of them, and
where there is no such n, the means alone are tested.
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

#: Costs that differ by less than this share of all costs on the path are the same.
SAME_COST = 1e-9
#: Share of the replications in which data may say nothing of a policy.
MOST_SILENT = 0.1
#: Share of the cost range by which rounding may change the cost of a step, besides.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class CounterExample:
    """A pair for which a claim is false, and how this shows.

    Attributes
    ----------
    informing, informed : tuple. Policies i and j: i's data does not tell the cost of j.
    reason : str. In words.
    expected, found : float. Cost of j by its own data, and by i's; NaN for nothing. On a path, the
        sum up to ``step``; in law, the mean estimate of the average cost.
    seed, step : int, optional. On a path: the simulator's seed, and the first step, counted from
        1, after which the two differ.
    """

    informing: Policy
    informed: Policy
    reason: str
    expected: float
    found: float
    seed: int | None = None
    step: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON values, which have no NaN."""
        values = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in vars(self).items()
        }
        return {**values, "informing": list(self.informing), "informed": list(self.informed)}


@dataclass(frozen=True)
class Outcome:
    """What came of the pairs, one value each, and an example of one that failed.

    Attributes
    ----------
    failed : bool array. Whether i does not inform j.
    shares : array. Share of i's steps that told of j [α].
    p_value : float. The least of all pairs, times their number; 0 or 1 on paths.
    example : CounterExample, optional.
    """

    failed: Mask
    shares: Array
    p_value: float
    example: CounterExample | None


@dataclass(frozen=True)
class _Record:
    """What one path told of one policy: batch sums, and the average by its first half."""

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
        """The average without what falls like 1/T; NaN where the path says nothing."""
        return 2 * self.total / self.steps - self.halfway if self.steps else math.nan

    @cached_property
    def averages(self) -> dict[float, float]:
        """By numbers of useful steps: averages up to the end of each batch."""
        steps, totals = np.cumsum(self.sizes), np.cumsum(self.sums)
        told = steps > 0
        return dict(zip(steps[told].tolist(), (totals[told] / steps[told]).tolist(), strict=True))


@dataclass(frozen=True)
class Trial:
    """The system, the policies to look at, an array (n, d), and how much data to draw."""

    problem: Problem
    truth: Truth
    policies: Array
    steps: int
    replications: int
    seed: int

    def on_paths(self, pairs: Indices) -> Outcome:
        """Compare replays with rollouts on common noise, for pairs i, j, an array (m, 2)."""
        failed, shares = np.zeros(len(pairs), dtype=np.bool_), np.zeros(len(pairs))
        example = None
        records = self._records(pairs, self.problem.path_evaluator, "path", "path")
        for pair, own, told in records:
            shares[pair] = _share(told, self.steps)
            for seed, real, replayed in zip(self._seeds("path"), own, told, strict=True):
                if self._differ(real, replayed):
                    failed[pair] = True
                    example = example or self._first_difference(pairs[pair], seed)
        return Outcome(failed, shares, float(example is None), example)

    def in_law(self, pairs: Indices, error_rate: float) -> Outcome:
        """Compare laws of estimates for pairs i, j, an array (m, 2).

        The probability that any pair fails although all claims are true is at most ``error_rate``.
        """
        p_values, shares = np.ones(len(pairs)), np.zeros(len(pairs))
        example = None
        for pair, own, told in self._records(pairs, self.problem.evaluator, "own", "other"):
            shares[pair] = _share(told, self.steps)
            compared = _compare(own, told, laws=not self.problem.plug_in)
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
        """Each pair's number, what paths of j tell of j, and what paths of i tell of j."""
        own = {
            j: [
                _told(self.problem.path_evaluator(self.policies[[j]]), self._play(j, seed))[0]
                for seed in self._seeds(own_use)
            ]
            for j in np.unique(pairs[:, 1])
        }
        for i in np.unique(pairs[:, 0]):
            numbers = np.flatnonzero(pairs[:, 0] == i)
            informed = self.policies[pairs[numbers, 1]]
            told = [
                _told(evaluator(informed), self._play(i, seed)) for seed in self._seeds(other_use)
            ]
            for column, pair in enumerate(numbers.tolist()):
                yield pair, own[pairs[pair, 1]], [path[column] for path in told]

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
        return [simulator.play(self._policy(i), part).trajectory for part in parts if part]

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
        """Deliver both paths step by step until what they tell of policy j differs."""
        i, j = pair
        paths = [self._play(j, seed), self._play(i, seed)]
        evaluators = [self.problem.path_evaluator(self.policies[[j]]) for _ in paths]
        real, replayed = (_told(*both)[0] for both in zip(evaluators, paths, strict=True))
        step = self.steps
        evaluators = [self.problem.path_evaluator(self.policies[[j]]) for _ in paths]
        for number, steps in enumerate(zip(*map(_single_steps, paths), strict=True), start=1):
            records = [
                _told(evaluator, [one])[0] for evaluator, one in zip(evaluators, steps, strict=True)
            ]
            if self._differ(*records):
                step, (real, replayed) = number, records
                break
        found = replayed.total if replayed.steps else math.nan
        if not replayed.steps:
            says = "its data says nothing of the other's cost"
        elif replayed.steps != real.steps:
            says = f"its data tells {replayed.steps:g} of {real.steps:g} steps of the other"
        else:
            says = (
                f"by its data the other has cost {found:.9g} so far, by own data {real.total:.9g}"
            )
        reason = f"after step {step} of the path with seed {seed}, {says}."
        return CounterExample(
            self._policy(i), self._policy(j), reason, real.total, found, seed, step
        )


def _told(evaluator: Evaluator, path: Sequence[Trajectory]) -> list[_Record]:
    """What a path, delivered part by part, tells of each policy of an evaluator."""
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


def _share(told: Sequence[_Record], steps: int) -> float:
    return float(np.mean([record.steps for record in told])) / steps


@dataclass(frozen=True)
class _Comparison:
    """Estimates of one cost by its own data and by another's, and how far they are apart."""

    expected: Array
    found: Array
    p_value: float
    silent: int = 0

    def reason(self, p_value: float, error_rate: float) -> str:
        """Why the two are not the same, in words."""
        if self.silent:
            return (
                f"on {self.silent} paths its data says too little of the other's cost, or nothing."
            )
        found, expected = (f"{np.mean(values):.6g}" for values in (self.found, self.expected))
        spreads = [f"{np.std(values, ddof=1):.2g}" for values in (self.found, self.expected)]
        return (
            f"by its data the other costs {found} per step (standard deviation {spreads[0]} over "
            f"{len(self.found)} paths), by own data {expected} ({spreads[1]}); p = {p_value:.2g}, "
            f"all pairs counted, at an error rate of {error_rate:g}."
        )


def _compare(own: Sequence[_Record], told: Sequence[_Record], laws: bool) -> _Comparison:
    """Test whether estimates have one mean and, where ``laws`` is set and it can be, one law."""
    samples = [np.array([record.unbiased for record in records]) for records in (own, told)]
    expected, found = (sample[np.isfinite(sample)] for sample in samples)
    silent = len(told) - min(expected.size, found.size)
    if silent > MOST_SILENT * len(told):
        return _Comparison(expected, found, 0.0, silent)
    p_value = _welch(*_joined(expected, found))
    common = _common_steps([*own, *told]) if laws else None
    if common is not None:
        averages = [np.array([each.averages[common] for each in side]) for side in (own, told)]
        p_value = min(1.0, 2 * min(p_value, _smirnov(*_joined(*averages))))
    return _Comparison(expected, found, p_value)


def _common_steps(records: Sequence[_Record]) -> float | None:
    """The most useful steps after which all paths ended a batch, if they are not too few."""
    common = set(records[0].averages).intersection(*(record.averages for record in records[1:]))
    most, least = max(common, default=0.0), min(record.steps for record in records)
    return most if most > 0 and most >= least / 2 else None


def _joined(one: Array, other: Array) -> tuple[Array, Array]:
    """Two samples, in which values that differ by rounding alone have become the same."""
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
    """Exact two-sided p-value of equal laws, at most too large where values are tied.

    The larger sample is cut to the size n of the other; then n D has the law of the largest
    distance from 0 of a random bridge of 2 n steps.

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
