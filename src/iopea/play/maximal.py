"""The paper's way to play: the maximal policies of the information order, each for an epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from iopea.play.player import Player
from iopea.problems.base import Evaluator
from iopea.types import Policy


class Maximal(Player):
    """Plays the most informative survivors.

    Everything that data of the class can tell is told as soon as possible, and the regret theorem
    holds; but the highest survivor is played until it is eliminated.
    """

    name: ClassVar[str] = "maximal"

    def choose(self, evaluator: Evaluator, holds: Callable[[Policy], bool]) -> Policy | None:
        """The maximal policies."""
        return None

    def review(self, steps: int) -> int | None:
        """At the end of the epoch."""
        return None
