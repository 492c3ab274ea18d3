"""One file per case study; a new one is its file and a line in this registry."""

from iopea.problems.base import Problem
from iopea.systems.dual_sourcing.system import DualSourcing
from iopea.systems.finite.system import FiniteMDP
from iopea.systems.hard_instance import HardInstance
from iopea.systems.lost_sales.system import LostSales
from iopea.systems.newsvendor import Newsvendor
from iopea.systems.queue.system import ServiceRateQueue

#: Every kind of problem by its name in problem files.
PROBLEMS: dict[str, type[Problem]] = {
    problem.kind: problem
    for problem in (
        LostSales,
        DualSourcing,
        ServiceRateQueue,
        Newsvendor,
        FiniteMDP,
        HardInstance,
    )
}
