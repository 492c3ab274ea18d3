"""Finds the reading of a shop's records, with a lead time, that fits base-stock orders.

In period t a base-stock policy of level θ_t orders Q_t = (θ_t - position)^+, where the inventory
position is the stock left over from the period before plus all outstanding orders. The order
arrives L periods later: stock_t = left over + Q_{t-L}, and sales_t are at most that. Real records
contradict this if orders are multiples of q, the lead time is another one, the stock was recorded
in the evening, or periods have no record.

The test. Let P_t be the position after ordering: P_t = P_{t-1} - sales_{t-1} + Q_t. The order Q_t
is recorded, or is what arrives L periods later. The policy implies A_t <= P_t, and P_t <= A_t + q
if something was ordered, with A_t = θ_t if orders are rounded up to multiples of q,
A_t = θ_t - q if down, A_t = θ_t - q/2 if to the nearest, and q = 0 without rounding. An interval
that contains P_t is tracked: a step is inconsistent if the interval becomes empty. A late start and
a period without record widen the interval; the stock L periods later narrows it again, since P_t is
that stock plus the sales in between. A wrong reading may explain the amounts of deliveries but not
the stock, as when everything is always sold: if more than half of the positions contradict the
stock, those steps are inconsistent as well.

Missing periods are found from left to right: at the first inconsistent step, periods without
record are inserted at the place that makes the records fit for longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from iopea.types import Array, Indices, Mask

Rounding = Literal["up", "down", "nearest"]
Gaps = NDArray[np.int64]
_Function = TypeVar("_Function", bound=Callable[..., object])

#: Number of latest records that are used to find the reading.
MOST_RECORDS = 4096
#: Relative tolerance within which values are equal.
RELATIVE_TOLERANCE = 1e-6
#: A reading fits if at most this share of its steps with orders is inconsistent.
FITS = 0.02
#: Steps with orders that a reading other than the problem's must explain.
_LEAST_EVIDENCE = 12
#: Lead times are tried up to twice the problem's plus this.
_FURTHER_LEAD_TIMES = 12
#: Largest share of records with missing periods before them: more would explain anything.
_MOST_MISSING = 0.15
#: Most periods that may be missing in one place.
_MOST_IN_A_ROW = 3
#: Share of the amounts that must be multiples, and its least excess over that of unrounded orders.
_MULTIPLES, _MORE_THAN_WISHED = 0.85, 0.1
#: Share of the amounts that are multiples if hardly any record is wrong.
_CLEAR_MULTIPLES = 0.97
#: Number of most frequent amounts whose differences are tried as multiples.
_FREQUENT_AMOUNTS = 16
#: Most nearby places where periods may be missing, and width of the beam search.
_MOST_NEARBY, _BEAM = 4, 8
#: Share of the records that may remain inconsistent while missing periods are inserted, and the
#: number that is always allowed.
_UNRESOLVED, _FEW = 0.1, 8
#: Number of readings tried with missing periods besides the problem's, and the share of its
#: inconsistent steps that they may leave.
_CONTENDERS, _BETTER = 3, 0.8
#: Share of the deliveries, or of the orders, that a reading from recorded orders must explain.
_MOSTLY = 0.5
#: Largest ratio of a delivery to its order.
_MOST_DELIVERED = 2.0
#: Most steps named in a sentence.
_NAMED = 3

#: Difference between the level and A_t, in multiples.
BELOW: dict[Rounding, float] = {"up": 0.0, "down": 1.0, "nearest": 0.5}

# Rows of the array that the kernels see.
_LEVEL, _STOCK, _SALES, _ORDERED, _RECEIVED, _TOLERANCE = range(6)

# What a record shows: nothing, that no order was due, or an order.
_UNKNOWN, _QUIET, _ACTIVE = range(3)


@dataclass(frozen=True)
class Records:
    """The records of a shop, one value per period.

    Attributes
    ----------
    level : array. Level that was played [θ_t].
    stock : array. Stock after arrivals and before sales.
    sales : array. Sales.
    ordered : array. Actual order at the start of the period; NaN if not recorded.
    received : array. Actual arrival; NaN if not recorded.
    gap : array. Periods without record just before this one.
    """

    level: Array
    stock: Array
    sales: Array
    ordered: Array
    received: Array
    gap: Array

    @property
    def told(self) -> bool:
        """Whether orders or arrivals are recorded in any period."""
        return not bool(np.isnan(self.ordered).all() and np.isnan(self.received).all())

    def __len__(self) -> int:
        return self.stock.size

    def last(self, periods: int) -> Records:
        """The last records, of at most this many periods."""
        return Records(
            *(
                column[max(len(self) - periods, 0) :]
                for column in (
                    self.level, self.stock, self.sales, self.ordered, self.received, self.gap,
                )
            )
        )  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """A way to read records, and how well they fit it.

    Attributes
    ----------
    lead_time : int. Periods between order and arrival [L].
    multiple : float. What orders are multiples of [q]; 0 for any amount.
    rounding : str. How orders are rounded to multiples: up, down or nearest.
    evening : bool. Whether the stock was recorded after sales.
    missing : array. Steps just before which periods seem to be missing.
    inconsistent : array. Steps that don't fit.
    stock : array. Stock after arrivals and before sales.
    step : float, optional. Step of the levels, for the tolerance.
    """

    lead_time: int
    multiple: float
    rounding: Rounding
    evening: bool
    missing: Indices
    inconsistent: Mask
    stock: Array
    step: float | None = None

    @property
    def share(self) -> float:
        """Share of the steps that don't fit."""
        return float(self.inconsistent.mean()) if self.inconsistent.size else 0.0

    def as_told(self, lead_time: int) -> bool:
        """Whether the records are read as the problem says."""
        return (
            self.lead_time == lead_time
            and self.multiple == 0
            and not self.evening
            and self.missing.size == 0
        )


def tolerance(quantity: Array, step: float | None) -> Array:
    """Largest difference between values of this size that are treated as equal.

    >>> tolerance(np.array([10.0, 2e6]), 1.0)
    array([0.5, 2. ])
    """
    return np.maximum(RELATIVE_TOLERANCE * quantity, step / 2 if step else 0.0)


def _compiled(function: _Function) -> _Function:
    return cast(_Function, njit(cache=True, nogil=True, error_model="numpy")(function))


# Kernels. A rule is (lead time, multiple, level minus A_t); cells are periods, with or without
# record, and ``record`` has the record of each cell, -1 for none.

# Results by record: whether it is inconsistent, what it shows, and the range of P_t.

_Rule = tuple[int, float, float]
_Found = tuple[Mask, Gaps, Array, Array]


@_compiled
def _lay_out(gap: Gaps, first: int, last: int, most_gap: int) -> Gaps:
    """The record of each period, from one record to another; -1 in periods without."""
    size = 1
    for i in range(first + 1, last + 1):
        size += 1 + min(gap[i], most_gap)
    record = np.full(size, -1, np.int64)
    record[0] = first
    cell = 0
    for i in range(first + 1, last + 1):
        cell += 1 + min(gap[i], most_gap)
        record[cell] = i
    return record


@_compiled
def _receipts(data: Array, record: Gaps, bad: Mask) -> Array:
    """Arrivals of each period, NaN if unknown; marks impossible records."""
    received = np.full(record.size, np.nan)
    for cell in range(record.size):
        i = record[cell]
        if i < 0:
            continue
        room = data[_TOLERANCE, i]
        bad[i] = data[_SALES, i] > data[_STOCK, i] + room
        follows = cell > 0 and record[cell - 1] >= 0
        if follows:
            j = record[cell - 1]
            received[cell] = data[_STOCK, i] - (data[_STOCK, j] - data[_SALES, j])
        if not np.isnan(data[_RECEIVED, i]):
            if follows and abs(received[cell] - data[_RECEIVED, i]) > room:
                bad[i] = True
            received[cell] = data[_RECEIVED, i]
        if received[cell] < -room:
            bad[i] = True
    return received


@_compiled
def _positions(data: Array, record: Gaps, lead_time: int) -> Array:
    """P_t from the records: the stock L periods later plus the sales in between."""
    seen = np.full(record.size, np.nan)
    sold = 0.0
    unbroken = 0
    for cell in range(record.size):
        i = record[cell]
        if i < 0:
            unbroken = 0
            sold = 0.0
            continue
        unbroken += 1
        if unbroken > lead_time:
            seen[cell - lead_time] = data[_STOCK, i] + sold
            sold -= data[_SALES, record[cell - lead_time]]
        sold += data[_SALES, i]
    return seen


@_compiled
def _bounds(data: Array, record: Gaps, cell: int, below: float) -> tuple[float, float]:
    """The range of A_t; without a record, the level may be that of either neighbour."""
    if record[cell] >= 0:
        at = data[_LEVEL, record[cell]] - below
        return at, at
    before, after = cell, cell
    while record[before] < 0:
        before -= 1
    while record[after] < 0:
        after += 1
    one, other = data[_LEVEL, record[before]] - below, data[_LEVEL, record[after]] - below
    return min(one, other), max(one, other)


@_compiled
def _gap_stock(data: Array, record: Gaps, orders: Array, cell: int, lead_time: int) -> bool:
    """Whether the stock after periods without record contradicts the orders that arrived."""
    i = record[cell]
    before = cell - 1
    while record[before] < 0:
        before -= 1
    most = data[_STOCK, record[before]] - data[_SALES, record[before]]
    for arriving in range(before + 1, cell + 1):
        if arriving < lead_time:
            return False
        most += orders[arriving - lead_time]
    room = 2 * data[_TOLERANCE, i]
    least = orders[cell - lead_time] if lead_time > 0 else 0.0
    return bool(data[_STOCK, i] > most + room or data[_STOCK, i] < least - room)


@_compiled
def _narrow(
    low: float, high: float, order: float, least: float, most: float, room: float
) -> tuple[float, float, bool]:
    """The range of P_t after an order, given that of the position, and whether it is empty."""
    new_low = max(low + order, least)
    new_high = high + order
    if order > room:
        new_high = min(new_high, most)
    if new_low > new_high + room:
        return least, most if order > room else max(most, high), True
    if new_low > new_high:
        new_low = new_high = min(max(new_high, least), max(most, new_low))
    return new_low, new_high, False


@_compiled
def _off_multiple(order: float, multiple: float, room: float) -> bool:
    return multiple > 0 and abs(order - multiple * np.round(order / multiple)) > min(
        room, multiple / 4
    )


@_compiled
def _placed(
    data: Array, record: Gaps, received: Array, cell: int, lead_time: int
) -> tuple[float, int]:
    """The order of a period, NaN if unknown, and the record by which it is known, or -1."""
    i = record[cell]
    if i >= 0 and not np.isnan(data[_ORDERED, i]):
        return data[_ORDERED, i], i
    later = cell + lead_time
    if later < record.size and record[later] >= 0 and not np.isnan(received[later]):
        return max(received[later], 0.0), record[later]
    return np.nan, -1


@_compiled
def _delivered_otherwise(
    data: Array, record: Gaps, received: Array, cell: int, lead_time: int
) -> bool:
    """Whether a recorded order did not arrive as ordered."""
    i, later = record[cell], cell + lead_time
    if i < 0 or later >= record.size or record[later] < 0:
        return False
    # A comparison with NaN is false.
    return bool(abs(received[later] - data[_ORDERED, i]) > data[_TOLERANCE, record[later]])


@_compiled
def _after_gap(
    high: float, order: float, position: float, bounds: tuple[float, float], multiple: float,
    room: float,
) -> tuple[float, float, bool]:  # fmt: skip
    """The range of P_t where sales before it are unknown, and whether the stock contradicts it."""
    least, most = bounds
    if order > room:
        high = min(high, most)
    fault = position < least - room or position > high + room
    # Without multiples the next order determines P_t, even if a period is missing in between.
    if multiple > 0 and not fault and not np.isnan(position):
        return min(max(position, least), high), max(min(position, high), least), False
    return least, high, fault


@_compiled
def _mark(bad: Mask, i: int) -> int:
    """Mark a record, and count it if it was not marked before."""
    if i < 0 or bad[i]:
        return 0
    bad[i] = True
    return 1


@_compiled
def _track(
    data: Array, gap: Gaps, rule: _Rule, first: int, last: int, start: tuple[float, float],
    found: _Found, limit: int,
) -> int:  # fmt: skip
    """Track P_t through some records: marks inconsistent ones, and what each record shows.

    ``start`` is the range of P_t at the first record, NaN if unknown. Returns how many records
    are inconsistent; ends early beyond ``limit``.
    """
    bad, seen, lows, highs = found
    lead_time, multiple, below = rule
    record = _lay_out(gap, first, last, lead_time + 1)
    received = _receipts(data, record, bad)
    positions = _positions(data, record, lead_time)
    orders = np.full(record.size, np.nan)
    seen[first : last + 1] = _UNKNOWN
    count = np.count_nonzero(bad[first : last + 1])
    low, high = start
    for cell in range(record.size):
        i = record[cell]
        order, judged = _placed(data, record, received, cell, lead_time)
        room = max(data[_TOLERANCE, max(judged, first)], data[_TOLERANCE, max(i, first)])
        least, most = _bounds(data, record, cell, below)
        certain = multiple == 0 and least == most
        most += multiple
        active = order > room
        fault = False
        if _delivered_otherwise(data, record, received, cell, lead_time):
            count += _mark(bad, record[cell + lead_time])
        if cell > 0 and record[cell - 1] >= 0:
            low -= data[_SALES, record[cell - 1]]
            high -= data[_SALES, record[cell - 1]]
            active = active or high < least - room
            # What follows from P_t before, where the order itself is unknown or doubtful.
            implied = max(least - low, 0.0) if certain and high - low <= room else np.nan
            if np.isnan(order):
                low, high = max(low, least), max(high, most)
            else:
                low, high, fault = _narrow(low, high, order, least, most, room)
                fault = fault or _off_multiple(order, multiple, room)
            orders[cell] = implied if fault or np.isnan(order) else order
        elif cell > 0 or np.isnan(low):
            before = np.inf if cell == 0 else _bounds(data, record, cell - 1, below)[1] + multiple
            high = max(before, most) if np.isnan(high) else max(before, most, high)
            if cell > 0 and i >= 0 and _gap_stock(data, record, orders, cell, lead_time):
                count += _mark(bad, i)
            position = positions[cell]
            low, high, fault = _after_gap(high, order, position, (least, most), multiple, room)
            judged = -1 if np.isnan(position) else record[cell + lead_time]
        else:
            judged = -1
        if judged >= 0:
            seen[judged] = max(seen[judged], _ACTIVE if active or fault else _QUIET)
        if fault:
            count += _mark(bad, judged)
        if i >= 0:
            lows[i], highs[i] = low, high
        if count > limit:
            break
    return int(count)


@_compiled
def _contradicted(data: Array, gap: Gaps, rule: _Rule, found: _Found) -> None:
    """Mark the steps whose stock contradicts P_t, if more than half of all do."""
    bad, _, lows, highs = found
    lead_time = rule[0]
    record = _lay_out(gap, 0, data.shape[1] - 1, lead_time + 1)
    positions = _positions(data, record, lead_time)
    off = np.zeros(bad.size, np.bool_)
    compared = 0
    for cell in range(record.size):
        if np.isnan(positions[cell]):
            continue
        i, later = record[cell], record[cell + lead_time]
        room = max(data[_TOLERANCE, i], data[_TOLERANCE, later])
        compared += 1
        off[later] = positions[cell] < lows[i] - room or positions[cell] > highs[i] + room
    if 2 * np.count_nonzero(off) > compared:
        bad |= off


@_compiled
def _first_affected(at: int, lead_time: int) -> int:
    """The record from which P_t must be tracked to judge records from ``at`` on."""
    return max(0, at - lead_time - 3)


@_compiled
def _fits_until(
    data: Array, gap: Gaps, rule: _Rule, at: int, last: int, known: _Found, scratch: _Found
) -> int:
    """The first inconsistent record from ``at`` on, judged by the records around it."""
    first = _first_affected(at, rule[0])
    start = (np.nan, np.nan) if first == 0 else (known[2][first], known[3][first])
    _track(data, gap, rule, first, last, start, scratch, data.shape[1])
    for i in range(at, last + 1):
        if scratch[0][i]:
            return i
    return last + 1


@_compiled
def _judge_anew(
    data: Array, gap: Gaps, rule: _Rule, at: int, last: int, known: _Found, scratch: _Found
) -> None:
    """Judge the records from ``at`` to ``last``."""
    _fits_until(data, gap, rule, at, last, known, scratch)
    first = _first_affected(at, rule[0])
    known[2][first : last + 1] = scratch[2][first : last + 1]
    known[3][first : last + 1] = scratch[3][first : last + 1]
    judged = 0 if first == 0 else at
    known[0][judged : last + 1] = scratch[0][judged : last + 1]
    known[1][judged : last + 1] = scratch[1][judged : last + 1]


@_compiled
def _nothing_found(n: int) -> _Found:
    return np.zeros(n, np.bool_), np.zeros(n, np.int64), np.zeros(n), np.zeros(n)


@_compiled
def _change(gap: Gaps, places: Gaps, numbers: Gaps, sign: int) -> None:
    for k in range(places.size):
        if numbers[k] > 0:
            gap[places[k]] += sign * numbers[k]


@_compiled
def _insert_best(
    data: Array, gap: Gaps, rule: _Rule, fault: int, earliest: int, known: _Found, scratch: _Found
) -> int:
    """Insert periods without record so that the records fit until L + 4 periods after a fault.

    A beam search over a few places, as another period may be missing soon after. Returns the number
    of places where periods were inserted, 0 if that does not help.
    """
    last = min(data.shape[1] - 1, fault + rule[0] + 4)
    places = np.zeros((1, _MOST_NEARBY), np.int64)
    numbers = np.zeros((1, _MOST_NEARBY), np.int64)
    until = np.full(1, fault)
    for depth in range(_MOST_NEARBY):
        next_places = np.zeros((_BEAM, _MOST_NEARBY), np.int64)
        next_numbers = np.zeros((_BEAM, _MOST_NEARBY), np.int64)
        next_until = np.full(_BEAM, -1)
        for b in range(until.size):
            if until[b] < 0:
                continue
            _change(gap, places[b], numbers[b], 1)
            after = earliest if depth == 0 else places[b, depth - 1] + 1
            for number in range(1, _MOST_IN_A_ROW + 1 if depth == 0 else 3):
                for at in range(until[b], max(until[b] - rule[0], after, 1) - 1, -1):
                    gap[at] += number
                    fits = _fits_until(data, gap, rule, min(at, fault), last, known, scratch)
                    if fits > last:
                        return depth + 1
                    gap[at] -= number
                    worst = np.argmin(next_until)
                    if fits > max(until[b], next_until[worst]):
                        next_places[worst], next_numbers[worst] = places[b], numbers[b]
                        next_places[worst, depth], next_numbers[worst, depth] = at, number
                        next_until[worst] = fits
            _change(gap, places[b], numbers[b], -1)
        places, numbers, until = next_places, next_numbers, next_until
    best = np.argmax(until)
    if until[best] < 0 or np.isnan(data[_RECEIVED, fault]):
        return 0
    # Too many are missing nearby to see the end, but recorded arrivals leave little doubt.
    _change(gap, places[best, :2], numbers[best, :2], 1)
    return 2


@_compiled
def _repair(data: Array, gap: Gaps, rule: _Rule) -> int:
    """Insert periods without record into ``gap`` where the records then fit; -1 if too many."""
    n = data.shape[1]
    lead_time = rule[0]
    known, scratch = _nothing_found(n), _nothing_found(n)
    reach = 4 * lead_time + 64
    judged_to = -1
    cursor = inserted = unresolved = 0
    earliest = 1
    while cursor < n:
        if judged_to < n - 1 and cursor > judged_to - 3 * lead_time - 8:
            at = max(0, min(cursor, judged_to - 2 * lead_time - 4))
            judged_to = min(n - 1, judged_to + reach)
            _judge_anew(data, gap, rule, at, judged_to, known, scratch)
        if not known[0][cursor]:
            cursor += 1
            continue
        helped = _insert_best(data, gap, rule, cursor, earliest, known, scratch)
        if helped == 0:
            unresolved += 1
            cursor += 1
            earliest = cursor
        else:
            inserted += helped
            earliest = max(earliest, cursor - lead_time)
            judged_to = min(n - 1, cursor + reach)
            _judge_anew(data, gap, rule, earliest, judged_to, known, scratch)
        if inserted > _FEW + _MOST_MISSING * cursor or unresolved > _FEW + _UNRESOLVED * cursor:
            return -1
    return inserted


@_compiled
def _prune(data: Array, told: Gaps, gap: Gaps, rule: _Rule, known: _Found, needed: int) -> None:
    """Remove from ``gap`` inserted periods that explain too few steps."""
    n = data.shape[1]
    scratch = _nothing_found(n)
    for at in range(n):
        extra = gap[at] - told[at]
        if extra == 0:
            continue
        last = min(n - 1, at + 2 * rule[0] + 4)
        _fits_until(data, gap, rule, at, last, known, scratch)
        faults = np.count_nonzero(scratch[0][at : last + 1])
        gap[at] -= extra
        _fits_until(data, gap, rule, at, last, known, scratch)
        if np.count_nonzero(scratch[0][at : last + 1]) - faults >= needed:
            gap[at] += extra


# The search for a reading.


@dataclass(frozen=True)
class _Trial:
    """A reading that was tried on some records."""

    lead_time: int
    multiple: float
    rounding: Rounding
    evening: bool
    gap: Gaps
    found: _Found = field(repr=False)

    @property
    def bad(self) -> Mask:
        return self.found[0]

    @cached_property
    def faults(self) -> int:
        return int(self.bad.sum())

    @cached_property
    def active(self) -> int:
        """Number of steps that show an order, real or due."""
        return int(((self.found[1] == _ACTIVE) | self.bad).sum())

    @property
    def fits(self) -> bool:
        return self.faults <= FITS * self.active

    @property
    def rule(self) -> _Rule:
        return self.lead_time, self.multiple, BELOW[self.rounding] * self.multiple


class _Search:
    """Tries readings on records."""

    def __init__(self, records: Records, lead_time: int, step: float | None) -> None:
        self.records, self.lead_time = records, lead_time
        self.gap = np.nan_to_num(records.gap).astype(np.int64)
        self._data = {evening: _data(records, evening, step) for evening in (False, True)}
        self._multiples: dict[bool, list[float]] = {}
        self.own = self.trial(lead_time)

    def trial(
        self,
        lead_time: int,
        multiple: float = 0.0,
        rounding: Rounding = "up",
        evening: bool = False,
        gap: Gaps | None = None,
        limit: int | None = None,
        positions: bool = True,
    ) -> _Trial:
        """Read the records in this way; stop early beyond ``limit`` faults.

        Without ``positions`` only the amounts are checked, not whether the stock contradicts them.
        """
        n = len(self.records)
        data, gap = self._data[evening], self.gap if gap is None else gap
        trial = _Trial(lead_time, multiple, rounding, evening, gap, _nothing_found(n))
        most = n if limit is None else limit
        unknown = (np.nan, np.nan)
        if n == 0:
            return trial
        faults = _track(data, gap, trial.rule, 0, n - 1, unknown, trial.found, most)
        if positions and faults <= most:
            _contradicted(data, gap, trial.rule, trial.found)
        return trial

    @property
    def lead_times(self) -> list[int]:
        """Lead times to try, the nearest to the problem's first."""
        most = min(2 * self.lead_time + _FURTHER_LEAD_TIMES, max(len(self.records) // 2, 0))
        others = [lead for lead in range(most + 1) if lead != self.lead_time]
        return sorted(others, key=lambda lead: abs(lead - self.lead_time))

    def multiples(self, evening: bool) -> list[float]:
        """Candidate multiples, from the amounts that were ordered or arrived."""
        if evening not in self._multiples:
            self._multiples[evening] = _multiples(self.amounts(evening), self._wishes(evening))
        return self._multiples[evening]

    def amounts(self, evening: bool) -> Array:
        """Positive orders if any are recorded, else positive arrivals."""
        data = self._data[evening]
        bad = np.zeros(len(self.records), np.bool_)
        received = _receipts(data, self._periods, bad)
        told = data[_ORDERED][~np.isnan(data[_ORDERED])]
        amounts = told if told.size else received[~np.isnan(received)]
        room = RELATIVE_TOLERANCE * float(np.abs(amounts).max(initial=0.0))
        return np.asarray(amounts[amounts > room])

    @property
    def _periods(self) -> Gaps:
        return _lay_out(self.gap, 0, len(self.records) - 1, self.lead_time + 1)

    def _wishes(self, evening: bool) -> Array:
        """Orders that the policy asked for, from the stock of later periods."""
        data, record = self._data[evening], self._periods
        seen = _positions(data, record, self.lead_time)[:-1]
        known = (record[:-1] >= 0) & (record[1:] >= 0) & ~np.isnan(seen)
        before, after = record[:-1][known], record[1:][known]
        wishes = data[_LEVEL, after] - (seen[known] - data[_SALES, before])
        return np.asarray(wishes)

    def repaired(self, trial: _Trial) -> _Trial | None:
        """The same reading with missing periods inserted; None if that does not help."""
        data = self._data[trial.evening]
        gap = trial.gap.copy()
        if _repair(data, gap, trial.rule) <= 0:
            return None
        name = (trial.lead_time, trial.multiple, trial.rounding, trial.evening)
        found = self.trial(*name, gap=gap)
        # A wrong number in one record looks the same, but affects two deliveries if L > 0.
        needed = 1 if self.records.told or trial.lead_time == 0 else 2
        _prune(data, trial.gap, gap, trial.rule, found.found, needed)
        return self.trial(*name, gap=gap)

    def explains(self, trial: _Trial) -> bool:
        """Whether it explains enough steps that the problem's reading does not."""
        return 2 * trial.faults <= self.own.faults and (
            trial.active - trial.faults >= _LEAST_EVIDENCE
        )

    def readings(self) -> Iterator[_Trial]:
        """Other readings, the simplest first."""
        if self.own.fits:
            yield from self._with_missing([self.own])
            return
        tried: list[_Trial] = []
        for found in self._whole():
            tried.append(found)
            yield found
        yield from self._with_missing([self.own])
        for found in self._pairs():
            tried.append(found)
            yield found
        tried.sort(key=lambda trial: trial.faults)
        better = [trial for trial in tried if trial.faults <= _BETTER * self.own.faults]
        yield from self._with_missing(better[:_CONTENDERS])

    def _whole(self) -> Iterator[_Trial]:
        """Readings that differ from the problem's in one respect, in all periods."""
        yield self._best([{"lead_time": lead} for lead in self.lead_times])
        yield self._best(
            [
                {"lead_time": self.lead_time, "multiple": multiple, "rounding": rounding}
                for multiple in self.multiples(False)
                for rounding in BELOW
            ]
        )
        yield self.trial(self.lead_time, evening=True)

    def _pairs(self) -> Iterator[_Trial]:
        """Readings that differ from the problem's in two or three respects."""
        every = [self.lead_time, *self.lead_times]
        yield self._best([{"lead_time": lead, "evening": True} for lead in every])
        for evening in (False, True):
            yield self._best(
                [
                    {
                        "lead_time": lead,
                        "multiple": multiple,
                        "rounding": rounding,
                        "evening": evening,
                    }
                    for lead in every
                    for multiple in self.multiples(evening)
                    for rounding in BELOW
                ]
            )

    def _best(self, options: list[dict[str, object]]) -> _Trial:
        best = self.own
        for option in options:
            trial = self.trial(**option, limit=best.faults)  # type: ignore[arg-type]
            if trial.faults < best.faults and trial.active >= _LEAST_EVIDENCE:
                best = trial
        return best

    def _with_missing(self, trials: list[_Trial]) -> Iterator[_Trial]:
        for trial in trials:
            found = self.repaired(trial)
            if found is not None:
                yield found


def _data(records: Records, evening: bool, step: float | None) -> Array:
    """The array that the kernels see, with the stock before sales."""
    stock = records.stock + records.sales if evening else records.stock
    size = np.maximum(records.level, stock)
    # At a stock of 0, the rounding of large quantities must be tolerated, too.
    rest = RELATIVE_TOLERANCE * float(size.max(initial=0.0))
    room = tolerance(np.maximum(size, rest), step)
    columns = (records.level, stock, records.sales, records.ordered, records.received, room)
    return np.array(columns, dtype=np.float64)


def _multiples(amounts: Array, wishes: Array) -> list[float]:
    """Multiples that fit nearly all amounts, but not the unrounded orders; largest first."""
    if amounts.size < _LEAST_EVIDENCE:
        return []
    room = RELATIVE_TOLERANCE * float(amounts.max())
    amounts = np.sort(amounts)
    starts = np.flatnonzero(np.diff(amounts, prepend=-np.inf) > room)
    counts = np.diff(starts, append=amounts.size)
    values = amounts[starts]
    order = np.argsort(-counts, kind="stable")[:_FREQUENT_AMOUNTS]
    frequent = np.sort(values[order[counts[order] > 1]])
    pairs = frequent[None, :] % frequent[:, None]
    apart = frequent[None, :] - frequent[:, None]
    tried = np.unique(np.concatenate([frequent, pairs.ravel(), apart.ravel()]))
    tried = tried[tried > 10 * room][::-1]
    wishes = wishes[wishes > room]
    shares = np.array([_share(values, counts, q, room) for q in tried])
    found: list[float] = []
    for least in (_MULTIPLES, _CLEAR_MULTIPLES):
        fitting = [
            float(q)
            for q in tried[shares >= least]
            if _share(wishes, np.ones(wishes.size), q, room) < least - _MORE_THAN_WISHED
        ]
        found += [q for q in fitting[:1] if q not in found]
    return found


def _share(values: Array, counts: Array, multiple: float, room: float) -> float:
    """Share of the values that are multiples."""
    rest = np.abs(values - multiple * np.round(values / multiple))
    total = float(counts.sum())
    return float(counts[rest <= room].sum()) / total if total else 0.0


# The interface.


def consistent_with_model(records: Records, lead_time: int, step: float | None) -> Mask:
    """Steps that are inconsistent if the records are read as the problem says.

    That is, with the given lead time, orders of any amount, stock before sales and no missing
    periods except recorded gaps. The pipeline at the start and after a gap is unknown: no step is
    inconsistent because of it alone.
    """
    return _Search(records, lead_time, step).own.bad


def _before(records: Records, lead_time: int) -> Indices:
    """The record that lies a lead time before each record; -1 where there is none."""
    # Gaps longer than the lead time are equivalent.
    gap = np.minimum(records.gap, lead_time + 1)
    cells = np.arange(len(records)) + np.cumsum(gap).astype(np.intp)
    record = np.full(int(cells[-1]) + 1 if cells.size else 0, -1, dtype=np.intp)
    record[cells] = np.arange(len(records))
    due = cells - lead_time
    return np.where(due >= 0, record[np.maximum(due, 0)], -1)


def _deliveries(records: Records, lead_time: int, room: Array) -> tuple[Indices, Indices]:
    """Records in which something was due or arrived, and those of the orders."""
    placed = _before(records, lead_time)
    due = np.flatnonzero(placed >= 0)
    some = (records.ordered[placed[due]] > room[due]) | (records.received[due] > room[due])
    return due[some], placed[due[some]]


def _fitting(records: Records, lead_time: int, room: Array) -> float:
    """Share of the deliveries that equal the order placed a lead time before."""
    due, placed = _deliveries(records, lead_time, room)
    if not due.size:
        return 0.0
    same = np.abs(records.received[due] - records.ordered[placed]) <= room[due]
    return float(same.mean())


def fill_rates(records: Records, reading: Reading) -> Array:
    """The ratio of each delivery to its order; 1 where that is unknown or nothing was due."""
    rates = np.ones(len(records))
    if np.isnan(records.ordered).any() or np.isnan(records.received).any():
        return rates
    room = _data(records, reading.evening, reading.step)[_TOLERANCE]
    due, placed = _deliveries(records, reading.lead_time, room)
    ordered, received = records.ordered[placed], records.received[due]
    other = (ordered > room[due]) & (np.abs(received - ordered) > room[due])
    rates[due[other]] = np.minimum(received[other] / ordered[other], _MOST_DELIVERED)
    return rates


def _told_directly(records: Records, lead_time: int, step: float | None) -> Reading | None:
    """The reading if orders and arrivals are recorded in all periods; None if these don't fit.

    Then no search is needed. The stock must be the leftover plus the arrivals; the lead time is the
    one that explains most deliveries, others being short; and the unrounded orders are known.
    """
    told = np.isfinite(records.ordered) & np.isfinite(records.received)
    if len(records) < _LEAST_EVIDENCE or not told.all():
        return None
    unbalanced = [_unbalanced(records, evening, step) for evening in (False, True)]
    evening = bool(unbalanced[1].sum() < unbalanced[0].sum())
    data, bad = _data(records, evening, step), unbalanced[int(evening)]
    room = data[_TOLERANCE]
    shares = [
        _fitting(records, each, room) for each in range(2 * lead_time + _FURTHER_LEAD_TIMES + 1)
    ]
    found = int(np.argmax(shares))
    if shares[lead_time] >= shares[found] - FITS:
        found = lead_time
    if shares[found] < _MOSTLY or bad.mean() > FITS:
        return None
    multiple, rounding = _multiple_told(records, data, found)
    nothing = np.empty(0, dtype=np.intp)
    return Reading(found, multiple, rounding, evening, nothing, bad, data[_STOCK], step)


def _unbalanced(records: Records, evening: bool, step: float | None) -> Mask:
    """Steps whose stock is not the leftover of the period before plus the arrivals."""
    data = _data(records, evening, step)
    stock, sales, room = data[_STOCK], records.sales, data[_TOLERANCE]
    bad = np.asarray(sales > stock + room)
    expected = stock[:-1] - sales[:-1] + records.received[1:]
    bad[1:] |= (np.abs(stock[1:] - expected) > 2 * room[1:]) & (records.gap[1:] == 0)
    return bad


def _multiple_told(records: Records, data: Array, lead_time: int) -> tuple[float, Rounding]:
    """What orders are multiples of, 0 for any amount, and how they are rounded to that."""
    under_way, known = np.zeros(len(records)), np.ones(len(records), dtype=np.bool_)
    for ago in range(1, lead_time):
        placed = _before(records, ago)
        known &= placed >= 0
        under_way += np.where(placed >= 0, records.ordered[np.maximum(placed, 0)], 0.0)
    held = data[_STOCK] if lead_time else data[_STOCK] - records.received
    wanted = np.maximum(records.level - held - under_way, 0.0)
    wanted, ordered, room = wanted[known], records.ordered[known], data[_TOLERANCE][known]
    for multiple in _multiples(ordered[ordered > room], wanted):
        number = wanted / multiple
        number += RELATIVE_TOLERANCE * np.sign(np.round(number) - number)  # undo rounding
        whole = {"up": np.ceil(number), "down": np.floor(number), "nearest": np.round(number)}
        fits = {
            name: float((np.abs(orders * multiple - ordered) <= room).mean())
            for name, orders in whole.items()
        }
        best = max(fits, key=lambda name: fits[name])
        if fits[best] >= _MOSTLY:
            return multiple, cast(Rounding, best)
    return 0.0, "up"


def read(records: Records, lead_time: int, step: float | None) -> Reading:
    """The simplest reading that the records fit.

    If orders and arrivals are recorded in all periods and agree with the stock, they determine it.
    Otherwise records that fit the problem are read as it says. If they don't fit, it is the first
    reading, from simple to complex, in which at most 2 % of the steps with orders are inconsistent
    and that leaves at most half of the inconsistent steps; if there is none, the one with the
    fewest inconsistent steps, if it leaves at most half; else the problem's. If hardly any steps
    are inconsistent, only missing periods are searched for. The reading is chosen from the last
    ``MOST_RECORDS`` records. Missing periods are searched for in these alone, unless orders or
    arrivals are recorded.
    """
    told = _told_directly(records, lead_time, step)
    if told is not None and not told.inconsistent.any():
        return told
    found = _searched(records, lead_time, step)
    return found if told is None or found.share <= told.share else told


def _searched(records: Records, lead_time: int, step: float | None) -> Reading:
    """The reading found by trying one after the other."""
    window = _Search(records.last(MOST_RECORDS), lead_time, step)
    best = _choose(window)
    early = len(records) - len(window.records)
    if not early:
        return _reading(window, best, step)
    whole = _Search(records, lead_time, step)
    gap = whole.gap.copy()
    gap[early:] = best.gap
    trial = whole.trial(best.lead_time, best.multiple, best.rounding, best.evening, gap)
    if records.told and trial.faults:
        trial = whole.repaired(replace(trial, gap=whole.gap)) or trial
    return _reading(whole, trial, step)


def _choose(search: _Search) -> _Trial:
    if not search.own.faults:
        return search.own
    best = search.own
    for trial in search.readings():
        if not search.explains(trial):
            continue
        if trial.fits:
            return trial
        if trial.faults < best.faults:
            best = trial
    return best


def _reading(search: _Search, trial: _Trial, step: float | None) -> Reading:
    records = search.records
    return Reading(
        lead_time=trial.lead_time,
        multiple=trial.multiple,
        rounding=trial.rounding,
        evening=trial.evening,
        missing=np.flatnonzero(trial.gap > search.gap),
        inconsistent=trial.bad,
        stock=records.stock + records.sales if trial.evening else records.stock,
        step=step,
    )


def explain(
    reading: Reading, records: Records, lead_time: int, steps_before: int = 0
) -> str | None:
    """Why the records contradict the model, with the evidence; None if they fit it.

    Steps are counted from 1, after those that came before the records.
    """
    if reading.as_told(lead_time):
        if reading.share <= FITS:
            return None
        return (
            f"{reading.inconsistent.sum()} of {len(records)} steps are inconsistent with the "
            "policy that was played. None of the usual reasons fits: orders in multiples, another "
            "lead time, evening stock, missing periods."
        )
    search = _Search(records, lead_time, reading.step)
    reasons = []
    if reading.evening:
        reasons.append(_explain_evening(reading, search))
    if reading.lead_time != lead_time:
        reasons.append(_explain_lead_time(reading, search))
    if reading.multiple:
        reasons.append(_explain_multiple(reading, search))
    if reading.missing.size:
        reasons.append(_explain_missing(reading.missing + steps_before))
    return " ".join(reasons) or None


def explain_deliveries(reading: Reading, records: Records) -> str | None:
    """How many deliveries differ from the order, where both are recorded."""
    rates = fill_rates(records, reading)
    other = int((rates != 1).sum())
    if not other:
        return None
    due = int((_before(records, reading.lead_time) >= 0).sum())
    what = "delivery was" if other == 1 else "deliveries were"
    return (
        f"{other:,} of {due:,} {what} not what was ordered: candidates are delivered the same "
        "share of their orders."
    )


def _explain_evening(reading: Reading, search: _Search) -> str:
    steps = len(search.records)
    return (
        "The stock seems to be that of the evening: stock and sales of a period together are "
        f"what was there in the morning in {steps - int(reading.inconsistent.sum())} of "
        f"{steps} steps."
    )


def _explain_lead_time(reading: Reading, search: _Search) -> str:
    gap = search.gap.copy()
    gap[reading.missing] += 1
    name = (reading.multiple, reading.rounding, reading.evening, gap)
    found, told = (
        search.trial(lead, *name, positions=False) for lead in (reading.lead_time, search.lead_time)
    )
    return (
        f"Deliveries fit a lead time of {reading.lead_time}, not {search.lead_time}: "
        f"{found.active - found.faults} of {found.active} against {told.active - told.faults}."
    )


def _explain_multiple(reading: Reading, search: _Search) -> str:
    amounts = search.amounts(reading.evening)
    size = reading.multiple
    fitting = round(_share(amounts, np.ones(amounts.size), size, size / 1000) * amounts.size)
    what = "deliveries" if np.isnan(search.records.ordered).all() else "orders"
    way = {"up": "rounded up", "down": "rounded down", "nearest": "rounded to the nearest"}
    return (
        f"Orders come in multiples of {size:.6g}, {way[reading.rounding]}: {fitting} of "
        f"{amounts.size} {what} do, while the policy asked for other amounts."
    )


def _explain_missing(missing: Indices) -> str:
    steps = [f"{step:,}" for step in missing[: _NAMED + 1].tolist()]
    if len(steps) == 1:
        return f"A period seems to be missing after step {steps[0]}."
    more = missing.size - _NAMED
    if more > 1:
        steps = [*steps[:_NAMED], f"{more} more"]
    return f"Periods seem to be missing after steps {', '.join(steps[:-1])} and {steps[-1]}."


def evening_hint(stock: ArrayLike, sales: ArrayLike) -> str:
    """Advice about sales above the stock, to be added to a refusal.

    >>> evening_hint([3.0, 4.0], [5.0, 1.0])
    ' If the stock is that of the evening, give stock + sales, or tell `received` as well.'
    >>> evening_hint([3.0, 0.0], [5.0, 1.0])
    ' Sales exceed the stock in 2 of 2 steps: if the stock is that of the evening, give
    stock + sales, or tell `received` as well.'
    """
    above = np.atleast_1d(np.asarray(sales) > np.asarray(stock))
    advice = "f the stock is that of the evening, give stock + sales, or tell `received` as well."
    if above.sum() <= 1:
        return f" I{advice}"
    return f" Sales exceed the stock in {above.sum()} of {above.size} steps: i{advice}"
