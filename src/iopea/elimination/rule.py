"""The base class of elimination rules: when an epoch ends, and which policies survive it."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, Self

import numpy as np

from iopea.elimination.critical import Look
from iopea.errors import InputError, shown
from iopea.information_order import InformationOrder
from iopea.model import check_kind
from iopea.types import Array, Estimates, Mask, Stop


@dataclass(frozen=True)
class Setting:
    """The constants of the problem and the run that a rule may use.

    Attributes
    ----------
    policies : int. Size of the net [|N_r(Θ)|].
    width : int. Width of the information order [w].
    span : float. Span of the bias, costs scaled to [0, 1] [H].
    cost_range : float. Width of the range of the cost of one step.
    lipschitz : float. Change of the average cost per unit of policy [L_Θ].
    alpha : float. Share of useful steps [α].
    data_needed : int. T_h(δ).
    settling : int. Steps until a decision affects the cost.
    memory : float. Autocorrelation time of the system in steps, as far as known or declared.
    declared : bool. Whether the user declared it.
    delta : float. Probability that the guarantee may fail [δ].
    horizon : int or None. Steps of the whole run [T], where known.
    first : int, optional. Useful steps of the first epoch, for rules that let the user choose it.
    sensitivity : float. Change of the cost of one step per unit of policy.
    unseen : float, optional. Largest effect of an event that has not occurred yet; the range of
        costs if not given.
    listed : bool. Whether estimates always cover all policies that may still be best; otherwise
        they cover only some, and a critical value must hold for all others, too.
    published_alpha, published_factor : float. The α of the published experiments, where it
        differs, and their factor of β_k.
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
        """Refuse settings that no rule can use."""
        if self.policies < 1:
            raise InputError(f"A net needs at least one policy, not {self.policies}.")


@dataclass(frozen=True)
class Elimination:
    """The decision of a rule: which policies survive, and by which threshold.

    Attributes
    ----------
    keep : bool array (n,). The survivors.
    threshold : float. The critical value, or a difference of costs.
    look : Look, optional. Information about this test for later ones.
    starved : bool. Whether some policies survive only because few steps were informative about
        them.
    provisional : bool array (n,), optional. If there is not enough data for a test: the policies
        that would survive it. Used only to choose what to play.
    """

    keep: Mask
    threshold: float
    look: Look | None = None
    starved: bool = False
    provisional: Mask | None = None


class Rule(ABC):
    """Decides when an epoch ends and which policies survive it."""

    name: ClassVar[str]
    #: Whether the data of all epochs is pooled; otherwise each test uses its own epoch.
    pooled: ClassVar[bool] = False
    #: Largest number of points of the net per parameter, if the rule has a limit.
    points_per_axis: ClassVar[int | None] = None
    #: Whether ties between equally informative policies are broken at random, and the policy played
    #: last is recommended instead of the estimated best one.
    draws_ties: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """A rule without a name has that of its class."""
        super().__init_subclass__()
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def __init__(self, setting: Setting | None = None) -> None:
        self._setting = setting
        if setting is not None:
            self.check(check_kind("The setting", setting, Setting))

    @property
    def setting(self) -> Setting:
        """The constants of the problem and the run, which a learner provides."""
        if self._setting is None:
            raise InputError(f"The rule {self.name!r} has no setting: give it to a learner.")
        return self._setting

    def for_setting(self, setting: Setting) -> Self:
        """A copy of the rule for a problem and a run."""
        rule = copy(self)
        rule._setting = setting
        rule.check(setting)
        return rule

    def check(self, setting: Setting) -> None:
        """Refuse a setting that the rule can't use."""
        return

    def need_alpha(self, alpha: float) -> None:
        """Refuse a problem whose share of useful steps is unknown."""
        if not alpha > 0:
            raise InputError(
                f"The rule {self.name!r} needs α, the share of useful steps, which is unknown for "
                "this problem: use rule 'paired'. With dual-index policies α follows from "
                "zero_demand, the probability of a period without demand."
            )

    @property
    def needed(self) -> int:
        """Useful steps of each maximal policy that are required before the first elimination."""
        return 0

    @property
    def silent(self) -> int:
        """Number of epochs that end without a test."""
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
        """Test the surviving policies, an array (n, d), at the end of an epoch.

        A rule may use their order, and the ``look`` of the previous test.
        """

    def test(
        self,
        estimates: Estimates,
        policies: Array,
        epoch: int,
        order: InformationOrder | None = None,
        look: Look | None = None,
    ) -> Elimination:
        """:meth:`eliminate`, whose result is checked: at least one policy must survive."""
        method = f"{type(self).__name__}.eliminate of the rule {self.name!r}"
        try:
            inspect.signature(self.eliminate).bind(estimates, policies, epoch, order, look)
        except TypeError as error:
            raise InputError(
                f"{method} can't be called: {error}. It takes estimates, policies, epoch, order "
                "and look."
            ) from None
        outcome: object = self.eliminate(estimates, policies, epoch, order, look)
        if not isinstance(outcome, Elimination):
            raise InputError(f"{method} must return an Elimination, not {shown(outcome)}.")
        keep, shape = outcome.keep, (len(policies),)
        if not isinstance(keep, np.ndarray) or keep.dtype != np.bool_ or keep.shape != shape:
            raise InputError(
                f"{method} must say of each of {shape[0]} policies whether to keep it, by a "
                f"boolean array of shape {shape}."
            )
        if not keep.any():
            raise InputError(f"{method} keeps no policy: at least one must survive.")
        threshold: object = outcome.threshold
        if not isinstance(threshold, Real) or math.isnan(threshold):
            raise InputError(
                f"{method} gives the threshold {shown(threshold)}: it must be a number, infinite "
                "where nothing was tested."
            )
        return outcome

    def outlook(self, spread: float, log_count: Callable[[int], float]) -> str:
        """Message for a run without elimination, whose estimates differ by up to ``spread``."""
        return Stop.NOTHING_ELIMINATED.value


def kept_within(mean: Array, threshold: float) -> Elimination:
    """Keep policies within ``threshold`` of the least mean, and those without an estimate."""
    known = np.isfinite(mean)
    least = mean[known].min(initial=math.inf)
    return Elimination(~(known & (mean > least + threshold)), threshold)
