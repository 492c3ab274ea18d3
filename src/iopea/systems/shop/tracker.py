"""Tracks the real shop by its records, and counts those that contradict the policy's orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from iopea.problems.base import Evaluator
from iopea.state import Part, Stateful, array, parts
from iopea.systems.shop.records import FITS, tolerance
from iopea.systems.shop.rule import CompiledRule
from iopea.types import Array, Trajectory

#: Columns of records without deliveries and gaps: stock and sales.
_PLAIN = 2


class Tracker(Stateful):
    """The state of the real shop under policies of any family.

    Parameters
    ----------
    rule : CompiledRule. How the policies order.
    most : float. The largest stock, which is the scale of rounding errors.
    """

    saved = parts(state=array, inconsistent=int, steps=int)

    def __init__(self, rule: CompiledRule, most: float) -> None:
        self._rule = rule
        self.near = float(tolerance(np.array(most), None))
        self._state = np.zeros((1, rule.wide))
        self._inconsistent = self._steps = 0

    def place(self, state: Array) -> None:
        """Begin with this stock on hand and on order."""
        self._state[0] = state

    def add(self, trajectory: Trajectory) -> None:
        """Add records; where deliveries or gaps are recorded, orders may differ from the rule's."""
        bad = self._rule.follow(
            np.array(trajectory.policy), self._state, trajectory["stock"], trajectory["sales"],
            self.near,
        )  # fmt: skip
        if len(trajectory.columns) == _PLAIN:
            self._inconsistent += bad
        self._steps += len(trajectory)

    @property
    def position(self) -> float:
        """Stock on hand and on order."""
        return float(self._state.sum())

    @property
    def inconsistent(self) -> int:
        """Number of steps whose stock is inconsistent with the orders."""
        return self._inconsistent

    @property
    def contradiction(self) -> str | None:
        """Message if more than 2 % of the steps contradict the model."""
        if self._inconsistent <= FITS * self._steps:
            return None
        return (
            f"{self._inconsistent:,} of {self._steps:,} steps contradict the model, so that "
            "nothing more is eliminated on these records: check lead times, orders, and that the "
            "stock was recorded after arrivals and before sales."
        )


class Untracked(Stateful):
    """Stands for a system without a state, every record of which fits."""

    position = 0.0
    inconsistent = 0
    contradiction: str | None = None

    def add(self, trajectory: Trajectory) -> None:
        """Nothing to follow."""


class Tracked(Evaluator):
    """An evaluator that follows the real system by a tracker, its attribute ``_real``."""

    saved = parts(real=Part)
    _real: Any

    def place(self, state: Array) -> None:
        """Begin with this stock on hand and on order."""
        self._real.place(state)

    @property
    def at_start(self) -> bool:
        """Whether the real shop is empty, with nothing on order."""
        return bool(self._real.position == 0)

    @property
    def departures(self) -> int:
        """Periods inconsistent with the orders of the policy that was played."""
        return int(self._real.inconsistent)

    @property
    def contradiction(self) -> str | None:
        """Message if the records don't fit the model, with the likely reason if it is known."""
        found: str | None = self._real.contradiction
        return found


def tracker_of(problem: Any) -> Tracker:
    """A tracker of the real shop of a problem."""
    system, family = problem.system, problem.family
    return Tracker(system.compiled(family), family.most_stock(system))
