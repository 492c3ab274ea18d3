"""Costs that users write themselves, checked before anything runs on them."""

from __future__ import annotations

import hashlib
from types import CodeType

from iopea.types import PeriodCost


def try_out(cost: PeriodCost, bound: float, high: float) -> None:
    """Refuse a cost that can't be computed or exceeds its bound at simple points."""
    for stock, sales, order in ((0.0, 0.0, 0.0), (high, 0.0, 0.0), (high, high, high)):
        try:
            value = float(cost(stock, sales, order))
        except Exception as error:
            raise ValueError(
                f"Period_cost must give a number for (stock, sales, order), but at "
                f"({stock}, {sales}, {order}) it raised: {error}."
            ) from None
        if not abs(value) <= bound:
            raise ValueError(
                f"Period_cost is {value} at ({stock}, {sales}, {order}), beyond the cost_bound of "
                f"{bound}."
            )


def fingerprint(cost: PeriodCost) -> str:
    """Name and code of a cost, so that a state is not loaded under another one."""
    code = getattr(cost, "py_func", cost).__code__
    # Functions inside the function show as addresses, which differ from run to run.
    constants = [value for value in code.co_consts if not isinstance(value, CodeType)]
    digest = hashlib.blake2b(code.co_code + repr(constants).encode(), digest_size=8)
    return f"{code.co_name}-{digest.hexdigest()}"
