"""Replay of dual-index policies along the sales of another one.

If the stock of a candidate is never above the real one, as in the sample-path order for
L_r - L_e = 1, its sales follow from the real ones, whether demand was censored or not.
"""

from __future__ import annotations

import numpy as np

from iopea.policies import SAME_POINT
from iopea.problems.base import Problem
from iopea.state import array, mask, numbers, parts
from iopea.systems.dual_sourcing import kernel as kernels
from iopea.systems.dual_sourcing.records import DualRecords
from iopea.systems.shop.pooled import FIRST_BATCH, MOST_BATCHES
from iopea.systems.shop.tracker import Tracked
from iopea.types import Array, Estimates, Indices, Mask, Policy, Trajectory


class ReplayEstimator(Tracked):
    """Advances candidates along the sales of a policy that informs them on every sample path.

    With ``claimed`` all candidates are treated as informed, to test a claim that they are.
    """

    saved = parts(
        policies=array, played=numbers, settled=bool, told=mask, state=array, clock=int,
        size=int, pending=array, sums=array, sizes=array,
    )  # fmt: skip

    def __init__(
        self,
        problem: Problem,
        policies: Array,
        threads: int,
        precision: str,
        claimed: bool = False,
    ) -> None:
        self._problem, self._system = problem, problem.system
        self._policies, self._threads, self._precision = policies, threads, precision
        self._real: DualRecords = problem.family.tracker(problem)
        self._claimed = claimed
        self._played: Policy = (-1.0, -1.0)
        self._settled = False
        self._told = np.zeros(len(policies), dtype=np.bool_)
        self._state = kernels.start_state(policies, problem.system.lead_times, precision)
        self._clock = 0
        self._size = FIRST_BATCH
        self._pending = np.empty(0)
        self._sums, self._sizes = np.empty((2, 0, len(policies)))

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed periods; those with a position above the policy's levels don't count."""
        if trajectory.policy != self._played or not evaluate:
            self._close()
            self._played, self._settled = trajectory.policy, False
        first = 0
        while evaluate and not self._settled and first < len(trajectory):
            # By rounding, a position may lie slightly above the level.
            if self._real.position <= max(trajectory.policy) * (1 + SAME_POINT):
                self._resume()
            else:
                self._real.add(trajectory.part(first, first + 1))
                first += 1
        self._real.add(trajectory.part(first, len(trajectory)))
        if not self._settled:
            return 0
        self._pending = np.concatenate([self._pending, trajectory["sales"][first:]])
        while self._pending.size >= self._size:
            batches = min(self._pending.size // self._size, MOST_BATCHES - len(self._sums))
            self._advance(np.arange(1, batches + 1, dtype=np.intp) * self._size)
        return len(trajectory) - first

    def _resume(self) -> None:
        """Set all informed candidates to the real state, reduced to their z_r."""
        self._settled = True
        last = len(self._policies)
        if self._claimed:
            self._told = np.ones(last, dtype=np.bool_)
        else:
            order = self._problem.order(np.vstack([self._policies, self._played]))
            self._told = order.informed_by(last)[:last]
        held = np.concatenate([[self._real.on_hand], *self._real.pipelines])
        state = np.repeat(held[:, None], last, axis=1)
        cut = np.maximum(self._real.position - self._policies.max(axis=1), 0.0)
        for row in self._latest_first():
            less = np.minimum(state[row], cut)
            state[row] -= less
            cut -= less
        self._clock = 0
        self._state = kernels.start_state(
            self._policies, self._system.lead_times, self._precision, state
        )

    def _latest_first(self) -> list[int]:
        """Rows of stock and pipeline, the last arrival first."""
        regular, expedited = self._system.lead_times
        rows = []
        for age in reversed(range(regular)):
            rows.append(1 + age)
            if age < expedited:
                rows.append(1 + regular + age)
        return [*rows, 0]

    def _advance(self, ends: Indices) -> None:
        """Turn the first pending periods into batches."""
        sums = self._run(self._state, ends)
        self._clock += int(ends[-1])
        self._pending = self._pending[ends[-1] :]
        sizes = np.diff(ends, prepend=0)[:, None] * self._told
        self._sums = np.vstack([self._sums, np.where(self._told, sums, 0.0)])
        self._sizes = np.vstack([self._sizes, sizes.astype(np.float64)])
        if len(self._sums) >= MOST_BATCHES:
            even = len(self._sums) // 2 * 2
            for name in ("_sums", "_sizes"):
                rows = getattr(self, name)
                joined = rows[0:even:2] + rows[1:even:2]
                setattr(self, name, np.vstack([joined, rows[even:]]))
            self._size *= 2

    def _run(self, state: Array, ends: Indices) -> Array:
        system = self._system
        sums = kernels.replay(
            self._pending[: ends[-1]], ends, self._policies, state, self._clock,
            system.lead_times, system.unit_costs, self._threads,
        )  # fmt: skip
        return np.asarray(sums, dtype=np.float64)

    def _close(self) -> None:
        """Turn the pending periods into a batch, before another policy is played."""
        if self._pending.size:
            self._advance(np.array([self._pending.size], dtype=np.intp))

    def estimates(self) -> Estimates:
        """Costs by batch, including the one in progress."""
        sums, sizes = self._sums, self._sizes
        if self._pending.size:
            ends = np.array([self._pending.size], dtype=np.intp)
            last = self._run(self._state.copy(), ends)
            sums = np.vstack([sums, np.where(self._told, last, 0.0)])
            sizes = np.vstack([sizes, self._told * float(self._pending.size)])
        return Estimates(sums, sizes)

    def forget(self) -> None:
        """Drop all sums, but keep the states."""
        self._close()
        self._size = FIRST_BATCH
        self._sums, self._sizes = np.empty((2, 0, len(self._policies)))

    def keep(self, mask: Mask) -> None:
        """Keep only these policies."""
        self._policies, self._told = self._policies[mask], self._told[mask]
        self._state = np.compress(mask, self._state, axis=1)
        self._sums, self._sizes = self._sums[:, mask], self._sizes[:, mask]
