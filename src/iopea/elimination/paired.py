"""The default rule: studentised differences on common paths.

All policies are evaluated on the same observed path, so the difference of two of them has a small
variance. Differences to the best policy are studentised by batch means, all epochs pooled, and
compared with a critical value that holds for all policies at once and over the whole run. Batches
are joined until they are independent, and nothing is dropped before the data spans 20 memories of
the system.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, partial
from itertools import count

import numpy as np

from iopea.elimination.critical import (
    Look,
    batch_shares,
    critical_value,
    fresh_share,
    largest_share,
    scheffe,
    shapes,
    single_probability,
    studentise,
    with_freedom,
)
from iopea.elimination.rule import Elimination, Rule
from iopea.information_order import InformationOrder
from iopea.types import Array, Estimates

#: Memories of the system that data must span before a policy is dropped.
MEMORIES = 20
#: Share of a batch in the data of a policy from which on it has few, if others have many.
FEW = 1 / 8


class Paired(Rule):
    """Studentised differences on common paths; no horizon needed.

    The k-th test has level δ_k; over all tests these add up to δ. With a horizon they are the
    same for all tests within it, and a twentieth of δ is kept for what may come after; without
    one δ_k = 15δ/((k+14)(k+15)). Within a test the critical value c solves

        f_k(c) {P(t_ν > c) + Σ_edges min{P(t_ν > c), a/(2π) (1 + c²/ν)^(-(ν-1)/2)}} = δ_k

    where a is the angle between the batch differences of neighbouring policies
    and ν + 1 the number of batches: the improved Bonferroni inequality of
    Hunter and Worsley along the net, each overlap bounded as in Naiman's tube
    inequality, for differences that are each divided by an error of their own.
    It holds for Gaussian batch sums. Neighbouring policies are almost the same
    random variable, so c is near the critical value of two comparisons, whatever
    the size of the net. A net of two parameters is also measured as a surface, by its
    area and the length of its edge (:mod:`iopea.elimination.geometry`), which gives an expectation
    where the inequality gives a bound. Where all differences follow from r unknown numbers,
    as the rates of a queue, Scheffé's value r ν/(ν+1-r) F_{r,ν+1-r} for c² holds as well,
    for policies that were never listed too. The least of these values is taken.

    f_k(c) is the share of these probabilities that is new: given that a difference exceeds c now,
    the probability that it did not exceed the critical value of the epoch before, on the part of
    the data that there was then, for Gaussian sums.

    Policies that the best one by estimate informs without being informed by them are not played
    as long as it is there: that they survive costs nothing. They are tested apart, at 1/20 of the
    level, so that the others, who cost, may be tested at nearly all of it.

    A policy is dropped when it is worse than the best by c' (1 + λ (2c'² + 1)/(6c'))
    standard errors, and by M |θ - θ'| log(4/(3δ))/N. Here c' is as rarely exceeded as c with the
    degrees of freedom that the policy's own batches give its standard error, fewer if a few of
    them contribute nearly all. λ >= 0 is the share of the skewness that makes a few missing events
    look like certainty (Hall's correction for studentised means, on that side only, less the
    standard error of a skewness). And M |θ - θ'| is what two policies may differ by in one
    step (L_Θ where one is proved), at most the range of costs or what the problem says: an
    event of probability log(4/(3δ))/N may have stayed unseen for N steps, and then neither a
    standard error nor a skewness shows it. What is unseen after an epoch was unseen after those
    before, so that this alone fails with a probability of at most 3δ/4 over the whole run. A
    policy must be worse by both, so they are not charged against each other. Where orders come in
    multiples, |θ - θ'| is larger by one multiple. Of steps that told
    little of a policy only as many count as steps of its own would have told as much.

    All of this needs batches that are independent of each other. For each policy, neighbouring
    batches are joined to pairs, fours, eights, as long as 8 are left, until joining them further
    raises the variance of its difference by no more than 2.5 standard errors of a variance. The
    relative rise up to there estimates the memory of the difference, in batches: for batches that
    keep a share ρ of the one before, 2ρ/(1-ρ).

    Dependence that is longer than the data does not show in it. So nothing is dropped before the
    data spans 20 memories of the system, by the longest of these:

    - what is known beforehand: a lead time, or the user's own number (``memory=`` of
      :class:`~iopea.learners.iopea.IOPEA`). Epochs whose data is shorter are silent: they end
      without a test, and no part of δ is spent on them. If one policy informs all others and
      ``first_epoch`` is not given, the first test is preceded by three silent epochs, which end at
      1/8, 1/4 and 1/2 of its data, so that a better policy is played soon;
    - what the difference of a policy to the best one shows, as above;
    - where the states of a chain are seen, as in tabular problems: that of its slowest part under
      each policy, 2/(p+q) - 1 for two states that are left with probabilities p and q. As long as a
      policy has not come back to a state that it had left, nor been brought back, its memory is
      infinite: it may be anywhere but where it stays in the long run. Policies whose
      steps span fewer than 20 such memories are unknown: neither dropped nor compared with. A
      memory that the user has declared stands in for infinite ones.
    """

    name = "paired"
    pooled = True
    #: Useful steps up to the first test, and the factor by which later epochs multiply the data.
    FIRST = 48
    GROWTH = 1.25
    #: Epochs before the first test, each of which doubles the data.
    TRIALS = 3
    #: The larger, the more evenly δ is spread over epochs without an end.
    SPREAD = 15
    #: Share of δ that is kept for what comes after the horizon.
    BEYOND = 0.05
    #: Share of each level for policies strictly below the best one: they are not played anyway.
    UNPLAYED = 0.05

    def epoch_length(self, epoch: int) -> int:
        """As many steps as the first test needs, in parts; then a quarter of what there was."""
        return max(1, self._data(epoch) - (self._data(epoch - 1) if epoch > 1 else 0))

    def _data(self, epoch: int) -> int:
        """Useful steps up to the end of an epoch."""
        if self.setting.first is not None:
            return int(self.setting.first * self.GROWTH ** (epoch - 1))
        tested = epoch - self.silent
        growth = self.GROWTH ** (tested - 1) if tested > 0 else 2.0 ** (tested - 1)
        return int(max(self.FIRST, self.needed) * growth)

    @property
    def needed(self) -> int:
        """Useful steps that span enough memories of the system, as far as these are known."""
        return math.ceil(MEMORIES * self.setting.memory)

    @cached_property
    def silent(self) -> int:
        """Epochs at the end of which nothing is tested.

        Their data can't span enough memories. After each of them, what is played is chosen anew
        among policies that inform each other.
        """
        if self.setting.first is None:
            return self.TRIALS if self.setting.width == 1 else 0
        return next(epoch for epoch in count() if self._data(epoch + 1) >= self.needed)

    @cached_property
    def _epochs(self) -> int:
        """Epochs within the horizon that end with a test; 0 if there is no horizon."""
        steps = (self.setting.horizon or 0) / self.setting.width
        if not steps:
            return 0
        return max(next(k for k in count() if self._data(k) >= steps) - self.silent, 1)

    def level(self, epoch: int) -> float:
        """δ_k: the same for all epochs within a horizon, and mδ'/((k+m-1)(k+m)), m = 15, after.

        Without a horizon δ' = δ, which is what these sum to.
        """
        delta, epochs = self.setting.delta, self._epochs
        number = epoch - self.silent  # of this test
        if number < 1:
            return 0.0
        if number <= epochs:
            return (1 - self.BEYOND) * delta / epochs
        rest = number - epochs + self.SPREAD
        return (self.BEYOND if epochs else 1.0) * delta * self.SPREAD / ((rest - 1) * rest)

    def eliminate(
        self,
        estimates: Estimates,
        policies: Array,
        epoch: int,
        order: InformationOrder | None = None,
        look: Look | None = None,
    ) -> Elimination:
        """Drop what is worse than the best estimate by more than noise explains.

        Before the data spans enough memories nothing is dropped. What the first test would say of
        it is provisional.
        """
        everything = np.ones(estimates.sums.shape[1], dtype=np.bool_)
        if epoch <= self.silent:
            early = self._test(estimates, policies, self.level(self.silent + 1), order, look)
            return Elimination(everything, math.inf, provisional=early.keep)
        return self._test(estimates, policies, self.level(epoch), order, look)

    def _test(
        self,
        estimates: Estimates,
        policies: Array,
        level: float,
        order: InformationOrder | None,
        look: Look | None,
    ) -> Elimination:
        estimates = self._judged(estimates)
        mean = estimates.mean
        known = np.isfinite(mean)
        if len(estimates.sizes) < 2 or not known.any():
            return Elimination(np.ones(mean.size, dtype=np.bool_), math.inf)
        best = estimates.best
        freedom = 1 / largest_share(estimates) - 1
        played, unplayed = self._critical_values(estimates, policies, level, order, look, freedom)
        spread = studentise(estimates, best)
        critical = with_freedom(played, freedom, spread.freedom)
        if order is not None:
            below = order.below(best)
            critical[below] = with_freedom(unplayed, freedom, spread.freedom[below])
        distance = np.abs(policies - policies[best]).max(axis=1)
        effective = (
            estimates.steps if estimates.effective_steps is None else estimates.effective_steps
        )
        most = self.setting.cost_range if self.setting.unseen is None else self.setting.unseen
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = distance + estimates.jump
            effect = np.fmin(self.setting.sensitivity * apart, most)
            missed = effect * math.log(4 / (3 * self.setting.delta))
            unseen = missed / effective
            margin = (critical + spread.lean * (2 * critical**2 + 1) / 6) * spread.error
            worse = mean - mean[best] > np.maximum(margin, unseen)
            starved = mean - mean[best] > np.maximum(margin, missed / estimates.steps)
            remembered = spread.memory * estimates.steps * largest_share(estimates)
        worse &= estimates.steps >= MEMORIES * remembered
        worse[best] = starved[best] = False
        probabilities = single_probability(freedom, played), single_probability(freedom, unplayed)
        hungry = bool((starved & known & ~worse).any())
        return Elimination(~(worse & known), played, Look(estimates.steps, probabilities), hungry)

    def _judged(self, estimates: Estimates) -> Estimates:
        """Nothing is known of policies whose steps don't span enough memories of the system.

        Nor of those that have few batches while others have many: with as few degrees of freedom,
        no other could be told apart.
        """
        unknown = np.zeros(estimates.sums.shape[1], dtype=np.bool_)
        if estimates.memory is not None:
            memory = estimates.memory
            if self.setting.declared:
                memory = np.where(np.isinf(memory), self.setting.memory, memory)
            unknown |= estimates.steps < MEMORIES * memory
        shares = batch_shares(estimates)
        if shares.size > 1 and (shares > 0).any():
            unknown |= shares > max(FEW, 2 * float(np.median(shares[shares > 0])))
        if not unknown.any():
            return estimates
        sums, sizes = estimates.sums * ~unknown, estimates.sizes_by_policy * ~unknown
        return replace(estimates, sums=sums, sizes=sizes)

    def _critical_values(
        self,
        estimates: Estimates,
        policies: Array,
        level: float,
        order: InformationOrder | None,
        look: Look | None,
        freedom: float,
    ) -> tuple[float, float]:
        """For policies that the best one is not strictly above, and for all others."""
        # What must survive is the truly best policy, whose own differences may turn more than
        # those of the estimated one: both ends of the net are tried as well.
        mean = estimates.mean
        every = np.ones(mean.size, dtype=np.bool_)
        split = order is not None and not order.symmetric
        played, unplayed = [], []
        for i in {estimates.best, 0, mean.size - 1}:
            above = order.above(i) if order is not None and split else ~every
            if self.setting.listed and np.isfinite(mean[i]):
                one, other = shapes(estimates, i, (~above, above), policies)
                played.append(one)
                unplayed.append(other)
        share = self.UNPLAYED if split else 0.0
        shared = _shared(estimates.steps, look)
        found: list[float] = []
        for family, part in ((played, 1 - share), (unplayed, share)):
            known = [shape for shape in family if shape is not None]
            before = 0.0 if look is None else look.probabilities[len(found)]
            fresh = partial(fresh_share, before=before, shared=shared)
            value = critical_value(known, freedom, part * level, fresh) if known else math.inf
            if estimates.rank is not None:
                value = min(value, scheffe(estimates.rank, freedom, part * level))
            found.append(value)
        return found[0], found[1]


def _shared(steps: Array, look: Look | None) -> float:
    """The share of the data of every policy that an earlier test had."""
    if look is None:
        return 0.0
    known = steps > 0
    return float((look.steps[known] / steps[known]).min(initial=1.0))
