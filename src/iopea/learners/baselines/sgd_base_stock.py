"""Stochastic gradient on the base-stock level, from censored sales.

Huh and Rusmevichientong (2009) for a lead time of 0; with a positive lead time, the sample-path
derivative (Huh, Janakiraman, Muckstadt and Rusmevichientong 2009).

Let A_t be the cumulative orders and C_t the cumulative sales up to period t. With an order up to
the level θ_t,

    A_t = max(A_{t-1}, θ_t + C_{t-1}),    C_t = min(A_{t-L}, C_{t-1} + D_t).

Shift all levels by the same small amount. Then A_t moves by

    A'_t = 1 + C'_{t-1} if an order may be placed, else A'_{t-1} (the position is above the level),

and C_t by C'_t = A'_{t-L} if the period sold out, else C'_{t-1}. So the pseudo-cost
h (A_{t-L} - C_t) - p (C_t - C_{t-1}) of the period moves by

    h (A'_{t-L} - C'_t) - p (C'_t - C'_{t-1}).

This needs only whether a period sold out, not the lost demand. A' and C' are integers. For
perishable goods, periods are independent: the derivative is -p if the period sold out, else h.

A level is held for a cycle of periods; then, with G_i the mean derivative of cycle i,

    y_{i+1} = y_i - s (U - l) / max(h, p) · G_i / √i,

projected to the range [l, U]. The recommendation is the mean of y since cycle P / 2, where P is
the largest power of two up to i: at least the latter half of the cycles.

Assumes that the cost is convex in the level. Observes stock and sales.

On a grid, the lowest level at or above y is played. With integer demand, the left derivative at
that level is the slope at y of the piecewise linear interpolation of the cost; it is the one that
sell-outs reveal, since they don't show whether more was demanded. The recommendation converges to
the best level, but the level above it continues to be played in some of the cycles.
"""

from __future__ import annotations

import math
from collections import deque

from iopea.learners.baselines.base_stock import ROUNDING, BaseStockLearner
from iopea.learners.baselines.hyperparameters import chosen
from iopea.model import check_count, check_positive
from iopea.problems.base import Problem
from iopea.state import Part, Stateful, each, parts
from iopea.types import Play, Policy, Trajectory


class SGDBaseStock(BaseStockLearner):
    """Learn a level by stochastic gradient descent.

    Parameters
    ----------
    problem : Problem. What is known; never the demand law.
    horizon : int, optional. Not used: the step sizes don't depend on it.
    seed : int. Not used: the learner is deterministic.
    step : float, optional. Length of the first step if every period sells out, as a share of the
        range of levels [s].
    cycle : int, optional. Periods for which a level is held, in multiples of L + 1.
    start : policy, optional. The first level [y_1]; by default, the middle of the range.

    Examples
    --------
    >>> from iopea.systems.newsvendor import Newsvendor
    >>> stand = Newsvendor(overage_cost=1, underage_cost=4, levels={"low": 0, "high": 10})
    >>> learner = SGDBaseStock(stand, step=0.1, cycle=2)
    >>> learner.ask()
    Play(policy=(5.0,), steps=2, epoch=1, until_start=False, copies=1)
    >>> learner.tell(Trajectory(5.0, sales=[5.0, 5.0]))
    >>> learner.ask().policy
    (6.0,)
    """

    name = "sgd-base-stock"
    takes_start = True
    saved = parts(
        point=float, cycles=int, recent=each(float), elapsed=int, left=int, sold=int, path=Part
    )

    def __init__(
        self,
        problem: Problem,
        *,
        horizon: int | None = None,
        seed: int = 0,
        step: float | None = None,
        cycle: int | None = None,
        start: Policy | float | None = None,
    ) -> None:
        super().__init__(problem, horizon, seed)
        values = chosen(self.name, problem.kind, step=step, cycle=cycle)
        self.step = check_positive("step", values["step"])
        self.cycle = check_count("cycle", values["cycle"])
        self._periods = self.cycle * (self.shop.lead_time + 1)
        self.start = self._start_of(start)
        middle = (self.levels.low + self.levels.high) / 2
        self._point = middle if self.start is None else self.start[0]  # y_i
        self._cycles = 0
        self._recent = [0.0, 0.0]  # sums of y between the last two powers of two, and after
        self._path = PathDerivative(self.shop.lead_time)
        self._elapsed = self._left = self._sold = 0  # periods of this cycle, and its derivatives

    def settings(self) -> dict[str, object]:
        """The learner's settings as JSON values."""
        return {**super().settings(), "step": self.step, "cycle": self.cycle}

    def recommend(self) -> Policy:
        """The mean of the latest points, as a level of the class."""
        if not self._cycles:
            return (self.levels.nearest(self._point),)
        before = max(2 ** (self._cycles.bit_length() - 1) // 2, 1) - 1
        return (self.levels.nearest(sum(self._recent) / (self._cycles - before)),)

    @property
    def derivative(self) -> float:
        """Derivative of the cost of this cycle so far, with respect to a shift of all levels."""
        shop = self.shop
        return shop.holding_cost * self._left - shop.lost_sales_cost * self._sold

    def _ask(self) -> Play:
        level = self.levels.above(self._point)
        return Play((level,), self._periods - self._elapsed, self._cycles + 1)

    def _tell(self, trajectory: Trajectory) -> None:
        level, sales = trajectory.policy[0], trajectory["sales"]
        out = (self._stock(trajectory) - sales <= ROUNDING * self.levels.high).tolist()
        if self.shop.perishes:
            left, sold = out.count(False), out.count(True)
        else:
            left, sold = self._path.follow(level, sales.tolist(), out)
        self._left += left
        self._sold += sold
        self._elapsed += len(trajectory)
        if self._elapsed == self._periods:
            self._descend()

    def _descend(self) -> None:
        """Add this cycle's point to the mean, and take a gradient step."""
        self._cycles += 1
        if self._cycles & (self._cycles - 1) == 0:  # a power of two
            self._recent = [self._recent[1], 0.0]
        self._recent[1] += self._point
        largest = max(self.shop.holding_cost, self.shop.lost_sales_cost)
        low, high = self.levels.low, self.levels.high
        scale = self.step * (high - low) / largest
        moved = self._point - scale * (self.derivative / self._periods) / math.sqrt(self._cycles)
        self._point = min(max(moved, low), high)
        self._elapsed = self._left = self._sold = 0


class PathDerivative(Stateful):
    """Sample-path derivatives of cumulative orders and sales, from an empty system.

    Examples
    --------
    >>> path = PathDerivative(lead_time=0)
    >>> path.follow(3.0, [1.0, 3.0], [False, True])  # a unit more is left over, then it is sold
    (1, 1)
    """

    saved = parts(ordered=lambda last: deque(map(int, last), len(last)), sold=int, position=float)

    def __init__(self, lead_time: int) -> None:
        # A' of the last L + 1 periods, and C' of the last one.
        self._ordered = deque([0] * (lead_time + 1), maxlen=lead_time + 1)
        self._sold = 0
        self._position = 0.0  # inventory position before the next order

    def follow(self, level: float, sales: list[float], out: list[bool]) -> tuple[int, int]:
        """Derivatives of total leftover stock and total sales over these periods."""
        ordered, sold, position = self._ordered, self._sold, self._position
        start, latest, left = sold, ordered[-1], 0
        for quantity, sold_out in zip(sales, out, strict=True):
            if position <= level:
                position, latest = level, 1 + sold
            ordered.append(latest)
            arrived = ordered[0]
            if sold_out:
                sold = arrived
            left += arrived - sold
            position -= quantity
        self._sold, self._position = sold, position
        return left, sold - start
