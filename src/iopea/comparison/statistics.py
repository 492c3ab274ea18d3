"""Means with intervals, tests of differences, and exponents of growth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from iopea.types import Array

#: Confidence of the intervals in tables and figures, and level of the tests.
CONFIDENCE, LEVEL = 0.95, 0.05
#: Relative difference below which two numbers are equal up to rounding.
_SAME = 1e-12


@dataclass(frozen=True)
class Mean:
    """A mean of independent values; ``half`` is half the width of its 95 % interval."""

    value: float
    half: float
    count: int


def mean_of(values: Sequence[float] | Array) -> Mean:
    """Mean with its Student interval; a single value has an interval of unknown width.

    >>> found = mean_of([1.0, 2.0, 3.0])
    >>> found.value, round(found.half, 2), found.count
    (2.0, 2.48, 3)
    """
    sample = np.asarray(values, dtype=np.float64)
    half = float(half_width(sample)) if sample.size > 1 else float("nan")
    return Mean(float(sample.mean()), half, sample.size)


def half_width(values: Array) -> float | Array:
    """Half the width of the 95 % Student interval of the mean over the first axis."""
    quantile = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)
    return quantile * stats.sem(values)  # type: ignore[no-any-return]


def welch(one: Sequence[float], other: Sequence[float], exact: bool = False) -> float:
    """The p-value of Welch's test that two means are the same.

    Parameters
    ----------
    one, other : sequences of float. Independent values.
    exact : bool. Whether ``one`` is a known number, not a sample.

    Returns
    -------
    float. NaN where a sample has fewer than two values.

    >>> round(welch([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]), 3)
    0.021
    >>> welch([1.0], [2.0, 2.0], exact=True)
    0.0
    """
    if len(other) < 2 or (len(one) < 2 and not exact):
        return float("nan")
    left, right = float(np.mean(one)), float(np.mean(other))
    spread = 0.0 if exact else float(np.std(one, ddof=1))
    other_spread = float(np.std(other, ddof=1))
    scale = max(abs(left), abs(right))
    if max(spread, other_spread) <= _SAME * scale:
        return 1.0 if abs(left - right) <= _SAME * scale else 0.0
    if exact:
        return float(stats.ttest_1samp(other, left).pvalue)
    # From the moments, as SciPy warns of samples in which all values are the same.
    test = stats.ttest_ind_from_stats(
        left, spread, len(one), right, other_spread, len(other), equal_var=False
    )
    return float(test.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for the number of tests (Holm 1979); NaN stays NaN.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values)[: np.count_nonzero(~np.isnan(values))]  # NaN comes last
    scaled = np.arange(order.size, 0, -1) * values[order]
    adjusted = np.full(values.size, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(value) for value in adjusted]


@dataclass(frozen=True)
class PowerFit:
    """The exponent b of a curve a T^b, with its standard error."""

    exponent: float
    error: float
    factor: float


def fit_power(steps: Array, curves: Array) -> PowerFit | None:
    """Fit a T^b to the mean of curves, an array (runs, steps).

    By a straight line through the logarithms, with the jackknife's error over runs, as the points
    of one run are not independent. None if the mean is not positive, or for fewer than two points.

    >>> T = np.array([1e3, 1e4, 1e5])
    >>> fit = fit_power(T, np.array([2.0, 3.0])[:, None] * T**0.5)
    >>> round(fit.exponent, 6), round(fit.error, 6)
    (0.5, 0.0)
    """
    curves = np.atleast_2d(curves)
    mean = curves.mean(axis=0)
    if steps.size < 2 or (mean <= 0).any():
        return None
    slope, intercept = np.polyfit(np.log(steps), np.log(mean), 1)
    runs = len(curves)
    error = float("nan")
    if runs > 1:
        left_out = (curves.sum(axis=0) - curves) / (runs - 1)
        if (left_out > 0).all():
            slopes = np.polyfit(np.log(steps), np.log(left_out).T, 1)[0]
            error = float(np.sqrt((runs - 1) * np.var(slopes)))
    return PowerFit(float(slope), error, float(np.exp(intercept)))
