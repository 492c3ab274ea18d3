"""Common base of tabular learners that plan by optimism, in episodes that end by doubling.

In each episode one action per state is played, the best one under the most favourable model that
the counts allow. An episode ends when the visit count of a kind of state-action pair has doubled,
after at least one visit (Jaksch, Ortner and Auer 2010). To stop there exactly, ``ask`` requests as
many steps as must pass before that can happen: each kind is observed at most once per step, and
its states take some steps to reach.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from decimal import Decimal

import numpy as np

from iopea.errors import InputError
from iopea.learners.base import Learner
from iopea.learners.baselines.hyperparameters import chosen
from iopea.learners.baselines.planning import FAR, Plan, free_steps, plan
from iopea.model import check_nonnegative, check_positive, check_share
from iopea.problems.base import Problem
from iopea.problems.tabular import Revealed, Tabular
from iopea.state import array, parts
from iopea.types import Array, Controller, Indices, Mask, Play, Policy, Trajectory

#: Most state-action pairs of a table, and most outcomes of all pairs together.
MOST_PAIRS, MOST_OUTCOMES = 2**15, 2**24
#: Precision of the average cost when planning, as a share of the range of costs; and that of
#: optimistic planning, divided by the root of the number of steps: a hundredth of the theorem's.
TOLERANCE, OPTIMISTIC_TOLERANCE = 1e-6, 1e-2
#: Any two probability vectors are within this L1 distance.
ANYTHING = 2.0
#: Steps processed at a time, which limits the memory for what they reveal.
_AT_ONCE = 2**12
#: Steps asked for at a time where an episode can't end.
_MOST_ASKED = 2**20


class DoublingLearner(Learner):
    """Counts outcomes by kind of pair, and plans again when the count of a kind has doubled."""

    needs = f"a table of at most {MOST_PAIRS} pairs of state and action"
    saved = parts(
        counts=array, costs=array, seen=array, before=array, at=int, episode=int, told=int,
        choice=array,
    )  # fmt: skip
    _choice: Indices
    _playing: Policy | Controller

    def __init__(
        self,
        problem: Problem,
        *,
        horizon: int | None = None,
        seed: int = 0,
        bonus: float | None = None,
        delta: float = 0.05,
        radius: float | None = None,
    ) -> None:
        self.radius = None if radius is None else check_positive("radius", radius)
        super().__init__(problem, horizon, seed)
        values = chosen(self.name, problem.kind, bonus=bonus)
        self.bonus = check_nonnegative("bonus", values["bonus"])
        self.delta = check_share("delta", delta)
        table = problem.tabular(self.radius)
        if table is None or not _moderate(table):
            raise InputError(
                f"{self.name} needs {self.needs}; with a radius of {self.radius} there are "
                f"{_size(table)}: give a larger one."
            )
        self._table = table if self.radius is not None else self._refined(table)
        table = self._table
        self._kinds = self._kinds_of(table)
        number = int(self._kinds.max()) + 1
        self._counts = np.zeros((number, table.outcomes))
        self._costs = np.zeros(number)
        self._seen: Indices = np.zeros(number, dtype=np.int64)
        self._before = self._seen.copy()
        self._at, self._episode, self._told = table.start, 1, 0
        self._choose(self._optimist().choice)

    def settings(self) -> dict[str, object]:
        """The learner's settings as JSON values."""
        own = {"bonus": self.bonus, "delta": self.delta, "radius": self.radius}
        return {**super().settings(), **own}

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        """Problems with a table of moderate size."""
        table = problem.tabular()
        return table is not None and _moderate(table)

    def _suits(self, problem: Problem) -> bool:
        # If the user gave a radius, the size of that table is checked later, in __init__.
        own = self.radius is None or problem.tabular() is None
        return self.fits(problem) if own else True

    @classmethod
    def lacks(cls, problem: Problem) -> str:
        """The size of the table."""
        table = problem.tabular()
        if table is None:
            return ", and no table in which any action may be taken in any state"
        return f", and {_size(table)}{table.advice}"

    def _refined(self, table: Tabular) -> Tabular:
        """The table to use where no radius is given."""
        return table

    @abstractmethod
    def _kinds_of(self, table: Tabular) -> Indices:
        """The kind of each pair, an array (P,); pairs of one kind share their counts."""

    @abstractmethod
    def _revealed(self, trajectory: Trajectory) -> Revealed:
        """The outcomes and costs that a trajectory reveals, by kind of pair."""

    @property
    @abstractmethod
    def _mean_costs(self) -> Array:
        """The average cost of each pair, an array (P,); arbitrary for pairs never observed."""

    @abstractmethod
    def _optimist(self) -> Plan:
        """The best plan under the most favourable model."""

    def _plan(self, costs: Array, distances: Array, optimistic: bool) -> Plan:
        """The best plan under the estimated probabilities and these costs.

        A pair never observed gets the least cost and the best next state if ``optimistic``, else
        the largest cost and equally likely outcomes.
        """
        table = self._table
        low, high = table.cost_bounds
        known, probabilities = self._known, self._probabilities
        if not known.all():
            possible = table.following[~known] >= 0
            probabilities[~known] = possible / possible.sum(axis=1, keepdims=True)
        share = TOLERANCE
        if optimistic:
            share = OPTIMISTIC_TOLERANCE / math.sqrt(max(self._told, 1))
        return plan(
            np.where(known, costs, low if optimistic else high),
            probabilities,
            table.first,
            table.following,
            share * (float(high.max() - low.min()) or 1.0),
            np.where(known, distances, ANYTHING if optimistic else 0.0),
        )

    def recommend(self) -> Policy | Controller:
        """The best policy under the estimated model, without a bonus."""
        exactly = np.zeros(self._table.pairs)
        return self._table.playing(self._plan(self._mean_costs, exactly, optimistic=False).choice)

    @property
    def _known(self) -> Mask:
        """Which pairs have been observed."""
        return np.asarray(self._seen[self._kinds] > 0)

    @property
    def _probabilities(self) -> Array:
        """Estimated probabilities of the outcomes of each pair; 0 for pairs never observed."""
        counts = np.maximum(self._counts, 0.0)
        totals = np.maximum(counts.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return np.asarray((counts / totals)[self._kinds])

    @property
    def episode(self) -> int:
        """The episode in progress [k]."""
        return self._episode

    def _ask(self) -> Play:
        missing = np.maximum(self._before, 1) - (self._seen - self._before)
        table = self._table
        steps = free_steps(self._at, self._choice, self._kinds, table.following, missing)
        asked = _MOST_ASKED if steps >= FAR else max(1, steps)
        return Play(self._playing, asked, self._episode)

    def _tell(self, trajectory: Trajectory) -> None:
        for part in _parts(trajectory):
            revealed = self._revealed(part)
            # Added one by one, so that the sums don't depend on how the steps were split.
            np.add.at(self._counts, (revealed.kinds, revealed.outcomes), revealed.weights)
            np.add.at(self._costs, revealed.kinds, revealed.costs)
            np.add.at(self._seen, revealed.seen, 1)
        self._told += len(trajectory)
        pairs, outcomes, _ = self._table.steps(part)
        kind = self._kinds[pairs[-1]]
        self._at = int(self._table.following[pairs[-1], outcomes[-1]])
        if self._seen[kind] - self._before[kind] >= max(self._before[kind], 1):
            self._before = self._seen.copy()
            self._episode += 1
            self._choose(self._optimist().choice)

    def _choose(self, choice: Indices) -> None:
        self._choice, self._playing = choice, self._table.playing(choice)

    def _loaded(self) -> None:
        self._choose(self._choice)


def _parts(trajectory: Trajectory) -> Iterator[Trajectory]:
    """Split a trajectory into parts of at most ``_AT_ONCE`` steps."""
    if len(trajectory) <= _AT_ONCE:
        yield trajectory
        return
    for first in range(0, len(trajectory), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        columns = {name: each[part] for name, each in trajectory.columns.items()}
        yield Trajectory(trajectory.played, **columns)


def _moderate(table: Tabular) -> bool:
    return table.pairs <= MOST_PAIRS and table.pairs * table.outcomes <= MOST_OUTCOMES


def _size(table: Tabular | None) -> str:
    """The size of a table, in words; its numbers may be too large for floats."""
    if table is None:
        return "none"
    numbers = (table.pairs, table.states, table.pairs * table.outcomes)
    pairs, states, outcomes = (f"{Decimal(number):.2g}".lower() for number in numbers)
    return f"about {pairs} pairs ({states} states) with {outcomes} outcomes in all"
