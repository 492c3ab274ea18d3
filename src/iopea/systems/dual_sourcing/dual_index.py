"""The class of dual-index policies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from iopea.errors import InputError
from iopea.policies import SAME_POINT, Box, PolicyClass
from iopea.systems.shop.base import Levels
from iopea.types import Array, Indices

#: The most pairs of levels in a net.
MOST_PAIRS = 2_000_000
#: Points of an axis up to which a net is counted exactly.
_COUNTED = 10**6


class DualIndex(PolicyClass):
    """Policies (z_e, z_r) between two ranges of levels, redundant ones left out.

    A policy with z_e > z_r does the same as (z_e, z_e). Where that one is not in the net, one
    policy stands for all with this z_e.

    Examples
    --------
    >>> DualIndex(Levels(low=0, high=2, step=1), Levels(low=0, high=1, step=1)).net(1.0).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    """

    names = ("expedited level", "regular level")
    dimension = 2

    def __init__(self, expedited: Levels, regular: Levels) -> None:
        self._axes = [Box(levels.low, levels.high, levels.step) for levels in (expedited, regular)]

    def __repr__(self) -> str:
        return f"DualIndex({self._axes[0]!r}, {self._axes[1]!r})"

    @property
    def bound(self) -> float:
        """The highest level [U]."""
        return max(axis.bound for axis in self._axes)

    @property
    def extent(self) -> float:
        """The longer of the two ranges."""
        return max(axis.extent for axis in self._axes)

    def ends(self, axis: int) -> tuple[float, float]:
        """The ends of a range."""
        return self._axes[axis].ends(0)

    def contains(self, policy: Sequence[float]) -> bool:
        """Whether both levels lie in their ranges."""
        return len(policy) == 2 and all(
            axis.contains([level]) for axis, level in zip(self._axes, policy, strict=True)
        )

    def net(self, radius: float) -> Array:
        """The grid of this spacing, without the policies that do the same as others.

        More than two million policies are refused.
        """
        points = self.count(radius)
        if points > MOST_PAIRS:
            least = radius * math.sqrt(points / MOST_PAIRS)
            raise InputError(
                f"The net of radius {radius:g} has {points} pairs of levels, more than "
                f"{MOST_PAIRS}: use larger steps, or a radius of about {1.01 * least:.2g}."
            )
        return self._distinct(*(axis.net(radius)[:, 0] for axis in self._axes))

    def sample(self, rng: Generator, n: int) -> Array:
        """Pairs of levels drawn at random, each by itself."""
        return np.hstack([axis.sample(rng, n) for axis in self._axes])

    def thinned(self, per_axis: int, radius: float) -> Array:
        """The same with at most ``per_axis`` levels of each kind."""
        return self._distinct(*(axis.thinned(per_axis, radius)[:, 0] for axis in self._axes))

    def count(self, radius: float) -> int:
        """How many policies the net has; of very fine ones, the points of the whole grid."""
        sizes = [axis.count(radius) for axis in self._axes]
        if max(sizes) > _COUNTED:
            return sizes[0] * sizes[1]
        expedited, regular = (axis.net(radius)[:, 0] for axis in self._axes)
        return int((regular.size - self._first(expedited, regular)).sum())

    def _first(self, expedited: Array, regular: Array) -> Indices:
        """For each z_e the place of the lowest z_r to take with it; rounding is no difference."""
        rounding = SAME_POINT * self.extent
        place = np.searchsorted(regular, expedited - rounding)
        present = regular[np.minimum(place, regular.size - 1)] <= expedited + rounding
        present &= place < regular.size
        return np.asarray(np.maximum(np.where(present, place, place - 1), 0))

    def _distinct(self, expedited: Array, regular: Array) -> Array:
        first = self._first(expedited, regular)
        counts = regular.size - first
        place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - first, counts)
        return np.column_stack([np.repeat(expedited, counts), regular[place]])
