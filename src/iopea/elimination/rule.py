"""What a rule is: when an epoch ends, and which policies survive it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from iopea.elimination.critical import Look
from iopea.errors import InputError
from iopea.information_order import InformationOrder
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
    memory : float. Steps that the system remembers, as far as that is known or declared.
    declared : bool. Whether the user has declared it.
    delta : float. Probability that the guarantee may fail [δ].
    horizon : int or None. Steps of the whole run [T], where known.
    first : int, optional. Useful steps of the first epoch, where the rule leaves a choice.
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
    memory: float = 1.0
    declared: bool = False
    delta: float = 0.05
    horizon: int | None = None
    first: int | None = None
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
    """Which policies survive, the threshold that decided, and what a later test may know of it.

    Attributes
    ----------
    keep : bool array (n,). The survivors.
    threshold : float. The critical value, or a difference of costs.
    look : Look, optional. What a later test may know of this one.
    starved : bool. Whether some survive only because few of the steps told of them.
    provisional : bool array (n,), optional. Who would survive if there were enough data for a
        verdict, where there is not: for what to play, and for nothing else.
    """

    keep: Mask
    threshold: float
    look: Look | None = None
    starved: bool = False
    provisional: Mask | None = None


class Rule(ABC):
    """When an epoch ends and who survives it."""

    name: ClassVar[str]
    #: Whether all epochs are pooled; otherwise each is judged by its own data.
    pooled: ClassVar[bool] = False
    #: The most points of the net per parameter, where the rule has such a limit.
    points_per_axis: ClassVar[int | None] = None
    #: Whether the policy played last is recommended, not the best by estimate, and which of
    #: equally informative policies is played is drawn.
    draws_ties: ClassVar[bool] = False

    def __init__(self, setting: Setting | None = None) -> None:
        self._setting = setting
        if setting is not None:
            self.check(setting)

    @property
    def setting(self) -> Setting:
        """What the rule may use of the problem and the run; a learner gives it."""
        if self._setting is None:
            raise InputError(f"The rule {self.name!r} has no setting: give it to a learner.")
        return self._setting

    def for_setting(self, setting: Setting) -> Self:
        """The same rule for a problem and a run."""
        rule = copy(self)
        rule._setting = setting
        rule.check(setting)
        return rule

    def check(self, setting: Setting) -> None:
        """Refuse a setting that the rule can't work with."""
        return

    def need_alpha(self, alpha: float) -> None:
        """Refuse a problem of which the share of useful steps is not known."""
        if not alpha > 0:
            raise InputError(
                f"The rule {self.name!r} needs α, the share of useful steps, which this problem "
                "can't tell: give the problem the probability of a period without demand, or use "
                "rule 'paired'."
            )

    @property
    def needed(self) -> int:
        """Useful steps of each maximal policy before which nothing is eliminated."""
        return 0

    @abstractmethod
    def epoch_length(self, epoch: int) -> int:
        """Useful steps for which each maximal policy is played in an epoch [N_k]."""

    @abstractmethod
    def eliminate(
        self,
        estimates: Estimates,
        policies: Array,
        epoch: int,
        order: InformationOrder | None = None,
        look: Look | None = None,
    ) -> Elimination:
        """Judge the surviving policies, an array (n, d), at the end of an epoch.

        A rule may use their order and what the test before has left.
        """

    def outlook(self, spread: float, log_count: Callable[[int], float]) -> str:
        """What to say when nothing was eliminated, the estimates differing by ``spread``."""
        return Stop.NOTHING_ELIMINATED.value


def kept_within(mean: Array, threshold: float) -> Elimination:
    """Keep what is within ``threshold`` of the least; what is unknown stays."""
    known = np.isfinite(mean)
    least = mean[known].min(initial=math.inf)
    return Elimination(~(known & (mean > least + threshold)), threshold)
