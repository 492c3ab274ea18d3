"""Counts of censored sales in blocks of time, and the distribution of demand that they show.

All that the product-limit estimate needs of a record is the cell of a thousand that its demand fell
into, or the cell of the stock that was sold out. So the records of a shop of any age are kept as
counts by cell, in up to 64 blocks of consecutive periods, each of which can be left out (a
jackknife). Cells are as wide as a power of two: if larger demand is seen than they cover, or a
larger stock sold out, pairs are joined, and when all blocks are full, pairs of blocks are. Demand
within a cell is taken to be its mean there, so that whole units, and any values of which no two
share a cell, are kept exactly. How many periods had how much stock is counted in cells of their
own, since stock may be far above demand.

Beyond the highest demand seen, the estimate says how much probability is left, not where it lies.
:meth:`Tally.law` extends it by an exponential tail, whose mean is estimated from what was sold
above some size: exposure over events, with a few events of a prior scale added. What exceeds all
stock held only rarely is a law of its own, of which the rest tells nothing: it reaches at least as
far as if it were uniform up to three times that stock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from iopea.state import Stateful, parts, shaped
from iopea.systems.shop.product_limit import accumulate
from iopea.types import Array, Indices, Mask

#: Number of cells and of blocks.
CELLS, BLOCKS = 1024, 64
#: Width of the first cells, as a share of the largest stock, and the unit in which demand is summed
#: up, as a share of that width: sums of whole units don't depend on their order.
_FIRST_WIDTH, _UNIT = 2.0**-20, 2.0**-12
#: Share of a cell within which values are equal.
_ROUNDING = 1e-6
#: Share of a cell by which stock that was sold out exceeds demand seen in it, on average, where it
#: could show that demand.
_APART = 1e-3
#: Relative tolerance within which everything was sold.
_SOLD_OUT = 1e-9
#: The mean of the tail is taken from this share of the records, and at least so many of them.
_UPPER, _FEW = 0.3, 10
#: Events of the prior scale that are added to those of the tail.
TAIL_EVENTS = 2.0
#: Where larger demand than any seen is this rare, it may be anything up to so much more, as a
#: multiple of the stock that it exceeded; and its mean is at most so much more.
_RARELY, _FARTHER = 0.1, 2.0


@njit(cache=True, nogil=True, error_model="numpy")
def _left_out(counts, whole, means, later, width, end, far, shares, drawn):  # type: ignore[no-untyped-def]
    cells = whole.shape[1]
    for block in range(drawn.shape[0]):
        at_risk, last = 0.0, 0
        for cell in range(cells):
            both = whole[0, cell] + whole[1, cell] - counts[0, block, cell] - counts[1, block, cell]
            if both > 0:
                at_risk += both
                last = cell
        left, total, value, place = 1.0, 0.0, 0.0, 0
        for cell in range(min(end, last + 1)):
            seen = whole[0, cell] - counts[0, block, cell]
            gone = whole[1, cell] - counts[1, block, cell]
            if not later[cell]:
                at_risk -= gone
            if seen > 0:
                after = left * ((at_risk - seen) / at_risk)
                total += left - after
                left = after
                at_risk -= seen
                value = means[cell]
                while place < shares.shape[0] and shares[place] < total:
                    drawn[block, place] = value
                    place += 1
            if later[cell]:
                at_risk -= gone
        rest = value
        if left > 0.0:
            rest = far if end < cells else max(last * width, value)
        drawn[block, place:] = rest


@dataclass(frozen=True)
class Law:
    """A distribution of demand: values with probabilities, and a tail.

    Attributes
    ----------
    values : array. Values of demand, ascending.
    below : array. Probability of demand below each value, then that of demand up to the last one.
    beyond : float. Probability of larger demand.
    end : float. Where that begins.
    excess : float. Mean of demand beyond the end, which is exponential, or uniform up to three
        times the end where it is rare and that is more.
    """

    values: Array
    below: Array
    beyond: float
    end: float
    excess: float

    def at(self, shares: Array, far: float | None = None) -> Array:
        """Quantiles at ascending shares; with ``far``, all demand beyond the end is at this value.

        >>> law = Law(np.array([1.0, 3.0]), np.array([0.0, 0.5, 0.75]), 0.25, 4.0, 2.0)
        >>> law.at(np.array([0.2, 0.6, 0.9])).round(3), law.at(np.array([0.9]), far=9.0)
        (array([1.   , 3.   , 5.833]), array([9.]))
        """
        place = np.searchsorted(self.below[1:], shares, side="right")
        known = int(np.searchsorted(place, self.values.size))
        drawn = self.values[place[:known]]
        return drawn if known == shares.size else np.append(drawn, self._tail(shares[known:], far))

    @property
    def last(self) -> float:
        """The least value that demand beyond the end may have."""
        return max(self.end, float(self.values[-1]) if self.values.size else 0.0)

    def means(self, most: Array) -> Array:
        """Mean of demand up to each of these sizes, where demand beyond the end counts in full.

        >>> law = Law(np.array([1.0, 3.0]), np.array([0.0, 0.5, 0.75]), 0.25, 3.0, 2.0)
        >>> law.means(np.array([2.0]))
        array([1.5])
        """
        probabilities = np.diff(self.below)
        cut = np.minimum(self.values[:, None], most)
        return np.asarray(probabilities @ cut + self.beyond * most)

    def _tail(self, shares: Array, far: float | None) -> Array:
        if self.beyond <= 0:  # rounding
            return np.full(shares.size, self.values[-1])
        if far is not None:
            return np.full(shares.size, far)
        left = np.maximum((1.0 - shares) / self.beyond, 1e-300)
        left = np.minimum(left, 1.0)
        drawn = self.end - self.excess * np.log(left)
        if self.values.size and self.beyond <= _RARELY:
            drawn = np.maximum(drawn, self.end * (1 + _FARTHER * (1 - left)))
        return np.asarray(drawn)


class Tally(Stateful):
    """Counts of a shop's records.

    Parameters
    ----------
    most : float. About the largest stock.

    Examples
    --------
    >>> tally = Tally(most=10)
    >>> tally.add(np.array([5.0, 2.0, 5.0]), np.array([1.0, 2.0, 3.0]))
    >>> law = tally.law(scale=1.0)
    >>> law.values, law.below.round(3), law.beyond
    (array([1., 3.]), array([0.   , 0.333, 1.   ]), 0.0)
    """

    saved = parts(
        width=float, size=int, filled=int, entries=shaped(-1, 4), totals=shaped(2, CELLS),
        wide=float, held=shaped(CELLS),
    )  # fmt: skip

    def __init__(self, most: float) -> None:
        self._width = self._wide = _FIRST_WIDTH * 2.0 ** math.floor(math.log2(most))
        self._unit = _UNIT * self._width
        self._size = 1  # periods of a full block
        self._filled = 0  # records in all blocks
        # Records by block and cell: demand seen, and stock that was sold out.
        self._counts = np.zeros((2, BLOCKS, CELLS), dtype=np.int64)
        # Sums, in units, of demand seen in each cell, and of stock that was sold out.
        self._totals = np.zeros((2, CELLS), dtype=np.int64)
        self._held = np.zeros(CELLS, dtype=np.int64)  # records by their stock
        self._whole: tuple[Indices, Array, Mask] | None = None

    @property
    def records(self) -> int:
        """Number of records with some stock."""
        return self._filled

    @property
    def width(self) -> float:
        """The width of a cell."""
        return self._width

    def stock_quantiles(self, shares: Array) -> Array:
        """Stock below which these shares of the records lie, as the end of a cell."""
        upto = np.cumsum(self._held)
        cells = np.searchsorted(upto, shares * upto[-1] * (1 - _SOLD_OUT))
        return np.asarray((cells + 1) * self._wide)

    def add(self, stock: Array, sales: Array) -> None:
        """Add records; periods without stock say nothing."""
        some = stock > 0
        stock, sales = stock[some], sales[some]
        if not stock.size:
            return
        out = sales >= stock * (1 - _SOLD_OUT)
        told = np.where(out, stock, sales)
        self._cover(float(told.max()), float(stock.max()))
        cells = self._cells(told)
        first = 0
        while first < stock.size:
            block, room = divmod(self._filled, self._size)
            room = self._size - room
            part = slice(first, first + room)
            np.add.at(self._counts, (out[part].astype(np.intp), np.intp(block), cells[part]), 1)
            self._filled += int(out[part].size)
            first += room
            if self._filled == BLOCKS * self._size:
                self._join_blocks()
        self._whole = None
        np.add.at(self._held, self._cells(stock, self._wide), 1)
        values = np.rint(told / self._unit).astype(np.int64)
        np.add.at(self._totals, (out.astype(np.intp), cells), values)

    def _cells(self, values: Array, width: float | None = None) -> Indices:
        cells = np.floor(values / (width or self._width) + _ROUNDING)
        return np.asarray(np.minimum(cells, CELLS), dtype=np.intp)

    def _cover(self, told: float, stock: float) -> None:
        """Join pairs of cells until the last ones cover what is told of demand, and the stock."""
        while told >= self._width * (CELLS - 1):
            self._width *= 2
            _join(self._counts)
            _join(self._totals)
        while stock >= self._wide * (CELLS - 1):
            self._wide *= 2
            _join(self._held)

    def _join_blocks(self) -> None:
        joined = self._counts[:, 0::2] + self._counts[:, 1::2]
        self._counts[:, : BLOCKS // 2] = joined
        self._counts[:, BLOCKS // 2 :] = 0
        self._size *= 2

    @property
    def sizes(self) -> Indices:
        """Records of each block."""
        used = -(-self._filled // self._size)
        sizes = np.full(used, self._size, dtype=np.intp)
        if used:
            sizes[-1] = self._filled - (used - 1) * self._size
        return sizes

    def held_by(self, periods: float) -> float:
        """The largest stock that so many records had, up to the width of a cell; 0 if none."""
        return self._wide * self._last(self._held, math.ceil(periods))

    def with_stock(self, sizes: Array) -> Indices:
        """Number of records whose stock was at least each of these sizes [n(x)]."""
        at_least = np.append(np.cumsum(self._held[::-1])[::-1], 0)
        return np.asarray(at_least[self._cells(sizes, self._wide)])

    def law(
        self,
        scale: float | None,
        without: Mask | None = None,
        up_to: float | None = None,
        doubt: float = 0.0,
        hidden: float = 0.0,
    ) -> Law:
        """The product-limit estimate with an exponential tail.

        Parameters
        ----------
        scale : float, optional. A mean demand that is plausible before any data, for the tail;
            without one, the tail has no mean: all of it is then put where it begins, or elsewhere.
        without : mask of blocks, optional. Blocks to leave out.
        up_to : float, optional. The estimate ends at this stock; the tail has the rest, and begins
            there.
        doubt : float. This number, times the share of records that were sold out, is added to the
            records sold out above all others. So where few records tell of larger demand because
            most are sold out, they are trusted less, and more is left to the tail.
        hidden : float. So many records, times the share of records whose stock was too small to
            show a demand, are taken to have had more than it, for each value. What few records
            could show may have stayed unseen; what nearly all of them could show has not.
        """
        (seen, gone), means, later = self._summed()
        if without is not None:
            left_out = self._counts[:, np.flatnonzero(without)].sum(axis=1)
            seen, gone = seen - left_out[0], gone - left_out[1]
        cells = np.flatnonzero(seen)
        values = means[cells]
        # A stock sold out at a value tells of demand below it, not of that value.
        before = np.cumsum(gone)[cells] - gone[cells] * later[cells]
        gone_by = np.diff(before, prepend=0, append=gone.sum())
        end = self._end(up_to)
        known = int(np.searchsorted(cells, end))
        if known < cells.size:  # what lies beyond counts as sold out
            gone_by = np.append(gone_by[:known], gone_by[known:].sum() + seen[cells[known:]].sum())
            cells, values = cells[:known], values[:known]
        gone_by = gone_by.astype(np.float64)
        if doubt:
            gone_by[-1] += doubt * gone.sum() / max(int((seen + gone).sum()), 1)
        unseen = None
        if hidden:
            above = np.ceil((cells + 1) * self._width / self._wide - _ROUNDING).astype(np.intp)
            shown = np.append(np.cumsum(self._held[::-1])[::-1], 0)[above]
            unseen = hidden * (1 - shown / max(self._filled, 1))
        below, beyond = accumulate(seen[cells], gone_by, unseen)
        if not beyond > 0:
            return Law(values, below, 0.0, 0.0, 0.0)
        if end < CELLS:
            return Law(values, below, beyond, end * self._width, 0.0)
        last = float(np.flatnonzero(seen + gone)[-1] * self._width)
        mean = 0.0 if scale is None else self._tail(seen, gone, means, scale)
        # A stock that always sells out tells less and less of how much larger demand is.
        mean = min(mean, max(_FARTHER * last, scale or 0.0))
        return Law(values, below, beyond, last, mean)

    def _summed(self) -> tuple[Indices, Array, Mask]:
        """Counts of all blocks, mean demand by cell, and whether stock sold out is above it."""
        if self._whole is None:
            counts = self._counts.sum(axis=1)
            means, sold = self._unit * self._totals / np.maximum(counts, 1)
            self._whole = counts, means, sold > means + _APART * self._width
        return self._whole

    def left_out(self, shares: Array, up_to: float | None = None, far: float = 0.0) -> Array:
        """Quantiles at ascending shares without each of the blocks, an array (blocks, shares).

        Demand beyond all seen is as small as possible; with ``up_to``, all demand beyond that stock
        is at ``far``.

        >>> tally = Tally(most=10)
        >>> tally.add(np.array([5.0, 2.0, 5.0]), np.array([1.0, 2.0, 3.0]))
        >>> tally.left_out(np.array([0.25, 0.75]))
        array([[3., 3.],
               [1., 3.],
               [1., 2.]])
        """
        whole, means, later = self._summed()
        end = self._end(up_to)
        drawn = np.empty((self.sizes.size, shares.size))
        _left_out(self._counts, whole, means, later, self._width, end, far, shares, drawn)
        return drawn

    def _end(self, up_to: float | None) -> int:
        """The cell at which the estimate ends: the last one, in which nothing is, or none."""
        if up_to is None:
            return CELLS
        return min(int(self._cells(np.array([up_to]))[0]), CELLS - 1)

    def _last(self, counts: Indices, least: int) -> int:
        """The last cell that, with those after it, has so many records; 0 if none has."""
        enough = np.flatnonzero(counts[::-1].cumsum()[::-1] >= least)
        return int(enough[-1]) if enough.size else 0

    def _tail(self, seen: Indices, gone: Indices, means: Array, scale: float) -> float:
        """The mean of the tail."""
        every = seen + gone
        total = int(every.sum())
        cell = self._last(every, min(max(_FEW, math.ceil(_UPPER * total)), total))
        # A stock that is nearly always sold out tells how large demand is by what it still saw.
        cell = min(cell, self._last(seen, min(_FEW, int(seen.sum()))))
        told = self._exposure(seen, gone, means, cell)
        # Where much was sold out far above all demand seen, the tail is that of rare large demand.
        first = min(self._next(seen), CELLS - 1)
        rare = self._exposure(np.zeros_like(seen), gone * (np.arange(CELLS) >= first), means, first)
        return max(
            (exposure + TAIL_EVENTS * scale) / (events + TAIL_EVENTS)
            for exposure, events in (told, rare)
        )

    def _next(self, seen: Indices) -> int:
        """The cell after the largest demand seen, at the least distance of two that were seen."""
        cells = np.flatnonzero(seen)
        return int(cells[-1] + np.diff(cells).min(initial=cells[-1] + 1)) if cells.size else 1

    def _exposure(
        self, seen: Indices, gone: Indices, means: Array, cell: int
    ) -> tuple[float, float]:
        """Demand above a cell as far as it was met, and the number of times it ended there."""
        edges = self._width * np.arange(cell, CELLS) - self._width * cell
        met = (seen[cell:] * (means[cell:] - self._width * cell)).sum()
        return float(met + (gone[cell:] * edges).sum()), float(seen[cell:].sum())

    @property
    def entries(self) -> Array:
        """The counts that are not 0, by row: block, cell, demand seen, sold out."""
        blocks, cells = np.nonzero(self._counts.any(axis=0))
        return np.column_stack([blocks, cells, *self._counts[:, blocks, cells]])

    @entries.setter
    def entries(self, rows: Array) -> None:
        blocks, cells, seen, gone = np.asarray(rows, dtype=np.int64).T
        self._counts = np.zeros((2, BLOCKS, CELLS), dtype=np.int64)
        self._counts[:, blocks, cells] = seen, gone
        self._whole = None


def _join(counts: Indices) -> None:
    """Join pairs of cells, in place."""
    half = CELLS // 2
    counts[..., :half] = counts[..., 0::2] + counts[..., 1::2]
    counts[..., half:] = 0


def strata(periods: int) -> Array:
    """Ascending shares, the middles of so many equal parts of [0, 1].

    >>> strata(4)
    array([0.125, 0.375, 0.625, 0.875])
    """
    return (np.arange(periods) + 0.5) / periods
