"""Compiled loops over periods for any ordering rule.

A rule is scalar Python: ``order(state, parameters, signal)`` returns the order, or a tuple with one
order for each source. It is compiled together with the loop that calls it, once per process and
rule. Families with a closed form have faster kernels; all others use these loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from types import CellType, FunctionType
from typing import Any

import numpy as np
from numba import njit, typeof

from iopea.errors import InputError
from iopea.systems.shop.kernel import allowed, pass_periods_in_place, sold
from iopea.systems.shop.threads import in_threads
from iopea.types import Array, Indices, PeriodCost, show_policy

#: The signal where there is no information on future periods.
NO_SIGNAL = np.zeros(0)
#: Policies advanced together by a thread.
BLOCK = 64
#: Policies advanced together by a processor.
LANES = 32
#: What :func:`_simulate` is compiled for: numbers in a state and of parameters, sources, where
#: their pipelines begin and how long they are, and what is charged or checked besides.
WIDE, PARAMETERS, SOURCES, FIRST, LEAD, SECOND, LEAD_2 = 1, 1, 1, 1, 0, 1, 0
LIMITED = CHARGED = FIXED = PAID = False
#: Loops that have been compiled, by what they were compiled of.
_READY: dict[Any, Any] = {}


@dataclass(frozen=True)
class Terms:
    """Costs and terms of the suppliers of a shop, as the compiled loops take them.

    Attributes
    ----------
    holding, lost : float. Cost per unit left over, and per unit of lost demand [h, p].
    on_orders : tuple of float. Cost per unit ordered from each source.
    fixed : float. Cost of each order from the first source [K].
    multiple, minimum : float. What orders are multiples of, and the least order; 0 for none.
    own : callable, optional. A further cost of (stock after arrivals, sales, order) per period.
    """

    holding: float
    lost: float
    on_orders: tuple[float, ...] = (0.0,)
    fixed: float = 0.0
    multiple: float = 0.0
    minimum: float = 0.0
    own: PeriodCost | None = None

    @property
    def limited(self) -> bool:
        """Whether a supplier does not deliver just what is ordered."""
        return self.multiple > 0 or self.minimum > 0

    @property
    def stock(self) -> Terms:
        """Terms under which the cost of a period is the stock after arrivals."""
        free = (0.0,) * len(self.on_orders)
        return replace(self, holding=1.0, lost=-1.0, on_orders=free, fixed=0.0, own=None)

    def numbers(self) -> Array:
        """Costs and limits as an array: h, p, K, the multiple, the minimum, then on orders."""
        return np.array(
            [self.holding, self.lost, self.fixed, self.multiple, self.minimum, *self.on_orders]
        )


@njit(inline="always")
def ordered(state, parameters, signal):  # type: ignore[no-untyped-def]
    """The orders of a rule from both sources; replaced by :func:`_compiled`."""
    return 0.0, 0.0


@njit(inline="always")
def place(state, parameters, signal, terms, orders):  # type: ignore[no-untyped-def]
    """Write what is delivered of the orders of a rule."""
    one, other = ordered(state, parameters, signal)
    orders[0, 0] = allowed(one, terms[3], terms[4])
    if orders.shape[1] > 1:
        orders[0, 1] = allowed(other, terms[3], terms[4])


@njit(inline="always")
def own_cost(stock, sales, order):  # type: ignore[no-untyped-def]
    """The user's cost besides holding and lost sales; replaced by :func:`_compiled`."""
    return 0.0


def _orders(states, policies, signal, terms, orders):  # type: ignore[no-untyped-def]
    for i in range(states.shape[0]):
        place(states[i], policies[i], signal, terms, orders[i : i + 1])


def _play(  # type: ignore[no-untyped-def]
    parameters, signal, terms, demand, state, offsets, leads, until_empty, before, columns
):
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
        place(state[0], parameters, signal, terms, orders)
        pass_periods_in_place(state, orders, demand[t : t + 1], offsets, leads, records)
        columns[0, t], columns[1, t] = records[0, 0], records[0, 1]
        for source in range(leads.shape[0]):
            columns[2 + source, t] = orders[0, source]
    return demand.shape[0]


def _follow(  # type: ignore[no-untyped-def]
    parameters, signal, terms, state, stock, sales, offsets, leads, tolerance, bad
):
    """Track the real system by its records, and mark periods inconsistent with the orders."""
    orders = np.empty((1, leads.shape[0]))
    records = np.empty((1, 2))
    nothing = np.zeros((1, 1))
    for t in range(stock.shape[0]):
        place(state[0], parameters, signal, terms, orders)
        pass_periods_in_place(state, orders, nothing, offsets, leads, records)
        there = state[0, 0]
        if abs(there - stock[t]) > tolerance:
            bad[t] = True
            there = stock[t]
        # Within the tolerance the expected stock is used: rounding of records would add up.
        state[0, 0] = max(there - sales[t], 0.0) if sales[t] < stock[t] else 0.0


def _replay(  # type: ignore[no-untyped-def]
    demand, most, policies, signal, states, offsets, leads, terms, totals, start, stop
):
    """Advance policies along a path, each over the periods that inform it."""
    orders = np.empty((1, leads.shape[0]))
    records = np.empty((1, 2))
    for j in range(start, stop):
        state = states[j : j + 1]
        total, periods = totals[0, j], totals[1, j]
        for t in range(demand.shape[0]):
            place(state[0], policies[j], signal, terms, orders)
            there = state[0, 0]
            for source in range(leads.shape[0]):
                there += state[0, offsets[source]] if leads[source] > 0 else orders[0, source]
            if there > most[t]:
                continue
            pass_periods_in_place(state, orders, demand[t : t + 1], offsets, leads, records)
            stock, sales = records[0, 0], records[0, 1]
            total += terms[0] * (stock - sales) - terms[1] * sales
            for source in range(leads.shape[0]):
                total += terms[5 + source] * orders[0, source]
            if orders[0, 0] > 0.0:
                total += terms[2]
            if CHARGED:
                total += own_cost(stock, sales, orders[0, 0])
            periods += 1.0
        totals[0, j], totals[1, j] = total, periods


def _simulate(demand, ends, policies, signal, states, terms, sums, sound, start, stop):  # type: ignore[no-untyped-def]
    """Batch costs of policies on a common path; all lanes do the same, in vector instructions."""
    # Rows: the states, the parameters, the cost, and the least order.
    costs, least = WIDE + PARAMETERS, WIDE + PARAMETERS + 1
    work = np.empty((WIDE + PARAMETERS + 2, LANES))
    holding, lost, fixed, multiple, minimum = terms[0], terms[1], terms[2], terms[3], terms[4]
    on_first = terms[5]
    on_second = terms[6] if SOURCES > 1 else 0.0
    for first in range(start, stop, LANES):
        width = min(LANES, stop - first)
        for j in range(LANES):
            column = first + min(j, width - 1)  # lanes that are left over repeat the last policy
            for i in range(WIDE):
                work[i, j] = states[i, column]
            for i in range(PARAMETERS):
                work[WIDE + i, j] = policies[i, column]
            work[least, j] = 0.0
        period = 0
        for batch in range(ends.shape[0]):
            for j in range(LANES):
                work[costs, j] = 0.0
            for t in range(period, ends[batch]):
                wanted = demand[t]
                for j in range(LANES):
                    one, other = ordered(work[:WIDE, j], work[WIDE:costs, j], signal)
                    if LIMITED:
                        one = allowed(one, multiple, minimum)
                        other = allowed(other, multiple, minimum)
                    stock = work[0, j]
                    if LEAD == 0:
                        stock += one
                    else:
                        stock += work[FIRST, j]
                        for i in range(FIRST, FIRST + LEAD - 1):
                            work[i, j] = work[i + 1, j]
                        work[FIRST + LEAD - 1, j] = one
                    if SOURCES > 1:
                        stock += work[SECOND, j]
                        for i in range(SECOND, SECOND + LEAD_2 - 1):
                            work[i, j] = work[i + 1, j]
                        work[SECOND + LEAD_2 - 1, j] = other
                    sales = sold(stock, wanted)
                    left = stock - sales
                    work[0, j] = left
                    cost = holding * left - lost * sales
                    if PAID:
                        cost += on_first * one + on_second * other
                    if FIXED:
                        cost += fixed if one > 0.0 else 0.0
                    if CHARGED:
                        cost += own_cost(stock, sales, one)
                    less = one if one < other else other
                    if SOURCES == 1:
                        less = one
                    work[least, j] = less if less < work[least, j] else work[least, j]
                    work[costs, j] += cost
            period = ends[batch]
            for j in range(width):
                sums[batch, first + j] = work[costs, j]
        for j in range(width):
            # An order that is no finite number stays in the costs.
            sound[first + j] = work[least, j] >= 0.0 and np.isfinite(work[costs, j])
            for i in range(WIDE):
                states[i, first + j] = work[i, j]


@njit(inline="always")
def _least(one, other):  # type: ignore[no-untyped-def]
    """The lesser of two numbers, as Python's ``min`` has it, in a form that is vectorised."""
    return other if other < one else one


@njit(inline="always")
def _most(one, other):  # type: ignore[no-untyped-def]
    """The larger of two numbers, as Python's ``max`` has it."""
    return other if other > one else one


#: How a rule is compiled, the fastest way first: inlined, with minima and maxima of two numbers;
#: inlined; as a function that is called.
_WAYS = ("vectorised", "inlined", "called")


def _prepared(function: Any, way: str) -> Any:
    """A rule, and the functions it is made of, compiled in one of the ways."""
    plain: FunctionType = getattr(function, "py_func", function)
    names = dict(plain.__globals__)
    if way == "vectorised":
        names |= {name: each for name, each in (("min", _least), ("max", _most))
                  if name not in names}  # fmt: skip
    cells = plain.__closure__ or ()
    values = [cell.cell_contents for cell in cells]
    closure = tuple(
        CellType(_prepared(value, way)) if isinstance(value, FunctionType) else cell
        for value, cell in zip(values, cells, strict=True)
    )
    own = FunctionType(plain.__code__, names, plain.__name__, plain.__defaults__, closure)
    return njit(own) if way == "called" else njit(inline="always")(own)


def _ordering(order: Any, sources: int, way: str) -> Any:
    """A function that gives the orders of a rule from two sources, or 0 for want of a second."""
    rule = _prepared(order, way)
    if sources == 1:

        def one(state, parameters, signal):  # type: ignore[no-untyped-def]
            return float(rule(state, parameters, signal)), 0.0

        return njit(inline="always")(one)

    def several(state, parameters, signal):  # type: ignore[no-untyped-def]
        fast, slow = rule(state, parameters, signal)
        return float(fast), float(slow)

    return njit(inline="always")(several)


@lru_cache(maxsize=256)
def _compiled(
    kernel: FunctionType,
    order: Any,
    sources: int,
    own: PeriodCost | None = None,
    constants: tuple[tuple[str, int], ...] = (),
    way: str = _WAYS[0],
) -> Any:
    """A loop, compiled with a rule, the user's own cost and constants."""
    rule = _ordering(order, sources, way)
    names = {**kernel.__globals__, "ordered": rule, "CHARGED": own is not None, **dict(constants)}
    if own is not None:
        names["own_cost"] = own if hasattr(own, "py_func") else njit(own)
    if kernel is not _simulate:
        placing = FunctionType(place.py_func.__code__, names, "place")
        names["place"] = njit(inline="always")(placing)
    bound = FunctionType(kernel.__code__, names, kernel.__name__)
    return njit(nogil=True, error_model="numpy")(bound)


#: Words in the lines of a compiler error that say what it is about, the most telling first.
_TELLING = ("nknown attribute", "ntyped global", "o implementation", "not supported", "nsupported",
            "nvalid use", "annot determine", "annot unify", "rror")  # fmt: skip


def _reason(error: Exception) -> str:
    """The most informative line of a compiler error."""
    lines = [line.strip().rstrip(":") for line in str(error).splitlines() if line.strip()]
    for words in _TELLING:
        for line in lines:
            if words in line and not line.startswith(("Failed in", "Rejected as", "During")):
                return line
    return (lines or [type(error).__name__])[0]


def try_rule(
    order: Any, state: Array, policy: Array, sources: int, name: str = "rule", verb: str = "gives"
) -> Array:
    """The orders of a rule, called as it is written.

    A rule is refused if it fails, changes what it is given, or orders what can't be ordered.
    """
    rule = getattr(order, "py_func", order)
    held, parameters = state.copy(), policy.copy()
    where = f"for policy {show_policy(tuple(policy))} in the state {state.tolist()}"
    try:
        placed = rule(held, parameters, NO_SIGNAL)
    except InputError:
        raise
    except Exception as error:  # whatever a user's function may raise
        raise InputError(f"The {name} failed {where}: {error}.") from None
    if not (np.array_equal(held, state) and np.array_equal(parameters, policy)):
        raise InputError(
            f"The {name} changed its state or parameters {where}: it may only read them."
        )
    try:
        words = isinstance(placed, str)
        orders = np.atleast_1d(np.asarray(np.nan if words else placed, dtype=np.float64))
    except (TypeError, ValueError):
        orders = np.full(1, np.nan)
    if orders.shape != (sources,) or not ((orders >= 0) & np.isfinite(orders)).all():
        raise InputError(
            f"The {name} {verb} {_shown(placed)} {where}: an order must be a finite number of at "
            f"least 0, one for each supplier, of which there are {sources}."
        )
    return orders


def _shown(placed: Any) -> str:
    """What a rule returned, as Python shows plain values."""
    if isinstance(placed, tuple):
        return f"({', '.join(map(_shown, placed))})"
    return repr(placed.item() if isinstance(placed, np.generic) else placed)


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
    terms : Terms. Costs, and what suppliers deliver of an order.

    Examples
    --------
    >>> def up_to(state, parameters, signal):
    ...     return max(parameters[0] - state.sum(), 0.0)
    >>> rule = CompiledRule(up_to, np.array([1]), np.array([1]), Terms(1.0, 10.0))
    >>> rule.orders(np.array([[3.0]]), np.array([[1.0, 0.5]]))
    array([[1.5]])
    """

    def __init__(self, order: Any, offsets: Indices, leads: Indices, terms: Terms) -> None:
        self._order, self.terms = order, terms
        self._places = (offsets, leads)

    @property
    def wide(self) -> int:
        """Numbers in a state."""
        return 1 + int(self._places[1].sum())

    def _loop(
        self, kernel: Any, own: PeriodCost | None = None, **constants: int
    ) -> Callable[..., Any]:
        """A loop with this rule; a rule that can't be compiled is refused in a sentence."""
        sources, fixed = self._places[1].size, tuple(constants.items())
        what = (kernel, self._order, sources, own, fixed)

        def call(*arguments: Any) -> Any:
            if what in _READY:
                return _READY[what](*arguments)
            for way in _WAYS:
                loop = _compiled(*what, way)
                try:
                    loop.compile(tuple(map(typeof, arguments)))
                except Exception as error:  # whatever a user's function makes of the compiler
                    reason = _reason(error)
                    continue
                _READY[what] = loop
                return loop(*arguments)
            expected = "a number" if sources == 1 else f"a tuple of {sources} numbers"
            raise InputError(
                "The rule order(state, parameters, signal) can't be compiled: it must be plain "
                f"scalar Python that returns {expected}. Numba says: {reason}"
            )

        return call

    def orders(self, policies: Array, states: Array, signal: Array = NO_SIGNAL) -> Array:
        """Orders of policies, an array (n, d), in states, an array (n, k): (n, sources)."""
        orders = np.empty((len(states), self._places[1].size))
        parameters = np.ascontiguousarray(
            np.broadcast_to(policies, (len(states), policies.shape[1]))
        )
        numbers = self.terms.numbers()
        self._loop(_orders)(np.ascontiguousarray(states), parameters, signal, numbers, orders)
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
            policy, signal, self.terms.numbers(), demand[:, None], state, *self._places,
            until_empty, before, columns,
        )  # fmt: skip
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
        numbers = self.terms.numbers()
        self._loop(_follow)(
            policy, signal, numbers, state, stock, sales, *self._places, tolerance, bad
        )
        return int(bad.sum())

    def replay(
        self,
        demand: Array,
        policies: Array,
        states: Array,
        totals: Array,
        most: Array,
        threads: int = 1,
        signal: Array = NO_SIGNAL,
    ) -> None:
        """Advance policies along one path of sales, their ``states`` (n, k) changed in place.

        Parameters
        ----------
        demand : array (periods,). The demand path, common to all policies.
        policies : array (n, d).
        totals : array (2, n). Changed in place: the cost of each policy, without the term p D_t
            that no order changes, and the number of periods that count for it.
        most : array (periods,). The largest stock after arrivals that a period is informative
            about; policies with more stock wait for a later one.
        """
        loop, numbers = self._loop(_replay, self.terms.own), self.terms.numbers()

        def advance(start: int, stop: int) -> None:
            loop(
                demand[:, None], most, policies, signal, states, *self._places, numbers, totals,
                start, stop,
            )  # fmt: skip

        in_threads(advance, len(policies), demand.size, BLOCK, threads)

    def simulate(
        self,
        demand: Array,
        ends: Indices,
        policies: Array,
        states: Array,
        terms: Terms | None = None,
        threads: int = 1,
        signal: Array = NO_SIGNAL,
    ) -> Array:
        """Batch costs of policies on one demand path, their ``states`` (k, n) changed in place.

        Parameters
        ----------
        demand : array (periods,). The demand path, common to all policies.
        ends : array (batches,). The period after the last one of each batch.
        policies : array (n, d).
        terms : Terms, optional. Other costs than those of the shop.

        Returns
        -------
        array (batches, n) : costs without the term p D_t that no order changes.
        """
        terms = terms or self.terms
        (offsets, leads), count = self._places, len(policies)
        sums, sound = np.empty((ends.size, count)), np.empty(count, dtype=np.bool_)
        given = np.ascontiguousarray(policies.T)
        loop = self._loop(
            _simulate, terms.own, WIDE=self.wide, PARAMETERS=policies.shape[1],
            SOURCES=leads.size, FIRST=int(offsets[0]), LEAD=int(leads[0]),
            SECOND=int(offsets[-1]), LEAD_2=int(leads[-1]),
            LIMITED=terms.limited, FIXED=terms.fixed > 0,
            PAID=any(terms.on_orders),
        )  # fmt: skip
        numbers = terms.numbers()

        def advance(start: int, stop: int) -> None:
            loop(demand, ends, given, signal, states, numbers, sums, sound, start, stop)

        in_threads(advance, count, demand.size, BLOCK, threads)
        if not sound.all():
            raise InputError(
                f"The rule of policy {show_policy(tuple(policies[sound.argmin()]))} orders less "
                "than nothing, or what is no finite number: an order must be a finite number of "
                "at least 0."
            )
        return sums
