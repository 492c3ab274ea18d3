"""Tail probability of the largest studentised difference over a net with two parameters.

Each policy of the net is a point on the unit sphere: the direction of its batch differences to a
reference. The surviving policies form a mesh of triangles on that sphere. Its Euler characteristic,
half the length of its edge and its area (the Lipschitz-Killing curvatures L_0, L_1, L_2) determine
the probability that the largest of all studentised differences exceeds a value c:

    P(max > c) ≈ L_0 ρ_0(c) + L_1 ρ_1(c) + L_2 ρ_2(c),

with the densities ρ of a t-field (Worsley 1994; lengths from normalised residuals as in Taylor and
Worsley 2007). The right side is the expected Euler characteristic of the set where the field
exceeds c, which for large c is nearly always connected or empty.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from scipy.special import gammaln, stdtr

from iopea.types import Array, Indices


def mesh(policies: Array) -> tuple[Indices, Indices]:
    """Edges (m, 2) and triangles (k, 3) between policies on a grid, an array (n, 2).

    Triangles are given by the indices of their edges. Two policies are connected if they are
    neighbours on the grid or along one of the two diagonals.

    >>> edges, triangles = mesh(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
    >>> edges.tolist(), triangles.tolist()
    ([[0, 1], [2, 3], [0, 2], [1, 3], [0, 3]], [[0, 3, 4], [2, 1, 4]])
    """
    rows, row = np.unique(policies[:, 0], return_inverse=True)
    columns, column = np.unique(policies[:, 1], return_inverse=True)
    place = np.full((rows.size + 1, columns.size + 1), -1, dtype=np.intp)
    place[row, column] = np.arange(len(policies))
    edges, triangles = (
        np.empty((3 * place.size, 2), np.intp),
        np.empty((2 * place.size, 3), np.intp),
    )
    joined, found = _join(place, edges, triangles, np.full((3, *place.shape), -1, dtype=np.intp))
    return edges[:joined], triangles[:found]


@njit(cache=True)
def _join(place, edges, triangles, number):  # type: ignore[no-untyped-def]
    """Fill in edges to the right, down and diagonally, then triangles; return their numbers."""
    rows, columns = place.shape[0] - 1, place.shape[1] - 1
    joined = 0
    for kind in range(3):
        for i in range(rows):
            for j in range(columns):
                there = place[i + (kind > 0), j + (kind != 1)]
                if place[i, j] < 0 or there < 0:
                    continue
                # A diagonal is an edge if it has a triangle on at least one side.
                if kind == 2 and place[i, j + 1] < 0 and place[i + 1, j] < 0:
                    continue
                edges[joined, 0], edges[joined, 1] = place[i, j], there
                number[kind, i, j] = joined
                joined += 1
    found = 0
    for side in range(2):
        for i in range(rows):
            for j in range(columns):
                one = number[side, i, j]
                other = number[1, i, j + 1] if side == 0 else number[0, i + 1, j]
                if one < 0 or other < 0 or number[2, i, j] < 0:
                    continue
                triangles[found] = one, other, number[2, i, j]
                found += 1
    return joined, found


def neighbours(policies: Array) -> Indices:
    """Pairs of policies, an array (m, 2): each with its neighbours before it along every axis.

    Policies are listed in lexicographic order. Of each but the first there is at least one pair, in
    which it is the second.

    >>> neighbours(np.array([[0.0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 0]])).tolist()
    [[0, 1], [1, 2], [2, 3], [2, 3], [0, 2], [0, 1]]
    """
    numbers = np.arange(len(policies))
    pairs = [np.column_stack([numbers[:-1], numbers[1:]])]
    for axis in range(policies.shape[1]):
        others = [policies[:, other] for other in range(policies.shape[1]) if other != axis]
        order = np.lexsort([policies[:, axis], *others])
        alike = (np.diff(np.delete(policies[order], axis, axis=1), axis=0) == 0).all(axis=1)
        pairs.append(np.column_stack([order[:-1], order[1:]])[alike])
    return np.concatenate(pairs)


def curvatures(points: int, lengths: Array, triangles: Indices) -> tuple[float, float, float]:
    """L_0, L_1 and L_2 of a mesh with edges of these lengths.

    >>> curvatures(3, np.array([3.0, 4.0, 5.0]), np.array([[0, 1, 2]]))
    (1.0, 6.0, 6.0)
    """
    sides = lengths[triangles]
    half = sides.sum(axis=1) / 2
    area = np.sqrt(np.maximum(half * np.prod(half[:, None] - sides, axis=1), 0.0))
    euler = points - lengths.size + len(triangles)
    # A connected set without holes has characteristic 1; holes must not lower the bound.
    return float(max(euler, 1)), float(lengths.sum() - half.sum()), float(area.sum())


def exceedance(critical: float, freedom: float, sizes: tuple[float, float, float]) -> float:
    """The probability that the largest of all studentised differences exceeds a value.

    >>> round(exceedance(3.0, 50.0, (1.0, 0.0, 0.0)), 5)
    0.0021
    """
    decay = (1 + critical**2 / freedom) ** ((1 - freedom) / 2)
    gamma = math.exp(gammaln((freedom + 1) / 2) - gammaln(freedom / 2)) / math.sqrt(freedom / 2)
    return float(
        sizes[0] * stdtr(freedom, -critical)
        + sizes[1] * decay / (2 * math.pi)
        + sizes[2] * critical * decay * gamma / (2 * math.pi) ** 1.5
    )
