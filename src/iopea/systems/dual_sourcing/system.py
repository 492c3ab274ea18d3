"""Lost-sales inventory with two suppliers.

At the start of period t an expedited order Q^e_t and a regular order Q^r_t are placed; the orders
Q^e_{t-L_e} and Q^r_{t-L_r} arrive, with L_r > L_e >= 0; demand D_t is met as far as the stock
allows, and unmet demand is lost and not observed.

Costs are h per unit left over, p per unit of lost demand, c_r and c_e per unit ordered. They are
learned as pseudo-costs, without the term p D_t that no policy can change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from pydantic import model_validator

from iopea.model import Count, NonNegative
from iopea.systems.shop.system import ShopSystem
from iopea.types import Array


class DualSourcingSystem(ShopSystem):
    """A lost-sales shop with two suppliers: lead times and costs.

    Parameters
    ----------
    regular_lead_time, expedited_lead_time : int. Periods between order and arrival [L_r > L_e].
    holding_cost, lost_sales_cost : float. Cost per unit left over, and of lost demand [h, p].
    regular_cost, expedited_cost : float. Cost per unit ordered [c_r, c_e].
    """

    kind: ClassVar[str] = "dual-sourcing"

    regular_lead_time: Count
    expedited_lead_time: Count
    holding_cost: NonNegative
    lost_sales_cost: NonNegative
    regular_cost: NonNegative = 0.0
    expedited_cost: NonNegative = 0.0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.expedited_lead_time >= self.regular_lead_time:
            raise ValueError(
                f"The expedited lead time must be shorter than the regular one, but "
                f"{self.expedited_lead_time} >= {self.regular_lead_time}."
            )
        self.refuse_long("regular_lead_time", self.regular_lead_time)
        if self.holding_cost + self.lost_sales_cost == 0:
            raise ValueError("Holding and lost sales cost 0: give one of them a cost above 0.")
        return self

    @property
    def sources(self) -> dict[str, int]:
        """Both suppliers, the faster one first."""
        return {
            "expedited_order": self.expedited_lead_time,
            "regular_order": self.regular_lead_time,
        }

    @property
    def lead_times(self) -> tuple[int, int]:
        """(L_r, L_e), as the kernels take them."""
        return self.regular_lead_time, self.expedited_lead_time

    @property
    def unit_costs(self) -> tuple[float, float, float, float]:
        """(h, p, c_r, c_e), as the kernels take them."""
        return self.holding_cost, self.lost_sales_cost, self.regular_cost, self.expedited_cost

    @property
    def order_costs(self) -> tuple[float, float]:
        """(c_e, c_r), in the order of the sources."""
        return self.expedited_cost, self.regular_cost

    @property
    def empties_after(self) -> int:
        """The regular lead time, until the pipeline is empty."""
        return self.regular_lead_time

    def pseudo_costs(self, stock: Array, sales: Array, orders: Mapping[str, Array]) -> Array:
        """Pseudo-costs h (stock - sales) - p sales, plus ordering costs."""
        return np.asarray(
            self.holding_cost * (stock - sales)
            - self.lost_sales_cost * sales
            + self.regular_cost * orders["regular_order"]
            + self.expedited_cost * orders["expedited_order"]
        )

    def true_costs(self, stock: Array, sales: Array, orders: list[Array], demand: Array) -> Array:
        """Cost of holding, lost sales and orders."""
        expedited, regular = orders
        return np.asarray(
            self.holding_cost * (stock - sales)
            + self.lost_sales_cost * (demand - sales)
            + self.regular_cost * regular
            + self.expedited_cost * expedited
        )

    def expedited_position(self, states: Array) -> Array:
        """All that will have arrived when an expedited order placed now does, without it."""
        last = 1 + self.regular_lead_time
        soon = states[:, : 2 + self.expedited_lead_time].sum(axis=1)
        return np.asarray(soon + states[:, last:].sum(axis=1))
