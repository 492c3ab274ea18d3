"""Ranks non-negative integer vectors with a bounded sum, in lexicographic order; compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from iopea.errors import InputError
from iopea.types import Array, Indices

#: Rounding of records, as a share of a unit.
ROUNDING = 1e-6
_HALF = 0.5 + ROUNDING


@njit(cache=True, nogil=True, error_model="numpy")
def nearest_rank(amounts, radius, sizes):  # type: ignore[no-untyped-def]
    """The rank of the point nearest to amounts, an array (dimension,)."""
    dimension, room = amounts.shape[0], sizes.shape[1] - 2
    rank = 0
    for place in range(dimension):
        units = min(np.floor(amounts[place] / radius + _HALF), float(room))
        row = dimension - place
        # A point comes after those with a lower first coordinate, then those with the same first
        # and a lower second, and so on.
        rank += sizes[row, room + 1]
        room -= max(int(units), 0)
        rank -= sizes[row, room + 1]
    return rank


@njit(cache=True, nogil=True, error_model="numpy")
def _nearest_ranks(amounts, radius, sizes, ranks):  # type: ignore[no-untyped-def]
    for row in range(amounts.shape[0]):
        ranks[row] = nearest_rank(amounts[row], radius, sizes)


def nearest_ranks(amounts: Array, radius: float, sizes: Indices) -> Indices:
    """The ranks of the points nearest to amounts.

    Halves are rounded up. If amounts add up to more than the total, the last are reduced first.

    Parameters
    ----------
    amounts : array (n, dimension). Non-negative real vectors.
    radius : float. The size of one unit.
    sizes : array (dimension + 1, total + 2). Number of points by dimension and total, from -1 on.

    Examples
    --------
    Pairs that add up to at most 2, in units of 0.5:

    >>> sizes = np.array([[0, 1, 1, 1], [0, 1, 2, 3], [0, 1, 3, 6]])
    >>> nearest_ranks(np.array([[0.0, 0.25], [0.6, 0.4], [0.6, 9.0], [9.0, 9.0]]), 0.5, sizes)
    array([1, 4, 4, 5])
    """
    _check(amounts, sizes)
    ranks = np.empty(len(amounts), np.int64)
    _nearest_ranks(amounts, radius, sizes, ranks)
    return ranks


@njit(cache=True, nogil=True, error_model="numpy")
def _entries(amounts, radius, sizes, table, entries):  # type: ignore[no-untyped-def]
    for row in range(amounts.shape[0]):
        rank = nearest_rank(amounts[row], radius, sizes)
        for column in range(table.shape[1]):
            entries[row, column] = table[rank, column]


def nearest_entries(amounts: Array, radius: float, sizes: Indices, table: Array) -> Array:
    """The rows of a table, an array (points, k), at the points nearest to amounts."""
    _check(amounts, sizes)
    entries = np.empty((len(amounts), table.shape[1]))
    _entries(amounts, radius, sizes, table, entries)
    return entries


def _check(amounts: Array, sizes: Indices) -> None:
    if amounts.shape[1] != len(sizes) - 1:
        raise InputError(f"A point has {len(sizes) - 1} coordinates, not {amounts.shape[1]}.")
