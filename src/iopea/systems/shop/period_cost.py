"""User-defined costs per period, checked before use."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np
from numba import njit

from iopea.errors import InputError
from iopea.types import Array, PeriodCost


def try_out(cost: PeriodCost, bound: float, high: float) -> None:
    """Refuse a cost that can't be computed or exceeds its bound at simple points."""
    for stock, sales, order in ((0.0, 0.0, 0.0), (high, 0.0, 0.0), (high, high, high)):
        try:
            value = float(cost(stock, sales, order))
        except Exception as error:
            raise InputError(
                f"period_cost must give a number for (stock, sales, order), but at "
                f"({stock}, {sales}, {order}) it raised: {error}."
            ) from None
        if not abs(value) <= bound:
            raise InputError(
                f"period_cost is {value} at ({stock}, {sales}, {order}), beyond the cost_bound of "
                f"{bound}."
            )


@lru_cache(maxsize=64)
def _compiled(cost: PeriodCost) -> Any:
    """A cost of one period as a compiled function of arrays."""
    scalar: Any = cost if hasattr(cost, "py_func") else njit(cost)

    def every(stock, sales, orders, costs):  # type: ignore[no-untyped-def]
        for t in range(stock.shape[0]):
            costs[t] = scalar(stock[t], sales[t], orders[t])

    compile_it: Any = njit(nogil=True)
    return compile_it(every)


def cost_of_each(cost: PeriodCost, stock: Array, sales: Array, orders: Array) -> Array:
    """The cost of each period.

    >>> cost_of_each(lambda stock, sales, order: 5.0 if order > 0 else 0.0,
    ...              np.ones(2), np.ones(2), np.array([0.0, 2.0]))
    array([0., 5.])
    """
    costs = np.empty(stock.size)
    _compiled(cost)(stock, sales, orders, costs)
    return costs


def fingerprint(cost: PeriodCost) -> str:
    """Name and code of a cost, so that a state is not loaded with another one."""
    code = getattr(cost, "py_func", cost).__code__
    # Functions inside the function show as addresses, which differ from run to run.
    constants = [value for value in code.co_consts if not isinstance(value, CodeType)]
    digest = hashlib.blake2b(code.co_code + repr(constants).encode(), digest_size=8)
    return f"{code.co_name}-{digest.hexdigest()}"
