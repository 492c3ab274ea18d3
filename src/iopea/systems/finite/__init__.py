"""Finite Markov decision processes, and their policy families."""

from __future__ import annotations

from typing import Self

import numpy as np

from iopea.problems.base import Problem
from iopea.systems.finite.dynamics import Dynamics
from iopea.systems.finite.policy_list import PolicyList
from iopea.systems.finite.system import FiniteSystem


class FiniteMDP(Problem):
    """A finite problem: states, actions and policies, without probabilities and costs.

    Created from the keys of :class:`~iopea.systems.finite.system.FiniteSystem` and of
    :class:`~iopea.systems.finite.policy_list.PolicyList`, or of any other family as ``policies``.

    Examples
    --------
    >>> problem = FiniteMDP(states=3, actions=2)
    >>> len(problem.policy_class.net(1.0)), problem.constants.span
    (8, 3.0)
    """

    system_type = FiniteSystem
    families = (PolicyList,)

    @classmethod
    def example(cls) -> tuple[Self, Dynamics]:
        """A machine that wears out from state 0 to 2, and is repaired by action 1."""
        wear, repair = [[0.7, 0.3, 0], [0, 0.6, 0.4], [0, 0, 1]], [[0.9, 0.1, 0]] * 3
        dynamics = Dynamics(
            transitions=np.swapaxes([wear, repair], 0, 1),
            costs=[[0, 0.3], [0.2, 0.5], [0.9, 0.7]],
            bernoulli=True,
        )
        return cls(states=3, actions=2, policies=[[0, 0, 1], [0, 1, 1], [1, 1, 1]]), dynamics
