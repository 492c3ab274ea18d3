"""Learn an operating policy online when only part of what happened is seen.

>>> import iopea
>>> shop = iopea.LostSales(lead_time=2, holding_cost=1, lost_sales_cost=10,
...                        levels={"low": 0, "high": 7})
>>> iopea.IOPEA(shop).ask().policy
(7.0,)
"""

from iopea.elimination.theorem import RULES
from iopea.envs import register
from iopea.errors import InputError
from iopea.information_order import InformationOrder
from iopea.learners.iopea import IOPEA
from iopea.orders.checking import OrderReport, check_order, discover_order, gather_evidence
from iopea.policies import Box, Finite, PolicyClass
from iopea.simulate import best_in_class, evaluate, relative_regret, run, run_all
from iopea.storage import load_state, save_state
from iopea.systems import PROBLEMS
from iopea.systems.dual_sourcing.system import DualSourcing
from iopea.systems.dual_sourcing.zero_runs import c_gamma
from iopea.systems.finite.dynamics import Dynamics
from iopea.systems.finite.system import FiniteMDP
from iopea.systems.hard_instance import HardInstance, HiddenArm
from iopea.systems.lost_sales.system import LostSales
from iopea.systems.newsvendor import Newsvendor
from iopea.systems.queue.system import QueueRates, ServiceRateQueue
from iopea.systems.shop.base import Levels
from iopea.theory import (
    Bound,
    base_stock_bound,
    dual_index_bound,
    queue_bound,
    regret,
    regret_bound,
)
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
