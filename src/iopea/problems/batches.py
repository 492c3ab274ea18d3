"""Costs of candidates, cut into batches of equal length that grow with the data."""

from __future__ import annotations

import numpy as np

from iopea.types import Array, Mask, State

#: Length of the first batches.
FIRST_BATCH = 4
#: At this many batches neighbours are joined, and batches become twice as long.
MOST_BATCHES = 256
#: The most batch costs to hold; above it, fewer batches are kept.
MOST_COSTS = 2**25
#: Batches filled between two calls of :meth:`Batches.add`, so that no copy grows large.
_BATCHES_AT_A_TIME = 16


class Batches:
    """The cost of the batch in progress and of the finished ones.

    Where batches are cut depends on the number of steps alone, not on how the
    steps were delivered. The number of batches is even whenever they are joined.
    """

    def __init__(self, policies: int, dtype: str = "float64") -> None:
        self.running = np.zeros(policies, dtype=dtype)
        self.clear()

    def clear(self) -> None:
        """Forget all that was counted."""
        self.running[:] = 0.0
        self.filled = 0
        self.size = FIRST_BATCH
        self.costs = np.empty((0, self.running.size))

    @property
    def most(self) -> int:
        """How many batches are held at the most: 256, fewer for very large nets."""
        room = max(32, MOST_COSTS // max(self.running.size, 1))
        return int(min(MOST_BATCHES, 2 ** (room.bit_length() - 1)))

    @property
    def room(self) -> int:
        """Steps to take before :meth:`add` is due."""
        batches = min(self.most - len(self.costs), _BATCHES_AT_A_TIME)
        return batches * self.size - self.filled

    def add(self, steps: int, costs: Array) -> None:
        """Count ``steps``, during which these batches were filled."""
        self.filled = (self.filled + steps) % self.size
        if len(costs):
            self.costs = np.concatenate([self.costs, costs])
        if len(self.costs) >= self.most:
            self.costs = self.costs[0::2] + self.costs[1::2]
            self.size *= 2

    def keep(self, mask: Mask) -> None:
        """Keep only these policies."""
        self.running = self.running[mask]
        self.costs = np.compress(mask, self.costs, axis=1)

    def state_dict(self) -> State:
        """The counts and arrays."""
        return {
            "running": self.running.copy(),
            "filled": self.filled,
            "size": self.size,
            "costs": self.costs.copy(),
        }

    def load_state_dict(self, state: State) -> None:
        """Go on from a saved state."""
        self.running = np.array(state["running"])
        self.costs = np.array(state["costs"])
        self.filled, self.size = int(state["filled"]), int(state["size"])
