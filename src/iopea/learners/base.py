"""The interface of all learners: ask, tell, recommend, and a state that can be saved."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Integral
from typing import Any, ClassVar, Protocol

from iopea.errors import InputError, shown
from iopea.model import MOST_COUNTED, check_count, check_kind, check_seed
from iopea.problems.base import Problem
from iopea.registry import blaming, called
from iopea.state import (
    DAMAGED,
    Stateful,
    check_schema,
    each,
    gather,
    numbers,
    optional,
    record,
    restore,
    sealed,
    unsealed,
)
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
SCHEMA = 10
#: How records of epochs are read back from a saved state.
epoch_records = each(
    record(
        EpochRecord, epoch=int, steps=int, survivors=optional(int), lowest=numbers,
        highest=numbers, best=numbers, threshold=float,
    )
)  # fmt: skip
#: Relative tolerance within which two policies are the same: people write rounded parameters.
_AS_WRITTEN = 1e-9
#: How often a learner is asked again when it is told what it did not ask for.
_ASKED = 8
#: Up to this many parameters, a message names each of them.
_MOST_NAMED = 4


class Oracle(Protocol):
    """The truth about the system, which the runner gives to oracle learners."""

    def best_policy(self) -> Policy:
        """The best policy of the class, with full knowledge of the system."""

    def best_in_hindsight(self, steps: int) -> Policy:
        """The policy with the least cost on the noise of the first steps of this run."""


class Learner(Stateful, ABC):
    """Learns a policy from observed trajectories, one step or a million at a time.

    The public methods check their arguments. A subclass writes the private hooks ``_ask`` and
    ``_tell``, and declares its state in ``saved``.

    Attributes
    ----------
    name : str. Its name in the registry.
    needs : str. What it requires of a problem, in words that follow "needs".
    oracle : bool. Whether the runner gives it the truth: a benchmark, not a method.
    extra : str. The optional dependency to install for it, if any.
    takes_any : bool. Whether ``tell`` takes data of any policy of the class, of any length.
    takes_start : bool. Whether it can be given the policy in force before the first step.
    """

    name: ClassVar[str]
    needs: ClassVar[str]
    oracle: ClassVar[bool] = False
    extra: ClassVar[str | None] = None
    takes_any: ClassVar[bool] = False
    takes_start: ClassVar[bool] = False
    problem: Problem
    start: Policy | None = None
    steps: int = 0

    def __init__(self, problem: Problem, horizon: int | None = None, seed: int = 0) -> None:
        check_kind("The problem", problem, Problem)
        if not self._suits(problem):
            policies = problem.policy_class
            number = policies.dimension
            names = ": " + ", ".join(policies.names) if number <= _MOST_NAMED else ""
            raise InputError(
                f"{self.name} needs {self.needs}; a {problem.kind} problem has policies of "
                f"{number} parameter{'' if number == 1 else 's'}{names}{self.lacks(problem)}."
            )
        self.problem = problem
        self.horizon = (
            None if horizon is None else check_count("horizon", horizon, most=MOST_COUNTED)
        )
        self.seed = check_seed(seed)

    @classmethod
    @abstractmethod
    def fits(cls, problem: Problem) -> bool:
        """Whether it can learn this problem."""

    def _suits(self, problem: Problem) -> bool:
        """Whether it can learn this problem with the settings it was given."""
        return fits(type(self), problem)

    @classmethod
    def lacks(cls, problem: Problem) -> str:
        """Why the problem does not fit, as the end of a sentence."""
        return ""

    def _start_of(self, start: Policy | float | None) -> Policy | None:
        """The policy in force before the first step: by default, the problem's."""
        return self.problem.start if start is None else self.problem.as_start(start)

    def see(self, oracle: Oracle) -> None:
        """Receive the truth; the runner calls this for oracle learners only."""
        raise InputError(f"{self.name} is not an oracle: it must not see the truth.")

    def ask(self) -> Play:
        """What to play next; the answer stays the same until the next ``tell``."""
        play: object = self._ask()
        if (
            not isinstance(play, Play)
            or not isinstance(play.steps, Integral)
            or play.steps < 1
            or not isinstance(play.policy, tuple | Controller)
        ):
            raise InputError(
                f"The learner {self.name!r} asks for {shown(play)}: _ask returns a Play of at "
                "least 1 step, with a tuple of parameters or a Controller as its policy."
            )
        return play

    def tell(self, trajectory: Trajectory) -> None:
        """Learn from an observed trajectory, of at most as many steps as ``ask`` requested.

        Learners with ``takes_any`` also accept more steps, and other policies of the class. A
        trajectory that does not fit is refused and leaves the learner unchanged.
        """
        if not isinstance(trajectory, Trajectory):
            raise InputError(f"Cannot tell {shown(trajectory)}: tell a Trajectory.")
        play = self.ask()
        asked = self._asked(trajectory.played, play.policy)
        if not (asked and len(trajectory) <= play.steps) and not self.takes_any:
            self._refuse_changes(play)
        self._accept(trajectory, play, asked)
        self.problem.check(trajectory)
        if not len(trajectory):
            return
        # The played policy may be written with rounding: replace it by the one ask() returned.
        if asked and trajectory.played != play.policy:
            trajectory = Trajectory(play.policy, **trajectory.columns)
        self._tell(trajectory)
        self.steps += len(trajectory)

    def state_dict(self) -> State:
        """The full state, as JSON values and arrays; loading it resumes bit for bit."""
        return sealed(
            {
                "schema": SCHEMA,
                "learner": self.name,
                "problem": self.problem.describe(),
                "settings": self.settings(),
                "steps": self.steps,
                "state": self._state(),
            }
        )

    def load_state_dict(self, state: State) -> None:
        """Resume from a saved state of the same learner, problem and settings."""
        check_schema(state, SCHEMA)
        state = unsealed(state)
        expected = {
            "learner": self.name,
            "problem": self.problem.describe(),
            "settings": self.settings(),
        }
        for key, mine in expected.items():
            if state.get(key) != mine:
                where, theirs, own = first_difference(key, state.get(key), mine)
                raise InputError(
                    f"Cannot load a state whose {where} is {shown(theirs)}: this learner's is "
                    f"{shown(own)}."
                )
        before = self._state()
        try:
            self._load(state["state"])
            self.steps = int(state["steps"])
        except Exception:  # a damaged state may raise anything
            self._load(before)
            raise InputError(DAMAGED) from None

    @abstractmethod
    def recommend(self) -> Recommendation:
        """The policy to use from now on, given all data so far."""

    def settings(self) -> dict[str, object]:
        """The learner's settings as JSON values."""
        known: dict[str, object] = {"horizon": self.horizon, "seed": self.seed}
        if self.takes_start:
            known["start"] = None if self.start is None else list(self.start)
        return known

    def __repr__(self) -> str:
        return f"<{self.name} on a {self.problem.kind} problem, {self.steps} steps>"

    @property
    def title(self) -> str:
        """Title of its tables and figures."""
        return self.name

    @property
    def records(self) -> tuple[EpochRecord, ...]:
        """One record per finished epoch; empty for learners without epochs."""
        return ()

    @property
    def survivors(self) -> int | None:
        """Number of policies that may still be best; None where they can't be counted."""
        return None

    @property
    def effective_alpha(self) -> float:
        """Share of steps informative about the estimated best policy; NaN where unknown."""
        return math.nan

    @property
    def stop(self) -> Stop:
        """How the run would end now, with advice."""
        return Stop.ORACLE if self.oracle else Stop.LATEST

    @property
    def outlook(self) -> str:
        """How the run would end now and what would change that, as a sentence."""
        return self.stop.value

    def _asked(self, played: Policy | Controller, asked: Policy | Controller) -> bool:
        """Whether the played policy is the one that was asked for, up to rounding."""
        if played == asked:
            return True
        if isinstance(played, Controller) or isinstance(asked, Controller):
            return False
        least = _AS_WRITTEN * self.problem.policy_class.bound  # for parameters that are 0
        return len(played) == len(asked) and all(
            math.isclose(a, b, rel_tol=_AS_WRITTEN, abs_tol=least)
            for a, b in zip(played, asked, strict=True)
        )

    def _refuse_changes(self, play: Play) -> None:
        """Refuse a learner that asks for one thing and then for another."""
        other = next(
            (again for again in (self.ask() for _ in range(_ASKED)) if again != play), play
        )
        if other != play:
            raise InputError(
                f"The learner {self.name!r} asks for {shown(play)} and then for {shown(other)}: "
                "_ask must answer the same until the next tell. Choose in __init__ and in _tell."
            )

    def _accept(self, trajectory: Trajectory, play: Play, asked: bool) -> None:
        """Refuse a policy that was not asked for, or more steps than were asked for."""
        if not asked:
            raise InputError(
                f"Cannot tell steps of {_shown(trajectory.played)}: "
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
        """The learner's own state: all that ``saved`` declares."""
        return gather(self)

    def _load(self, state: State) -> None:
        restore(self, state)


def fits(kind: type[Learner], problem: Problem) -> bool:
    """Whether a learner can learn a problem; a class that can't say so is refused."""
    with blaming(
        f"{called(kind)}.fits of the learner {kind.name!r} fails on a {problem.kind} problem",
        "it returns True or False for any problem",
    ):
        return bool(kind.fits(problem))


def made(kind: type[Learner], problem: Problem, **settings: Any) -> Learner:
    """A learner with these settings; one that can't be made is refused."""
    with blaming(
        f"{called(kind)}.__init__ of the learner {kind.name!r} fails",
        "it takes a problem, a horizon, a seed and its own settings",
    ):
        return kind(problem, **settings)


def first_difference(name: str, one: Any, other: Any) -> tuple[str, Any, Any]:
    """The first entry in which two values differ, by its name."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**other, **one}:
            if one.get(key) != other.get(key):
                return first_difference(f"{name}.{key}", one.get(key), other.get(key))
    return name, one, other


def _shown(played: Policy | Controller) -> str:
    return str(played) if isinstance(played, Controller) else f"policy {show_policy(played)}"
