"""Critical values for the differences of many policies to one, all at once.

Differences are studentised by batch means. Neighbouring policies are almost the same, so their
differences point almost the same way: the angles between them bound how often the largest exceeds
a value, along a net of one parameter (Hunter and Worsley, Naiman) or on a surface of two
(:mod:`iopea.geometry`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import fdtri, stdtr

from iopea.geometry import curvatures, exceedance, mesh
from iopea.kernels.differences import Differences
from iopea.types import Array, Estimates, Indices, Mask

#: Critical values above this are infinite for every purpose.
_LARGEST = 1e100

#: A share of the magnitude of a sum below which a difference counts as rounding.
_ROUNDING = 1e-12


def largest_share(estimates: Estimates) -> float:
    """Σ(n_b/N)² of the policy for which it is largest: 1 over the number of equal batches.

    The squared deviations of batches that share a mean are too small by 1 minus this.
    """
    sizes = estimates.sizes if estimates.sizes.ndim == 2 else estimates.sizes[:, None]
    steps = sizes.sum(axis=0)
    known = steps > 0
    return float(((sizes**2).sum(axis=0)[known] / steps[known] ** 2).max(initial=0.0))


def studentise(estimates: Estimates, reference: int) -> tuple[Array, Array, Array]:
    """Differences to a policy: standard errors, lean to below, angles between neighbours.

    The lean is minus the third moment of what the batches contribute over the cube of the
    standard error, as far as it is above what chance alone gives it: its own standard error.
    """
    differences = Differences(estimates, reference)
    second, third = differences.moments()
    norm = np.sqrt(second)
    moved = _moved(norm, differences.largest)
    lean = np.zeros(norm.size)
    np.divide(-third, norm**3, out=lean, where=moved)
    share = largest_share(estimates)
    lean -= math.sqrt(6) * share  # the standard error of a skewness, sqrt(6/n), over sqrt(n)
    columns = np.flatnonzero(moved)
    angles = differences.angles(norm, np.column_stack([columns[:-1], columns[1:]]))
    correction = math.sqrt(max(1 - share, _ROUNDING))
    return norm / correction, np.maximum(lean, 0.0), angles


def _moved(norm: Array, largest: float) -> Mask:
    """Policies that ever differed from the reference; others add nothing to the curve."""
    moved: Mask = np.isfinite(norm) & (norm > _ROUNDING * largest) & (norm > 0)
    return moved


def critical_for(
    estimates: Estimates, reference: int, policies: Array, freedom: float, level: float
) -> float:
    """The critical value for the differences of all policies to a reference."""
    differences = Differences(estimates, reference)
    norm = np.sqrt(differences.moments()[0])
    columns = np.flatnonzero(_moved(norm, differences.largest))
    flat = policies.shape[1] == 2 and columns.size > 1
    edges, triangles = mesh(policies[columns] if flat else np.empty((0, 2)))
    pairs, number = _with_neighbours(edges, columns.size)
    lengths = differences.angles(norm, columns[pairs])
    critical = critical_value(lengths[number], freedom, level)
    if flat:
        sizes = curvatures(columns.size, lengths[: len(edges)], triangles)
        critical = min(critical, _solve(lambda c: exceedance(c, freedom, sizes), freedom, level))
    return critical


def _with_neighbours(edges: Indices, points: int) -> tuple[Indices, Indices]:
    """Edges, then all pairs of a point and the next that are none; and where each pair is.

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


def critical_value(angles: Array, freedom: float, level: float) -> float:
    """Solve the inequality of rule ``paired`` for c; infinite where no c will do."""

    def chance(critical: float) -> float:
        single = float(stdtr(freedom, -critical))
        overlap = (1 + critical**2 / freedom) ** ((1 - freedom) / 2) / (2 * math.pi)
        return single + float(np.minimum(single, angles * overlap).sum())

    return _solve(chance, freedom, level)


def _solve(chance: Callable[[float], float], freedom: float, level: float) -> float:
    """The value whose chance to be exceeded is the level."""
    if freedom < 1:
        return math.inf
    if chance(0.0) <= level:
        return 0.0
    high = 1.0
    while chance(high) > level:
        high *= 16
        if high > _LARGEST:
            return math.inf
    return float(brentq(lambda critical: chance(critical) - level, 0.0, high))


def scheffe(rank: int, freedom: float, level: float) -> float:
    """The critical value for all combinations of ``rank`` means at once (Hotelling's T²)."""
    rest = freedom + 1 - rank
    if rest <= 0:
        return math.inf
    return math.sqrt(rank * freedom / rest * float(fdtri(rank, rest, 1 - level)))
