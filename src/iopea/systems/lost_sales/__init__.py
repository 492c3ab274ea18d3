"""Lost sales with a lead time, and its policy families."""

from __future__ import annotations

from typing import Self

from iopea.demand import Demand, Exponential
from iopea.problems.base import Problem
from iopea.systems.lost_sales.base_stock import BaseStock
from iopea.systems.lost_sales.capped import CappedBaseStock
from iopea.systems.lost_sales.constant import ConstantOrder
from iopea.systems.lost_sales.reorder import ReorderUpTo
from iopea.systems.lost_sales.system import LostSalesSystem
from iopea.systems.shop.base import Levels


class LostSales(Problem):
    """The lost-sales problem with a lead time: the shop, and its policies.

    Created from the keys of :class:`~iopea.systems.lost_sales.system.LostSalesSystem` and of a
    family: ``levels`` for base-stock levels, or any other family as ``policies``.

    Examples
    --------
    >>> shop = LostSales(lead_time=2, holding_cost=1, lost_sales_cost=10,
    ...                  levels={"low": 0, "high": 7})
    >>> shop.constants.span
    5040.0
    """

    system_type = LostSalesSystem
    families = (BaseStock, CappedBaseStock, ReorderUpTo, ConstantOrder)

    @classmethod
    def example(cls) -> tuple[Self, Demand]:
        """A small shop with a lead time of 1."""
        shop = cls(
            lead_time=1, holding_cost=1, lost_sales_cost=9, levels=Levels(low=0, high=12, step=0.5)
        )
        return shop, Exponential(mean=2, zero_probability=0.3)

    @classmethod
    def examples(cls) -> tuple[tuple[Self, Demand], ...]:
        """The example, and one with each other family."""
        shop, demand = cls.example()
        levels, few = Levels(low=0, high=12, step=1), Levels(low=0, high=4, step=0.5)
        costly = shop.changed(fixed_order_cost=2.0).system
        return (
            (shop, demand),
            (cls(shop.system, CappedBaseStock(levels=levels, caps=few)), demand),
            (cls(costly, ReorderUpTo(reorder_levels=levels, order_up_to_levels=levels)), demand),
            (cls(shop.system, ConstantOrder(orders=Levels(low=0, high=1, step=0.125))), demand),
        )
