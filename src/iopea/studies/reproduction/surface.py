"""The paper's surface of costs over dual-index policies, where it is not convex, and its figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from iopea.comparison.figures import drawing, finished
from iopea.comparison.tables import Figure
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
#: Standard errors below zero from which a second difference counts as negative.
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
        """1 where the second difference along z_e is surely negative, an array (n - 2, n)."""
        return np.asarray(self.bend < -_SURELY * self.error, dtype=np.float64)

    @property
    def concave_inside(self) -> int:
        """How many of these are differences of three policies with z_e below z_r."""
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


def cost_surface_figure(surface: Surface, command: str) -> Figure:
    """The surface of costs, with the trace of z_e = 0 and a cut that bends downwards."""
    levels, cost = surface.levels, surface.cost
    cut = int(np.searchsorted(levels, 80.0))
    with drawing(7.4, 3.4) as canvas:
        left, right = canvas.subplots(1, 2, width_ratios=[1.15, 1])
        filled = left.contourf(levels, levels, cost, levels=24, cmap="viridis_r")
        for line in filled.get_paths():
            line.should_simplify = True
        row, column = np.nonzero(surface.concave)
        left.scatter(
            levels[column], levels[row + 1], s=3, color="#cc3311", label="not convex along $z_e$"
        )
        best = np.unravel_index(int(cost.argmin()), cost.shape)
        left.plot(levels[best[1]], levels[best[0]], "w*", markersize=8, markeredgecolor="#222222")
        left.axhline(0, color="#222222", linewidth=2, label="$z_e = 0$")
        left.axvline(levels[cut], color="#4477aa", linestyle="--", label="$z_r = 80$")
        left.set_xlabel("$z_r$")
        left.set_ylabel("$z_e$")
        left.grid(visible=False)
        left.set_title("cost per period", loc="left", fontsize=9)
        canvas.colorbar(filled, ax=left)
        right.plot(levels, cost[0], color="#222222", label="over $z_r$, $z_e = 0$")
        right.plot(
            levels, cost[:, cut], color="#4477aa", linestyle="--", label="over $z_e$, $z_r = 80$"
        )
        right.set_xlabel("level")
        right.set_title("two cuts", loc="left", fontsize=9)
        right.legend(loc="upper left")
        handles, labels = left.get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside lower center", ncols=3)
        convex = "convex" if surface.trace_convex else "not convex"
        caption = (
            "Average cost of dual-index policies (L_r = 8, L_e = 2, c_r = 1, c_e = 8, h = 1, "
            "p = 10, exponential demand of mean 40/3, 100,000 periods, one path of demand for "
            f"all). Where nothing is expedited (z_e = 0) the cost is {convex} in z_r. Along z_e it "
            f"is not convex at {int(surface.concave.sum())} points of the grid (second difference "
            "more than 4 standard errors below 0), most of them where z_e passes z_r and the slow "
            f"supplier is no longer used; {surface.concave_inside} lie below that line. The star "
            f"is the cheapest policy of the grid, {cost.min():.4g} at ({levels[best[0]]:g}, "
            f"{levels[best[1]]:g})."
        )
        return finished(canvas, "figure2", "Cost of dual-index policies", caption, command)
