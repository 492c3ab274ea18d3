"""Constant orders: the same amount in every period, whatever the stock.

With a long lead time they are nearly the best of all policies, and need no record of the stock. A
higher order means more stock in every period: it informs every lower one on every sample path. An
order that is not below mean demand fills the shop up for ever; it is neither played nor judged.
"""

from __future__ import annotations

from typing import Any, ClassVar

from iopea.errors import InputError
from iopea.information_order import InformationOrder
from iopea.policies import Box
from iopea.problems.base import Evaluator, Problem
from iopea.systems.lost_sales.system import LostSalesSystem
from iopea.systems.shop.base import TOLD, Range, box_of
from iopea.systems.shop.family import OrderingFamily
from iopea.systems.shop.kernel import delivered
from iopea.systems.shop.pooled import ProductLimitReplay
from iopea.types import Array, Claim, Precision

#: Periods whose orders count as the largest stock, besides those under way.
_PERIODS_HELD = 20


class ConstantOrder(OrderingFamily):
    """Constant orders: the same amount in every period.

    Parameters
    ----------
    orders : Levels. The amounts that may be ordered.
    """

    kind: ClassVar[str] = "constant-order"
    made_for: ClassVar[type[Any]] = LostSalesSystem
    parameters: ClassVar[tuple[str, ...]] = ("order",)
    optional_columns: ClassVar[tuple[str, ...]] = TOLD

    orders: Range

    def check_system(self, system: LostSalesSystem) -> None:
        """Refuse a range with which nothing could be sold."""
        if self.orders.high == 0:
            raise InputError("The orders need high > 0, but high is 0.0: nothing could be sold.")
        super().check_system(system)

    def policy_class(self, system: LostSalesSystem) -> Box:
        """All amounts in the range."""
        return box_of(self.orders, labels=("order",))

    def most_stock(self, system: LostSalesSystem) -> float:
        """What is under way, and the orders of some periods: there is no largest stock."""
        return self.orders.high * (system.lead_time + _PERIODS_HELD)

    @staticmethod
    def order(state: Any, parameters: Any, signal: Any) -> Any:
        """The amount."""
        return parameters[0]

    def constant_orders(self, system: LostSalesSystem, policies: Array) -> Array:
        """The amount that is delivered."""
        terms = system.terms
        return delivered(policies[:, 0], terms.multiple, terms.minimum)

    def order_on(self, system: LostSalesSystem, policies: Array) -> InformationOrder:
        """A higher order informs every lower one."""
        return InformationOrder.from_key(policies[:, 0])

    def claim(self, system: LostSalesSystem) -> Claim:
        """The stock of a higher order is higher in every period."""
        return "sample-path"

    def evaluator(
        self, problem: Problem, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """Simulation on all records, since the highest orders may not be played."""
        return ProductLimitReplay(problem, policies, threads, precision)
