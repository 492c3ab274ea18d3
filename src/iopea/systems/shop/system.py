"""Inventory systems with lost sales: stock, pipeline, demand and costs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

from iopea.demand import Demand, demand_from
from iopea.problems.base import PolicyFamily, Problem, Rule, System
from iopea.systems.shop.base import MOST_LEAD_TIME, ShopControl, check_records
from iopea.systems.shop.rule import CompiledRule, Terms
from iopea.systems.shop.simulator import ShopSimulator
from iopea.systems.shop.table import ShopTable
from iopea.types import Array, PeriodCost, Trajectory


@dataclass(frozen=True)
class LinearShop:
    """Lead time and costs of a shop with one supplier and linear costs.

    Attributes
    ----------
    lead_time : int. Periods between order and arrival [L].
    holding_cost, lost_sales_cost : float. Cost per unit left over, and per unit of unmet demand
        [h, p].
    perishes : bool. Whether unsold units are lost at the end of the period.
    """

    lead_time: int
    holding_cost: float
    lost_sales_cost: float
    perishes: bool = False


class DemandSystem(System):
    """A system whose only noise is demand."""

    @classmethod
    def read_truth(cls, content: Mapping[str, dict[str, Any]], directory: Path | None) -> Demand:
        """The demand distribution."""
        return demand_from(content["demand"], directory)

    @property
    @abstractmethod
    def lost_cost(self) -> float:
        """Cost per unit of unmet demand [p]."""

    @property
    def own_cost(self) -> PeriodCost | None:
        """A further cost of (stock after arrivals, sales, order) per period, of any shape."""
        return None

    @property
    def linear(self) -> LinearShop | None:
        """Lead time and costs, where there is one supplier and costs are linear."""
        return None


class ShopSystem(DemandSystem):
    """A shop with one or more suppliers, whose unmet demand is lost and not observed.

    A subclass defines its suppliers and its unit costs.
    """

    holds_stock: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Stock after arrivals, and sales."""
        return ("stock", "sales")

    @property
    @abstractmethod
    def sources(self) -> dict[str, int]:
        """Lead time of each order by its name, in the order of the actions: the fastest first."""

    @property
    @abstractmethod
    def unit_costs(self) -> tuple[float, ...]:
        """Holding and lost-sales cost per unit [h, p], then costs per unit ordered, if any."""

    @property
    def lost_cost(self) -> float:
        """Cost per unit of unmet demand [p]."""
        return self.unit_costs[1]

    @property
    def order_costs(self) -> tuple[float, ...]:
        """Cost per unit ordered from each source."""
        return (0.0,) * len(self.sources)

    @property
    def unlimited(self) -> Self:
        """The same shop, where suppliers deliver just what is ordered."""
        return self

    @property
    def own_bound(self) -> float:
        """The largest absolute value of that cost."""
        return 0.0

    def try_own_cost(self, most: float) -> None:
        """Refuse a further cost that exceeds its bound with so much stock."""
        return

    @property
    def empties_after(self) -> int:
        """Periods until the pipeline is empty if nothing is ordered, for the restart time."""
        return 0

    @property
    def longest(self) -> int:
        """The longest lead time."""
        return max(self.sources.values())

    def demand_seen(self, trajectory: Trajectory) -> tuple[Array, Array]:
        """Sales, and the stock before them."""
        return trajectory["sales"], trajectory["stock"]

    def check(self, trajectory: Trajectory) -> None:
        """Refuse negative values, and sales above the stock."""
        check_records(trajectory)

    @abstractmethod
    def pseudo_costs(self, stock: Array, sales: Array, orders: Mapping[str, Array]) -> Array:
        """Cost of each period, without the term p D_t that no order changes."""

    @abstractmethod
    def true_costs(self, stock: Array, sales: Array, orders: list[Array], demand: Array) -> Array:
        """Cost of each period, including lost demand; orders are in the order of ``sources``."""

    def control(self, problem: Problem) -> ShopControl:
        """The MDP view: on-hand stock and pipeline, and the orders to be placed."""
        family = problem.family
        return ShopControl(
            lead_times=self.sources,
            high=family.most_stock(self),
            costs_of=self.pseudo_costs,
            orders_of=lambda policies, states: family.orders_of(self, policies, states),
            limits=(self.terms.multiple, self.terms.minimum),
        )

    def compiled(self, family: PolicyFamily) -> CompiledRule:
        """The rule of a family with loops over periods of this shop."""
        places = ShopControl.places(self.sources)
        return CompiledRule(_rule_of(family, self), *places, self.terms)

    @property
    def terms(self) -> Terms:
        """Costs, and what suppliers deliver of an order."""
        holding, lost = self.unit_costs[:2]
        return Terms(holding, lost, on_orders=self.order_costs, own=self.own_cost)

    def tabular(self, problem: Problem, radius: float | None = None) -> ShopTable | None:
        """Stock and orders in units of a radius, or of the family's own.

        None where suppliers don't deliver just what is ordered.
        """
        if self.terms.limited:
            return None
        own, whole = problem.family.units(self)
        return ShopTable(self.control(problem), radius or own, whole)

    def simulator(self, problem: Problem, truth: Demand, seed: int = 0) -> ShopSimulator:
        """The true shop under that demand."""
        return ShopSimulator(problem, truth, seed)

    def refuse_long(self, name: str, lead_time: int) -> None:
        """Refuse a lead time that must be a mistake of units."""
        if lead_time > MOST_LEAD_TIME:
            raise ValueError(f"{name} must be at most {MOST_LEAD_TIME} periods, not {lead_time}.")


@lru_cache(maxsize=256)
def _rule_of(family: PolicyFamily, system: ShopSystem) -> Rule:
    """The rule of a family, made once, so that it is compiled once."""
    return family.rule(system)
