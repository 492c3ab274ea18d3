"""Plain-Python twins of the kernels, measurements of kernel speed, and comparison of states.

A twin is written in the paper's notation, one period and one policy at a time, without arrays or
compilation. The tests compare the kernels with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from iopea.systems.dual_sourcing import kernel as dual_kernels
from iopea.systems.lost_sales import kernel as kernels
from iopea.systems.lost_sales.capped import CappedBaseStock
from iopea.systems.shop.rule import CompiledRule, Terms
from iopea.types import Array, Indices, PeriodCost


def assert_same_state(one: Any, other: Any) -> None:
    """Raise ``AssertionError`` unless two saved states are the same, bit for bit.

    >>> assert_same_state({"a": np.ones(2)}, {"a": np.ones(2)})
    """
    if isinstance(one, list) and isinstance(other, list):
        one, other = dict(enumerate(one)), dict(enumerate(other))
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            raise AssertionError(f"The states have the keys {one.keys()} and {other.keys()}.")
        for key in one:
            assert_same_state(one[key], other[key])
    else:
        np.testing.assert_array_equal(one, other)


#: Stock on hand and the orders on their way, oldest first: S_t = (I_t, Q_{t-L}, ..., Q_{t-1}).
ShopState = tuple[float, ...]


def base_stock_period(
    state: ShopState, level: float, demand: float
) -> tuple[ShopState, float, float, float]:
    """One period of the paper's system: the next state, stock after arrivals, sales, order.

    >>> base_stock_period((1.0, 2.0), 5.0, 2.5)
    ((0.5, 2.0), 3.0, 2.5, 2.0)
    """
    on_hand, *pipeline = state
    order = max(level - sum(state), 0.0)
    pipeline.append(order)
    stock = on_hand + pipeline.pop(0)
    sales = min(stock, demand)
    return (stock - sales, *pipeline), stock, sales, order


def replay_twin(
    levels: list[float],
    lead_time: int,
    demand: list[float],
    holding_cost: float,
    lost_sales_cost: float,
    size: int,
    cost: PeriodCost | None = None,
) -> list[list[float]]:
    """Pseudo-costs of levels on one sample path, a list of batches of ``size`` periods.

    >>> replay_twin([2.0], 1, [1.0, 1.0, 3.0], 1.0, 10.0, 3)
    [[-19.0]]
    """
    states: list[ShopState] = [(0.0,) * (lead_time + 1) for _ in levels]
    totals = [0.0] * len(levels)
    batches = []
    for period, wanted in enumerate(demand, start=1):
        for j, level in enumerate(levels):
            states[j], stock, sales, order = base_stock_period(states[j], level, wanted)
            totals[j] += holding_cost * (stock - sales) - lost_sales_cost * sales
            if cost is not None:
                totals[j] += cost(stock, sales, order)
        if period % size == 0:
            batches.append(totals)
            totals = [0.0] * len(levels)
    return batches


#: Stock on hand, then the regular and the expedited orders on their way, oldest first:
#: S_t = (I_t, Q^r_{t-L_r}, ..., Q^r_{t-1}, Q^e_{t-L_e}, ..., Q^e_{t-1}).
DualState = tuple[float, tuple[float, ...], tuple[float, ...]]


def dual_index_period(
    state: DualState, policy: tuple[float, float], demand: float
) -> tuple[DualState, float, float, float, float]:
    """One period of the paper's system under a dual-index policy (z_e, z_r).

    Returns the next state, the stock after arrivals, the sales, and the expedited and the regular
    order.

    >>> dual_index_period((1.0, (0.5, 2.0), ()), (3.0, 6.0), 1.0)
    ((2.0, (2.0, 1.0), ()), 3.0, 1.0, 1.5, 1.0)
    """
    on_hand, regular, expedited = state
    z_e, z_r = policy
    position = on_hand + sum(expedited)
    fast = max(z_e - position - sum(regular[: len(expedited) + 1]), 0.0)
    slow = max(z_r - position - sum(regular) - fast, 0.0)
    regular += (slow,)
    expedited += (fast,)
    stock = on_hand + regular[0] + expedited[0]
    sales = min(stock, demand)
    return (stock - sales, regular[1:], expedited[1:]), stock, sales, fast, slow


def dual_replay_twin(
    policies: list[tuple[float, float]],
    lead_times: tuple[int, int],
    demand: list[float],
    costs: tuple[float, float, float, float],
    ends: list[int],
    states: list[DualState] | None = None,
) -> list[list[float]]:
    """Pseudo-costs of policies (z_e, z_r) on one sample path, a list of batches with these ends.

    ``lead_times`` are (L_r, L_e), ``costs`` (h, p, c_r, c_e). ``states`` are the initial states of
    the policies, empty by default, and are changed in place.

    >>> dual_replay_twin([(1.0, 2.0)], (1, 0), [1.0, 0.5, 3.0], (1.0, 10.0, 0.0, 0.5), [1, 3])
    [[-9.5], [-19.5]]
    """
    regular_lead_time, expedited_lead_time = lead_times
    holding, price, on_regular, on_expedited = costs
    if states is None:
        empty = (0.0, (0.0,) * regular_lead_time, (0.0,) * expedited_lead_time)
        states = [empty] * len(policies)
    batches = []
    start = 0
    for end in ends:
        totals = [0.0] * len(policies)
        for wanted in demand[start:end]:
            for j, policy in enumerate(policies):
                states[j], stock, sales, fast, slow = dual_index_period(states[j], policy, wanted)
                totals[j] += holding * (stock - sales) - price * sales
                totals[j] += on_regular * slow + on_expedited * fast
        batches.append(totals)
        start = end
    return batches


def rule_replay_twin(
    order: Callable[..., Any],
    policies: Sequence[tuple[float, ...]],
    lead_time: int,
    demand: list[float],
    holding_cost: float,
    lost_sales_cost: float,
    size: int,
) -> list[list[float]]:
    """Pseudo-costs of policies of any rule with one supplier, in batches of ``size`` periods.

    ``order(state, parameters, signal)`` is called as it is written, period by period.

    >>> rule_replay_twin(lambda state, given, signal: max(given[0] - state.sum(), 0.0),
    ...                  [(2.0,)], 1, [1.0, 1.0, 3.0], 1.0, 10.0, 3)
    [[-19.0]]
    """
    states = [np.zeros(1 + lead_time) for _ in policies]
    rows = [np.array(policy) for policy in policies]
    nothing = np.zeros(0)
    totals = [0.0] * len(policies)
    batches = []
    for period, wanted in enumerate(demand, start=1):
        for j, state in enumerate(states):
            placed = order(state, rows[j], nothing)
            arriving = state[1] if lead_time else placed
            stock = state[0] + arriving
            state[1:-1] = state[2:]
            if lead_time:
                state[-1] = placed
            sales = min(stock, wanted)
            state[0] = stock - sales
            totals[j] += holding_cost * (stock - sales) - lost_sales_cost * sales
        if period % size == 0:
            batches.append(list(map(float, totals)))
            totals = [0.0] * len(policies)
    return batches


@dataclass(frozen=True)
class KernelSpeed:
    """Speed of a replay kernel and of its twin, measured in one run on one core.

    Attributes
    ----------
    lead_time : int, or (L_r, L_e) in dual sourcing.
    kernel, twin : float. Policy-steps per second.
    largest_error : float. Largest difference per step between the two.
    """

    lead_time: int | tuple[int, int]
    precision: str
    kernel: float
    twin: float
    largest_error: float

    @property
    def ratio(self) -> float:
        """How many times faster the kernel is."""
        return self.kernel / self.twin


#: Rounds and batches of a measurement, and number of policies that the twin replays.
_ROUNDS, _BATCHES, _CHECKED = 5, 20, 4
#: Unit costs of the measurements (h, p, c_r, c_e).
_COSTS = (1.0, 10.0, 0.0, 0.5)


def replay_speed(
    lead_time: int, precision: str = "float64", policies: int = 2048, periods: int = 60_000
) -> KernelSpeed:
    """Replay base-stock levels over one path, with the kernel and with the twin.

    Each is timed as the best of several rounds, kernel and twin in turn.
    """
    demand, size, costs = _path(periods), periods // _BATCHES, _COSTS[:2]
    levels = np.linspace(0.5, 1.5 * (lead_time + 1), policies)
    some = _some(policies)
    path, some_levels = demand.tolist(), levels[some].tolist()

    def kernel() -> tuple[float, Array]:
        on_hand, orders = np.zeros(policies), np.zeros((lead_time, policies))
        ring = kernels.start_ring(levels, on_hand, orders, precision)
        running = kernels.potential(ring, 0, costs).astype(precision)
        start = time.perf_counter()
        batches, _ = kernels.replay(demand, levels, ring, 0, 0, costs, running, 0, size)
        return (time.perf_counter() - start) / (policies * periods), batches[:, some]

    def twin() -> list[list[float]]:
        return replay_twin(some_levels, lead_time, path, *costs, size)

    return KernelSpeed(lead_time, precision, *_race(kernel, twin, periods))


def dual_replay_speed(
    lead_times: tuple[int, int],
    precision: str = "float64",
    policies: int = 2048,
    periods: int = 20_000,
) -> KernelSpeed:
    """Like :func:`replay_speed`, for dual-index policies; ``lead_times`` are (L_r, L_e)."""
    demand, size = _path(periods), periods // _BATCHES
    ends = np.arange(size, periods + 1, size)
    high = np.linspace(0.5, 1.5 * (lead_times[0] + 1), policies)
    pairs = np.column_stack([high * np.linspace(0.0, 1.0, 7)[np.arange(policies) % 7], high])
    some = _some(policies)
    path, some_pairs = demand.tolist(), [(z_e, z_r) for z_e, z_r in pairs[some].tolist()]

    def kernel() -> tuple[float, Array]:
        state = dual_kernels.start_state(pairs, lead_times, precision)
        start = time.perf_counter()
        batches = dual_kernels.replay(demand, ends, pairs, state, 0, lead_times, _COSTS)
        return (time.perf_counter() - start) / (policies * periods), batches[:, some]

    def twin() -> list[list[float]]:
        return dual_replay_twin(some_pairs, lead_times, path, _COSTS, ends.tolist())

    return KernelSpeed(lead_times, precision, *_race(kernel, twin, periods))


def rule_replay_speed(lead_time: int, policies: int = 2048, periods: int = 20_000) -> KernelSpeed:
    """Like :func:`replay_speed`, for the loop that any rule is compiled into.

    The rule is that of capped base-stock policies.
    """
    demand, size = _path(periods), periods // _BATCHES
    ends = np.arange(size, periods + 1, size)
    levels = np.linspace(0.5, 1.5 * (lead_time + 1), policies)
    pairs = np.column_stack([levels, np.linspace(0.2, 3.0, 7)[np.arange(policies) % 7]])
    order = CappedBaseStock.order
    rule = CompiledRule(order, np.array([1]), np.array([lead_time]), Terms(*_COSTS[:2]))
    some = _some(policies)
    path, some_pairs = demand.tolist(), [(level, cap) for level, cap in pairs[some].tolist()]

    def kernel() -> tuple[float, Array]:
        states = np.zeros((rule.wide, policies))
        start = time.perf_counter()
        batches = rule.simulate(demand, ends, pairs, states)
        return (time.perf_counter() - start) / (policies * periods), batches[:, some]

    def twin() -> list[list[float]]:
        plain = _uncompiled(order)
        return rule_replay_twin(plain, some_pairs, lead_time, path, *_COSTS[:2], size)

    return KernelSpeed(lead_time, "float64", *_race(kernel, twin, periods))


def _uncompiled(order: Callable[..., Any]) -> Callable[..., Any]:
    """A rule as it is written, without the compiled functions that it calls."""
    names = {name: getattr(value, "py_func", value) for name, value in order.__globals__.items()}
    return FunctionType(order.__code__, names)


def _path(periods: int) -> Array:
    rng = np.random.Generator(np.random.PCG64(1))
    return np.minimum(rng.exponential(1.0, periods), 3.0)


def _some(policies: int) -> Indices:
    return np.linspace(0, policies - 1, _CHECKED).astype(np.intp)


def _race(
    kernel: Callable[[], tuple[float, Array]], twin: Callable[[], list[list[float]]], periods: int
) -> tuple[float, float, float]:
    """Policy-steps per second of the kernel and of the twin, and their largest difference.

    The kernel times itself: it returns seconds per policy-step, and the batches of the policies
    that the twin replays.
    """
    kernel()  # compiles it
    fast = slow = np.inf
    for _ in range(_ROUNDS):
        seconds, batches = kernel()
        fast = min(fast, seconds)
        start = time.perf_counter()
        expected = twin()
        slow = min(slow, (time.perf_counter() - start) / (_CHECKED * periods))
    error = np.abs(batches.astype(np.float64) - expected).max() * _BATCHES / periods
    return 1 / fast, 1 / slow, float(error)
