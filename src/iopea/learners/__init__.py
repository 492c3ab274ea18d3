"""One file per algorithm; a new one is its file and a line in this registry."""

from iopea.learners.base import Learner
from iopea.learners.iopea import IOPEA

#: Every learner by its name.
LEARNERS: dict[str, type[Learner]] = {learner.name: learner for learner in (IOPEA,)}
