r"""Feedback graph: optimism with all that a step reveals.

Learning from the outcomes of more pairs of state and action than the one that was played is due to
Dann, Mansour, Mohri, Sekhari and Sridharan (2020), for episodes of a fixed length; here it is
carried to average costs. Where the problem says that a step also shows what would have happened at
other pairs, all of it is counted: in a shop, what would have been left of any smaller stock; in a
queue, what a lower service rate would have done. Pairs of which outcomes have one law are counted
together.

With n observations after t steps, frequencies :math:`\hat p` of outcomes and the costs
:math:`\hat c` that go with them, a pair is taken to cost

.. math:: \hat c - b R \sqrt{\log(2 K t / \delta) / n},

where K is the number of kinds of pairs, R the range of all costs and b, the *bonus*, is tuned.
The policy of the least average cost of this model is played until the observations of some pair,
those on the side included, have doubled.

Assumes finitely many states and actions, or a grid of them; which outcomes are possible; what is
revealed; and bounds on costs, or their dependence on outcomes. Sees what was recorded of each
step. Recommends what is best by the plain averages, of what was seen.
"""

from __future__ import annotations

import math

import numpy as np

from iopea.learners.baselines.doubling import DoublingLearner
from iopea.learners.baselines.planning import Plan
from iopea.problems.tabular import Revealed, Tabular
from iopea.types import Array, Indices, Trajectory

#: Outcomes of all pairs up to which a table is refined.
MOST_PLANNED = 2**19


class FeedbackGraph(DoublingLearner):
    """Learn by optimism from all that is revealed.

    Parameters
    ----------
    problem : Problem. One that can be written as a table.
    horizon : int, optional. Not needed.
    seed : int. Of no effect: nothing is drawn.
    bonus : float, optional. Factor of the bonus on costs [b]. Tuned if not given.
    delta : float. Probability in the logarithm of the bonus [δ].
    radius : float, optional. Unit of stock and orders, where they are not whole. If not given, the
        problem's own is halved as long as the table stays small enough to plan in at once: what is
        revealed grows with the table, so that a finer one is learned as fast.

    Examples
    --------
    >>> from iopea.systems.lost_sales import LostSales
    >>> shop = LostSales(lead_time=0, holding_cost=1, lost_sales_cost=9,
    ...                  levels={"low": 0, "high": 3, "step": 1})
    >>> play = FeedbackGraph(shop).ask()
    >>> play.steps, play.policy.table()
    (1, {'radius': 1.0, 'orders': [[3.0], [2.0], [1.0], [0.0]]})
    """

    name = "feedback-graph"

    def _refined(self, table: Tabular) -> Tabular:
        while True:
            finer = table.finer()
            if finer is None or finer.pairs * finer.outcomes > MOST_PLANNED:
                return table
            table = finer

    def _kinds_of(self, table: Tabular) -> Indices:
        return table.kind_of

    def _told_of(self, trajectory: Trajectory) -> Revealed:
        return self._table.revealed(trajectory)

    @property
    def _mean_costs(self) -> Array:
        by_outcome = self._table.outcome_costs
        if by_outcome is not None:
            return np.asarray((self._probabilities * by_outcome).sum(axis=1))
        return np.asarray((self._costs / np.maximum(self._seen, 1))[self._kinds])

    def _optimist(self) -> Plan:
        table = self._table
        low, high = table.cost_bounds
        logarithm = math.log(2 * len(self._seen) * max(self._told, 1) / self.delta)
        widths = np.sqrt(logarithm / np.maximum(self._seen, 1))[self._kinds]
        bonus = self.bonus * float(high.max() - low.min()) * widths
        return self._plan(self._mean_costs - bonus, np.zeros(table.pairs), hope=True)
