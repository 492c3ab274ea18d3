"""Simultaneous critical values for the differences of many policies to one.

Differences are studentised by batch means. Batch b contributes (S_bj - n_b m_j)/N_j to the error of
policy j's mean, or 0 if it is not informative about j; the contribution to the reference policy's
mean is subtracted. Neighbouring policies are almost the same, so the vectors of their differences
have almost the same direction. The angles between them bound the probability that the largest
exceeds a value, along a net of one parameter (Hunter and Worsley, Naiman) or on a surface of two
(:mod:`iopea.elimination.geometry`).

A test that is repeated on a quarter more data mostly rejects where it rejected before. The level
used by the earlier test is not used again (:func:`fresh_share`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.optimize import brentq
from scipy.special import fdtri, ndtri, stdtr, stdtrit

from iopea.elimination.geometry import curvatures, exceedance, mesh, neighbours
from iopea.types import Array, Estimates, Indices, Mask

#: Critical values above this count as infinite.
_LARGEST = 1e100
_LEAST = 1e-300

#: A difference below this share of the magnitude of a sum counts as a rounding error.
_ROUNDING = 1e-12

#: Number of degrees of freedom for which a quantile is computed; others are interpolated.
_QUANTILES = 64

#: Above this probability the share that is new is taken as 1.
_COMMON = 0.3

#: Batches are joined as long as this number is left.
FEWEST_JOINED = 8
#: Batches count as dependent if joining them raises a variance by more standard errors than this.
NOTICED = 2.5

#: Points and weights of an integral over the excess of a normal variable over a value.
_BEYOND, _WEIGHTS = np.polynomial.laguerre.laggauss(16)


@dataclass(frozen=True)
class Look:
    """An earlier test of the surviving policies.

    Attributes
    ----------
    steps : array (n,). Number of informative steps of each policy at that test.
    probabilities : tuple of float. Probability that a single difference exceeds the critical
        value: for policies that are not strictly below the best one, and for those that are.
    """

    steps: Array
    probabilities: tuple[float, float]

    def kept(self, mask: Mask) -> Look:
        """The same test, restricted to some policies."""
        return Look(self.steps[mask], self.probabilities)


def fresh_share(probability: float, before: float, shared: float) -> float:
    """Probability that a difference did not exceed its critical value at the earlier look.

    Conditional on exceeding it now.

    Parameters
    ----------
    probability : float. Probability of exceeding it now.
    before : float. Probability of exceeding it at the earlier look.
    shared : float. The share of the present data that the earlier look had.

    Examples
    --------
    >>> round(fresh_share(0.001, 0.001, 0.8), 2), fresh_share(0.001, 0.0, 0.8)
    (0.57, 1.0)
    """
    if not (0 < probability < _COMMON and 0 < before < _COMMON and shared > 0):
        return 1.0
    shared = min(shared, 1 - _ROUNDING)
    return float(
        _fresh(-ndtri(probability), -ndtri(before), math.sqrt(shared), math.sqrt(1 - shared))
    )


@njit(cache=True)
def _fresh(now, earlier, slope, spread):  # type: ignore[no-untyped-def]
    total = weights = 0.0
    for i in range(_BEYOND.size):
        beyond = _BEYOND[i] / now
        weight = _WEIGHTS[i] * math.exp(-(beyond**2) / 2)
        below = (earlier - slope * (now + beyond)) / spread
        weights += weight
        total += weight * 0.5 * math.erfc(-below / math.sqrt(2.0))
    return total / weights


def largest_share(estimates: Estimates) -> float:
    """The largest Σ(n_b/N)² over policies; 1/n for n batches of equal size.

    The sum of squared deviations of batches from their mean is too small by the factor 1 minus it.
    """
    return float(batch_shares(estimates).max(initial=0.0))


def batch_shares(estimates: Estimates) -> Array:
    """Σ(n_b/N)² of each policy; one number if all have the same batches, 0 without data."""
    return _shares(estimates.sizes_by_policy)


def _shares(sizes: Array) -> Array:
    steps = sizes.sum(axis=0)
    shares = np.zeros(steps.size)
    np.divide((sizes**2).sum(axis=0), steps**2, out=shares, where=steps > 0)
    return shares


def joined_shares(estimates: Estimates, reference: int) -> Array:
    """:func:`batch_shares` with 1, 2, 4, ... batches joined, (levels, n) or (levels, 1).

    The larger one of a policy's and the reference's.
    """
    sizes = estimates.sizes_by_policy
    shares = [_shares(sizes)]
    while len(sizes) >= 2 * FEWEST_JOINED:
        sizes = np.add.reduceat(sizes, np.arange(0, len(sizes), 2))
        shares.append(_shares(sizes))
    all_shares = np.array(shares)
    own = all_shares[:, [reference if all_shares.shape[1] > 1 else 0]]
    return np.asarray(np.maximum(all_shares, own))


@njit(cache=True, inline="always")
def _contribution(total, size, mean, scale):  # type: ignore[no-untyped-def]
    return (total - size * mean) * scale if size > 0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _moments(sums, sizes, mean, scale, base, joined, second, third, fourth):  # type: ignore[no-untyped-def]
    own = sizes.shape[1] > 1
    batches, policies = sums.shape
    for b in range(batches):
        for j in range(policies):
            size = sizes[b, j if own else 0]
            joined[0, j] = _contribution(sums[b, j], size, mean[j], scale[j]) - base[b]
        for level in range(joined.shape[0]):
            if (b + 1) % (1 << level) and b + 1 < batches:
                break
            last = level + 1 == joined.shape[0]
            for j in range(policies):
                each = joined[level, j]
                square = each * each
                second[level, j] += square
                third[level, j] += each * square
                fourth[level, j] += square * square
                joined[level, j] = 0.0
                if not last:
                    joined[level + 1, j] += each


@njit(cache=True, nogil=True, error_model="numpy")
def _chords(sums, sizes, mean, scale, base, norm, edges, unit, chord):  # type: ignore[no-untyped-def]
    own = sizes.shape[1] > 1
    for b in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            size = sizes[b, j if own else 0]
            each = _contribution(sums[b, j], size, mean[j], scale[j]) - base[b]
            unit[j] = each / norm[j]
        for i in range(edges.shape[0]):
            chord[i] += (unit[edges[i, 0]] - unit[edges[i, 1]]) ** 2


class Differences:
    """The differences of all policies to a reference, batch by batch."""

    def __init__(self, estimates: Estimates, reference: int) -> None:
        steps = estimates.steps
        scale = np.full(steps.size, np.nan)
        np.divide(1.0, steps, out=scale, where=steps > 0)
        sums = np.ascontiguousarray(estimates.sums)
        sizes = np.ascontiguousarray(estimates.sizes_by_policy, dtype=np.float64)
        self._data = (sums, sizes, estimates.mean, scale)
        size = sizes[:, reference if sizes.shape[1] > 1 else 0]
        own = (sums[:, reference] - size * estimates.mean[reference]) * scale[reference]
        self._base = np.where(size > 0, own, 0.0)

    def moments(self, levels: int = 1) -> tuple[Array, Array, Array]:
        """Sums of second, third and fourth powers, an array (levels, n) each.

        At level k, 2^k neighbouring batches are joined.
        """
        policies = self._data[0].shape[1]
        joined, second, third, fourth = np.zeros((4, levels, policies))
        _moments(*self._data, self._base, joined, second, third, fourth)
        return second, third, fourth

    def angles(self, norm: Array, edges: Indices) -> Array:
        """Angles between the differences of the two policies of each edge, an array (m, 2)."""
        chord = np.zeros(len(edges))
        _chords(*self._data, self._base, norm, edges, np.empty(norm.size), chord)
        return np.asarray(2 * np.arcsin(np.minimum(np.sqrt(chord) / 2, 1.0)))

    @property
    def largest(self) -> float:
        """The largest contribution of the reference, the scale of rounding errors."""
        return float(np.abs(self._base).max(initial=0.0))


@dataclass(frozen=True)
class Spread:
    """The noise in the differences of all policies to one.

    Attributes
    ----------
    error : array (n,). Standard errors, from batches so long that joining them further does not
        significantly raise their variance.
    skewness : array (n,). Minus the third moment of the batch contributions over the cube of the
        standard error, less its own standard error, and at least 0.
    freedom : array (n,). Degrees of freedom of the standard error (Satterthwaite): those of all
        batches, fewer where a few of them contribute nearly all.
    memory : array (n,). Estimated autocorrelation time in batches; 0 where batches seem
        independent.
    """

    error: Array
    skewness: Array
    freedom: Array
    memory: Array


def studentise(estimates: Estimates, reference: int) -> Spread:
    """The noise in the differences to a reference policy, by batch means."""
    differences = Differences(estimates, reference)
    shares = joined_shares(estimates, reference)
    moments = differences.moments(len(shares))
    differ = _differ_from_reference(np.sqrt(moments[0][0]), differences.largest)
    variances = moments[0] / np.maximum(1 - shares, _ROUNDING)
    shares = np.broadcast_to(shares, variances.shape)
    level = _independent(variances, shares)
    chosen = np.arange(level.size)
    variance = variances[level, chosen]
    second, third, fourth = (moment[level, chosen] for moment in moments)
    skewness, freedom, memory = np.zeros((3, level.size))
    np.divide(-third, second**1.5, out=skewness, where=differ)
    np.divide(3 * second**2, fourth, out=freedom, where=differ)
    np.divide(variance - variances[0], variances[0], out=memory, where=differ)
    share = shares[level, chosen]
    skewness -= math.sqrt(6) * share  # its standard error, sqrt(6/n), over sqrt(n)
    most = 1 / np.maximum(share, _ROUNDING) - 1
    return Spread(
        np.sqrt(variance),
        np.maximum(skewness, 0.0),
        np.clip(freedom - 1, np.minimum(2.0, most), most),
        memory,
    )


def _independent(variances: Array, shares: Array) -> Indices:
    """The least level of joining beyond which variances do not rise significantly, an array (n,).

    Where batches are independent, a variance estimated from n of them has a relative error of
    sqrt(2/n), and joining them changes it only by the additional error of having fewer batches.
    Levels with fewer than :data:`FEWEST_JOINED` batches are ignored.
    """
    few = shares > 1 / (FEWEST_JOINED - 1)
    level = np.zeros(variances.shape[1], dtype=np.intp)
    for k in range(len(shares)):
        level[~few[k]] = k  # the last level with enough batches
    for k in reversed(range(len(shares) - 1)):
        noise = NOTICED * np.sqrt(2 * np.maximum(shares[k + 1 :] - shares[k], 0.0))
        fits = (few[k + 1 :] | (variances[k + 1 :] <= variances[k] * (1 + noise))).all(axis=0)
        level[fits] = k
    return level


def with_freedom(critical: float, most: float, freedom: Array) -> Array:
    """Critical values for other degrees of freedom with the tail probability of ``critical``.

    ``critical`` has ``most`` degrees of freedom.

    >>> with_freedom(3.0, 100.0, np.array([100.0, 8.0])).round(2)
    array([3.  , 4.11])
    """
    probability = single_probability(most, critical)
    if not (math.isfinite(critical) and probability > _LEAST):
        return np.full(freedom.size, critical)
    # Quantiles are a smooth function of 1/ν; fewer than 2 degrees of freedom count as 2.
    inverse = np.linspace(1 / most, max(0.5, 1 / most), _QUANTILES)
    own = 1 / np.maximum(freedom, _ROUNDING)
    return np.asarray(np.interp(own, inverse, -stdtrit(1 / inverse, probability)))


def _differ_from_reference(norm: Array, largest: float) -> Mask:
    """Policies that differ from the reference in some batch; others don't matter."""
    differ: Mask = np.isfinite(norm) & (norm > _ROUNDING * largest) & (norm > 0)
    return differ


@dataclass(frozen=True)
class Shape:
    """The geometry of the differences to a reference, which bounds the largest by noise alone.

    Attributes
    ----------
    angles : array. Angles between the differences of each policy and the next.
    sizes : tuple of float, optional. Curvatures of the surface formed by a net of two parameters.
    """

    angles: Array
    sizes: tuple[float, float, float] | None = None

    def probability(self, critical: float, single: float, freedom: float) -> float:
        """Bound on the probability that the largest studentised difference exceeds a value.

        ``single`` is the probability that a single difference exceeds it.
        """
        overlap = (1 + critical**2 / freedom) ** ((1 - freedom) / 2) / (2 * math.pi)
        along = float(_along(self.angles, single, overlap))
        if self.sizes is None:
            return along
        return min(along, exceedance(critical, freedom, self.sizes))


@njit(cache=True)
def _along(angles, single, overlap):  # type: ignore[no-untyped-def]
    total = single
    for angle in angles:
        total += min(single, angle * overlap)
    return total


def shapes(
    estimates: Estimates, reference: int, families: Sequence[Mask], policies: Array
) -> list[Shape | None]:
    """The shape of each family of differences to a reference; None for an empty family."""
    differences = Differences(estimates, reference)
    norm = np.sqrt(differences.moments()[0][0])
    differ = _differ_from_reference(norm, differences.largest)
    return [
        _shape(differences, norm, differ & family, policies) if family.any() else None
        for family in families
    ]


def _shape(differences: Differences, norm: Array, among: Mask, policies: Array) -> Shape:
    columns = np.flatnonzero(among)
    if policies.shape[1] > 2 and columns.size > 1:
        pairs = neighbours(policies[columns])
        angles = differences.angles(norm, columns[pairs])
        # Each policy is joined to the one before it that is most like it.
        nearest = np.full(columns.size, np.inf)
        np.minimum.at(nearest, pairs[:, 1], angles)
        return Shape(nearest[1:])
    if policies.shape[1] != 2 or columns.size < 2:
        return Shape(differences.angles(norm, np.column_stack([columns[:-1], columns[1:]])))
    edges, triangles = mesh(policies[columns])
    pairs, number = _with_neighbours(edges, columns.size)
    lengths = differences.angles(norm, columns[pairs])
    sizes = curvatures(columns.size, lengths[: len(edges)], triangles)
    return Shape(lengths[number], sizes)


def _with_neighbours(edges: Indices, points: int) -> tuple[Indices, Indices]:
    """Edges, followed by the pairs of consecutive points that are not edges.

    Also the position of each pair of consecutive points in that list.

    >>> pairs, number = _with_neighbours(np.array([[0, 1], [0, 2]]), 4)
    >>> pairs.tolist(), number.tolist()
    ([[0, 1], [0, 2], [1, 2], [2, 3]], [0, 2, 3])
    """
    number = np.full(max(points - 1, 0), -1, dtype=np.intp)
    joined = np.flatnonzero(edges[:, 1] - edges[:, 0] == 1)
    number[edges[joined, 0]] = joined
    others = np.flatnonzero(number < 0)
    number[others] = len(edges) + np.arange(others.size)
    return np.vstack([edges, np.column_stack([others, others + 1])]), number


def critical_value(
    shapes: Sequence[Shape],
    freedom: float,
    level: float,
    fresh: Callable[[float], float] = lambda probability: 1.0,
) -> float:
    """Solve the inequality of rule ``paired`` for c, for the worst of several shapes.

    Infinite if there is no solution. ``fresh`` gives the share of the probability of a single
    difference that is new.
    """
    if freedom < 1:
        return math.inf

    def excess(critical: float) -> float:
        single = float(stdtr(freedom, -critical))
        largest = max(shape.probability(critical, single, freedom) for shape in shapes)
        probability = largest * fresh(single)
        return math.log(max(probability, _LEAST) / level)

    if excess(0.0) <= 0:
        return 0.0
    high = 4.0
    while excess(high) > 0:
        high *= 16
        if high > _LARGEST:
            return math.inf
    return float(brentq(excess, 0.0, high))


def single_probability(freedom: float, critical: float) -> float:
    """The probability that a single studentised difference exceeds a critical value."""
    return float(stdtr(freedom, -critical)) if freedom > 0 else 0.0


def scheffe(rank: int, freedom: float, level: float) -> float:
    """The critical value for all combinations of ``rank`` means at once (Hotelling's T²)."""
    rest = freedom + 1 - rank
    if rest <= 0:
        return math.inf
    return math.sqrt(rank * freedom / rest * float(fdtri(rank, rest, 1 - level)))
