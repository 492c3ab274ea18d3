"""Systems, one folder or file each. A new one needs its file and a line in this registry."""

from iopea.problems.base import Problem
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.finite import FiniteMDP
from iopea.systems.hard_instance import HardInstance
from iopea.systems.lost_sales import LostSales
from iopea.systems.newsvendor import Newsvendor
from iopea.systems.queue import ServiceRateQueue

#: Every kind of problem by its name in problem files.
PROBLEMS: dict[str, type[Problem]] = {
    problem.system_type.kind: problem
    for problem in (
        LostSales,
        DualSourcing,
        ServiceRateQueue,
        Newsvendor,
        FiniteMDP,
        HardInstance,
    )
}
