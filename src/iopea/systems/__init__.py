"""Systems, one folder or file each. A new one needs its file and a line in this registry."""

from iopea.problems.base import FAMILIES, Problem
from iopea.registry import Registry
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.finite import FiniteMDP
from iopea.systems.hard_instance import HardInstance
from iopea.systems.lost_sales import LostSales
from iopea.systems.newsvendor import Newsvendor
from iopea.systems.queue import ServiceRateQueue

#: Every kind of problem by its name in problem files.
PROBLEMS: Registry[Problem] = Registry(
    "kind of problem",
    "iopea.problems",
    Problem,
    (
        LostSales,
        DualSourcing,
        ServiceRateQueue,
        Newsvendor,
        FiniteMDP,
        HardInstance,
    ),
    name_in="system_type.kind",
)
for problem in PROBLEMS.built_in.values():
    FAMILIES.include(problem.families)
