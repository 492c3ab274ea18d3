"""One file per case study; a new one is its file and a line in this registry."""

from iopea.problems.base import Problem
from iopea.problems.lost_sales import LostSales

#: Every kind of problem by its name in problem files.
PROBLEMS: dict[str, type[Problem]] = {problem.kind: problem for problem in (LostSales,)}
