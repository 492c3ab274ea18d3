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
from collections.abc import Callable

import numpy as np

from iopea.elimination.critical import Look
from iopea.elimination.paired import Paired
from iopea.elimination.rule import Elimination, Rule, Setting
from iopea.errors import InputError, unknown
from iopea.information_order import InformationOrder
from iopea.types import Array, Estimates

__all__ = [
    "RULES",
    "Elimination",
    "Paired",
    "Published",
    "Rule",
    "Setting",
    "Theorem",
    "rule_named",
]


class Theorem(Rule):
    """The constants under which the regret theorem is proved; they need the horizon."""

    name = "theorem"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        if setting.horizon is None:
            raise InputError("The rule 'theorem' needs the horizon: its epochs depend on log T.")
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

    def eliminate(
        self,
        estimates: Estimates,
        policies: Array,
        epoch: int,
        order: InformationOrder | None = None,
        look: Look | None = None,
    ) -> Elimination:
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

    def eliminate(
        self,
        estimates: Estimates,
        policies: Array,
        epoch: int,
        order: InformationOrder | None = None,
        look: Look | None = None,
    ) -> Elimination:
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
            f"The rule {rule!r} needs α, the share of useful steps, which this problem can't tell: "
            "give the problem the probability of a period without demand, or use rule 'paired'."
        )


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
