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
def _operate(order, policies, demand, state, review, first, multiple, minimum, columns):  # type: ignore[no-untyped-def]
    for t in range(demand.shape[0]):
        placed = 0.0
        if (t - first) % review == 0:
            placed = allowed(order(state, policies[t], NO_SIGNAL), multiple, minimum)
        stock = state[0] + arrival(state[1:], placed)
        columns[0, t] = stock
        columns[1, t] = sold(stock, demand[t])
        columns[2, t] = placed
        state[0] = stock - columns[1, t]


@lru_cache(maxsize=64)
def _compiled(order: Any) -> Any:
    return order if hasattr(order, "py_func") else njit(order)


def operate(
    family: OrderingFamily,
    system: LostSalesSystem,
    policy: Array,
    demand: Array,
    state: Array,
    review: int = 1,
    first: int = 0,
) -> Array:
    """Operate a shop; ``state``, on-hand stock and pipeline, is changed in place.

    Parameters
    ----------
    policy : array (d,) or (periods, d). One policy, or one for each period.
    demand : array (periods,).
    review, first : int. Orders are placed every ``review`` periods, at first in this one.

    Returns
    -------
    array (3, periods) : stock after arrivals, sales, and what was ordered at the start.

    >>> from iopea.systems.lost_sales.base_stock import BaseStock
    >>> shop = LostSalesSystem(lead_time=1, holding_cost=1, lost_sales_cost=9)
    >>> levels = BaseStock(levels={"low": 0, "high": 9})
    >>> operate(levels, shop, np.array([5.0]), np.array([1.0, 2.0, 4.0]), np.array([3.0, 0.0]))
    array([[3., 4., 3.],
           [1., 2., 3.],
           [2., 1., 2.]])
    """
    policies = np.broadcast_to(policy, (demand.size, np.shape(policy)[-1]))
    columns = np.empty((3, demand.size))
    terms, rule = system.terms, _compiled(family.rule(system))
    _operate(
        rule, np.ascontiguousarray(policies), demand, state, review, first, terms.multiple,
        terms.minimum, columns,
    )  # fmt: skip
    return columns
