"""Compiled kernels of the lost-sales system under base-stock policies.

Let C_t be the cumulative sales of a policy up to period t. Under a base-stock
level θ all sales have been reordered, and orders placed more than L periods ago
have arrived, so that θ + C_{t-L-1} has arrived by period t, and

    C_t = min(θ + C_{t-L-1}, C_{t-1} + D_t).

The state of a policy is thus a ring of its last L + 2 values of C (the oldest is
needed for the order of a period, C_{t-1} - C_{t-2}); ``head`` is the slot of the
oldest, which the next value replaces. An initial state with on-hand stock and a
pipeline is represented by a history that leads to it, with negative C.

Stock and sales need not be summed. The stock left over in a period is
θ + C_{t-L-1} - C_t, so the pseudo-cost of n periods is a difference of
potentials: h n θ + Φ(before) - Φ(after), where Φ is h times the sum of the last
L + 1 values of C plus p times the last one. ``running`` holds the cost of the
batch in progress plus Φ at the last settlement, after which every policy's C was
reset to 0, so that no digits are lost. Settlements depend only on the number of
periods, so results don't depend on how these are split, bit for bit.
"""

from __future__ import annotations

import math
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit

from iopea.systems.shop.kernel import arrival, order_up_to
from iopea.systems.shop.threads import in_threads
from iopea.types import Array, Indices, PeriodCost

#: Policies advanced together, so that their states stay in the first-level cache.
BLOCK = 512
#: Unused columns of the working copy: rows a power of two apart would share cache sets.
_PADDING = 24
#: Periods between settlements, by precision: C must not outgrow its digits.
SETTLE = {np.dtype("float64"): 1024, np.dtype("float32"): 128}
#: Share of the level below which a position counts as equal to it.
_ROUNDING = 1e-9


@njit(cache=True, inline="always")
def sold_by_now(arrived, sold, demand):  # type: ignore[no-untyped-def]
    """The transition: cumulative sales after demand was met as far as stock allows."""
    wanted = sold + demand
    return wanted if wanted < arrived else arrived


@njit(cache=True, inline="always")
def own_cost(stock, sales, order):  # type: ignore[no-untyped-def]
    """The user's cost besides holding and lost sales; replaced by ``_compiled_with``."""
    return 0.0 * stock


@njit(cache=True, nogil=True, error_model="numpy")
def _one_period(work, width, oldest, next_oldest, newest, demand):  # type: ignore[no-untyped-def]
    for j in range(width):
        work[oldest, j] = sold_by_now(work[0, j] + work[next_oldest, j], work[newest, j], demand)


@njit(cache=True, nogil=True, error_model="numpy")
def _charged_period(work, width, oldest, next_oldest, newest, second, demand):  # type: ignore[no-untyped-def]
    """A period with the user's own cost."""
    for j in range(width):
        arrived, sold = work[0, j] + work[next_oldest, j], work[newest, j]
        order = sold - work[second, j]
        now = sold_by_now(arrived, sold, demand)
        work[oldest, j] = now
        work[1, j] += own_cost(arrived - sold, now - sold, order)


@njit(cache=True, nogil=True, error_model="numpy")
def _three_periods(  # type: ignore[no-untyped-def]
    work, width, row0, row1, row2, row3, newest, demand0, demand1, demand2
):
    # Three periods at a time keep levels and sales in registers.
    for j in range(width):
        level = work[0, j]
        first = sold_by_now(level + work[row1, j], work[newest, j], demand0)
        second = sold_by_now(level + work[row2, j], first, demand1)
        third = sold_by_now(level + work[row3, j], second, demand2)
        work[row0, j] = first
        work[row1, j] = second
        work[row2, j] = third


@njit(cache=True, nogil=True, error_model="numpy")
def _add_row(work, to, row, factor, width):  # type: ignore[no-untyped-def]
    for j in range(width):
        work[to, j] += factor * work[row, j]


@njit(cache=True, nogil=True, error_model="numpy")
def _subtract_row(work, to, row, width):  # type: ignore[no-untyped-def]
    for j in range(width):
        work[to, j] -= work[row, j]


@njit(cache=True, nogil=True, error_model="numpy")
def _settle(work, width, slots, head, periods, holding, price):  # type: ignore[no-untyped-def]
    """Turn potentials into cost: afterwards the running cost is that of the batch alone."""
    newest = 2 + (head + slots - 1) % slots
    _add_row(work, 1, 0, periods * holding, width)
    for age in range(1, slots):
        _add_row(work, 1, 2 + (head + age) % slots, -holding, width)
    _add_row(work, 1, newest, -price, width)


@njit(cache=True, nogil=True, error_model="numpy")
def _set_back(work, width, slots, head, holding):  # type: ignore[no-untyped-def]
    """Reset every policy's C to 0, and add the new potential to the running cost."""
    newest = 2 + (head + slots - 1) % slots
    for age in range(slots):
        _subtract_row(work, 2 + (head + age) % slots, newest, width)  # the newest comes last
    for age in range(1, slots):
        _add_row(work, 1, 2 + (head + age) % slots, holding, width)


@njit(cache=True, nogil=True, error_model="numpy")
def _load(work, levels, running, ring, first, width):  # type: ignore[no-untyped-def]
    for j in range(width):
        work[0, j] = levels[first + j]
        work[1, j] = running[first + j]
        for slot in range(ring.shape[0]):
            work[2 + slot, j] = ring[slot, first + j]


@njit(cache=True, nogil=True, error_model="numpy")
def _store(work, running, ring, first, width):  # type: ignore[no-untyped-def]
    for j in range(width):
        running[first + j] = work[1, j]
        for slot in range(ring.shape[0]):
            ring[slot, first + j] = work[2 + slot, j]


@njit(cache=True, nogil=True, error_model="numpy")
def _replay(  # type: ignore[no-untyped-def]
    demand, levels, ring, head, since, interval, holding, price, running, filled, size, batches,
    start, stop, charged,
):  # fmt: skip
    number = ring.dtype.type
    slots = ring.shape[0]
    periods = demand.shape[0]
    # A block is worked on in a small aligned copy: levels, running cost and the ring.
    work = np.empty((slots + 2, BLOCK + _PADDING), ring.dtype)
    settled = since
    for first in range(start, stop, BLOCK):
        width = min(BLOCK, stop - first)
        _load(work, levels, running, ring, first, width)
        slot, settled, count, row, t = head, since, filled, 0, 0
        while t < periods:
            left = min(periods - t, size - count, interval - settled)
            newest = 2 + (slot + slots - 1) % slots
            row0 = 2 + slot
            row1 = 2 + (slot + 1) % slots
            if charged:
                second = 2 + (slot + slots - 2) % slots
                _charged_period(work, width, row0, row1, newest, second, demand[t])
                done = 1
            elif slots >= 4 and left >= 3:
                row2 = 2 + (slot + 2) % slots
                row3 = 2 + (slot + 3) % slots
                _three_periods(
                    work, width, row0, row1, row2, row3, newest,
                    demand[t], demand[t + 1], demand[t + 2],
                )  # fmt: skip
                done = 3
            else:
                _one_period(work, width, row0, row1, newest, demand[t])
                done = 1
            slot = (slot + done) % slots
            t += done
            count += done
            settled += done
            if count == size or settled == interval:
                _settle(work, width, slots, slot, number(settled), holding, price)
                settled = 0
                if count == size:
                    for j in range(width):
                        batches[row, first + j] = work[1, j]
                        work[1, j] = 0.0
                    row += 1
                    count = 0
                _set_back(work, width, slots, slot, holding)
        _store(work, running, ring, first, width)
    return settled


@njit(cache=True, nogil=True, error_model="numpy")
def _roll_out(level, demand, on_hand, pipeline, stop_when_empty, stock, sales, orders):  # type: ignore[no-untyped-def]
    """Play one level on the real system; return the periods played and the stock left."""
    lead_time = pipeline.shape[0]
    for t in range(demand.shape[0]):
        outstanding = 0.0
        for i in range(lead_time):
            outstanding += pipeline[i]
        if stop_when_empty and on_hand + outstanding <= 0.0:
            return t, on_hand
        order = order_up_to(level, on_hand + outstanding)
        arriving = arrival(pipeline, order)
        stock[t] = on_hand + arriving
        sales[t] = sold_by_now(stock[t], 0.0, demand[t])
        on_hand = stock[t] - sales[t]
        orders[t] = order
    return demand.shape[0], on_hand


#: How orders are rounded to multiples: what is added to a number of multiples before truncation.
_ROUNDED = {"up": 1.0, "down": 0.0, "nearest": 0.5}


@njit(cache=True, inline="always")
def rounded_order(level, position, multiple, rounded):  # type: ignore[no-untyped-def]
    """The order that raises an inventory position to a level, rounded to multiples if any."""
    order = order_up_to(level, position)
    if multiple <= 0.0 or order <= 0.0:
        return order
    number = order / multiple
    near = math.floor(number + 0.5)
    if abs(number - near) <= _ROUNDING * (1.0 + number):  # an integer, up to rounding
        return near * multiple
    return math.floor(number + rounded) * multiple


@njit(cache=True, nogil=True, error_model="numpy")
def _replay_orders(  # type: ignore[no-untyped-def]
    demand, played, filled, levels, ends, lead_time, multiple, rounded, holding, price, warm_up,
    sums, sizes, start, stop, charged,
):  # fmt: skip
    periods = demand.shape[0]
    pipeline = np.empty(max(lead_time, 1))
    for j in range(start, stop):
        level = levels[j]
        on_hand, position, slot, batch = 0.0, 0.0, 0, 0
        pipeline[:] = 0.0
        for t in range(-warm_up, periods):
            if t >= ends[batch]:
                batch += 1
            now = t % periods
            if level > played[now] * (1 + _ROUNDING):
                continue  # not informative about this level
            order = rounded_order(level, position, multiple, rounded)
            arriving = order
            if lead_time > 0:
                arriving = pipeline[slot]
                pipeline[slot] = order
                slot = slot + 1 if slot + 1 < lead_time else 0
            missing = (1.0 - filled[now]) * arriving
            stock = on_hand + arriving - missing
            sales = sold_by_now(stock, 0.0, demand[now])
            on_hand = stock - sales
            position += order - sales - missing
            if t >= 0:
                cost = holding * on_hand - price * sales
                if charged:
                    cost += own_cost(stock, sales, order)
                sums[batch, j] += cost
                sizes[batch, j] += 1.0
    return 0


def replay_orders(
    demand: Array,
    played: Array,
    filled: Array,
    levels: Array,
    ends: Indices,
    lead_time: int,
    multiple: float,
    rounding: str,
    costs: tuple[float, float],
    warm_up: int,
    own: PeriodCost | None = None,
    threads: int = 1,
) -> tuple[Array, Array]:
    """Replay levels on a demand path, with orders in multiples.

    Parameters
    ----------
    demand, played : arrays (periods,). Demand, and the level that was played: a period is
        informative about levels up to that one.
    filled : array (periods,). The share of an order that is delivered; the rest never arrives.
    levels : array (n,).
    ends : array. Ends of the batches, the last of them the number of periods.
    lead_time : int. Periods between order and arrival.
    multiple, rounding : what orders are multiples of, 0 for any amount; ``"up"``, ``"down"`` or
        ``"nearest"``.
    costs : holding cost and lost-sales cost per unit.
    warm_up : int. Warm-up periods, which are the last ones of the path.
    own : callable, optional. A further cost of (stock after arrivals, sales, order).

    Returns
    -------
    arrays (batches, n) : pseudo-costs, and the informative periods of each level.
    """
    sums, sizes = np.zeros((2, ends.size, levels.size))
    kernel = _replay_orders if own is None else _compiled_with(_replay_orders, own)

    def advance(start: int, stop: int) -> int:
        return int(
            kernel(
                demand, played, filled, levels, ends, lead_time, multiple, _ROUNDED[rounding],
                costs[0], costs[1], warm_up, sums, sizes, start, stop, own is not None,
            )
        )  # fmt: skip

    in_threads(advance, levels.size, demand.size, BLOCK, threads)
    return sums, sizes


@lru_cache(maxsize=64)
def _compiled_with(kernel: Any, cost: PeriodCost) -> Any:
    """Compile ``kernel``, and what it calls, with the user's cost in place of ``own_cost``."""
    scalar = cost if hasattr(cost, "py_func") else njit(cost)
    names = {**kernel.py_func.__globals__, "own_cost": scalar}
    for inner in (_charged_period, kernel):
        source = inner.py_func
        rebound = FunctionType(source.__code__, names, source.__name__)
        names = {**names, source.__name__: njit(nogil=True, error_model="numpy")(rebound)}
    return names[kernel.py_func.__name__]


def start_ring(levels: Array, on_hand: Array, orders: Array, dtype: str = "float64") -> Array:
    """The ring of policies with on-hand stock and a pipeline of L orders, oldest first.

    ``on_hand`` is an array (n,) and ``orders`` an array (L, n); the next order raises the
    inventory position to the level.

    >>> start_ring(np.array([5.0]), np.array([1.0]), np.array([[2.0], [0.5]]))[:, 0]
    array([-4. , -2. , -1.5,  0. ])
    """
    held = np.cumsum([on_hand, *orders], axis=0) - levels
    return np.concatenate([held, np.zeros((1, levels.size))]).astype(dtype)


def potential(ring: Array, head: int, costs: tuple[float, float]) -> Array:
    """Φ of each policy: h times its last L + 1 values of C plus p times the last one."""
    in_order = np.concatenate([ring[head + 1 :], ring[:head]]).astype(np.float64)
    return np.asarray(costs[0] * in_order.sum(axis=0) + costs[1] * in_order[-1])


def replay(
    demand: Array,
    levels: Array,
    ring: Array,
    head: int,
    since: int,
    costs: tuple[float, float],
    running: Array,
    filled: int,
    size: int,
    own: PeriodCost | None = None,
    threads: int = 1,
) -> tuple[Array, int]:
    """Advance all policies along one path of (observed) demand, in place.

    Parameters
    ----------
    demand : array (periods,). Demand, censored at the observed sales; common to all policies.
    levels, ring : arrays (n,) and (L + 2, n). The policies and their states.
    head : int. Slot of the ring that is oldest.
    since : int. Periods since the last settlement.
    costs : holding cost and lost-sales cost per unit.
    running : array (n,). Cost of the batch in progress, plus Φ at the last settlement.
    filled, size : int. Periods already in that batch, and its full size.
    own : callable, optional. A further cost of (stock after arrivals, sales, order).

    Returns
    -------
    array (finished batches, n) : the pseudo-cost of each batch that was filled.
    int : periods since the last settlement, now.
    """
    number = running.dtype.type
    interval = SETTLE[running.dtype]
    batches = np.empty(((filled + demand.size) // size, running.size), dtype=running.dtype)
    path = np.array(demand, dtype=running.dtype)
    levels = levels.astype(running.dtype)
    holding, price = number(costs[0]), number(costs[1])
    kernel = _replay if own is None else _compiled_with(_replay, own)

    def advance(start: int, stop: int) -> int:
        return int(
            kernel(
                path, levels, ring, head, since, interval, holding, price, running, filled, size,
                batches, start, stop, own is not None,
            )
        )  # fmt: skip

    settled = in_threads(advance, running.size, demand.size, BLOCK, threads)
    return batches, settled[0]


def roll_out(level: float, demand: Array, state: Array, stop_when_empty: bool = False) -> Array:
    """Play ``level`` on the real system, whose ``state``, an array (1 + L,), is changed in place.

    Returns
    -------
    array (3, periods played) : stock after arrivals, sales, and the order of each period.
    """
    columns = np.zeros((3, demand.size))
    periods, state[0] = _roll_out(level, demand, state[0], state[1:], stop_when_empty, *columns)
    return columns[:, :periods]


@njit(cache=True, nogil=True, error_model="numpy")
def _follow(level, on_hand, pipeline, stock, sales, tolerance):  # type: ignore[no-untyped-def]
    lead_time = pipeline.shape[0]
    for t in range(stock.shape[0]):
        position = on_hand
        for i in range(lead_time):
            position += pipeline[i]
        arriving = arrival(pipeline, order_up_to(level, position))
        expected = on_hand + arriving
        if abs(expected - stock[t]) > tolerance:
            expected = stock[t]
        # Within the tolerance the expected stock is used: rounding of records would add up.
        on_hand = max(expected - sales[t], 0.0) if sales[t] < stock[t] else 0.0
    return on_hand


def follow(
    level: float, on_hand: float, pipeline: Array, stock: Array, sales: Array, tolerance: float
) -> float:
    """Track the real system from its records; return the stock left.

    ``pipeline`` is changed in place.
    """
    return float(_follow(level, on_hand, pipeline, stock, sales, tolerance))
