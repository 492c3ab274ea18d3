"""Compiled periods of a shop: stock, orders under way, and demand that is met or lost.

The state of a shop is a row: stock on hand, then the orders under way of each source, oldest first.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from iopea.systems.shop.simplex import nearest_rank
from iopea.types import Array, Indices

#: Share of the level below which a difference is rounding, not an order.
_NOT_AN_ORDER = 1e-12


@njit(cache=True, inline="always")
def order_up_to(level, position):  # type: ignore[no-untyped-def]
    """What is to be ordered to raise a position to a level."""
    order = level - position
    # A remainder of rounding is not an order: a cost per order would be charged for it.
    return order if order > _NOT_AN_ORDER * level else 0.0


@njit(cache=True, inline="always")
def arrival(pipeline, order):  # type: ignore[no-untyped-def]
    """Move the pipeline on by a period: put in the order, take out what arrives."""
    if pipeline.shape[0] == 0:
        return order
    arriving = pipeline[0]
    for i in range(pipeline.shape[0] - 1):
        pipeline[i] = pipeline[i + 1]
    pipeline[-1] = order
    return arriving


@njit(cache=True, inline="always")
def sold(stock, demand):  # type: ignore[no-untyped-def]
    """The transition: demand is met as far as the stock allows."""
    return demand if demand < stock else stock


@njit(cache=True, inline="always")
def raised(position, level):  # type: ignore[no-untyped-def]
    """A position after an order up to a level."""
    return position if position > level else level


@njit(cache=True, nogil=True, error_model="numpy")
def pass_periods_in_place(states, orders, demand, offsets, leads, records):  # type: ignore[no-untyped-def]
    """One period of many shops: see :func:`pass_periods`."""
    for i in range(states.shape[0]):
        stock = states[i, 0]
        for source in range(leads.shape[0]):
            lead, first = leads[source], offsets[source]
            if lead == 0:
                stock += orders[i, source]
                continue
            stock += states[i, first]
            for slot in range(first, first + lead - 1):
                states[i, slot] = states[i, slot + 1]
            states[i, first + lead - 1] = orders[i, source]
        sales = sold(stock, demand[i, 0])
        states[i, 0] = stock - sales
        records[i, 0], records[i, 1] = stock, sales


def pass_periods(
    states: Array, orders: Array, demand: Array, offsets: Indices, leads: Indices
) -> Array:
    """One period of shops with any number of sources, ``states`` changed in place.

    Parameters
    ----------
    states : array (n, k). Stock on hand, then the orders under way of each source, oldest first.
    orders : array (n, sources). What each shop orders from each source.
    demand : array (n, 1).
    offsets, leads : arrays (sources,). Where the orders of a source begin, and its lead time.

    Returns
    -------
    array (n, 2) : stock after arrivals, and sales.

    >>> shops = np.array([[1.0, 2.0]])
    >>> pass_periods(shops, np.array([[5.0]]), np.array([[2.5]]), np.array([1]), np.array([1]))
    array([[3. , 2.5]])
    >>> shops
    array([[0.5, 5. ]])
    """
    records = np.empty((len(states), 2))
    pass_periods_in_place(states, orders, demand, offsets, leads, records)
    return records


@njit(cache=True, nogil=True, error_model="numpy")
def _follow_table(state, demand, radius, sizes, table, offsets, leads, states, orders):  # type: ignore[no-untyped-def]
    records = np.empty((1, 2))
    for period in range(demand.shape[0]):
        states[period] = state[0]
        orders[period] = table[nearest_rank(state[0], radius, sizes)]
        now = slice(period, period + 1)
        pass_periods_in_place(state, orders[now], demand[now], offsets, leads, records)


def follow_table(
    state: Array,
    demand: Array,
    radius: float,
    sizes: Indices,
    table: Array,
    offsets: Indices,
    leads: Indices,
) -> tuple[Array, Array]:
    """Periods of one shop that orders what a table says of the nearest state.

    Parameters
    ----------
    state : array (k,). Of the shop before the first period.
    demand : array (n, 1).
    radius, sizes : of the grid, see :func:`iopea.systems.shop.simplex.nearest_ranks`.
    table : array (states of the grid, sources). What to order.
    offsets, leads : see :func:`pass_periods`.

    Returns
    -------
    states, orders : arrays (n, k) and (n, sources). Before each period, and in it.
    """
    states = np.empty((len(demand), len(state)))
    orders = np.empty((len(demand), table.shape[1]))
    _follow_table(state[None].copy(), demand, radius, sizes, table, offsets, leads, states, orders)
    return states, orders
