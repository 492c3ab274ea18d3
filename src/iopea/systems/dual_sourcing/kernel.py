"""Compiled kernels of lost-sales dual sourcing under dual-index policies.

Let l = L_r - L_e. At the start of period t the expedited position x_t, all that will have
arrived within L_e periods, is raised to z_e by an expedited order, and the total position to z_r
by a regular one. If z_e <= z_r and the initial position is at most z_r, the total position is z_r
after every order: the orders of a period replace its last sales. With y_t = max(x_t, z_e),

    Q^e_t = y_t - x_t,  Q^r_t = v_t - y_t,  v_{t+1} = y_t + Q^r_{t+1-l},  x_{t+1} = v_{t+1} - S_t,

where S_t are the sales and v_t is x_t plus the orders to be placed. For L_e = 0 the stock after
arrivals is y_t itself; otherwise it is the stock left over plus what entered the expedited position
L_e periods ago. A policy with z_e > z_r never orders regularly: it is the policy (z_e, z_e).

The state of a policy is a column with x, v, the stock left over, what is left of the expedited
position, the last l - 1 regular orders and the last L_e entries; ``clock`` counts periods and
determines the slots of these two rings.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from iopea.systems.shop.kernel import arrival, order_up_to, raised, sold
from iopea.systems.shop.threads import in_threads
from iopea.types import Array, Indices, Mask

#: Policies advanced together, so that their states stay in the first-level cache.
BLOCK = 512
#: Unused columns of the working copy: rows a power of two apart would share cache sets.
_PADDING = 24

# Rows of the working copy: z_e and the cost of the batch, then the state.
_LEVEL, _COST, _X, _V, _LEFT, _REST, _RINGS = 0, 1, 2, 3, 4, 5, 6
#: The first rows of the working copy that are not part of the state.
_STATE = 2


def _periods(slots: int, ahead: int, pair: bool) -> Any:
    """Compile the loop over a batch, by one or two periods, for rings of no, one or more slots.

    In registers, two periods take little longer than one; a ring of one slot is passed from the
    first to the second. With L_e = 0 the stock is y itself, with L_e = 1 all that was left of the
    expedited position.
    """
    by = 2 if pair else 1

    def kernel(work, width, demand, start, stop, clock, rings, entries, costs):  # type: ignore[no-untyped-def]
        holding, on_sales, premium = costs
        on_y = holding + premium
        for t in range(start, stop - by + 1, by):
            d0, d1 = demand[t], demand[t + by - 1]
            s0 = s1 = _RINGS
            e0 = e1 = _RINGS + rings
            if slots > 0:
                s0, s1 = s0 + (clock + t) % rings, s1 + (clock + t + 1) % rings
            if ahead > 0:
                e0, e1 = e0 + (clock + t) % entries, e1 + (clock + t + 1) % entries
            for j in range(width):
                level, v0, x0 = work[_LEVEL, j], work[_V, j], work[_X, j]
                y0 = raised(x0, level)
                stock0 = y0
                if ahead == 1:
                    stock0 = work[_REST, j]
                elif ahead > 1:
                    stock0 = work[_LEFT, j] + work[e0, j]
                sales0 = sold(stock0, d0)
                v1 = v0 if slots == 0 else y0 + work[s0, j]
                x1 = v1 - sales0
                if ahead > 1:
                    work[e0, j] = y0 - work[_REST, j]
                if not pair:
                    if slots > 0:
                        work[s0, j] = v0 - y0
                    if ahead > 0:
                        work[_REST, j] = y0 - sales0
                    if ahead > 1:
                        work[_LEFT, j] = stock0 - sales0
                    work[_V, j] = v1
                    work[_X, j] = x1
                    if ahead == 0:
                        work[_COST, j] += on_y * y0 - premium * x0 - on_sales * sales0
                    else:
                        work[_COST, j] += holding * stock0 + premium * (y0 - x0) - on_sales * sales0
                else:
                    y1 = raised(x1, level)
                    stock1 = y1
                    if ahead == 1:
                        stock1 = y0 - sales0
                    elif ahead > 1:
                        stock1 = stock0 - sales0 + work[e1, j]
                        work[e1, j] = y1 - (y0 - sales0)
                    sales1 = sold(stock1, d1)
                    v2 = v1
                    if slots == 1:
                        v2 = y1 + (v0 - y0)
                        work[s0, j] = v1 - y1
                    elif slots > 1:
                        v2 = y1 + work[s1, j]
                        work[s0, j] = v0 - y0
                        work[s1, j] = v1 - y1
                    if ahead > 0:
                        work[_REST, j] = y1 - sales1
                    if ahead > 1:
                        work[_LEFT, j] = stock1 - sales1
                    work[_V, j] = v2
                    work[_X, j] = v2 - sales1
                    sold_in_both = on_sales * (sales0 + sales1)
                    if ahead == 0:
                        work[_COST, j] += on_y * (y0 + y1) - premium * (x0 + x1) - sold_in_both
                    else:
                        held = holding * (stock0 + stock1)
                        work[_COST, j] += held + premium * ((y0 - x0) + (y1 - x1)) - sold_in_both
        return stop - (stop - start) % by

    # Compiled code is cached by name: processes that compile at the same time need distinct names.
    kernel.__name__ = kernel.__qualname__ = f"_{'two' if pair else 'one'}_{slots}_{ahead}"
    return njit(cache=True, nogil=True, error_model="numpy")(kernel)


# Named by their slots and entries, of which 2 stands for more.
_one_0_0 = _periods(0, 0, False)
_one_0_1 = _periods(0, 1, False)
_one_0_2 = _periods(0, 2, False)
_one_1_0 = _periods(1, 0, False)
_one_1_1 = _periods(1, 1, False)
_one_1_2 = _periods(1, 2, False)
_two_0_0 = _periods(0, 0, True)
_two_0_1 = _periods(0, 1, True)
_two_0_2 = _periods(0, 2, True)
_two_1_1 = _periods(1, 1, True)
_two_1_2 = _periods(1, 2, True)
_two_2_1 = _periods(2, 1, True)
_two_2_2 = _periods(2, 2, True)


@njit(cache=True, inline="always")
def _advance(work, width, demand, start, stop, clock, slots, ahead, costs):  # type: ignore[no-untyped-def]
    """All periods of a batch: in pairs as far as possible, the rest one by one."""
    t = start
    if slots == 0 and ahead == 0:
        t = _two_0_0(work, width, demand, t, stop, clock, slots, ahead, costs)
        _one_0_0(work, width, demand, t, stop, clock, slots, ahead, costs)
    elif ahead == 0:  # with a ring, one period at a time is faster
        _one_1_0(work, width, demand, t, stop, clock, slots, ahead, costs)
    elif slots == 0 and ahead == 1:
        t = _two_0_1(work, width, demand, t, stop, clock, slots, ahead, costs)
        _one_0_1(work, width, demand, t, stop, clock, slots, ahead, costs)
    elif slots == 0:
        t = _two_0_2(work, width, demand, t, stop, clock, slots, ahead, costs)
        _one_0_2(work, width, demand, t, stop, clock, slots, ahead, costs)
    elif ahead == 1:
        if slots == 1:
            t = _two_1_1(work, width, demand, t, stop, clock, slots, ahead, costs)
        else:
            t = _two_2_1(work, width, demand, t, stop, clock, slots, ahead, costs)
        _one_1_1(work, width, demand, t, stop, clock, slots, ahead, costs)
    else:
        if slots == 1:
            t = _two_1_2(work, width, demand, t, stop, clock, slots, ahead, costs)
        else:
            t = _two_2_2(work, width, demand, t, stop, clock, slots, ahead, costs)
        _one_1_2(work, width, demand, t, stop, clock, slots, ahead, costs)


@njit(cache=True, nogil=True, error_model="numpy")
def _order_cost(work, width, factor):  # type: ignore[no-untyped-def]
    """Add the orders to be placed, v - x, times a factor to the cost."""
    for j in range(width):
        work[_COST, j] += factor * (work[_V, j] - work[_X, j])


@njit(cache=True, nogil=True, error_model="numpy")
def _replay(  # type: ignore[no-untyped-def]
    demand, ends, levels, state, clock, gap, ahead, holding, price, regular, expedited, batches,
    start, stop,
):  # fmt: skip
    # The cost of a period is h (stock - S) - p S + c_r (Q^r + Q^e) + (c_e - c_r) Q^e, and both
    # orders together are the sales of the period before.
    number = state.dtype.type
    premium = number(expedited - regular)
    on_sales = number(holding + price - regular)
    costs = (holding, on_sales, premium)
    rows = state.shape[0]
    work = np.empty((_STATE + rows, BLOCK + _PADDING), state.dtype)
    slots = gap - 1
    for first in range(start, stop, BLOCK):
        width = min(BLOCK, stop - first)
        for j in range(width):
            work[_LEVEL, j] = levels[first + j]
            for row in range(rows):
                work[_STATE + row, j] = state[row, first + j]
        t = 0
        for b in range(ends.shape[0]):
            for j in range(width):
                work[_COST, j] = 0.0
            _order_cost(work, width, regular)
            _advance(work, width, demand, t, ends[b], clock, slots, ahead, costs)
            t = ends[b]
            _order_cost(work, width, -regular)
            for j in range(width):
                batches[b, first + j] = work[_COST, j]
        for j in range(width):
            for row in range(rows):
                state[row, first + j] = work[_STATE + row, j]


def start_state(
    policies: Array, lead_times: tuple[int, int], dtype: str = "float64", held: Array | None = None
) -> Array:
    """The state of policies, an array (n, 2) of (z_e, z_r), in which replay begins.

    ``held`` is an array (1 + L_r + L_e, n): on-hand stock, then the regular and the expedited
    pipeline, oldest first; empty by default. Neither the total position nor z_e plus the orders
    outside the expedited position may be above the larger level.

    >>> start_state(np.array([[2.0, 5.0]]), (2, 0))[:, 0]
    array([0., 5., 0., 0., 0.])
    """
    regular, ahead = lead_times
    gap = regular - ahead
    if held is None:
        held = np.zeros((1 + regular + ahead, len(policies)))
    under_way, expedited = held[1 : 1 + regular], held[1 + regular :]
    inside = under_way[: ahead + 1]
    outside = under_way[ahead + 1 :]
    position = held[0] + inside.sum(axis=0) + expedited.sum(axis=0)
    top = policies.max(axis=1)
    # v is x plus the orders to be placed: z_r minus the orders outside the expedited position.
    rows = [
        position,
        top - outside.sum(axis=0),
        held[0],
        position - inside[ahead],
        *outside,
        *(inside[i] + expedited[i] for i in range(ahead)),
    ]
    return np.array(rows).reshape(4 + gap - 1 + ahead, len(policies)).astype(dtype)


def replay(
    demand: Array,
    ends: Indices,
    policies: Array,
    state: Array,
    clock: int,
    lead_times: tuple[int, int],
    costs: tuple[float, float, float, float],
    threads: int = 1,
) -> Array:
    """Advance all policies along one demand path, ``state`` changed in place.

    Parameters
    ----------
    demand : array (periods,). Demand, common to all policies.
    ends : array (batches,). The period after the last one of each batch, ascending.
    policies : array (n, 2) of (z_e, z_r).
    state, clock : the state, and the periods since it was started.
    lead_times : (L_r, L_e).
    costs : (h, p, c_r, c_e).

    Returns
    -------
    array (batches, n) : pseudo-cost of each batch, without the term p D_t.
    """
    dtype = state.dtype
    regular, ahead = lead_times
    batches = np.empty((len(ends), len(policies)), dtype=dtype)
    path = np.array(demand, dtype=dtype)
    levels = policies[:, 0].astype(dtype)
    holding, price, slow, fast = (dtype.type(value) for value in costs)

    def advance(start: int, stop: int) -> None:
        _replay(
            path, ends, levels, state, clock, regular - ahead, ahead, holding, price, slow, fast,
            batches, start, stop,
        )  # fmt: skip

    in_threads(advance, len(policies), demand.size, BLOCK, threads)
    return batches


@njit(cache=True, inline="always")
def _order(z_e, z_r, on_hand, regular, expedited):  # type: ignore[no-untyped-def]
    """Place both orders; return them and the stock after arrivals."""
    ahead = expedited.shape[0]
    position = on_hand
    for i in range(ahead):
        position += expedited[i]
    for i in range(ahead + 1):
        position += regular[i]
    total = position
    for i in range(ahead + 1, regular.shape[0]):
        total += regular[i]
    fast = order_up_to(z_e, position)
    slow = order_up_to(z_r, total + fast)
    return fast, slow, on_hand + arrival(regular, slow) + arrival(expedited, fast)


@njit(cache=True, nogil=True, error_model="numpy")
def _roll_out(z_e, z_r, demand, on_hand, regular, expedited, stop_when_empty, columns):  # type: ignore[no-untyped-def]
    for t in range(demand.shape[0]):
        if stop_when_empty and on_hand + regular.sum() + expedited.sum() <= 0.0:
            return t, on_hand
        fast, slow, stock = _order(z_e, z_r, on_hand, regular, expedited)
        sales = sold(stock, demand[t])
        on_hand = stock - sales
        columns[0, t], columns[1, t], columns[2, t], columns[3, t] = stock, sales, fast, slow
    return demand.shape[0], on_hand


def roll_out(
    policy: tuple[float, ...],
    demand: Array,
    state: Array,
    regular_lead_time: int,
    stop_when_empty: bool = False,
) -> Array:
    """Play (z_e, z_r) on the real system by the paper's formulae.

    ``state`` is changed in place: on-hand stock, then the regular and the expedited pipeline,
    oldest first.

    Returns
    -------
    array (4, periods played) : stock after arrivals, sales, the expedited and the regular order.
    """
    columns = np.zeros((4, demand.size))
    last = 1 + regular_lead_time
    played, state[0] = _roll_out(
        policy[0], policy[1], demand, state[0], state[1:last], state[last:], stop_when_empty,
        columns,
    )  # fmt: skip
    return columns[:, :played]


@njit(cache=True, nogil=True, error_model="numpy")
def _follow(z_e, z_r, on_hand, regular, expedited, stock, sales, tolerance, bad):  # type: ignore[no-untyped-def]
    for t in range(stock.shape[0]):
        _, _, expected = _order(z_e[t], z_r[t], on_hand, regular, expedited)
        if abs(expected - stock[t]) > tolerance:
            bad[t] = True
            expected = stock[t]
        # Within the tolerance the expected stock is used: rounding of records would add up.
        on_hand = max(expected - sales[t], 0.0) if sales[t] < stock[t] else 0.0
    return on_hand


def follow(
    policies: Array,
    on_hand: float,
    regular: Array,
    expedited: Array,
    stock: Array,
    sales: Array,
    tolerance: float,
) -> tuple[float, Mask]:
    """Track the real system from its records, the pipelines changed in place.

    ``policies`` has z_e and z_r of each period, an array (2, periods). Returns the stock left over,
    and in which periods the stock is inconsistent with the orders.
    """
    bad = np.zeros(stock.size, dtype=np.bool_)
    left = _follow(
        policies[0], policies[1], on_hand, regular, expedited, stock, sales, tolerance, bad
    )
    return float(left), bad
