"""Tailored base-surge policies: a constant regular order, and expedited orders up to a level.

In every period a policy (Q, S) orders Q from the regular source, whatever the state, and
(S - x)^+ from the expedited one, where x is the expedited position: stock on hand, expedited
orders under way, and the regular orders that arrive no later than an expedited order placed now.
The class differs from dual index: no total position is held.

What lies above S in the expedited position is a random walk with steps Q - D, kept above 0, as
long as demand is met. Regular orders arrive whatever the stock, so the system is stable for Q
below the mean demand alone. The mean is not known. What is known before the first period is the
highest regular level: with a constant order, (L_r + 1) Q of regular orders are always under way,
the one that arrives and the one that is placed included, and no policy with a regular level may
have more under way than that level. So Q ranges from 0 to the highest regular level over L_r + 1,
and S over the expedited levels. Some of these Q may still be unstable; a learner has to see to
that. Q and S are any numbers in their ranges, even where levels have steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from iopea.errors import InputError
from iopea.model import check_count, check_nonnegative
from iopea.policies import Box
from iopea.types import Array, Controller, Estimates, Policy

#: Steps and batches of the path on which the best policy is found, and steps of the first search.
EVALUATION_STEPS, EVALUATION_BATCHES = 8_000_000, 64
_SEARCH_STEPS = 400_000
#: Nets of ever finer spacing, and points per parameter of each.
_NETS, _PER_AXIS = 4, 33
#: Points of the last net that are compared on the long path; so many span the next net.
_PROMISING = 16


class BaseSurge(Controller):
    """Order Q in each period from the regular source, and up to S from the expedited one.

    Parameters
    ----------
    order : float. The constant regular order [Q].
    level : float. The level up to which expedited orders are placed [S].
    lead_times : tuple of int. (L_r, L_e), by which the states are read.

    Examples
    --------
    >>> policy = BaseSurge(0.5, 2.0, (2, 0))
    >>> policy.act(np.array([[1.0, 0.25, 0.5], [3.0, 0.5, 0.5]]))
    array([[0.75, 0.5 ],
           [0.  , 0.5 ]])
    >>> print(policy)
    base-surge policy 0.5, 2
    """

    def __init__(self, order: float, level: float, lead_times: tuple[int, int]) -> None:
        self.order = check_nonnegative("The constant order", order)
        self.level = check_nonnegative("The level of expedited orders", level)
        regular, expedited = lead_times
        self.lead_times = (
            check_count("The regular lead time", regular),
            check_count("The expedited lead time", expedited, least=0),
        )
        if expedited >= regular:
            raise InputError(
                f"The expedited lead time must be shorter than the regular one, but "
                f"{expedited} >= {regular}."
            )

    @property
    def policy(self) -> Policy:
        """(Q, S)."""
        return self.order, self.level

    def act(self, states: Array) -> Array:
        """The expedited and the regular order in each state."""
        regular, expedited = self.lead_times
        if states.shape[1] != 1 + regular + expedited:
            raise InputError(
                f"A state has {1 + regular + expedited} numbers with the lead times "
                f"{regular} and {expedited}, not {states.shape[1]}."
            )
        soon = states[:, : 2 + expedited].sum(axis=1) + states[:, 1 + regular :].sum(axis=1)
        fast = np.maximum(self.level - soon, 0.0)
        return np.column_stack([fast, np.full(len(states), self.order)])

    def table(self) -> dict[str, object]:
        """Q and S."""
        return {"controller": "base-surge", "order": self.order, "level": self.level}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BaseSurge):
            return NotImplemented
        return (self.policy, self.lead_times) == (other.policy, other.lead_times)

    def __hash__(self) -> int:
        return hash((self.policy, self.lead_times))

    def __repr__(self) -> str:
        return f"BaseSurge({self.order!r}, {self.level!r}, {self.lead_times!r})"

    def __str__(self) -> str:
        return f"base-surge policy {self.order:.10g}, {self.level:.10g}"


@dataclass(frozen=True)
class SurgeSetting:
    """What is known of a system with two sources of supply and linear costs.

    Attributes
    ----------
    lead_times : tuple. Of regular and expedited orders [L_r > L_e].
    holding_cost, lost_sales_cost : float. Per unit left over, and of demand not met [h, p].
    regular_cost, expedited_cost : float. Per unit ordered [c_r, c_e].
    orders, levels : tuples. The least and the largest Q, and S.
    """

    lead_times: tuple[int, int]
    holding_cost: float
    lost_sales_cost: float
    regular_cost: float
    expedited_cost: float
    orders: tuple[float, float]
    levels: tuple[float, float]

    @property
    def policy_class(self) -> Box:
        """All (Q, S)."""
        low, high = zip(self.orders, self.levels, strict=True)
        return Box(low, high, labels=("constant order", "surge level"))

    def policy(self, order: float, level: float) -> BaseSurge:
        """The policy (Q, S) of this system."""
        return BaseSurge(order, level, self.lead_times)


class SurgeProblem(Protocol):
    """A problem that may have two sources of supply."""

    kind: str

    @property
    def base_surge(self) -> SurgeSetting | None:
        """What is known of the two sources."""


class SurgeSimulator(Protocol):
    """A true system with two sources of supply."""

    @property
    def problem(self) -> SurgeProblem:
        """What is known."""

    def surge_costs(self, policies: Array, steps: int, batches: int, seed: int) -> Estimates:
        """Batch sums of the true cost of policies (Q, S), an array (n, 2), on common noise."""


@dataclass(frozen=True)
class BestBaseSurge:
    """The best base-surge policy by simulation, with the error of its cost."""

    policy: BaseSurge
    cost: float
    standard_error: float
    steps: int
    seed: int

    def relative_gaps(self, simulator: SurgeSimulator, policies: list[BaseSurge]) -> Array:
        """How much dearer than the best policies are on the very same path, as a share."""
        points = np.array([policy.policy for policy in policies])
        cost, _ = _costs(simulator, points, self.steps, self.seed)
        return np.asarray((cost - self.cost) / abs(self.cost))


def best_base_surge(
    simulator: SurgeSimulator, steps: int = EVALUATION_STEPS, seed: int = 0
) -> BestBaseSurge:
    """Find the best base-surge policy with full knowledge of the system.

    Every policy meets one common path of demand, lost or not, from an empty system. Ever finer
    nets are searched on the first part of it, each around the best points of the one before, and
    the best of the last net on all of it.

    Parameters
    ----------
    simulator : the true system.
    steps : int. Periods of the path.
    seed : int. Of the path.
    """
    setting = simulator.problem.base_surge
    if setting is None:
        raise InputError(
            f"A {simulator.problem.kind} problem has no base-surge policies: they need two "
            "sources of supply."
        )
    steps = check_count("steps", steps, least=EVALUATION_BATCHES)
    low, high = (np.array(ends) for ends in zip(setting.orders, setting.levels, strict=True))
    least, most = low, high
    for _ in range(_NETS):
        points = Box(least, most).thinned(_PER_AXIS, _spacing(least, most))
        costs, _ = _costs(simulator, points, min(steps, _SEARCH_STEPS), seed)
        points = points[np.argsort(costs, kind="stable")[:_PROMISING]]
        reach = (most - least) / (_PER_AXIS - 1)
        least = np.maximum(points.min(axis=0) - reach, low)
        most = np.minimum(points.max(axis=0) + reach, high)
    costs, errors = _costs(simulator, points, steps, seed)
    best = int(costs.argmin())
    return BestBaseSurge(
        policy=setting.policy(*map(float, points[best])),
        cost=float(costs[best]),
        standard_error=float(errors[best]),
        steps=steps,
        seed=seed,
    )


def _spacing(least: Array, most: Array) -> float:
    """A spacing finer than that of any axis of the net."""
    widths = most - least
    return float(widths[widths > 0].min(initial=1.0)) / _PER_AXIS


def _costs(simulator: SurgeSimulator, points: Array, steps: int, seed: int) -> tuple[Array, Array]:
    """Average costs and their standard errors, by batch means."""
    estimates = simulator.surge_costs(points, steps, EVALUATION_BATCHES, seed)
    means = estimates.sums / estimates.sizes[:, None]
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(len(means))
