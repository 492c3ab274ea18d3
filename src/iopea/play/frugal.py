"""Frugal play: the best survivor by estimate, and more only where that may pay.

The order says which policies can be told of by which; it does not say that the most informative
policy must be played while the data tells enough. A policy near the best one loses few sales, and
what it hides, earlier and higher stock has shown.

The policy in force at the start is kept until another one is better by more than noise: by about a
standard error of the gain, or half of one if the other policy holds more stock, since a low stock
hides demand. It is taken up again if it turns out to be as good and holds more than the best one.
While it is kept, no more is held in order to see larger demand until there are many records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from iopea.model import check_positive
from iopea.play.player import Player
from iopea.problems.base import Choice, Evaluator
from iopea.state import numbers, optional, parts
from iopea.types import Policy

#: Growth of the data between two choices.
GROWTH = 0.1
#: Share of the inertia if the other policy holds more stock, and below which the start is taken up
#: again, once there are so many records.
_UPWARDS, _BACK, _BACK_FROM = 0.5, 0.7, 30
#: Records from which more stock is held than under the start, while that is kept, in order to see
#: whether demand is larger.
_BOLD_FROM = 200


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
    inertia : float. Standard errors by which another policy that holds less stock must be better
        before the one in force at the start is left; half of that for one that holds more.
    """

    name: ClassVar[str] = "frugal"
    chooses: ClassVar[bool] = True
    saved = parts(
        start=optional(numbers), left=bool, current=optional(numbers),
        recommended=optional(numbers),
    )  # fmt: skip

    def __init__(self, inertia: float = 1.15) -> None:
        self.inertia = check_positive("inertia", inertia)
        self._start: Policy | None = None
        self._left = False
        self._current: Policy | None = None
        self._recommended: Policy | None = None

    def settings(self) -> dict[str, float]:
        """The inertia."""
        return {"inertia": self.inertia}

    def begin(self, start: Policy, in_force: bool) -> None:
        """Begin with a policy; if it was in force before, it is left only for a gain."""
        self._start = start if in_force else None
        self._current = self._recommended = start

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
        self._left = start is None or self._better(choice)
        self._recommended = choice.best if self._left else start
        bold = self._left or choice.records >= _BOLD_FROM
        self._current = (choice.bolder if bold else None) or self._recommended
        return self._current

    def _better(self, choice: Choice) -> bool:
        """Whether the best by estimate is better than the start by more than noise."""
        if not self._left:
            share = _UPWARDS if choice.holds_more else 1.0
        elif choice.holds_more or choice.records < _BACK_FROM:
            return True
        else:
            share = _BACK
        return choice.gain > share * self.inertia * choice.error

    def review(self, steps: int) -> int | None:
        """After every step at first, then whenever the data has grown by a tenth."""
        return until_review(steps)
