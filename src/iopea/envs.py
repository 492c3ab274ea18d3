"""Gymnasium environments: the true systems, one period per step, for agents of any kind.

Gymnasium finds an id once iopea is imported. Since version 1.0 it loads no plug-ins, so
either import iopea, or have ``gymnasium.make`` do it by writing its name before the id:

>>> import gymnasium
>>> env = gymnasium.make("iopea.envs:iopea/LostSales-v0")
>>> env.unwrapped
LostSalesEnv(lead_time=2, high=7.0)

A base-stock level of 4, played for three periods:

>>> observation, info = env.reset(seed=1)
>>> for _ in range(3):
...     action = env.unwrapped.base_stock_action(4.0, observation)
...     observation, reward, terminated, truncated, info = env.step(action)
>>> round(info["stock"], 6), env.observation_space.contains(observation), terminated
(4.0, True, False)
"""

from __future__ import annotations

import math
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from numpy.random import SeedSequence
from numpy.typing import ArrayLike, NDArray

from iopea.demand import Demand, DemandStream
from iopea.errors import InputError, unknown
from iopea.files import default_problem
from iopea.kernels.lost_sales import sold_by_now
from iopea.problems.lost_sales import LostSales

LOST_SALES = "iopea/LostSales-v0"

#: How far an action may lie outside [-1, 1] by rounding.
ACTION_TOLERANCE = 1e-6
#: Share of the highest level below which an order is a rounding error, and none is placed.
NO_ORDER = 1e-6
#: Highest levels that single precision can hold with all its digits.
_LEAST_HIGH, _MOST_HIGH = 1e-30, 1e30

Floats = NDArray[np.float32]


def register() -> None:
    """Make the environments known to ``gymnasium.make``; a second call changes nothing.

    >>> register()
    >>> gymnasium.spec("iopea/LostSales-v0").max_episode_steps is None
    True
    """
    if LOST_SALES not in gymnasium.registry:
        gymnasium.register(LOST_SALES, entry_point="iopea.envs:LostSalesEnv")


class LostSalesEnv(gymnasium.Env[Floats, Floats]):
    """The lost-sales system of :class:`~iopea.LostSales`, where any order may be placed.

    It never ends: ``terminated`` and ``truncated`` are always False. For episodes, give
    ``max_episode_steps`` to ``gymnasium.make``.

    **Observation** of shape (L + 1,): the stock on hand I_t and the orders under way, oldest
    first, Q_{t-L}, ..., Q_{t-1}; each between 0 and the highest level U = ``levels.high``.

    **Action** a of shape (1,), from -1 to 1: order (a + 1) / 2 times U. The range is that of the
    policies of Stable-Baselines3, whose checker, as that of Gymnasium, warns of any other. To
    order up to a level, use :meth:`base_stock_action`. An order is cut where it would lift the
    inventory position, stock and orders under way, above U. No base-stock level up to U is
    changed by this, and it keeps the observation within its bounds. An order below a millionth
    of U, such as rounding leaves behind, is not placed.

    **Step**: the order is placed, the oldest order under way arrives (with L = 0, the one just
    placed), demand is met as far as the stock allows, and what is not met is lost.

    **Reward**: minus the pseudo-cost h (stock left) - p (sales), with the problem's
    ``period_cost`` added. It differs from minus the true cost by p (demand), which no order
    changes, and it is known without seeing the demand that was lost.

    **Info**: ``stock`` after arrivals, ``sales``, the ``order`` placed and the ``pseudo_cost``;
    with ``reveal_demand`` also ``demand``, ``lost_sales`` and ``true_cost``.

    Parameters
    ----------
    problem : LostSales, optional
        Lead time, costs and levels; that of :func:`~iopea.files.default_problem` if not given.
    demand : Demand, optional
        The demand law, by default also from there.
    reveal_demand : bool
        Whether the info tells what was lost. Without it, nothing that the environment gives out
        depends on demand beyond the stock.
    render_mode : {None, "ansi"}
        With "ansi", :meth:`render` gives a line of text.

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

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012

    _on_hand: float
    _pipeline: list[float]
    _sales: float | None
    _period: int

    def __init__(
        self,
        *,
        problem: LostSales | None = None,
        demand: Demand | None = None,
        reveal_demand: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise unknown("render mode", str(render_mode), self.metadata["render_modes"])
        default, default_demand = cast("tuple[LostSales, Demand]", default_problem())
        self.problem = default if problem is None else problem
        self.reveal_demand = reveal_demand
        self.render_mode = render_mode
        self._demand = default_demand if demand is None else demand
        self._high = self.problem.levels.high
        if not _LEAST_HIGH <= self._high <= _MOST_HIGH:
            raise InputError(
                f"The highest level is {self._high}: an environment, which has single precision, "
                f"needs one between {_LEAST_HIGH} and {_MOST_HIGH}."
            )
        self.observation_space = Box(0.0, self._high, (self.problem.lead_time + 1,), np.float32)
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)
        self._stream: DemandStream | None = None
        self._empty()

    def __repr__(self) -> str:
        return f"LostSalesEnv(lead_time={self.problem.lead_time}, high={self._high})"

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Empty the shop, with nothing under way, and start a new sequence of demand.

        The same seed gives the same sequence; without a seed, the next one follows.
        """
        if options:
            raise InputError(f"Unknown option {next(iter(options))!r}: reset() takes none.")
        super().reset(seed=seed)
        self._stream = self._demand.stream(SeedSequence(int(self.np_random.integers(2**63))))
        self._empty()
        return self._observation(), {}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Place an order and pass one period."""
        if self._stream is None:
            raise ResetNeeded("Cannot step before the first reset(): call it first.")
        order = self._order(action)
        arriving, *self._pipeline = [*self._pipeline, order]
        stock = self._on_hand + arriving
        demand = float(self._stream.draw(1)[0])
        sales = float(sold_by_now(stock, 0.0, demand))
        left = stock - sales
        self._on_hand, self._sales, self._period = left, sales, self._period + 1

        own_cost = self.problem.period_cost
        own = 0.0 if own_cost is None else float(own_cost(stock, sales, order))
        holding, penalty = self.problem.unit_costs
        cost = holding * left - penalty * sales + own
        info = {"stock": stock, "sales": sales, "order": order, "pseudo_cost": cost}
        if self.reveal_demand:
            lost = demand - sales
            true_cost = holding * left + penalty * lost + own
            info |= {"demand": demand, "lost_sales": lost, "true_cost": true_cost}
        return self._observation(), -cost, False, False, info

    def render(self) -> str | None:
        """Period, stock, orders under way and last sales in a line, if made with "ansi"."""
        if self.render_mode is None:
            return None
        under_way = " ".join(f"{order:.4g}" for order in self._pipeline) or "nothing"
        sales = "none yet" if self._sales is None else f"{self._sales:.4g}"
        return (
            f"Period {self._period}: {self._on_hand:.4g} on hand, {under_way} under way, "
            f"last sales {sales}."
        )

    def base_stock_action(self, level: float, observation: ArrayLike) -> Floats:
        """The action of a base-stock policy: order what stock and orders under way are short of.

        >>> env = LostSalesEnv()
        >>> env.base_stock_action(7, [0, 0, 0]), env.base_stock_action(7, [2, 1.5, 0])
        (array([1.], dtype=float32), array([0.], dtype=float32))
        """
        if not 0 <= level <= self._high:
            raise InputError(f"A level must lie between 0 and {self._high}, not {level!r}.")
        state = np.asarray(observation, dtype=np.float64)
        if state.shape != self.observation_space.shape:
            raise InputError(
                f"An observation has shape {self.observation_space.shape}, not {state.shape}."
            )
        order = max(level - float(state.sum()), 0.0)
        return np.array([2 * order / self._high - 1], dtype=np.float32)

    def _empty(self) -> None:
        self._on_hand = 0.0
        self._pipeline = [0.0] * self.problem.lead_time
        self._sales = None
        self._period = 0

    def _order(self, action: ArrayLike) -> float:
        """The order that an action stands for, as far as the inventory position may rise."""
        try:
            values = np.asarray(action, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"An action is an array of one number, not {action!r}.") from None
        if values.shape != (1,):
            raise InputError(f"An action has shape (1,), not {values.shape}.")
        value = float(values[0])
        if not abs(value) <= 1 + ACTION_TOLERANCE:  # true for NaN
            raise InputError(f"An action must lie between -1 and 1, not at {value}.")
        room = self._high - math.fsum([self._on_hand, *self._pipeline])
        order = min((value + 1) / 2 * self._high, room)
        return order if order > NO_ORDER * self._high else 0.0

    def _observation(self) -> Floats:
        state = np.array([self._on_hand, *self._pipeline], dtype=np.float32)
        return np.minimum(state, np.float32(self._high))  # a rounding may lie above
