"""(s, S) policies: when the inventory position is at or below s, order up to S.

With a cost for each order these are better than base-stock levels, which order after every sale.
With s = S they are base-stock levels.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from iopea.errors import InputError
from iopea.information_order import InformationOrder
from iopea.policies import Box
from iopea.systems.lost_sales.system import LostSalesSystem
from iopea.systems.shop.base import TOLD, Levels, Range, box_of
from iopea.systems.shop.family import OrderingFamily
from iopea.systems.shop.kernel import inventory_position, order_up_to
from iopea.types import Array, Claim


class ReorderUpTo(OrderingFamily):
    """(s, S) policies: order up to S whenever the inventory position is at most s.

    Parameters
    ----------
    reorder_levels : Levels. The s that may be played.
    order_up_to_levels : Levels. The S that may be played; only pairs with s <= S are.
    """

    kind: ClassVar[str] = "s-S"
    made_for: ClassVar[type[Any]] = LostSalesSystem
    parameters: ClassVar[tuple[str, ...]] = ("reorder_level", "order_up_to_level")
    optional_columns: ClassVar[tuple[str, ...]] = TOLD

    reorder_levels: Range
    order_up_to_levels: Range

    @classmethod
    def around(cls, levels: Levels, lead_time: int) -> Self:
        """All pairs of these levels."""
        return cls(reorder_levels=levels, order_up_to_levels=levels)

    def check_system(self, system: LostSalesSystem) -> None:
        """Refuse ranges with which nothing could be sold."""
        if self.order_up_to_levels.high == 0:
            raise InputError(
                "The order_up_to_levels need high > 0, but high is 0.0: nothing could be sold."
            )
        super().check_system(system)

    def policy_class(self, system: LostSalesSystem) -> Box:
        """All (s, S) with s <= S."""
        labels = ("reorder level", "order-up-to level")
        return box_of(self.reorder_levels, self.order_up_to_levels, labels=labels, ascending=2)

    def most_stock(self, system: LostSalesSystem) -> float:
        """The highest S."""
        return self.order_up_to_levels.high

    @staticmethod
    def order(state: Any, parameters: Any, signal: Any) -> Any:
        """What is missing to S, where the inventory position is at most s."""
        position = inventory_position(state)
        wanted = order_up_to(parameters[1], position)
        # A position computed from several amounts may lie above s by rounding.
        return wanted if position <= parameters[0] + 1e-9 * parameters[1] else 0.0

    def order_on(self, system: LostSalesSystem, policies: Array) -> InformationOrder:
        """By both levels: the stock of the higher pair reaches that of the lower one."""
        return InformationOrder.from_key(policies)

    def claim(self, system: LostSalesSystem) -> Claim:
        """In distribution: on one path the pair with more stock on average may have less."""
        return "distributional"

    def preference(self, policies: Array) -> Array:
        """The highest s: it has the most stock, and observes the most demand."""
        return -policies[:, 0]
