"""Order up to: the textbook rule that planners use.

The level is a quantile of demand over the lead time plus one period, as if demand were normal and
independent from period to period:

    θ = (L + 1) m + z s √(L + 1),    z = Φ⁻¹(p / (p + h)),

with m and s the mean and the standard deviation of all sales so far. It is reviewed at a fixed
interval. For perishable goods, L = 0.

Treats sales as demand, although they are censored by the stock, and does not correct for it: a
level that is too low hides the demand that would have raised it. So, without a start, the first
interval is played at the highest level, where demand is censored least. Nor is p / (p + h) the
right quantile where unmet demand is lost instead of backlogged.

Observes sales only. It has no hyperparameters to tune.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from iopea.learners.baselines.base_stock import BaseStockLearner
from iopea.model import check_count
from iopea.problems.base import Problem
from iopea.state import array, parts
from iopea.types import Play, Policy, Trajectory

#: Periods between reviews.
REVIEW = 30


class OrderUpTo(BaseStockLearner):
    """Set the level by mean and standard deviation of observed sales.

    Parameters
    ----------
    problem : Problem. What is known; never the demand law.
    horizon : int, optional. Not used.
    seed : int. Not used: the learner is deterministic.
    review : int. Periods between reviews of the level.
    start : policy, optional. The level of the first interval; by default, the highest.

    Examples
    --------
    >>> from iopea.systems.newsvendor import Newsvendor
    >>> stand = Newsvendor(overage_cost=1, underage_cost=4, levels={"low": 0, "high": 10})
    >>> learner = OrderUpTo(stand, review=4)
    >>> learner.tell(Trajectory(10.0, sales=[1.0, 3.0, 2.0, 2.0]))
    >>> round(learner.recommend()[0], 3)  # 2 + 0.842 * 0.816
    2.687
    """

    name = "order-up-to"
    takes_start = True
    saved = parts(level=float, sales=array, periods=int, mean=float, squares=float)

    def __init__(
        self,
        problem: Problem,
        *,
        horizon: int | None = None,
        seed: int = 0,
        review: int = REVIEW,
        start: Policy | float | None = None,
    ) -> None:
        super().__init__(problem, horizon, seed)
        self.review = check_count("review", review, least=2)
        self.start = self._start_of(start)
        self._level = self.levels.high if self.start is None else self.start[0]
        self._sales = np.empty(0)  # since the last review
        self._periods, self._mean, self._squares = 0, 0.0, 0.0  # up to the last review

    def settings(self) -> dict[str, object]:
        """The learner's settings as JSON values."""
        return {**super().settings(), "review": self.review}

    def recommend(self) -> Policy:
        """The level of the last review; before it, the start."""
        return (self._level,)

    def _ask(self) -> Play:
        return Play((self._level,), self.review - self._sales.size, self._reviews + 1)

    @property
    def _reviews(self) -> int:
        return self._periods // self.review

    def _tell(self, trajectory: Trajectory) -> None:
        self._sales = np.concatenate([self._sales, trajectory["sales"]])
        if self._sales.size == self.review:
            self._take_in()
            self._level = self.levels.nearest(self._planned())

    def _take_in(self) -> None:
        """Update mean and sum of squares by a full review interval."""
        mean = float(self._sales.mean())
        before, self._periods = self._periods, self._periods + self.review
        shift = mean - self._mean
        self._mean += shift * self.review / self._periods
        self._squares += float(((self._sales - mean) ** 2).sum())
        self._squares += shift**2 * before * self.review / self._periods
        self._sales = np.empty(0)

    def _planned(self) -> float:
        shop = self.shop
        ratio = shop.lost_sales_cost / (shop.lost_sales_cost + shop.holding_cost)
        if ratio in (0.0, 1.0):  # no quantile: nothing is worth stocking, or everything is
            return self.levels.high if ratio else self.levels.low
        periods = shop.lead_time + 1
        deviation = math.sqrt(self._squares / (self._periods - 1))
        safety = NormalDist().inv_cdf(ratio) * deviation * math.sqrt(periods)
        return periods * self._mean + safety
