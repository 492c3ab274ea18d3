"""A problem as a table of states and actions, for learners that count.

A *pair* is a state with an action that is allowed there; the pairs of a state stand one after the
other. The *outcomes* of a pair are numbered, and each leads to a known state. Pairs of the same
*kind* have the same law of outcomes, whatever the states these lead to: what is seen of one is seen
of all of them.

A step tells of the kind of its own pair, and often of more: what else would have happened, by the
same noise, had another pair been there. Both are counts of outcomes by kind, so that nothing is
ever kept by pair of states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import NamedTuple

import numpy as np

from iopea.errors import InputError
from iopea.types import Array, Controller, Indices, Policy, Trajectory


class Steps(NamedTuple):
    """What happened in observed steps.

    Attributes
    ----------
    pairs, outcomes : arrays (n,). Pair and outcome of each step.
    costs : array (n,). Its cost, up to a term that no action changes.
    """

    pairs: Indices
    outcomes: Indices
    costs: Array


class Revealed(NamedTuple):
    """What observed steps tell of pairs or their kinds, in the order of the steps.

    Attributes
    ----------
    kinds, outcomes, weights : arrays (m,). Outcomes, and how much of an observation each is: what
        is known in expectation alone counts in parts, and a step that lasts longer for more.
    costs : array (m,). Costs that were seen with them.
    seen : array (k,). The kinds of which each step told, each once per step at the most.
    """

    kinds: Indices
    outcomes: Indices
    weights: Array
    costs: Array
    seen: Indices


class Tabular(ABC):
    """States and actions of a problem, numbered.

    The numbers are known at once; the arrays are made when they are first asked for.

    Attributes
    ----------
    states, pairs, outcomes, kinds : int. How many there are; outcomes of any one pair [S, P, M].
    start : int. The state before the first step.
    advice : str. How to make it smaller, to end a sentence.
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
        """Where the pairs of each state begin, and their number: an array (S + 1,)."""

    @cached_property
    @abstractmethod
    def following(self) -> Indices:
        """The state that each outcome leads to; -1 where it can't happen: an array (P, M)."""

    @cached_property
    @abstractmethod
    def kind_of(self) -> Indices:
        """The kind of each pair, an array (P,)."""

    @cached_property
    @abstractmethod
    def outcome_costs(self) -> Array | None:
        """What outcomes cost, an array (P, M), where they fix that; None if not."""

    @cached_property
    def cost_bounds(self) -> tuple[Array, Array]:
        """The least and the largest cost of each pair, arrays (P,)."""
        costs = self.outcome_costs
        if costs is None:
            raise InputError("A table whose outcomes don't fix costs must say its cost_bounds.")
        possible = self.following >= 0
        return (
            np.where(possible, costs, np.inf).min(axis=1),
            np.where(possible, costs, -np.inf).max(axis=1),
        )

    def finer(self) -> Tabular | None:
        """The same on a finer grid; None where there is no grid, or one that can't be refined."""
        return None

    @abstractmethod
    def playing(self, choice: Indices) -> Policy | Controller:
        """How to play one pair per state, an array (S,)."""

    @abstractmethod
    def steps(self, trajectory: Trajectory) -> Steps:
        """Observed steps as pairs and outcomes."""

    def own(self, trajectory: Trajectory) -> Revealed:
        """What observed steps tell of their own pairs."""
        pairs, outcomes, costs = self.steps(trajectory)
        return Revealed(pairs, outcomes, np.ones(pairs.size), costs, pairs)

    @abstractmethod
    def revealed(self, trajectory: Trajectory) -> Revealed:
        """What observed steps tell of kinds of pairs, their own included.

        Costs are of use only where outcomes don't fix them.
        """


class EveryAction(Tabular):
    """A table in which every action is allowed in every state, and policies list one of each."""

    def __init__(self, states: int, actions: int, outcomes: int) -> None:
        self.states, self.actions, self.outcomes = states, actions, outcomes
        self.pairs = self.kinds = states * actions

    @cached_property
    def first(self) -> Indices:
        """As many pairs for each state as there are actions."""
        return np.arange(self.states + 1) * self.actions

    @cached_property
    def kind_of(self) -> Indices:
        """Each pair has a law of its own."""
        return np.arange(self.pairs)

    def playing(self, choice: Indices) -> Policy:
        """The policy of the class that lists these actions."""
        return tuple(map(float, choice - self.first[:-1]))
