"""The best policy of the class, found with full knowledge of the system. An oracle.

Regret is measured against its cost; playing it shows how much of a run's cost is noise. It sees the
truth and is not a method for a real system.
"""

from __future__ import annotations

from iopea.errors import InputError
from iopea.learners.base import Learner, Oracle
from iopea.problems.base import Problem
from iopea.types import Play, Policy, Trajectory

#: Steps asked for at a time.
PLAY = 2**20


class Optimal(Learner):
    """Play the best policy of the class from the first step on.

    Parameters
    ----------
    problem : Problem. Any.
    horizon, seed : int, optional. Not used.
    """

    name = "optimal"
    needs = "nothing"
    oracle = True

    def __init__(self, problem: Problem, *, horizon: int | None = None, seed: int = 0) -> None:
        super().__init__(problem, horizon, seed)
        self._policy: Policy | None = None

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        """Any problem."""
        return True

    def see(self, oracle: Oracle) -> None:
        """Receive the best policy."""
        self._policy = oracle.best_policy()

    def recommend(self) -> Policy:
        """The best policy."""
        if self._policy is None:
            raise InputError(f"{self.name} is an oracle: it plays only in iopea.run().")
        return self._policy

    def _ask(self) -> Play:
        return Play(self.recommend(), PLAY, 1)

    def _tell(self, trajectory: Trajectory) -> None:
        pass
