"""Shops as tables: stock and orders on a grid.

The state is the on-hand stock and the pipeline, in units of the grid's radius r. Orders are integer
multiples of r, and the inventory position is at most U: the pairs are the points of a simplex.
On-hand stock is continuous, and rounded to the nearest unit when a state is looked up.

Demand only determines what is left of the stock after arrivals, y: pairs with the same y are of one
kind. Sales min(D, y) are observed, so a step reveals what would have been left of any y' <= y:
y' - min(D, y'). A value between two grid points is split between them, so that the mean is right.
Where y was rounded up, what is left of the rounded stock is known up to half a unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from iopea.errors import InputError
from iopea.problems.tabular import Revealed, Steps, Tabular
from iopea.systems.shop import kernel as fleet
from iopea.systems.shop.base import ShopControl
from iopea.systems.shop.simplex import ROUNDING, nearest_entries, nearest_ranks
from iopea.types import Array, Controller, Indices, Trajectory

#: Most units of the grid that are counted: far more than any table may have.
MOST_UNITS = 10**9


@dataclass(frozen=True)
class Simplex:
    """All non-negative integer vectors whose sum is at most a total, in lexicographic order.

    >>> Simplex(2, 2).points().tolist()
    [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0]]
    >>> Simplex(2, 2).count, Simplex(2, 2).ranks(np.array([[1, 1]]))
    (6, array([4]))
    """

    dimension: int
    total: int

    @property
    def count(self) -> int:
        """Number of points, computed without listing them."""
        return math.comb(self.total + self.dimension, self.dimension)

    def points(self) -> Indices:
        """All points, an array (count, dimension)."""
        rows = np.zeros((1, 0), dtype=np.int64)
        for _ in range(self.dimension):
            room = self.total - rows.sum(axis=1)
            ends = np.cumsum(room + 1)
            column = np.arange(ends[-1]) - np.repeat(ends - room - 1, room + 1)
            rows = np.column_stack([np.repeat(rows, room + 1, axis=0), column])
        return rows

    def sizes(self) -> Indices:
        """Number of points by dimension and total: an array (dimension + 1, total + 2), from -1."""
        table = np.zeros((self.dimension + 1, self.total + 2), dtype=np.int64)
        table[0, 1:] = 1
        for row in range(1, self.dimension + 1):
            table[row] = np.cumsum(table[row - 1])
        return table

    def ranks(self, points: Indices) -> Indices:
        """The ranks of points, an array (n, dimension)."""
        return nearest_ranks(points.astype(np.float64), 1.0, self.sizes())


def _nearest(values: Array) -> Indices:
    """Nearest integers; halves are rounded up, so that stock is always rounded the same way."""
    return np.floor(values + (0.5 + ROUNDING)).astype(np.int64)


class ShopTable(Tabular):
    """A shop with any number of sources as a table.

    Parameters
    ----------
    control : ShopControl. States and actions of the shop.
    radius : float. A unit of the grid [r].
    whole : bool. Whether levels have steps, so that a finer grid would not help.
    """

    advice = ": a larger radius, or levels in larger steps, make it smaller"

    def __init__(self, control: ShopControl, radius: float, whole: bool = False) -> None:
        self.control, self.radius, self._whole = control, radius, whole
        units = float(control.highest_state[0]) / radius + ROUNDING
        self.units = int(min(units, MOST_UNITS))
        self.width = len(control.states)
        self._places = Simplex(self.width, self.units)
        self._pairs = Simplex(self.width + len(control.actions), self.units)
        self.states, self.pairs = self._places.count, self._pairs.count
        self.outcomes = self.kinds = self.units + 1

    def finer(self) -> ShopTable | None:
        """A grid of half the radius."""
        return None if self._whole else ShopTable(self.control, self.radius / 2)

    @cached_property
    def _sizes(self) -> Indices:
        return self._places.sizes()

    @cached_property
    def _pair_sizes(self) -> Indices:
        return self._pairs.sizes()

    @cached_property
    def _points(self) -> Indices:
        return self._pairs.points()

    @cached_property
    def _passed(self) -> tuple[Indices, Indices]:
        """Next state of each pair if nothing is sold, and its stock after arrivals."""
        states = self._points[:, : self.width].astype(np.float64)
        orders = self._points[:, self.width :].astype(np.float64)
        records = self.control.advance(states, orders, np.zeros((self.pairs, 1)))
        return states.astype(np.int64), records[:, 0].astype(np.int64)

    @cached_property
    def first(self) -> Indices:
        """Pairs are in the order of their states."""
        states = self._places.ranks(self._points[:, : self.width])
        return np.searchsorted(states, np.arange(self.states + 1))

    @cached_property
    def kind_of(self) -> Indices:
        """The stock after arrivals, in units."""
        return self._passed[1]

    @cached_property
    def following(self) -> Indices:
        """An outcome is the leftover stock, in units."""
        states, stock = self._passed
        following = np.full((self.pairs, self.outcomes), -1)
        for left in range(self.outcomes):
            possible = stock >= left
            there = states[possible]
            there[:, 0] = left
            following[possible, left] = self._places.ranks(there)
        return following

    @cached_property
    def outcome_costs(self) -> Array:
        """Pseudo-costs of the shop, without the demand term that no order changes."""
        stock = self.kind_of[:, None] * np.ones(self.outcomes)
        left = np.minimum(np.arange(self.outcomes), stock)
        columns = {"stock": stock, "sales": stock - left}
        for number, name in enumerate(self.control.actions):
            columns[name] = self._points[:, [self.width + number]] * np.ones(self.outcomes)
        flat = {name: self.radius * each.ravel() for name, each in columns.items()}
        return self.control.costs(flat).reshape(stock.shape)

    def look_up(self, states: Array, numbers: Array) -> Array:
        """The rows of an array (S, k) for real states, which are rounded to the grid.

        In states that exceed the table, the last orders are reduced first. The table never leads
        there, but records of a real shop may.
        """
        return nearest_entries(states, self.radius, self._sizes, numbers)

    def follow(
        self, control: ShopControl, state: Array, demand: Array, orders: Array
    ) -> tuple[Array, Array]:
        """States and orders of a shop, period by period, under an array (S, sources) of orders."""
        if self.width != len(state):
            raise InputError(f"A state of this table has {self.width} numbers, not {len(state)}.")
        return fleet.follow_table(
            state, demand, self.radius, self._sizes, orders, control.offsets, control.leads
        )

    def playing(self, choice: Indices) -> TableController:
        """A controller that looks the state up."""
        return TableController(self, choice)

    def orders(self, choice: Indices) -> Array:
        """The orders of one pair per state, an array (S, sources)."""
        return np.asarray(self.radius * self._points[choice, self.width :], dtype=np.float64)

    def steps(self, trajectory: Trajectory) -> Steps:
        """Steps as pairs and outcomes, rounded to the grid."""
        columns = trajectory.columns
        names = (*self.control.states, *self.control.actions)
        amounts = np.column_stack([columns[name] for name in names])
        pairs = nearest_ranks(amounts, self.radius, self._pair_sizes)
        left = _nearest((columns["stock"] - columns["sales"]) / self.radius)
        outcomes = np.minimum(left, self.kind_of[pairs])
        return Steps(pairs, outcomes, self.control.costs(columns))

    def revealed(self, trajectory: Trajectory) -> Revealed:
        """The leftover of any stock up to the observed one, in each step."""
        stock, sales = trajectory["stock"] / self.radius, trajectory["sales"] / self.radius
        most = np.minimum(_nearest(stock), self.units)
        ends = np.cumsum(most + 1)
        kinds = np.arange(ends[-1]) - np.repeat(ends - most - 1, most + 1)
        left = np.maximum(kinds - np.repeat(sales, most + 1), 0.0)
        lower = np.floor(left + ROUNDING).astype(np.int64)
        share = np.maximum(left - lower, 0.0)
        share[share < ROUNDING] = 0.0
        outcomes = np.column_stack([lower, np.minimum(lower + 1, kinds)]).ravel()
        weights = np.column_stack([1 - share, share]).ravel()
        return Revealed(np.repeat(kinds, 2), outcomes, weights, np.zeros(weights.size), kinds)


class TableController(Controller):
    """Looks up the orders of a state in a table."""

    def __init__(self, table: ShopTable, choice: Indices) -> None:
        self._table, self._orders = table, table.orders(choice)

    def act(self, states: Array) -> Array:
        """The orders at the nearest states of the table."""
        return self._table.look_up(states, self._orders)

    def follow(self, control: ShopControl, state: Array, demand: Array) -> tuple[Array, Array]:
        """States and orders of a shop over periods with this demand, an array (n, 1)."""
        return self._table.follow(control, state, demand, self._orders)

    def table(self) -> dict[str, object]:
        """The radius and the orders by state, in lexicographic order of the states."""
        return {"radius": self._table.radius, "orders": self._orders.tolist()}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TableController)
            and self._table.radius == other._table.radius
            and np.array_equal(self._orders, other._orders)
        )

    def __hash__(self) -> int:
        return hash((self._table.radius, self._orders.tobytes()))

    def __str__(self) -> str:
        return f"a table of the orders in {len(self._orders)} states"
