"""Plain-Python twins of the kernels, what they are measured by, and checks for extensions.

A twin is written in the paper's own terms, one period and one policy at a
time, without arrays or compilation. The tests hold the kernels to it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from iopea.kernels import lost_sales as kernels
from iopea.types import Array, PeriodCost


def assert_same_state(one: Any, other: Any) -> None:
    """Raise ``AssertionError`` unless two saved states are the same, bit for bit.

    >>> assert_same_state({"a": np.ones(2)}, {"a": np.ones(2)})
    """
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
    """Pseudo-costs of levels on one path, a list of batches of ``size`` periods.

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


@dataclass(frozen=True)
class KernelSpeed:
    """Speed of the replay kernel beside its twin, measured in one run on one core.

    Attributes
    ----------
    kernel, twin : float. Policy-steps per second.
    largest_error : float. Largest difference per step between the two.
    """

    lead_time: int
    precision: str
    kernel: float
    twin: float
    largest_error: float

    @property
    def ratio(self) -> float:
        """How many times faster the kernel is."""
        return self.kernel / self.twin


def replay_speed(
    lead_time: int, precision: str = "float64", policies: int = 2048, periods: int = 60_000
) -> KernelSpeed:
    """Replay base-stock levels over one path, with the kernel and with the twin.

    Each is timed as the best of several rounds, kernel and twin in turn.
    """
    rounds, size, checked = 5, periods // 20, 4
    rng = np.random.Generator(np.random.PCG64(1))
    demand = np.minimum(rng.exponential(1.0, periods), 3.0)
    levels = np.linspace(0.5, 1.5 * (lead_time + 1), policies)
    some = np.linspace(0, policies - 1, checked).astype(int)
    path, some_levels = demand.tolist(), levels[some].tolist()
    kernel = twin = np.inf
    for attempt in range(rounds + 1):
        on_hand, orders = np.zeros(policies), np.zeros((lead_time, policies))
        ring = kernels.start_ring(levels, on_hand, orders, precision)
        running = kernels.potential(ring, 0, (1.0, 10.0)).astype(precision)
        start = time.perf_counter()
        batches, _ = kernels.replay(demand, levels, ring, 0, 0, (1.0, 10.0), running, 0, size)
        elapsed = time.perf_counter() - start
        if attempt == 0:
            continue  # it was compiled just now
        kernel = min(kernel, elapsed / (policies * periods))
        start = time.perf_counter()
        expected = replay_twin(some_levels, lead_time, path, 1.0, 10.0, size)
        twin = min(twin, (time.perf_counter() - start) / (checked * periods))
    seen: Array = batches[:, some].astype(np.float64)
    error = np.abs(seen - expected).max() / size
    return KernelSpeed(lead_time, precision, 1 / kernel, 1 / twin, float(error))
