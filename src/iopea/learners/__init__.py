"""Learners, one file per algorithm. A new one needs its file and a line in this registry."""

from iopea.learners.base import Learner
from iopea.learners.baselines.basa import BASA
from iopea.learners.baselines.convex import Convex
from iopea.learners.baselines.erm import ERM
from iopea.learners.baselines.feedback_graph import FeedbackGraph
from iopea.learners.baselines.optimal import Optimal
from iopea.learners.baselines.order_up_to import OrderUpTo
from iopea.learners.baselines.ppo import PPO
from iopea.learners.baselines.random_policy import RandomPolicy
from iopea.learners.baselines.sgd_base_stock import SGDBaseStock
from iopea.learners.baselines.ucrl2 import UCRL2
from iopea.learners.iopea import IOPEA
from iopea.registry import Registry

#: Every learner by its name.
LEARNERS: Registry[Learner] = Registry(
    "learner",
    "iopea.learners",
    Learner,
    (
        IOPEA,
        Convex,
        SGDBaseStock,
        OrderUpTo,
        BASA,
        UCRL2,
        FeedbackGraph,
        PPO,
        ERM,
        Optimal,
        RandomPolicy,
    ),
    texts=("needs",),
)


def learner_named(name: str) -> type[Learner]:
    """The learner of this name, built in or of a plug-in.

    >>> learner_named("iopae")
    Traceback (most recent call last):
    iopea.registry.UnknownNameError: Unknown learner 'iopae': did you mean 'iopea'?
    """
    return LEARNERS.named(name)
