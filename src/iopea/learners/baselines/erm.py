"""ERM in hindsight: the best policy on the noise observed so far. An oracle.

After every step at first, and whenever the data has grown by a tenth later, the learner switches to
the policy with the least cost on all past noise, lost demand included (Sinclair and others 2023,
hindsight learning). It assumes that the noise does not depend on the actions. Since it sees
unobservable demand, it is not a method for a real system: it shows how much of a learner's regret
is due to censoring.
"""

from __future__ import annotations

import numpy as np

from iopea.errors import InputError
from iopea.learners.base import Learner, Oracle
from iopea.play.frugal import until_review
from iopea.problems.base import Problem
from iopea.state import numbers, parts
from iopea.types import Play, Policy, Trajectory

#: Classes with more parameters are searched only if they have at most this many policies.
MOST_PARAMETERS, MOST_POLICIES = 2, 4096


class ERM(Learner):
    """Play the best policy in hindsight, updated as often as frugal play is.

    Parameters
    ----------
    problem : Problem. Its class must be small enough to search.
    horizon, seed : int, optional. Not used.
    start : policy, optional. What to play first; by default, the middle of the class.

    Examples
    --------
    >>> from iopea import LostSales, run
    >>> from iopea.demand import Poisson
    >>> shop = LostSales(lead_time=1, holding_cost=1, lost_sales_cost=9,
    ...                  levels={"low": 0, "high": 20, "step": 1})
    >>> run(ERM(shop), shop.simulator(Poisson(mean=3), seed=1), 5000).recommendation
    (9.0,)
    """

    name = "erm"
    needs = f"a class of at most {MOST_PARAMETERS} parameters or {MOST_POLICIES} policies"
    oracle = True
    takes_start = True
    saved = parts(policy=numbers, next=int, epoch=int)

    def __init__(
        self,
        problem: Problem,
        *,
        horizon: int | None = None,
        seed: int = 0,
        start: Policy | float | None = None,
    ) -> None:
        super().__init__(problem, horizon, seed)
        self._oracle: Oracle | None = None
        self.start = self._start_of(start)
        self._policy: Policy = self._middle() if self.start is None else self.start
        self._next = 1
        self._epoch = 1

    def _middle(self) -> Policy:
        policies = self.problem.policy_class
        some = policies.thinned(3, policies.extent / 2 or 1.0)
        middle = np.abs(some - some.mean(axis=0)).max(axis=1).argmin()
        return tuple(map(float, some[middle]))

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        """Problems whose class is small enough to search."""
        policies = problem.policy_class
        return policies.dimension <= MOST_PARAMETERS or policies.count(1.0) <= MOST_POLICIES

    def see(self, oracle: Oracle) -> None:
        """Receive the truth."""
        self._oracle = oracle

    def _ask(self) -> Play:
        return Play(self._policy, self._next - self.steps, self._epoch)

    def _tell(self, trajectory: Trajectory) -> None:
        if self.steps + len(trajectory) == self._next:
            self._policy = self._best(self._next)
            self._next += until_review(self._next)
            self._epoch += 1

    def _best(self, steps: int) -> Policy:
        if self._oracle is None:
            raise InputError(f"{self.name} is an oracle: it learns only in iopea.run().")
        return self._oracle.best_in_hindsight(steps)

    def recommend(self) -> Policy:
        """The best policy in hindsight, on all steps so far."""
        return self._best(self.steps) if self.steps else self._policy
