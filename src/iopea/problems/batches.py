"""Batch sums of the candidates' costs, in batches of equal length that grow with the data."""

from __future__ import annotations

import numpy as np

from iopea.state import Stateful, array, indices, parts
from iopea.types import Array, Estimates, Indices, Mask

#: Length of the first batches.
FIRST_BATCH = 4
#: At this many batches, adjacent ones are merged and the batch length doubles.
MOST_BATCHES = 256
#: Most batch sums in memory; with more policies, fewer batches are kept.
MOST_COSTS = 2**25
#: Most batches filled between two calls of :meth:`Batches.add`, which limits temporary memory.
_BATCHES_AT_A_TIME = 16
#: At this many batches of a group, adjacent ones are merged.
MOST_GROUPED = 128
#: Stands for no filled batch.
_NONE = np.empty((0, 0))


class Batches(Stateful):
    """The costs of the batch in progress and of the finished batches.

    Batch boundaries depend only on the number of steps, not on how the steps were split into calls.
    The number of batches is even whenever they are merged.
    """

    saved = parts(running=array, filled=int, size=int, costs=array)

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
        """Most batches that are kept: 256, fewer for very large nets."""
        room = max(32, MOST_COSTS // max(self.running.size, 1))
        return int(min(MOST_BATCHES, 2 ** (room.bit_length() - 1)))

    @property
    def room(self) -> int:
        """Steps that may pass before :meth:`add` is due."""
        batches = min(self.most - len(self.costs), _BATCHES_AT_A_TIME)
        return batches * self.size - self.filled

    def add(self, steps: int, costs: Array) -> None:
        """Add ``steps`` steps, during which these batches were filled."""
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


class GroupedBatches(Stateful):
    """Costs of groups of policies, each group estimated from its own steps.

    Batch boundaries of a group depend only on the number of its steps. Row b holds the b-th batch
    of every group, so that rows are few whatever the number of groups; batches of different groups
    are independent, so any of them may share a row.

    Parameters
    ----------
    groups : array (n,). The group of each policy.
    count : int. Number of groups, which are numbered from 0.
    first : int. Length of the first batches; 1 is enough where steps are independent.
    """

    saved = parts(groups=indices, finished=indices, filled=indices, size=indices, sums=array)

    def __init__(self, groups: Indices, count: int, first: int = FIRST_BATCH) -> None:
        self._groups: Indices = np.array(groups, dtype=np.intp)
        self._count, self._first = count, first
        self.clear()

    def clear(self) -> None:
        """Forget all that was counted."""
        self._finished = np.zeros(self._count, dtype=np.intp)
        self._filled = np.zeros(self._count, dtype=np.intp)
        self._size = np.full(self._count, self._first, dtype=np.intp)
        self._sums = np.zeros((1, self._groups.size))

    def add(self, group: int, costs: Array) -> None:
        """Add steps of a group: an array (steps, members), or (steps, 1) if all cost the same."""
        members = np.flatnonzero(self._groups == group)
        while len(costs):
            room, row = self._size[group] - self._filled[group], self._finished[group]
            part, costs = costs[:room], costs[room:]
            # Added one by one, so that rounding does not depend on how the steps were split.
            steps = np.empty((len(part) + 1, members.size))
            steps[0], steps[1:] = self._sums[row, members], part
            self._sums[row, members] = np.add.accumulate(steps)[-1]
            self._filled[group] += len(part)
            if self._filled[group] == self._size[group]:
                self._next_batch(group, members)

    def _next_batch(self, group: int, members: Indices) -> None:
        self._filled[group] = 0
        self._finished[group] += 1
        if self._finished[group] == MOST_GROUPED:
            joined = self._sums[0:MOST_GROUPED:2, members] + self._sums[1:MOST_GROUPED:2, members]
            self._sums[:, members] = 0.0
            self._sums[: len(joined), members] = joined
            self._finished[group] //= 2
            self._size[group] *= 2
        elif self._finished[group] == len(self._sums):
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])

    def estimates(self, steps: int = 1) -> Estimates:
        """Sums and sizes of all batches, also unfinished ones; a step counts ``steps`` times."""
        rows = int((self._finished + (self._filled > 0)).max(initial=0))
        row = np.arange(rows)[:, None]
        sizes = np.where(row < self._finished, self._size, 0)
        sizes = steps * np.where(row == self._finished, self._filled, sizes).astype(np.float64)
        sums = steps * self._sums[:rows]
        return Estimates(sums, sizes[:, 0] if self._count == 1 else sizes[:, self._groups])

    def keep(self, mask: Mask) -> None:
        """Keep only these policies."""
        self._groups = self._groups[mask]
        self._sums = np.compress(mask, self._sums, axis=1)
