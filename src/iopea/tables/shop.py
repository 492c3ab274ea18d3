"""The shop of one item: its system, the policies that are considered, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from iopea.errors import InputError
from iopea.policies import Box
from iopea.problems.base import FAMILIES
from iopea.registry import Plugin
from iopea.systems.lost_sales.system import LostSalesSystem
from iopea.systems.shop.base import Levels
from iopea.systems.shop.family import OrderingFamily
from iopea.tables.operate import operate, stocks_of
from iopea.types import Array

#: Most values of each parameter of a net, by the number of parameters; more parameters have as few
#: as the last.
_PER_AXIS = (48, 16, 6)
#: Where a range has no step, it is divided into so many parts.
_PARTS = 2048
#: The highest level, as a multiple of the largest demand of a protection interval.
_ABOVE = 1.1
#: Periods on which the stock of a policy is looked at, and the share that has no more than it;
#: periods, and intervals that an order must last, in which it gets there.
_STOCKS, _OFTEN, _FIRST, _INTERVALS = 240, 0.9, 80, 3


def family_named(kind: str) -> type[OrderingFamily]:
    """The policy family of this name, if it can be fitted to a table of sales."""
    family = FAMILIES.named(kind)
    if not issubclass(family, OrderingFamily) or family.made_for is not LostSalesSystem:
        raise InputError(
            f"The kind {kind!r} is not for a shop with one supplier: choose 'base-stock', "
            "'capped-base-stock' or 's-S'."
        )
    family.around(Levels(low=0, high=1, step=1), 0)
    return family


def plugins_named(kinds: Iterable[str]) -> list[Plugin]:
    """Where families of others come from."""
    found = (FAMILIES.plugin(kind) for kind in kinds)
    return [plugin for plugin in found if plugin is not None]


def system_of(item: Mapping[str, Any]) -> LostSalesSystem:
    """The system of a row of the items."""
    terms = ("fixed_order_cost", "order_multiple", "minimum_order")
    return LostSalesSystem(
        lead_time=item["lead_time"],
        holding_cost=item["holding_cost"],
        lost_sales_cost=item["lost_sales_cost"],
        **{name: item[name] for name in terms if item[name]},
    )


def largest_order(system: LostSalesSystem, demand: Array) -> float:
    """A pack, the least order, or what is ordered to spare costs of orders (Harris)."""
    found = max(system.order_multiple or 0.0, system.minimum_order or 0.0)
    if system.fixed_order_cost and system.holding_cost:
        each = 2 * system.fixed_order_cost * float(demand.mean()) / system.holding_cost
        found = max(found, math.sqrt(each))
    return found


@dataclass(frozen=True)
class ItemShop:
    """The shop of an item.

    Attributes
    ----------
    system : LostSalesSystem. Lead time, costs and terms.
    review : int. Periods between orders.
    family : OrderingFamily. The policies that are considered.
    """

    system: LostSalesSystem
    review: int
    family: OrderingFamily

    @classmethod
    def of(
        cls,
        item: Mapping[str, Any],
        kind: type[OrderingFamily],
        demand: Array,
        whole: bool,
        wider: float = 1.0,
    ) -> ItemShop:
        """The shop of a row of the items, for a path of its demand.

        Levels go up to the largest demand of an interval that an order must last for, and the
        largest order that comes at once, but not beyond the range of the row.
        """
        system = system_of(item)
        review = int(item["review_period"])
        low = item["low"] or 0.0
        high = item["high"]
        step = item["step"] or (1.0 if whole else None)
        lasts = system.lead_time + review
        upto = np.cumsum(np.append(0.0, np.resize(demand, demand.size + lasts)))
        most = _ABOVE * float((upto[lasts:] - upto[:-lasts]).max())
        enough = wider * max(most + largest_order(system, demand), low) or 1.0
        high = enough if high is None else max(min(high, enough), low)
        if step is not None:
            steps = math.ceil((high - low) / step - 1e-9)
            if item["high"] is not None:
                steps = min(steps, math.floor((item["high"] - low) / step + 1e-9))
            high = low + step * steps
        levels = Levels(low=low, high=high, step=step)
        # Where orders are few, one of them may be as large as the highest level.
        each = review == 1 and not largest_order(system, demand)
        return cls(system, review, kind.around(levels, system.lead_time if each else 0))

    @cached_property
    def box(self) -> Box:
        """The range of each parameter."""
        found = self.family.policy_class(self.system)
        if not isinstance(found, Box):
            raise InputError(f"{self.family.kind!r} has no ranges of its parameters.")
        return found

    def coarse(self) -> Array:
        """A net of policies over the whole range."""
        per_axis = _PER_AXIS[min(self.box.dimension, len(_PER_AXIS)) - 1]
        return self.box.thinned(per_axis, max(self.box.extent, 1e-300) / (per_axis - 1))

    def near(self, net: Array, best: Array) -> Array:
        """Policies around one of a net, up to its neighbours."""
        per_axis = _PER_AXIS[min(self.box.dimension, len(_PER_AXIS)) - 1]
        axes = []
        for axis, value in enumerate(best):
            points = np.unique(np.append(net[:, axis], value))
            place = int(np.searchsorted(points, value))
            low, high = points[max(place - 1, 0)], points[min(place + 1, points.size - 1)]
            unit = self._units[axis]
            number = round((high - low) / unit) + 1
            skip = -(-number // per_axis)
            offset = round((value - low) / unit) % skip
            axes.append(np.clip(low + unit * np.arange(offset, number, skip), low, high))
        found = np.array(list(product(*axes)))
        if self.box.ascending:
            pairs = found[:, : self.box.ascending]
            found = found[(np.diff(pairs, axis=1) >= 0).all(axis=1)]
        return found

    def fine(self, policies: Array) -> bool:
        """Whether nothing lies between neighbouring policies."""
        for axis, unit in enumerate(self._units):
            points = np.unique(policies[:, axis])
            if points.size > 1 and np.diff(points).max() > 1.5 * unit:
                return False
        return True

    @property
    def _units(self) -> tuple[float, ...]:
        """The least difference of each parameter that matters."""
        whole = (self.box.extent or 1.0) / _PARTS
        return tuple(self.box.step) if self.box.step else (whole,) * self.box.dimension

    def costs(self, demand: Array, policies: Array) -> Array:
        """Mean cost per period on several samples of demand, (k, periods), without p D.

        What no order changes, the cost of all demand if it were lost, is left out: (k, n).
        """
        if self.review == 1:
            end = np.array([demand.shape[1]], dtype=np.intp)
            sums = self.family.sample_costs(self.system, demand, end, policies)
            return np.asarray(sums[:, 0] / demand.shape[1])
        terms = self.system.terms
        found = np.empty((len(demand), len(policies)))
        for row, path in enumerate(demand):
            for place, policy in enumerate(policies):
                stock, sales, orders = self.operate(policy, np.append(path, path))[:, path.size :]
                cost = terms.holding * (stock - sales) - terms.lost * sales
                found[row, place] = (cost + terms.fixed * (orders > 0)).mean()
        return found

    def stocks(self, policies: Array, demand: Array) -> Array:
        """The stock that each policy hardly ever exceeds."""
        lasts = self.system.lead_time + self.review
        if lasts == 1 and self.family.one_level:
            return np.asarray(policies[:, 0])
        first = _FIRST + _INTERVALS * (lasts - 1)
        path = np.resize(demand, first + _STOCKS)
        return stocks_of(self.family, self.system, policies, path, self.review, first, _OFTEN)

    def operate(self, policy: Array, demand: Array, state: Array | None = None) -> Array:
        """Stock after arrivals, sales and orders of a policy on a path, from a state: (3, n)."""
        if state is None:
            state = np.zeros(1 + self.system.lead_time)
        return operate(self.family, self.system, policy, demand, state, self.review)

    def tonight(self, policy: Array, on_hand: float, on_order: float) -> float:
        """What a policy orders, if nothing of what is on order arrives first."""
        state = np.zeros((1, 1 + self.system.lead_time))
        state[0, 0], state[0, -1] = on_hand, on_order
        if self.system.lead_time == 0:
            state[0, 0] = on_hand + on_order
        return float(self.family.orders_of(self.system, policy[None], state)[0, 0])
