"""Base-stock policies, and their replay along the sales of a higher level.

A base-stock policy orders up to its level θ: Q_t = (θ - I_t - Q_{t-1} - ... - Q_{t-L})^+. A higher
level sees all that a lower one would have sold (label ``lem:base_stock_policy_orders``): the
information order has width 1.

Hand-over. When a lower level takes over, the real stock may lie above it for a while. Each
candidate continues in its own state, as if it had been played from the beginning: no period is left
out, and no candidate starts from a state that it would not reach. As long as one level was played
from the beginning, the stock of a candidate is never above the real one, so its sales are known
exactly, whether demand was censored or not. After a hand-over the highest candidates may hold more
than the real stock for a lead time, by at most the decrease of the level. If demand is censored
then, only a lower bound on their sales is known; as the levels played are still high then, this
hardly ever happens.

Records with more columns than stock and sales, or of a level below some candidate, are kept and
replayed again: :mod:`iopea.systems.lost_sales.ledger`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from iopea.demand import DemandStream
from iopea.errors import InputError
from iopea.information_order import InformationOrder
from iopea.policies import Box
from iopea.problems.base import Constants, Evaluator, Problem
from iopea.problems.batches import Batches
from iopea.state import Part, array, parts
from iopea.systems.lost_sales import kernel as kernels
from iopea.systems.lost_sales.law import BaseStockLaw
from iopea.systems.lost_sales.ledger import Followed, Ledger
from iopea.systems.lost_sales.system import LostSalesSystem
from iopea.systems.shop.base import TOLD, Levels, Range
from iopea.systems.shop.family import OrderingFamily, pieces
from iopea.systems.shop.kernel import order_up_to
from iopea.systems.shop.tracker import Tracked
from iopea.types import Array, Claim, Estimates, Indices, Mask, Policy, Precision, Trajectory

#: Tolerance for rounding of the stock, as a share of the highest level.
ROUNDING = 1e-9
#: Warm-up of simulated candidates, in lead times.
WARM_UP = 16
#: The span of the bias is at most this times max(h, p) L U (Agrawal and Jia, Lemma 2.8).
SPAN_FACTOR = 36


class BaseStock(OrderingFamily):
    """Base-stock levels: order up to a level.

    Parameters
    ----------
    levels : Levels. The base-stock levels that may be played [Θ].
    """

    kind: ClassVar[str] = "base-stock"
    made_for: ClassVar[type[Any]] = LostSalesSystem
    parameters: ClassVar[tuple[str, ...]] = ("level",)
    optional_columns: ClassVar[tuple[str, ...]] = TOLD
    one_level: ClassVar[bool] = True

    levels: Range

    @classmethod
    def around(cls, levels: Levels, lead_time: int) -> Self:
        """All levels."""
        return cls(levels=levels)

    def check_system(self, system: LostSalesSystem) -> None:
        """Refuse levels with which nothing could be sold, and costs beyond their bound."""
        if self.levels.high == 0:
            raise InputError("The levels need high > 0, but high is 0.0: nothing could be sold.")
        system.try_own_cost(self.levels.high)

    def policy_class(self, system: LostSalesSystem) -> Box:
        """All base-stock levels in the range."""
        return Box(self.levels.low, self.levels.high, self.levels.step, labels=("level",))

    @staticmethod
    def order(state: Any, parameters: Any, signal: Any) -> Any:
        """The order that raises the inventory position to the level."""
        under_way = 0.0
        for i in range(1, state.shape[0]):
            under_way += state[i]
        return order_up_to(parameters[0], state[0] + under_way)

    def can_widen(self, axis: int) -> tuple[bool, bool]:
        """Levels below 0 mean nothing; all others do."""
        return self.levels.can_widen

    def most_stock(self, system: LostSalesSystem) -> float:
        """The highest level [U]."""
        return self.levels.high

    def order_on(self, system: LostSalesSystem, policies: Array) -> InformationOrder:
        """A higher level informs every lower one."""
        return InformationOrder.from_key(policies[:, 0])

    def claim(self, system: LostSalesSystem) -> Claim:
        """The sales of a lower level are known on every sample path.

        Where the supplier does not deliver just what is ordered, only in distribution.
        """
        return "distributional" if system.terms.limited else "sample-path"

    def constants(self, system: LostSalesSystem) -> Constants:
        """H = 36 max{h, p} L U and L_Θ = max{h, p}, as in ``cor:base_stock_regret``.

        For a further cost no such constants are proved: its bound is added where costs enter H,
        and since it may jump, L_Θ is infinite. Nothing is proved where orders are limited, either.
        """
        if system.terms.limited:
            return super().constants(system)
        high = self.levels.high
        own = system.own_bound
        largest = max(system.unit_costs)
        return Constants(
            span=SPAN_FACTOR * (largest * high + own) * max(system.lead_time, 1),
            lipschitz=np.inf if own else largest,
            bound=high,
            dimension=1,
            cost_low=-system.lost_sales_cost * high - own,
            cost_high=system.holding_cost * high + own,
            settling=system.lead_time,
        )

    def evaluator(
        self, problem: Problem, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """Replay of all levels along the observed sales."""
        if not _up_to_a_level(problem.system):
            return super().evaluator(problem, policies, threads, precision)
        return BaseStockReplay(problem, policies[:, 0], threads, precision)

    def choosing_evaluator(
        self, problem: Problem, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """Simulation on demand drawn from its estimate, with records read as they fit."""
        if not _up_to_a_level(problem.system):
            return super().choosing_evaluator(problem, policies, threads, precision)
        return BaseStockLaw(problem, policies, threads, precision)

    def path_evaluator(self, problem: Problem, policies: Array) -> Evaluator:
        """Replay of all levels, treating them as informed."""
        if not _up_to_a_level(problem.system):
            return super().path_evaluator(problem, policies)
        return BaseStockReplay(problem, policies[:, 0], claimed=True)

    def sample_costs(
        self,
        system: LostSalesSystem,
        demands: Array,
        ends: Indices,
        policies: Array,
        stock: bool = False,
        threads: int = 1,
        precision: Precision = "float64",
    ) -> Array:
        """Batch costs on consecutive samples, with a precompiled kernel if batches are equal."""
        sizes = np.diff(ends, prepend=0)
        if not _up_to_a_level(system) or (sizes != sizes[0]).any():
            return super().sample_costs(system, demands, ends, policies, stock, threads, precision)
        levels, count = policies[:, 0], len(demands)
        # The stock is what is left over and what is sold.
        costs = (1.0, -1.0) if stock else system.unit_costs
        own = None if stock else system.period_cost
        nothing = np.zeros((system.lead_time, levels.size))
        ring = kernels.start_ring(levels, np.zeros(levels.size), nothing)
        running = kernels.potential(ring, 0, costs)
        before = np.resize(demands[-1, ::-1], WARM_UP * (system.lead_time + 1))[::-1]
        head, since, rows = 0, 0, np.empty((0, levels.size))
        for part, size in ((before, before.size), (demands.ravel(), int(sizes[0]))):
            rows, since = kernels.replay(
                np.ascontiguousarray(part), levels, ring, head, since, costs, running, 0, size,
                own, threads,
            )  # fmt: skip
            head = (head + part.size) % len(ring)
        return np.asarray(rows).reshape(count, ends.size, -1)

    def orders_of(self, system: LostSalesSystem, policies: Array, states: Array) -> Array:
        """Orders of levels, an array (n, 1), in states, an array (n, k)."""
        if not _up_to_a_level(system):
            return super().orders_of(system, policies, states)
        short = policies[:, 0] - states.sum(axis=1)
        return np.asarray(np.maximum(short, 0.0))[:, None]

    def roll_out(
        self,
        system: LostSalesSystem,
        policy: Policy,
        demand: Array,
        state: Array,
        until_empty: bool,
    ) -> Array:
        """Play a level on the real shop, with a precompiled kernel."""
        if not _up_to_a_level(system):
            return super().roll_out(system, policy, demand, state, until_empty)
        return kernels.roll_out(policy[0], demand, state, until_empty)

    def path_costs(
        self,
        system: LostSalesSystem,
        stream: DemandStream,
        policies: Array,
        steps: int,
        batches: int,
    ) -> Estimates:
        """Batch sums of the true cost of levels on a demand path, from an empty shop."""
        if not _up_to_a_level(system):
            return super().path_costs(system, stream, policies, steps, batches)
        levels = policies[:, 0]
        size = -(-steps // batches)
        nothing = np.zeros((system.lead_time, levels.size))
        ring = kernels.start_ring(levels, np.zeros(levels.size), nothing)
        running = kernels.potential(ring, 0, system.unit_costs)
        rows: list[Array] = []
        filled, head, since, lost = 0, 0, 0, np.zeros(batches)
        for batch, demand in pieces(stream, steps, batches):
            done, since = kernels.replay(
                demand, levels, ring, head, since, system.unit_costs,
                running, filled, size, system.period_cost,
            )  # fmt: skip
            head = (head + demand.size) % len(ring)
            filled = (filled + demand.size) % size
            lost[batch] += system.lost_sales_cost * demand.sum()
            rows.extend(done)
        return Estimates(np.array(rows) + lost[:, None], np.full(batches, float(size)))


def _up_to_a_level(system: LostSalesSystem) -> bool:
    """Whether the precompiled kernels apply: no cost of an order, and orders are not limited."""
    return not (system.fixed_order_cost or system.terms.limited)


class BaseStockReplay(Tracked):
    """Counterfactual replay of base-stock levels along the sales of a higher one.

    With ``claimed`` all candidates are treated as informed, to test a claim that they are.
    """

    saved = parts(running=bool, levels=array, ring=array, head=int, since=int, batches=Part)

    def __init__(
        self,
        problem: Problem,
        levels: Array,
        threads: int = 1,
        precision: Precision = "float64",
        claimed: bool = False,
    ) -> None:
        self._claimed = claimed
        self._system: LostSalesSystem = problem.system
        self._threads = threads
        known = problem.family.levels
        self._real: Followed = Followed(self._system.lead_time, known.step, known.high)
        # The candidates.
        self._running = False
        self._levels = np.array(levels, dtype=np.float64)
        self._ring = np.zeros((self._system.lead_time + 2, levels.size), dtype=precision)
        self._head = 0
        self._since = 0
        self._batches = Batches(levels.size, precision)

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed periods, all of which count."""
        level = trajectory.policy[0]
        plain = set(trajectory.columns) == set(self._system.columns)
        if evaluate and not self._ledger.open and not (plain and self._informs_all(level)):
            self._open_ledger()
        if evaluate and not self._running and not self._ledger.open:
            self._resume(level)
        self._real.add(trajectory, evaluate)
        self._running = evaluate
        if not evaluate:
            return 0
        if not self._ledger.open:
            self._replay(trajectory["sales"])
        return len(trajectory)

    @property
    def _ledger(self) -> Ledger:
        return self._real.ledger

    def _informs_all(self, level: float) -> bool:
        return self._claimed or bool(self._levels.max(initial=0.0) <= level * (1 + ROUNDING))

    def _open_ledger(self) -> None:
        """Keep all records from now on, and the estimates so far if the records did fit."""
        if self._ledger.contradiction is not None:
            self._batches.clear()
        self._settle()
        self._ledger.begin()

    def _resume(self, level: float) -> None:
        """Set every candidate to the real state, reduced by its distance from the played level."""
        cut = np.maximum(level - self._levels, 0.0)
        state = [np.full(cut.size, held) for held in self._real.state]
        for held in reversed(state):
            less = np.minimum(held, cut)
            held -= less
            cut -= less
        costs, running = self._system.unit_costs, self._batches.running
        self._settle()
        self._ring = kernels.start_ring(
            self._levels, state[0], np.array(state[1:]), self._ring.dtype.name
        )
        self._head = self._since = 0
        running += kernels.potential(self._ring, 0, costs).astype(running.dtype)

    def _settle(self) -> None:
        """Make the running sum equal to the cost of the batch in progress."""
        self._batches.running += self._pending().astype(self._batches.running.dtype)
        self._ring[:] = 0.0
        self._since = 0

    def _pending(self) -> Array:
        """Cost of the batch in progress minus its running sum."""
        costs = self._system.unit_costs
        held = costs[0] * self._since * self._levels
        return held - kernels.potential(self._ring, self._head, costs)

    def _replay(self, sales: Array) -> None:
        """Advance all candidates over periods whose sales are known for each of them."""
        batches = self._batches
        first = 0
        while first < sales.size:
            part = sales[first : first + batches.room]
            filled, self._since = kernels.replay(
                part, self._levels, self._ring, self._head, self._since,
                self._system.unit_costs, batches.running, batches.filled, batches.size,
                self._system.period_cost, self._threads,
            )  # fmt: skip
            self._head = (self._head + part.size) % len(self._ring)
            batches.add(part.size, filled)
            first += part.size

    @property
    def demand_records(self) -> tuple[Array, Array] | None:
        """Sales and stock as the records are read, once all of them are kept."""
        return self._ledger.demand_records

    @property
    def note(self) -> str | None:
        """How the records are read, if not as the problem says."""
        return self._ledger.note

    def estimates(self) -> Estimates:
        """Pseudo-costs by batch, including the one in progress."""
        if not self._ledger.open:
            return self._replayed()
        told = self._ledger.estimates(
            self._levels, self._system.unit_costs, self._system.period_cost, self._threads
        )
        before = self._replayed()
        if not len(before.sizes) or not self._ledger.as_modelled:
            return told
        both = (before, told)
        sizes = [np.broadcast_to(each.sizes_by_policy, each.sums.shape) for each in both]
        sums = [each.sums for each in both]
        return Estimates(np.vstack(sums), np.vstack(sizes), memory=told.memory)

    def _replayed(self) -> Estimates:
        batches = self._batches
        sizes = np.full(len(batches.costs), float(batches.size))
        if not batches.filled:
            return Estimates(batches.costs, sizes)
        last = batches.running + self._pending()
        return Estimates(np.vstack([batches.costs, last]), np.append(sizes, batches.filled))

    def forget(self) -> None:
        """Drop all sums, but keep the states."""
        self._ledger.clear()
        self._batches.clear()
        self._batches.running += kernels.potential(
            self._ring, self._head, self._system.unit_costs
        ).astype(self._ring.dtype)
        self._since = 0

    def keep(self, mask: Mask) -> None:
        """Keep only these levels."""
        self._levels = self._levels[mask]
        self._ring = np.compress(mask, self._ring, axis=1)
        self._batches.keep(mask)
