"""A finite system as a table of states and actions."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from iopea.problems.tabular import EveryAction, Revealed, Steps
from iopea.systems.finite.outcomes import outcomes_of
from iopea.types import Array, Indices, Trajectory


class FiniteTable(EveryAction):
    """The system as a table; under full feedback a step reveals every action of its state."""

    def __init__(
        self,
        states: int,
        actions: int,
        cost_bounds: tuple[float, float],
        columns: tuple[str, ...],
        every: bool,
    ) -> None:
        super().__init__(states, actions, states)
        self._bounds, self._columns = cost_bounds, columns
        self._every = actions if every else None

    @cached_property
    def following(self) -> Indices:
        """An outcome is the next state."""
        return np.tile(np.arange(self.states), (self.pairs, 1))

    @cached_property
    def outcome_costs(self) -> None:
        """The next state does not determine the cost."""
        return None

    @cached_property
    def cost_bounds(self) -> tuple[Array, Array]:
        """The cost bounds of the system."""
        low, high = self._bounds
        return np.full(self.pairs, low), np.full(self.pairs, high)

    def steps(self, trajectory: Trajectory) -> Steps:
        """The outcomes of the actions taken."""
        seen = outcomes_of(trajectory, self._columns, self._every)
        own = (np.arange(seen.states.size), seen.taken)
        pairs = seen.states * self.actions + seen.actions[own]
        return Steps(pairs, seen.following[own], seen.costs[own])

    def revealed(self, trajectory: Trajectory) -> Revealed:
        """All observed outcomes."""
        seen = outcomes_of(trajectory, self._columns, self._every)
        pairs = (seen.states[:, None] * self.actions + seen.actions).ravel()
        weights = np.ones(pairs.size)
        return Revealed(pairs, seen.following.ravel(), weights, seen.costs.ravel(), pairs)
