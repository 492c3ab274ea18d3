"""Lost-sales dual sourcing under dual-index policies.

At the start of period t an expedited order Q^e_t and a regular order Q^r_t are placed; the orders
Q^e_{t-L_e} and Q^r_{t-L_r} arrive, with L_r > L_e >= 0; demand D_t is met as far as the stock
allows, and what is not met is lost and not seen. A dual-index policy (z_e, z_r) first raises what
will have arrived within L_e periods to z_e by an expedited order, then the total position to z_r
by a regular one. With z_e > z_r nothing is ever ordered regularly: such a policy does the same as
(z_e, z_e), and is not searched. With z_e = 0 all orders are regular: the base-stock policy z_r.

Costs are h per unit left over, p per unit of lost demand, c_r and c_e per unit ordered. They are
learned as pseudo-costs, without the term p D_t that no policy can change.

A candidate never holds more than its z_r, so periods in which the stock was at least that tell
all that it needs of demand. By this the z_r order the policies (``lem:dual_index_partial_orders``):
width 1, with α = (1-γ)/2 γ^L_r for the paper's estimator, where γ is the probability of no demand.
Among policies with the same z_r the cheapest by estimate is played.

For L_r - L_e = 1 there is also a sample-path order, in which the stock of a policy is never below
that of those it informs: with L_e = 0 all that have a z_e and a z_r - z_e no larger than its own,
with L_e > 0 those of the same z_r - z_e and a lower z_e. The paper's remark has z_r in the place of
z_r - z_e. That is not enough: on the demand 3, 5 from an empty system with L_r = 1, the policy
(3, 5) has a stock of 3 and 3, but (0, 5) one of 0 and 5, so that what it would have sold in the
second period is not seen. The width of this order grows like 1/r, so it takes many more plays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import field_validator, model_validator

from iopea.demand import Demand, Exponential, demand_from
from iopea.information_order import InformationOrder
from iopea.model import Count, Model, NonNegative, Probability
from iopea.problems.base import Constants, Problem, as_policies
from iopea.systems.dual_sourcing.base_surge import SurgeSetting
from iopea.systems.dual_sourcing.dual_index import DualIndex
from iopea.systems.dual_sourcing.estimators import (
    DualEvaluator,
    HittingEstimator,
    LevelEstimator,
    ProductLimitEstimator,
)
from iopea.systems.dual_sourcing.replay import ReplayEstimator
from iopea.systems.dual_sourcing.simulator import DualSourcingSimulator
from iopea.systems.dual_sourcing.zero_runs import data_needed, lipschitz
from iopea.systems.shop.base import (
    MOST_LEAD_TIME,
    Levels,
    ShopControl,
    as_levels,
    check_records,
)
from iopea.systems.shop.table import ShopTable, own_radius
from iopea.types import (
    Array,
    Claim,
    Policy,
    Precision,
    Trajectory,
)

Estimator = Literal["product-limit", "level", "hitting", "replay"]

_ESTIMATORS: dict[str, type[DualEvaluator]] = {
    "product-limit": ProductLimitEstimator,
    "level": LevelEstimator,
    "hitting": HittingEstimator,
    "replay": ReplayEstimator,
}
#: Share of the highest level by which gaps that are the same may differ by rounding.
_SAME_GAP = 1e-9


@dataclass(frozen=True)
class DualConstants(Constants):
    """With T_h(δ) of the proof (label ``dip_th_bound``)."""

    zero_demand: float | None = None
    regular_lead_time: int = 1

    def data_needed(self, delta: float) -> int:
        """T_h(δ); 1 where γ is unknown."""
        if self.zero_demand is None or not 0 < self.zero_demand < 1:
            return 1
        return data_needed(self.zero_demand, self.regular_lead_time, delta)


class DualSourcing(Model, Problem):
    """What the manager of a lost-sales system with two suppliers knows.

    Parameters
    ----------
    regular_lead_time, expedited_lead_time : int. Periods between order and arrival [L_r > L_e].
    holding_cost, lost_sales_cost : float. Per unit left over, and of demand not met [h, p].
    regular_cost, expedited_cost : float. Per unit ordered [c_r, c_e].
    expedited_levels, regular_levels : Levels. The z_e and z_r that may be played [Θ].
    order_by : str. ``"regular-level"``: by z_r, in distribution. ``"sample-path"``: by z_e and
        z_r - z_e, on every path; for L_r - L_e = 1 alone.
    estimator : str, optional. ``"product-limit"`` (default), ``"level"`` or ``"hitting"``;
        ``"replay"`` for the sample-path order.
    zero_demand : float, optional. Probability of a period without demand [γ]. The rules
        ``theorem`` and ``published`` need it, ``paired`` does not.

    Examples
    --------
    >>> shop = DualSourcing(
    ...     regular_lead_time=2, expedited_lead_time=0, holding_cost=1, lost_sales_cost=10,
    ...     regular_cost=0, expedited_cost=0.5, zero_demand=0.5,
    ...     expedited_levels={"low": 0, "high": 6}, regular_levels={"low": 0, "high": 6})
    >>> shop.constants.alpha, shop.constants.data_needed(0.05)
    (0.0625, 14142)
    """

    kind: ClassVar[str] = "dual-sourcing"
    columns: ClassVar[tuple[str, ...]] = ("stock", "sales")
    optional_columns: ClassVar[tuple[str, ...]] = ("gap",)

    regular_lead_time: Count
    expedited_lead_time: Count
    holding_cost: NonNegative
    lost_sales_cost: NonNegative
    regular_cost: NonNegative = 0.0
    expedited_cost: NonNegative = 0.0
    expedited_levels: Levels
    regular_levels: Levels
    order_by: Literal["regular-level", "sample-path"] = "regular-level"
    estimator: Estimator | None = None
    zero_demand: Probability | None = None

    _as_levels = field_validator("expedited_levels", "regular_levels", mode="before")(as_levels)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.expedited_lead_time >= self.regular_lead_time:
            raise ValueError(
                f"The expedited lead time must be shorter than the regular one, but "
                f"{self.expedited_lead_time} >= {self.regular_lead_time}."
            )
        if self.regular_lead_time > MOST_LEAD_TIME:
            raise ValueError(
                f"regular_lead_time must be at most {MOST_LEAD_TIME} periods, "
                f"not {self.regular_lead_time}."
            )
        if self.holding_cost + self.lost_sales_cost == 0:
            raise ValueError("Holding and lost sales cost 0: give one of them a cost above 0.")
        if self.bound == 0:
            raise ValueError("Both highest levels are 0.0: nothing could be sold.")
        gap = self.regular_lead_time - self.expedited_lead_time
        if self.order_by == "sample-path" and gap != 1:
            raise ValueError(
                f"The sample-path order needs lead times that differ by 1, not by {gap}."
            )
        if (self.estimator == "replay") != (self.order_by == "sample-path") and self.estimator:
            raise ValueError(
                f"Estimator {self.estimator!r} does not go with order_by = {self.order_by!r}: "
                "'replay' and 'sample-path' belong together."
            )
        return self

    @classmethod
    def read(
        cls, content: Mapping[str, dict[str, Any]], directory: Path | None = None
    ) -> tuple[Self, Demand]:
        """Problem and demand from the tables of a problem file."""
        return cls(**content["problem"]), demand_from(content["demand"], directory)

    @classmethod
    def example(cls) -> tuple[Self, Demand]:
        """The paper's small setting with exponential demand."""
        levels = Levels(low=0, high=6)
        shop = cls(
            regular_lead_time=1, expedited_lead_time=0, holding_cost=1, lost_sales_cost=10,
            expedited_cost=0.5, expedited_levels=levels, regular_levels=levels, zero_demand=0.3,
        )  # fmt: skip
        return shop, Exponential(mean=1, maximum=3, zero_probability=0.3)

    @property
    def claim(self) -> Claim:
        """In distribution by z_r; on every path by z_e and z_r - z_e."""
        return "sample-path" if self.order_by == "sample-path" else "distributional"

    @property
    def policy_class(self) -> DualIndex:
        """All pairs of levels, redundant ones left out."""
        return DualIndex(self.expedited_levels, self.regular_levels)

    @property
    def bound(self) -> float:
        """The highest level of either kind [U]."""
        return max(self.expedited_levels.high, self.regular_levels.high)

    @property
    def lead_times(self) -> tuple[int, int]:
        """(L_r, L_e), as the kernels take them."""
        return self.regular_lead_time, self.expedited_lead_time

    @property
    def unit_costs(self) -> tuple[float, float, float, float]:
        """(h, p, c_r, c_e), as the kernels take them."""
        return self.holding_cost, self.lost_sales_cost, self.regular_cost, self.expedited_cost

    def can_widen(self, axis: int) -> tuple[bool, bool]:
        """Levels below 0 mean nothing; all others do."""
        return (self.expedited_levels, self.regular_levels)[axis].can_widen

    def demand_seen(self, trajectory: Trajectory) -> tuple[Array, Array]:
        """Sales, and the stock before them."""
        return trajectory["sales"], trajectory["stock"]

    @property
    def constants(self) -> DualConstants:
        """α = (1-γ)/2 γ^L_r, H = 1/((1-γ) γ^L_r) times the range of costs, and L_Θ.

        L_Θ is finite for γ > c_γ(L_r) alone (label ``dip_lem1``). Without γ none of them is
        known. What a unit of stock does in one period is bounded by h or p, as it is left over
        or sold, and by what it was bought for; that this bounds L_Θ as well is seen in
        simulations, not proved.
        """
        bound, lead_time = self.bound, self.regular_lead_time
        holding, lost, regular, expedited = self.unit_costs
        # 0 stands for unknown, as does a γ of 1, with which nothing is ever sold.
        gamma = 0.0 if self.zero_demand in (None, 1.0) else float(self.zero_demand or 0.0)
        runs = (1 - gamma) * gamma**lead_time
        low = -self.lost_sales_cost * bound
        high = (self.holding_cost + max(self.regular_cost, self.expedited_cost)) * bound
        on_paths = self.order_by == "sample-path"
        return DualConstants(
            span=(high - low) / runs if runs > 0 else math.inf,
            lipschitz=lipschitz(gamma, lead_time, sum(self.unit_costs)) if gamma else math.inf,
            bound=bound,
            dimension=2,
            cost_low=low,
            cost_high=high,
            alpha=1.0 if on_paths else runs / 2,
            settling=lead_time,
            sensitivity=max(holding, lost) + regular + expedited,
            published_alpha=gamma**lead_time / 2 if gamma and not on_paths else None,
            zero_demand=None if on_paths else gamma,
            regular_lead_time=lead_time,
        )

    @property
    def restart_policy(self) -> Policy:
        """Levels of 0 order nothing until the system is empty."""
        return (0.0, 0.0)

    def order(self, policies: Array) -> InformationOrder:
        """By z_r, or by z_e and z_r - z_e; a redundant policy counts as (z_e, z_e).

        Where L_e > 0, z_r - z_e must be the same for policies to be related on every path.
        """
        points = as_policies(policies)
        top = points.max(axis=1)
        if self.order_by == "regular-level":
            return InformationOrder.from_key(top)
        level = points[:, 0]
        gaps, place = np.unique(top - level, return_inverse=True)
        gap = np.cumsum(np.diff(gaps, prepend=gaps[:1]) > _SAME_GAP * self.bound)[place]
        if self.expedited_lead_time == 0:
            return InformationOrder.from_key(np.column_stack([level, gap]))
        # Of two keys that differ by more than any level where gaps differ, one is smaller.
        apart = 2 * self.bound * gap
        return InformationOrder.from_key(np.column_stack([level + apart, level - apart]))

    def preference(self, policies: Array) -> Array:
        """While something is unknown, the highest z_e: it has the most stock, and sees the most."""
        return -as_policies(policies)[:, 0]

    def evaluator(
        self, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> DualEvaluator:
        """The estimator that was chosen."""
        default = "replay" if self.order_by == "sample-path" else "product-limit"
        kind = _ESTIMATORS[self.estimator or default]
        return kind(self, as_policies(policies), threads, precision)

    def path_evaluator(self, policies: Array) -> DualEvaluator:
        """Replay along the sales, whatever order is claimed."""
        return ReplayEstimator(self, as_policies(policies), 1, "float64", claimed=True)

    @property
    def control(self) -> ShopControl:
        """Stock and orders under way, and the two orders to be placed."""
        leads = {
            "expedited_order": self.expedited_lead_time,
            "regular_order": self.regular_lead_time,
        }
        return ShopControl(
            lead_times=leads,
            seen=("regular_order", "expedited_order"),
            high=self.bound,
            costs_of=lambda stock, sales, orders: (
                self.holding_cost * (stock - sales)
                - self.lost_sales_cost * sales
                + self.regular_cost * orders["regular_order"]
                + self.expedited_cost * orders["expedited_order"]
            ),
            orders_of=self._orders_of,
        )

    @property
    def base_surge(self) -> SurgeSetting:
        """Both sources; Q up to the highest regular level over L_r + 1, S as expedited levels."""
        return SurgeSetting(
            lead_times=self.lead_times,
            holding_cost=self.holding_cost,
            lost_sales_cost=self.lost_sales_cost,
            regular_cost=self.regular_cost,
            expedited_cost=self.expedited_cost,
            orders=(0.0, self.regular_levels.high / (self.regular_lead_time + 1)),
            levels=(self.expedited_levels.low, self.expedited_levels.high),
        )

    def tabular(self, radius: float | None = None) -> ShopTable:
        """Stock and orders in units of a radius: of the step of the levels, or of 1."""
        both = (self.expedited_levels, self.regular_levels)
        whole = any(levels.step is not None for levels in both)
        return ShopTable(self.control, radius or own_radius(*both), whole)

    def expedited_position(self, states: Array) -> Array:
        """What will have arrived by the time an expedited order does, without it."""
        last = 1 + self.regular_lead_time
        soon = states[:, : 2 + self.expedited_lead_time].sum(axis=1)
        return np.asarray(soon + states[:, last:].sum(axis=1))

    def _orders_of(self, policies: Array, states: Array) -> Array:
        fast = np.maximum(policies[:, 0] - self.expedited_position(states), 0.0)
        slow = np.maximum(policies[:, 1] - states.sum(axis=1) - fast, 0.0)
        return np.column_stack([fast, slow])

    def simulator(self, truth: Demand, seed: int = 0) -> DualSourcingSimulator:
        """The true system: this problem under that demand."""
        return DualSourcingSimulator(self, truth, seed)

    def describe(self) -> dict[str, object]:
        """The ``[problem]`` table of a problem file."""
        return {"kind": self.kind, **self.model_dump(exclude_none=True)}

    def check(self, trajectory: Trajectory) -> None:
        """Refuse negative values and sales above the stock that was there."""
        super().check(trajectory)
        check_records(trajectory)
