"""Compiled kernels of tailored base-surge policies in lost-sales dual sourcing.

A policy (Q, S) places a regular order Q in every period and an expedited one of (S - x)^+, where x
is the expedited position: all that will have arrived within L_e periods. A regular order enters
that position L_r - L_e periods after it was placed. So from an empty system, with sales S_t,

    y_t = max(x_t, S),  Q^e_t = y_t - x_t,  x_{t+1} = y_t - S_t + Q 1{t + 1 >= L_r - L_e}.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from iopea.systems.shop.kernel import raised, sold
from iopea.types import Array

#: Policies advanced together, so that their states stay in the first-level cache.
BLOCK = 512
#: Unused columns of the working copy: rows a power of two apart would share cache sets.
_PADDING = 24

# Rows of the working copy: Q, S and the cost, then the state: x, the stock left over and the
# expedited pipeline.
_ORDER, _LEVEL, _COST, _X, _LEFT, _RING = 0, 1, 2, 3, 4, 5
#: The first rows of the working copy that are not part of the state.
_STATE = 3


@njit(cache=True, nogil=True, error_model="numpy")
def _roll_out(order, level, demand, row, slow, columns):  # type: ignore[no-untyped-def]
    wide = row.shape[0]
    fast_first, ahead = 1 + slow, wide - 1 - slow
    for t in range(demand.shape[0]):
        position = 0.0
        for i in range(2 + ahead):
            position += row[i]
        for i in range(fast_first, wide):
            position += row[i]
        for i in range(wide):
            columns[i, t] = row[i]
        fast = raised(position, level) - position
        stock = row[0]
        if ahead == 0:
            stock += fast
        else:
            stock += row[fast_first]
            for i in range(fast_first, wide - 1):
                row[i] = row[i + 1]
            row[wide - 1] = fast
        stock += row[1]
        for i in range(1, slow):
            row[i] = row[i + 1]
        row[slow] = order
        sales = sold(stock, demand[t])
        row[0] = stock - sales
        columns[wide, t], columns[wide + 1, t] = fast, order
        columns[wide + 2, t], columns[wide + 3, t] = stock, sales


def roll_out(
    order: float, level: float, demand: Array, row: Array, regular_lead_time: int
) -> Array:
    """Play (Q, S) on the real system, whose state ``row`` is changed in place.

    The state is on-hand stock, then the regular and the expedited pipeline, oldest first.
    Returns an array (k + 4, periods): the state before each period, the expedited and the regular
    order, the stock after arrivals and the sales.

    >>> roll_out(1.0, 3.0, np.array([2.5]), np.array([0.5, 1.0]), 1)[:, 0]
    array([0.5, 1. , 1.5, 1. , 3. , 2.5])
    """
    columns = np.empty((row.size + 4, demand.size))
    _roll_out(order, level, demand, row, regular_lead_time, columns)
    return columns


@njit(cache=True, nogil=True, error_model="numpy")
def _period(work, width, slot, enters, arrives, wanted, on_left, on_fast, on_lost):  # type: ignore[no-untyped-def]
    """One period; ``slot`` is -1 where expedited orders arrive at once."""
    for j in range(width):
        x = work[_X, j]
        y = raised(x, work[_LEVEL, j])
        if slot < 0:
            stock = y
        else:
            stock = work[_LEFT, j] + work[slot, j] + arrives * work[_ORDER, j]
            work[slot, j] = y - x
        sales = sold(stock, wanted)
        left = stock - sales
        work[_LEFT, j] = left
        work[_X, j] = y - sales + enters * work[_ORDER, j]
        work[_COST, j] += on_left * left + on_fast * (y - x) + on_lost * (wanted - sales)


@njit(cache=True, nogil=True, error_model="numpy")
def _replay(demand, policies, state, clock, slow, ahead, costs, total):  # type: ignore[no-untyped-def]
    holding, price, regular, expedited = costs
    work = np.empty((_STATE + state.shape[0], BLOCK + _PADDING))
    for first in range(0, policies.shape[0], BLOCK):
        width = min(BLOCK, policies.shape[0] - first)
        for j in range(width):
            work[_ORDER, j], work[_LEVEL, j] = policies[first + j, 0], policies[first + j, 1]
            work[_COST, j] = regular * demand.shape[0] * policies[first + j, 0]
            for row in range(state.shape[0]):
                work[_STATE + row, j] = state[row, first + j]
        for t in range(demand.shape[0]):
            now = clock + t
            slot = _RING + now % ahead if ahead > 0 else -1
            enters = 1.0 if now + 1 >= slow - ahead else 0.0
            arrives = 1.0 if now >= slow else 0.0
            _period(work, width, slot, enters, arrives, demand[t], holding, expedited, price)
        for j in range(width):
            total[first + j] = work[_COST, j]
            for row in range(state.shape[0]):
                state[row, first + j] = work[_STATE + row, j]


def start_state(policies: int, expedited_lead_time: int) -> Array:
    """The state of this many policies in an empty system."""
    return np.zeros((_RING - _STATE + expedited_lead_time, policies))


def replay(
    demand: Array,
    policies: Array,
    state: Array,
    clock: int,
    lead_times: tuple[int, int],
    costs: tuple[float, float, float, float],
) -> Array:
    """True cost of policies on one demand path, ``state`` changed in place.

    Parameters
    ----------
    demand : array (periods,). Demand, common to all policies.
    policies : array (n, 2) of (Q, S).
    state, clock : the state, and the periods since it was started.
    lead_times : (L_r, L_e).
    costs : (h, p, c_r, c_e).

    Returns
    -------
    array (n,) : the sum over the periods.
    """
    total = np.zeros(len(policies))
    _replay(demand, policies, state, clock, lead_times[0], lead_times[1], costs, total)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _slope(stock, sales, fast, held, on_left, on_lost, total):  # type: ignore[no-untyped-def]
    ahead = held.shape[0] - 1
    for t in range(stock.shape[0]):
        entered = 0.0
        if fast[t] > 0.0:
            entered = 1.0 - held.sum()
        if ahead == 0:
            here = held[0] + entered
        else:
            here = held[0] + held[1]
            for i in range(1, ahead):
                held[i] = held[i + 1]
            held[ahead] = entered
        if sales[t] < stock[t]:
            held[0] = here
            total += on_left * here
        else:
            held[0] = 0.0
            total -= on_lost * here
    return total


def slope(
    stock: Array,
    sales: Array,
    expedited: Array,
    held: Array,
    on_left: float,
    on_lost: float,
    total: float = 0.0,
) -> float:
    """Derivative of the cost of observed periods with respect to S, added to ``total`` one by one.

    A slightly higher S raises the expedited position by the same amount once an expedited order is
    placed. ``held``, an array (1 + L_e,) that is changed in place, has the parts of this in the
    on-hand stock and in each order of the expedited pipeline. The part in the stock of a period
    costs ``on_left`` (h) if something is left over. Otherwise it is sold and saves ``on_lost``
    (p - c_e): the lost sale, minus the cost of reordering it.

    >>> held = np.zeros(1)
    >>> records = np.array([3.0, 3.0]), np.array([3.0, 1.0]), np.array([3.0, 2.0])
    >>> slope(*records, held, 1.0, 9.5), held
    (-8.5, array([1.]))
    """
    return float(_slope(stock, sales, expedited, held, on_left, on_lost, total))


@njit(cache=True, nogil=True, error_model="numpy")
def _tally(values, size, sums):  # type: ignore[no-untyped-def]
    for t in range(values.shape[0]):
        sums[0] += values[t]
        sums[2] += values[t]
        sums[3] += 1.0
        if sums[3] == size:
            sums[1] += sums[2] * sums[2]
            sums[2] = sums[3] = 0.0


def tally(values: Array, size: int, sums: Array) -> None:
    """Add values to ``sums``, in place and one by one, so that the split does not matter.

    ``sums`` has the sum of all values, the sum of squares of the batch sums over ``size`` values,
    and the sum and the number of values in the batch in progress.

    >>> sums = np.zeros(4)
    >>> tally(np.array([1.0, 2.0, 3.0]), 2, sums)
    >>> sums
    array([6., 9., 3., 1.])
    """
    _tally(values, size, sums)
