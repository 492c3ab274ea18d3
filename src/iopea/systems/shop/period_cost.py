"""User-defined costs per period, checked before use."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from types import CodeType, FunctionType
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


def fingerprint(function: Any) -> str:
    """Name and code of a function, with the values it uses, so that no state meets another one.

    >>> fingerprint(lambda x: min(x, 1)) == fingerprint(lambda x: max(x, 1))
    False
    """
    plain = getattr(function, "py_func", function)
    digest = hashlib.blake2b(repr(_content(plain, ())).encode(), digest_size=8)
    return f"{plain.__code__.co_name}-{digest.hexdigest()}"


def _content(function: Any, within: tuple[Any, ...]) -> tuple[object, ...]:
    """What a function does: its code, the names and values in it, and the functions it calls."""
    code = function.__code__
    used = [cell.cell_contents for cell in function.__closure__ or ()]
    used += [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    values: list[object] = []
    for value in used:
        plain = getattr(value, "py_func", value)
        if isinstance(plain, FunctionType):
            known = plain in within or plain is function
            values.append(plain.__name__ if known else _content(plain, (*within, function)))
        elif isinstance(value, bool | int | float | complex | str | tuple):
            values.append(value)
    return (*_code(code), function.__defaults__, *values)


def _code(code: CodeType) -> tuple[object, ...]:
    """A code and those inside it, whose addresses differ from run to run."""
    constants = [_code(each) if isinstance(each, CodeType) else each for each in code.co_consts]
    return code.co_code, repr(constants), code.co_names
