"""Capped dual-index policies: as dual-index policies, but the regular order has a cap.

A policy (z_e, z_r, c) orders (z_e - x)^+ expedited, as a dual-index policy does, and then from the
regular source what is missing to z_r, but at most c. A low cap turns the regular orders into a
nearly constant stream, as in tailored base-surge policies, but one that stops when the shop is
full.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Self

from iopea.errors import InputError
from iopea.information_order import InformationOrder
from iopea.policies import Box
from iopea.problems.base import Problem, Rule
from iopea.systems.dual_sourcing.dual_index import DualIndex, dual_index_rule
from iopea.systems.dual_sourcing.system import DualSourcingSystem
from iopea.systems.shop.base import Levels, Range, box_of
from iopea.systems.shop.family import OrderingFamily
from iopea.types import Array, Claim


@lru_cache
def _rule(regular: int, expedited: int) -> Rule:
    """The rule for these lead times; a state is on-hand stock, then the pipelines."""
    uncapped = dual_index_rule(regular, expedited)

    def order(state: Any, parameters: Any, signal: Any) -> Any:
        fast, slow = uncapped(state, parameters, signal)
        return fast, min(slow, parameters[2])

    return order


class CappedDualIndex(OrderingFamily):
    """Capped dual-index policies: up to z_e expedited, up to z_r regular, but at most a cap.

    Parameters
    ----------
    expedited_levels, regular_levels : Levels. The z_e and z_r that may be played; only those with
        z_e <= z_r are.
    caps : Levels. The largest regular orders that may be played [c].
    """

    kind: ClassVar[str] = "capped-dual-index"
    made_for: ClassVar[type[Any]] = DualSourcingSystem
    parameters: ClassVar[tuple[str, ...]] = ("expedited_level", "regular_level", "cap")

    expedited_levels: Range
    regular_levels: Range
    caps: Range

    @classmethod
    def within(cls, problem: Problem) -> Self | None:
        """The capped family for a problem with dual-index policies; None for other problems.

        Caps range up to the highest regular level over L_r + 1, as for constant orders.
        """
        if not isinstance(problem.family, DualIndex):
            return None
        expedited, regular = problem.family.expedited_levels, problem.family.regular_levels
        most = regular.high / (problem.system.regular_lead_time + 1)
        return cls(
            expedited_levels=Levels(low=expedited.low, high=expedited.high),
            regular_levels=Levels(low=regular.low, high=regular.high),
            caps=Levels(low=0.0, high=most),
        )

    def check_system(self, system: DualSourcingSystem) -> None:
        """Refuse ranges with which nothing could be sold."""
        if self.most_stock(system) == 0:
            raise InputError("Both highest levels are 0.0: nothing could be sold.")
        super().check_system(system)

    def policy_class(self, system: DualSourcingSystem) -> Box:
        """All (z_e, z_r, c) with z_e <= z_r."""
        return box_of(
            self.expedited_levels, self.regular_levels, self.caps,
            labels=("expedited level", "regular level", "cap"), ascending=2,
        )  # fmt: skip

    def most_stock(self, system: DualSourcingSystem) -> float:
        """The highest level of either kind."""
        return max(self.expedited_levels.high, self.regular_levels.high)

    def rule(self, system: DualSourcingSystem) -> Rule:
        """An expedited order up to z_e, and a regular one up to z_r, but at most the cap."""
        return _rule(*system.lead_times)

    def least_stock(self, system: DualSourcingSystem, policies: Array) -> Array | None:
        """With L_e = 0 the stock is never below z_e."""
        at_once = system.expedited_lead_time == 0 and not system.terms.limited
        return policies[:, 0] if at_once else None

    def order_on(self, system: DualSourcingSystem, policies: Array) -> InformationOrder:
        """By all three: the stock of the higher policy reaches that of the lower one."""
        return InformationOrder.from_key(policies)

    def claim(self, system: DualSourcingSystem) -> Claim:
        """In distribution: on one path the policy with more stock on average may have less."""
        return "distributional"

    def preference(self, policies: Array) -> Array:
        """The highest z_e: it has the most stock, and observes the most demand."""
        return -policies[:, 0]
