"""Capped base-stock policies: order up to a level, but never more than a cap.

A policy (S, c) orders Q_t = min{(S - I_t - Q_{t-1} - ... - Q_{t-L})^+, c}. Without the cap it is a
base-stock policy; with a high level it is nearly a constant order. It spreads what is ordered after
a large demand over several periods, which with a lead time saves a few per cent.

Of two policies with the same cap, that with the higher level orders at least as much in every
period, so it informs the other on every sample path. With a lead time, policies with different caps
are not related in this way: what a higher cap orders at once may be sold at once, and is missing
later. But a policy with a higher level and a higher cap reaches the stock of the other again and
again, so its records determine the demand distribution as far as the other needs it.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self

from iopea.errors import InputError
from iopea.information_order import InformationOrder
from iopea.policies import Box
from iopea.problems.base import Problem
from iopea.systems.lost_sales.base_stock import BaseStock
from iopea.systems.lost_sales.system import LostSalesSystem
from iopea.systems.shop.base import TOLD, Levels, Range, box_of
from iopea.systems.shop.family import OrderingFamily, higher_informs_lower
from iopea.systems.shop.kernel import inventory_position, order_up_to
from iopea.types import Array, Claim


class CappedBaseStock(OrderingFamily):
    """Capped base-stock policies: order up to a level, but at most a cap.

    Parameters
    ----------
    levels : Levels. The levels that may be played [S].
    caps : Levels. The largest orders that may be played [c].
    order_by : str. ``"law"``: by level and cap, in distribution. ``"sample-path"``: by level alone,
        among policies with the same cap, on every sample path.
    """

    kind: ClassVar[str] = "capped-base-stock"
    made_for: ClassVar[type[Any]] = LostSalesSystem
    parameters: ClassVar[tuple[str, ...]] = ("level", "cap")
    optional_columns: ClassVar[tuple[str, ...]] = TOLD

    levels: Range
    caps: Range
    order_by: Literal["law", "sample-path"] = "law"

    @classmethod
    def within(cls, problem: Problem) -> Self | None:
        """The capped family for a problem with base-stock levels; None for other problems."""
        if not isinstance(problem.family, BaseStock):
            return None
        levels = problem.family.levels
        return cls.around(Levels(low=levels.low, high=levels.high), problem.system.lead_time)

    @classmethod
    def around(cls, levels: Levels, lead_time: int) -> Self:
        """All of these levels.

        With a constant order the pipeline, including the order that arrives and the one that is
        placed, is L + 1 times that order: caps range up to the highest level over L + 1.
        """
        most = levels.high / (lead_time + 1)
        if levels.step is not None:
            most = levels.step * math.ceil(most / levels.step)
        return cls(levels=levels, caps=Levels(low=0.0, high=most, step=levels.step))

    def check_system(self, system: LostSalesSystem) -> None:
        """Refuse ranges with which nothing could be sold."""
        for name, values in (("levels", self.levels), ("caps", self.caps)):
            if values.high == 0:
                raise InputError(f"The {name} need high > 0, but high is 0.0: nothing is sold.")
        super().check_system(system)

    def policy_class(self, system: LostSalesSystem) -> Box:
        """All (S, c)."""
        return box_of(self.levels, self.caps, labels=("level", "cap"))

    def most_stock(self, system: LostSalesSystem) -> float:
        """The highest level."""
        return self.levels.high

    @staticmethod
    def order(state: Any, parameters: Any, signal: Any) -> Any:
        """What is missing to the level, up to the cap."""
        return min(order_up_to(parameters[0], inventory_position(state)), parameters[1])

    def order_on(self, system: LostSalesSystem, policies: Array) -> InformationOrder:
        """By level and cap, or by level among policies with the same cap."""
        if self.order_by == "sample-path":
            return higher_informs_lower(policies[:, 0], within=policies[:, 1])
        return InformationOrder.from_key(policies)

    def claim(self, system: LostSalesSystem) -> Claim:
        """In distribution, or on every sample path, as chosen."""
        on_paths = self.order_by == "sample-path" and not system.terms.limited
        return "sample-path" if on_paths else "distributional"

    def preference(self, policies: Array) -> Array:
        """The highest cap: it has the most stock, and observes the most demand."""
        return -policies[:, 1]
