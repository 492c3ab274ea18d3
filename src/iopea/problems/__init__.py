"""One file per case study; a new one is its file and a line in this registry."""

from iopea.problems.base import Problem
from iopea.problems.dual_sourcing import DualSourcing
from iopea.problems.finite import FiniteMDP
from iopea.problems.hard import HardInstance
from iopea.problems.lost_sales import LostSales
from iopea.problems.newsvendor import Newsvendor
from iopea.problems.queue import ServiceRateQueue

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
