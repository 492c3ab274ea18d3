"""BASA: tailored base-surge policies, learned from censored sales (Chen, Wang and Chen 2024).

A policy (Q, S) orders Q from the regular source in every period, and up to S from the expedited
one. The learner searches Q as Agrawal and Jia (2019) do, and for each Q that it tries it improves
S by projected stochastic gradients. It assumes that the average cost C(Q, S) is convex in S, and
that min_S C(Q, S) is convex in Q.

**Range of Q.** Regular orders arrive whatever the stock, so Q above the mean demand is unstable.
The mean is unknown. So the learner first orders nothing regularly and keeps a stock of twice the
largest sale so far, which hardly ever sells out. Total sales over the number of periods not sold
out estimate the mean demand m (the estimator for exponential demand under censoring). The right
end of the first interval is two standard errors above m, or the problem's largest Q if smaller.

**Search over Q.** An epoch has a working interval [l, r] and probes at its quarters. In round i
each probe is sampled for b 4^i periods, and its confidence interval is its mean ± w_i / 2, with
w_i = c s γ_i and γ_i = 2^-i. Here s is the sample standard deviation of the mean of b periods,
so that s γ_i is the standard error of a probe; c (``confidence``) is tuned. If

    max(LB(left), LB(right)) > min(UB(left), UB(right), UB(centre)) + w_i,

the outer quarter on the worse side is dropped and a new epoch begins, else γ is halved. As the
cost is convex, the dropped quarter does not contain the best Q; each epoch leaves 3/4 of the
interval. A new epoch continues with the round of the last one: on a smaller interval costs differ
less, so earlier rounds would decide little and err more often.

**Search over S.** Each probe has its own S, since the best S falls with Q; new probes interpolate.
On each visit the probe is first played until its orders have filled the pipeline. Then S is held
for b periods (``batch``) at a time and moved against their average gradient by a step of
a m / (h + p) / sqrt(number of the step), where a (``step``) is tuned. Finally the cost is sampled
with S fixed at the average of its values so far, later ones weighted more. The gradient is h if
stock is left over and -(p - c_e) otherwise: since Q is fixed, every additional sale is reordered
from the expedited source, and c_r plays no part. With L_e = 0 this is exact: a higher S raises the
stock of every period by the same amount. With L_e > 0, part of a higher S may have been sold while
in the pipeline; the gradient is multiplied by the part still in stock, which follows from the
records (see :func:`iopea.systems.dual_sourcing.surge_kernel.slope`).

**Observations.** Stock, sales and its own orders, never lost demand. Costs are known up to p D_t,
which is the same for all policies but adds noise. With L_e = 0 the stock is never below S, so
min(D_t, d) is observed for any d up to the lowest S of the three probes, and p min(D_t, d) is
added to the cost of each: this keeps the differences of the means and reduces their variance.

It recommends the middle of the interval and the average S of that probe. It is deterministic and
does not use the horizon.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from iopea.errors import InputError
from iopea.learners.base import Learner
from iopea.learners.baselines.hyperparameters import chosen
from iopea.model import check_count, check_positive
from iopea.problems.base import PolicyController, Problem
from iopea.state import array, parts, record
from iopea.systems.dual_sourcing.base_surge import BaseSurge
from iopea.systems.dual_sourcing.surge_kernel import slope, tally
from iopea.types import Array, Play, Trajectory

#: Estimating demand; then, for each probe: filling the pipeline, improving S, sampling the cost.
Phase = Literal["look", "fill", "improve", "sample"]

#: Index of the middle probe.
_CENTRE = 1
#: Least number of periods from which the mean demand is estimated.
LOOK = 128
#: Standard errors above the estimated mean demand at which the range of Q ends.
_MARGIN = 2.0
#: Level while demand is estimated, in multiples of L_e + 1 times the largest sale.
_AMPLE = 2.0
#: Initial S, in multiples of the mean demand over L_e + 1 periods: S rises faster than it falls.
_FIRST_LEVEL = 2.0
#: Share of the lowest S of a round that is kept in stock in every sampled period.
_SURE = 0.9
#: Larger values give early iterates less weight in the average S (Shamir and Zhang 2013).
_RECENT = 3.0


class Search(NamedTuple):
    """The working interval of a convex search by three probes [l, r], and the round [i].

    Examples
    --------
    >>> search = Search(0.0, 8.0)
    >>> search.probes
    (2.0, 4.0, 6.0)
    >>> search.after((1.0, 1.0, 2.1), scale=1.0)
    Search(low=0.0, high=6.0, round=1)
    >>> search.after((1.0, 1.0, 1.9), scale=1.0)
    Search(low=0.0, high=8.0, round=2)
    """

    low: float
    high: float
    round: int = 1

    @property
    def probes(self) -> tuple[float, float, float]:
        """Left, centre and right."""
        quarter = (self.high - self.low) / 4
        return self.low + quarter, self.low + 2 * quarter, self.low + 3 * quarter

    def after(self, means: tuple[float, float, float], scale: float) -> Search:
        """The next interval and round, given the means of the probes and w_i = ``scale`` γ_i."""
        width = math.ldexp(scale, -self.round)
        left, _, right = means
        if max(left, right) - width / 2 <= min(means) + width / 2 + width:
            return Search(self.low, self.high, self.round + 1)
        if left >= right:
            return Search(self.probes[0], self.high, self.round)
        return Search(self.low, self.probes[2], self.round)


class _Looked(NamedTuple):
    """Statistics of the first phase, in which the mean demand is estimated."""

    periods: int = 0
    unsold: int = 0
    sales: float = 0.0
    squares: float = 0.0
    largest: float = 0.0

    def after(self, stock: Array, sales: Array) -> _Looked:
        """The statistics with further periods added."""
        return _Looked(
            periods=self.periods + sales.size,
            unsold=self.unsold + int((sales < stock).sum()),
            sales=_added(self.sales, sales),
            squares=_added(self.squares, sales**2),
            largest=max(self.largest, float(sales.max())),
        )

    @property
    def enough(self) -> bool:
        """Whether the mean demand can be estimated."""
        return self.periods >= LOOK and self.unsold > 0 and self.sales > 0

    @property
    def mean_demand(self) -> float:
        """Total sales over the number of periods not sold out [m]."""
        return self.sales / self.unsold

    @property
    def most_demand(self) -> float:
        """Two standard errors above the mean."""
        mean = self.sales / self.periods
        variance = max(self.squares / self.periods - mean**2, 0.0)
        return self.mean_demand + _MARGIN * math.sqrt(variance / self.periods)


class BASA(Learner):
    """Learn a tailored base-surge policy.

    Parameters
    ----------
    problem : Problem. What is known; never the demand law.
    horizon : int, optional. Not used.
    seed : int. Not used: nothing is drawn.
    confidence : float, optional. Width of the confidence interval of a probe, in standard errors
        [c].
    step : float, optional. Step size of the gradient steps of S [a].
    batch : int, optional. Periods for which S is held between two steps; in the first round a probe
        is sampled for four times as long [b].

    Hyperparameters not given are those of ``tuning/basa.toml``.

    Examples
    --------
    >>> from iopea import DualSourcing
    >>> learner = BASA(DualSourcing.example()[0])
    >>> print(learner.ask().policy)
    base-surge policy 0, 6
    """

    name = "basa"
    needs = "two sources of supply"
    saved = parts(
        sums=array, held=array, levels=array, averages=array, moves=array, means=array,
        variances=array, epoch=int, probe=int, remaining=int, batches=int, sure=float, slope=float,
        phase=str,
        looked=record(_Looked, periods=int, unsold=int, sales=float, squares=float, largest=float),
        search=record(Search, low=float, high=float, round=int),
    )  # fmt: skip

    def __init__(
        self,
        problem: Problem,
        *,
        horizon: int | None = None,
        seed: int = 0,
        confidence: float | None = None,
        step: float | None = None,
        batch: int | None = None,
    ) -> None:
        super().__init__(problem, horizon, seed)
        values = chosen(self.name, problem.kind, confidence=confidence, step=step, batch=batch)
        self.confidence = check_positive("confidence", values["confidence"])
        self.step = check_positive("step", values["step"])
        self.batch = check_count("batch", values["batch"])
        self._surge, self._shop, self._control = _known(problem), problem.system, problem.control
        family = self._surge.family
        self._orders = (family.orders.low, family.orders.high)
        self._levels_range = (family.levels.low, family.levels.high)
        self._search = Search(*self._orders)
        self._looked = _Looked()
        self._epoch = 1
        self._probe = _CENTRE
        self._phase: Phase = "look"
        self._remaining = self.batch
        self._batches = 0
        self._sure = 0.0
        self._slope = 0.0
        self._sums = np.zeros(4)
        self._held = np.zeros(1 + self._shop.lead_times[1])
        # For each probe: S and its average, steps of S, mean cost and variance of a batch mean.
        self._levels = np.full(3, self._levels_range[1])
        self._averages = self._levels.copy()
        self._moves, self._means, self._variances = np.zeros(3), np.zeros(3), np.zeros(3)

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        """Problems with a regular and an expedited source."""
        return BaseSurge.within(problem) is not None

    def settings(self) -> dict[str, object]:
        """The learner's settings as JSON values."""
        own = {"confidence": self.confidence, "step": self.step, "batch": self.batch}
        return {**super().settings(), **own}

    @property
    def interval(self) -> tuple[float, float]:
        """The working interval of Q [l, r]."""
        return self._search.low, self._search.high

    @property
    def outlook(self) -> str:
        """The working interval of Q, in words."""
        low, high = self.interval
        return (
            f"The best constant order is estimated to lie between {low:.4g} and {high:.4g}: "
            "more steps would narrow the range."
        )

    def recommend(self) -> PolicyController:
        """The middle of the interval, and the average S of that probe."""
        return self._policy(self._search.probes[_CENTRE], float(self._averages[_CENTRE]))

    def _policy(self, order: float, level: float) -> PolicyController:
        """The policy (Q, S)."""
        return PolicyController(self._surge, (order, level))

    def _ask(self) -> Play:
        order, level = self._search.probes[self._probe], float(self._levels[self._probe])
        if self._phase == "look":
            order = 0.0
        elif self._phase != "improve":
            level = max(float(self._averages[self._probe]), self._sure)
        return Play(self._policy(order, level), self._remaining, self._epoch)

    def _tell(self, trajectory: Trajectory) -> None:
        shop = self._shop
        stock, sales = trajectory["stock"], trajectory["sales"]
        self._slope = slope(
            stock, sales, trajectory["expedited_order"], self._held, shop.holding_cost,
            shop.lost_sales_cost - shop.expedited_cost, self._slope,
        )  # fmt: skip
        if self._phase == "look":
            self._looked = self._looked.after(stock, sales)
        elif self._phase == "sample":
            seen = shop.lost_sales_cost * np.minimum(sales, self._sure)
            tally(self._control.costs(trajectory.columns) + seen, self.batch, self._sums)
        self._remaining -= len(trajectory)
        if self._remaining == 0:
            self._finish_play()

    def _finish_play(self) -> None:
        """Update after a finished play and open the next one."""
        match self._phase:
            case "look":
                if self._looked.enough:
                    self._begin()
                else:
                    self._look_on()
            case "fill":
                self._batches = 4**self._search.round // 2
                self._open("improve", self.batch)
            case "improve":
                self._move()
                self._batches -= 1
                if self._batches:
                    self._open("improve", self.batch)
                else:
                    self._open("sample", self.batch * 4**self._search.round)
            case "sample":
                self._judge()
                if self._probe == len(self._means) - 1:
                    self._close_round()
                else:
                    self._visit(self._probe + 1)

    def _open(self, phase: Phase, steps: int) -> None:
        self._phase, self._remaining, self._slope = phase, steps, 0.0
        self._sums = np.zeros(4)

    def _look_on(self) -> None:
        """Set a level that hardly ever sells out: the highest one until something is sold."""
        if self._looked.largest:
            level = _AMPLE * (1 + self._shop.lead_times[1]) * self._looked.largest
            self._levels[:] = np.clip(level, *self._levels_range)
        self._open("look", self.batch)

    def _begin(self) -> None:
        """Set the first interval of Q and the initial S."""
        least, most = self._orders
        self._search = Search(least, max(min(most, self._looked.most_demand), least))
        level = _FIRST_LEVEL * (1 + self._shop.lead_times[1]) * self._looked.mean_demand
        self._levels = np.full(3, np.clip(level, *self._levels_range))
        self._averages = self._levels.copy()
        self._open_round()

    def _open_round(self) -> None:
        """Set the demand that all probes observe uncensored, if L_e = 0; visit the first probe."""
        if self._shop.lead_times[1] == 0:
            self._sure = _SURE * float(self._averages.min())
        self._visit(0)

    def _visit(self, probe: int) -> None:
        self._probe = probe
        self._open("fill", self._shop.lead_times[0])

    def _move(self) -> None:
        """Take a gradient step of S and update its weighted average."""
        shop, probe = self._shop, self._probe
        self._moves[probe] += 1
        number = float(self._moves[probe])
        unit = self._looked.mean_demand / (shop.holding_cost + shop.lost_sales_cost)
        length = self.step * unit / math.sqrt(number)
        level = self._levels[probe] - length * self._slope / self.batch
        self._levels[probe] = np.clip(level, *self._levels_range)
        weight = (_RECENT + 1) / (_RECENT + number)
        self._averages[probe] += weight * (self._levels[probe] - self._averages[probe])

    def _judge(self) -> None:
        """Set the mean cost of a probe and the variance of a batch mean."""
        total, squares, _, _ = self._sums / self.batch
        squares /= self.batch
        batches = 4**self._search.round
        self._means[self._probe] = total / batches
        spread = max(squares - total**2 / batches, 0.0)
        self._variances[self._probe] = spread / (batches - 1)

    def _close_round(self) -> None:
        """Drop an outer quarter of the interval if it is worse, and open the next round."""
        before, scale = self._search, self.confidence * math.sqrt(self._variances.mean())
        left, centre, right = map(float, self._means)
        self._search = before.after((left, centre, right), scale)
        if self._search.round == before.round:
            self._epoch += 1
            self._levels = np.interp(self._search.probes, before.probes, self._levels)
            self._averages = np.interp(self._search.probes, before.probes, self._averages)
        self._open_round()


def _added(total: float, values: Array) -> float:
    """A total plus values, added one by one, so that the result does not depend on the split."""
    return float(np.add.accumulate(np.concatenate([[total], values]))[-1])


def _known(problem: Problem) -> Problem:
    """The system with its base-surge policies."""
    family = BaseSurge.within(problem)
    if family is None:  # refused above: for the types
        raise InputError(f"{BASA.name} needs {BASA.needs}.")
    return Problem(problem.system, family)
