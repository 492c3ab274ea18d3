"""The outcomes in a trajectory of a finite problem, as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iopea.types import Array, Indices, Trajectory


class Outcomes(NamedTuple):
    """The observed outcomes of K actions in each step, one of which was taken.

    Attributes
    ----------
    states, taken : arrays (steps,). The state, and which of the K outcomes really happened.
    actions, costs, following : arrays (steps, K). The actions, their costs and next states.
    """

    states: Indices
    taken: Indices
    actions: Indices
    costs: Array
    following: Indices

    def last(self, state: int) -> int:
        """The state after the last step, or ``state`` if there was no step."""
        return int(self.following[-1, self.taken[-1]]) if self.states.size else state


def outcomes_of(
    trajectory: Trajectory, columns: tuple[str, ...], every: int | None = None
) -> Outcomes:
    """The columns of a trajectory whose policy is an action for each state.

    Parameters
    ----------
    trajectory : Trajectory.
    columns : tuple of str. State, costs and next states.
    every : int, optional. The number of actions where the outcome of each is seen.
    """
    states = trajectory["state"].astype(np.intp)
    action = np.rint(trajectory.policy).astype(np.intp)[states]
    costs, following = np.split(np.array([trajectory[name] for name in columns[1:]]).T, 2, axis=1)
    if every is None:
        taken, actions = np.zeros(len(trajectory), dtype=np.intp), action[:, None]
    else:
        taken, actions = action, np.broadcast_to(np.arange(every), costs.shape)
    return Outcomes(states, taken, actions, costs, following.astype(np.intp))
