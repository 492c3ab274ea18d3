"""Convex: shrink an interval of levels by three probes (Agrawal and Jia 2019).

The long-run average cost g(θ) of a base-stock level θ is convex (Janakiraman and Roundy 2004).
The working interval [l, r] is at first the range of levels. In each epoch three probes are
played, at one quarter, one half and three quarters of it. Round i of an epoch has γ_i = 2^-i; it
plays each probe until it has N_i = m / γ_i² periods in this epoch, where m is log T rounded up.
Then its mean has a confidence interval of ±W_i / 2. If the lower bound of an outer probe is at
least W_i above the upper bound of another probe, the best level does not lie beyond the outer
probe with the higher cost: that quarter is dropped, and a new epoch begins. Otherwise γ is halved.
The centre of the interval is recommended.

In the theorem W_i = H γ_i. Since H = 36 max{h, p} L U, nothing would be dropped within any
practical horizon. H bounds the fluctuation of the mean, which can be estimated instead: by
Bernstein's inequality the mean of N_i periods lies within W_i / 2 except with a probability of
about T^(-c²/8), with

    W_i = c σ γ_i + c² R γ_i² / 12,

where R is the range of the cost of one period and σ² the variance of a mean, times its periods.
It is estimated by batch means over m periods, pooled over the probes. The factor c is the
learner's ``confidence``.

Assumes that the cost is convex in the level. Observes stock and sales of the level that is played,
which give the pseudo-costs h (stock - sales) - p sales.

After a change of probe the system starts from the state that the last probe left. Periods are left
out until the inventory position has come down to the new level, and for L + 1 periods more: from
then on the on-hand stock stems from orders of this probe. Which periods are left out is known
before their demand is seen, so this causes no bias. Every second round plays the probes in reverse
order, which saves changes.

On a grid of levels, the outer probes are rounded outwards, and an outer probe is dropped together
with its quarter. Once a single level is left, the learner keeps playing it.
"""

from __future__ import annotations

import math

import numpy as np

from iopea.learners.base import epoch_records
from iopea.learners.baselines.base_stock import ROUNDING, BaseStockLearner
from iopea.learners.baselines.hyperparameters import chosen
from iopea.model import check_positive
from iopea.problems.base import Problem
from iopea.state import array, each, numbers, parts
from iopea.types import Array, EpochRecord, Play, Policy, Stop, Trajectory

#: Horizon whose logarithm is used when none is given.
USUAL_HORIZON = 10**6
#: Periods asked for at a time once a single level is left.
HOLD = 10_000
#: Factor of the range term in Bernstein's inequality: c²/12 times the range.
_OF_RANGE = 1 / 12


class Convex(BaseStockLearner):
    """Learn a level by three probes of a shrinking interval.

    Parameters
    ----------
    problem : Problem. What is known; never the demand law.
    horizon : int, optional. Steps of the whole run [T]; its logarithm scales the length of
        rounds. A million if not given.
    seed : int. Not used: the learner is deterministic.
    confidence : float, optional. Factor of the width of confidence intervals [c].

    Examples
    --------
    >>> from iopea.systems.lost_sales import LostSales
    >>> shop = LostSales(lead_time=0, holding_cost=1, lost_sales_cost=9,
    ...                  levels={"low": 0, "high": 8})
    >>> learner = Convex(shop, horizon=1000)
    >>> learner.ask(), learner.interval, learner.recommend()
    (Play(policy=(2.0,), steps=29, epoch=1, until_start=False, copies=1), (0.0, 8.0), (4.0,))
    """

    name = "convex"
    needs = "one-dimensional levels with convex costs"
    saved = parts(
        ends=numbers, records=epoch_records, position=float, round=int, turn=int, needed=int,
        settling=int, pending=array, batches=each(int), means=each(float), squares=each(float),
    )  # fmt: skip

    def __init__(
        self,
        problem: Problem,
        *,
        horizon: int | None = None,
        seed: int = 0,
        confidence: float | None = None,
    ) -> None:
        super().__init__(problem, horizon, seed)
        values = chosen(self.name, problem.kind, confidence=confidence)
        self.confidence = check_positive("confidence", values["confidence"])
        lead_time = self.shop.lead_time
        self._transient = 0 if self.shop.perishes else lead_time + 1
        # A batch must be longer than the effect of one period's demand.
        log = math.log(self.horizon or USUAL_HORIZON)
        self.batch = max(math.ceil(log), 2 * (lead_time + 1))
        self._range = problem.constants.cost_range
        self._ends = (self.levels.low, self.levels.high)
        self._records: list[EpochRecord] = []
        self._position = 0.0  # inventory position before the next order
        self._open_epoch()

    def settings(self) -> dict[str, object]:
        """The learner's settings as JSON values."""
        return {**super().settings(), "confidence": self.confidence}

    @property
    def interval(self) -> tuple[float, float]:
        """The working interval [l, r], both ends included."""
        return self._ends

    @property
    def epoch(self) -> int:
        """The epoch in progress."""
        return len(self._records) + 1

    @property
    def probes(self) -> tuple[float, ...]:
        """The levels compared in this epoch; a single one if all others have been dropped."""
        low, high = self._ends
        quarter = (high - low) / 4
        return tuple(
            sorted(
                {
                    self.levels.below(low + quarter),
                    self.levels.nearest(low + 2 * quarter),
                    self.levels.above(low + 3 * quarter),
                }
            )
        )

    @property
    def records(self) -> tuple[EpochRecord, ...]:
        """The working interval after each finished epoch."""
        return tuple(self._records)

    @property
    def survivors(self) -> int | None:
        """Number of levels in the interval; None unless the levels are a grid."""
        if self._decided:
            return 1
        return self.levels.count(*self._ends) if self.levels.in_steps else None

    @property
    def stop(self) -> Stop:
        """How the run would end now, with advice."""
        if self._decided:
            return Stop.SINGLE
        return Stop.UNDECIDED if self._records else Stop.NOTHING_ELIMINATED

    def recommend(self) -> Policy:
        """The centre of the interval."""
        return (self.levels.nearest(sum(self._ends) / 2),)

    @property
    def _decided(self) -> bool:
        return len(self.probes) == 1

    @property
    def _turns(self) -> list[int]:
        """Indices of the probes in the order in which this round plays them."""
        turns = list(range(len(self.probes)))
        return turns if self._round % 2 else turns[::-1]

    @property
    def _level(self) -> float:
        return self.probes[0 if self._decided else self._turns[self._turn]]

    def _open_epoch(self) -> None:
        probes = len(self.probes)
        self._batches = [0] * probes
        self._means = [0.0] * probes
        self._squares = [0.0] * probes  # sums of squared deviations of the batch means
        self._round = 0
        self._open_round()
        self._open_probe()

    def _open_round(self) -> None:
        self._round += 1
        self._turn = 0

    def _open_probe(self) -> None:
        """Set the periods this probe needs, and those left out while the system settles."""
        before = 4 ** (self._round - 1) if self._round > 1 else 0
        self._needed = self.batch * (4**self._round - before)
        self._settling = self._transient
        self._pending = np.empty(0)  # costs of the batch in progress

    def _ask(self) -> Play:
        steps = HOLD if self._decided else self._settling + self._needed
        return Play((self._level,), steps, self.epoch)

    def _tell(self, trajectory: Trajectory) -> None:
        first = self._settle(trajectory)
        if self._decided:
            return
        costs = self._pseudo_costs(trajectory)[first:]
        self._add(np.concatenate([self._pending, costs]))
        self._needed -= costs.size
        if self._needed:
            return
        level = self._level
        self._turn += 1
        if self._turn == len(self.probes):
            self._judge(len(trajectory))
        self._open_probe()
        if self._level == level:
            self._settling = 0  # the system has settled at this level already

    def _settle(self, trajectory: Trajectory) -> int:
        """Update the inventory position; return how many of the first periods are left out."""
        if self.shop.perishes:
            return 0
        level, stock, sales = trajectory.policy[0], trajectory["stock"], trajectory["sales"]
        room = ROUNDING * self.levels.high
        first = 0
        while first < sales.size and self._position > level + room:  # nothing is ordered
            self._position = max(self._position, float(stock[first])) - float(sales[first])
            first += 1
        if first == sales.size:
            return first
        self._position = level - float(sales[-1])
        settling = min(self._settling, sales.size - first)
        self._settling -= settling
        return first + settling

    def _add(self, costs: Array) -> None:
        """Add all full batches; the result does not depend on how the costs were split."""
        full = costs.size // self.batch * self.batch
        self._pending = costs[full:].copy()
        probe = self._turns[self._turn]
        sums = np.cumsum(costs[:full].reshape(-1, self.batch), axis=1)[:, -1]
        for mean in (sums / self.batch).tolist():
            self._batches[probe] += 1
            before = mean - self._means[probe]
            self._means[probe] += before / self._batches[probe]
            self._squares[probe] += before * (mean - self._means[probe])

    @property
    def width(self) -> float:
        """The width of confidence intervals at the end of the round in progress [W_i]."""
        freedom = sum(max(number - 1, 0) for number in self._batches)
        variance = self.batch * sum(self._squares) / freedom if freedom else 0.0
        gap, factor = 2.0**-self._round, self.confidence
        return factor * math.sqrt(variance) * gap + _OF_RANGE * self._range * (factor * gap) ** 2

    def _judge(self, told: int) -> None:
        """Drop an outer quarter, or open the next round."""
        width, means = self.width, self._means
        outer = 0 if means[0] >= means[-1] else -1
        # LB(outer) >= UB(another) + W, all intervals being ±W/2.
        if means[outer] - min(means) < 2 * width:
            self._open_round()
            return
        low, high = self._ends
        if outer == 0:
            low = self.levels.after(self.probes[0])
        else:
            high = self.levels.before(self.probes[-1])
        self._ends = (low, high)
        self._records.append(
            EpochRecord(
                epoch=self.epoch,
                steps=self.steps + told,
                survivors=self.survivors,
                lowest=(low,),
                highest=(high,),
                best=self.recommend(),
                threshold=width,
            )
        )
        self._open_epoch()
