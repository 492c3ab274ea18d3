"""Rule ``published``: the rule of the published experiments."""

from __future__ import annotations

from iopea.elimination.critical import Look
from iopea.elimination.rule import Elimination, Rule, Setting, kept_within
from iopea.information_order import InformationOrder
from iopea.types import Array, Estimates


class Published(Rule):
    """The rule of the published experiments: it eliminates early and has no guarantee.

    Among equally informative policies a random one is played, and the policy played last is
    recommended. The random choice is not documented; it reproduces the printed rows.
    """

    name = "published"
    points_per_axis = 50
    draws_ties = True

    def check(self, setting: Setting) -> None:
        """Refuse a setting without α."""
        self.need_alpha(_alpha(setting))

    def epoch_length(self, epoch: int) -> int:
        """N_k = 4^k round(1/α) + L."""
        return int(4**epoch * round(1 / _alpha(self.setting)) + self.setting.settling)

    def eliminate(
        self,
        estimates: Estimates,
        policies: Array,
        epoch: int,
        order: InformationOrder | None = None,
        look: Look | None = None,
    ) -> Elimination:
        """Keep every policy whose epoch *sum* is within 2β_k of the least, β_k = (αN_k)^-1/2.

        The sum is over the steps that were informative about the policies.
        """
        length = self.epoch_length(epoch)
        half_width = self.setting.published_factor * (_alpha(self.setting) * length) ** -0.5
        steps = max(float(estimates.steps.max(initial=0.0)), 1.0)
        return kept_within(estimates.mean, 2 * half_width * self.setting.cost_range / steps)


def _alpha(setting: Setting) -> float:
    """The α of the published experiments."""
    known = setting.published_alpha
    return setting.alpha if known is None else known
