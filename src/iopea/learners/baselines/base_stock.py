"""Common base of learners of a base-stock level: the shop's costs and the feasible levels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from iopea.errors import InputError
from iopea.learners.base import Learner
from iopea.policies import Box
from iopea.problems.base import Problem
from iopea.systems.shop.system import DemandSystem, LinearShop
from iopea.types import Array, Trajectory

#: Relative tolerance for rounding, of a step or a level.
ROUNDING = 1e-9


@dataclass(frozen=True)
class LevelRange:
    """The feasible levels: an interval, or a grid that starts at its lower end.

    Examples
    --------
    >>> whole = LevelRange(Box(0, 10, step=1))
    >>> whole.nearest(3.4), whole.below(3.4), whole.above(3.4), whole.after(3.0)
    (3.0, 3.0, 4.0, 4.0)
    >>> any_level = LevelRange(Box(0, 10))
    >>> any_level.nearest(3.4), any_level.above(12.0), any_level.after(3.0)
    (3.4, 10.0, 3.0)
    """

    box: Box

    @property
    def low(self) -> float:
        """The lowest level."""
        return self.box.low[0]

    @property
    def high(self) -> float:
        """The highest level."""
        return self.box.high[0] if self._step is None else self._member(self.count() - 1)

    @property
    def _step(self) -> float | None:
        return None if self.box.step is None else self.box.step[0]

    def count(self, low: float = -math.inf, high: float = math.inf) -> int:
        """Number of grid levels from one to another, both included."""
        if self._step is None:
            raise InputError("The levels have no steps, so they can't be counted.")
        members = self.box.count(1.0)
        first = 0 if low <= self.low else round((low - self.low) / self._step)
        last = members - 1 if math.isinf(high) else round((high - self.low) / self._step)
        return last - first + 1

    @property
    def in_steps(self) -> bool:
        """Whether the levels are a grid."""
        return self._step is not None

    def nearest(self, level: float) -> float:
        """The feasible level nearest to this one."""
        return self._placed(level, 0.5)

    def below(self, level: float) -> float:
        """The highest level that is at most this one."""
        return self._placed(level, ROUNDING)

    def above(self, level: float) -> float:
        """The lowest level that is at least this one."""
        return self._placed(level, 1.0 - ROUNDING)

    def after(self, level: float) -> float:
        """The next higher level; without steps, the level itself."""
        return level if self._step is None else self.nearest(level + self._step)

    def before(self, level: float) -> float:
        """The next lower level; without steps, the level itself."""
        return level if self._step is None else self.nearest(level - self._step)

    def _placed(self, level: float, lift: float) -> float:
        inside = min(max(level, self.low), self.box.high[0])
        if self._step is None:
            return inside
        number = math.floor((inside - self.low) / self._step + lift)
        return self._member(min(number, self.box.count(1.0) - 1))

    def _member(self, number: int) -> float:
        step = self._step or 0.0
        return min(self.low + step * number, self.box.high[0])


def _linear(problem: Problem) -> LinearShop | None:
    """Lead time and costs of the shop; None unless costs are linear and a policy is one level."""
    if not getattr(problem.family, "one_level", False):
        return None
    return problem.system.linear if isinstance(problem.system, DemandSystem) else None


class BaseStockLearner(Learner):
    """A learner of one base-stock level, from stock and sales of a shop with linear costs."""

    needs = "one-dimensional base-stock levels with linear costs"

    def __init__(self, problem: Problem, horizon: int | None = None, seed: int = 0) -> None:
        super().__init__(problem, horizon, seed)
        policies, shop = problem.policy_class, _linear(problem)
        if not isinstance(policies, Box) or shop is None:  # refused above: for the types
            raise InputError(f"{self.name} needs {self.needs}.")
        self.shop: LinearShop = shop
        self.levels = LevelRange(policies)

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        """Problems whose policies are base-stock levels and whose costs are linear."""
        return _linear(problem) is not None

    @classmethod
    def lacks(cls, problem: Problem) -> str:
        """Says that costs are not linear, where policies are levels."""
        return ", but no linear costs" if problem.policy_class.dimension == 1 else ""

    def _stock(self, trajectory: Trajectory) -> Array:
        """Stock after arrivals; of perishable goods, the level itself in each period."""
        if self.shop.perishes:
            return np.full(len(trajectory), trajectory.policy[0])
        return trajectory["stock"]

    def _pseudo_costs(self, trajectory: Trajectory) -> Array:
        """Costs per period up to a term that no level changes: h (stock - sales) - p sales."""
        sales = trajectory["sales"]
        left = self._stock(trajectory) - sales
        return self.shop.holding_cost * left - self.shop.lost_sales_cost * sales
