"""Compiled transitions of a shop with lost sales.

The state of a shop is a row: on-hand stock, then the pipeline of each source, oldest order first.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from iopea.systems.shop.simplex import nearest_rank
from iopea.types import Array, Indices

#: Differences below this share of the level are rounding, not orders.
_NOT_AN_ORDER = 1e-12
#: Share of a multiple by which an order may fall short of it by rounding.
_SAME_MULTIPLE = 1e-9


@njit(cache=True, inline="always")
def order_up_to(level, position):  # type: ignore[no-untyped-def]
    """The order that raises an inventory position to a level."""
    order = level - position
    # Rounding must not cause an order: a cost per order would be charged for it.
    return order if order > _NOT_AN_ORDER * level else 0.0


@njit(cache=True, inline="always")
def inventory_position(state):  # type: ignore[no-untyped-def]
    """Stock on hand and on order."""
    position = 0.0
    for i in range(state.shape[0]):
        position += state[i]
    return position


@njit(cache=True, inline="always")
def allowed(order, multiple, minimum):  # type: ignore[no-untyped-def]
    """What a supplier delivers of an order: whole multiples, and nothing below a minimum.

    A multiple or minimum of 0 stands for none. Multiples are rounded down, so that no policy holds
    more than it wants. What is no order stays as it is, to be noticed.
    """
    if not order > 0.0:
        return order
    if multiple > 0.0:
        order = multiple * np.floor(order / multiple + _SAME_MULTIPLE)
    return order if order >= minimum * (1.0 - _SAME_MULTIPLE) else 0.0


def delivered(orders: Array, multiple: float, minimum: float) -> Array:
    """What a supplier delivers of each order: see :func:`allowed`.

    >>> delivered(np.array([5.0, 11.9, 12.0]), 6.0, 8.0)
    array([ 0.,  0., 12.])
    """
    if multiple > 0:
        orders = multiple * np.floor(orders / multiple + _SAME_MULTIPLE)
    return np.where(orders >= minimum * (1 - _SAME_MULTIPLE), orders, 0.0) if minimum else orders


@njit(cache=True, inline="always")
def arrival(pipeline, order):  # type: ignore[no-untyped-def]
    """Advance the pipeline by a period: add the order, return the arrival."""
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
    """The inventory position after an order up to a level."""
    return position if position > level else level


@njit(cache=True, nogil=True, error_model="numpy")
def pass_periods_in_place(states, orders, demand, offsets, leads, records):  # type: ignore[no-untyped-def]
    """Advance many shops by a period: see :func:`pass_periods`."""
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
    """Advance shops with any number of sources by a period, ``states`` changed in place.

    Parameters
    ----------
    states : array (n, k). On-hand stock, then the pipeline of each source, oldest order first.
    orders : array (n, sources). Order of each shop from each source.
    demand : array (n, 1). Demand of each shop.
    offsets, leads : arrays (sources,). Where the pipeline of a source begins, and its lead time.

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
    """Simulate one shop whose orders are looked up in a table at the nearest grid state.

    Parameters
    ----------
    state : array (k,). The initial state of the shop.
    demand : array (n, 1). Demand of each period.
    radius, sizes : the grid, see :func:`iopea.systems.shop.simplex.nearest_ranks`.
    table : array (states of the grid, sources). The orders in each grid state.
    offsets, leads : see :func:`pass_periods`.

    Returns
    -------
    states, orders : arrays (n, k) and (n, sources). State before each period, and its orders.
    """
    states = np.empty((len(demand), len(state)))
    orders = np.empty((len(demand), table.shape[1]))
    _follow_table(state[None].copy(), demand, radius, sizes, table, offsets, leads, states, orders)
    return states, orders
