"""Dual sourcing as a Gymnasium environment, one period per step."""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

from iopea.demand import Demand
from iopea.envs.inventory import Floats, InventoryEnv, listed
from iopea.systems.dual_sourcing import DualSourcing

_EXPEDITED, _REGULAR = "expedited_order", "regular_order"


class DualSourcingEnv(InventoryEnv):
    """The system of :class:`~iopea.systems.dual_sourcing.system.DualSourcing`, with any two orders.

    It never terminates: ``terminated`` and ``truncated`` are always False. For episodes, pass
    ``max_episode_steps`` to ``gymnasium.make``.

    **Observation** of shape (L_r + L_e + 1,): the stock on hand I_t, the outstanding regular
    orders, oldest first, Q^r_{t-L_r}, ..., Q^r_{t-1}, and the expedited ones, Q^e_{t-L_e}, ...,
    Q^e_{t-1}; each between 0 and U, the highest level of either source.

    **Action** of shape (2,), each from -1 to 1: the expedited and the regular order, where a
    means an order of (a + 1) / 2 times U. The policies of Stable-Baselines3 have this range. To
    play a dual-index policy, use :meth:`dual_index_action`. Orders are reduced where they would
    raise the inventory position, stock plus all outstanding orders, above U: the expedited order
    is placed first, and the regular one is limited by the rest. A dual-index policy that is
    played from the empty system on is not affected, since it raises the position to the higher
    of its two levels and never above. One that follows another policy may be affected while
    regular orders of the other are outstanding that its expedited index does not count. An
    order below a millionth of U counts as a rounding error and is not placed.

    **Step**: both orders are placed, the oldest outstanding order of each source arrives (with
    L_e = 0, the expedited one just placed), demand is met from stock, and unmet demand is lost.

    **Reward**: minus the pseudo-cost h (stock left) - p (sales) + c_r Q^r_t + c_e Q^e_t. It
    differs from minus the true cost by p (demand), which does not depend on the orders, and it
    is observed although lost demand is not.

    **Info**: ``stock`` after arrivals, ``sales``, the ``expedited_order`` and the
    ``regular_order`` placed, and the ``pseudo_cost``; with ``reveal_demand`` also ``demand``,
    ``lost_sales`` and ``true_cost``.

    Parameters
    ----------
    problem : DualSourcing, optional
        Lead times, costs and levels; those of ``DualSourcing.example()`` if not given.
    demand : Demand, optional
        The demand distribution; that of ``DualSourcing.example()`` if not given.
    reveal_demand : bool
        Whether the info includes lost demand. Otherwise no output of the environment depends on
        demand beyond the stock.
    render_mode : {None, "ansi"}
        With "ansi", :meth:`render` returns a line of text.

    Examples
    --------
    >>> from iopea.demand import Constant
    >>> shop = DualSourcing(
    ...     regular_lead_time=2, expedited_lead_time=0, holding_cost=1, lost_sales_cost=10,
    ...     regular_cost=1, expedited_cost=3,
    ...     expedited_levels={"low": 0, "high": 8}, regular_levels={"low": 0, "high": 8},
    ... )
    >>> env = DualSourcingEnv(problem=shop, demand=Constant(value=2), render_mode="ansi")
    >>> observation, info = env.reset(seed=0)
    >>> for _ in range(4):
    ...     step = env.step(env.dual_index_action(2, 5, observation))
    ...     observation, reward = step[:2]
    >>> observation, round(reward, 6)
    (array([0., 2., 1.], dtype=float32), 16.0)
    >>> env.render()
    'Period 4: 0 on hand, regular 2 1 and expedited nothing under way, last sales 2.'
    """

    def __init__(
        self,
        *,
        problem: DualSourcing | None = None,
        demand: Demand | None = None,
        reveal_demand: bool = False,
        render_mode: str | None = None,
    ) -> None:
        default, default_demand = DualSourcing.example()
        self.problem = shop = default if problem is None else problem
        super().__init__(
            lead_times={
                _EXPEDITED: shop.system.expedited_lead_time,
                _REGULAR: shop.system.regular_lead_time,
            },
            high=shop.family.most_stock(shop.system),
            unit_costs=(shop.system.holding_cost, shop.system.lost_sales_cost),
            demand=default_demand if demand is None else demand,
            reveal_demand=reveal_demand,
            render_mode=render_mode,
        )

    def __repr__(self) -> str:
        regular, expedited = (
            self.problem.system.regular_lead_time,
            self.problem.system.expedited_lead_time,
        )
        return (
            f"DualSourcingEnv(regular_lead_time={regular}, expedited_lead_time={expedited}, "
            f"high={self._high})"
        )

    def dual_index_action(
        self, expedited_level: float, regular_level: float, observation: ArrayLike
    ) -> Floats:
        """The action of a dual-index policy with levels z_e and z_r.

        The expedited order raises stock plus the orders that arrive no later than it to z_e. The
        regular order then raises stock plus all outstanding orders to z_r.

        >>> env = DualSourcingEnv()
        >>> env.dual_index_action(0, 0, [0] * env.observation_space.shape[0])
        array([-1., -1.], dtype=float32)
        """
        state = self._checked([expedited_level, regular_level], observation)
        expedited_lead_time, regular_lead_time = self._lead_times.values()
        # Regular orders that were placed at least L_r - L_e periods ago arrive in time.
        soon = state[: 2 + expedited_lead_time].sum() + state[1 + regular_lead_time :].sum()
        expedited = max(expedited_level - float(soon), 0.0)
        regular = max(regular_level - float(state.sum()) - expedited, 0.0)
        return self._as_action(expedited, regular)

    def _further_cost(self, stock: float, sales: float, orders: Mapping[str, float]) -> float:
        regular, expedited = self.problem.system.regular_cost, self.problem.system.expedited_cost
        return float(regular * orders[_REGULAR] + expedited * orders[_EXPEDITED])

    def _under_way_text(self) -> str:
        regular, expedited = listed(self._under_way[_REGULAR]), listed(self._under_way[_EXPEDITED])
        return f"regular {regular} and expedited {expedited} under way"
