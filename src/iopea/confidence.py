"""How long an epoch lasts and which policies survive it.

A rule is a small object without a state of its own: :meth:`Rule.epoch_length` gives N_k and
:meth:`Rule.eliminate` tells which policies remain, from counterfactual
:class:`~iopea.types.Estimates` alone.

``theorem``
    β_k and N_k of the regret theorem (label ``thm:regret_bound``).
``published``
    What the published experiments used: sums of one epoch against 2β_k,
    no logarithms and no span.
``paired``
    The default. All policies are evaluated on the same observed path, so the
    difference of two of them has a small variance. Differences to the best
    policy are studentised by batch means, all epochs pooled, and compared with
    a critical value that holds for all policies at once and over the whole run.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from iopea.critical import critical_for, largest_share, scheffe, studentise
from iopea.errors import InputError, unknown
from iopea.types import Array, Estimates, Mask, Stop


@dataclass(frozen=True)
class Setting:
    """What a rule may use of the problem and the run.

    Attributes
    ----------
    policies : int. Size of the net [|N_r(Θ)|].
    width : int. Width of the information order [w].
    span : float. Span of the bias, costs scaled to [0, 1] [H].
    cost_range : float. Width of the range of the cost of one step.
    lipschitz : float. Change of the average cost per unit of policy [L_Θ].
    alpha : float. Share of useful steps [α].
    data_needed : int. T_h(δ).
    settling : int. Steps until a decision shows in the cost.
    delta : float. Probability that the guarantee may fail [δ].
    horizon : int or None. Steps of the whole run [T], where known.
    sensitivity : float. Change of the cost of one step per unit of policy.
    unseen : float, optional. The most that an unseen event may count; the range of costs if
        not given.
    listed : bool. Whether estimates are always those of all policies that may still be best;
        otherwise only some are asked for, and a judgement must hold for all others too.
    published_alpha, published_factor : float. The α of the published experiments, where it is
        another one, and what they multiplied β_k by.
    """

    policies: int
    width: int
    span: float
    cost_range: float
    lipschitz: float
    alpha: float = 1.0
    data_needed: int = 1
    settling: int = 0
    delta: float = 0.05
    horizon: int | None = None
    sensitivity: float = 0.0
    unseen: float | None = None
    listed: bool = True
    published_alpha: float | None = None
    published_factor: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what no rule can work with."""
        if self.policies < 1:
            raise InputError(f"A net needs at least one policy, not {self.policies}.")


@dataclass(frozen=True)
class Elimination:
    """Which policies survive, and the threshold that decided."""

    keep: Mask
    threshold: float


class Rule(ABC):
    """When an epoch ends and who survives it."""

    name: ClassVar[str]
    #: Whether all epochs are pooled; otherwise each is judged by its own data.
    pooled: ClassVar[bool] = False
    #: The most points of the net per parameter, where the rule has such a limit.
    points_per_axis: ClassVar[int | None] = None
    #: Whether the policy played last is recommended, not the best by estimate, and which of
    #: equally informative policies is played is left to chance.
    leaves_to_chance: ClassVar[bool] = False

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @abstractmethod
    def epoch_length(self, epoch: int) -> int:
        """Useful steps for which each maximal policy is played in an epoch [N_k]."""

    @abstractmethod
    def eliminate(self, estimates: Estimates, policies: Array, epoch: int) -> Elimination:
        """Judge the surviving policies, an array (n, d), at the end of an epoch."""

    def outlook(self, spread: float, log_count: Callable[[int], float]) -> str:
        """What to say when nothing was eliminated, the estimates differing by ``spread``."""
        return Stop.NOTHING_ELIMINATED.value


class Theorem(Rule):
    """The constants under which the regret theorem is proved; they need the horizon."""

    name = "theorem"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        if setting.horizon is None:
            raise InputError("Rule 'theorem' needs the horizon: its epochs depend on log T.")
        _need_alpha(self.name, setting.alpha)

    @property
    def horizon(self) -> int:
        """Steps of the whole run [T]."""
        return self.setting.horizon or 1

    def epoch_length(self, epoch: int) -> int:
        """N_k = 4^k T_h(δ) log(T) / α."""
        return theorem_epoch_length(self.setting, self.horizon, epoch)

    def half_width(self, epoch: int) -> float:
        """β_k, for costs scaled to [0, 1]."""
        return theorem_half_width(
            self.setting, self.horizon, epoch, math.log(self.setting.policies)
        )

    def eliminate(self, estimates: Estimates, policies: Array, epoch: int) -> Elimination:
        """Keep every policy within 2β_k of the best."""
        threshold = 2 * self.half_width(epoch) * self.setting.cost_range
        return _within(estimates.mean, threshold)

    def outlook(self, spread: float, log_count: Callable[[int], float]) -> str:
        """That nothing was eliminated, and from which horizon on something would be."""
        horizon = self.first_elimination(spread, log_count)
        when = (
            "at no horizon up to 10^18"
            if horizon is None
            else f"only from a horizon of about T = {horizon:.2g} on"
        )
        return (
            f"Nothing was eliminated in {self.horizon} steps: with the constants of the theorem, "
            f"policies whose costs differ by {spread:.3g} are told apart {when}."
        )

    def first_elimination(self, spread: float, log_count: Callable[[int], float]) -> int | None:
        """The least horizon at which a policy ``spread`` above the best could be dropped.

        ``spread`` is in cost units, ``log_count`` gives log |N_r(Θ)| for a horizon.
        None where no horizon up to 10^18 would do.
        """
        scaled = spread / self.setting.cost_range

        def drops(horizon: int) -> bool:
            last = theorem_epochs(self.setting, horizon)
            fits = theorem_epoch_length(self.setting, horizon, 1) * self.setting.width <= horizon
            width = theorem_half_width(self.setting, horizon, last, log_count(horizon))
            return fits and 2 * width < scaled

        high = 2
        while not drops(high):
            high *= 2
            if high > 10**18:
                return None
        low = high // 2
        while high - low > max(1, low // 1000):
            middle = (low + high) // 2
            low, high = (low, middle) if drops(middle) else (middle, high)
        return high


def theorem_epoch_length(setting: Setting, horizon: int, epoch: int) -> int:
    """N_k = 4^k T_h(δ) log(T) / α, rounded up."""
    base = setting.data_needed * math.log(max(horizon, 3)) / setting.alpha
    return math.ceil(base * 4.0**epoch)


def theorem_epochs(setting: Setting, horizon: int) -> int:
    """K, the epochs that fit in the horizon: the sum of w N_k is at most T; at least 1."""
    epochs, used = 0, 0
    while True:
        used += setting.width * theorem_epoch_length(setting, horizon, epochs + 1)
        if used > horizon:
            return max(epochs, 1)
        epochs += 1


def theorem_half_width(setting: Setting, horizon: int, epoch: int, log_policies: float) -> float:
    """β_k = H/(αN_k) + (H+2) sqrt(2 log(4 |N_r(Θ)| K/δ) / (αN_k))."""
    data = setting.alpha * theorem_epoch_length(setting, horizon, epoch)
    epochs = theorem_epochs(setting, horizon)
    logarithm = math.log(4 * epochs / setting.delta) + log_policies
    return setting.span / data + (setting.span + 2) * math.sqrt(2 * logarithm / data)


class Published(Rule):
    """What the published experiments ran: bold, and without a guarantee.

    Of equally informative policies a random one is played, and the one that was played last
    is recommended. That it was random is not on record: it is what gives the printed rows.
    """

    name = "published"
    points_per_axis = 50
    leaves_to_chance = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        known = setting.published_alpha
        self._alpha = setting.alpha if known is None else known
        _need_alpha(self.name, self._alpha)

    def epoch_length(self, epoch: int) -> int:
        """N_k = 4^k round(1/α) + L."""
        return int(4**epoch * round(1 / self._alpha) + self.setting.settling)

    def eliminate(self, estimates: Estimates, policies: Array, epoch: int) -> Elimination:
        """Keep every policy whose epoch *sum* is within 2β_k of the least, β_k = (αN_k)^-1/2.

        The sum goes over the steps that told of the policies.
        """
        length = self.epoch_length(epoch)
        half_width = self.setting.published_factor * (self._alpha * length) ** -0.5
        steps = max(float(estimates.steps.max(initial=0.0)), 1.0)
        return _within(estimates.mean, 2 * half_width * self.setting.cost_range / steps)


def _need_alpha(rule: str, alpha: float) -> None:
    if not alpha > 0:
        raise InputError(
            f"Rule {rule!r} needs α, the share of useful steps, which this problem can't tell: "
            "give the problem the probability of a period without demand, or use rule 'paired'."
        )


class Paired(Rule):
    """Studentised differences on common paths; no horizon needed.

    Epoch k is tested at level δ_k = 15δ/((k+14)(k+15)); over all epochs these add
    up to δ. Within a test the critical value c solves

        P(t_ν > c) + Σ_edges min{P(t_ν > c), a/(2π) (1 + c²/ν)^(-(ν-1)/2)} = δ_k

    where a is the angle between the batch differences of neighbouring policies
    and ν + 1 the number of batches: the improved Bonferroni inequality of
    Hunter and Worsley along the net, each overlap bounded as in Naiman's tube
    inequality, for differences that are each divided by an error of their own.
    It holds for Gaussian batch sums. Neighbouring policies are almost the same
    random variable, so c is near the critical value of two comparisons, whatever
    the size of the net. A net of two parameters is also measured as a surface, by its
    area and the length of its edge (:mod:`iopea.geometry`), which gives an expectation
    where the inequality gives a bound. Where all differences follow from r unknown numbers,
    as the rates of a queue, Scheffé's value r ν/(ν+1-r) F_{r,ν+1-r} for c² holds as well,
    for policies that were never listed too. The least of these values is taken.

    A policy is dropped when it is worse than the best by c (1 + λ (2c² + 1)/(6c))
    standard errors, where λ >= 0 is the share of the skewness that makes a few
    missing events look like certainty (Hall's correction for studentised means,
    on that side only, less the standard error of a skewness); and by
    M |θ - θ'| log(1/δ_k)/N, where M |θ - θ'| is what two policies may differ by in one
    step (L_Θ where one is proved), at most the range of costs or what the problem says: an
    event of probability log(1/δ_k)/N may have stayed unseen for N steps, and then neither a
    standard error nor a skewness shows it.
    """

    name = "paired"
    pooled = True
    #: Useful steps of the first epoch, and the factor by which every epoch multiplies the data.
    FIRST = 64
    GROWTH = 1.25
    #: The larger, the more evenly δ is spread over the epochs.
    SPREAD = 15

    def epoch_length(self, epoch: int) -> int:
        """64 steps, then a quarter of what there was before."""
        return self._data(epoch) - (self._data(epoch - 1) if epoch > 1 else 0)

    def _data(self, epoch: int) -> int:
        """Useful steps up to the end of an epoch."""
        return int(self.FIRST * self.GROWTH ** (epoch - 1))

    def level(self, epoch: int) -> float:
        """δ_k = mδ/((k+m-1)(k+m)) with m = 15, which sums to δ."""
        return (
            self.SPREAD * self.setting.delta / ((epoch + self.SPREAD - 1) * (epoch + self.SPREAD))
        )

    def eliminate(self, estimates: Estimates, policies: Array, epoch: int) -> Elimination:
        """Drop what is worse than the best estimate by more than chance allows."""
        mean = estimates.mean
        known = np.isfinite(mean)
        if len(estimates.sizes) < 2 or not known.any():
            return Elimination(np.ones(mean.size, dtype=np.bool_), math.inf)
        best = int(np.nanargmin(mean))
        freedom = 1 / largest_share(estimates) - 1
        level = self.level(epoch)
        error, lean, _ = studentise(estimates, best)
        # What must survive is the truly best policy, whose own differences may turn more
        # than those of the estimated one: both ends of the net are tried as well.
        references = [i for i in {best, 0, mean.size - 1} if known[i]]
        critical = max(critical_for(estimates, i, policies, freedom, level) for i in references)
        if not self.setting.listed:
            critical = math.inf
        if estimates.rank is not None:
            critical = min(critical, scheffe(estimates.rank, freedom, level))
        distance = np.abs(policies - policies[best]).max(axis=1)
        most = self.setting.cost_range if self.setting.unseen is None else self.setting.unseen
        with np.errstate(divide="ignore", invalid="ignore"):
            effect = np.fmin(self.setting.sensitivity * distance, most)
            unseen = effect * math.log(1 / level) / estimates.steps
            chance = (critical + lean * (2 * critical**2 + 1) / 6) * error
            worse = mean - mean[best] > np.maximum(chance, unseen)
        worse[best] = False
        return Elimination(~(worse & known), critical)


def _within(mean: Array, threshold: float) -> Elimination:
    """Keep what is within ``threshold`` of the least; what is unknown stays."""
    known = np.isfinite(mean)
    least = mean[known].min(initial=math.inf)
    return Elimination(~(known & (mean > least + threshold)), threshold)


#: Every rule by its name: one line for a new one.
RULES: dict[str, type[Rule]] = {rule.name: rule for rule in (Paired, Theorem, Published)}


def rule_named(name: str) -> type[Rule]:
    """The rule of that name.

    >>> rule_named("paired").__name__
    'Paired'
    """
    if name not in RULES:
        raise unknown("rule", str(name), RULES)
    return RULES[name]
