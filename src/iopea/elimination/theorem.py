"""Rule ``theorem``: β_k and N_k of the regret theorem (label ``thm:regret_bound``)."""

from __future__ import annotations

import math
from collections.abc import Callable

from iopea.elimination.critical import Look
from iopea.elimination.rule import Elimination, Rule, Setting, kept_within
from iopea.errors import InputError
from iopea.information_order import InformationOrder
from iopea.types import Array, Estimates


class Theorem(Rule):
    """The constants under which the regret theorem is proved; they need the horizon."""

    name = "theorem"

    def check(self, setting: Setting) -> None:
        """Refuse a setting without a horizon, or without α."""
        if setting.horizon is None:
            raise InputError("The rule 'theorem' needs the horizon: its epochs depend on log T.")
        self.need_alpha(setting.alpha)

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
        return kept_within(estimates.mean, threshold)

    def outlook(self, spread: float, log_count: Callable[[int], float]) -> str:
        """Message that nothing was eliminated, with the least horizon for an elimination."""
        horizon = self.first_elimination(spread, log_count)
        when = (
            "at no horizon up to 10^18"
            if horizon is None
            else f"only from a horizon of about T = {horizon:.2g} on"
        )
        return (
            f"Nothing was eliminated in {self.horizon} steps: with the constants of the theorem, "
            f"policies whose costs differ by {spread:.3g} can be distinguished {when}."
        )

    def first_elimination(self, spread: float, log_count: Callable[[int], float]) -> int | None:
        """The least horizon at which a policy ``spread`` above the best could be eliminated.

        ``spread`` is in cost units, ``log_count`` gives log |N_r(Θ)| for a horizon.
        None if there is no such horizon up to 10^18.
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
    """K, the number of epochs within the horizon: the largest with Σ w N_k <= T; at least 1."""
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
