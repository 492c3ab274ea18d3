"""The base class of the inventory environments: stock, outstanding orders, demand and costs."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.random import SeedSequence
from numpy.typing import ArrayLike, NDArray

from iopea.demand import Demand, DemandStream
from iopea.envs.base import SystemEnv
from iopea.errors import InputError, shown
from iopea.problems.base import Problem
from iopea.systems.shop.kernel import allowed, sold
from iopea.types import Array, show_policy

#: Rounding error by which an action may lie outside [-1, 1].
ACTION_TOLERANCE = 1e-6
#: Share of the highest level below which an order counts as a rounding error and is not placed.
NO_ORDER = 1e-6
#: Range of highest levels that single precision represents without loss of digits.
_LEAST_HIGH, _MOST_HIGH = 1e-30, 1e30

Floats = NDArray[np.float32]


class InventoryEnv(SystemEnv[Floats, Floats]):
    """A shop with one or more sources, where any order may be placed.

    A subclass sets ``problem`` first.

    Parameters
    ----------
    lead_times : mapping. Lead time of each source by the name of its order, fastest first, which
        is the sequence of placing them. Observations have the slowest source first.
    high : float. The highest level [U].
    unit_costs : pair of floats. Holding and lost-sales cost per unit [h, p].
    demand : Demand. The demand distribution.
    reveal_demand : bool. Whether the info includes lost demand.
    render_mode : {None, "ansi"}. With "ansi", ``render`` returns a line of text.
    """

    problem: Problem

    def __init__(
        self,
        lead_times: Mapping[str, int],
        high: float,
        unit_costs: tuple[float, float],
        demand: Demand,
        reveal_demand: bool,
        render_mode: str | None,
    ) -> None:
        super().__init__(render_mode)
        if not _LEAST_HIGH <= high <= _MOST_HIGH:
            raise InputError(
                f"The highest level is {high}: an environment has single precision and needs "
                f"one between {_LEAST_HIGH} and {_MOST_HIGH}."
            )
        self.reveal_demand = reveal_demand
        self.observation_space = Box(0.0, high, (1 + sum(lead_times.values()),), np.float32)
        self.action_space = Box(-1.0, 1.0, (len(lead_times),), np.float32)
        self._lead_times = dict(lead_times)
        self._high = high
        self._unit_costs = unit_costs
        self._demand = demand
        self._stream: DemandStream
        self._empty()

    def _start(self, seed: SeedSequence) -> None:
        self._stream = self._demand.stream(seed)
        self._empty()

    def _empty(self) -> None:
        self._on_hand = 0.0
        self._under_way = {name: [0.0] * length for name, length in self._lead_times.items()}
        self._sales: float | None = None

    def _advance(self, action: Floats) -> tuple[float, dict[str, Any]]:
        orders = self._place(action)
        stock = self._on_hand
        for name, order in orders.items():
            arriving, *self._under_way[name] = [*self._under_way[name], order]
            stock += arriving
        demand = float(self._stream.draw(1)[0])
        sales = float(sold(stock, demand))
        left = stock - sales
        self._on_hand, self._sales = left, sales

        further = self._further_cost(stock, sales, orders)
        holding, penalty = self._unit_costs
        cost = holding * left - penalty * sales + further
        info = {"stock": stock, "sales": sales, **orders, "pseudo_cost": cost}
        if self.reveal_demand:
            lost = demand - sales
            true_cost = holding * left + penalty * lost + further
            info |= {"demand": demand, "lost_sales": lost, "true_cost": true_cost}
        return cost, info

    def _place(self, action: ArrayLike) -> dict[str, float]:
        """The orders that an action encodes, reduced to keep the inventory position below U."""
        number = len(self._lead_times)
        try:
            values = np.asarray(action, dtype=np.float64)
        except (TypeError, ValueError):
            numbers = "one number" if number == 1 else f"{number} numbers"
            raise InputError(f"An action is an array of {numbers}, not {shown(action)}.") from None
        if values.shape != (number,):
            raise InputError(f"An action has shape {(number,)}, not {values.shape}.")
        for value in values.tolist():
            if not abs(value) <= 1 + ACTION_TOLERANCE:  # true for NaN
                raise InputError(f"An action must lie between -1 and 1, not at {value}.")
        orders: dict[str, float] = {}
        for name, value in zip(self._lead_times, values.tolist(), strict=True):
            room = self._high - math.fsum([*self._state(), *orders.values()])
            order = min((value + 1) / 2 * self._high, room)
            orders[name] = self._delivered(order) if order > NO_ORDER * self._high else 0.0
        return orders

    def _delivered(self, order: float) -> float:
        """What the supplier delivers of an order, which single precision may have rounded down."""
        terms = self.problem.system.terms
        if not terms.limited:
            return order
        placed = float(allowed(order + NO_ORDER * self._high, terms.multiple, terms.minimum))
        return min(placed, order) if not terms.multiple else placed

    def policy_action(self, policy: Sequence[float], observation: ArrayLike) -> Floats:
        """The action of a policy of the problem's family, whatever that is.

        >>> from iopea import LostSales
        >>> from iopea.envs.lost_sales import LostSalesEnv
        >>> shop = LostSales(lead_time=1, holding_cost=1, lost_sales_cost=9, policies={
        ...     "kind": "capped-base-stock", "levels": {"low": 0, "high": 8},
        ...     "caps": {"low": 0, "high": 8}})
        >>> LostSalesEnv(problem=shop).policy_action((6, 2), [1, 0])
        array([-0.5], dtype=float32)
        """
        known = self.problem.policy_class
        point = tuple(map(float, policy))
        if not known.contains(point):
            raise InputError(f"Policy ({show_policy(point)}) is not one of {known!r}.")
        state = self._checked((), observation)
        # What is delivered of an order is found when it is placed.
        orders = self.problem.family.orders_of(
            self.problem.system.unlimited, np.array([point]), state[None]
        )
        return self._as_action(*orders[0].tolist())

    def _state(self) -> list[float]:
        """Stock on hand and the outstanding orders, of the slowest source first [S_t]."""
        pipelines = reversed(self._under_way.values())
        return [self._on_hand, *(order for pipeline in pipelines for order in pipeline)]

    def _observation(self) -> Floats:
        state = np.array(self._state(), dtype=np.float32)
        return np.minimum(state, np.float32(self._high))  # rounding may exceed the bound

    def _line(self) -> str:
        sales = "none yet" if self._sales is None else f"{self._sales:.4g}"
        return (
            f"Period {self._steps}: {self._on_hand:.4g} on hand, {self._under_way_text()}, "
            f"last sales {sales}."
        )

    def _checked(self, levels: Iterable[float], observation: ArrayLike) -> Array:
        """The observation in double precision, after checking it and the levels."""
        for level in levels:
            if not 0 <= level <= self._high:
                raise InputError(
                    f"A level must lie between 0 and {self._high}, not {shown(level)}."
                )
        state = np.asarray(observation, dtype=np.float64)
        if state.shape != self.observation_space.shape:
            raise InputError(
                f"An observation has shape {self.observation_space.shape}, not {state.shape}."
            )
        return state

    def _as_action(self, *orders: float) -> Floats:
        """The action that encodes these orders."""
        return np.array([2 * order / self._high - 1 for order in orders], dtype=np.float32)

    @abstractmethod
    def _further_cost(self, stock: float, sales: float, orders: Mapping[str, float]) -> float:
        """The cost of a period other than holding and lost sales."""

    @abstractmethod
    def _under_way_text(self) -> str:
        """The outstanding orders in words."""


def listed(orders: Iterable[float]) -> str:
    """Orders as text.

    >>> listed([0.0, 2.5]), listed([])
    ('0 2.5', 'nothing')
    """
    return " ".join(f"{order:.4g}" for order in orders) or "nothing"
