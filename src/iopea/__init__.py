"""Learn an operating policy online when only part of what happened is seen.

>>> import iopea
>>> shop = iopea.LostSales(lead_time=2, holding_cost=1, lost_sales_cost=10,
...                        levels={"low": 0, "high": 7})
>>> iopea.IOPEA(shop).ask().policy
(7.0,)
"""

from iopea.bounds import (
    Bound,
    base_stock_bound,
    dual_index_bound,
    queue_bound,
    regret,
    regret_bound,
)
from iopea.confidence import RULES
from iopea.envs import register
from iopea.errors import InputError
from iopea.learners.iopea import IOPEA
from iopea.order import InformationOrder
from iopea.policies import Box, Finite, PolicyClass
from iopea.problems.lost_sales import Levels, LostSales
from iopea.run import best_in_class, evaluate, relative_regret, run, run_all
from iopea.storage import load_state, save_state
from iopea.types import Estimates, Play, RunResult, Stop, Trajectory

__version__ = "0.1.0"

register()  # gymnasium.make("iopea/LostSales-v0") works once iopea is imported

__all__ = [
    "IOPEA",
    "RULES",
    "Bound",
    "Box",
    "Estimates",
    "Finite",
    "InformationOrder",
    "InputError",
    "Levels",
    "LostSales",
    "Play",
    "PolicyClass",
    "RunResult",
    "Stop",
    "Trajectory",
    "base_stock_bound",
    "best_in_class",
    "dual_index_bound",
    "evaluate",
    "load_state",
    "queue_bound",
    "regret",
    "regret_bound",
    "relative_regret",
    "run",
    "run_all",
    "save_state",
]
