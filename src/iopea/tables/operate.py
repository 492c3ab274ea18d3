"""One shop operated period by period, with orders every few periods: compiled for any family."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit

from iopea.systems.lost_sales.system import LostSalesSystem
from iopea.systems.shop.family import OrderingFamily
from iopea.systems.shop.kernel import allowed, arrival, sold
from iopea.systems.shop.rule import NO_SIGNAL
from iopea.types import Array


@njit(nogil=True, error_model="numpy")
def _operate(order, policies, demand, start, review, first, multiple, minimum, columns):  # type: ignore[no-untyped-def]
    state = np.empty(start.shape[0])
    for k in range(demand.shape[0]):
        state[:] = start
        for t in range(demand.shape[1]):
            placed = 0.0
            if (t - first) % review == 0:
                placed = allowed(order(state, policies[t], NO_SIGNAL), multiple, minimum)
            stock = state[0] + arrival(state[1:], placed)
            columns[0, k, t] = stock
            columns[1, k, t] = sold(stock, demand[k, t])
            columns[2, k, t] = placed
            state[0] = stock - columns[1, k, t]


@njit(nogil=True, error_model="numpy")
def _stocks(order, policies, demand, length, review, multiple, minimum, first, share, found):  # type: ignore[no-untyped-def]
    state, stocks = np.empty(length), np.empty(demand.shape[0])
    for k in range(policies.shape[0]):
        state[:] = 0.0
        for t in range(demand.shape[0]):
            placed = 0.0
            if t % review == 0:
                placed = allowed(order(state, policies[k], NO_SIGNAL), multiple, minimum)
            stocks[t] = state[0] + arrival(state[1:], placed)
            state[0] = stocks[t] - sold(stocks[t], demand[t])
        last = np.sort(stocks[first:])
        found[k] = last[min(int(share * last.shape[0]), last.shape[0] - 1)]


@lru_cache(maxsize=64)
def _compiled(order: Any) -> Any:
    return order if hasattr(order, "py_func") else njit(order)


def stocks_of(
    family: OrderingFamily,
    system: LostSalesSystem,
    policies: Array,
    demand: Array,
    review: int,
    first: int,
    share: float,
) -> Array:
    """The stock that each policy, a row, has at most in this share of the periods from one on.

    >>> from iopea.systems.lost_sales.base_stock import BaseStock
    >>> shop = LostSalesSystem(lead_time=2, holding_cost=1, lost_sales_cost=9)
    >>> levels = BaseStock(levels={"low": 0, "high": 9})
    >>> stocks_of(levels, shop, np.array([[9.0], [4.0]]), np.full(40, 2.0), 1, 10, 0.9)
    array([5., 2.])
    """
    found = np.empty(len(policies))
    terms, rule = system.terms, _compiled(family.rule(system))
    _stocks(
        rule, np.ascontiguousarray(policies), demand, 1 + system.lead_time, review,
        terms.multiple, terms.minimum, first, share, found,
    )  # fmt: skip
    return found


def operate(
    family: OrderingFamily,
    system: LostSalesSystem,
    policy: Array,
    demand: Array,
    state: Array,
    review: int = 1,
    first: int = 0,
) -> Array:
    """Operate a shop from a state: on-hand stock, and the pipeline, oldest order first.

    Parameters
    ----------
    policy : array (d,) or (periods, d). One policy, or one for each period.
    demand : array (periods,) or (k, periods). One path, or several, each from the same state.
    review, first : int. Orders are placed every ``review`` periods, at first in this one.

    Returns
    -------
    array (3, ...) : stock after arrivals, sales, and what was ordered at the start, as ``demand``.

    >>> from iopea.systems.lost_sales.base_stock import BaseStock
    >>> shop = LostSalesSystem(lead_time=1, holding_cost=1, lost_sales_cost=9)
    >>> levels = BaseStock(levels={"low": 0, "high": 9})
    >>> operate(levels, shop, np.array([5.0]), np.array([1.0, 2.0, 4.0]), np.array([3.0, 0.0]))
    array([[3., 4., 3.],
           [1., 2., 3.],
           [2., 1., 2.]])
    """
    paths = np.atleast_2d(demand)
    policies = np.broadcast_to(policy, (paths.shape[1], np.shape(policy)[-1]))
    columns = np.empty((3, *paths.shape))
    terms, rule = system.terms, _compiled(family.rule(system))
    _operate(
        rule, np.ascontiguousarray(policies), paths, state, review, first, terms.multiple,
        terms.minimum, columns,
    )  # fmt: skip
    return columns.reshape(3, *demand.shape)
