"""The true lost-sales system, under base-stock levels and controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iopea.demand import Demand, DemandStream
from iopea.problems.base import as_policies
from iopea.problems.stepped import SteppedSimulator
from iopea.systems.lost_sales import kernel as kernels
from iopea.systems.shop.base import time_to_sell
from iopea.systems.shop.simulator import PATH, DemandSimulator
from iopea.types import Array, Estimates, Policy, Rollout, State, Trajectory

if TYPE_CHECKING:
    from iopea.systems.lost_sales.system import LostSales


class LostSalesSimulator(DemandSimulator, SteppedSimulator):
    """The true system: it knows the demand law and the demand that was lost."""

    problem: LostSales

    def __init__(self, problem: LostSales, demand: Demand, seed: int = 0) -> None:
        super().__init__(problem, demand, seed)
        self._control = problem.control
        self._on_hand = 0.0
        self._pipeline = np.zeros(problem.lead_time)

    def play(self, policy: Policy, steps: int, until_start: bool = False) -> Rollout:
        """Play a level from the present state on; stop early once the shop is empty, if asked."""
        before = self._stream.state_dict() if until_start else None
        demand = self._stream.draw(steps)
        played, self._on_hand, stock, sales, left, own = kernels.roll_out(
            policy[0], demand, self._on_hand, self._pipeline, until_start,
            self.problem.period_cost,
        )  # fmt: skip
        if before is not None and played < steps:
            # Demand that was drawn but not met belongs to the steps to come.
            self._stream.load_state_dict(before)
            self._stream.draw(played)
        lost = demand[:played] - sales
        costs = self.problem.holding_cost * left + self.problem.lost_sales_cost * lost + own
        return Rollout(Trajectory(policy, stock=stock, sales=sales), costs)

    def _row(self) -> Array:
        return np.append(self._on_hand, self._pipeline)

    def _set_row(self, row: Array) -> None:
        self._on_hand, self._pipeline = float(row[0]), row[1:].copy()

    def _noise(self, steps: int) -> Array:
        return self._stream.draw(steps)[:, None]

    def _advance(self, states: Array, actions: Array, noise: Array) -> tuple[Array, Array]:
        problem = self.problem
        records = self._control.advance(states, actions, noise)
        stock, sales = records.T
        costs = problem.holding_cost * (stock - sales)
        costs += problem.lost_sales_cost * (noise[:, 0] - sales)
        return records, costs + problem.own_costs(stock, sales, actions[:, 0])

    def _costs_on(
        self, stream: DemandStream, policies: Array, steps: int, batches: int
    ) -> Estimates:
        problem = self.problem
        levels = as_policies(policies)[:, 0]
        size = -(-steps // batches)
        nothing = np.zeros((problem.lead_time, levels.size))
        ring = kernels.start_ring(levels, np.zeros(levels.size), nothing)
        running = kernels.potential(ring, 0, problem.unit_costs)
        rows: list[Array] = []
        filled, head, since, lost = 0, 0, 0, np.zeros(batches)
        for row in range(batches):
            remaining = size
            while remaining:
                demand = stream.draw(min(remaining, PATH))
                done, since = kernels.replay(
                    demand, levels, ring, head, since, problem.unit_costs,
                    running, filled, size, problem.period_cost,
                )  # fmt: skip
                head = (head + demand.size) % len(ring)
                filled = (filled + demand.size) % size
                remaining -= demand.size
                lost[row] += problem.lost_sales_cost * demand.sum()
                rows.extend(done)
        return Estimates(np.array(rows) + lost[:, None], np.full(batches, float(size)))

    def restart_time(self, seed: int = 0) -> float:
        """Bound on the expected time back to the empty shop under level 0 [D_Θ = U E(τ)].

        τ is the time until demand adds up to 1, estimated on one long path; infinite
        where that never happens on it.
        """
        return float(self.problem.levels.high * time_to_sell(self.truth, seed))

    def _state(self) -> State:
        return {
            "on_hand": self._on_hand,
            "pipeline": self._pipeline.copy(),
            "stream": self._stream.state_dict(),
        }

    def _load(self, state: State) -> None:
        self._on_hand = float(state["on_hand"])
        self._pipeline = np.array(state["pipeline"])
        self._stream.load_state_dict(state["stream"])
