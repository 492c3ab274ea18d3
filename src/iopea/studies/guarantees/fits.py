"""Fits of growth, and checks that growth is no faster than was promised.

Runs are the unit: everything is an array (runs, points), each row of which has a seed of its own.
Points of one run may depend on each other, so that errors are those over runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from iopea.comparison.statistics import Growth, growth
from iopea.studies.guarantees.study import Check
from iopea.types import Array, Mask

#: Probability of a false alarm of one comparison, in full studies and in quick ones.
FULL_LEVEL, QUICK_LEVEL = 0.01, 1e-8


def level(full: bool) -> float:
    """Probability with which one comparison may fail although the promise holds."""
    return FULL_LEVEL if full else QUICK_LEVEL


@dataclass(frozen=True)
class Logarithmic:
    """A curve a + b log x, with the standard error of b."""

    intercept: float
    slope: float
    error: float


def logarithmic(points: Array, curves: Array) -> Logarithmic:
    """Fit a + b log x to the mean of curves, an array (runs, points).

    >>> x = np.array([1.0, np.e, np.e**2])
    >>> logarithmic(x, np.array([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]))
    Logarithmic(intercept=1.5, slope=2.0, error=0.0)
    """
    slopes, intercepts = np.polyfit(np.log(points), np.atleast_2d(curves).T, 1).round(12)
    error = float(slopes.std(ddof=1) / np.sqrt(slopes.size)) if slopes.size > 1 else float("nan")
    return Logarithmic(float(intercepts.mean()), float(slopes.mean()), error)


def explained(mean: Array, fitted: Array) -> float:
    """The share of the variation of a mean curve that a fit explains [R²].

    >>> explained(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0]))
    1.0
    """
    return float(1 - ((mean - fitted) ** 2).sum() / ((mean - mean.mean()) ** 2).sum())


def explained_by_power(points: Array, curves: Array, fit: Growth | None) -> float | None:
    """R² of a fitted power; None where there is no fit."""
    if fit is None:
        return None
    return explained(curves.mean(axis=0), fit.factor * points**fit.exponent)


def explained_by_logarithm(points: Array, curves: Array, fit: Logarithmic) -> float:
    """R² of a fitted logarithm."""
    return explained(curves.mean(axis=0), fit.intercept + fit.slope * np.log(points))


def exponent_text(fit: Growth | None) -> str:
    """An exponent with its standard error.

    >>> exponent_text(Growth(0.5, 0.01, 1.0)), exponent_text(None)
    ('0.500 ± 0.010', '–')
    """
    if fit is None:
        return "–"
    error = "" if np.isnan(fit.error) else f" ± {fit.error:.3f}"
    return f"{fit.exponent:.3f}{error}"


def above_zero(sample: Array) -> float:
    """One-sided p-value of Student's test that a mean is at most 0.

    >>> above_zero(np.array([1.0, 1.0])), above_zero(np.array([0.0, 0.0]))
    (0.0, 1.0)
    """
    mean = float(sample.mean())
    error = float(sample.std(ddof=1) / np.sqrt(sample.size))
    if error <= 1e-12 * abs(mean) or error == 0:
        return 0.0 if mean > 0 else 1.0
    return float(stats.t.sf(mean / error, sample.size - 1))


def at_most(
    claim: str,
    sample: Array,
    other: Array,
    factor: float,
    alarm: float,
    names: tuple[str, str] = ("mean", "allowed up to"),
) -> Check:
    """Check that a mean is at most a factor times another, run by run on the same seeds.

    Parameters
    ----------
    claim : str. What must hold.
    sample, other : arrays (runs,). What must be small, and what it is compared with.
    factor : float. How many times the other it may be.
    alarm : float. Level of the test.
    names : tuple of str. What the two means are called.
    """
    p_value = above_zero(sample - factor * other)
    return Check(
        claim=claim,
        measured=(
            f"{names[0]} {sample.mean():.4g}, {names[1]} {factor * other.mean():.4g}, "
            f"{sample.size} seeds, p = {p_value:.2g}"
        ),
        passed=p_value >= alarm,
        false_alarm=alarm,
    )


def at_most_worst(claim: str, sample: Array, other: Array, factor: float, alarm: float) -> Check:
    """The same for the largest of several means: arrays (runs, gaps).

    It fails if at some gap ``sample`` is too large for every gap of ``other``.
    """
    reference = other[:, other.mean(axis=0).argmax()]
    least = min(max(above_zero(column - factor * each) for each in other.T) for column in sample.T)
    worst = sample[:, sample.mean(axis=0).argmax()]
    gaps = sample.shape[1]
    about = at_most(claim, worst, reference, factor, alarm).measured.rpartition(",")[0]
    return Check(claim, f"{about}, p = {least:.2g}", least >= alarm, gaps * alarm)


def seldom(claim: str, failed: Mask, share: float, alarm: float) -> Check:
    """Check that an event of at most this probability was not too frequent in independent runs.

    >>> seldom("never", np.array([True] * 12), 0.15, 1e-9).passed
    False
    >>> seldom("never", np.array([True] + [False] * 11), 0.15, 1e-9).passed
    True
    """
    count, runs = int(failed.sum()), failed.size
    allowed = int(stats.binom.isf(alarm, runs, share))
    actual = float(stats.binom.sf(allowed, runs, share))
    return Check(
        claim=claim,
        measured=f"{count} of {runs} runs; up to {allowed} may be chance",
        passed=count <= allowed,
        false_alarm=max(actual, 1e-300),
    )


def worst(values: Array) -> tuple[Array, int]:
    """Of an array (runs, gaps), the column of the largest mean, and its number."""
    column = int(values.mean(axis=0).argmax())
    return values[:, column], column


def power(points: Array, curves: Array) -> Growth | None:
    """The exponent of a power fitted to the mean, with the jackknife's error over runs."""
    return growth(points, curves)
