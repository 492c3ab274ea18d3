"""The default rule: studentised differences on common paths.

All policies are evaluated on the same observed path, so the difference of two of them has a small
variance. Differences to the best policy are studentised by batch means, all epochs pooled, and
compared with a critical value that holds for all policies at once and over the whole run. Batches
are joined until they are independent, and no policy is eliminated before the data spans 20 times
the memory of the system, its autocorrelation time.
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
from iopea.elimination.rule import Elimination, Rule, Setting
from iopea.errors import InputError
from iopea.information_order import InformationOrder
from iopea.model import check_number
from iopea.types import Array, Estimates

#: Multiple of the memory of the system that the data must span before a policy is eliminated.
MEMORIES = 20
#: Σ(n_b/N)² above which a policy has too few batches, if other policies have many.
FEW = 1 / 8


class Paired(Rule):
    """Studentised differences on common paths; no horizon needed.

    The k-th test has level δ_k; over all tests these add up to δ. With a horizon all tests within
    it have the same level, and a twentieth of δ is reserved for tests after it; without one
    δ_k = 15δ/((k+14)(k+15)). Within a test the critical value c solves

        f_k(c) {P(t_ν > c) + Σ_edges min{P(t_ν > c), a/(2π) (1 + c²/ν)^(-(ν-1)/2)}} = δ_k

    where a is the angle between the batch differences of neighbouring policies
    and ν + 1 the number of batches: the improved Bonferroni inequality of
    Hunter and Worsley along the net, each overlap bounded as in Naiman's tube
    inequality, for differences that are each divided by their own standard error.
    It holds for Gaussian batch sums. Neighbouring policies are almost the same
    random variable, so c is close to the critical value of two comparisons, whatever
    the size of the net. A net of two parameters is also treated as a surface, with its
    area and the length of its edge (:mod:`iopea.elimination.geometry`), which gives an expectation
    where the inequality gives a bound. Where all differences are functions of r unknown parameters,
    as the rates of a queue, Scheffé's value r ν/(ν+1-r) F_{r,ν+1-r} for c² is valid as well, also
    for policies that were never listed. The least of these values is used.

    f_k(c) is the share of these probabilities that is new: given that a difference exceeds c now,
    the probability that it did not exceed the critical value of the previous epoch, on the data of
    that time, for Gaussian sums.

    Policies that are strictly below the estimated best one in the information order are not played
    while it survives: they cost nothing. They are tested separately, at 1/20 of the level, so that
    the others, which may have to be played, are tested at nearly the full level.

    A policy is eliminated when it is worse than the best by c' (1 + λ (2c'² + 1)/(6c'))
    standard errors, and by M |θ - θ'| log(4/(3δ))/N. Here c' has the tail probability of c under
    the degrees of freedom of the policy's own standard error, which are fewer if a few batches
    contribute nearly all of it. λ >= 0 corrects for skewness in the direction in which rare events
    that have not occurred yet make an error look small (Hall's correction for studentised means,
    on that side only, minus the standard error of a skewness). M |θ - θ'| is the most by which the
    costs of two policies may differ in one step (L_Θ where one is proved), at most the range of
    costs or a limit given by the problem or the evaluator: an event of probability log(4/(3δ))/N
    may not have occurred in N steps, and then neither a standard error nor a skewness shows it. An
    event unseen after an epoch was also unseen after earlier ones, so that this condition alone
    fails with probability at most 3δ/4 over the whole run. A policy must be worse by both, so their
    levels are not added up. Where orders come in multiples, |θ - θ'| is larger by one multiple. N
    is the effective sample size of the policy.

    All of this requires independent batches. For each policy, neighbouring batches are joined in
    groups of 2, 4, 8, ..., as long as 8 are left, until joining them further raises the variance of
    its difference by no more than 2.5 standard errors of a variance. The relative rise up to there
    estimates the memory of the difference in batches: 2ρ/(1-ρ) for batches with autocorrelations
    ρ, ρ², ...

    Dependence over more steps than the data has can't be seen in the data. Therefore no policy is
    eliminated before the data spans 20 times the memory of the system, for the longest of these:

    - what is known in advance: a lead time, or the user's own number (``memory=`` of
      :class:`~iopea.learners.iopea.IOPEA`). Epochs with less data are silent: they end without a
      test and use no part of δ. If one policy informs all others and ``first_epoch`` is not given,
      three silent epochs precede the first test, which end at 1/8, 1/4 and 1/2 of its data, so that
      a better policy can be played early;
    - the memory of a policy's difference to the best one, estimated as above;
    - where the states of a chain are observed, as in tabular problems: the autocorrelation time of
      its slowest component under each policy, 2/(p+q) - 1 for two states that are left with
      probabilities p and q. Until a policy has returned to a state that it left, or was brought
      back to one, its memory is infinite: the states seen so far may all be transient. Policies
      whose steps span less than 20 times their memory are neither eliminated nor compared with. A
      memory declared by the user replaces infinite ones.
    """

    name = "paired"
    pooled = True
    #: Useful steps up to the first test, and the growth factor of the data in later epochs.
    FIRST = 48
    GROWTH = 1.25
    #: Number of epochs before the first test, each of which doubles the data.
    TRIALS = 3
    #: A larger value spreads δ more evenly over epochs if there is no horizon.
    SPREAD = 15
    #: Share of δ that is reserved for tests after the horizon.
    BEYOND = 0.05
    #: Share of each level for policies strictly below the best one, which are not played.
    UNPLAYED = 0.05

    def check(self, setting: Setting) -> None:
        """Refuse a factor by which the data would not grow."""
        if not check_number(f"GROWTH of the rule {self.name!r}", self.GROWTH) > 1:
            raise InputError(
                f"GROWTH of the rule {self.name!r} is {self.GROWTH:g}: give a number above 1, the "
                "factor by which the data grows from test to test."
            )

    def epoch_length(self, epoch: int) -> int:
        """The steps up to the first test in parts; then a quarter of the data so far."""
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
        """Useful steps that span 20 times the memory of the system, as far as it is known."""
        return math.ceil(MEMORIES * self.setting.memory)

    @cached_property
    def silent(self) -> int:
        """Number of epochs that end without a test, since their data is too short.

        After each of them, the policy to play is chosen again among those that inform each other.
        """
        if self.setting.first is None:
            return self.TRIALS if self.setting.width == 1 else 0
        return next(epoch for epoch in count() if self._data(epoch + 1) >= self.needed)

    @cached_property
    def _epochs(self) -> int:
        """Number of epochs within the horizon that end with a test; 0 if there is no horizon."""
        steps = (self.setting.horizon or 0) / self.setting.width
        if not steps:
            return 0
        return max(next(k for k in count() if self._data(k) >= steps) - self.silent, 1)

    def level(self, epoch: int) -> float:
        """δ_k: equal for all epochs within the horizon, then mδ'/((k+m-1)(k+m)) with m = 15.

        The latter add up to δ', which is δ without a horizon.
        """
        delta, epochs = self.setting.delta, self._epochs
        number = epoch - self.silent  # number of this test
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
        """Eliminate policies that are significantly worse than the estimated best one.

        A silent epoch eliminates nothing; its result at the level of the first test is provisional.
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
        estimates = self._with_enough_data(estimates)
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
            if estimates.effect is not None:
                effect = np.fmin(effect, estimates.effect + estimates.effect[best])
            missed = effect * math.log(4 / (3 * self.setting.delta))
            unseen = missed / effective
            margin = (critical + spread.skewness * (2 * critical**2 + 1) / 6) * spread.error
            more = mean - mean[best]
            if estimates.unsure is not None:
                more = more - estimates.unsure - estimates.unsure[best]
            worse = more > np.maximum(margin, unseen)
            starved = more > np.maximum(margin, missed / estimates.steps)
            difference_memory = spread.memory * estimates.steps * largest_share(estimates)
        worse &= estimates.steps >= MEMORIES * difference_memory
        worse[best] = starved[best] = False
        probabilities = single_probability(freedom, played), single_probability(freedom, unplayed)
        starving = bool((starved & known & ~worse).any())
        return Elimination(~(worse & known), played, Look(estimates.steps, probabilities), starving)

    def _with_enough_data(self, estimates: Estimates) -> Estimates:
        """Estimates without those of policies whose steps span less than 20 times their memory.

        Policies with few batches are left out as well if others have many: their few degrees of
        freedom would make the comparison of all others imprecise.
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
        """For policies that are not strictly below the best one, and for those that are."""
        # The truly best policy must survive. The angles between differences to it may be larger
        # than to the estimated best one, so both ends of the net are tried as references, too.
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
    """The least share, over policies, of the data that the earlier test had."""
    if look is None:
        return 0.0
    known = steps > 0
    return float((look.steps[known] / steps[known]).min(initial=1.0))
