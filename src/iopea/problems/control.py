"""The MDP view of a system, for learners that choose an action in each state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from iopea.errors import InputError
from iopea.types import Array, Controller, Policy


class Control(ABC):
    """The states and actions of a system.

    Attributes
    ----------
    states, actions : tuples of str. Names of the components of a state and of an action.
    records : tuple of str. Further columns of the record of a step.
    highest_state, highest_action : arrays. Largest values to be expected; the least are 0.
    whole : bool. Whether states and actions are integers.
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]
    records: tuple[str, ...]
    highest_state: Array
    highest_action: Array
    whole: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a trajectory on which a controller acted."""
        return (*self.states, *self.actions, *self.records)

    @abstractmethod
    def actions_of(self, policies: Array, states: Array) -> Array:
        """Actions of policies of the class, an array (n, d), in states, an array (n, k)."""

    @abstractmethod
    def costs(self, columns: Mapping[str, Array]) -> Array:
        """The cost of each step from its record, up to a term that no action changes."""

    def lengths(self, columns: Mapping[str, Array]) -> Array:
        """The duration of each step, in the time unit of the average cost."""
        return np.ones(len(columns[self.actions[0]]))

    def as_policy(self, controller: Controller) -> Policy | None:
        """The policy of the class that acts like a controller; None if unknown."""
        return None

    def check_records(self, columns: Mapping[str, Array]) -> None:
        """Refuse states and actions that are negative, or not integers where they must be."""
        names = (*self.states, *self.actions)
        values = np.array([columns[name] for name in names])
        wrong = values < 0
        if self.whole:
            wrong |= values != np.floor(values)
        if wrong.any():
            row, step = np.unravel_index(int(wrong.argmax()), wrong.shape)
            kind = "a whole number of at least 0" if self.whole else "at least 0"
            raise InputError(
                f"{names[row]} is {values[row, step]} at step {step}: it must be {kind}."
            )

    def within(self, states: Array, actions: Array) -> Array:
        """Actions, clipped to the feasible ones in these states."""
        return np.asarray(np.clip(actions, 0.0, self.highest_action))

    def check(self, states: Array, actions: Array) -> Array:
        """Refuse actions of a wrong shape, negative ones and those that are not finite."""
        values = np.asarray(actions, dtype=np.float64)
        if values.shape != (len(states), len(self.actions)):
            raise InputError(
                f"The actions have the shape {(len(states), len(self.actions))}, "
                f"not {values.shape}."
            )
        if not (np.isfinite(values).all() and values.min(initial=0.0) >= 0):
            wrong = values[~(np.isfinite(values) & (values >= 0))][0]
            raise InputError(f"An action is {wrong}: it must be a number of at least 0.")
        return values
