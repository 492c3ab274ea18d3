"""Dual-index policies for two suppliers.

A dual-index policy (z_e, z_r) first raises the expedited position, all that will have arrived
within L_e periods, to z_e by an expedited order, then the total position to z_r by a regular one.
With z_e > z_r nothing is ever ordered regularly: such a policy equals (z_e, z_e), and is not
searched. With z_e = 0 all orders are regular: the base-stock policy z_r.

A candidate never holds more than its z_r, so periods whose stock was at least z_r show all the
demand that it needs. So policies are ordered by z_r (``lem:dual_index_partial_orders``): width 1,
with α = (1-γ)/2 γ^L_r for the paper's estimator, where γ is the probability of no demand. Among
policies with the same z_r the one with the least estimated cost is played.

For L_r - L_e = 1 there is also a sample-path order, in which the stock of a policy is never below
that of the policies it informs: with L_e = 0 all whose z_e and z_r - z_e are no larger than its
own, with L_e > 0 those with the same z_r - z_e and a lower z_e. The paper's remark has z_r instead
of z_r - z_e. That is not sufficient: on the demand 3, 5 from an empty system with L_r = 1, the
policy (3, 5) has a stock of 3 and 3, but (0, 5) one of 0 and 5, so that its sales in the second
period are not observed. The width of this order grows like 1/r, so it takes many more plays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator

from iopea.demand import DemandStream
from iopea.errors import InputError
from iopea.information_order import InformationOrder
from iopea.model import Probability
from iopea.policies import SAME_POINT, Box, PolicyClass
from iopea.problems.base import Constants, Evaluator, Problem, Rule
from iopea.systems.dual_sourcing import kernel as kernels
from iopea.systems.dual_sourcing.estimators import HittingEstimator, LevelEstimator
from iopea.systems.dual_sourcing.records import DualRecords
from iopea.systems.dual_sourcing.replay import ReplayEstimator
from iopea.systems.dual_sourcing.system import DualSourcingSystem
from iopea.systems.dual_sourcing.zero_runs import data_needed, lipschitz
from iopea.systems.shop.base import Levels, Range
from iopea.systems.shop.family import OrderingFamily, pieces
from iopea.systems.shop.kernel import order_up_to
from iopea.systems.shop.pooled import ProductLimitReplay
from iopea.types import Array, Claim, Estimates, Indices, Policy, Precision

#: Most pairs of levels in a net.
MOST_PAIRS = 2_000_000
#: Most points of an axis for which a net is counted exactly.
_COUNTED = 10**6


#: Tolerance for rounding of gaps, as a share of the highest level.
_SAME_GAP = 1e-9


@dataclass(frozen=True)
class DualConstants(Constants):
    """Constants with T_h(δ) of the proof (label ``dip_th_bound``)."""

    zero_demand: float | None = None
    regular_lead_time: int = 1

    def data_needed(self, delta: float) -> int:
        """T_h(δ); 1 where γ is unknown."""
        if self.zero_demand is None or not 0 < self.zero_demand < 1:
            return 1
        return data_needed(self.zero_demand, self.regular_lead_time, delta)


#: Warm-up of simulated candidates, in lead times.
_WARM_UP = 4
#: Unit costs with which the cost of a period is the stock after arrivals.
_STOCK = (1.0, -1.0, 0.0, 0.0)
_ESTIMATORS: dict[str, type[Any]] = {
    "product-limit": ProductLimitReplay,
    "level": LevelEstimator,
    "hitting": HittingEstimator,
    "replay": ReplayEstimator,
}


class LevelPairs(PolicyClass):
    """Policies (z_e, z_r) in two ranges of levels, without redundant ones.

    A policy with z_e > z_r equals (z_e, z_e). Where that one is not in the net, one policy
    represents all with this z_e.

    Examples
    --------
    >>> LevelPairs(Levels(low=0, high=2, step=1), Levels(low=0, high=1, step=1)).net(1.0).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    """

    names = ("expedited level", "regular level")
    dimension = 2

    def __init__(self, expedited: Levels, regular: Levels) -> None:
        self._axes = [Box(levels.low, levels.high, levels.step) for levels in (expedited, regular)]

    def __repr__(self) -> str:
        return f"LevelPairs({self._axes[0]!r}, {self._axes[1]!r})"

    @property
    def bound(self) -> float:
        """The highest level [U]."""
        return max(axis.bound for axis in self._axes)

    @property
    def extent(self) -> float:
        """The longer of the two ranges."""
        return max(axis.extent for axis in self._axes)

    def ends(self, axis: int) -> tuple[float, float]:
        """The ends of a range."""
        return self._axes[axis].ends(0)

    def contains(self, policy: Sequence[float]) -> bool:
        """Whether both levels lie in their ranges."""
        return len(policy) == 2 and all(
            axis.contains([level]) for axis, level in zip(self._axes, policy, strict=True)
        )

    def net(self, radius: float) -> Array:
        """The grid of this spacing, without redundant policies.

        More than two million policies are refused.
        """
        points = self.count(radius)
        if points > MOST_PAIRS:
            least = radius * math.sqrt(points / MOST_PAIRS)
            raise InputError(
                f"The net of radius {radius:g} has {points} pairs of levels, more than "
                f"{MOST_PAIRS}: use larger steps, or a radius of about {1.01 * least:.2g}."
            )
        return self._distinct(*(axis.net(radius)[:, 0] for axis in self._axes))

    def sample(self, rng: Generator, n: int) -> Array:
        """Random pairs of levels, drawn independently."""
        return np.hstack([axis.sample(rng, n) for axis in self._axes])

    def thinned(self, per_axis: int, radius: float) -> Array:
        """A net with at most ``per_axis`` levels of each kind."""
        return self._distinct(*(axis.thinned(per_axis, radius)[:, 0] for axis in self._axes))

    def count(self, radius: float) -> int:
        """Number of policies in the net; for very fine nets, the points of the full grid."""
        sizes = [axis.count(radius) for axis in self._axes]
        if max(sizes) > _COUNTED:
            return sizes[0] * sizes[1]
        expedited, regular = (axis.net(radius)[:, 0] for axis in self._axes)
        return int((regular.size - self._first(expedited, regular)).sum())

    def _first(self, expedited: Array, regular: Array) -> Indices:
        """For each z_e the index of the lowest z_r to combine it with, up to rounding."""
        rounding = SAME_POINT * self.extent
        place = np.searchsorted(regular, expedited - rounding)
        present = regular[np.minimum(place, regular.size - 1)] <= expedited + rounding
        present &= place < regular.size
        return np.asarray(np.maximum(np.where(present, place, place - 1), 0))

    def _distinct(self, expedited: Array, regular: Array) -> Array:
        first = self._first(expedited, regular)
        counts = regular.size - first
        place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - first, counts)
        return np.column_stack([np.repeat(expedited, counts), regular[place]])


@lru_cache
def dual_index_rule(regular: int, expedited: int) -> Rule:
    """The rule for these lead times; a state is on-hand stock, then the pipelines."""

    def order(state: Any, parameters: Any, signal: Any) -> Any:
        position = state[0]
        for i in range(expedited):
            position += state[1 + regular + i]
        for i in range(expedited + 1):
            position += state[1 + i]
        total = position
        for i in range(expedited + 1, regular):
            total += state[1 + i]
        fast = order_up_to(parameters[0], position)
        return fast, order_up_to(parameters[1], total + fast)

    return order


class DualIndex(OrderingFamily):
    """Dual-index policies: an expedited order up to z_e, then a regular one up to z_r.

    Parameters
    ----------
    expedited_levels, regular_levels : Levels. The z_e and z_r that may be played [Θ].
    order_by : str. ``"regular-level"``: by z_r, in distribution. ``"sample-path"``: by z_e and
        z_r - z_e, on every sample path; only for L_r - L_e = 1.
    estimator : str, optional. ``"product-limit"`` (default), ``"level"`` or ``"hitting"``;
        ``"replay"`` for the sample-path order.
    zero_demand : float, optional. Probability of a period without demand [γ]. The rules
        ``theorem`` and ``published`` need it, ``paired`` does not.
    """

    kind: ClassVar[str] = "dual-index"
    made_for: ClassVar[type[Any]] = DualSourcingSystem
    parameters: ClassVar[tuple[str, ...]] = ("expedited_level", "regular_level")
    optional_columns: ClassVar[tuple[str, ...]] = ("gap",)
    most_listed: ClassVar[int] = 2**16

    expedited_levels: Range
    regular_levels: Range
    order_by: Literal["regular-level", "sample-path"] = "regular-level"
    estimator: Literal["product-limit", "level", "hitting", "replay"] | None = None
    zero_demand: Probability | None = None

    def check_system(self, system: DualSourcingSystem) -> None:
        """Refuse levels with which nothing could be sold, and invalid information orders."""
        if self.bound == 0:
            raise InputError("Both highest levels are 0.0: nothing could be sold.")
        gap = system.regular_lead_time - system.expedited_lead_time
        if self.order_by == "sample-path" and gap != 1:
            raise InputError(
                f"The sample-path order needs lead times that differ by 1, not by {gap}."
            )
        if (self.estimator == "replay") != (self.order_by == "sample-path") and self.estimator:
            raise InputError(
                f"The estimator {self.estimator!r} does not go with order_by = {self.order_by!r}: "
                "'replay' and 'sample-path' belong together."
            )

    def policy_class(self, system: DualSourcingSystem) -> LevelPairs:
        """All pairs of levels, without redundant ones."""
        return LevelPairs(self.expedited_levels, self.regular_levels)

    @property
    def bound(self) -> float:
        """The highest level of either kind [U]."""
        return max(self.expedited_levels.high, self.regular_levels.high)

    def rule(self, system: DualSourcingSystem) -> Rule:
        """An expedited order up to z_e, and a regular one up to z_r."""
        return dual_index_rule(*system.lead_times)

    def claim(self, system: DualSourcingSystem) -> Claim:
        """In distribution by z_r; on every sample path by z_e and z_r - z_e."""
        return "sample-path" if self.order_by == "sample-path" else "distributional"

    def order_on(self, system: DualSourcingSystem, policies: Array) -> InformationOrder:
        """By z_r, or by z_e and z_r - z_e; a redundant policy counts as (z_e, z_e).

        If L_e > 0, only policies with the same z_r - z_e are related on every sample path.
        """
        points = policies
        top = points.max(axis=1)
        if self.order_by == "regular-level":
            return InformationOrder.from_key(top)
        level = points[:, 0]
        gaps, place = np.unique(top - level, return_inverse=True)
        gap = np.cumsum(np.diff(gaps, prepend=gaps[:1]) > _SAME_GAP * self.bound)[place]
        if system.expedited_lead_time == 0:
            return InformationOrder.from_key(np.column_stack([level, gap]))
        # Between gaps the shift exceeds all levels: one key is larger, the other smaller.
        apart = 2 * self.bound * gap
        return InformationOrder.from_key(np.column_stack([level + apart, level - apart]))

    def preference(self, policies: Array) -> Array:
        """The highest z_e: it has the most stock, and observes the most demand."""
        return -policies[:, 0]

    def constants(self, system: DualSourcingSystem) -> DualConstants:
        """α = (1-γ)/2 γ^L_r, H = 1/((1-γ) γ^L_r) times the range of costs, and L_Θ.

        L_Θ is finite only for γ > c_γ(L_r) (label ``dip_lem1``). Without γ none of them is known.
        The effect of a unit of stock on the cost of one period is bounded by h or p, as it is left
        over or sold, plus its ordering cost; that this bounds L_Θ as well is seen in simulations,
        not proved.
        """
        bound, lead_time = self.bound, system.regular_lead_time
        holding, lost, regular, expedited = system.unit_costs
        # 0 means unknown, and so does γ = 1, with which nothing is ever sold.
        gamma = 0.0 if self.zero_demand in (None, 1.0) else float(self.zero_demand or 0.0)
        runs = (1 - gamma) * gamma**lead_time
        low = -system.lost_sales_cost * bound
        high = (system.holding_cost + max(system.order_costs)) * bound
        on_paths = self.order_by == "sample-path"
        return DualConstants(
            span=(high - low) / runs if runs > 0 else math.inf,
            lipschitz=lipschitz(gamma, lead_time, sum(system.unit_costs)) if gamma else math.inf,
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

    def evaluator(
        self, problem: Problem, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """The estimator that was chosen."""
        default = "replay" if self.order_by == "sample-path" else "product-limit"
        evaluator: Evaluator = _ESTIMATORS[self.estimator or default](
            problem, policies, threads, precision
        )
        return evaluator

    def can_choose(self, system: Any) -> bool:
        """By simulation on demand drawn from its estimate, unless another estimator was chosen."""
        return self.order_by != "sample-path" and self.estimator in (None, "product-limit")

    def path_evaluator(self, problem: Problem, policies: Array) -> Evaluator:
        """Replay along the sales, treating all policies as informed."""
        return ReplayEstimator(problem, policies, 1, "float64", claimed=True)

    def tracker(self, problem: Problem) -> DualRecords:
        """Follows the real shop, and finds the reason where records don't fit."""
        steps = (self.expedited_levels.step, self.regular_levels.step)
        step = None if None in steps else min(each for each in steps if each is not None)
        return DualRecords(problem.system.lead_times, self.bound, step)

    def least_stock(self, system: DualSourcingSystem, policies: Array) -> Array | None:
        """With L_e = 0 the stock is never below z_e."""
        return policies[:, 0] if system.expedited_lead_time == 0 else None

    def sample_costs(
        self,
        system: DualSourcingSystem,
        demands: Array,
        ends: Indices,
        policies: Array,
        stock: bool = False,
        threads: int = 1,
        precision: Precision = "float64",
    ) -> Array:
        """Batch costs on consecutive samples, with a faster kernel than the generic one."""
        count, periods = demands.shape
        before = np.resize(demands[-1, ::-1], _WARM_UP * (system.regular_lead_time + 1))[::-1]
        starts = before.size + periods * np.arange(count)
        state = kernels.start_state(policies, system.lead_times, precision)
        batches = kernels.replay(
            np.concatenate([before, demands.ravel()]),
            np.append(before.size, (starts[:, None] + ends).ravel()),
            policies, state, 0, system.lead_times, _STOCK if stock else system.unit_costs, threads,
        )  # fmt: skip
        return batches[1:].reshape(count, ends.size, -1).astype(np.float64, copy=False)

    def orders_of(self, system: DualSourcingSystem, policies: Array, states: Array) -> Array:
        """The expedited and the regular order of policies, an array (n, 2), in states (n, k)."""
        fast = np.maximum(policies[:, 0] - system.expedited_position(states), 0.0)
        slow = np.maximum(policies[:, 1] - states.sum(axis=1) - fast, 0.0)
        return np.column_stack([fast, slow])

    def roll_out(
        self,
        system: DualSourcingSystem,
        policy: Policy,
        demand: Array,
        state: Array,
        until_empty: bool,
    ) -> Array:
        """Play (z_e, z_r) on the real shop, with a precompiled kernel."""
        return kernels.roll_out(policy, demand, state, system.regular_lead_time, until_empty)

    def path_costs(
        self,
        system: DualSourcingSystem,
        stream: DemandStream,
        policies: Array,
        steps: int,
        batches: int,
    ) -> Estimates:
        """Batch sums of the true cost of policies on a demand path, from an empty shop."""
        state = kernels.start_state(policies, system.lead_times)
        sums = np.zeros((batches, len(policies)))
        clock = 0
        for batch, demand in pieces(stream, steps, batches):
            ends = np.array([demand.size], dtype=np.intp)
            sums[batch] += kernels.replay(
                demand, ends, policies, state, clock, system.lead_times, system.unit_costs
            )[0]
            sums[batch] += system.lost_sales_cost * demand.sum()
            clock += demand.size
        return Estimates(sums, np.full(batches, clock / batches))
