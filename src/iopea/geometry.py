"""Size and shape of a set of policies, measured by how differently they do on the same data.

Each policy of a net with two parameters is a point of the unit sphere: the direction of its batch
differences to a reference. The net, as far as its policies survive, becomes a mesh of triangles on
that sphere. Its Euler characteristic, half the length of its edge and its area (the Lipschitz-
Killing curvatures L_0, L_1, L_2) tell how often the largest of all studentised differences exceeds
a value c:

    P(max > c) ≈ L_0 ρ_0(c) + L_1 ρ_1(c) + L_2 ρ_2(c),

with the densities ρ of a t-field (Worsley 1994; lengths from normalised residuals as in Taylor and
Worsley 2007). The right side is the expected Euler characteristic of the set where the field
exceeds c, which is nearly always one piece or none when c is large.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, stdtr

from iopea.types import Array, Indices


def mesh(policies: Array) -> tuple[Indices, Indices]:
    """Edges (m, 2) and triangles (k, 3) of policies on a grid, an array (n, 2).

    Triangles are given by their edges. Two policies are joined if no value of the grid lies
    between them.

    >>> edges, triangles = mesh(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
    >>> edges.tolist(), triangles.tolist()
    ([[0, 1], [2, 3], [0, 2], [1, 3], [0, 3]], [[0, 3, 4], [2, 1, 4]])
    """
    rows, row = np.unique(policies[:, 0], return_inverse=True)
    columns, column = np.unique(policies[:, 1], return_inverse=True)
    place = np.full((rows.size + 1, columns.size + 1), -1, dtype=np.intp)
    place[row, column] = np.arange(len(policies))
    here = place[:-1, :-1]
    number = np.full((3, *here.shape), -1, dtype=np.intp)
    edges = []
    count = 0
    for kind, there in enumerate((place[:-1, 1:], place[1:, :-1], place[1:, 1:])):
        both = (here >= 0) & (there >= 0)
        if kind == 2:  # a diagonal is drawn where it has a triangle on one side at least
            both &= (place[:-1, 1:] >= 0) | (place[1:, :-1] >= 0)
        number[kind][both] = count + np.arange(both.sum())
        count += int(both.sum())
        edges.append(np.column_stack([here[both], there[both]]))
    wide = np.pad(number, ((0, 0), (0, 1), (0, 1)), constant_values=-1)
    right, down, diagonal = number
    upper = np.stack([right, wide[1, :-1, 1:], diagonal], axis=-1).reshape(-1, 3)
    lower = np.stack([down, wide[0, 1:, :-1], diagonal], axis=-1).reshape(-1, 3)
    triangles = np.vstack([upper, lower])
    return np.vstack(edges), triangles[(triangles >= 0).all(axis=1)]


def curvatures(points: int, lengths: Array, triangles: Indices) -> tuple[float, float, float]:
    """L_0, L_1 and L_2 of a mesh with edges of these lengths.

    >>> curvatures(3, np.array([3.0, 4.0, 5.0]), np.array([[0, 1, 2]]))
    (1.0, 6.0, 6.0)
    """
    sides = lengths[triangles]
    half = sides.sum(axis=1) / 2
    area = np.sqrt(np.maximum(half * np.prod(half[:, None] - sides, axis=1), 0.0))
    euler = points - lengths.size + len(triangles)
    # A single piece without holes has the characteristic 1; holes must not make chance smaller.
    return float(max(euler, 1)), float(lengths.sum() - half.sum()), float(area.sum())


def exceedance(critical: float, freedom: float, sizes: tuple[float, float, float]) -> float:
    """The chance that the largest of all studentised differences exceeds a value.

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
