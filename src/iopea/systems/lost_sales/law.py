"""Costs of base-stock levels on demand drawn from its estimate, with records read as they fit.

Which demand was seen does not depend on how orders were filled; what a level costs does. So where
recorded orders and arrivals show another lead time, or orders in multiples, levels are simulated
with those; and where they show that the stock was recorded after sales, demand is counted anew.
"""

from __future__ import annotations

import numpy as np

from iopea.problems.base import Choice, Problem
from iopea.systems.lost_sales.ledger import Followed
from iopea.systems.shop.law_simulation import LawSimulation
from iopea.systems.shop.records import BELOW, Reading
from iopea.systems.shop.tally import Tally
from iopea.types import Array, Estimates, Indices, Policy, Trajectory

#: Share of a multiple by which an order may miss it.
_NEARLY = 1e-6


class BaseStockLaw(LawSimulation):
    """Simulates base-stock levels on demand drawn from the product-limit estimate."""

    def __init__(
        self, problem: Problem, policies: Array, threads: int = 1, precision: str = "float64"
    ) -> None:
        super().__init__(problem, policies, threads, precision)
        levels = problem.family.levels
        self._real: Followed = Followed(problem.system.lead_time, levels.step, levels.high)
        self._shift = 0.0

    def _follow(self, trajectory: Trajectory, evaluate: bool) -> None:
        if evaluate and set(trajectory.columns) != set(self._system.columns):
            self._real.ledger.begin()
        self._real.add(trajectory, evaluate)

    def _seen(self, trajectory: Trajectory) -> tuple[Array, Array]:
        """Sales and stock; that no more can be sold than there is, the ledger checks."""
        sales, stock = self._system.demand_seen(trajectory)
        return np.minimum(sales, stock), stock

    @property
    def note(self) -> str | None:
        """How the records are read, if not as the problem says."""
        return self._real.ledger.note

    @property
    def demand_records(self) -> tuple[Array, Array] | None:
        """Sales and stock as the records are read, where the stock was recorded after sales."""
        ledger = self._real.ledger
        return ledger.demand_records if ledger.open and ledger.reading.evening else None

    def _reread(self) -> None:
        """Simulate what the records show, once they tell more than stock and sales."""
        ledger, system = self._real.ledger, self._problem.system
        if not ledger.open or ledger.contradiction is not None:
            return
        reading = ledger.reading
        multiple = reading.multiple or None
        if (reading.lead_time, multiple) != (self._system.lead_time, self._system.order_multiple):
            update = {"lead_time": reading.lead_time, "order_multiple": multiple}
            self._system = system.model_copy(update=update)
            self._known = self._some = None
        self._shift = _shift(reading)
        if reading.evening and ledger.demand_records is not None:
            sales, stock = ledger.demand_records
            self._tally = Tally(self._bound)
            self._tally.add(stock, sales)

    def choose(self, current: Policy | None = None) -> Choice | None:
        """The estimated best level; None without records."""
        self._reread()
        return super().choose(current)

    def means_of(self, policies: Array) -> Array:
        """Estimated costs of any levels from all records."""
        self._reread()
        return super().means_of(policies)

    def _estimate(self) -> Estimates:
        self._reread()
        return super()._estimate()

    def _simulate(
        self, demands: Array, ends: Indices, policies: Array, stock: bool = False
    ) -> Array:
        return super()._simulate(demands, ends, policies + self._shift, stock)

    def _loaded(self) -> None:
        super()._loaded()
        self._reread()


def _shift(reading: Reading) -> float:
    """What a level is raised by if orders are rounded down, for the orders that were read."""
    return reading.multiple * max(1.0 - BELOW[reading.rounding] - _NEARLY, 0.0)
