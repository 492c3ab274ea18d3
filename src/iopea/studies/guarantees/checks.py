"""Checks of promises, each with the probability that it fails although the promise holds.

Runs are the unit: samples are arrays (runs,) or (runs, points), each row of which has a seed of its
own.
"""

from __future__ import annotations

from scipy import stats

from iopea.studies.guarantees.study import Check
from iopea.types import Array, Mask

#: Probability of a false alarm of one comparison, in full studies and in quick ones.
FULL_LEVEL, QUICK_LEVEL = 0.01, 1e-8
#: Share of a mean below which its standard error is rounding.
_SAME = 1e-12


def level(full: bool) -> float:
    """Probability that one comparison fails although the promise holds."""
    return FULL_LEVEL if full else QUICK_LEVEL


def above_zero(sample: Array) -> float:
    """One-sided p-value of Student's test that a mean is at most 0.

    >>> import numpy as np
    >>> above_zero(np.array([1.0, 1.0])), above_zero(np.array([0.0, 0.0]))
    (0.0, 1.0)
    """
    mean = float(sample.mean())
    if stats.sem(sample) <= _SAME * abs(mean):  # as if all values were the same
        return 0.0 if mean > 0 else 1.0
    return float(stats.ttest_1samp(sample, 0.0, alternative="greater").pvalue)


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
    claim : str.
    sample, other : arrays (runs,). The values that must be small, and those they are compared with.
    factor : float. The largest ratio of the means.
    alarm : float. Level of the test.
    names : tuple of str. Of the two means.
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
    """Check that an event has at most some probability, by its count in independent runs.

    >>> import numpy as np
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
        measured=f"{count} of {runs} runs; up to {allowed} would pass",
        passed=count <= allowed,
        false_alarm=max(actual, 1e-300),
    )
