"""Frugal play: the best survivor by estimate, and more only where that may pay.

The order says which policies can be told of by which; it does not say that the most informative
policy must be played while the data tells enough. A policy near the best one loses few sales, and
what it hides, earlier and higher stock has shown.

The policy in force at the start is kept until another one is better by more than noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from iopea.model import check_positive
from iopea.play.player import Player
from iopea.problems.base import Evaluator
from iopea.state import numbers, optional, parts
from iopea.types import Policy

#: Growth of the data between two choices.
GROWTH = 0.1


def until_review(steps: int) -> int:
    """Steps until the next review: one at first, then a tenth of the steps so far.

    >>> until_review(7), until_review(50)
    (1, 5)
    """
    return max(1, int(GROWTH * steps))


class Frugal(Player):
    """Plays the best survivor by estimate.

    Parameters
    ----------
    inertia : float. Standard errors by which another policy must be better before the one in force
        at the start is left.
    """

    name: ClassVar[str] = "frugal"
    chooses: ClassVar[bool] = True
    saved = parts(start=optional(numbers), current=optional(numbers), recommended=optional(numbers))

    def __init__(self, inertia: float = 1.0) -> None:
        self.inertia = check_positive("inertia", inertia)
        self._start: Policy | None = None
        self._current: Policy | None = None
        self._recommended: Policy | None = None

    def begin(self, start: Policy) -> None:
        """Begin with the policy in force."""
        self._start = self._current = self._recommended = start

    @property
    def recommended(self) -> Policy | None:
        """The last choice, without what was played to learn more."""
        return self._recommended

    def choose(self, evaluator: Evaluator, holds: Callable[[Policy], bool]) -> Policy | None:
        """The best by estimate; at first the start, until another one is better."""
        start = self._start if self._start is not None and holds(self._start) else None
        choice = evaluator.choose(start)
        if choice is None:
            return self._current
        if start is None or choice.gain > self.inertia * choice.error:
            self._start, self._recommended = None, choice.best
        self._current = self._recommended if choice.bolder is None else choice.bolder
        return self._current

    def review(self, steps: int) -> int | None:
        """After every step at first, then whenever the data has grown by a tenth."""
        return until_review(steps)
