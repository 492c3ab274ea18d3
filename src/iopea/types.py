"""The immutable data types exchanged by learners, problems, simulators and reports."""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iopea.errors import InputError, shown
from iopea.model import real_numbers

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]
Policy = tuple[float, ...]
Precision = Literal["float64", "float32"]

#: A cost of (stock after arrivals, sales, order) for one period.
PeriodCost = Callable[[float, float, float], float]

#: What an order claims: equal costs on every sample path, or estimates equal in distribution.
Claim = Literal["sample-path", "distributional"]

#: A saved state of a learner, a simulator or a stream: nested JSON values and arrays.
State = dict[str, Any]


class Truth(Protocol):
    """What a simulator knows and a learner does not: a demand law, rates, transitions."""

    def table(self) -> dict[str, object]:
        """Its table in a problem file, as JSON values."""


def show_policy(policy: Policy, digits: int = 10) -> str:
    """A policy as text.

    >>> show_policy((3.0, 0.25))
    '3, 0.25'
    """
    return ", ".join(f"{value:.{digits}g}" for value in policy)


#: Values of a column that a trajectory shows.
_FIRST = 6


class Controller(ABC):
    """A map from states to actions that need not be a policy of the class.

    States and actions are those of the problem's ``control``. A controller is fixed and
    deterministic: the same state always gets the same action.
    """

    @abstractmethod
    def act(self, states: Array) -> Array:
        """The actions in these states, arrays (n, actions) and (n, k)."""

    @abstractmethod
    def table(self) -> dict[str, object]:
        """A description as JSON values, for reports."""

    @abstractmethod
    def __str__(self) -> str:
        """A description in a few words."""


class Trajectory:
    """What was observed while one policy was played.

    Parameters
    ----------
    policy : float, sequence of floats or Controller. What was played.
    **columns : array-like. One value per step in each column; which columns are
        needed depends on the problem.

    Examples
    --------
    >>> path = Trajectory(3.1, stock=[3.1, 2.0], sales=[1.1, 2.0])
    >>> len(path), path.policy
    (2, (3.1,))
    """

    __slots__ = ("_columns", "_policy")

    def __init__(self, policy: ArrayLike | Controller, **columns: ArrayLike) -> None:
        self._policy = policy if isinstance(policy, Controller) else _as_policy(policy)
        self._columns: dict[str, Array] = {
            name: _column(name, values) for name, values in columns.items()
        }
        lengths = {name: values.size for name, values in self._columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"The columns of a trajectory differ in length: {lengths}.")

    @property
    def columns(self) -> Mapping[str, Array]:
        """The columns by their names, read-only."""
        return MappingProxyType(self._columns)

    @property
    def policy(self) -> Policy:
        """The policy of the class that was played."""
        if isinstance(self._policy, Controller):
            raise InputError(f"{self._policy} was played, which is not a policy of the class.")
        return self._policy

    @property
    def played(self) -> Policy | Controller:
        """What was played."""
        return self._policy

    def __len__(self) -> int:
        return next((values.size for values in self._columns.values()), 0)

    def part(self, first: int, last: int) -> Trajectory:
        """The steps from ``first`` up to, but not including, ``last``."""
        columns = {name: values[first:last] for name, values in self._columns.items()}
        return Trajectory(self._policy, **columns)

    def __getitem__(self, name: str) -> Array:
        return self._columns[name]

    def __repr__(self) -> str:
        """The policy and the first values of each column.

        >>> Trajectory(3.1, stock=[3.1, 2.0], sales=[1.1, 2.0])
        Trajectory(3.1, 2 steps: stock 3.1 2, sales 1.1 2)
        """
        played = self._policy if isinstance(self._policy, Controller) else show_policy(self._policy)
        columns = (
            f"{name} {' '.join(f'{value:.6g}' for value in values[:_FIRST])}"
            f"{' ...' if values.size > _FIRST else ''}"
            for name, values in self._columns.items()
        )
        return f"Trajectory({played}, {len(self)} steps: {', '.join(columns)})"


def _as_policy(policy: ArrayLike) -> Policy:
    if isinstance(policy, tuple) and policy and all(map(_is_finite, policy)):
        return cast(Policy, policy)  # the form that learners ask for
    try:
        point = np.atleast_1d(real_numbers(policy))
    except (TypeError, ValueError, OverflowError):
        point = np.empty((0, 0))
    if point.ndim != 1 or not point.size or not np.isfinite(point).all():
        raise InputError(f"A policy is one or more finite numbers, not {shown(policy)}.")
    return tuple(point.tolist())


def _is_finite(value: object) -> bool:
    return type(value) is float and math.isfinite(value)


def _column(name: str, values: ArrayLike) -> Array:
    try:
        column = np.atleast_1d(real_numbers(values, flags=True))
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"The column {name!r} of a trajectory holds a value that is not a number."
        ) from None
    if column.ndim != 1:
        raise InputError(
            f"The column {name!r} of a trajectory has {column.ndim} dimensions, not 1."
        )
    if not np.isfinite(column).all():
        step = int(np.flatnonzero(~np.isfinite(column))[0])
        raise InputError(f"{name} is {column[step]} at step {step}: give a finite number.")
    column.flags.writeable = False
    return column


@dataclass(frozen=True)
class Play:
    """What a learner asks for: a policy or controller, for at most ``steps`` steps.

    With ``until_start`` the play may end earlier, as soon as the system is back
    in its initial state. A controller may be asked to control several ``copies`` of the
    system in parallel, which take steps in turn.
    """

    policy: Policy | Controller
    steps: int
    epoch: int
    until_start: bool = False
    copies: int = 1


@dataclass(frozen=True)
class Rollout:
    """A trajectory with the true costs, which only the runner sees.

    Attributes
    ----------
    trajectory : Trajectory.
    costs : array. True cost of each step.
    elapsed : float, optional. Elapsed time, in the unit to which the average cost refers; one
        per step if not given.
    """

    trajectory: Trajectory
    costs: Array
    elapsed: float | None = None


#: Costs are equal up to rounding if they differ by at most this share of the largest of them.
SAME_COST = 1e-11


def cost_ranks(costs: Array) -> Array:
    """Ranks of costs, starting at 0; costs equal up to rounding share a rank, NaN has none.

    Costs are piecewise linear in a level, and constant wherever the costs of the observed events
    add up to 0. Which of several equal costs counts as least must not depend on units.

    >>> cost_ranks(np.array([0.3, np.nan, 0.1 + 0.2, 0.1]))
    array([ 1., nan,  1.,  0.])
    """
    ranks = np.full(costs.size, np.nan)
    order = np.argsort(costs, kind="stable")[: np.count_nonzero(~np.isnan(costs))]
    ascending = costs[order]
    rounding = SAME_COST * np.abs(ascending).max(initial=0.0)
    ranks[order] = np.cumsum(np.diff(ascending, prepend=ascending[:1]) > rounding)
    return ranks


@dataclass(frozen=True)
class Estimates:
    """Counterfactual costs of the surviving policies, as sums over batches of steps.

    Attributes
    ----------
    sums : array (batches, n). Cost of each policy, summed over each batch.
    sizes : array (batches,) or (batches, n). Steps in each batch; by policy where the number of
        informative steps differs between policies, 0 where a batch is not informative.
    effective_steps : array (n,), optional. Effective sample size of each policy, where it is
        smaller than the number of steps for some.
    rank : int, optional. Number of unknown parameters, where the costs of all policies are
        functions of a few.
    effect : array (n,), optional. The most that an unobserved event changes the cost of a step
        under each policy by, where that is not known from its parameters.
    unsure : array (n,), optional. The most that each mean may be wrong by besides noise.
    jump : float. The most by which the actions of two policies may differ in a step beyond the
        difference of their parameters, as where orders come in multiples.
    memory : array (n,), optional. Autocorrelation time of the system under each policy in
        steps, where its states are observed; infinite if it never returned to a state it left.
    """

    sums: Array
    sizes: Array
    rank: int | None = None
    effective_steps: Array | None = None
    memory: Array | None = None
    jump: float = 0.0
    effect: Array | None = None
    unsure: Array | None = None

    def __post_init__(self) -> None:
        """Refuse sums and sizes that don't fit."""
        fits = (
            isinstance(self.sums, np.ndarray)
            and isinstance(self.sizes, np.ndarray)
            and self.sums.ndim == 2
            and self.sizes.ndim in (1, 2)
            and self.sums.dtype.kind in "fiu"
            and self.sizes.dtype.kind in "fiu"
            and len(self.sums) == len(self.sizes)
        )
        if not fits:
            raise InputError(
                "Estimates have sums, an array (batches, n) of numbers, and sizes, one (batches,) "
                f"or (batches, n), not {shown(self.sums)} and {shown(self.sizes)}."
            )

    @property
    def sizes_by_policy(self) -> Array:
        """Steps in each batch, an array (batches, n), or (batches, 1) if all have the same."""
        return self.sizes if self.sizes.ndim == 2 else self.sizes[:, None]

    @cached_property
    def steps(self) -> Array:
        """Number of informative steps of each policy."""
        if self.sizes.ndim == 1:
            return np.full(self.sums.shape[1], self.sizes.sum(), dtype=np.float64)
        return np.asarray(self.sizes.sum(axis=0), dtype=np.float64)

    @cached_property
    def mean(self) -> Array:
        """Average cost of each policy; NaN where there is no informative step."""
        total: Array = self.sums.sum(axis=0)
        mean = np.full_like(total, np.nan)
        np.divide(total, self.steps, out=mean, where=self.steps > 0)
        return mean

    @cached_property
    def best(self) -> int:
        """The first policy of least average cost, up to rounding; at least one must be known.

        >>> Estimates(np.array([[0.3, 0.1 + 0.2, 0.3]]), np.ones(1)).best
        0
        """
        return int(np.nanargmin(cost_ranks(self.mean)))


@dataclass(frozen=True)
class EpochRecord:
    """The state of learning after an epoch; ``survivors`` is None if too many to count."""

    epoch: int
    steps: int
    survivors: int | None
    lowest: Policy
    highest: Policy
    best: Policy
    threshold: float


class Stop(enum.Enum):
    """How a run ended, with advice."""

    SINGLE = "One policy is left: more steps will not change the recommendation."
    UNDECIDED = (
        "Several policies may still be best: the recommendation is the best estimate "
        "among them, and more steps would narrow the range."
    )
    LATEST = "This learner keeps no set of surviving policies: the recommendation is its latest."
    ORACLE = "This learner knows the true system: it is an oracle, for comparison only."
    NOTHING_ELIMINATED = "No policy has been eliminated yet: more steps are needed."


@dataclass(frozen=True)
class Randomised:
    """A new policy of the class for each step, all equally likely."""

    def __str__(self) -> str:
        return "at random"


#: What a learner may recommend.
Recommendation = Policy | Controller | Randomised


@dataclass(frozen=True)
class RunResult:
    """A finished run: the true cost of every step and what was learned.

    Attributes
    ----------
    costs : array. True cost of each step.
    elapsed : float. Elapsed time, in the unit to which the average cost refers: the number of
        steps, unless steps differ in length.
    effective_alpha : float. Share of the steps that were informative about the recommended
        policy; NaN for learners that do not report it.
    """

    costs: Array
    elapsed: float
    recommendation: Recommendation
    stop: Stop
    outlook: str
    survivors: int | None
    effective_alpha: float
    records: tuple[EpochRecord, ...] = field(default=())

    @property
    def average_cost(self) -> float:
        """Mean true cost per unit of time over the whole run."""
        return float(self.costs.sum() / self.elapsed)

    @property
    def epochs(self) -> int:
        """Number of finished epochs."""
        return len(self.records)
