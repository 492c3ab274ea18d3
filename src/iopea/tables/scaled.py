"""Negative binomial laws of counts whose mean is scaled from period to period.

Demand of a period with factor f has mean m f and size r, so variance m f + (m f)²/r. Records are
sales, with a mark where they sold out, so that demand was at least that. A record is moved from one
factor to another through its place in the law: what is scaled is the mean of the law, not the
count, and a record with the wanted factor stays as it is.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from iopea.tables.counts import most_wanted
from iopea.types import Array, Indices, Mask

#: Range of log r, and its prior, as in :mod:`iopea.tables.counts`.
_LEAST, _MOST = -4.0, 6.0
_USUAL, _SPREAD = 0.7, 2.0
#: Probability that counts as none.
_NEVER = 1e-12
#: Rounds of the fit, and the ratio of the golden section.
_ROUNDS, _GOLDEN, _HALVINGS = 12, 0.6180339887498949, 14
#: Least mean of a law.
_LEAST_MEAN = 1e-4
#: What was sold in all, at the least: nothing sold is no proof that nothing is wanted.
_LEAST_SOLD = 0.5


@njit(cache=True, nogil=True, error_model="numpy")
def _at_least(count, mean, size):  # type: ignore[no-untyped-def]
    """P(D >= count), and the mean of D where it is."""
    share = mean / (mean + size)
    probability = math.exp(-size * math.log1p(mean / size))
    below, part = 0.0, 0.0
    for k in range(int(count)):
        below += probability
        part += k * probability
        probability *= share * (k + size) / (k + 1)
    left = 1.0 - below
    if left > _NEVER:
        return left, (mean - part) / left
    ratio = share * (count + size) / (count + 1.0)  # far out, the law is about geometric
    return _NEVER, count + ratio / max(1.0 - ratio, _NEVER)


@njit(cache=True, nogil=True, error_model="numpy")
def _log_probability(count, mean, size):  # type: ignore[no-untyped-def]
    """Logarithm of P(D = count)."""
    return (
        math.lgamma(count + size)
        - math.lgamma(size)
        - math.lgamma(count + 1.0)
        - size * math.log1p(mean / size)
        + count * math.log(mean / (mean + size))
    )


@njit(cache=True, nogil=True, error_model="numpy")
def log_likelihood(counts, censored, factors, weights, mean, size):  # type: ignore[no-untyped-def]
    """Weighted logarithm of the probability of all records."""
    found = 0.0
    for i in range(counts.shape[0]):
        if weights[i] > 0.0:
            if censored[i]:
                found += weights[i] * math.log(_at_least(counts[i], mean * factors[i], size)[0])
            else:
                found += weights[i] * max(
                    _log_probability(counts[i], mean * factors[i], size), math.log(_NEVER)
                )
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def expected(counts, censored, factors, mean, size, found):  # type: ignore[no-untyped-def]
    """The mean of demand given each record, written to ``found``."""
    for i in range(counts.shape[0]):
        found[i] = counts[i]
        if censored[i]:
            found[i] = _at_least(counts[i], mean * factors[i], size)[1]


@njit(cache=True, nogil=True, error_model="numpy")
def best_mean(counts, censored, factors, weights, mean, size, rounds):  # type: ignore[no-untyped-def]
    """The likeliest mean for a given size, by so many steps of expectation and maximisation."""
    told = np.empty(counts.shape[0])
    sold, due, out, number = 0.0, 0.0, 0.0, 0.0
    for i in range(counts.shape[0]):
        sold += weights[i] * counts[i]
        due += weights[i] * factors[i]
        out += weights[i] * censored[i]
        number += weights[i]
    if not due > 0.0:
        return mean
    most = most_wanted(max(sold, _LEAST_SOLD) / due, out / number)
    for _ in range(rounds):
        expected(counts, censored, factors, mean, size, told)
        wanted, usual = 0.0, 0.0
        for i in range(counts.shape[0]):
            trust = weights[i] / (1.0 + mean * factors[i] / size)
            wanted += trust * told[i]
            usual += trust * factors[i]
        mean = min(max(wanted / usual, _LEAST_MEAN), most)
    return mean


@njit(cache=True, nogil=True, error_model="numpy")
def _penalised(counts, censored, factors, weights, mean, log_size):  # type: ignore[no-untyped-def]
    return (
        log_likelihood(counts, censored, factors, weights, mean, math.exp(log_size))
        - 0.5 * ((log_size - _USUAL) / _SPREAD) ** 2
    )


@njit(cache=True, nogil=True, error_model="numpy")
def best_size(counts, censored, factors, weights, mean):  # type: ignore[no-untyped-def]
    """The likeliest size for a given mean, by a golden section in its logarithm."""
    low, high = _LEAST, _MOST
    one, two = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_one = _penalised(counts, censored, factors, weights, mean, one)
    at_two = _penalised(counts, censored, factors, weights, mean, two)
    for _ in range(_HALVINGS):
        if at_one > at_two:
            high, two, at_two = two, one, at_one
            one = high - _GOLDEN * (high - low)
            at_one = _penalised(counts, censored, factors, weights, mean, one)
        else:
            low, one, at_one = one, two, at_two
            two = low + _GOLDEN * (high - low)
            at_two = _penalised(counts, censored, factors, weights, mean, two)
    return math.exp((low + high) / 2)


@njit(cache=True, nogil=True, error_model="numpy")
def _fit(counts, censored, factors, weights):  # type: ignore[no-untyped-def]
    usual = (weights * factors).sum()
    mean = max((weights * counts).sum(), 0.5 * weights.max()) / usual
    size = math.exp(_USUAL)
    for _ in range(3):
        mean = best_mean(counts, censored, factors, weights, mean, size, _ROUNDS)
        size = best_size(counts, censored, factors, weights, mean)
    return mean, size


def fit_scaled(
    counts: Array, censored: Mask, factors: Array, weights: Array
) -> tuple[float, float]:
    """The likeliest mean at factor 1, and the size.

    >>> rng = np.random.default_rng(1)
    >>> factors = np.resize([0.5, 1.5], 4000)
    >>> demand = rng.negative_binomial(2, 2 / (2 + 6 * factors)).astype(float)
    >>> out = demand > 7
    >>> mean, size = fit_scaled(np.minimum(demand, 8), out, factors, np.ones(4000))
    >>> abs(mean - 6) < 0.3, abs(size - 2) < 0.3
    (True, True)
    """
    mean, size = _fit(counts, censored, factors, weights)
    return float(mean), float(size)


@njit(cache=True, nogil=True, error_model="numpy")
def _score_each(first, counts, censored, factors, weights, tested, scores):  # type: ignore[no-untyped-def]
    for i in range(first.shape[0] - 1):
        one = slice(first[i], first[i + 1])
        if weights[one].sum() <= 0.0 or not tested[one].any():
            scores[one] = 0.0
            continue
        mean, size = _fit(counts[one], censored[one], factors[one], weights[one])
        each = np.ones(1)
        for j in range(first[i], first[i + 1]):
            scores[j] = 0.0
            if tested[j]:
                at = slice(j, j + 1)
                scores[j] = log_likelihood(counts[at], censored[at], factors[at], each, mean, size)


def score_each(
    first: Indices, counts: Array, censored: Mask, factors: Array, weights: Array, tested: Mask
) -> Array:
    """Log-likelihood of tested records under laws fitted to the weighted ones, item by item.

    >>> counts = np.array([3.0, 3.0, 3.0, 3.0, 9.0])
    >>> early = np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    >>> none, ones = np.zeros(5, dtype=bool), np.ones(5)
    >>> found = score_each(np.array([0, 5]), counts, none, ones, early, early == 0)
    >>> bool(found[3] > found[4]), found[:3].tolist()
    (True, [0.0, 0.0, 0.0])
    """
    scores = np.empty(counts.size)
    _score_each(first, counts, censored, factors, weights, tested, scores)
    return scores


@njit(cache=True, nogil=True, error_model="numpy")
def _moved(counts, censored, factors, places, mean, size, target, found):  # type: ignore[no-untyped-def]
    """Records at another factor; ``places`` between 0 and 1 choose within the step of a count."""
    wanted = mean * target
    share_to = wanted / (wanted + size)
    for i in range(counts.shape[0]):
        if factors[i] == target:
            found[i] = counts[i]
            continue
        # Work with whichever of P(D < count) and P(D >= count) is the more precise.
        usual = mean * factors[i]
        share = usual / (usual + size)
        probability = math.exp(-size * math.log1p(usual / size))
        below = 0.0
        for k in range(int(counts[i])):
            below += probability
            probability *= share * (k + size) / (k + 1)
        rank = below if censored[i] else below + places[i] * probability
        if rank >= 1.0 - _NEVER:
            found[i] = math.floor(counts[i] * target / factors[i] + 0.5)
            continue
        there = math.exp(-size * math.log1p(wanted / size))
        upto, k = there, 0
        while upto <= rank and there > 0.0:
            there *= share_to * (k + size) / (k + 1)
            upto += there
            k += 1
        found[i] = k


def moved(
    counts: Array,
    censored: Mask,
    factors: Array,
    mean: float,
    size: float,
    target: float,
    places: Array,
) -> Array:
    """What the records would be if all periods had the factor ``target``.

    >>> counts = np.array([0.0, 3.0, 8.0])
    >>> whole = np.zeros(3, dtype=bool)
    >>> moved(counts, whole, np.ones(3), 4.0, 2.0, 2.0, np.full(3, 0.5))
    array([ 1.,  6., 15.])
    """
    found = np.empty(counts.size)
    _moved(counts, censored, factors, places, mean, size, target, found)
    return found
