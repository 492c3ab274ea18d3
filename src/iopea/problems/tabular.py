"""A problem as a table of states and actions, for tabular learners.

A *pair* is a state with a feasible action; pairs are grouped by state. The *outcomes* of a pair are
numbered, and each leads to a known state. Pairs of the same *kind* have the same distribution of
outcomes, whatever states these lead to, so an observation of one pair counts for all of its kind.

A step reveals an outcome of its own pair, and often of others: what would have happened, with the
same noise, at another pair. Both are counted as outcomes by kind, so no counts by pair of states
are needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import NamedTuple

import numpy as np

from iopea.errors import InputError
from iopea.types import Array, Controller, Indices, Policy, Trajectory


class Steps(NamedTuple):
    """Observed steps as state-action pairs and outcomes.

    Attributes
    ----------
    pairs, outcomes : arrays (n,). Pair and outcome of each step.
    costs : array (n,). Its cost, up to a term that no action changes.
    """

    pairs: Indices
    outcomes: Indices
    costs: Array


class Revealed(NamedTuple):
    """Outcomes that observed steps reveal, by kind of pair, in the order of the steps.

    Attributes
    ----------
    kinds, outcomes, weights : arrays (m,). Outcomes and their weights: an outcome that is known
        only in expectation has fractional weights, and a longer step a larger one.
    costs : array (m,). Costs observed with them.
    seen : array (k,). The kinds that each step reveals, each at most once per step.
    """

    kinds: Indices
    outcomes: Indices
    weights: Array
    costs: Array
    seen: Indices


class Tabular(ABC):
    """States and actions of a problem, numbered.

    The sizes are known at once; the arrays are computed at first use.

    Attributes
    ----------
    states, pairs, outcomes, kinds : int. Their numbers; outcomes are those of one pair [S, P, M].
    start : int. The initial state.
    advice : str. How to make the table smaller, as the end of a sentence.
    """

    states: int
    pairs: int
    outcomes: int
    kinds: int
    start: int = 0
    advice: str = ""

    @cached_property
    @abstractmethod
    def first(self) -> Indices:
        """The first pair of each state, then the number of pairs: an array (S + 1,)."""

    @cached_property
    @abstractmethod
    def following(self) -> Indices:
        """The state that each outcome leads to; -1 where impossible: an array (P, M)."""

    @cached_property
    @abstractmethod
    def kind_of(self) -> Indices:
        """The kind of each pair, an array (P,)."""

    @cached_property
    @abstractmethod
    def outcome_costs(self) -> Array | None:
        """The cost of each outcome, an array (P, M); None if outcomes don't determine costs."""

    @cached_property
    def cost_bounds(self) -> tuple[Array, Array]:
        """The least and the largest cost of each pair, arrays (P,)."""
        costs = self.outcome_costs
        if costs is None:
            raise InputError(
                "A table whose outcomes don't determine costs must define cost_bounds."
            )
        possible = self.following >= 0
        return (
            np.where(possible, costs, np.inf).min(axis=1),
            np.where(possible, costs, -np.inf).max(axis=1),
        )

    def finer(self) -> Tabular | None:
        """The table on a finer grid; None where there is no grid, or it can't be refined."""
        return None

    @abstractmethod
    def playing(self, choice: Indices) -> Policy | Controller:
        """The policy or controller that plays one pair per state, an array (S,)."""

    @abstractmethod
    def steps(self, trajectory: Trajectory) -> Steps:
        """Observed steps as pairs and outcomes."""

    def own(self, trajectory: Trajectory) -> Revealed:
        """The outcomes of the pairs that were played."""
        pairs, outcomes, costs = self.steps(trajectory)
        return Revealed(pairs, outcomes, np.ones(pairs.size), costs, pairs)

    @abstractmethod
    def revealed(self, trajectory: Trajectory) -> Revealed:
        """All outcomes that the steps reveal, by kind of pair.

        Costs are used only where outcomes don't determine them.
        """


class EveryAction(Tabular):
    """A table in which every action is feasible in every state; a policy lists one per state."""

    def __init__(self, states: int, actions: int, outcomes: int) -> None:
        self.states, self.actions, self.outcomes = states, actions, outcomes
        self.pairs = self.kinds = states * actions

    @cached_property
    def first(self) -> Indices:
        """Each state has one pair per action."""
        return np.arange(self.states + 1) * self.actions

    @cached_property
    def kind_of(self) -> Indices:
        """Each pair is its own kind."""
        return np.arange(self.pairs)

    def playing(self, choice: Indices) -> Policy:
        """The policy of the class that lists these actions."""
        return tuple(map(float, choice - self.first[:-1]))
