"""What every learner offers: ask, tell, recommend, and a state that can be saved."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

from iopea.errors import InputError
from iopea.model import check_count
from iopea.problems.base import Problem
from iopea.state import DAMAGED, Stateful, each, gather, numbers, optional, record, restore
from iopea.types import (
    Controller,
    EpochRecord,
    Play,
    Policy,
    Recommendation,
    State,
    Stop,
    Trajectory,
    show_policy,
)

#: Version of what ``state_dict`` writes.
SCHEMA = 5
#: How records of epochs are read back from a saved state.
epoch_records = each(
    record(
        EpochRecord, epoch=int, steps=int, survivors=optional(int), lowest=numbers,
        highest=numbers, best=numbers, threshold=float,
    )
)  # fmt: skip
#: Share of a parameter, or of the largest one, below which a difference is how people write it.
_AS_WRITTEN = 1e-9
#: Parameters of a policy that are named one by one.
_MOST_NAMED = 4


class Oracle(Protocol):
    """What the runner tells a learner that may see the truth."""

    def best_policy(self) -> Policy:
        """The best policy of the class, with full knowledge of the system."""

    def best_in_hindsight(self, steps: int) -> Policy:
        """The policy that would have cost least on the chance of the first steps of this run."""


class Learner(Stateful, ABC):
    """Learns a policy from what was observed, one step or a million at a time.

    The public verbs check; a learner writes the private hooks ``_ask`` and ``_tell``, and
    declares its state in ``saved``.

    Attributes
    ----------
    name : str. By which it is known.
    needs : str. What a problem must have for it, to follow "needs".
    oracle : bool. Whether it is told the truth, by the runner: a yardstick, not a method.
    extra : str. The extra to install for it, if any.
    takes_any : bool. Whether data of any policy of the class can be told, any number of steps.
    """

    name: ClassVar[str]
    needs: ClassVar[str]
    oracle: ClassVar[bool] = False
    extra: ClassVar[str | None] = None
    takes_any: ClassVar[bool] = False
    problem: Problem
    steps: int = 0

    def __init__(self, problem: Problem, horizon: int | None = None, seed: int = 0) -> None:
        if not self._suits(problem):
            policies = problem.policy_class
            number = policies.dimension
            names = ": " + ", ".join(policies.names) if number <= _MOST_NAMED else ""
            raise InputError(
                f"{self.name} needs {self.needs}; a {problem.kind} problem has policies of "
                f"{number} parameter{'' if number == 1 else 's'}{names}{self.lacks(problem)}."
            )
        self.problem = problem
        self.horizon = None if horizon is None else check_count("horizon", horizon)
        self.seed = check_count("seed", seed, least=0)

    @classmethod
    @abstractmethod
    def fits(cls, problem: Problem) -> bool:
        """Whether it can learn this problem."""

    def _suits(self, problem: Problem) -> bool:
        """Whether it can learn this problem with the settings it was given."""
        return self.fits(problem)

    @classmethod
    def lacks(cls, problem: Problem) -> str:
        """What else to say of a problem that does not fit, to end a sentence."""
        return ""

    def see(self, oracle: Oracle) -> None:
        """Be told the truth; the runner does so with learners that are oracles, and no others."""
        raise InputError(f"{self.name} is no oracle: it must not see the truth.")

    def ask(self) -> Play:
        """What to play next; the same answer until something is told."""
        return self._ask()

    def tell(self, trajectory: Trajectory) -> None:
        """Take in what was observed: any number of steps up to what was asked for.

        A learner that takes any data takes more steps as well, and other policies of the class. A
        trajectory that does not fit is refused, and nothing changes.
        """
        if not isinstance(trajectory, Trajectory):
            raise InputError(f"Cannot tell {type(trajectory).__name__}: tell a Trajectory.")
        play = self._ask()
        asked = self._asked(trajectory.played, play.policy)
        self._accept(trajectory, play, asked)
        self.problem.check(trajectory)
        if not len(trajectory):
            return
        # Policies are told as people write them; from here on it is the one that was asked for.
        if asked and trajectory.played != play.policy:
            trajectory = Trajectory(play.policy, **trajectory.columns)
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
        if not isinstance(state, dict):
            raise InputError(f"Cannot load {type(state).__name__}: a state is a dictionary.")
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
            raise InputError(DAMAGED) from None

    @abstractmethod
    def recommend(self) -> Recommendation:
        """What to do from now on, by all that is known."""

    def settings(self) -> dict[str, object]:
        """The learner's settings as JSON values."""
        return {"horizon": self.horizon, "seed": self.seed}

    @property
    def title(self) -> str:
        """What heads its tables and figures."""
        return self.name

    @property
    def records(self) -> tuple[EpochRecord, ...]:
        """What each finished epoch left behind, where there are epochs."""
        return ()

    @property
    def survivors(self) -> int | None:
        """How many policies may still be best; None where they can't be counted."""
        return None

    @property
    def effective_alpha(self) -> float:
        """Share of the steps that told of the best policy by estimate; NaN if that is unknown."""
        return math.nan

    @property
    def stop(self) -> Stop:
        """How the run would end now, with advice."""
        return Stop.ORACLE if self.oracle else Stop.LATEST

    @property
    def outlook(self) -> str:
        """In words: how the run would end now and what would change that."""
        return self.stop.value

    def _asked(self, played: Policy | Controller, asked: Policy | Controller) -> bool:
        """Whether what was played is what was asked for, as people write it."""
        if played == asked:
            return True
        if isinstance(played, Controller) or isinstance(asked, Controller):
            return False
        least = _AS_WRITTEN * self.problem.policy_class.bound  # for parameters that are 0
        return len(played) == len(asked) and all(
            math.isclose(a, b, rel_tol=_AS_WRITTEN, abs_tol=least)
            for a, b in zip(played, asked, strict=True)
        )

    def _accept(self, trajectory: Trajectory, play: Play, asked: bool) -> None:
        """Refuse a policy that was not asked for, and more steps than were."""
        if not asked:
            raise InputError(
                f"Cannot tell of {_shown(trajectory.played)}: "
                f"ask() requested {_shown(play.policy)}."
            )
        if len(trajectory) > play.steps:
            raise InputError(
                f"Cannot tell {len(trajectory)} steps: ask() requested at most {play.steps} "
                f"for {_shown(play.policy)}."
            )

    @abstractmethod
    def _ask(self) -> Play: ...

    @abstractmethod
    def _tell(self, trajectory: Trajectory) -> None: ...

    def _state(self) -> State:
        """What the learner itself saves: all that is declared."""
        return gather(self)

    def _load(self, state: State) -> None:
        restore(self, state)


def _shown(played: Policy | Controller) -> str:
    return str(played) if isinstance(played, Controller) else f"policy {show_policy(played)}"
