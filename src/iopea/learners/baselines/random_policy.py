"""A uniformly random policy of the class in every step: the cost of not learning.

It assumes nothing and uses no data.
"""

from __future__ import annotations

import numpy as np

from iopea.learners.base import Learner
from iopea.problems.base import Problem
from iopea.seeds import seed_for
from iopea.types import Array, Play, Randomised, Trajectory

#: Policies drawn at a time.
BLOCK = 1024


class RandomPolicy(Learner):
    """Draw a new policy for each step.

    Parameters
    ----------
    problem : Problem. Any.
    horizon : int, optional. Not used.
    seed : int. Seed of the drawn policies.

    Examples
    --------
    >>> from iopea import Newsvendor
    >>> stand = Newsvendor(overage_cost=1, underage_cost=4,
    ...                    levels={"low": 0, "high": 2, "step": 1})
    >>> RandomPolicy(stand, seed=1).ask().policy
    (0.0,)
    """

    name = "random"
    needs = "nothing"

    def __init__(self, problem: Problem, *, horizon: int | None = None, seed: int = 0) -> None:
        super().__init__(problem, horizon, seed)
        self._block = -1
        self._policies: Array

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        """Any problem."""
        return True

    def recommend(self) -> Randomised:
        """A random policy in every step."""
        return Randomised()

    @property
    def outlook(self) -> str:
        """Says that nothing is learned."""
        return "Nothing was learned: policies are drawn at random."

    def _ask(self) -> Play:
        block, row = divmod(self.steps, BLOCK)
        if block != self._block:
            # A block is seeded by its number, so it can be drawn again and needs no saving.
            rng = np.random.Generator(np.random.PCG64(seed_for("random", self.seed, block)))
            self._policies = self.problem.policy_class.sample(rng, BLOCK)
            self._block = block
        return Play(tuple(self._policies[row].tolist()), 1, self.steps + 1)

    def _tell(self, trajectory: Trajectory) -> None:
        pass
