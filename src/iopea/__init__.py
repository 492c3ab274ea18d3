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
from iopea.checking import OrderReport, check_order, discover_order, gather_evidence
from iopea.confidence import RULES
from iopea.envs import register
from iopea.errors import InputError
from iopea.learners.iopea import IOPEA
from iopea.order import InformationOrder
from iopea.policies import Box, Finite, PolicyClass
from iopea.problems import PROBLEMS
from iopea.problems.dual_sourcing import DualSourcing
from iopea.problems.dynamics import Dynamics
from iopea.problems.finite import FiniteMDP
from iopea.problems.hard import HardInstance, HiddenArm
from iopea.problems.lost_sales import LostSales
from iopea.problems.newsvendor import Newsvendor
from iopea.problems.queue import QueueRates, ServiceRateQueue
from iopea.problems.shop import Levels
from iopea.problems.zero_runs import c_gamma
from iopea.run import best_in_class, evaluate, relative_regret, run, run_all
from iopea.storage import load_state, save_state
from iopea.types import Estimates, Play, RunResult, Stop, Trajectory

__version__ = "0.1.0"

register()  # gymnasium.make("iopea/LostSales-v0") and the others work once iopea is imported

__all__ = [
    "IOPEA",
    "PROBLEMS",
    "RULES",
    "Bound",
    "Box",
    "DualSourcing",
    "Dynamics",
    "Estimates",
    "Finite",
    "FiniteMDP",
    "HardInstance",
    "HiddenArm",
    "InformationOrder",
    "InputError",
    "Levels",
    "LostSales",
    "Newsvendor",
    "OrderReport",
    "Play",
    "PolicyClass",
    "QueueRates",
    "RunResult",
    "ServiceRateQueue",
    "Stop",
    "Trajectory",
    "base_stock_bound",
    "best_in_class",
    "c_gamma",
    "check_order",
    "discover_order",
    "dual_index_bound",
    "evaluate",
    "gather_evidence",
    "load_state",
    "queue_bound",
    "regret",
    "regret_bound",
    "relative_regret",
    "run",
    "run_all",
    "save_state",
]
