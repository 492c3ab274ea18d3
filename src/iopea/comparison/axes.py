"""Axes whose numbers can be read, and legends beside the data; loads Matplotlib."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, Locator, LogLocator, MaxNLocator, NullFormatter

from iopea.types import Array

#: Numbers between these are written out, all others with a power of ten.
_SMALL, _LARGE = 1e-3, 1e6
#: The same on a logarithmic axis, which has room for short numbers alone.
_LARGE_LOG = 1e5
#: Most digits of a number, and the share of a step by which its label may be off.
_MOST_DIGITS, _OFF = 15, 0.01
#: Least distance of two labels of a logarithmic axis, in the unit in which Matplotlib counts the
#: room for labels: that of numbers of three digits.
_ROOM_X, _ROOM_Y = 1.7, 0.9
#: Numbers in a decade, from many to few, and the numbers of labels between round ones.
_IN_DECADE = ((1, 2, 5), (1, 3), (1,))
_ROUND = range(8, 1, -1)
#: Most labels of a legend in a row.
_IN_ROW = 4
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _power(exponent: int) -> str:
    return f"10{str(exponent).translate(_RAISED)}"


def _rounded(values: Array, off: float) -> list[float]:
    """Numbers with the fewest digits at which none is off by more."""
    for digits in range(1, _MOST_DIGITS):
        found = [float(f"{value:.{digits}g}") for value in values]
        if np.abs(np.array(found) - values).max(initial=0.0) <= off:
            return found
    return [float(value) for value in values]


def _plain(value: float) -> str:
    return f"{value:,.{_MOST_DIGITS}g}".replace("-", "−")


def labels(values: Sequence[float] | Array, logarithmic: bool = False) -> list[str]:
    """Numbers at an axis, with as many digits as tell them apart.

    On a linear axis they share a power of ten, or have none.

    >>> labels([0.0, 2.5e-6, 5e-6]), labels([1e6, 1e6 + 1])
    (['0', '2.5·10⁻⁶', '5·10⁻⁶'], ['1·10⁶', '1.000001·10⁶'])
    >>> labels([100.0, 1e3, 1e4, 3e5, 1e6], logarithmic=True)
    ['100', '1,000', '10,000', '3·10⁵', '10⁶']
    """
    numbers = np.asarray(values, dtype=np.float64)
    if logarithmic:
        return [
            _plain(rounded) if _SMALL <= value < _LARGE_LOG else _scientific(rounded)
            for value in numbers
            for rounded in _rounded(np.array([value]), _OFF * value)
        ]
    steps = np.diff(np.unique(numbers))
    top = float(np.abs(numbers).max(initial=0.0))
    rounded = _rounded(numbers, _OFF * float(steps.min(initial=top)))
    if top == 0 or _SMALL <= top < _LARGE:
        return list(map(_plain, rounded))
    exponent = math.floor(math.log10(top))
    return [
        f"{_plain(value / 10.0**exponent)}·{_power(exponent)}" if value else "0"
        for value in rounded
    ]


def _scientific(value: float) -> str:
    exponent = math.floor(math.log10(value) + 1e-9)
    factor = _plain(float(f"{value / 10.0**exponent:.{_MOST_DIGITS}g}"))
    return _power(exponent) if factor == "1" else f"{factor}·{_power(exponent)}"


class _Numbers(Formatter):
    """Tick labels as :func:`labels` has them."""

    def __init__(self, logarithmic: bool) -> None:
        self._logarithmic = logarithmic

    def __call__(self, value: float, pos: int | None = None) -> str:
        return labels([value], self._logarithmic)[0]

    def format_ticks(self, values: Any) -> list[str]:
        return labels(values, self._logarithmic)


class _LogTicks(Locator):
    """As many round numbers of a logarithmic axis as have room for their labels."""

    def __call__(self) -> Any:
        return self.tick_values(*self.axis.get_view_interval())  # type: ignore[union-attr]

    def tick_values(self, vmin: float, vmax: float) -> Any:
        low, high = sorted((vmin, vmax))
        axis: Any = self.axis
        if not (low > 0 and np.isfinite(high) and high > low):
            return np.array([])
        least = _ROOM_X if isinstance(axis, XAxis) else _ROOM_Y
        per_label = math.log10(high / low) / max(axis.get_tick_space(), 1)
        shown = np.array([])
        for ticks in _candidates(low, high):
            shown = ticks[(ticks >= low) & (ticks <= high)]
            apart = np.diff(np.log10(shown)).min(initial=math.inf)
            if shown.size > 1 and apart >= least * per_label:
                return shown
        return shown[:1]


def _candidates(low: float, high: float) -> Iterator[Array]:
    """Round numbers in a range, from many to few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades: Array = 10.0 ** np.arange(first, last + 1, dtype=np.float64)
    in_decades = [np.outer(decades, factors).ravel() for factors in _IN_DECADE]
    between = [
        np.asarray(MaxNLocator(number).tick_values(low, high), dtype=np.float64)
        for number in _ROUND
    ]
    # Within a decade the numbers between round ones come first.
    yield from [*between, *in_decades] if last - first <= 1 else in_decades
    for number in range(2, last - first):
        yield decades[-first % number :: number]
    if last - first > 1:
        yield from between


def label_ticks(axis: Axis) -> None:
    """Numbers that don't overlap at an axis whose scale has been set."""
    logarithmic = axis.get_scale() == "log"
    if logarithmic:
        axis.set_major_locator(_LogTicks())
        axis.set_minor_locator(LogLocator(subs=range(2, 10)))
    axis.set_major_formatter(_Numbers(logarithmic))
    axis.set_minor_formatter(NullFormatter())


def legend_below(canvas: Figure, lines: Mapping[str, Any]) -> None:
    """A legend of lines by their labels, below all axes, in as many rows as it needs."""
    for columns in range(min(_IN_ROW, len(lines)), 0, -1):
        legend = canvas.legend(
            list(lines.values()), list(lines), loc="outside lower center", ncols=columns
        )
        canvas.draw_without_rendering()
        if legend.get_window_extent().width <= canvas.bbox.width or columns == 1:
            return
        legend.remove()


def lines_of(panels: Sequence[Axes]) -> dict[str, Any]:
    """All that has a label in some axes, each label once."""
    return {
        label: line
        for axes in panels
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
