"""Compiled product-limit estimator: cumulative probabilities, and draws from them.

The observed values of demand are numbered in ascending order. ``seen`` counts the observations of
each value, ``gone`` the periods that were sold out at or below it since the value before.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from iopea.types import Array, Indices


@njit(cache=True, nogil=True, error_model="numpy")
def _accumulate(seen, gone, below):  # type: ignore[no-untyped-def]
    at_risk = seen.sum() + gone.sum()
    left, total = 1.0, 0.0
    below[0] = 0.0
    for k in range(seen.shape[0]):
        at_risk -= gone[k]
        if seen[k] > 0:
            after = left * ((at_risk - seen[k]) / at_risk)
            total += left - after
            left = after
            at_risk -= seen[k]
        below[k + 1] = total
    return left


def accumulate(seen: Indices, gone: Indices) -> tuple[Array, float]:
    """Probabilities of demand below each value, then up to the last; and that of larger demand.

    ``seen`` has an entry for each value, ``gone`` one more: periods sold out above all values.

    >>> accumulate(np.array([1, 1]), np.array([0, 1, 1]))
    (array([0.   , 0.25 , 0.625]), 0.375)
    """
    below = np.empty(seen.size + 1)
    return below, float(_accumulate(seen, gone, below))


@njit(cache=True, nogil=True, error_model="numpy")
def _draw(below, beyond, values, places, shares, drawn):  # type: ignore[no-untyped-def]
    count = values.shape[0]
    last = count  # the highest value of positive probability
    while last > 0 and below[last] <= below[last - 1]:
        last -= 1
    highest = np.inf if beyond > 0 or last == 0 else values[last - 1]
    # Guide table: for each of count + 1 equal parts of [0, 1], where the search begins.
    parts = count + 1
    guide = np.empty(parts, np.int32)
    part = 0
    for k in range(count):
        while part < parts and part < below[k + 1] * parts:
            guide[part] = k
            part += 1
    guide[part:] = count
    for i in range(places.shape[0]):
        base = below[places[i]]
        target = base + shares[i] * (below[count] + beyond - base)
        k = guide[min(int(target * parts), parts - 1)]
        while k > 0 and below[k] > target:
            k -= 1
        while k < count and below[k + 1] <= target:
            k += 1
        drawn[i] = values[k] if k < count else highest


def draw(below: Array, beyond: float, values: Array, places: Indices, shares: Array) -> Array:
    """Draw from the distribution, given that demand is at least the value with this number.

    A draw is the quantile of the conditional distribution at its share. It is infinite beyond all
    values; if there is no probability beyond, it is at most the highest value.

    >>> draw(np.array([0.0, 0.5, 1.0]), 0.0, np.array([3.0, 4.0]), np.array([0, 0, 1]),
    ...      np.array([0.4, 0.6, 0.1]))
    array([3., 4., 4.])
    """
    drawn = np.empty(places.size)
    _draw(below, beyond, values, places, shares, drawn)
    return drawn
