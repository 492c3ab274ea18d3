"""Simulators of systems whose only noise is demand."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TypeGuard

import numpy as np

from iopea.demand import Demand, DemandStream
from iopea.errors import InputError, shown
from iopea.problems.base import PolicyController, Problem, Simulator, as_policies
from iopea.problems.stepped import SteppedSimulator
from iopea.seeds import seed_for
from iopea.state import Part, array, parts
from iopea.systems.shop.base import check_held, most_held, time_to_sell
from iopea.systems.shop.table import TableController
from iopea.types import Array, Controller, Estimates, Policy, Rollout, Trajectory


class DemandSimulator(Simulator):
    """A true system, with the demand distribution and unmet demand."""

    saved = parts(stream=Part)
    truth: Demand

    def __init__(self, problem: Problem, demand: Demand, seed: int = 0) -> None:
        super().__init__(problem, demand, seed)
        if not hasattr(demand, "stream"):
            raise InputError(
                f"The demand is {shown(demand)}: give a law of demand, such as Poisson(mean=3)."
            )
        self._stream: DemandStream = demand.stream(seed_for("demand", seed))

    def costs(self, policies: Array, steps: int, batches: int, seed: int) -> Estimates:
        """Batch sums of the true cost of policies on one demand path, from the initial state."""
        stream = self.truth.stream(seed_for("evaluation", seed))
        return self._costs_on(stream, policies, steps, batches)

    def hindsight(self, policies: Array, steps: int) -> Array:
        """Average true cost of policies on the demand of this run."""
        stream = self.truth.stream(seed_for("demand", self.seed))
        return self._costs_on(stream, policies, steps, 1).mean

    @abstractmethod
    def _costs_on(
        self, stream: DemandStream, policies: Array, steps: int, batches: int
    ) -> Estimates:
        """Batch sums of the true cost of policies on a demand path, from the initial state."""


class ShopSimulator(DemandSimulator, SteppedSimulator):
    """The true shop, with the demand distribution and lost demand."""

    saved = parts(held=array)

    def __init__(self, problem: Problem, demand: Demand, seed: int = 0) -> None:
        super().__init__(problem, demand, seed)
        self._control = problem.control
        self._held = np.zeros(len(self._control.states))

    @cached_property
    def _most(self) -> float:
        """The most that these policies hold, as far as that is checked."""
        known = self.problem.policy_class
        return most_held(self.problem.family, self.problem.system, known.dimension)

    def place(self, state: Array) -> None:
        """Begin with this stock on hand and on order."""
        self._held = state.copy()

    def _play(self, policy: Policy, steps: int, until_start: bool = False) -> Rollout:
        """Play a policy from the present state on; with ``until_start``, until the stock is 0."""
        system, family = self.problem.system, self.problem.family
        before = self._stream.state_dict() if until_start else None
        most = max(self._most, float(self._held.sum()))
        demand = self._stream.draw(steps)
        stock, sales, *orders = family.roll_out(system, policy, demand, self._held, until_start)
        if before is not None and stock.size < steps:
            # Demand that was drawn but not used belongs to later steps.
            self._stream.load_state_dict(before)
            self._stream.draw(stock.size)
        if stock.size:
            check_held(family, policy, float(stock.max()), most)
        costs = system.true_costs(stock, sales, orders, demand[: stock.size])
        return Rollout(Trajectory(policy, stock=stock, sales=sales), costs)

    def drive(self, controller: Controller, steps: int, copies: int = 1) -> Rollout:
        """Let a controller act; on one copy, tables and policies of families run compiled."""
        if copies == 1 and isinstance(controller, TableController):
            return self._follow(controller, steps)
        if copies == 1 and self._of_family(controller):
            return self._trace(controller, steps)
        return super().drive(controller, steps, copies)

    def _of_family(self, controller: Controller) -> TypeGuard[PolicyController]:
        """Whether it is a policy of some family for this system; subclasses may act differently."""
        return (
            type(controller) is PolicyController
            and controller.problem.system == self.problem.system
        )

    def _follow(self, controller: TableController, steps: int) -> Rollout:
        """Let a table act on this shop alone, in a compiled loop."""
        noise = self._noise(steps)
        states, actions = controller.follow(self._control, self._row(), noise)
        before = states.copy()
        records, costs = self._advance(states, actions, noise)
        if steps:
            self._set_row(states[-1])
        return self._driven(controller, np.column_stack([before, actions, records]).T, costs)

    def _trace(self, controller: PolicyController, steps: int) -> Rollout:
        """Let a policy of another family act on this shop alone."""
        system, family = self.problem.system, controller.problem.family
        demand = np.ascontiguousarray(self._noise(steps)[:, 0])
        rows = family.trace(system, controller.policy, demand, self._held)
        sources = len(self._control.actions)
        *orders, stock, sales = rows[-2 - sources :]
        return self._driven(controller, rows, system.true_costs(stock, sales, orders, demand))

    def _driven(self, controller: Controller, rows: Array, costs: Array) -> Rollout:
        self._turn = 0
        columns = dict(zip(self._control.columns, rows, strict=True))
        return Rollout(Trajectory(controller, **columns), costs)

    def _row(self) -> Array:
        return self._held.copy()

    def _set_row(self, row: Array) -> None:
        self._held = row.copy()

    def _noise(self, steps: int) -> Array:
        return self._stream.draw(steps)[:, None]

    def _advance(self, states: Array, actions: Array, noise: Array) -> tuple[Array, Array]:
        records = self._control.advance(states, actions, noise)
        stock, sales = records.T
        return records, self.problem.system.true_costs(stock, sales, list(actions.T), noise[:, 0])

    def _costs_on(
        self, stream: DemandStream, policies: Array, steps: int, batches: int
    ) -> Estimates:
        family = self.problem.family
        points = as_policies(policies)
        estimates: Estimates = family.path_costs(
            self.problem.system, stream, points, steps, batches
        )
        return estimates

    def costs_on_path(
        self, controllers: Sequence[Controller], steps: int, batches: int, seed: int
    ) -> dict[Controller, float]:
        """Average true costs of policies of any family, on the sample path of :meth:`costs`."""
        costs: dict[Controller, float] = {}
        known = list(filter(self._of_family, controllers))
        for problem in dict.fromkeys(each.problem for each in known):
            some = [each for each in known if each.problem == problem]
            points = np.array([each.policy for each in some])
            stream = self.truth.stream(seed_for("evaluation", seed))
            found = problem.family.path_costs(problem.system, stream, points, steps, batches).mean
            costs.update(zip(some, found.tolist(), strict=True))
        return costs

    def restart_time(self, seed: int = 0) -> float:
        """Bound on the expected time back to the empty shop, ordering nothing [D_Θ].

        It is U E(τ), plus a lead time for some problems. τ is the time until demand adds up to 1;
        its mean is estimated on one long path, and is infinite if that never happens on it.
        """
        system, family = self.problem.system, self.problem.family
        return float(
            system.empties_after + family.most_stock(system) * time_to_sell(self.truth, seed)
        )
