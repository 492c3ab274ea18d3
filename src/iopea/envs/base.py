"""What all environments share: seeds, the order of calls, text and refusals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

import gymnasium
from gymnasium.error import ResetNeeded
from numpy.random import SeedSequence

from iopea.errors import InputError, unknown

Observation = TypeVar("Observation")
Action = TypeVar("Action")


class SystemEnv(gymnasium.Env[Observation, Action], ABC):
    """A system that never ends: a subclass says how it starts, steps and looks."""

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012

    def __init__(self, render_mode: str | None) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise unknown("render mode", str(render_mode), self.metadata["render_modes"])
        self.render_mode = render_mode
        self._started = False
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Empty the system and start a new sequence of noise.

        The same seed gives the same sequence; without a seed, the next one follows.
        """
        if options:
            raise InputError(f"Unknown option {next(iter(options))!r}: reset() takes none.")
        super().reset(seed=seed)
        # A seed of its own, so that the steps taken do not change the sequence that follows.
        self._start(SeedSequence(int(self.np_random.integers(2**63))))
        self._started, self._steps = True, 0
        return self._observation(), {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Do what the action says and pass one step; a refused action changes nothing."""
        if not self._started:
            raise ResetNeeded("Cannot step before the first reset(): call it first.")
        cost, info = self._pass(action)
        self._steps += 1
        return self._observation(), -cost, False, False, info

    def render(self) -> str | None:
        """The system in a line of text, if made with "ansi"."""
        return None if self.render_mode is None else self._line()

    @abstractmethod
    def _start(self, seed: SeedSequence) -> None:
        """Empty the system and take noise from this seed."""

    @abstractmethod
    def _pass(self, action: Action) -> tuple[float, dict[str, Any]]:
        """Pass one step; return its cost and info."""

    @abstractmethod
    def _observation(self) -> Observation:
        """What is seen now."""

    @abstractmethod
    def _line(self) -> str:
        """The system in a line of text."""
