"""The newsvendor with censored demand: unsold units perish, and unmet demand is not observed.

Each period a quantity θ is stocked, sales min(D, θ) are observed, and the cost is
h (θ - D)^+ + p (D - θ)^+. Its term p D does not depend on the policy; without it, the cost is the
observable pseudo-cost h (θ - S) - p S of the sales S.

A lower quantity θ' would have sold min(S, θ'): a higher quantity informs every lower one on every
sample path, and the order has width 1 (label ``definition_sample_path_order``). There is no state,
so the bias is constant and H = 0.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from iopea.demand import Demand, DemandStream, Exponential
from iopea.errors import InputError, ModelMismatchError
from iopea.information_order import InformationOrder
from iopea.model import NonNegative
from iopea.policies import Box
from iopea.problems.base import Constants, Evaluator, PolicyFamily, Problem, as_policies
from iopea.problems.batches import Batches
from iopea.state import Part, array, parts
from iopea.systems.shop.base import Levels, Range
from iopea.systems.shop.law_simulation import LawSimulation
from iopea.systems.shop.pooled import ProductLimitReplay
from iopea.systems.shop.records import tolerance
from iopea.systems.shop.simulator import DemandSimulator
from iopea.systems.shop.system import DemandSystem, LinearShop
from iopea.systems.shop.tracker import Untracked
from iopea.types import (
    Array,
    Claim,
    Estimates,
    Indices,
    Mask,
    Policy,
    Precision,
    Rollout,
    Trajectory,
)


class NewsvendorSystem(DemandSystem):
    """The costs of a newsvendor.

    Parameters
    ----------
    overage_cost : float. Cost per unit left over [h].
    underage_cost : float. Cost per unit of demand not met [p].
    """

    kind: ClassVar[str] = "newsvendor"

    overage_cost: NonNegative
    underage_cost: NonNegative

    @model_validator(mode="after")
    def _worth_learning(self) -> Self:
        if self.overage_cost + self.underage_cost == 0:
            raise ValueError("Both costs are 0, so every quantity is best: give a positive cost.")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The sales."""
        return ("sales",)

    def demand_seen(self, trajectory: Trajectory) -> tuple[Array, Array]:
        """Sales, and the quantity that was in stock."""
        return trajectory["sales"], stocked(trajectory)

    @property
    def lost_cost(self) -> float:
        """Cost per unit of unmet demand [p]."""
        return self.underage_cost

    @property
    def linear(self) -> LinearShop:
        """Lead time 0, and perishable goods."""
        return LinearShop(0, self.overage_cost, self.underage_cost, perishes=True)

    def simulator(self, problem: Problem, truth: Demand, seed: int = 0) -> NewsvendorSimulator:
        """The true stand under that demand."""
        return NewsvendorSimulator(problem, truth, seed)

    def check(self, trajectory: Trajectory) -> None:
        """Sales are checked against the quantity: see the family."""

    def pseudo_costs(self, sales: Array, quantities: Array) -> Array:
        """Total pseudo-cost of each quantity, from the sales of a higher quantity.

        It is h n θ - (h + p) Σ min(S, θ). With sorted sales each sum is a look-up: sales below θ
        count in full, all others as θ.
        """
        ascending = np.sort(sales)
        below = np.searchsorted(ascending, quantities)
        sold = np.append(0.0, np.cumsum(ascending))[below] + quantities * (sales.size - below)
        stocked = self.overage_cost * sales.size * quantities
        return np.asarray(stocked - (self.overage_cost + self.underage_cost) * sold)


class OrderQuantities(PolicyFamily):
    """Order quantities: the stock at the start of each period.

    Parameters
    ----------
    levels : Levels. The order quantities that may be played [Θ].
    estimator : str, optional. Of play ``maximal``. ``"replay"`` (default there): along the sales of
        a higher quantity. ``"product-limit"``: on the demand of all periods, with lost demand
        filled in, so that the sales of lower quantities tell of higher ones, too. If ``"replay"``
        is given, play ``maximal`` is the default.
    """

    kind: ClassVar[str] = "order-quantity"
    made_for: ClassVar[type[Any]] = NewsvendorSystem
    parameters: ClassVar[tuple[str, ...]] = ("quantity",)
    optional_columns: ClassVar[tuple[str, ...]] = ("received",)
    one_level: ClassVar[bool] = True

    levels: Range
    estimator: Literal["replay", "product-limit"] | None = None

    def check_system(self, system: NewsvendorSystem) -> None:
        """Refuse a range that allows only the quantity 0."""
        if self.levels.high == 0:
            raise InputError("The levels need high > 0, but high is 0.0: nothing could be sold.")

    def policy_class(self, system: NewsvendorSystem) -> Box:
        """All quantities in the range."""
        levels = self.levels
        return Box(levels.low, levels.high, levels.step, labels=("order quantity",))

    @staticmethod
    def order(state: Any, parameters: Any, signal: Any) -> Any:
        """The quantity, in every period."""
        return parameters[0]

    def order_on(self, system: NewsvendorSystem, policies: Array) -> InformationOrder:
        """A higher quantity informs every lower one."""
        return InformationOrder.from_key(policies[:, 0])

    def claim(self, system: NewsvendorSystem) -> Claim:
        """The sales of a lower quantity are known on every sample path."""
        return "sample-path"

    def can_widen(self, axis: int) -> tuple[bool, bool]:
        """The range can be extended upwards, and downwards to 0."""
        return self.levels.can_widen

    def constants(self, system: NewsvendorSystem) -> Constants:
        """H = 0, L_Θ = max{h, p}, and pseudo-costs between -pU and hU."""
        high = self.levels.high
        return Constants(
            span=0.0,
            lipschitz=max(system.overage_cost, system.underage_cost),
            bound=high,
            dimension=1,
            cost_low=-system.underage_cost * high,
            cost_high=system.overage_cost * high,
        )

    def restart(self, system: NewsvendorSystem) -> Policy:
        """Any quantity, since every period starts from the same state."""
        return (self.levels.low,)

    def evaluator(
        self, problem: Problem, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """The estimator that was chosen; neither needs several threads or single precision."""
        if self.estimator == "product-limit":
            return ProductLimitReplay(problem, policies, threads, precision)
        return SalesReplay(problem.system, policies[:, 0])

    def choosing_evaluator(
        self, problem: Problem, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """Costs on demand drawn from its estimate."""
        return LawSimulation(problem, policies, threads, precision)

    def can_choose(self, system: NewsvendorSystem) -> bool:
        """Unless replay was chosen."""
        return self.estimator != "replay"

    def path_evaluator(self, problem: Problem, policies: Array) -> Evaluator:
        """Replay of all quantities."""
        return SalesReplay(problem.system, policies[:, 0])

    def tracker(self, problem: Problem) -> Untracked:
        """Every period starts from the same state."""
        return Untracked()

    def most_stock(self, system: NewsvendorSystem) -> float:
        """The highest quantity."""
        return self.levels.high

    def least_stock(self, system: NewsvendorSystem, policies: Array) -> Array:
        """The quantity."""
        return policies[:, 0]

    def constant_orders(self, system: NewsvendorSystem, policies: Array) -> None:
        """None that could fill the stand up, since unsold units perish."""

    def sample_costs(
        self,
        system: NewsvendorSystem,
        demands: Array,
        ends: Indices,
        policies: Array,
        stock: bool = False,
        threads: int = 1,
        precision: Precision = "float64",
    ) -> Array:
        """Batch costs of quantities on samples of demand, or with ``stock`` the sums of stock."""
        quantities, sizes = policies[:, 0], np.diff(ends, prepend=0)
        if stock:
            return np.tile(sizes[:, None] * quantities, (len(demands), 1, 1))
        return np.array(
            [
                [system.pseudo_costs(batch, quantities) for batch in np.split(demand, ends[:-1])]
                for demand in demands
            ]
        )

    def check(self, system: NewsvendorSystem, trajectory: Trajectory) -> None:
        """Refuse negative sales, and sales above the quantity by more than rounding."""
        sales, quantity = trajectory["sales"], stocked(trajectory)
        if quantity.size and quantity.min() < 0:
            step = int(quantity.argmin())
            raise InputError(f"received is {quantity[step]} at step {step}: it can't be negative.")
        room = tolerance(quantity, self.levels.step)
        wrong = np.flatnonzero((sales < 0) | (sales > quantity + room))
        if wrong.size:
            step = int(wrong[0])
            raise ModelMismatchError(
                f"sales are {sales[step]} at step {step}: with {quantity[step]:g} in stock they "
                f"lie between 0 and {quantity[step]:g}. If another quantity was in stock, give it "
                "as 'received'."
            )


class Newsvendor(Problem):
    """The newsvendor problem: costs and order quantities.

    Examples
    --------
    >>> stand = Newsvendor(overage_cost=1, underage_cost=4, levels={"low": 0, "high": 10})
    >>> stand.constants.span, stand.constants.lipschitz
    (0.0, 4.0)
    """

    system_type = NewsvendorSystem
    families = (OrderQuantities,)

    @classmethod
    def example(cls) -> tuple[Self, Demand]:
        """A stand whose best quantity is 2 log 5 = 3.2."""
        levels = Levels(low=0, high=10, step=0.2)
        return cls(overage_cost=1, underage_cost=4, levels=levels), Exponential(mean=2)


def stocked(trajectory: Trajectory) -> Array:
    """The stock: ``received`` where that column is given, otherwise the quantity played."""
    received = trajectory.columns.get("received")
    return np.full(len(trajectory), trajectory.policy[0]) if received is None else received


class SalesReplay(Evaluator):
    """Counterfactual costs of quantities, from the sales of a higher one.

    A batch is informative about quantities up to the lowest one played in it, and not about higher
    ones. A learner that plays the highest survivor never needs those.
    """

    saved = parts(quantities=array, sales=array, lowest=array, batches=Part)

    def __init__(self, system: NewsvendorSystem, quantities: Array) -> None:
        self._system = system
        self._quantities = np.array(quantities, dtype=np.float64)
        self._batches = Batches(quantities.size)
        self.forget()

    def forget(self) -> None:
        """Drop all sums."""
        self._batches.clear()
        self._sales = np.empty(0)  # of the batch in progress
        self._lowest = np.array([np.inf])  # lowest quantity in each batch, the last in progress

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed periods, all of which count."""
        if not evaluate:
            return 0
        sales, quantity = trajectory["sales"], stocked(trajectory)
        while sales.size:
            room = self._batches.size - self._sales.size
            self._sales = np.concatenate([self._sales, sales[:room]])
            self._lowest[-1] = min(self._lowest[-1], quantity[:room].min())
            sales, quantity = sales[room:], quantity[room:]
            if self._sales.size == self._batches.size:
                self._finish_batch()
        return len(trajectory)

    def _finish_batch(self) -> None:
        size, lowest = self._batches.size, self._lowest
        self._batches.add(size, self._system.pseudo_costs(self._sales, self._quantities)[None])
        if self._batches.size > size:  # adjacent batches were merged
            lowest = np.minimum(lowest[0::2], lowest[1::2])
        self._lowest = np.append(lowest, np.inf)
        self._sales = np.empty(0)

    @property
    def at_start(self) -> bool:
        """Every period starts from the same state."""
        return True

    def estimates(self) -> Estimates:
        """Pseudo-costs by batch, including the one in progress."""
        last = self._system.pseudo_costs(self._sales, self._quantities)
        sums = np.vstack([self._batches.costs, last])
        sizes = np.append(np.full(len(sums) - 1, float(self._batches.size)), self._sales.size)
        if self._quantities.max(initial=0.0) <= self._lowest.min():
            return Estimates(sums, sizes)
        informed = self._quantities <= self._lowest[:, None]
        return Estimates(sums * informed, sizes[:, None] * informed)

    def keep(self, mask: Mask) -> None:
        """Keep only these quantities."""
        self._quantities = self._quantities[mask]
        self._batches.keep(mask)


class NewsvendorSimulator(DemandSimulator):
    """The true system, with the demand distribution and unmet demand.

    The best quantity is the p/(h + p) quantile of demand, the least one with
    P(D <= θ) >= p/(h + p), or the better one of its neighbours in the class.
    """

    def _play(self, policy: Policy, steps: int, until_start: bool = False) -> Rollout:
        """Play a quantity; with ``until_start``, no period is needed."""
        demand = self._stream.draw(0 if until_start else steps)
        sales = np.minimum(demand, policy[0])
        left, lost = policy[0] - sales, demand - sales
        costs = self.problem.system.overage_cost * left + self.problem.system.underage_cost * lost
        return Rollout(Trajectory(policy, sales=sales), costs)

    def _costs_on(
        self, stream: DemandStream, policies: Array, steps: int, batches: int
    ) -> Estimates:
        quantities, size = as_policies(policies)[:, 0], -(-steps // batches)
        rows = []
        for _ in range(batches):
            demand = stream.draw(size)
            unavoidable = self.problem.system.underage_cost * demand.sum()
            rows.append(self.problem.system.pseudo_costs(demand, quantities) + unavoidable)
        return Estimates(np.array(rows), np.full(batches, float(size)))

    def restart_time(self, seed: int = 0) -> float:
        """0, since there is no state."""
        return 0.0
