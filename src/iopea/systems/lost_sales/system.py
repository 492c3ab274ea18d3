"""Lost-sales inventory with a lead time.

At the start of period t an order Q_t is placed that arrives L periods later, the order Q_{t-L}
arrives, and demand D_t is met as far as the stock allows; unmet demand is lost and not observed.
With L = 0 the order arrives at once: a newsvendor who keeps unsold units.

Since lost demand is not observed, costs are learned as pseudo-costs, without the term p D_t that
no policy can change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from iopea.model import Count, NonNegative, Positive
from iopea.systems.shop.period_cost import cost_of_each, fingerprint, try_out
from iopea.systems.shop.rule import Terms
from iopea.systems.shop.system import LinearShop, ShopSystem
from iopea.types import Array, PeriodCost


class LostSalesSystem(ShopSystem):
    """A lost-sales shop: lead time and costs.

    Parameters
    ----------
    lead_time : int. Periods between order and arrival [L].
    holding_cost : float. Cost per unit left over at the end of a period [h].
    lost_sales_cost : float. Cost per unit of demand not met [p].
    period_cost : callable, optional. A further cost of (stock after arrivals, sales, order) per
        period, of any shape; it is compiled by Numba. Give ``cost_bound`` with it.
    cost_bound : float, optional. The largest absolute value of ``period_cost``.
    fixed_order_cost : float. Cost of each order, whatever its size [K].
    order_multiple : float, optional. What orders are multiples of, such as the units of a case;
        what a policy orders is rounded down to that.
    minimum_order : float, optional. The least order; smaller ones are not placed.
    """

    kind: ClassVar[str] = "lost-sales"

    lead_time: Count
    holding_cost: NonNegative
    lost_sales_cost: NonNegative
    period_cost: PeriodCost | None = Field(default=None, exclude=True)
    cost_bound: NonNegative | None = None
    fixed_order_cost: NonNegative = 0.0
    order_multiple: Positive | None = None
    minimum_order: Positive | None = None

    @model_validator(mode="after")
    def _costs(self) -> Self:
        if (self.period_cost is None) != (self.cost_bound is None):
            raise ValueError("Give period_cost and cost_bound together, or neither.")
        self.refuse_long("lead_time", self.lead_time)
        if self.holding_cost + self.lost_sales_cost + self.own_bound == 0:
            raise ValueError("All costs are 0, so every policy is best: give one that is not.")
        return self

    @property
    def sources(self) -> dict[str, int]:
        """The one supplier."""
        return {"order": self.lead_time}

    @property
    def unit_costs(self) -> tuple[float, float]:
        """Holding and lost-sales cost per unit [h, p]."""
        return self.holding_cost, self.lost_sales_cost

    @property
    def unlimited(self) -> Self:
        """The same shop, where the supplier delivers just what is ordered."""
        return self.model_copy(update={"order_multiple": None, "minimum_order": None})

    @property
    def own_cost(self) -> PeriodCost | None:
        """The further cost of each period."""
        return self.period_cost

    @property
    def terms(self) -> Terms:
        """Costs, and what the supplier delivers of an order."""
        return Terms(
            holding=self.holding_cost,
            lost=self.lost_sales_cost,
            fixed=self.fixed_order_cost,
            multiple=self.order_multiple or 0.0,
            minimum=self.minimum_order or 0.0,
            own=self.period_cost,
        )

    @property
    def own_bound(self) -> float:
        """The bound of costs other than those of holding and lost sales."""
        return (self.cost_bound or 0.0) + self.fixed_order_cost

    def try_own_cost(self, most: float) -> None:
        """Refuse a further cost that fails, or exceeds its bound, at a few points."""
        if self.period_cost is not None:
            try_out(self.period_cost, self.cost_bound or 0.0, most)

    @property
    def linear(self) -> LinearShop | None:
        """Lead time and costs; none with other costs, or where orders are limited."""
        if self.period_cost is not None or self.fixed_order_cost or self.terms.limited:
            return None
        return LinearShop(self.lead_time, self.holding_cost, self.lost_sales_cost)

    def pseudo_costs(self, stock: Array, sales: Array, orders: Mapping[str, Array]) -> Array:
        """Pseudo-costs h (stock - sales) - p sales, plus those of orders and the further cost."""
        costs = self.holding_cost * (stock - sales) - self.lost_sales_cost * sales
        return np.asarray(costs + self._further(stock, sales, orders["order"]))

    def true_costs(self, stock: Array, sales: Array, orders: list[Array], demand: Array) -> Array:
        """Cost of holding, lost sales and orders, plus the further cost."""
        costs = self.holding_cost * (stock - sales) + self.lost_sales_cost * (demand - sales)
        return np.asarray(costs + self._further(stock, sales, orders[0]))

    def _further(self, stock: Array, sales: Array, order: Array) -> Array | float:
        costs: Array | float = 0.0
        if self.period_cost is not None:
            costs = cost_of_each(self.period_cost, stock, sales, order)
        if self.fixed_order_cost:
            costs = costs + np.where(order > 0, self.fixed_order_cost, 0.0)
        return costs

    def describe(self) -> dict[str, object]:
        """The system as JSON values, with the fingerprint of a further cost."""
        table = self.model_dump(exclude_none=True)
        if not self.fixed_order_cost:
            del table["fixed_order_cost"]
        if self.period_cost is not None:
            table["period_cost"] = fingerprint(self.period_cost)
        return table
