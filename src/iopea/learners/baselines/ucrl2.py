r"""UCRL2: optimism over a confidence set of models (Jaksch, Ortner and Auer 2010).

After t steps, a state-action pair that was visited n times has an average cost :math:`\hat c` and
frequencies :math:`\hat p` of its M possible outcomes. The confidence set contains all costs and
probabilities with

.. math:: |c - \hat c| \le b\, R \sqrt{\frac{7 \log(2 P t/\delta)}{2 n}}, \qquad
          \sum_o |q(o) - \hat p(o)| \le b \sqrt{\frac{14\, M \log(2 A t/\delta)}{n}},

where P is the number of pairs, A that of actions, and R the range of the cost of the pair. Extended
value iteration finds the model in the set and the policy with the least average cost; that policy
is played until the visit count of some pair has doubled. With b = 1 these are the radii of the
theorem, with the possible outcomes in place of all states, as in Anselmi, Gaujal and Rebuffi (2022)
for queues. They are so wide that a practical run would mostly explore, so b, the *bonus*, is tuned.

Assumes finitely many states and actions, and that every state can be reached from every other: it
stays optimistic forever about a state that can't. Knows the possible outcomes and bounds on costs.
Observes states, actions and costs, and uses each step only for the pair that was played.
Recommends the best policy under the estimated model, among the actions that were tried.
"""

from __future__ import annotations

import math

import numpy as np

from iopea.learners.baselines.doubling import ANYTHING, DoublingLearner
from iopea.learners.baselines.planning import Plan
from iopea.problems.tabular import Revealed, Tabular
from iopea.types import Array, Indices, Trajectory


class UCRL2(DoublingLearner):
    """Learn by optimism over confidence sets.

    Parameters
    ----------
    problem : Problem. One that can be written as a table.
    horizon : int, optional. Not used.
    seed : int. Not used: the learner is deterministic.
    bonus : float, optional. Factor of the radii [b]; 1 is the theorem's. Tuned if not given.
    delta : float. Probability with which the guarantee may fail, at b = 1 [δ].
    radius : float, optional. Unit of stock and orders, where they are continuous; by default, the
        problem's own.

    Examples
    --------
    >>> from iopea.systems.finite import FiniteMDP
    >>> learner = UCRL2(FiniteMDP(states=2, actions=2))
    >>> learner.ask()
    Play(policy=(0.0, 0.0), steps=1, epoch=1, until_start=False, copies=1)
    """

    name = "ucrl2"

    def _kinds_of(self, table: Tabular) -> Indices:
        return np.arange(table.pairs)

    def _revealed(self, trajectory: Trajectory) -> Revealed:
        return self._table.own(trajectory)

    @property
    def _mean_costs(self) -> Array:
        totals = self._counts.sum(axis=1)
        means = self._costs / np.where(totals > 0, totals, 1.0)
        # Where steps differ in length, the average over a few short ones may exceed the bounds.
        return np.clip(means, *self._table.cost_bounds)

    def _optimist(self) -> Plan:
        table = self._table
        low, high = table.cost_bounds
        times = np.maximum(self._seen, 1)
        steps = max(self._told, 1)
        of_costs = 7 * math.log(2 * table.pairs * steps / self.delta) / (2 * times)
        actions = int(np.diff(table.first).max())
        outcomes = (table.following >= 0).sum(axis=1)
        of_outcomes = 14 * outcomes * math.log(2 * actions * steps / self.delta) / times
        costs = self._mean_costs - self.bonus * (high - low) * np.sqrt(of_costs)
        distances = np.minimum(self.bonus * np.sqrt(of_outcomes), ANYTHING)
        return self._plan(np.maximum(costs, low), distances, optimistic=True)
