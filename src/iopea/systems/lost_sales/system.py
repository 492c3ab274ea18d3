"""Lost-sales inventory with a lead time, under base-stock policies.

At the start of period t an order Q_t is placed that arrives L periods later,
the order Q_{t-L} arrives, demand D_t is met as far as the stock allows, and
what is not met is lost and not seen. A base-stock policy orders up to its
level θ: Q_t = (θ - I_t - Q_{t-1} - ... - Q_{t-L})^+. With L = 0 the order
arrives at once: the newsvendor who keeps what is left over.

Since lost demand is not seen, costs are learned as pseudo-costs, without the
term p D_t that no policy can change. A higher level sees all that a lower one
would have sold (label ``lem:base_stock_policy_orders``): the order has width 1.

Hand-over. When a lower level takes over, the real stock may lie above it for a while. Candidates
go on in their own states all the while, each as if it had been played from the beginning: nothing
is left out, and no candidate ever starts from a state that it would not come to. While the lower
level was played all along, the stock of a candidate is never above the real one, so that each of
its periods is known exactly, whether demand was censored or not. After a hand-over the highest
candidates may hold more than is there for a lead time, by at most what the level was lowered by. If
demand is censored just then, what they would have sold is known from below; the levels that are
played are still so high then that this hardly ever happens.

Records that tell more than stock and sales, or tell of a level below some candidate, are kept and
replayed anew: :mod:`iopea.systems.lost_sales.ledger`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from iopea.demand import Demand, Exponential, demand_from
from iopea.information_order import InformationOrder
from iopea.model import Count, Model, NonNegative
from iopea.policies import Box
from iopea.problems.base import BaseStock, Constants, Evaluator, Problem, as_policies
from iopea.problems.batches import Batches
from iopea.systems.lost_sales import kernel as kernels
from iopea.systems.lost_sales.ledger import Ledger
from iopea.systems.lost_sales.period_cost import fingerprint, try_out
from iopea.systems.lost_sales.simulator import LostSalesSimulator
from iopea.systems.shop.base import (
    MOST_LEAD_TIME,
    TOLD,
    Levels,
    ShopControl,
    as_levels,
    check_records,
)
from iopea.systems.shop.table import ShopTable, own_radius
from iopea.types import (
    Array,
    Claim,
    Estimates,
    Mask,
    PeriodCost,
    Policy,
    Precision,
    State,
    Trajectory,
)

#: Share of the highest level by which stock may differ and still be the same, by rounding.
ROUNDING = 1e-9
#: The span of the bias is at most this times max(h, p) L U (Agrawal and Jia, Lemma 2.8).
SPAN_FACTOR = 36


class LostSales(Model, Problem):
    """What the manager of a lost-sales system knows.

    Parameters
    ----------
    lead_time : int. Periods between order and arrival [L].
    holding_cost : float. Cost per unit left over at the end of a period [h].
    lost_sales_cost : float. Cost per unit of demand not met [p].
    levels : Levels. The base-stock levels that may be played [Θ].
    period_cost : callable, optional. A further cost of (stock after arrivals,
        sales, order) per period, of any shape; it is compiled by Numba. Give
        ``cost_bound`` with it.
    cost_bound : float, optional. The largest absolute value of ``period_cost``.

    Examples
    --------
    >>> shop = LostSales(lead_time=2, holding_cost=1, lost_sales_cost=10,
    ...                  levels={"low": 0, "high": 7})
    >>> shop.constants.span
    5040.0
    """

    kind: ClassVar[str] = "lost-sales"
    columns: ClassVar[tuple[str, ...]] = ("stock", "sales")
    optional_columns: ClassVar[tuple[str, ...]] = TOLD

    lead_time: Count
    holding_cost: NonNegative
    lost_sales_cost: NonNegative
    levels: Levels
    period_cost: PeriodCost | None = Field(default=None, exclude=True)
    cost_bound: NonNegative | None = None

    _as_levels = field_validator("levels", mode="before")(as_levels)

    @model_validator(mode="after")
    def _costs(self) -> Self:
        if (self.period_cost is None) != (self.cost_bound is None):
            raise ValueError("Give period_cost and cost_bound together, or neither.")
        if self.period_cost is not None and self.cost_bound is not None:
            try_out(self.period_cost, self.cost_bound, self.levels.high)
        if self.lead_time > MOST_LEAD_TIME:
            raise ValueError(
                f"lead_time must be at most {MOST_LEAD_TIME} periods, not {self.lead_time}."
            )
        if self.holding_cost + self.lost_sales_cost + (self.cost_bound or 0.0) == 0:
            raise ValueError("All costs are 0, so every policy is best: give one that is not.")
        if self.levels.high == 0:
            raise ValueError("Levels need high > 0, but high is 0.0: nothing could be sold.")
        return self

    @classmethod
    def read(
        cls, content: Mapping[str, dict[str, Any]], directory: Path | None = None
    ) -> tuple[Self, Demand]:
        """Problem and demand from the tables of a problem file."""
        return cls(**content["problem"]), demand_from(content["demand"], directory)

    @classmethod
    def example(cls) -> tuple[Self, Demand]:
        """A small shop with a lead time of 1."""
        shop = cls(
            lead_time=1, holding_cost=1, lost_sales_cost=9, levels=Levels(low=0, high=12, step=0.5)
        )
        return shop, Exponential(mean=2, zero_probability=0.3)

    @property
    def claim(self) -> Claim:
        """What a lower level would have sold is known on every path."""
        return "sample-path"

    @property
    def policy_class(self) -> Box:
        """All base-stock levels in the range."""
        return Box(self.levels.low, self.levels.high, self.levels.step, labels=("level",))

    def can_widen(self, axis: int) -> tuple[bool, bool]:
        """Levels below 0 mean nothing; all others do."""
        return self.levels.can_widen

    def demand_seen(self, trajectory: Trajectory) -> tuple[Array, Array]:
        """Sales, and the stock before them."""
        return trajectory["sales"], trajectory["stock"]

    @property
    def constants(self) -> Constants:
        """H = 36 max{h, p} L U and L_Θ = max{h, p}, as in ``cor:base_stock_regret``.

        For a further cost no such constants are proved: its bound is added where
        costs enter H, and since it may jump, L_Θ is infinite.
        """
        high = self.levels.high
        own = self.cost_bound or 0.0
        largest = max(self.holding_cost, self.lost_sales_cost)
        return Constants(
            span=SPAN_FACTOR * (largest * high + own) * max(self.lead_time, 1),
            lipschitz=largest if self.period_cost is None else np.inf,
            bound=high,
            dimension=1,
            cost_low=-self.lost_sales_cost * high - own,
            cost_high=self.holding_cost * high + own,
            settling=self.lead_time,
        )

    @property
    def restart_policy(self) -> Policy:
        """Level 0 orders nothing until the shop is empty."""
        return (0.0,)

    def order(self, policies: Array) -> InformationOrder:
        """A higher level informs every lower one."""
        return InformationOrder.from_key(as_policies(policies)[:, 0])

    def evaluator(
        self, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> BaseStockReplay:
        """Replay of all levels along the observed sales."""
        return BaseStockReplay(self, as_policies(policies)[:, 0], threads, precision)

    def path_evaluator(self, policies: Array) -> BaseStockReplay:
        """Replay of all levels, whatever informs them."""
        return BaseStockReplay(self, as_policies(policies)[:, 0], claimed=True)

    def simulator(self, truth: Demand, seed: int = 0) -> LostSalesSimulator:
        """The true system: this problem under that demand."""
        return LostSalesSimulator(self, truth, seed)

    def describe(self) -> dict[str, object]:
        """The ``[problem]`` table of a problem file."""
        table = {"kind": self.kind, **self.model_dump(exclude_none=True)}
        if self.period_cost is not None:
            table["period_cost"] = fingerprint(self.period_cost)
        return table

    def check(self, trajectory: Trajectory) -> None:
        """Refuse negative values and sales above the stock that was there."""
        super().check(trajectory)
        check_records(trajectory)

    @property
    def control(self) -> ShopControl:
        """Stock and orders under way, and the order to be placed."""
        return ShopControl(
            lead_times={"order": self.lead_time},
            seen=("order",),
            high=self.levels.high,
            costs_of=lambda stock, sales, orders: (
                self.holding_cost * (stock - sales)
                - self.lost_sales_cost * sales
                + self.own_costs(stock, sales, orders["order"])
            ),
            orders_of=self._orders_of,
        )

    def tabular(self, radius: float | None = None) -> ShopTable:
        """Stock and orders in units of a radius: of the step of the levels, or of 1."""
        whole = self.levels.step is not None
        return ShopTable(self.control, radius or own_radius(self.levels), whole)

    def _orders_of(self, policies: Array, states: Array) -> Array:
        short = policies[:, 0] - states.sum(axis=1)
        return np.asarray(np.maximum(short, 0.0))[:, None]

    def own_costs(self, stock: Array, sales: Array, orders: Array) -> Array:
        """The further cost of each period; 0 if there is none."""
        if self.period_cost is None:
            return np.zeros(stock.size)
        rows = zip(stock.tolist(), sales.tolist(), orders.tolist(), strict=True)
        return np.array([self.period_cost(*row) for row in rows], dtype=np.float64)

    @property
    def base_stock(self) -> BaseStock | None:
        """Lead time and costs; none where there is a further cost of any shape."""
        if self.period_cost is not None:
            return None
        return BaseStock(self.lead_time, self.holding_cost, self.lost_sales_cost)

    @property
    def unit_costs(self) -> tuple[float, float]:
        """Holding and lost-sales cost per unit, as the kernels take them."""
        return self.holding_cost, self.lost_sales_cost


class BaseStockReplay(Evaluator):
    """Counterfactual replay of base-stock levels along the sales of a higher one.

    With ``claimed`` all candidates count as informed: so a claim that they are can be tested.
    """

    def __init__(
        self,
        problem: LostSales,
        levels: Array,
        threads: int = 1,
        precision: Precision = "float64",
        claimed: bool = False,
    ) -> None:
        self._claimed = claimed
        self._problem = problem
        self._threads = threads
        # The real system.
        self._on_hand = 0.0
        self._pipeline = np.zeros(problem.lead_time)
        self._ledger = Ledger(problem.lead_time, problem.levels.step)
        # The candidates.
        self._running = False
        self._levels = np.array(levels, dtype=np.float64)
        self._ring = np.zeros((problem.lead_time + 2, levels.size), dtype=precision)
        self._head = 0
        self._since = 0
        self._batches = Batches(levels.size, precision)

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Take in observed periods, each of which counts."""
        level = trajectory.policy[0]
        plain = set(trajectory.columns) == set(self._problem.columns)
        if evaluate and not self._ledger.open and not (plain and self._informs_all(level)):
            self._open_ledger()
        if evaluate and not self._running and not self._ledger.open:
            self._resume(level)
        stock, sales = trajectory["stock"], trajectory["sales"]
        near = ROUNDING * self._problem.levels.high
        self._on_hand = kernels.follow(level, self._on_hand, self._pipeline, stock, sales, near)
        self._running = evaluate
        if not evaluate:
            self._ledger.interrupt()
            return 0
        self._ledger.add(trajectory)
        if not self._ledger.open:
            self._replay(sales)
        return len(trajectory)

    def _informs_all(self, level: float) -> bool:
        return self._claimed or bool(self._levels.max(initial=0.0) <= level * (1 + ROUNDING))

    def _open_ledger(self) -> None:
        """Keep all records from here on, and what was learned before if the records did fit."""
        if self._ledger.contradiction is not None:
            self._batches.clear()
        self._settle()
        self._ledger.begin()

    def _resume(self, level: float) -> None:
        """Put every candidate in the real state, less what its level lies below the real one."""
        cut = np.maximum(level - self._levels, 0.0)
        state = [np.full(cut.size, held) for held in (self._on_hand, *self._pipeline)]
        for held in reversed(state):
            less = np.minimum(held, cut)
            held -= less
            cut -= less
        costs, running = self._problem.unit_costs, self._batches.running
        self._settle()
        self._ring = kernels.start_ring(
            self._levels, state[0], np.array(state[1:]), self._ring.dtype.name
        )
        self._head = self._since = 0
        running += kernels.potential(self._ring, 0, costs).astype(running.dtype)

    def _settle(self) -> None:
        """Let the running sum say what the batch in progress has cost."""
        self._batches.running += self._pending().astype(self._batches.running.dtype)
        self._ring[:] = 0.0
        self._since = 0

    def _pending(self) -> Array:
        """What the batch in progress has cost, less what its running sum says."""
        costs = self._problem.unit_costs
        held = costs[0] * self._since * self._levels
        return held - kernels.potential(self._ring, self._head, costs)

    def _replay(self, sales: Array) -> None:
        """Advance all candidates over periods that are known exactly for each of them."""
        batches = self._batches
        first = 0
        while first < sales.size:
            part = sales[first : first + batches.room]
            filled, self._since = kernels.replay(
                part, self._levels, self._ring, self._head, self._since,
                self._problem.unit_costs, batches.running, batches.filled, batches.size,
                self._problem.period_cost, self._threads,
            )  # fmt: skip
            self._head = (self._head + part.size) % len(self._ring)
            batches.add(part.size, filled)
            first += part.size

    @property
    def at_start(self) -> bool:
        """Whether the real shop is empty, with nothing on order."""
        return self._on_hand == 0 and not self._pipeline.any()

    @property
    def departures(self) -> int:
        """Periods inconsistent with the orders of the policy that was played."""
        return self._ledger.inconsistent

    @property
    def contradiction(self) -> str | None:
        """That the records don't fit the model, with the likely reason."""
        return self._ledger.contradiction

    @property
    def demand_records(self) -> tuple[Array, Array] | None:
        """Sales and stock as the records are read, once all of them are kept."""
        return self._ledger.demand_records

    @property
    def note(self) -> str | None:
        """How the records are read, where that is not as the problem says."""
        return self._ledger.note

    def estimates(self) -> Estimates:
        """Pseudo-costs by batch, the one in progress included."""
        if not self._ledger.open:
            return self._replayed()
        told = self._ledger.estimates(
            self._levels, self._problem.unit_costs, self._problem.period_cost, self._threads
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
        """Start counting anew, from the present states."""
        self._ledger.clear()
        self._batches.clear()
        self._batches.running += kernels.potential(
            self._ring, self._head, self._problem.unit_costs
        ).astype(self._ring.dtype)
        self._since = 0

    def keep(self, mask: Mask) -> None:
        """Keep only these levels."""
        self._levels = self._levels[mask]
        self._ring = np.compress(mask, self._ring, axis=1)
        self._batches.keep(mask)

    def state_dict(self) -> State:
        """Real state, candidates' states and batches."""
        return {
            "on_hand": self._on_hand,
            "pipeline": self._pipeline.copy(),
            "running": self._running,
            "ledger": self._ledger.state_dict(),
            "levels": self._levels.copy(),
            "ring": self._ring.copy(),
            "head": self._head,
            "since": self._since,
            "batches": self._batches.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Go on from a saved state."""
        self._on_hand, self._head = float(state["on_hand"]), int(state["head"])
        self._running = bool(state["running"])
        self._ledger.load_state_dict(state["ledger"])
        self._pipeline = np.array(state["pipeline"])
        self._levels = np.array(state["levels"])
        self._since = int(state["since"])
        self._ring = np.array(state["ring"])
        self._batches.load_state_dict(state["batches"])
