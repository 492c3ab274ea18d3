"""Counterfactual costs of dual-index policies from the periods with a certain stock alone.

A candidate can be simulated on any sample of demand that is uncensored up to the candidate's
largest stock, which is its z_r. These estimators use periods that were not sold out for that
reason; the default, :class:`~iopea.systems.shop.pooled.ProductLimitReplay`, uses all of them.

``hitting``
    Periods whose stock after arrivals was exactly the played z_r (label ``def_dip_ERM``).
``level``
    All periods whose stock was at least the z_r of every candidate.
"""

from __future__ import annotations

import numpy as np

from iopea.problems.base import Problem
from iopea.state import parts
from iopea.systems.shop.pooled import Pooled, batch_ends
from iopea.types import Array, Estimates, Mask, Trajectory

#: With fewer usable periods there is no estimate.
FEWEST_PERIODS = 16


class LevelEstimator(Pooled):
    """Simulates candidates on the periods whose stock was at least the highest of their z_r.

    Each could use all periods with its own z_r, which are more; but differences between candidates
    simulated on different periods vary far more than on common periods.
    """

    saved = parts(reach=float)

    def __init__(self, problem: Problem, policies: Array, threads: int, precision: str) -> None:
        super().__init__(problem, policies, threads, precision)
        self._reach = 0.0

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed periods, and the largest possible stock."""
        if evaluate and len(trajectory):
            self._reach = max(self._reach, *trajectory.policy)
        return super().observe(trajectory, evaluate)

    def _estimate(self, stock: Array, sales: Array, with_error: bool = True) -> Estimates:
        tops = self._policies.max(axis=1)
        told = tops <= self._reach + self._tolerance
        highest = tops[told].max(initial=0.0)
        demand = sales[stock >= highest - self._tolerance]
        if demand.size < FEWEST_PERIODS:
            demand = demand[:0]
        ends = batch_ends(demand.size, tops.size)
        sizes = np.diff(ends, prepend=0).astype(np.float64)
        sums = self._in_any_order(demand, ends)
        if told.all():
            return Estimates(sums, sizes)
        return Estimates(sums * told, sizes[:, None] * told)

    def forget(self) -> None:
        """Drop all records."""
        super().forget()
        self._reach = 0.0


class HittingEstimator(LevelEstimator):
    """As :class:`LevelEstimator`, on periods whose stock was exactly the played z_r."""

    def _taken(self, trajectory: Trajectory) -> Mask:
        hit: Mask = np.abs(trajectory["stock"] - max(trajectory.policy)) <= self._tolerance
        return hit
