"""Gymnasium environments: the true systems, simulated step by step for any agent.

Gymnasium finds an id once ``iopea.envs`` is imported. Since version 1.0 it loads no plug-ins, so
either import the package, or let ``gymnasium.make`` import it by its name before the id:

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

No environment terminates: ``terminated`` and ``truncated`` are always False. For episodes, pass
``max_episode_steps`` to ``gymnasium.make``. The same seed gives the same noise; a reset without a
seed continues with new noise.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from iopea.envs.dual_sourcing import DualSourcingEnv
from iopea.envs.lost_sales import LostSalesEnv
from iopea.envs.queue import ServiceRateQueueEnv
from iopea.envs.vector import SystemVectorEnv

LOST_SALES = "iopea/LostSales-v0"
DUAL_SOURCING = "iopea/DualSourcing-v0"
SERVICE_RATE_QUEUE = "iopea/ServiceRateQueue-v0"

_CLASSES: dict[str, type[gymnasium.Env[Any, Any]]] = {
    LOST_SALES: LostSalesEnv,
    DUAL_SOURCING: DualSourcingEnv,
    SERVICE_RATE_QUEUE: ServiceRateQueueEnv,
}

__all__ = [
    "DUAL_SOURCING",
    "LOST_SALES",
    "SERVICE_RATE_QUEUE",
    "DualSourcingEnv",
    "LostSalesEnv",
    "ServiceRateQueueEnv",
    "SystemVectorEnv",
    "register",
]


def register() -> None:
    """Register the environments with Gymnasium; a second call changes nothing.

    >>> register()
    >>> gymnasium.spec("iopea/LostSales-v0").max_episode_steps is None
    True
    """
    for name, env in _CLASSES.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=f"{__name__}:{env.__name__}")


register()
