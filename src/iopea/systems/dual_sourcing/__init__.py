"""Dual sourcing: lost sales with two suppliers, and its policy families."""

from __future__ import annotations

from typing import Self

from iopea.demand import Demand, Exponential
from iopea.problems.base import Problem
from iopea.systems.dual_sourcing.base_surge import BaseSurge
from iopea.systems.dual_sourcing.capped import CappedDualIndex
from iopea.systems.dual_sourcing.dual_index import DualIndex
from iopea.systems.dual_sourcing.system import DualSourcingSystem
from iopea.systems.shop.base import Levels


class DualSourcing(Problem):
    """The dual-sourcing problem: a lost-sales shop with two suppliers, and its policies.

    Created from the keys of :class:`~iopea.systems.dual_sourcing.system.DualSourcingSystem` and of
    a family: those of :class:`~iopea.systems.dual_sourcing.dual_index.DualIndex`, or any other
    family as ``policies``.

    Examples
    --------
    >>> shop = DualSourcing(
    ...     regular_lead_time=2, expedited_lead_time=0, holding_cost=1, lost_sales_cost=10,
    ...     regular_cost=0, expedited_cost=0.5, zero_demand=0.5,
    ...     expedited_levels={"low": 0, "high": 6}, regular_levels={"low": 0, "high": 6})
    >>> shop.constants.alpha, shop.constants.data_needed(0.05)
    (0.0625, 14142)
    """

    system_type = DualSourcingSystem
    families = (DualIndex, BaseSurge, CappedDualIndex)

    @classmethod
    def example(cls) -> tuple[Self, Demand]:
        """The paper's small setting with exponential demand."""
        levels = Levels(low=0, high=6)
        shop = cls(
            regular_lead_time=1, expedited_lead_time=0, holding_cost=1, lost_sales_cost=10,
            expedited_cost=0.5, expedited_levels=levels, regular_levels=levels, zero_demand=0.3,
        )  # fmt: skip
        return shop, Exponential(mean=1, maximum=3, zero_probability=0.3)

    @classmethod
    def examples(cls) -> tuple[tuple[Self, Demand], ...]:
        """The example, and one with each other family."""
        shop, demand = cls.example()
        surge = BaseSurge(
            orders=Levels(low=0, high=0.6, step=0.1), levels=Levels(low=0, high=6, step=0.5)
        )
        levels, caps = Levels(low=0, high=6, step=1), Levels(low=0, high=2, step=0.5)
        capped = CappedDualIndex(expedited_levels=levels, regular_levels=levels, caps=caps)
        others = ((cls(shop.system, family), demand) for family in (surge, capped))
        return (shop, demand), *others
