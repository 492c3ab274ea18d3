r"""UCRL2: optimism over a set of models that may be true (Jaksch, Ortner and Auer 2010).

After t steps, a pair of state and action that was taken n times has an average cost
:math:`\hat c` and frequencies :math:`\hat p` of its M possible outcomes. The set of models holds
all costs and probabilities with

.. math:: |c - \hat c| \le b\, R \sqrt{\frac{7 \log(2 P t/\delta)}{2 n}}, \qquad
          \sum_o |q(o) - \hat p(o)| \le b \sqrt{\frac{14\, M \log(2 A t/\delta)}{n}},

where P is the number of pairs, A that of actions, and R the range of the cost of the pair. Extended
value iteration finds the model of the set and the policy of the least average cost; that policy is
played until the times of some pair have doubled. With b = 1 these are the radii of the theorem,
with the outcomes that are possible in the place of all states, as Anselmi, Gaujal and Rebuffi
(2022) have it for queues. They are so wide that most of a practical run is spent on trying out, so
that b, the *bonus*, is tuned.

Assumes finitely many states and actions, which outcomes are possible in each, bounds on their
costs, and that every state can be got to from every other: of one that can't it hopes for the best
for ever. Sees states, actions and costs, and uses each step for the pair alone that was played.
Recommends what is best by the plain averages, of the actions that were tried.
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
    horizon : int, optional. Not needed.
    seed : int. Of no effect: nothing is drawn.
    bonus : float, optional. Factor of the radii [b]; 1 is the theorem's. Tuned if not given.
    delta : float. Probability with which the guarantee may fail, at b = 1 [δ].
    radius : float, optional. Unit of stock and orders, where they are not whole; the problem's own
        if not given.

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

    def _told_of(self, trajectory: Trajectory) -> Revealed:
        return self._table.own(trajectory)

    @property
    def _mean_costs(self) -> Array:
        totals = self._counts.sum(axis=1)
        means = self._costs / np.where(totals > 0, totals, 1.0)
        # Where steps differ in length, a few short ones may seem to cost more than any can.
        return np.clip(means, *self._table.cost_bounds)

    def _optimist(self) -> Plan:
        table = self._table
        low, high = table.cost_bounds
        times = np.maximum(self._seen, 1)
        steps = max(self._told, 1)
        of_costs = 7 * math.log(2 * table.pairs * steps / self.delta) / (2 * times)
        actions = int(np.diff(table.first).max())
        outcomes = (table.following >= 0).sum(axis=1)
        of_laws = 14 * outcomes * math.log(2 * actions * steps / self.delta) / times
        costs = self._mean_costs - self.bonus * (high - low) * np.sqrt(of_costs)
        distances = np.minimum(self.bonus * np.sqrt(of_laws), ANYTHING)
        return self._plan(np.maximum(costs, low), distances, hope=True)
