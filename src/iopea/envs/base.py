"""The base class of all environments: seeds, reset, step and render."""

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
    """A system that never terminates; a subclass implements its start, steps and observations."""

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
        """Empty the system and start a new noise sequence.

        The same seed gives the same sequence; without a seed, the next sequence is used.
        """
        if options:
            raise InputError(f"Unknown option {next(iter(options))!r}: reset() takes none.")
        super().reset(seed=seed)
        # A separate seed, so that the number of steps does not change later sequences.
        self._start(SeedSequence(int(self.np_random.integers(2**63))))
        self._started, self._steps = True, 0
        return self._observation(), {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take an action and simulate one step; an invalid action changes nothing."""
        if not self._started:
            raise ResetNeeded("Cannot step before the first reset(): call it first.")
        cost, info = self._advance(action)
        self._steps += 1
        return self._observation(), -cost, False, False, info

    def render(self) -> str | None:
        """A line of text that describes the system, in render mode "ansi"."""
        return None if self.render_mode is None else self._line()

    @abstractmethod
    def _start(self, seed: SeedSequence) -> None:
        """Empty the system and seed its noise."""

    @abstractmethod
    def _advance(self, action: Action) -> tuple[float, dict[str, Any]]:
        """Simulate one step; return its cost and info."""

    @abstractmethod
    def _observation(self) -> Observation:
        """The current observation."""

    @abstractmethod
    def _line(self) -> str:
        """A line of text that describes the system."""
