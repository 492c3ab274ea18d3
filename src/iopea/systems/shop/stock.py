"""What stock does in a period, wherever there is any."""

from __future__ import annotations

from numba import njit


@njit(cache=True, inline="always")
def sold(stock, demand):  # type: ignore[no-untyped-def]
    """The transition: demand is met as far as the stock allows."""
    return demand if demand < stock else stock


@njit(cache=True, inline="always")
def raised(position, level):  # type: ignore[no-untyped-def]
    """A position after an order up to a level."""
    return position if position > level else level
