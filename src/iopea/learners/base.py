"""What every learner offers: ask, tell, recommend, and a state that can be saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from iopea.errors import InputError
from iopea.problems.base import Problem
from iopea.types import EpochRecord, Play, Policy, State, Stop, Trajectory

#: Version of what ``state_dict`` writes.
SCHEMA = 1


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
        self.problem.check(trajectory)
        if trajectory.policy != play.policy:
            raise InputError(
                f"Cannot tell of policy {_show(trajectory.policy)}: "
                f"ask() requested {_show(play.policy)}."
            )
        if len(trajectory) > play.steps:
            raise InputError(
                f"Cannot tell {len(trajectory)} steps: ask() requested at most {play.steps} "
                f"for policy {_show(play.policy)}."
            )
        self._tell(trajectory)
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
        self._load(state["state"])
        self.steps = int(state["steps"])

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
    def survivors(self) -> int:
        """How many policies may still be best."""

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


def _show(policy: Policy) -> str:
    return ", ".join(f"{value:.10g}" for value in policy)
