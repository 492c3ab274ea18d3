"""Common parts of inventory problems: levels, the MDP view, and checks of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BeforeValidator, model_validator

from iopea.demand import Demand
from iopea.errors import InputError, ModelMismatchError, shown
from iopea.model import Model, NonNegative, Positive
from iopea.policies import Box, check_steps
from iopea.problems.control import Control
from iopea.registry import root_of
from iopea.seeds import seed_for
from iopea.systems.shop import kernel as fleet
from iopea.systems.shop.records import evening_hint
from iopea.types import Array, Indices, Trajectory, show_policy

#: Longest lead time; a longer one must be a mistake of units.
MOST_LEAD_TIME = 10_000
#: Columns that a trajectory may have besides stock and sales.
TOLD = ("ordered", "received", "gap")
#: Most consecutive periods without a record; more must be a mistake.
MOST_GAP = 100_000
#: Rounding error of an action in single precision, as a share of the highest level.
_SINGLE = 1e-6
#: Relative tolerance for rounding.
_SAME = 1e-9
#: Periods of demand from which the time back to the empty shop is estimated.
_RESTART_PERIODS = 200_000


class Levels(Model):
    """The range of base-stock levels; its length is a multiple of the step, where one is given."""

    low: NonNegative
    high: NonNegative
    step: Positive | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"The levels need low <= high, but low is {self.low} > {self.high}.")
        if self.step is not None:
            check_steps("The levels", self.low, self.high, self.step)
        return self

    @property
    def can_widen(self) -> tuple[bool, bool]:
        """Whether the range can be extended downwards, and upwards."""
        return self.low > 0, True


def own_radius(*levels: Levels) -> float:
    """The smallest step of the levels; without steps 1, or the highest level if that is less.

    >>> own_radius(Levels(low=0, high=7)), own_radius(Levels(low=0, high=7, step=0.5))
    (1.0, 0.5)
    """
    steps = [each.step for each in levels if each.step is not None]
    return min(min(steps, default=1.0), max(each.high for each in levels))


def as_levels(value: Any) -> Levels:
    """Levels, given as such or as the table of a problem file."""
    if isinstance(value, Levels):
        return value
    if not isinstance(value, dict):
        raise ValueError(
            f"must be a table such as {{ low = 0.0, high = 7.0 }}, not {shown(value)}."
        )
    return Levels(**value)


#: A field of a family: levels, or their table in a problem file.
Range = Annotated[Levels, BeforeValidator(as_levels)]


def box_of(*ranges: Levels, labels: tuple[str, ...] = (), ascending: int = 0) -> Box:
    """The box of several ranges, all of them in steps or none, each divided into as many parts.

    Of the first ``ascending`` parameters none may be above the next.

    >>> box_of(Levels(low=0, high=1, step=0.5), Levels(low=0, high=4, step=2)).count(1.0)
    9
    """
    steps = [levels.step for levels in ranges if levels.step is not None]
    if steps:  # a single value needs none
        steps = [
            1.0 if levels.step is None and levels.low == levels.high else levels.step or 0.0
            for levels in ranges
        ]
    if 0.0 in steps:
        raise InputError("Some ranges have a step and some have none: give all a step, or none.")
    ends = [levels.low for levels in ranges], [levels.high for levels in ranges]
    return Box(*ends, steps or None, labels=labels, proportional=True, ascending=ascending)


class ShopControl(Control):
    """The MDP view: states are on-hand stock and pipeline, actions are orders.

    Parameters
    ----------
    lead_times : mapping. Lead time of each source by the name of its order, in the order of the
        actions. A state lists the pipelines in the opposite order.
    high : float. The highest level [U].
    costs_of : callable. Pseudo-costs from stock, sales and the orders by name.
    orders_of : callable. Orders of policies of the class in states.
    limits : pair of float. What orders are multiples of, and the least order; 0 for none.
    """

    records = ("stock", "sales")

    def __init__(
        self,
        lead_times: dict[str, int],
        high: float,
        costs_of: Callable[[Array, Array, Mapping[str, Array]], Array],
        orders_of: Callable[[Array, Array], Array],
        limits: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        under_way = tuple(
            f"{name}_{ago}"
            for name, lead_time in reversed(lead_times.items())
            for ago in range(lead_time, 0, -1)
        )
        self.states = ("on_hand", *under_way)
        self.actions = tuple(lead_times)
        self.highest_state = np.full(len(self.states), high)
        self.highest_action = np.full(len(self.actions), high)
        self.offsets, self.leads = self.places(lead_times)
        self._high = high
        self._costs_of, self._orders_of, self._limits = costs_of, orders_of, limits

    @staticmethod
    def places(lead_times: Mapping[str, int]) -> tuple[Indices, Indices]:
        """Where the pipeline of each source begins in a state, and its lead time.

        >>> ShopControl.places({"expedited_order": 1, "regular_order": 3})
        (array([4, 1]), array([1, 3]))
        """
        leads = np.array(list(lead_times.values()), dtype=np.intp)
        after = np.cumsum(leads[::-1])[::-1]  # of a source and those before it in the state
        return 1 + after - leads, leads

    def actions_of(self, policies: Array, states: Array) -> Array:
        """Orders of policies of the class."""
        return self._orders_of(policies, states)

    def costs(self, columns: Mapping[str, Array]) -> Array:
        """Pseudo-costs, without the term of demand that no order changes."""
        orders = {name: columns[name] for name in self.actions}
        return self._costs_of(columns["stock"], columns["sales"], orders)

    def within(self, states: Array, actions: Array) -> Array:
        """Orders, reduced so that the inventory position stays at or below the highest level.

        Earlier actions have priority.
        """
        room = np.maximum(self._high - states.sum(axis=1), 0.0)
        orders = np.empty(actions.shape)
        for source in range(len(self.actions)):
            wanted = np.clip(actions[:, source], 0.0, room)
            if any(self._limits):
                # Actions in single precision may lie below a multiple by rounding.
                placed = fleet.delivered(wanted + _SINGLE * self._high, *self._limits)
                wanted = placed if self._limits[0] else np.minimum(placed, wanted)
            orders[:, source] = wanted
            room = room - orders[:, source]
        return orders

    def check(self, states: Array, actions: Array) -> Array:
        """What is delivered of the orders; refuse those that are none."""
        return fleet.delivered(super().check(states, actions), *self._limits)

    def advance(self, states: Array, orders: Array, demand: Array) -> Array:
        """Advance many shops by a period, ``states`` in place; return stock and sales."""
        return fleet.pass_periods(states, orders, demand, self.offsets, self.leads)


def check_records(trajectory: Trajectory) -> None:
    """Refuse impossible records.

    Sales above the stock are refused unless arrivals are given: these show whether the stock was
    recorded before sales or after them.
    """
    for name, values in trajectory.columns.items():
        if values.size and values.min() < 0:
            step = int(values.argmin())
            raise InputError(f"{name} is {values[step]} at step {step}: it can't be negative.")
    gap = trajectory.columns.get("gap", np.zeros(0))
    wrong = np.flatnonzero((gap != np.floor(gap)) | (gap > MOST_GAP))
    if wrong.size:
        step = int(wrong[0])
        raise InputError(
            f"gap is {gap[step]} at step {step}: give the number of periods without a record "
            f"just before the step, 0 if there are none and at most {MOST_GAP:,}."
        )
    stock, sales = trajectory["stock"], trajectory["sales"]
    above = np.flatnonzero(sales > stock)
    if above.size and "received" not in trajectory.columns:
        step = int(above[0])
        raise ModelMismatchError(
            f"sales are {sales[step]} at step {step}, above the {stock[step]} in stock: "
            f"they can't exceed it.{evening_hint(stock, sales)}"
        )


def time_to_sell(demand: Demand, seed: int) -> float:
    """Mean periods until demand adds up to 1 [E(τ)], on one long path; infinite if never."""
    path = demand.stream(seed_for("restart", seed)).draw(_RESTART_PERIODS)
    passages, periods, total = 0, 0, 0.0
    for period, wanted in enumerate(path.tolist(), start=1):
        total += wanted
        if total >= 1:
            passages, periods, total = passages + 1, period, 0.0
    return periods / passages if passages else np.inf


def most_held(family: Any, system: Any, parameters: int) -> float:
    """The most that policies of a plug-in hold, on hand and on order; infinite if not limited.

    Those of the package may hold more for a while, as dual-index policies do.
    """
    if root_of(type(family).__module__) == root_of(__name__):
        return np.inf
    grows = family.constant_orders(system, np.zeros((1, parameters))) is not None
    return np.inf if grows else float(family.most_stock(system))


def check_held(family: Any, policy: Sequence[float] | Array, held: float, most: float) -> None:
    """Refuse a family whose policies hold more than it says."""
    if held > most * (1 + _SAME):
        raise InputError(
            f"{type(family).__name__}.most_stock is {most:.6g}, but policy "
            f"({show_policy(tuple(policy))}) brings {held:.6g} on hand and on order: it must be "
            "the most that any policy brings about."
        )
