"""What every learner offers: ask, tell, recommend, and a state that can be saved."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

from iopea.errors import InputError
from iopea.problems.base import Problem
from iopea.types import EpochRecord, Play, Policy, State, Stop, Trajectory, show_policy

#: Version of what ``state_dict`` writes.
SCHEMA = 2
#: Parameters closer than this are the same policy, as people write it.
_AS_WRITTEN = 1e-9


class Learner(ABC):
    """Learns a policy from what was observed, one step or a million at a time.

    The public verbs check; a learner writes the private hooks ``_ask``,
    ``_tell``, ``_state`` and ``_load``.
    """

    name: ClassVar[str]
    problem: Problem
    steps: int = 0

    def ask(self) -> Play:
        """What to play next; the same answer until something is told."""
        return self._ask()

    def tell(self, trajectory: Trajectory) -> None:
        """Take in what was observed: any number of steps up to what was asked for.

        A trajectory that does not fit is refused, and nothing changes.
        """
        play = self._ask()
        if not _same_policy(trajectory.policy, play.policy):
            raise InputError(
                f"Cannot tell of policy {show_policy(trajectory.policy)}: "
                f"ask() requested {show_policy(play.policy)}."
            )
        self.problem.check(trajectory)
        if len(trajectory) > play.steps:
            raise InputError(
                f"Cannot tell {len(trajectory)} steps: ask() requested at most {play.steps} "
                f"for policy {show_policy(play.policy)}."
            )
        # Policies are told as people write them; from here on it is the one that was asked for.
        self._tell(Trajectory(play.policy, **trajectory.columns))
        self.steps += len(trajectory)

    def state_dict(self) -> State:
        """Everything needed to go on, bit for bit: JSON values and arrays."""
        return {
            "schema": SCHEMA,
            "learner": self.name,
            "problem": self.problem.describe(),
            "settings": self.settings(),
            "steps": self.steps,
            "state": self._state(),
        }

    def load_state_dict(self, state: State) -> None:
        """Go on from a saved state of the same learner, problem and settings."""
        expected = {
            "schema": SCHEMA,
            "learner": self.name,
            "problem": self.problem.describe(),
            "settings": self.settings(),
        }
        for key, mine in expected.items():
            if state.get(key) != mine:
                raise InputError(
                    f"Cannot load a state whose {key} is {state.get(key)!r}: this learner's is "
                    f"{mine!r}."
                )
        before = self._state()
        try:
            self._load(state["state"])
            self.steps = int(state["steps"])
        except Exception:  # whatever a damaged state makes the parts raise
            self._load(before)
            raise InputError("Cannot load a state of which parts are missing or damaged.") from None

    @abstractmethod
    def recommend(self) -> Policy:
        """The policy to use from now on, by all that is known."""

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """The learner's settings as JSON values."""

    @property
    @abstractmethod
    def records(self) -> tuple[EpochRecord, ...]:
        """What each finished epoch left behind."""

    @property
    @abstractmethod
    def survivors(self) -> int | None:
        """How many policies may still be best; None where they can't be counted."""

    @property
    @abstractmethod
    def effective_alpha(self) -> float:
        """Share of the steps that told of the best policy by estimate; NaN before any."""

    @property
    @abstractmethod
    def stop(self) -> Stop:
        """How the run would end now, with advice."""

    @property
    def outlook(self) -> str:
        """In words: how the run would end now and what would change that."""
        return self.stop.value

    @abstractmethod
    def _ask(self) -> Play: ...

    @abstractmethod
    def _tell(self, trajectory: Trajectory) -> None: ...

    @abstractmethod
    def _state(self) -> State: ...

    @abstractmethod
    def _load(self, state: State) -> None: ...


def _same_policy(one: Policy, other: Policy) -> bool:
    return len(one) == len(other) and all(
        math.isclose(a, b, rel_tol=_AS_WRITTEN, abs_tol=_AS_WRITTEN)
        for a, b in zip(one, other, strict=True)
    )
