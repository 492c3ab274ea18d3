"""Tailored base-surge policies: a constant regular order, and expedited orders up to a level.

In every period a policy (Q, S) orders Q from the regular source, whatever the state, and
(S - x)^+ from the expedited one, where x is the expedited position: on-hand stock, the expedited
pipeline, and the regular orders that arrive no later than an expedited order placed now. Unlike
dual-index policies, these do not control the total inventory position.

The excess of the expedited position over S is a random walk with steps Q - D, reflected at 0, as
long as demand is met. Regular orders arrive whatever the stock, so the system is stable only for Q
below the mean demand, which is unknown. Known in advance is the highest regular level: with a
constant order, the regular pipeline is always (L_r + 1) Q, including the order that arrives and the
one that is placed, and a policy with a regular level never has more in the pipeline than that
level. So Q ranges from 0 to the highest regular level over L_r + 1, and S over the expedited
levels. Some of these Q may still be unstable: IOPEA neither plays nor judges those that are not
surely below mean demand.

With L_e = 0 the stock after arrivals is max(x, S), and the position of the next period is what is
left of it plus Q. Both rise with x, S and Q: a policy with a higher Q and a higher S has more stock
in every period, and informs the other on every sample path. With L_e > 0 its records determine the
demand distribution as far as the other needs it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from iopea.demand import DemandStream
from iopea.information_order import InformationOrder
from iopea.model import check_nonnegative
from iopea.policies import Box
from iopea.problems.base import Evaluator, Problem, Rule
from iopea.systems.dual_sourcing import surge_kernel as kernels
from iopea.systems.dual_sourcing.dual_index import DualIndex
from iopea.systems.dual_sourcing.system import DualSourcingSystem
from iopea.systems.shop.base import Levels, Range, box_of
from iopea.systems.shop.family import OrderingFamily, pieces
from iopea.systems.shop.kernel import raised
from iopea.systems.shop.pooled import ProductLimitReplay
from iopea.types import Array, Claim, Estimates, Policy, Precision


@lru_cache
def _rule(regular: int, expedited: int) -> Rule:
    """The rule for these lead times; a state is on-hand stock, then the pipelines."""

    def order(state: Any, parameters: Any, signal: Any) -> Any:
        position = 0.0
        for i in range(2 + expedited):
            position += state[i]
        for i in range(1 + regular, 1 + regular + expedited):
            position += state[i]
        return raised(position, parameters[1]) - position, parameters[0]

    return order


class BaseSurge(OrderingFamily):
    """Tailored base-surge policies: order Q from the regular source, and up to S expedited.

    Parameters
    ----------
    orders : Levels. The constant regular orders that may be played [Q].
    levels : Levels. The levels of expedited orders [S].

    Examples
    --------
    >>> system = DualSourcingSystem(regular_lead_time=2, expedited_lead_time=0, holding_cost=1,
    ...                             lost_sales_cost=10)
    >>> surge = BaseSurge(orders={"low": 0, "high": 1}, levels={"low": 0, "high": 6})
    >>> surge.orders_of(system, np.array([[0.5, 2.0]]), np.array([[1.0, 0.25, 0.5]]))
    array([[0.75, 0.5 ]])
    """

    kind: ClassVar[str] = "base-surge"
    made_for: ClassVar[type[Any]] = DualSourcingSystem
    parameters: ClassVar[tuple[str, ...]] = ("order", "level")

    orders: Range
    levels: Range

    @classmethod
    def within(cls, problem: Problem) -> Self | None:
        """The base-surge family for a problem with two suppliers; None for other problems.

        For a problem with dual-index policies, Q ranges up to the highest regular level over
        L_r + 1, and S over the expedited levels.
        """
        family, system = problem.family, problem.system
        if isinstance(family, cls):
            return family
        if not isinstance(family, DualIndex):
            return None
        most = family.regular_levels.high / (system.regular_lead_time + 1)
        expedited = family.expedited_levels
        return cls(
            orders=Levels(low=0.0, high=most),
            levels=Levels(low=expedited.low, high=expedited.high),
        )

    def policy_class(self, system: DualSourcingSystem) -> Box:
        """All (Q, S)."""
        return box_of(self.orders, self.levels, labels=("constant order", "surge level"))

    def most_stock(self, system: DualSourcingSystem) -> float:
        """S plus the regular pipeline: the position of a policy that sells all arrivals."""
        return self.levels.high + (system.regular_lead_time + 1) * self.orders.high

    def rule(self, system: DualSourcingSystem) -> Rule:
        """A constant regular order, and an expedited one up to S."""
        return _rule(*system.lead_times)

    def constant_orders(self, system: DualSourcingSystem, policies: Array) -> Array:
        """The constant regular order."""
        return policies[:, 0]

    def least_stock(self, system: DualSourcingSystem, policies: Array) -> Array | None:
        """With L_e = 0 the stock is never below S."""
        return policies[:, 1] if system.expedited_lead_time == 0 else None

    def order_on(self, system: DualSourcingSystem, policies: Array) -> InformationOrder:
        """A higher Q and S inform lower ones."""
        return InformationOrder.from_key(policies)

    def claim(self, system: DualSourcingSystem) -> Claim:
        """With L_e = 0 on every sample path, otherwise in distribution."""
        return "sample-path" if system.expedited_lead_time == 0 else "distributional"

    def evaluator(
        self, problem: Problem, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """Simulation on all records, since the highest constant orders may not be played."""
        return ProductLimitReplay(problem, policies, threads, precision)

    def trace(
        self, system: DualSourcingSystem, policy: Policy, demand: Array, state: Array
    ) -> Array:
        """Play (Q, S) on the real shop, with a precompiled kernel."""
        order = check_nonnegative("The constant order", policy[0])
        level = check_nonnegative("The level of expedited orders", policy[1])
        return kernels.roll_out(order, level, demand, state, system.regular_lead_time)

    def path_costs(
        self,
        system: DualSourcingSystem,
        stream: DemandStream,
        policies: Array,
        steps: int,
        batches: int,
    ) -> Estimates:
        """Batch sums of the true cost of policies on a demand path, from an empty shop."""
        state = kernels.start_state(len(policies), system.expedited_lead_time)
        sums = np.zeros((batches, len(policies)))
        clock = 0
        for batch, demand in pieces(stream, steps, batches):
            sums[batch] += kernels.replay(
                demand, policies, state, clock, system.lead_times, system.unit_costs
            )
            clock += demand.size
        return Estimates(sums, np.full(batches, clock / batches))
