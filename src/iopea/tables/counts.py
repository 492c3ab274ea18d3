"""Negative binomial laws of counts from censored sales: likelihood, fit, and quantiles.

A law has a mean m and a size r; the variance is m + m²/r. ``seen[v]`` counts the periods whose
demand was v, ``gone[v]`` those that sold out at v, so that demand was at least v.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from iopea.types import Array

#: Range of log r that is searched, and its prior: a normal law, so that few records of one value
#: don't give a size of 0 or ∞.
_LEAST, _MOST = -4.0, 6.0
_USUAL, _SPREAD = 0.7, 2.0
#: Where the search begins, and the step at which it ends.
_STARTS = np.arange(-3.0, 6.0)
_WIDE, _FINE = 1.0, 0.02
#: Least probability of anything in a likelihood.
_FLOOR = 1e-12
#: Demand is at most so many times what was sold, where all sold out.
_MOST_HIDDEN = 9.0


@njit(cache=True, nogil=True, error_model="numpy")
def most_wanted(sold, share):  # type: ignore[no-untyped-def]
    """The largest mean demand that is believed, where a share of the records sold out.

    Where nearly all did, hardly anything limits the likeliest mean. What a shop sold does: whoever
    sells 3 a day and is always sold out should try 20 before 2,000.
    """
    return sold * (1.0 + (_MOST_HIDDEN - 1.0) * share)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(mean, size, probabilities):  # type: ignore[no-untyped-def]
    """Probabilities of 0, 1, 2, ..."""
    share = mean / (mean + size)
    probabilities[0] = math.exp(-size * math.log1p(mean / size))
    for k in range(1, probabilities.shape[0]):
        probabilities[k] = probabilities[k - 1] * share * (k - 1 + size) / k


@njit(cache=True, nogil=True, error_model="numpy")
def _likelihood(log_mean, log_size, seen, gone, probabilities):  # type: ignore[no-untyped-def]
    _fill(math.exp(log_mean), math.exp(log_size), probabilities)
    below, found = 0.0, -0.5 * ((log_size - _USUAL) / _SPREAD) ** 2
    for v in range(seen.shape[0]):
        if gone[v] > 0:
            found += gone[v] * math.log(max(1.0 - below, _FLOOR))
        if seen[v] > 0:
            found += seen[v] * math.log(max(probabilities[v], _FLOOR))
        below += probabilities[v]
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _climb(seen, gone, start, most):  # type: ignore[no-untyped-def]
    """The most likely mean and size, by a pattern search in their logarithms."""
    probabilities = np.empty(seen.shape[0])
    mean, size, best = start, 0.0, -np.inf
    for one in _STARTS:
        found = _likelihood(start, one, seen, gone, probabilities)
        if found > best:
            best, size = found, one
    step = _WIDE
    while step > _FINE:
        moved = False
        for k in range(6):
            across = step * ((k == 0) - (k == 1) + (k == 4) - (k == 5))
            along = step * ((k == 2) - (k == 3) - (k == 4) + (k == 5))
            if size + along < _LEAST or size + along > _MOST or mean + across > most:
                continue
            found = _likelihood(mean + across, size + along, seen, gone, probabilities)
            if found > best:
                best, mean, size, moved = found, mean + across, size + along, True
        if not moved:
            step /= 2
    return math.exp(mean), math.exp(size)


@njit(cache=True, nogil=True, error_model="numpy")
def _excess(mean, size, limit):  # type: ignore[no-untyped-def]
    probabilities = np.empty(limit + 1)
    _fill(mean, size, probabilities)
    below, part = 0.0, 0.0
    for v in range(limit):
        below += probabilities[v]
        part += v * probabilities[v]
    left = 1.0 - below
    return (mean - part) / left - limit if left > _FLOOR else np.nan


@njit(cache=True, nogil=True, error_model="numpy")
def _quantiles(mean, size, shares, drawn):  # type: ignore[no-untyped-def]
    share = mean / (mean + size)
    probability = math.exp(-size * math.log1p(mean / size))
    below, value, most = probability, 0, 40.0 * (mean + math.sqrt(mean + mean * mean / size) + 1.0)
    for i in range(shares.shape[0]):
        while shares[i] >= below and value < most:
            value += 1
            probability *= share * (value - 1 + size) / value
            below += probability
        drawn[i] = value


def fit_counts(seen: Array, gone: Array) -> tuple[float, float]:
    """The most likely mean and size.

    >>> seen = np.bincount([0, 3, 1, 0, 2, 7, 0, 1]).astype(float)
    >>> mean, size = fit_counts(seen, np.zeros(seen.size))
    >>> round(mean, 2), 0.3 < size < 3
    (1.75, True)
    """
    told = float((seen + gone) @ np.arange(seen.size))
    number = float((seen + gone).sum())
    sold = max(told, 0.5) / max(number, 1.0)
    most = most_wanted(sold, float(gone.sum()) / max(number, 1.0))
    found = _climb(seen, gone, math.log(sold), math.log(most))
    return float(found[0]), float(found[1])


def mean_excess(mean: float, size: float, limit: int) -> float:
    """Mean of what exceeds a limit, where demand is at least that; NaN if it hardly ever is.

    >>> round(mean_excess(2.0, 1.0, 5), 9)  # a geometric law has no memory
    2.0
    """
    return float(_excess(mean, size, limit))


def count_quantiles(mean: float, size: float, shares: Array) -> Array:
    """Quantiles at ascending shares.

    >>> count_quantiles(2.0, 1.0, np.array([0.1, 0.5, 0.9]))
    array([0., 1., 5.])
    """
    drawn = np.empty(shares.size)
    _quantiles(mean, size, shares, drawn)
    return drawn
