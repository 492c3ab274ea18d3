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
def _moments(sums, sizes, mean, scale, base, joined, second, third, fourth):  # type: ignore[no-untyped-def]
    own = sizes.shape[1] > 1
    batches, policies = sums.shape
    for b in range(batches):
        for j in range(policies):
            size = sizes[b, j if own else 0]
            joined[0, j] = _contribution(sums[b, j], size, mean[j], scale[j]) - base[b]
        for level in range(joined.shape[0]):
            if (b + 1) % (1 << level) and b + 1 < batches:
                break
            last = level + 1 == joined.shape[0]
            for j in range(policies):
                each = joined[level, j]
                square = each * each
                second[level, j] += square
                third[level, j] += each * square
                fourth[level, j] += square * square
                joined[level, j] = 0.0
                if not last:
                    joined[level + 1, j] += each


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
        sizes = np.ascontiguousarray(estimates.sizes_by_policy, dtype=np.float64)
        self._data = (sums, sizes, estimates.mean, scale)
        size = sizes[:, reference if sizes.shape[1] > 1 else 0]
        own = (sums[:, reference] - size * estimates.mean[reference]) * scale[reference]
        self._base = np.where(size > 0, own, 0.0)

    def moments(self, levels: int = 1) -> tuple[Array, Array, Array]:
        """Sums of second, third and fourth powers, an array (levels, n) each.

        At level k they are of 2^k neighbouring batches joined.
        """
        policies = self._data[0].shape[1]
        joined, second, third, fourth = np.zeros((4, levels, policies))
        _moments(*self._data, self._base, joined, second, third, fourth)
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
