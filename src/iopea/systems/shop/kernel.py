"""Compiled steps of many copies of a system at once, each with an action of its own."""

from __future__ import annotations

import numpy as np
from numba import njit

from iopea.systems.queue.kernel import ARRIVAL, MISS, NOTHING, SERVICE, next_step
from iopea.systems.shop.simplex import nearest_rank
from iopea.systems.shop.stock import sold
from iopea.types import Array, Indices


@njit(cache=True, nogil=True, error_model="numpy")
def _pass_periods(states, orders, demand, offsets, leads, records):  # type: ignore[no-untyped-def]
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
    _pass_periods(states, orders, demand, offsets, leads, records)
    return records


@njit(cache=True, nogil=True, error_model="numpy")
def _follow_table(state, demand, radius, sizes, table, offsets, leads, states, orders):  # type: ignore[no-untyped-def]
    records = np.empty((1, 2))
    for period in range(demand.shape[0]):
        states[period] = state[0]
        orders[period] = table[nearest_rank(state[0], radius, sizes)]
        now = slice(period, period + 1)
        _pass_periods(state, orders[now], demand[now], offsets, leads, records)


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


@njit(cache=True, nogil=True, error_model="numpy")
def _pass_events(states, rates, draws, births, deadline_rate, uniform_rate, records):  # type: ignore[no-untyped-def]
    continuous = draws.shape[1] == 2
    for i in range(states.shape[0]):
        jobs = int(states[i, 0])
        event, time = next_step(
            jobs, rates[i, 0], draws[i, 0], draws[i, -1], continuous, births, deadline_rate,
            uniform_rate,
        )  # fmt: skip
        records[i, 0], records[i, 1] = jobs, time
        records[i, 2] = event == ARRIVAL
        records[i, 3] = event == SERVICE
        records[i, 4] = event == MISS
        if event == ARRIVAL:
            states[i, 0] += 1
        elif event != NOTHING:
            states[i, 0] -= 1


def pass_events(
    states: Array,
    rates: Array,
    draws: Array,
    births: Array,
    deadline_rate: float,
    uniform_rate: float,
) -> Array:
    """One step of queues, ``states`` changed in place.

    Parameters
    ----------
    states, rates : arrays (n, 1). Jobs in each queue, and the service rate chosen there.
    draws : array (n, 1) or (n, 2). Uniform numbers, as :func:`iopea.systems.queue.kernel.roll_out` has
        them.
    births : array (L + 1,). Arrival rate by state.

    Returns
    -------
    array (n, 5) : jobs, time, and whether there was an arrival, a service or a miss.
    """
    records = np.empty((len(states), 5))
    _pass_events(states, rates, draws, births, deadline_rate, uniform_rate, records)
    return records
