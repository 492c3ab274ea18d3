"""Families of ordering policies, which depend on on-hand stock and pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np

from iopea.demand import DemandStream
from iopea.errors import InputError
from iopea.information_order import InformationOrder
from iopea.problems.base import Constants, Evaluator, PolicyFamily, class_of
from iopea.systems.shop.base import Levels, check_held, most_held, own_radius
from iopea.systems.shop.law_simulation import LawSimulation
from iopea.systems.shop.pooled import ProductLimitReplay
from iopea.systems.shop.replay import PathReplay
from iopea.systems.shop.rule import NO_SIGNAL, try_rule
from iopea.systems.shop.system import ShopSystem
from iopea.systems.shop.tracker import tracker_of
from iopea.types import Array, Estimates, Indices, Policy, Precision

#: Periods of a path held in memory at a time in long evaluations.
_PATH = 2**17


def pieces(stream: DemandStream, steps: int, batches: int) -> Iterator[tuple[int, Array]]:
    """A demand path in batches of equal length, piece by piece: the batch, and its demand."""
    size = -(-steps // batches)
    for batch in range(batches):
        for done in range(0, size, _PATH):
            yield batch, stream.draw(min(size - done, _PATH))


def higher_informs_lower(levels: Array, within: Array) -> InformationOrder:
    """The order in which a higher level informs every lower one with the same value of ``within``.

    >>> order = higher_informs_lower(np.array([1.0, 2.0, 3.0]), within=np.array([5.0, 5.0, 7.0]))
    >>> order.informs(1, 0), order.informs(2, 0), order.width()
    (True, False, 2)
    """
    level, group = (np.unique(values, return_inverse=True)[1] for values in (levels, within))
    # Between groups the shift exceeds all levels, so that one key is larger and one smaller.
    apart = len(level) * group
    return InformationOrder.from_key(np.column_stack([level + apart, level - apart]))


#: Warm-up of simulated candidates: at least this many lead times, at most so many periods.
_WARM_UP, _MOST_WARM_UP = 4, 4096
#: Policies on which a rule is tried before anything runs on it.
_TRIED = 8


#: Periods without sales in which a shop is filled.
_FILLED = 32


def _filled(rule: Any, system: Any, policy: Array) -> float:
    """What a policy holds, on hand and on order, when nothing was sold for a while."""
    leads, order = tuple(system.sources.values()), getattr(rule, "py_func", rule)
    state = np.zeros(1 + sum(leads))
    for _ in range(_FILLED):
        placed, first = np.atleast_1d(order(state.copy(), policy, NO_SIGNAL)), 1
        for lead, amount in zip(leads, placed, strict=True):
            coming = np.append(state[first : first + lead], amount)
            state[0] += coming[0]
            state[first : first + lead] = coming[1:]
            first += lead
    return float(state.sum())


class OrderingFamily(PolicyFamily):
    """Policies for a shop. A subclass defines its parameters, its rule and its information order.

    Policies are simulated, and replayed along the records of others, by compiling the rule. A
    family with a closed form may override this with faster kernels.
    """

    made_for: ClassVar[type[Any]] = ShopSystem
    most_listed: ClassVar[int] = 2**13
    #: Whether a policy is one level, up to which the inventory position is raised.
    one_level: ClassVar[bool] = False

    def most_stock(self, system: Any) -> float:
        """The largest inventory position that a policy brings about [U]."""
        return class_of(self, system).bound

    @property
    def axes(self) -> tuple[Levels, ...]:
        """The ranges of levels, from which the unit of a table of states is chosen."""
        return tuple(value for _, value in self if isinstance(value, Levels))

    def units(self, system: Any) -> tuple[float, bool]:
        """The unit of a table of states, and whether a finer one would be of no use."""
        whole = any(levels.step is not None for levels in self.axes)
        return (own_radius(*self.axes) if self.axes else 1.0), whole

    @classmethod
    def around(cls, levels: Levels, lead_time: int) -> Self:
        """The family for a shop of one supplier whose inventory position stays in this range."""
        raise InputError(
            f"The kind {cls.kind!r} can't be fitted to a table of sales: it does not say which "
            "ranges of its parameters go with a range of levels."
        )

    def check_system(self, system: Any) -> None:
        """Try the rule on a few states, in plain Python; refuse orders that are none.

        The user's own cost is tried as well.
        """
        known = class_of(self, system)
        system.try_own_cost(self.most_stock(system))
        policies = known.thinned(2, known.extent or 1.0)[:_TRIED]
        wide, sources = 1 + sum(system.sources.values()), len(system.sources)
        most = self.most_stock(system)
        rule = self.rule(system)
        for policy, held in product(policies, (0.0, most / wide, most)):
            try_rule(rule, np.full(wide, held), policy, sources)
        limit = most_held(self, system, known.dimension)
        if np.isfinite(limit) and not system.terms.limited:  # then all that is ordered comes
            for policy in policies:
                check_held(self, policy, _filled(rule, system, policy), limit)

    def can_widen(self, axis: int) -> tuple[bool, bool]:
        """The range can be extended upwards, and downwards to 0."""
        axes = self.axes
        return axes[axis].can_widen if axis < len(axes) else (False, False)

    def restart(self, system: Any) -> Policy:
        """Parameters of 0 order nothing until the shop is empty."""
        return (0.0,) * self.policy_class(system).dimension

    def constants(self, system: Any) -> Constants:
        """The range of costs and the lead time; no bounds on H and L_Θ are proved, nor on α."""
        most, own = self.most_stock(system), system.own_bound
        return Constants(
            span=np.inf,
            lipschitz=np.inf,
            bound=self.policy_class(system).bound,
            dimension=self.policy_class(system).dimension,
            cost_low=-system.unit_costs[1] * most - own,
            cost_high=(system.unit_costs[0] + max(system.order_costs)) * most + own,
            alpha=1.0 if self.claim(system) == "sample-path" else 0.0,
            settling=system.longest,
        )

    def evaluator(
        self, problem: Any, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """Replay along the records where the order holds on every sample path.

        Otherwise simulation on the demand of all records.
        """
        if self.claim(problem.system) == "sample-path":
            return PathReplay(problem, policies, threads)
        return ProductLimitReplay(problem, policies, threads, precision)

    def choosing_evaluator(
        self, problem: Any, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """Simulation on demand drawn from its estimate."""
        return LawSimulation(problem, policies, threads, precision)

    def can_choose(self, system: Any) -> bool:
        """Demand does not depend on the policy."""
        return True

    def path_evaluator(self, problem: Any, policies: Array) -> Evaluator:
        """Replay along the records, whatever order is claimed."""
        return PathReplay(problem, policies, claimed=True)

    def tracker(self, problem: Any) -> Any:
        """Follows the real shop by its records."""
        return tracker_of(problem)

    def least_stock(self, system: Any, policies: Array) -> Array | None:
        """The stock after arrivals that each policy never falls below, where that is known."""
        return None

    def constant_orders(self, system: Any, policies: Array) -> Array | None:
        """What each policy orders in every period whatever the stock; None where none does."""
        return None

    def sample_costs(
        self,
        system: Any,
        demands: Array,
        ends: Indices,
        policies: Array,
        stock: bool = False,
        threads: int = 1,
        precision: Precision = "float64",
    ) -> Array:
        """Batch costs of policies on consecutive samples of demand, after a warm-up.

        Parameters
        ----------
        demands : array (k, periods). The samples.
        ends : array (batches,). The period after the last one of each batch.
        stock : bool. Whether to sum up the stock after arrivals instead of costs.

        Returns
        -------
        array (k, batches, n) : costs without the term p D_t that no order changes.
        """
        rule = system.compiled(self)
        count, periods = demands.shape
        warm_up = max(min(periods, _MOST_WARM_UP), _WARM_UP * (system.longest + 1))
        before = np.resize(demands[-1, ::-1], warm_up)[::-1]
        starts = warm_up + periods * np.arange(count)
        sums = rule.simulate(
            np.concatenate([before, demands.ravel()]),
            np.append(warm_up, (starts[:, None] + ends).ravel()),
            policies, np.zeros((rule.wide, len(policies))),
            rule.terms.stock if stock else None, threads,
        )  # fmt: skip
        return np.asarray(sums[1:].reshape(count, ends.size, -1))

    def orders_of(self, system: Any, policies: Array, states: Array) -> Array:
        """Orders of policies, an array (n, d), in states, an array (n, k): (n, sources)."""
        orders: Array = system.compiled(self).orders(policies, states)
        return orders

    def roll_out(
        self, system: Any, policy: Policy, demand: Array, state: Array, until_empty: bool
    ) -> Array:
        """Play a policy on the real shop, whose ``state``, an array (k,), is changed in place.

        Returns
        -------
        array (2 + sources, periods played) : stock after arrivals, sales, and the orders.
        """
        rule = system.compiled(self)
        columns: Array = rule.roll_out(np.array(policy), demand, state[None], until_empty)
        return columns

    def trace(self, system: Any, policy: Policy, demand: Array, state: Array) -> Array:
        """Play a policy, and also record the state before each period.

        Returns
        -------
        array (k + sources + 2, periods) : the state, the orders, stock after arrivals and sales.
        """
        columns: Array = system.compiled(self).trace(np.array(policy), demand, state[None])
        return columns

    def path_costs(
        self, system: Any, stream: DemandStream, policies: Array, steps: int, batches: int
    ) -> Estimates:
        """Batch sums of the true cost of policies on a demand path, from an empty shop."""
        rule = system.compiled(self)
        states = np.zeros((rule.wide, len(policies)))
        sums, sizes = np.zeros((batches, len(policies))), np.zeros(batches)
        for batch, demand in pieces(stream, steps, batches):
            ends = np.array([demand.size], dtype=np.intp)
            sums[batch] += rule.simulate(demand, ends, policies, states)[0]
            sums[batch] += rule.terms.lost * demand.sum()
            sizes[batch] += demand.size
        return Estimates(sums, sizes)
