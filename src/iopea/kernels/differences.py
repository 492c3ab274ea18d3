"""Compiled sums over batches for differences of policies, without temporaries of their size.

What batch b contributes to the error of policy j's mean is (S_bj - n_b m_j)/N_j, or 0 where the
batch tells nothing of it; the same of a reference policy is taken off.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from iopea.types import Array, Estimates, Indices


@njit(cache=True, inline="always")
def _contribution(total, size, mean, scale, informed):  # type: ignore[no-untyped-def]
    return (total - size * mean) * scale if informed else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _moments(sums, sizes, mean, scale, informed, base, second, third):  # type: ignore[no-untyped-def]
    masked = informed.size > 0
    for b in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            known = informed[b, j] if masked else True
            each = _contribution(sums[b, j], sizes[b], mean[j], scale[j], known) - base[b]
            second[j] += each * each
            third[j] += each * each * each


@njit(cache=True, nogil=True, error_model="numpy")
def _chords(sums, sizes, mean, scale, informed, base, norm, columns, chord):  # type: ignore[no-untyped-def]
    masked = informed.size > 0
    for b in range(sums.shape[0]):
        before = 0.0
        for i in range(columns.shape[0]):
            j = columns[i]
            known = informed[b, j] if masked else True
            each = _contribution(sums[b, j], sizes[b], mean[j], scale[j], known) - base[b]
            unit = each / norm[j]
            if i > 0:
                chord[i - 1] += (unit - before) ** 2
            before = unit


class Differences:
    """The differences of all policies to a reference, batch by batch."""

    def __init__(self, estimates: Estimates, reference: int) -> None:
        steps = estimates.steps
        scale = np.full(steps.size, np.nan)
        np.divide(1.0, steps, out=scale, where=steps > 0)
        informed = estimates.informed
        if informed is None:
            informed = np.empty((0, 0), dtype=np.bool_)
        sizes = np.ascontiguousarray(estimates.sizes, dtype=np.float64)
        self._data = (np.ascontiguousarray(estimates.sums), sizes, estimates.mean, scale, informed)
        known = informed[:, reference] if informed.size else np.ones(sizes.size, dtype=np.bool_)
        own = (self._data[0][:, reference] - sizes * estimates.mean[reference]) * scale[reference]
        self._base = np.where(known, own, 0.0)

    def moments(self) -> tuple[Array, Array]:
        """Sums of squares and of cubes, an array (n,) each."""
        second, third = np.zeros((2, self._data[0].shape[1]))
        _moments(*self._data, self._base, second, third)
        return second, third

    def angles(self, norm: Array, columns: Indices) -> Array:
        """Angles between the directions of neighbouring columns, of these columns alone."""
        chord = np.zeros(max(columns.size - 1, 0))
        _chords(*self._data, self._base, norm, columns, chord)
        return np.asarray(2 * np.arcsin(np.minimum(np.sqrt(chord) / 2, 1.0)))

    @property
    def largest(self) -> float:
        """The largest contribution of the reference, against which rounding is judged."""
        return float(np.abs(self._base).max(initial=0.0))
