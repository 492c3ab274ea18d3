"""Compiled loops over periods for any ordering rule.

A rule is scalar Python: ``order(state, parameters, signal)`` returns the order, or a tuple with one
order for each source. It is compiled together with the loop that calls it, once per process and
rule. Families with a closed form have faster kernels; all others use these loops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit
from numba.core.errors import NumbaError

from iopea.errors import InputError
from iopea.systems.shop.kernel import pass_periods_in_place
from iopea.systems.shop.threads import in_threads
from iopea.types import Array, Indices, PeriodCost, show_policy

#: The signal where there is no information on future periods.
NO_SIGNAL = np.zeros(0)
#: Policies advanced together.
BLOCK = 64


@njit(inline="always")
def place(state, parameters, signal, orders):  # type: ignore[no-untyped-def]
    """Write the orders of a rule; replaced by :func:`_compiled`."""
    orders[0, 0] = 0.0


@njit(inline="always")
def own_cost(stock, sales, order):  # type: ignore[no-untyped-def]
    """The user's cost besides holding and lost sales; replaced by :func:`_compiled`."""
    return 0.0


def _orders(states, policies, signal, orders):  # type: ignore[no-untyped-def]
    for i in range(states.shape[0]):
        place(states[i], policies[i], signal, orders[i : i + 1])


def _play(parameters, signal, demand, state, offsets, leads, until_empty, before, columns):  # type: ignore[no-untyped-def]
    """Play one policy on the real system; return the periods played.

    The state before each period is written to the rows of ``before``, of which there may be none.
    """
    orders = np.empty((1, leads.shape[0]))
    records = np.empty((1, 2))
    for t in range(demand.shape[0]):
        if until_empty and state.sum() <= 0.0:
            return t
        for i in range(before.shape[0]):
            before[i, t] = state[0, i]
        place(state[0], parameters, signal, orders)
        pass_periods_in_place(state, orders, demand[t : t + 1], offsets, leads, records)
        columns[0, t], columns[1, t] = records[0, 0], records[0, 1]
        for source in range(leads.shape[0]):
            columns[2 + source, t] = orders[0, source]
    return demand.shape[0]


def _follow(parameters, signal, state, stock, sales, offsets, leads, tolerance, bad):  # type: ignore[no-untyped-def]
    """Track the real system by its records, and mark periods inconsistent with the orders."""
    orders = np.empty((1, leads.shape[0]))
    records = np.empty((1, 2))
    nothing = np.zeros((1, 1))
    for t in range(stock.shape[0]):
        place(state[0], parameters, signal, orders)
        pass_periods_in_place(state, orders, nothing, offsets, leads, records)
        there = state[0, 0]
        if abs(there - stock[t]) > tolerance:
            bad[t] = True
            there = stock[t]
        # Within the tolerance the expected stock is used: rounding of records would add up.
        state[0, 0] = max(there - sales[t], 0.0) if sales[t] < stock[t] else 0.0


def _replay(  # type: ignore[no-untyped-def]
    demand, most, policies, signal, states, offsets, leads, costs, on_orders, totals, start, stop,
    charged,
):  # fmt: skip
    holding, price = costs
    orders = np.empty((1, leads.shape[0]))
    records = np.empty((1, 2))
    for j in range(start, stop):
        state = states[j : j + 1]
        total, periods = totals[0, j], totals[1, j]
        for t in range(demand.shape[0]):
            place(state[0], policies[j], signal, orders)
            there = state[0, 0]
            for source in range(leads.shape[0]):
                there += state[0, offsets[source]] if leads[source] > 0 else orders[0, source]
            if there > most[t]:
                continue
            pass_periods_in_place(state, orders, demand[t : t + 1], offsets, leads, records)
            stock, sales = records[0, 0], records[0, 1]
            total += holding * (stock - sales) - price * sales
            for source in range(leads.shape[0]):
                total += on_orders[source] * orders[0, source]
            if charged:
                total += own_cost(stock, sales, orders[0, 0])
            periods += 1.0
        totals[0, j], totals[1, j] = total, periods


def _placing(order: Any, sources: int) -> Callable[..., Any]:
    """A function that writes the orders of a rule, for one source or several."""
    rule = order if hasattr(order, "py_func") else njit(order)
    if sources == 1:

        def one(state, parameters, signal, orders):  # type: ignore[no-untyped-def]
            orders[0, 0] = rule(state, parameters, signal)

        return one

    def several(state, parameters, signal, orders):  # type: ignore[no-untyped-def]
        placed = rule(state, parameters, signal)
        for source in range(orders.shape[1]):
            orders[0, source] = placed[source]

    return several


@lru_cache(maxsize=256)
def _compiled(kernel: FunctionType, order: Any, sources: int, own: PeriodCost | None = None) -> Any:
    """A loop, compiled with a rule and the user's own cost."""
    names = {**kernel.__globals__, "place": njit(_placing(order, sources))}
    if own is not None:
        names["own_cost"] = own if hasattr(own, "py_func") else njit(own)
    bound = FunctionType(kernel.__code__, names, kernel.__name__)
    return njit(nogil=True, error_model="numpy")(bound)


def _reason(error: Exception) -> str:
    """The most informative line of a compiler error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "rror" in line or "nknown" in line or "nvalid" in line]
    return (causes or lines or ["nothing"])[0]


def try_rule(order: Any, state: Array, policy: Array, sources: int) -> None:
    """Refuse a rule that fails, changes what it is given, or orders what can't be ordered."""
    rule = getattr(order, "py_func", order)
    held, parameters = state.copy(), policy.copy()
    where = f"for policy {show_policy(tuple(policy))} in the state {state.tolist()}"
    try:
        placed = rule(held, parameters, NO_SIGNAL)
    except InputError:
        raise
    except Exception as error:  # whatever a user's function may raise
        raise InputError(
            f"The rule order(state, parameters, signal) failed {where}: {error}."
        ) from None
    if not (np.array_equal(held, state) and np.array_equal(parameters, policy)):
        raise InputError(
            f"The rule changed its state or parameters {where}: it may only read them."
        )
    try:
        orders = np.atleast_1d(np.asarray(placed, dtype=np.float64))
    except (TypeError, ValueError):
        orders = np.full(1, np.nan)
    if orders.shape != (sources,) or not ((orders >= 0) & np.isfinite(orders)).all():
        expected = "an order" if sources == 1 else f"a tuple of {sources} orders"
        raise InputError(
            f"The rule gives {placed!r} {where}: it must give {expected}, finite and at least 0."
        )


def _refuse_wrong(policy: Array, orders: Array) -> None:
    """Refuse negative orders and those that are not finite."""
    wrong = ~((orders >= 0) & np.isfinite(orders))
    if wrong.any():
        raise InputError(
            f"The rule of policy {show_policy(tuple(policy))} orders {orders[wrong][0]}: an order "
            "must be a finite number of at least 0."
        )


class CompiledRule:
    """An ordering rule with the loops that it is compiled into.

    Parameters
    ----------
    order : callable. ``order(state, parameters, signal)``, returning a number or a tuple of them.
    offsets, leads : arrays (sources,). Where the pipeline of a source begins in a state, and its
        lead time; see :func:`iopea.systems.shop.kernel.pass_periods`.
    own : callable, optional. A further cost of (stock after arrivals, sales, order) per period.

    Examples
    --------
    >>> def up_to(state, parameters, signal):
    ...     return max(parameters[0] - state.sum(), 0.0)
    >>> rule = CompiledRule(up_to, np.array([1]), np.array([1]))
    >>> rule.orders(np.array([[3.0]]), np.array([[1.0, 0.5]]))
    array([[1.5]])
    """

    def __init__(
        self, order: Any, offsets: Indices, leads: Indices, own: PeriodCost | None = None
    ) -> None:
        self._order, self._own = order, own
        self._places = (offsets, leads)

    def _loop(self, kernel: Any, own: PeriodCost | None = None) -> Callable[..., Any]:
        """A loop with this rule; a rule that can't be compiled is refused in a sentence."""
        sources = self._places[1].size
        compiled = _compiled(kernel, self._order, sources, own)

        def call(*arguments: Any) -> Any:
            try:
                return compiled(*arguments)
            except NumbaError as error:
                expected = "a number" if sources == 1 else f"a tuple of {sources} numbers"
                raise InputError(
                    "The rule order(state, parameters, signal) can't be compiled: it must be plain "
                    f"scalar Python that returns {expected}. Numba says: {_reason(error)}"
                ) from None

        return call

    def orders(self, policies: Array, states: Array, signal: Array = NO_SIGNAL) -> Array:
        """Orders of policies, an array (n, d), in states, an array (n, k): (n, sources)."""
        orders = np.empty((len(states), self._places[1].size))
        parameters = np.ascontiguousarray(
            np.broadcast_to(policies, (len(states), policies.shape[1]))
        )
        self._loop(_orders)(np.ascontiguousarray(states), parameters, signal, orders)
        return orders

    def roll_out(
        self,
        policy: Array,
        demand: Array,
        state: Array,
        until_empty: bool = False,
        signal: Array = NO_SIGNAL,
    ) -> Array:
        """Play a policy on the real system, whose ``state`` (1, k) is changed in place.

        Returns
        -------
        array (2 + sources, periods played) : stock after arrivals, sales, and the orders.
        """
        columns, _ = self._play(policy, demand, state, until_empty, 0, signal)
        return columns

    def trace(self, policy: Array, demand: Array, state: Array, signal: Array = NO_SIGNAL) -> Array:
        """Play a policy, and also record the state before each period.

        Returns
        -------
        array (k + sources + 2, periods) : the state, the orders, stock after arrivals and sales.
        """
        columns, before = self._play(policy, demand, state, False, state.shape[1], signal)
        return np.concatenate([before, columns[2:], columns[:2]])

    def _play(
        self,
        policy: Array,
        demand: Array,
        state: Array,
        until_empty: bool,
        rows: int,
        signal: Array,
    ) -> tuple[Array, Array]:
        """Stock, sales and orders of each period, and so many rows of the state before it."""
        columns = np.empty((2 + self._places[1].size, demand.size))
        before = np.empty((rows, demand.size))
        played = self._loop(_play)(
            policy, signal, demand[:, None], state, *self._places, until_empty, before, columns
        )
        _refuse_wrong(policy, columns[2:, :played])
        return columns[:, :played], before[:, :played]

    def follow(
        self,
        policy: Array,
        state: Array,
        stock: Array,
        sales: Array,
        tolerance: float,
        signal: Array = NO_SIGNAL,
    ) -> int:
        """Track the real system by its records, ``state`` (1, k) changed in place.

        Returns
        -------
        int : number of periods whose stock is inconsistent with the orders.
        """
        bad = np.zeros(stock.size, dtype=np.bool_)
        self._loop(_follow)(policy, signal, state, stock, sales, *self._places, tolerance, bad)
        return int(bad.sum())

    def replay(
        self,
        demand: Array,
        policies: Array,
        states: Array,
        totals: Array,
        costs: tuple[float, float],
        on_orders: Array,
        most: Array | None = None,
        threads: int = 1,
        signal: Array = NO_SIGNAL,
    ) -> None:
        """Advance policies along one demand path, their ``states`` (n, k) changed in place.

        Parameters
        ----------
        demand : array (periods,). The demand path, common to all policies.
        policies : array (n, d).
        totals : array (2, n). Changed in place: the cost of each policy, without the term p D_t
            that no order changes, and the number of periods that count for it.
        costs : holding and lost-sales cost per unit [h, p].
        on_orders : array (sources,). Cost per unit ordered.
        most : array (periods,), optional. The largest stock after arrivals that a period is
            informative about; policies with more stock wait for a later one.
        """
        loop = self._loop(_replay, self._own)
        limits = np.full(demand.size, np.inf) if most is None else most

        def advance(start: int, stop: int) -> None:
            loop(
                demand[:, None], limits, policies, signal, states, *self._places, costs, on_orders,
                totals, start, stop, self._own is not None,
            )  # fmt: skip

        in_threads(advance, len(policies), demand.size, BLOCK, threads)
