"""The base class of ways to play."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from iopea.problems.base import Evaluator
from iopea.state import Stateful
from iopea.types import Policy


class Player(Stateful, ABC):
    """Chooses among the survivors what to play, and when to choose again.

    Attributes
    ----------
    name : str. Its name in settings.
    chooses : bool. Whether it chooses by estimate, which needs an evaluator that can.
    """

    name: ClassVar[str]
    chooses: ClassVar[bool] = False

    def begin(self, start: Policy, in_force: bool) -> None:
        """Take note of the policy to begin with, and whether it was in force before."""
        return

    @abstractmethod
    def choose(self, evaluator: Evaluator, holds: Callable[[Policy], bool]) -> Policy | None:
        """What to play next; None for the maximal policies.

        ``holds`` tells whether a policy, or the one next to it in the list, is still a survivor.
        """

    @property
    def recommended(self) -> Policy | None:
        """What to use from now on; None for the best survivor by the estimates of the pool."""
        return None

    def settings(self) -> dict[str, float]:
        """Its settings beside the name, which a saved state must agree with."""
        return {}

    @abstractmethod
    def review(self, steps: int) -> int | None:
        """Steps until the next choice after so many steps; None for the end of the epoch."""
