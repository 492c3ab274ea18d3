"""Critical values for the differences of many policies to one, all at once.

Differences are studentised by batch means. Neighbouring policies are almost the same, so their
differences point almost the same way: the angles between them bound how often the largest exceeds
a value, along a net of one parameter (Hunter and Worsley, Naiman) or on a surface of two
(:mod:`iopea.geometry`).

A test that is repeated when a quarter more data has come mostly exceeds where it has exceeded
before. What was spent on the earlier look is not spent again (:func:`fresh_share`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import fdtri, ndtr, ndtri, stdtr

from iopea.geometry import curvatures, exceedance, mesh
from iopea.kernels.differences import Differences
from iopea.types import Array, Estimates, Indices, Mask

#: Critical values above this are infinite for every purpose.
_LARGEST = 1e100

#: A share of the magnitude of a sum below which a difference counts as rounding.
_ROUNDING = 1e-12

#: Points and weights of an integral over what a normal variable exceeds a value by.
_BEYOND, _WEIGHTS = np.polynomial.laguerre.laggauss(24)


@dataclass(frozen=True)
class Look:
    """An earlier test of the policies that are left.

    Attributes
    ----------
    steps : array (n,). Steps that told of each policy.
    chances : tuple of float. The chance that a single difference exceeded the critical value:
        of policies that the best one is not strictly above, and of all others.
    """

    steps: Array
    chances: tuple[float, float]

    def kept(self, mask: Mask) -> Look:
        """Of these policies alone."""
        return Look(self.steps[mask], self.chances)


def fresh_share(chance: float, before: float, shared: float) -> float:
    """Of the chance that a difference exceeds its critical value, the share that is new.

    Parameters
    ----------
    chance : float. That it exceeds now.
    before : float. That it exceeded at the earlier look.
    shared : float. The share of the data that was there at the earlier look.

    Examples
    --------
    >>> round(fresh_share(0.001, 0.001, 0.8), 2), fresh_share(0.001, 0.0, 0.8)
    (0.59, 1.0)
    """
    if not (0 < chance < 0.5 and before > 0 and shared > 0):
        return 1.0
    now, earlier, shared = -ndtri(chance), -ndtri(before), min(shared, 1 - _ROUNDING)
    beyond = _BEYOND / now
    weights = _WEIGHTS * np.exp(-(beyond**2) / 2)
    below = ndtr((earlier - math.sqrt(shared) * (now + beyond)) / math.sqrt(1 - shared))
    return float(weights @ below / weights.sum())


#: Of a chance to exceed, the share that is new.
Share = Callable[[float], float]


def _all(chance: float) -> float:
    return 1.0


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
    estimates: Estimates,
    reference: int,
    among: Mask,
    policies: Array,
    freedom: float,
    level: float,
    fresh: Share = _all,
) -> float:
    """The critical value for the differences of some policies to a reference."""
    differences = Differences(estimates, reference)
    norm = np.sqrt(differences.moments()[0])
    columns = np.flatnonzero(_moved(norm, differences.largest) & among)
    flat = policies.shape[1] == 2 and columns.size > 1
    edges, triangles = mesh(policies[columns] if flat else np.empty((0, 2)))
    pairs, number = _with_neighbours(edges, columns.size)
    lengths = differences.angles(norm, columns[pairs])
    critical = critical_value(lengths[number], freedom, level, fresh)
    if flat:
        sizes = curvatures(columns.size, lengths[: len(edges)], triangles)
        critical = min(
            critical, _solve(lambda c: exceedance(c, freedom, sizes), freedom, level, fresh)
        )
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


def critical_value(angles: Array, freedom: float, level: float, fresh: Share = _all) -> float:
    """Solve the inequality of rule ``paired`` for c; infinite where no c will do."""

    def chance(critical: float) -> float:
        single = float(stdtr(freedom, -critical))
        overlap = (1 + critical**2 / freedom) ** ((1 - freedom) / 2) / (2 * math.pi)
        return single + float(np.minimum(single, angles * overlap).sum())

    return _solve(chance, freedom, level, fresh)


def _solve(chance: Callable[[float], float], freedom: float, level: float, fresh: Share) -> float:
    """The value whose chance to be exceeded for the first time is the level."""
    if freedom < 1:
        return math.inf

    def excess(critical: float) -> float:
        return chance(critical) * fresh(float(stdtr(freedom, -critical))) - level

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 16
        if high > _LARGEST:
            return math.inf
    return float(brentq(excess, 0.0, high))


def single_chance(freedom: float, critical: float) -> float:
    """The chance that a single studentised difference exceeds a critical value."""
    return float(stdtr(freedom, -critical)) if freedom > 0 else 0.0


def scheffe(rank: int, freedom: float, level: float) -> float:
    """The critical value for all combinations of ``rank`` means at once (Hotelling's T²)."""
    rest = freedom + 1 - rank
    if rest <= 0:
        return math.inf
    return math.sqrt(rank * freedom / rest * float(fdtri(rank, rest, 1 - level)))
