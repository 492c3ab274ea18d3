"""Lost sales as a Gymnasium environment, one period per step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from numpy.typing import ArrayLike

from iopea.demand import Demand
from iopea.envs.inventory import Floats, InventoryEnv, listed
from iopea.problem_files import default_problem
from iopea.systems.lost_sales import LostSales

_ORDER = "order"


class LostSalesEnv(InventoryEnv):
    """The lost-sales system of :class:`~iopea.LostSales`, where any order may be placed.

    It never terminates: ``terminated`` and ``truncated`` are always False. For episodes, pass
    ``max_episode_steps`` to ``gymnasium.make``.

    **Observation** of shape (L + 1,): the stock on hand I_t and the outstanding orders, oldest
    first, Q_{t-L}, ..., Q_{t-1}; each between 0 and the largest inventory position U of the
    problem's policies, which is ``levels.high`` for base-stock levels.

    **Action** a of shape (1,), from -1 to 1: order (a + 1) / 2 times U. The policies of
    Stable-Baselines3 have this range; its checker and that of Gymnasium warn about any other. To
    order up to a level, use :meth:`base_stock_action`; for policies of another family,
    :meth:`policy_action`. An order is reduced where it would raise the inventory position, stock
    plus outstanding orders, above U. This keeps the observation within its bounds and does not
    affect base-stock levels up to U. An order below a millionth of U counts as a rounding error and
    is not placed.

    **Step**: the order is placed, the oldest outstanding order arrives (with L = 0, the one just
    placed), demand is met from stock, and unmet demand is lost.

    **Reward**: minus the pseudo-cost h (stock left) - p (sales) plus the problem's
    ``fixed_order_cost`` and ``period_cost``. Of an order only what the supplier delivers is placed:
    whole multiples (``order_multiple``), and nothing below ``minimum_order``. The reward differs
    from minus the true cost by p (demand), which does not depend on the orders, and it is observed
    although lost demand is not.

    **Info**: ``stock`` after arrivals, ``sales``, the ``order`` placed and the ``pseudo_cost``;
    with ``reveal_demand`` also ``demand``, ``lost_sales`` and ``true_cost``.

    Parameters
    ----------
    problem : LostSales, optional
        Lead time, costs and levels; those of :func:`~iopea.problem_files.default_problem` if not
        given.
    demand : Demand, optional
        The demand distribution; also of ``default_problem`` if not given.
    reveal_demand : bool
        Whether the info includes lost demand. Otherwise no output of the environment depends on
        demand beyond the stock.
    render_mode : {None, "ansi"}
        With "ansi", :meth:`render` returns a line of text.

    Examples
    --------
    >>> from iopea.demand import Constant
    >>> env = LostSalesEnv(demand=Constant(value=2), render_mode="ansi")
    >>> observation, info = env.reset(seed=0)
    >>> for _ in range(4):
    ...     step = env.step(env.base_stock_action(5, observation))
    ...     observation, reward = step[:2]
    >>> observation, round(reward, 6)
    (array([1., 0., 2.], dtype=float32), 19.0)
    >>> env.render()
    'Period 4: 1 on hand, 0 2 under way, last sales 2.'
    """

    def __init__(
        self,
        *,
        problem: LostSales | None = None,
        demand: Demand | None = None,
        reveal_demand: bool = False,
        render_mode: str | None = None,
    ) -> None:
        default, default_demand = cast("tuple[LostSales, Demand]", default_problem())
        self.problem = default if problem is None else problem
        super().__init__(
            lead_times={_ORDER: self.problem.system.lead_time},
            high=self.problem.family.most_stock(self.problem.system),
            unit_costs=self.problem.system.unit_costs,
            demand=default_demand if demand is None else demand,
            reveal_demand=reveal_demand,
            render_mode=render_mode,
        )

    def __repr__(self) -> str:
        return f"LostSalesEnv(lead_time={self.problem.system.lead_time}, high={self._high})"

    def base_stock_action(self, level: float, observation: ArrayLike) -> Floats:
        """The action of a base-stock policy: raise the inventory position to the level.

        >>> env = LostSalesEnv()
        >>> env.base_stock_action(7, [0, 0, 0]), env.base_stock_action(7, [2, 1.5, 0])
        (array([1.], dtype=float32), array([0.], dtype=float32))
        """
        state = self._checked([level], observation)
        return self._as_action(max(level - float(state.sum()), 0.0))

    def _further_cost(self, stock: float, sales: float, orders: Mapping[str, float]) -> float:
        terms, order = self.problem.system.terms, orders[_ORDER]
        cost = terms.fixed if order > 0 else 0.0
        return cost if terms.own is None else cost + float(terms.own(stock, sales, order))

    def _under_way_text(self) -> str:
        return f"{listed(self._under_way[_ORDER])} under way"
