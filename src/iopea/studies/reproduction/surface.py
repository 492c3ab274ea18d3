"""The paper's surface of costs over dual-index policies, and where it is not convex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from iopea.problem_files import problem_from
from iopea.types import Array

#: The system, the grid of both levels and the steps of the paper's second figure.
SYSTEM: dict[str, dict[str, Any]] = {
    "problem": {
        "kind": "dual-sourcing",
        "regular_lead_time": 8,
        "expedited_lead_time": 2,
        "holding_cost": 1.0,
        "lost_sales_cost": 10.0,
        "regular_cost": 1.0,
        "expedited_cost": 8.0,
        "expedited_levels": {"low": 0.0, "high": 200.0},
        "regular_levels": {"low": 0.0, "high": 200.0},
    },
    "demand": {"distribution": "exponential", "mean": 40 / 3},
}
GRID = tuple(float(level) for level in range(0, 201, 5))
STEPS, BATCHES = 100_000, 50
#: Standard errors below zero at which a second difference counts as negative.
_SURELY = 4.0


@dataclass(frozen=True)
class Surface:
    """Average costs on a grid of policies, on one path of demand.

    Attributes
    ----------
    levels : array (n,). Values of both z_e and z_r.
    cost : array (n, n). By z_e and z_r.
    bend, error : arrays (n - 2, n). Second differences along z_e, and their standard errors; a
        negative one is a place where the cost is not convex.
    trace_bend, trace_error : arrays (n - 2,). Second differences along z_r at z_e = 0.
    """

    levels: Array
    cost: Array
    bend: Array
    error: Array
    trace_bend: Array
    trace_error: Array

    @property
    def concave(self) -> Array:
        """Where the second difference along z_e is surely negative, an array (n - 2, n) of 0, 1."""
        return np.asarray(self.bend < -_SURELY * self.error, dtype=np.float64)

    @property
    def concave_inside(self) -> int:
        """How many of these are about three policies with z_e below z_r."""
        inside = self.levels[2:, None] < self.levels[None, :]
        return int((self.concave * inside).sum())

    @property
    def trace_convex(self) -> bool:
        """Whether no second difference is surely negative where nothing is expedited."""
        return bool((self.trace_bend >= -_SURELY * self.trace_error).all())


def cost_surface(steps: int = STEPS, seed: int = 0) -> Surface:
    """Simulate every policy of the grid on the same demand."""
    problem, truth = problem_from(SYSTEM)
    levels = np.array(GRID)
    fast, slow = np.meshgrid(levels, levels, indexing="ij")
    policies = np.column_stack([fast.ravel(), slow.ravel()])
    found = problem.simulator(truth).costs(policies, steps, BATCHES, seed)
    batches = (found.sums / found.sizes[:, None]).reshape(BATCHES, levels.size, levels.size)
    bends = np.diff(batches, 2, axis=1)
    trace = np.diff(batches[:, 0, :], 2, axis=1)
    return Surface(
        levels,
        batches.mean(axis=0),
        bends.mean(axis=0),
        _error(bends),
        trace.mean(axis=0),
        _error(trace),
    )


def _error(batches: Array) -> Array:
    return np.asarray(batches.std(axis=0, ddof=1) / np.sqrt(len(batches)))
