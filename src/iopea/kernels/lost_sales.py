"""Compiled kernels of the lost-sales system under base-stock policies.

The state of one policy is its stock on hand and a ring of ``L + 1`` orders:
the ``L`` orders in the pipeline and the one about to be placed. Once the
inventory position has reached the level, every order equals the sales of the
period before, so a period reads and writes one slot of the ring. ``head`` is
the slot of the order that arrives in the coming period.

Costs are added to a running sum period by period, in the same order and with
the same roundings however a path is cut into calls, so the bits don't depend on
that. Products are fused with sums where the processor can.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit

from iopea.types import Array, PeriodCost

#: Policies advanced together, so that their states stay in the first-level cache.
BLOCK = 512
#: Unused columns of the working copy: rows a power of two apart would share cache sets.
_PADDING = 8
#: Let products be fused with sums, and no other liberty.
_FUSE = {"contract"}
#: Share of the level below which a difference is rounding, not an order.
_NOT_AN_ORDER = 1e-12
#: Policy-periods below which starting threads costs more than it saves.
_WORTH_A_THREAD = 2**20


@njit(cache=True, inline="always")
def serve(on_hand, arriving, demand):  # type: ignore[no-untyped-def]
    """One period: an order arrives, demand is met as far as the stock allows."""
    stock = on_hand + arriving
    sales = demand if demand < stock else stock
    return stock - sales, sales


@njit(cache=True, inline="always")
def own_cost(stock, sales, order):  # type: ignore[no-untyped-def]
    """The user's cost beside holding and lost sales; rebound by ``_compiled_with``."""
    return 0.0 * stock


@njit(cache=True, inline="always")
def pseudo_cost(total, left, sales, holding, price):  # type: ignore[no-untyped-def]
    """Add the pseudo-cost h (stock left over) - p (sales) of a period to a running sum."""
    return (total + left * holding) - sales * price


@njit(cache=True, nogil=True, error_model="numpy")
def _copy_row(target, source, to, start, width):  # type: ignore[no-untyped-def]
    for j in range(width):
        target[to + j] = source[start + j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FUSE)
def _one_period(on_hand, cost, ring0, demand0, holding, price):  # type: ignore[no-untyped-def]
    for j in range(on_hand.shape[0]):
        left, sales = serve(on_hand[j], ring0[j], demand0)
        on_hand[j] = left
        ring0[j] = sales
        cost[j] = pseudo_cost(cost[j], left, sales, holding, price)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FUSE)
def _three_periods(  # type: ignore[no-untyped-def]
    on_hand, cost, ring0, ring1, ring2, demand0, demand1, demand2, holding, price
):
    # Three periods at a time keep stock and cost in registers.
    for j in range(on_hand.shape[0]):
        total = cost[j]
        left, sales = serve(on_hand[j], ring0[j], demand0)
        ring0[j] = sales
        total = pseudo_cost(total, left, sales, holding, price)
        left, sales = serve(left, ring1[j], demand1)
        ring1[j] = sales
        total = pseudo_cost(total, left, sales, holding, price)
        left, sales = serve(left, ring2[j], demand2)
        ring2[j] = sales
        total = pseudo_cost(total, left, sales, holding, price)
        on_hand[j] = left
        cost[j] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _replay_linear(  # type: ignore[no-untyped-def]
    demand, on_hand, ring, head, holding, price, running, filled, size, batches, start, stop
):
    slots = ring.shape[0]
    periods = demand.shape[0]
    # A block is worked on in a small aligned copy whose rows don't share cache sets.
    copy = np.empty((slots + 2, BLOCK + _PADDING), ring.dtype)
    for first in range(start, stop, BLOCK):
        width = min(BLOCK, stop - first)
        _copy_row(copy[0], on_hand, 0, first, width)
        _copy_row(copy[1], running, 0, first, width)
        for slot in range(slots):
            _copy_row(copy[2 + slot], ring[slot], 0, first, width)
        stock_block, cost_block = copy[0, :width], copy[1, :width]
        slot, count, row, t = head, filled, 0, 0
        while t < periods:
            ring0 = copy[2 + slot, :width]
            if slots >= 3 and t + 3 <= periods and count + 3 <= size:
                ring1 = copy[2 + (slot + 1) % slots, :width]
                ring2 = copy[2 + (slot + 2) % slots, :width]
                _three_periods(
                    stock_block, cost_block, ring0, ring1, ring2,
                    demand[t], demand[t + 1], demand[t + 2], holding, price,
                )  # fmt: skip
                done = 3
            else:
                _one_period(stock_block, cost_block, ring0, demand[t], holding, price)
                done = 1
            slot = (slot + done) % slots
            t += done
            count += done
            if count == size:
                _copy_row(batches[row], copy[1], first, 0, width)
                cost_block[:] = 0.0
                row += 1
                count = 0
        _copy_row(on_hand, copy[0], first, 0, width)
        _copy_row(running, copy[1], first, 0, width)
        for slot in range(slots):
            _copy_row(ring[slot], copy[2 + slot], first, 0, width)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FUSE)
def _replay_with_own_cost(  # type: ignore[no-untyped-def]
    demand, on_hand, ring, head, holding, price, running, filled, size, batches, start, stop
):
    slots = ring.shape[0]
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        slot, count, row = head, filled, 0
        for t in range(demand.shape[0]):
            placed = (slot + slots - 1) % slots
            for j in range(first, last):
                order = ring[placed, j]
                left, sales = serve(on_hand[j], ring[slot, j], demand[t])
                on_hand[j] = left
                ring[slot, j] = sales
                running[j] = pseudo_cost(running[j], left, sales, holding, price)
                running[j] += own_cost(left + sales, sales, order)
            slot = (slot + 1) % slots
            count += 1
            if count == size:
                for j in range(first, last):
                    batches[row, j] = running[j]
                    running[j] = 0.0
                row += 1
                count = 0


@njit(cache=True, inline="always")
def _order_up_to(level, position):  # type: ignore[no-untyped-def]
    order = level - position
    # A remainder of rounding is not an order: a cost per order would be charged for it.
    return order if order > _NOT_AN_ORDER * level else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _roll_out(level, demand, on_hand, pipeline, stop_when_empty, stock, sales, left, own):  # type: ignore[no-untyped-def]
    """Play one level on the real system; return the periods played and the stock left."""
    lead_time = pipeline.shape[0]
    for t in range(demand.shape[0]):
        outstanding = 0.0
        for i in range(lead_time):
            outstanding += pipeline[i]
        if stop_when_empty and on_hand + outstanding <= 0.0:
            return t, on_hand
        order = _order_up_to(level, on_hand + outstanding)
        if lead_time == 0:
            arriving = order
        else:
            arriving = pipeline[0]
            for i in range(lead_time - 1):
                pipeline[i] = pipeline[i + 1]
            pipeline[lead_time - 1] = order
        stock[t] = on_hand + arriving
        on_hand, sales[t] = serve(on_hand, arriving, demand[t])
        left[t] = on_hand
        own[t] = own_cost(stock[t], sales[t], order)
    return demand.shape[0], on_hand


@lru_cache(maxsize=32)
def _compiled_with(kernel: Any, cost: PeriodCost) -> Any:
    """Compile ``kernel`` anew with the user's cost in the place of ``own_cost``."""
    source = kernel.py_func
    scalar = cost if hasattr(cost, "py_func") else njit(cost)
    names = {**source.__globals__, "own_cost": scalar}
    rebound = FunctionType(source.__code__, names, source.__name__)
    return njit(nogil=True, error_model="numpy", fastmath=_FUSE)(rebound)


def replay(
    demand: Array,
    on_hand: Array,
    ring: Array,
    head: int,
    costs: tuple[float, float],
    running: Array,
    filled: int,
    size: int,
    own: PeriodCost | None = None,
    threads: int = 1,
) -> Array:
    """Advance all policies over one path of (seen) demand, in place.

    Parameters
    ----------
    demand : array (periods,). What every policy faces, cut at what was seen.
    on_hand, ring : arrays (n,) and (L + 1, n). The policies' states.
    head : int. Slot of the ring that arrives first.
    costs : holding cost and lost-sales cost per unit.
    running : array (n,). Pseudo-cost of the batch in progress.
    filled, size : int. Periods already in that batch, and its full size.
    own : callable, optional. A further cost of (stock after arrivals, sales, order).

    Returns
    -------
    array (finished batches, n). The pseudo-cost of each batch that was filled.
    """
    number = running.dtype.type
    batches = np.empty(((filled + demand.size) // size, running.size), dtype=running.dtype)
    path = np.array(demand, dtype=running.dtype)
    holding, price = number(costs[0]), number(costs[1])
    kernel = _replay_linear if own is None else _compiled_with(_replay_with_own_cost, own)

    def advance(start: int, stop: int) -> None:
        kernel(
            path, on_hand, ring, head, holding, price, running, filled, size, batches, start, stop
        )

    if threads == 1 or on_hand.size * demand.size < _WORTH_A_THREAD:
        advance(0, on_hand.size)
        return batches
    # One contiguous part of whole blocks per thread.
    blocks = -(-on_hand.size // BLOCK)
    edges = [min(on_hand.size, BLOCK * (blocks * i // threads)) for i in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(advance, edges[:-1], edges[1:]))
    return batches


def roll_out(
    level: float,
    demand: Array,
    on_hand: float,
    pipeline: Array,
    stop_when_empty: bool = False,
    cost: PeriodCost | None = None,
) -> tuple[int, float, Array, Array, Array, Array]:
    """Play ``level`` on the real system, ``pipeline`` changed in place.

    Returns the periods played, the stock left at the end, and per period the
    stock after arrivals, the sales, the stock left over and the user's cost.
    """
    columns = np.zeros((4, demand.size))
    kernel = _roll_out if cost is None else _compiled_with(_roll_out, cost)
    periods, on_hand = kernel(level, demand, on_hand, pipeline, stop_when_empty, *columns)
    stock, sales, left, own = columns[:, :periods]
    return periods, on_hand, stock, sales, left, own


@njit(cache=True, nogil=True, error_model="numpy")
def _follow(level, settled, on_hand, pipeline, stock, sales, tolerance):  # type: ignore[no-untyped-def]
    lead_time = pipeline.shape[0]
    for t in range(stock.shape[0]):
        position = on_hand
        for i in range(lead_time):
            position += pipeline[i]
        if not settled and position <= level + tolerance:
            return t, on_hand, True
        order = _order_up_to(level, position)
        if lead_time == 0:
            arriving = order
        else:
            arriving = pipeline[0]
            for i in range(lead_time - 1):
                pipeline[i] = pipeline[i + 1]
            pipeline[lead_time - 1] = order
        expected = on_hand + arriving
        on_hand = stock[t] - sales[t]
        if settled and abs(expected - stock[t]) > tolerance:
            return t + 1, on_hand, False
    return stock.shape[0], on_hand, settled


def follow(
    level: float,
    settled: bool,
    on_hand: float,
    pipeline: Array,
    stock: Array,
    sales: Array,
    tolerance: float,
) -> tuple[int, float, bool]:
    """Track the real system from its records, until it settles or departs from the level.

    Unsettled, it stops before the first period whose inventory position is at
    most the level. Settled, it stops after a period whose stock is not what the
    level's orders explain. Returns the periods taken, the stock left, and
    whether the system is settled then. ``pipeline`` is changed in place.
    """
    periods, on_hand, settled = _follow(level, settled, on_hand, pipeline, stock, sales, tolerance)
    return int(periods), float(on_hand), bool(settled)
