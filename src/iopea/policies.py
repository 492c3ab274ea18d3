"""Policy classes, and the finite nets that approximate them.

A net of radius r has a policy within r of every policy of the class, in the maximum norm.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from iopea.errors import InputError, shown
from iopea.model import check_numbers, check_positive, real_numbers
from iopea.types import Array, Mask, Policy

MOST_POINTS = 50_000_000
MOST_SPACINGS = 1e15  # with more, neighbouring points round to the same number
SAME_POINT = 1e-9  # points closer than this share of an axis, or of a step, are the same
_SHORTEST = 1e-31  # so that radii of the net are numbers that can be squared
ROUNDING = 4 * float(np.finfo(np.float64).eps)
#: Most points of an axis for which a net is counted exactly.
_COUNTED = 10**6
#: Number of times that combinations which are not in the class are drawn again.
_REDRAWS = 100
#: Least number of spacings of a net along the longest range, unless a radius is given.
DEFAULT_POINTS = 2000


def default_radius(extent: float, horizon: float | None = None) -> float:
    """The default radius of the net: a share of the longest range.

    The paper's radius is r = T^(-1/2): its error, added up over the horizon, is of the order of the
    regret. Here it is T^(-1/2) times the range, so that units don't matter, and at most 1/2000 of
    the range. Without a horizon it is 1/2000 of the range.

    Parameters
    ----------
    extent : float. The longest side of the class; 0 for a single policy, where any radius will do.
    horizon : float, optional. Steps of the run [T].

    Examples
    --------
    >>> default_radius(7.0), default_radius(7.0, 10_000), default_radius(7.0, 10**8)
    (0.0035, 0.0035, 0.0007)
    """
    if not 0 <= extent < math.inf:
        raise InputError(f"An extent must be a finite number of at least 0, not {shown(extent)}.")
    if horizon is None:
        return extent / DEFAULT_POINTS or 1.0
    if not 1 <= horizon < math.inf:
        raise InputError(f"A horizon must be a finite number of at least 1, not {shown(horizon)}.")
    return extent / max(DEFAULT_POINTS, math.sqrt(horizon)) or 1.0


def check_steps(what: str, low: float, high: float, step: float) -> None:
    """Refuse a range that is not a multiple of ``step``, up to rounding.

    >>> check_steps("The levels", 0.0, 7.0, 2.0)
    Traceback (most recent call last):
    iopea.errors.InputError: The levels from 0 to 7 in steps of 2 end at 6: give high = 6 or 8.
    """
    length = high - low
    number = length / step
    if length == 0 or number > MOST_SPACINGS:  # a single policy; or too many, refused elsewhere
        return
    rounding = SAME_POINT + ROUNDING * max(abs(low), abs(high)) / step
    last = math.floor(number + rounding)
    if last == 0:
        raise InputError(
            f"{what} from {low:.15g} to {high:.15g} are less than a step of {step:.15g} apart: "
            f"give high = {low + step:.15g}, or a step of at most {length:.15g}."
        )
    if number - last > rounding:
        end, after = low + step * last, low + step * (last + 1)
        raise InputError(
            f"{what} from {low:.15g} to {high:.15g} in steps of {step:.15g} end at {end:.15g}: "
            f"give high = {end:.15g} or {after:.15g}."
        )


class PolicyClass(ABC):
    """A set of policies, each a point with ``dimension`` coordinates."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of parameters of a policy [d]."""

    @property
    @abstractmethod
    def bound(self) -> float:
        """The largest absolute coordinate of any policy [U]."""

    @property
    @abstractmethod
    def extent(self) -> float:
        """The longest side of the smallest box around all policies."""

    def ends(self, axis: int) -> tuple[float, float]:
        """The least and the largest value of a coordinate."""
        values = self.net(self.extent or 1.0)[:, axis]
        return float(values.min()), float(values.max())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates, as shown in figures."""
        return tuple(f"parameter {axis + 1}" for axis in range(self.dimension))

    @abstractmethod
    def net(self, radius: float) -> Array:
        """An array (n, d) that has a policy within ``radius`` of any policy of the class."""

    def count(self, radius: float) -> int:
        """Size of ``net(radius)``."""
        return len(self.net(radius))

    def thinned(self, per_axis: int, radius: float) -> Array:
        """``net(radius)``, with at most ``per_axis`` different values of each coordinate."""
        net = self.net(max(radius, self.extent / (per_axis - 1)))
        taken = np.ones(len(net), dtype=np.bool_)
        for axis in net.T:
            values = np.unique(axis)
            some = np.linspace(0, values.size - 1, min(per_axis, values.size)).round().astype(int)
            taken &= np.isin(axis, values[some])
        return np.asarray(net[taken])

    def sample(self, rng: Generator, n: int) -> Array:
        """Policies drawn uniformly at random, an array (n, d)."""
        net = self.net(self.extent or 1.0)
        return net[rng.integers(len(net), size=n)]

    def contains(self, policy: Sequence[float]) -> bool:
        """Whether a policy is in the class, up to the rounding of written numbers.

        >>> Box(0, 7, step=0.1).contains([0.3]), Box(0, 7).contains([7.5])
        (True, False)
        """
        if not self._has_parameters(policy):
            return False
        net = self.net(self.extent or 1.0)
        return bool((np.abs(net - np.array(policy)).max(axis=1) <= self.as_written).any())

    def outside(self, policies: Array) -> Policy | None:
        """The first of some policies, an array (n, d), that is not in the class; None if all are.

        >>> Box(0, 7).outside(np.array([[3.0], [7.5]]))
        (7.5,)
        """
        rows = map(tuple, policies.tolist())
        return next((row for row in rows if not self.contains(row)), None)

    def _has_parameters(self, policy: Sequence[float]) -> bool:
        """Whether these are numbers, one for each coordinate."""
        if isinstance(policy, tuple) and all(type(value) is float for value in policy):
            return len(policy) == self.dimension
        return check_numbers("A policy", policy).shape == (self.dimension,)

    @property
    def described(self) -> str:
        """Which policies it has, in words."""
        return f"one of its {self.count(self.extent or 1.0):,} policies"

    @property
    def as_written(self) -> float:
        """Distance within which two policies are the same: people write rounded parameters."""
        return SAME_POINT * max(self.bound, ROUNDING)

    @property
    def scales(self) -> Array:
        """What distances along each coordinate are measured in, as a share of the extent."""
        return np.ones(self.dimension)

    def near(self, centres: Array, reach: float, radius: float) -> Array:
        """The points of ``net(radius)`` within ``reach`` of some centre, an array (m, d).

        Distances are in the maximum norm, in :attr:`scales`.
        """
        points = self.net(radius)
        scales = self.scales
        for axis, middle in enumerate(centres.T):  # most points are far from all centres
            values, most = points[:, axis], 2 * reach * scales[axis]
            points = points[(values >= middle.min() - most) & (values <= middle.max() + most)]
        near = np.zeros(len(points), dtype=np.bool_)
        for centre in centres:
            near |= (np.abs(points - centre) / scales).max(axis=1) <= reach
        return np.asarray(points[near])

    def neighbours(self, policy: Array) -> Array:
        """A policy and all that differ from it in one coordinate, for a class with steps."""
        raise InputError(f"{self!r} has no steps, so that a policy has no neighbours.")


@dataclass(frozen=True, init=False)
class Box(PolicyClass):
    """All policies between ``low`` and ``high``, or those on a grid of steps.

    Parameters
    ----------
    low, high : float or sequence of float
        The ends of each axis, both included. A single number applies to all axes.
    step : float or sequence of float, optional
        If given, the policies are ``low``, ``low + step``, ..., ``high``, and they are the net at
        any radius. The length of an axis must be a multiple of its step.
    labels : tuple of str, optional
        Names of the axes in figures.
    proportional : bool
        Whether a radius applies to the longest axis alone, and others have as many points as it.
    ascending : int
        Number of first coordinates of which none may be above the next.

    Examples
    --------
    >>> Box([0, 0], [2, 2], step=1, ascending=2).net(1.0).tolist()
    [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [1.0, 1.0], [1.0, 2.0], [2.0, 2.0]]
    >>> Box([0, 0], [10, 1], proportional=True).count(5.0)
    9
    >>> Box(0, 1).net(0.4)[:, 0]
    array([0. , 0.4, 0.8, 1. ])
    >>> Box([0, 5], [1, 7], step=[1, 2]).net(0.1)
    array([[0., 5.],
           [0., 7.],
           [1., 5.],
           [1., 7.]])
    >>> Box(0, 300).count(1e-3)
    300001
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    step: tuple[float, ...] | None
    labels: tuple[str, ...] = field(repr=False)
    proportional: bool = field(repr=False)
    ascending: int = field(repr=False)

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        step: ArrayLike | None = None,
        labels: tuple[str, ...] = (),
        proportional: bool = False,
        ascending: int = 0,
    ) -> None:
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "proportional", proportional)
        object.__setattr__(self, "ascending", ascending)
        ends = {"low": _numbers("low", low), "high": _numbers("high", high)}
        if step is not None:
            ends["step"] = _numbers("step", step)
        axes = max(len(values) for values in ends.values())
        for name, values in ends.items():
            if len(values) not in (1, axes):
                raise InputError(f"{name} has {len(values)} numbers, but there are {axes} axes.")
            object.__setattr__(self, name, values * (axes // len(values)))
        if step is None:
            object.__setattr__(self, "step", None)
        for least, most in zip(self.low, self.high, strict=True):
            if least > most:
                raise InputError(f"low is {least}, above high, which is {most}.")
            if math.isinf(most - least):
                raise InputError(f"The axis from {least} to {most} is too long to measure.")
            if 0 < most - least < _SHORTEST:
                raise InputError(
                    f"The axis from {least} to {most} is too short to measure: give ends that "
                    f"are equal, or at least {_SHORTEST:g} apart."
                )
        for axis in range(1, ascending):
            before = max(range(axis), key=lambda other: self.low[other])
            if self.low[before] > self.high[axis]:
                raise InputError(
                    f"The {self.names[before]} is at least {self.low[before]}, above the highest "
                    f"{self.names[axis]}, which is {self.high[axis]}."
                )
        for least, most, each in zip(self.low, self.high, self.step or (), strict=False):
            if each <= 0:
                raise InputError(f"step must be above 0, not {each}.")
            check_steps("The policies", least, most, each)

    @property
    def dimension(self) -> int:
        """Number of axes [d]."""
        return len(self.low)

    @property
    def bound(self) -> float:
        """The largest absolute coordinate [U]."""
        return max(map(abs, self.low + self.high))

    def ends(self, axis: int) -> tuple[float, float]:
        """The ends of an axis."""
        points = self._points(axis, self.extent or 1.0)
        return float(points[0]), float(points[-1])

    @property
    def names(self) -> tuple[str, ...]:
        """The labels, if given."""
        return self.labels or super().names

    def count(self, radius: float) -> int:
        """Size of ``net(radius)``, without building it."""
        sizes = [self._size(axis, radius) for axis in range(self.dimension)]
        if not self.ascending or max(sizes) > _COUNTED:
            return math.prod(sizes)
        # Combinations that end at each point of an axis, from those of the axis before.
        first = self._points(0, radius)
        ways: Array = np.ones(first.size)
        for axis in range(1, self.ascending):
            points = self._points(axis, radius)
            below = np.searchsorted(first, points + self.as_written, side="right")
            ways, first = np.append(0.0, np.cumsum(ways))[below], points
        return round(float(ways.sum())) * math.prod(sizes[self.ascending :])

    @property
    def scales(self) -> Array:
        """The lengths of the axes over that of the longest, if they are proportional."""
        if not self.proportional or not self.extent:
            return np.ones(self.dimension)
        lengths = np.subtract(self.high, self.low) / self.extent
        return np.where(lengths > 0, lengths, 1.0)

    @property
    def extent(self) -> float:
        """The longest side."""
        return max(high - low for low, high in zip(self.low, self.high, strict=True))

    def net(self, radius: float) -> Array:
        """The grid with spacing ``radius``, or with the steps; the last axis varies fastest.

        Parameters
        ----------
        radius : float
            Each axis has ``low``, ``low + radius``, ... and ``high``. Ignored by a box with steps.

        Returns
        -------
        array of shape (n, d)
            More than 50 million points are refused.
        """
        points = self.count(radius)
        if points > MOST_POINTS:
            what = f"net of radius {radius}" if self.step is None else f"box of steps {self.step}"
            raise InputError(
                f"The {what} has {points} points, more than {MOST_POINTS}: {self._advice(radius)}."
            )
        return self._grid([self._points(axis, radius) for axis in range(self.dimension)])

    def _grid(self, axes: list[Array]) -> Array:
        """All combinations of coordinates, the last varying fastest, that may be combined."""
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.dimension)
        return grid[self._ascends(grid)] if self.ascending else grid

    def _ascends(self, points: Array) -> Mask:
        first = points[:, : self.ascending]
        return np.asarray((np.diff(first, axis=1) >= -self.as_written).all(axis=1))

    def near(self, centres: Array, reach: float, radius: float) -> Array:
        """The points of ``net(radius)`` within ``reach`` of some centre, without building it."""
        axes = [self._points(axis, radius) for axis in range(self.dimension)]
        found = []
        for centre in centres:
            close = [
                points[np.abs(points - middle) <= reach * scale]
                for points, middle, scale in zip(axes, centre, self.scales, strict=True)
            ]
            found.append(self._grid(close))
        return np.unique(np.concatenate(found), axis=0)

    def contains(self, policy: Sequence[float]) -> bool:
        """Whether a policy lies in the box, and on its grid of steps."""
        if not self._has_parameters(policy):
            return False
        near = self.as_written
        for axis, value in enumerate(policy):
            low, high = self.low[axis], self.high[axis]
            if not low - near <= value <= high + near:
                return False
            step = None if self.step is None else self.step[axis]
            if step is not None and abs(value - low - step * round((value - low) / step)) > near:
                return False
        return bool(self._ascends(np.array([policy], dtype=np.float64))[0])

    @property
    def described(self) -> str:
        """The ranges of the parameters, in words.

        >>> Box([0, 0], [20, 30], step=1, labels=("s", "S"), ascending=2).described
        's from 0 to 20 in steps of 1, S from 0 to 30 in steps of 1, in ascending order'
        """
        ranges = [
            f"{name} from {low:g} to {high:g}"
            + ("" if self.step is None else f" in steps of {self.step[axis]:g}")
            for axis, (name, low, high) in enumerate(
                zip(self.names, self.low, self.high, strict=True)
            )
        ]
        return ", ".join(ranges) + (", in ascending order" if self.ascending else "")

    def thinned(self, per_axis: int, radius: float) -> Array:
        """``net(radius)``, with each axis thinned separately to at most ``per_axis`` values.

        >>> Box([0, 0], [1, 100]).thinned(3, 0.5).tolist()[:4]
        [[0.0, 0.0], [0.0, 50.0], [0.0, 100.0], [0.5, 0.0]]
        """
        axes = []
        for axis in range(self.dimension):
            size = self._size(axis, radius)
            if size <= per_axis:
                axes.append(self._points(axis, radius))
            elif self.step is None:
                axes.append(np.linspace(self.low[axis], self.high[axis], per_axis))
            else:
                numbers = np.linspace(0, size - 1, per_axis).round()
                points = self.low[axis] + self.step[axis] * numbers
                axes.append(np.minimum(points, self.high[axis]))
        return self._grid(axes)

    def neighbours(self, policy: Array) -> Array:
        """A policy and all that differ from it in one coordinate.

        >>> Box([0, 0], [1, 2], step=1).neighbours(np.array([0.0, 1.0])).tolist()
        [[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [0.0, 2.0]]
        """
        if self.step is None:
            return super().neighbours(policy)
        rows = [np.array(policy, dtype=np.float64)]
        for axis in range(self.dimension):
            for value in self._points(axis, 1.0):
                if value != policy[axis]:
                    other = rows[0].copy()
                    other[axis] = value
                    rows.append(other)
        return np.array(rows)[self._ascends(np.array(rows))]

    def sample(self, rng: Generator, n: int) -> Array:
        """Policies drawn uniformly at random, an array (n, d).

        >>> Box([0, 5], [0, 7], step=1).sample(np.random.default_rng(0), 2)
        array([[0., 7.],
               [0., 6.]])
        """
        drawn = self._drawn(rng, n)
        for _ in range(_REDRAWS):
            wrong = ~self._ascends(drawn)
            if not wrong.any():
                return drawn
            drawn[wrong] = self._drawn(rng, int(wrong.sum()))
        net = self.net(self.extent or 1.0)  # hardly any combination is one of the class
        return net[rng.integers(len(net), size=n)]

    def _drawn(self, rng: Generator, n: int) -> Array:
        axes = []
        for axis in range(self.dimension):
            if self.step is None:
                axes.append(rng.uniform(self.low[axis], self.high[axis], n))
            else:
                points = self._points(axis, 1.0)
                axes.append(points[rng.integers(points.size, size=n)])
        return np.column_stack(axes)

    def _spacing(self, axis: int, radius: float) -> float:
        if self.step is not None:
            return self.step[axis]
        return float(check_positive("A radius", radius) * self.scales[axis])

    def _size(self, axis: int, radius: float) -> int:
        """Number of grid points of an axis."""
        low, high, spacing = self.low[axis], self.high[axis], self._spacing(axis, radius)
        length = high - low
        if length == 0:
            return 1
        if length / spacing > MOST_SPACINGS:
            raise InputError(
                f"A spacing of {spacing} is too small for the axis from {low} to {high}: "
                f"use {length / MOST_POINTS:.1e} or more."
            )
        rounding = ROUNDING * max(abs(low), abs(high))
        if self.step is not None:
            return math.floor(length / spacing + SAME_POINT + rounding / spacing) + 1
        last = math.floor(length / spacing)
        gap = high - (low + spacing * last)
        reached = last > 0 and gap <= max(SAME_POINT * length, rounding)
        return last + 1 if reached else last + 2

    def _points(self, axis: int, radius: float) -> Array:
        # Each point is computed from its index, so that rounding errors do not add up.
        numbers = np.arange(self._size(axis, radius), dtype=np.float64)
        points = self.low[axis] + self._spacing(axis, radius) * numbers
        if self.step is None:
            points[-1] = self.high[axis]
        # The last point may exceed the end by a rounding error.
        return np.minimum(points, self.high[axis])

    def _advice(self, radius: float) -> str:
        if self.step is not None:
            return "use larger steps"
        widest = max(high - low for low, high in zip(self.low, self.high, strict=True))
        if self.count(widest) > MOST_POINTS:
            return f"no radius is large enough for {self.dimension} axes"
        while self.count(radius) > MOST_POINTS:
            radius *= 1.1
        return f"use a radius of at least {1.1 * radius:.1e}"


class Finite(PolicyClass):
    """A list of policies, which is the net at any radius.

    Parameters
    ----------
    points : array of shape (n,) or (n, d)
        Finite numbers, without repeated policies.

    Examples
    --------
    >>> Finite([1, 2, 4]).net(0.1)[:, 0]
    array([1., 2., 4.])
    >>> Finite([[1, 2], [1, 2]])
    Traceback (most recent call last):
    iopea.errors.InputError: Policy (1.0, 2.0) is given twice, at positions 0 and 1.
    """

    def __init__(self, points: ArrayLike) -> None:
        try:
            values = real_numbers(points)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"The points {shown(points)} are not rows of numbers.") from None
        if values.ndim not in (1, 2) or values.size == 0:
            raise InputError(
                f"The points have shape {values.shape}: use (n,) or (n, d), not empty."
            )
        values = values.reshape(len(values), -1)
        finite = np.isfinite(values).all(axis=1)
        if not finite.all():
            where = int(finite.argmin())
            raise InputError(f"Policy {_point(values[where])} at position {where} is not finite.")
        _refuse_duplicates(values)
        values.flags.writeable = False
        self._values = values

    def __repr__(self) -> str:
        return f"Finite({shown(self._values.tolist())})"

    @property
    def points(self) -> Array:
        """The policies, of shape (n, d), read-only."""
        return self._values

    @property
    def dimension(self) -> int:
        """Number of parameters of a policy [d]."""
        return int(self._values.shape[1])

    @property
    def bound(self) -> float:
        """The largest absolute coordinate [U]."""
        return float(np.abs(self._values).max())

    @property
    def extent(self) -> float:
        """The largest difference in one coordinate."""
        return float(np.ptp(self._values, axis=0).max())

    def net(self, radius: float) -> Array:
        """A copy of the policies, whatever the radius."""
        return self._values.copy()

    def count(self, radius: float) -> int:
        """Number of policies."""
        return len(self._values)

    def outside(self, policies: Array) -> Policy | None:
        """The first of some policies, an array (n, d), that is not in the class; None if all are.

        Only those that are not listed as they stand are compared with every policy.
        """
        unlisted = [row for row in policies.tolist() if tuple(row) not in self._listed]
        return super().outside(np.array(unlisted))

    @cached_property
    def _listed(self) -> set[Policy]:
        return set(map(tuple, self._values.tolist()))


def _point(values: Array) -> str:
    return str(tuple(values.tolist())) if values.size > 1 else str(values[0])


def _refuse_duplicates(values: Array) -> None:
    rank = np.lexsort(values.T[::-1])  # stable: equal policies keep their order
    same = np.flatnonzero((values[rank[1:]] == values[rank[:-1]]).all(axis=1))
    if same.size:
        first, second = rank[same[0]], rank[same[0] + 1]
        raise InputError(
            f"Policy {_point(values[first])} is given twice, at positions {first} and {second}."
        )


def _numbers(name: str, value: ArrayLike) -> tuple[float, ...]:
    try:
        values = np.atleast_1d(real_numbers(value))
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{name} must be a number or one for each axis, not {shown(value)}."
        ) from None
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise InputError(
            f"{name} must be a finite number or one for each axis, not {shown(value)}."
        )
    return tuple(values.tolist())
