"""What the problems of a shop have in common: levels, records of sales, the time to sell."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from pydantic import model_validator

from iopea.demand import Demand
from iopea.errors import InputError
from iopea.model import Model, NonNegative, Positive
from iopea.seeds import seed_for
from iopea.types import Array

#: Longest lead time: more would be a mistake of units.
MOST_LEAD_TIME = 10_000
#: Share of the largest level by which records may differ from what the orders explain.
TOLERANCE = 5e-3
#: Periods of demand from which the time back to the empty shop is estimated.
_RESTART_PERIODS = 200_000


class Levels(Model):
    """The range of base-stock levels, in whole steps where one is given."""

    low: NonNegative
    high: NonNegative
    step: Positive | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"Levels need low <= high, but low is {self.low} > {self.high}.")
        return self


def as_levels(value: Any) -> Levels:
    """Levels from the table of a problem file, or as they are."""
    if isinstance(value, Levels):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"must be a table such as {{ low = 0.0, high = 7.0 }}, not {value!r}.")
    return Levels(**value)


def check_sales(stock: Array, sales: Array) -> None:
    """Refuse negative values and sales above the stock that was there."""
    for name, values in (("stock", stock), ("sales", sales)):
        if values.size and values.min() < 0:
            step = int(values.argmin())
            raise InputError(f"{name} is {values[step]} at step {step}: it can't be negative.")
    above = np.flatnonzero(sales > stock)
    if above.size:
        step = int(above[0])
        raise InputError(
            f"sales are {sales[step]} at step {step}, above the {stock[step]} in stock: "
            "they can be at most that."
        )


def time_to_sell(demand: Demand, seed: int) -> float:
    """Expected periods until demand adds up to 1 [E(τ)], on one long path; infinite if never."""
    path = demand.stream(seed_for("restart", seed)).draw(_RESTART_PERIODS)
    passages, periods, total = 0, 0, 0.0
    for period, wanted in enumerate(path.tolist(), start=1):
        total += wanted
        if total >= 1:
            passages, periods, total = passages + 1, period, 0.0
    return periods / passages if passages else np.inf
