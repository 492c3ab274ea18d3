"""The true dual sourcing system, under dual-index policies, base-surge policies and controllers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from iopea.demand import Demand, DemandStream
from iopea.problems.base import as_policies
from iopea.problems.stepped import SteppedSimulator
from iopea.seeds import seed_for
from iopea.systems.dual_sourcing import kernel as kernels
from iopea.systems.dual_sourcing import surge_kernel as surge_kernels
from iopea.systems.dual_sourcing.base_surge import BaseSurge
from iopea.systems.shop.base import time_to_sell
from iopea.systems.shop.simulator import PATH, DemandSimulator
from iopea.types import (
    Array,
    Controller,
    Estimates,
    Policy,
    Rollout,
    State,
    Trajectory,
)

if TYPE_CHECKING:
    from iopea.systems.dual_sourcing.system import DualSourcing


class DualSourcingSimulator(DemandSimulator, SteppedSimulator):
    """The true system: it knows the demand law and the demand that was lost."""

    problem: DualSourcing

    def __init__(self, problem: DualSourcing, demand: Demand, seed: int = 0) -> None:
        super().__init__(problem, demand, seed)
        self._control = problem.control
        self._on_hand = 0.0
        self._regular = np.zeros(problem.regular_lead_time)
        self._expedited = np.zeros(problem.expedited_lead_time)

    def play(self, policy: Policy, steps: int, until_start: bool = False) -> Rollout:
        """Play (z_e, z_r) from the present state on; stop early once all is empty, if asked."""
        before = self._stream.state_dict() if until_start else None
        demand = self._stream.draw(steps)
        played, self._on_hand, columns = kernels.roll_out(
            policy, demand, self._on_hand, self._regular, self._expedited, until_start
        )
        if before is not None and played < steps:
            # Demand that was drawn but not met belongs to the steps to come.
            self._stream.load_state_dict(before)
            self._stream.draw(played)
        stock, sales, fast, slow = columns
        holding, price, regular, expedited = self.problem.unit_costs
        lost = demand[:played] - sales
        costs = holding * (stock - sales) + price * lost + regular * slow + expedited * fast
        return Rollout(Trajectory(policy, stock=stock, sales=sales), costs)

    def drive(self, controller: Controller, steps: int, copies: int = 1) -> Rollout:
        """Let a controller act; a base-surge policy on one copy runs compiled."""
        problem = self.problem
        if copies != 1 or not self._is_surge(controller):
            return super().drive(controller, steps, copies)
        demand, row = self._stream.draw(steps), self._row()
        columns = surge_kernels.roll_out(
            controller.order, controller.level, demand, row, problem.regular_lead_time
        )
        self._set_row(row)
        self._turn = 0
        fast, slow, stock, sales = columns[-4:]
        holding, price, regular, expedited = problem.unit_costs
        costs = holding * (stock - sales) + price * (demand - sales)
        costs += expedited * fast + regular * slow
        named = dict(zip(problem.control.columns, columns, strict=True))
        return Rollout(Trajectory(controller, **named), costs)

    def _is_surge(self, controller: Controller) -> TypeGuard[BaseSurge]:
        """Whether it is a base-surge policy of this system."""
        return (
            isinstance(controller, BaseSurge) and controller.lead_times == self.problem.lead_times
        )

    def _row(self) -> Array:
        return np.concatenate([[self._on_hand], self._regular, self._expedited])

    def _set_row(self, row: Array) -> None:
        last = 1 + self.problem.regular_lead_time
        self._on_hand = float(row[0])
        self._regular, self._expedited = row[1:last].copy(), row[last:].copy()

    def _noise(self, steps: int) -> Array:
        return self._stream.draw(steps)[:, None]

    def _advance(self, states: Array, actions: Array, noise: Array) -> tuple[Array, Array]:
        holding, price, regular, expedited = self.problem.unit_costs
        records = self._control.advance(states, actions, noise)
        stock, sales = records.T
        costs = holding * (stock - sales) + price * (noise[:, 0] - sales)
        return records, costs + expedited * actions[:, 0] + regular * actions[:, 1]

    def _costs_on(
        self, stream: DemandStream, policies: Array, steps: int, batches: int
    ) -> Estimates:
        problem = self.problem
        points = as_policies(policies)
        size = -(-steps // batches)
        state = kernels.start_state(points, problem.lead_times)
        sums = np.zeros((batches, len(points)))
        clock = 0
        for row in range(batches):
            remaining = size
            while remaining:
                demand = stream.draw(min(remaining, PATH))
                ends = np.array([demand.size], dtype=np.intp)
                sums[row] += kernels.replay(
                    demand, ends, points, state, clock, problem.lead_times, problem.unit_costs
                )[0]
                sums[row] += problem.lost_sales_cost * demand.sum()
                clock += demand.size
                remaining -= demand.size
        return Estimates(sums, np.full(batches, float(size)))

    def surge_costs(self, policies: Array, steps: int, batches: int, seed: int) -> Estimates:
        """Batch sums of the true cost of base-surge policies (Q, S), an array (n, 2).

        All meet one path of demand, from an empty system.
        """
        problem = self.problem
        stream = self.truth.stream(seed_for("evaluation", seed))
        points = as_policies(policies)
        size = -(-steps // batches)
        state = surge_kernels.start_state(len(points), problem.expedited_lead_time)
        sums = np.zeros((batches, len(points)))
        clock = 0
        for row in range(batches):
            for done in range(0, size, PATH):
                demand = stream.draw(min(size - done, PATH))
                sums[row] += surge_kernels.replay(
                    demand, points, state, clock, problem.lead_times, problem.unit_costs
                )
                clock += demand.size
        return Estimates(sums, np.full(batches, float(size)))

    def costs_on_path(
        self, controllers: Sequence[Controller], steps: int, batches: int, seed: int
    ) -> dict[Controller, float]:
        """Average true costs of base-surge policies, on the path of :meth:`costs`."""
        surges = list(filter(self._is_surge, controllers))
        if not surges:
            return {}
        points = np.array([surge.policy for surge in surges])
        costs = self.surge_costs(points, steps, batches, seed).mean
        return dict(zip(surges, costs.tolist(), strict=True))

    def restart_time(self, seed: int = 0) -> float:
        """Bound on the expected time back to the empty system: L_r + U E(τ) [D_Θ]."""
        problem = self.problem
        return problem.regular_lead_time + problem.bound * time_to_sell(self.truth, seed)

    def _state(self) -> State:
        return {
            "on_hand": self._on_hand,
            "regular": self._regular.copy(),
            "expedited": self._expedited.copy(),
            "stream": self._stream.state_dict(),
        }

    def _load(self, state: State) -> None:
        self._on_hand = float(state["on_hand"])
        self._regular = np.array(state["regular"])
        self._expedited = np.array(state["expedited"])
        self._stream.load_state_dict(state["stream"])
