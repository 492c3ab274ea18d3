"""Many copies of a system as one vector environment, stepped in one compiled batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Discrete, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from iopea.envs.inventory import ACTION_TOLERANCE, NO_ORDER
from iopea.errors import InputError, shown
from iopea.model import check_count, check_seed
from iopea.problems.base import Problem
from iopea.problems.stepped import SteppedSimulator
from iopea.seeds import seed_for
from iopea.types import Array, Truth

#: Number of steps for which noise is drawn at once.
_AHEAD = 256

Numbers = NDArray[Any]


class SystemVectorEnv(VectorEnv[Numbers, Numbers, Numbers]):
    """Copies of a system in parallel, each with independent noise.

    Observations, actions and rewards are those of the environment of a single system:
    :class:`~iopea.envs.LostSalesEnv`, :class:`~iopea.envs.DualSourcingEnv` and
    :class:`~iopea.envs.ServiceRateQueueEnv`. No copy terminates: ``terminations`` and
    ``truncations`` are always False. The info has the actions as executed, the record of each
    step, and its observable ``cost``; never the lost demand. A queue with a continuous clock
    steps from event to event.

    Parameters
    ----------
    problem : Problem. A problem with states and actions.
    truth : Truth. The demand distribution, or the rates.
    num_envs : int. Number of copies.
    seed : int. Seed of the first :meth:`reset` that has none; each later reset without a seed
        starts new noise sequences.

    Examples
    --------
    >>> from iopea.systems.queue import ServiceRateQueue
    >>> envs = SystemVectorEnv(*ServiceRateQueue.example(), num_envs=3)
    >>> envs.reset(seed=1)
    (array([0, 0, 0]), {})
    >>> for _ in range(5):
    ...     observations, rewards, terminations, truncations, info = envs.step(np.array([0, 0, 3]))
    >>> rewards, info["rate"]
    (array([-0.        , -0.        , -0.27272727]), array([0., 0., 3.]))
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, problem: Problem, truth: Truth, num_envs: int = 1, seed: int = 0) -> None:
        control = problem.control
        system = problem.simulator(truth)
        if control is None or not isinstance(system, SteppedSimulator):
            raise InputError(f"A {problem.kind} problem has no states and actions.")
        self.num_envs = check_count("num_envs", num_envs)
        self._problem, self._truth, self._control = problem, truth, control
        self._system: SteppedSimulator = system
        self.single_observation_space: Space[Any]
        self.single_action_space: Space[Any]
        if control.whole:
            self.single_observation_space = Discrete(int(control.highest_state[0]) + 1)
            self.single_action_space = Discrete(int(control.highest_action[0]) + 1)
        else:
            highest = control.highest_state.astype(np.float32)
            self.single_observation_space = Box(np.zeros_like(highest), highest, dtype=np.float32)
            self.single_action_space = Box(-1.0, 1.0, (len(control.actions),), np.float32)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._np_random = Generator(PCG64(seed_for("vector", check_seed(seed))))
        self._states: Array | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Numbers, dict[str, Any]]:
        """Empty all systems and start new noise sequences."""
        if options:
            raise InputError(f"Unknown option {next(iter(options))!r}: reset() takes none.")
        super().reset(seed=seed)
        seeds = self.np_random.integers(2**63, size=self.num_envs).tolist()
        kind = type(self._system)
        self._systems = [kind(self._problem, self._truth, each) for each in seeds]
        self._states = np.array([system._row() for system in self._systems])
        self._noise = np.empty((0, self.num_envs, 1))
        self._used = 0
        return self._observations(self._states), {}

    def step(self, actions: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers, dict[str, Any]]:
        """Take the actions and simulate one step of all systems; invalid ones change nothing."""
        if self._states is None:
            raise ResetNeeded("Cannot step before the first reset(): call it first.")
        control, before = self._control, self._states.copy()
        taken = self._taken(before, actions)
        if self._used == len(self._noise):
            self._noise = np.stack([system._noise(_AHEAD) for system in self._systems], axis=1)
            self._used = 0
        records, _ = self._system._advance(self._states, taken, self._noise[self._used])
        self._used += 1
        rows = np.column_stack((before, taken, records))
        columns = dict(zip(control.columns, rows.T, strict=True))
        costs = control.costs(columns)
        shown = {name: columns[name] for name in (*control.actions, *control.records)}
        info: dict[str, Any] = {**shown, "cost": costs}
        info |= {f"_{name}": np.ones(self.num_envs, dtype=np.bool_) for name in info}
        ended = np.zeros(self.num_envs, dtype=np.bool_)
        return self._observations(self._states), -costs, ended, ended.copy(), info

    def _observations(self, states: Array) -> Numbers:
        if self._control.whole:
            return states[:, 0].astype(np.int64)
        # Rounding may exceed the bound.
        highest = self._control.highest_state.astype(np.float32)
        return np.asarray(np.minimum(states.astype(np.float32), highest))

    def _taken(self, states: Array, actions: Numbers) -> Array:
        """The actions of the system that those of the environment encode."""
        try:
            values = np.asarray(actions, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"The actions are an array of numbers, not {shown(actions)}."
            ) from None
        if values.shape != self.action_space.shape:
            raise InputError(
                f"The actions have shape {self.action_space.shape}, not {values.shape}."
            )
        if self._control.whole:
            highest = int(self._control.highest_action[0])
            wrong = ~((values == np.floor(values)) & (values >= 0) & (values <= highest))
            if wrong.any():
                raise InputError(
                    f"An action is a whole number from 0 to {highest}, not {values[wrong][0]}."
                )
            return values[:, None]
        wrong = ~(np.abs(values) <= 1 + ACTION_TOLERANCE)
        if wrong.any():
            raise InputError(f"An action must lie between -1 and 1, not at {values[wrong][0]}.")
        highest_action = self._control.highest_action
        orders = self._control.within(states, (values + 1) / 2 * highest_action)
        return np.where(orders > NO_ORDER * highest_action, orders, 0.0)
