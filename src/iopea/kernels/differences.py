"""Compiled sums over batches for differences of policies, without temporaries of their size.

What batch b contributes to the error of policy j's mean is (S_bj - n_b m_j)/N_j, or 0 where the
batch tells nothing of it; the same of a reference policy is taken off.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from iopea.types import Array, Estimates, Indices


@njit(cache=True, inline="always")
def _contribution(total, size, mean, scale):  # type: ignore[no-untyped-def]
    return (total - size * mean) * scale if size > 0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _moments(sums, sizes, mean, scale, base, second, third, fourth):  # type: ignore[no-untyped-def]
    own = sizes.shape[1] > 1
    for b in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            size = sizes[b, j if own else 0]
            each = _contribution(sums[b, j], size, mean[j], scale[j]) - base[b]
            square = each * each
            second[j] += square
            third[j] += each * square
            fourth[j] += square * square


@njit(cache=True, nogil=True, error_model="numpy")
def _chords(sums, sizes, mean, scale, base, norm, edges, unit, chord):  # type: ignore[no-untyped-def]
    own = sizes.shape[1] > 1
    for b in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            size = sizes[b, j if own else 0]
            each = _contribution(sums[b, j], size, mean[j], scale[j]) - base[b]
            unit[j] = each / norm[j]
        for i in range(edges.shape[0]):
            chord[i] += (unit[edges[i, 0]] - unit[edges[i, 1]]) ** 2


class Differences:
    """The differences of all policies to a reference, batch by batch."""

    def __init__(self, estimates: Estimates, reference: int) -> None:
        steps = estimates.steps
        scale = np.full(steps.size, np.nan)
        np.divide(1.0, steps, out=scale, where=steps > 0)
        sums = np.ascontiguousarray(estimates.sums)
        sizes = np.ascontiguousarray(estimates.sizes, dtype=np.float64)
        sizes = sizes if sizes.ndim == 2 else sizes[:, None]
        self._data = (sums, sizes, estimates.mean, scale)
        size = sizes[:, reference if sizes.shape[1] > 1 else 0]
        own = (sums[:, reference] - size * estimates.mean[reference]) * scale[reference]
        self._base = np.where(size > 0, own, 0.0)

    def moments(self) -> tuple[Array, Array, Array]:
        """Sums of second, third and fourth powers, an array (n,) each."""
        second, third, fourth = np.zeros((3, self._data[0].shape[1]))
        _moments(*self._data, self._base, second, third, fourth)
        return second, third, fourth

    def angles(self, norm: Array, edges: Indices) -> Array:
        """Angles between the directions of the two columns of each edge, an array (m, 2)."""
        chord = np.zeros(len(edges))
        _chords(*self._data, self._base, norm, edges, np.empty(norm.size), chord)
        return np.asarray(2 * np.arcsin(np.minimum(np.sqrt(chord) / 2, 1.0)))

    @property
    def largest(self) -> float:
        """The largest contribution of the reference, against which rounding is judged."""
        return float(np.abs(self._base).max(initial=0.0))
