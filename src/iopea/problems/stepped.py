"""Simulators that can be run step by step: one system, or many copies in parallel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from iopea.errors import InputError
from iopea.problems.base import Simulator
from iopea.seeds import seed_for
from iopea.types import Array, Controller, Rollout, State, Trajectory

#: Rounds for which noise is drawn at once where no records are kept.
_ROUNDS_AHEAD = 32


class SteppedSimulator(Simulator):
    """A simulator that can also take single steps, for controllers.

    A subclass implements :meth:`_row`, :meth:`_set_row`, :meth:`_noise` and :meth:`_advance`, and
    is created from a problem, its truth and a seed.
    """

    #: Copies beside this system, and the one whose turn it is.
    _copies: tuple[SteppedSimulator, ...] = ()
    _turn: int = 0

    def drive(self, controller: Controller, steps: int, copies: int = 1) -> Rollout:
        """Let a controller act from the present state on.

        Several copies of the system, each with its own noise, take steps in turn; the first copy
        is this system.
        """
        control = self.problem.control
        if control is None:
            return super().drive(controller, steps, copies)
        self._add_copies(copies - 1)
        systems: list[SteppedSimulator] = [self, *self._copies[: copies - 1]]
        states = np.array([system._row() for system in systems])
        firsts = [(number - self._turn) % copies for number in range(copies)]
        drawn = [
            system._noise(len(range(first, steps, copies)))
            for system, first in zip(systems, firsts, strict=True)
        ]
        noise = np.empty((steps, drawn[0].shape[1]))
        for first, draws in zip(firsts, drawn, strict=True):
            noise[first::copies] = draws
        wide, acting = states.shape[1], len(control.actions)
        rows = np.empty((steps, len(control.columns)))
        costs = np.empty(steps)
        done = 0
        while done < steps:
            now = (self._turn + done) % copies
            last = min(done + copies - now, steps)
            chosen = slice(now, now + last - done)
            # The controller sees all states in every round, wherever the run is interrupted.
            actions = control.check(states, controller.act(states))[chosen]
            part = rows[done:last]
            part[:, :wide] = states[chosen]
            part[:, wide : wide + acting] = actions
            part[:, wide + acting :], costs[done:last] = self._advance(
                states[chosen], actions, noise[done:last]
            )
            done = last
        for system, row in zip(systems, states, strict=True):
            system._set_row(row)
        self._turn = int((self._turn + steps) % copies)
        columns = dict(zip(control.columns, rows.T, strict=True))
        return Rollout(Trajectory(controller, **columns), costs, self._elapsed(columns))

    def average_cost(
        self, act: Callable[[Array], Array], rounds: int, settling: int, copies: int
    ) -> float:
        """Average cost per unit of time of many parallel copies, without keeping records.

        They start in the present state, which does not change, and share the noise of this system:
        each round uses the next numbers of it.

        Parameters
        ----------
        act : callable. The actions in states, arrays (copies, actions) and (copies, k).
        rounds, settling : int. Steps of each copy that count, and steps before them that don't.
        copies : int. Number of copies.
        """
        control = self.problem.control
        if control is None:
            raise InputError(f"A {self.problem.kind} problem has no states and actions.")
        states = np.tile(self._row(), (copies, 1))
        cost = time = 0.0
        for done in range(-settling, rounds):
            place = (done + settling) % _ROUNDS_AHEAD
            if place == 0:
                noise = self._noise(_ROUNDS_AHEAD * copies).reshape(_ROUNDS_AHEAD, copies, -1)
            actions = control.check(states, act(states))
            records, costs = self._advance(states, actions, noise[place])
            if done >= 0:
                passed = self._elapsed(dict(zip(control.records, records.T, strict=True)))
                cost += float(costs.sum())
                time += copies if passed is None else passed
        return cost / time

    def costs_on_path(
        self, controllers: Sequence[Controller], steps: int, batches: int, seed: int
    ) -> dict[Controller, float]:
        """Average true costs on the sample path of :meth:`costs`, where controllers can use it."""
        return {}

    def _add_copies(self, number: int) -> None:
        """Create copies until there are this many besides this system."""
        while len(self._copies) < number:
            seed = seed_for("copy", self.seed, len(self._copies)).entropy
            other = type(self)(self.problem, self.truth, cast(int, seed))
            self._copies = (*self._copies, other)

    @abstractmethod
    def _row(self) -> Array:
        """The present state."""

    @abstractmethod
    def _set_row(self, row: Array) -> None:
        """Set the present state."""

    @abstractmethod
    def _noise(self, steps: int) -> Array:
        """Noise of the next steps, an array (steps, m)."""

    @abstractmethod
    def _advance(self, states: Array, actions: Array, noise: Array) -> tuple[Array, Array]:
        """Take one step in each state, in place; return records (n, c) and true costs."""

    def _elapsed(self, columns: Mapping[str, Array]) -> float | None:
        """Time that has passed, where steps differ in length."""
        return None

    def _whole(self) -> State:
        """The state of the system and its copies."""
        copies = [system._whole() for system in self._copies]
        return {**super()._whole(), "turn": self._turn, "copies": copies}

    def _load_whole(self, state: State) -> None:
        super()._load_whole(state)
        self._turn = int(state["turn"])
        self._copies = self._copies[:0]
        self._add_copies(len(state["copies"]))
        for system, saved in zip(self._copies, state["copies"], strict=True):
            system._load_whole(saved)
