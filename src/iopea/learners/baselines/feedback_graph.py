r"""Feedback graph: optimism with side observations.

Dann, Mansour, Mohri, Sekhari and Sridharan (2020) learn from the outcomes of more state-action
pairs than the one that was played, in episodes of a fixed length; here this is adapted to average
costs. Where the problem declares that a step also reveals the outcome at other pairs, all of them
are counted: in a shop, what would have been left of any smaller stock; in a queue, what a lower
service rate would have done. Pairs whose outcomes have the same distribution are counted together.

With n observations after t steps, frequencies :math:`\hat p` of outcomes and the costs
:math:`\hat c` that go with them, the optimistic cost of a pair is

.. math:: \hat c - b R \sqrt{\log(2 K t / \delta) / n},

where K is the number of kinds of pairs, R the range of all costs and b, the *bonus*, is tuned.
The policy with the least average cost in this model is played until the number of observations of
some pair, side observations included, has doubled.

Assumes finitely many states and actions, or a grid of them, and knows the possible outcomes, which
pairs a step reveals, and bounds on costs or their dependence on outcomes. Observes the record of
each step. Recommends the best policy under the estimated model, without the bonus.
"""

from __future__ import annotations

import math

import numpy as np

from iopea.learners.baselines.doubling import DoublingLearner
from iopea.learners.baselines.planning import Plan
from iopea.problems.tabular import Revealed, Tabular
from iopea.types import Array, Indices, Trajectory

#: A table is refined up to this many outcomes of all pairs together.
MOST_PLANNED = 2**19


class FeedbackGraph(DoublingLearner):
    """Learn by optimism with side observations.

    Parameters
    ----------
    problem : Problem. One that can be written as a table.
    horizon : int, optional. Not used.
    seed : int. Not used: the learner is deterministic.
    bonus : float, optional. Factor of the bonus on costs [b]. Tuned if not given.
    delta : float. Probability in the logarithm of the bonus [δ].
    radius : float, optional. Unit of stock and orders, where they are continuous. By default, the
        problem's own is halved as long as the table stays small enough to plan in quickly: a finer
        table is learned as fast, since a step reveals proportionally more pairs.

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

    def _revealed(self, trajectory: Trajectory) -> Revealed:
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
        return self._plan(self._mean_costs - bonus, np.zeros(table.pairs), optimistic=True)
