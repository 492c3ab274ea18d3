"""The queue with service rate control as a Gymnasium environment of the uniformised chain."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import ArrayLike, NDArray

from iopea.envs.base import SystemEnv
from iopea.errors import InputError, shown
from iopea.systems.queue import QueueRates, ServiceRateQueue
from iopea.systems.queue import kernel as kernels

#: Names of the events of a step.
_EVENTS = {
    kernels.NOTHING: "none",
    kernels.ARRIVAL: "arrival",
    kernels.SERVICE: "service",
    kernels.MISS: "miss",
}
#: Change of the number of jobs at each event.
_CHANGES = {kernels.NOTHING: 0, kernels.ARRIVAL: 1, kernels.SERVICE: -1, kernels.MISS: -1}


class ServiceRateQueueEnv(SystemEnv[np.int64, np.int64]):
    """The queue of :class:`~iopea.ServiceRateQueue`, with any rate in each step.

    It never terminates: ``terminated`` and ``truncated`` are always False. For episodes, pass
    ``max_episode_steps`` to ``gymnasium.make``.

    **Observation**: the number of jobs in the system, s from 0 to L.

    **Action**: the service rate, a from 0 to A_max.

    **Step**: one of the uniformised chain, which makes U steps per unit of time. A job arrives
    with probability λ_s / U, one is served with probability a / U if there is any, and one misses
    its deadline with probability s μ / U. Otherwise nothing happens. A job that arrives at a full
    buffer is lost, which does not count as an event.

    **Reward**: minus the cost w(a) / U, and C more where a deadline was missed.

    **Info**: the ``event``, one of "arrival", "service", "miss" and "none"; the ``time`` of the
    step, 1 / U; and the ``cost``.

    Parameters
    ----------
    problem : ServiceRateQueue, optional
        Buffer, rates and costs; those of ``ServiceRateQueue.example()`` if not given.
    rates : QueueRates, optional
        The true rates, at most their bounds in the problem; those of the example if not given.
        Their ``clock`` is ignored: time is always that of the uniformised chain.
    render_mode : {None, "ansi"}
        With "ansi", :meth:`render` returns a line of text.

    Examples
    --------
    >>> env = ServiceRateQueueEnv(render_mode="ansi")
    >>> observation, info = env.reset(seed=0)
    >>> for _ in range(3):
    ...     step = env.step(env.policy_action([0, 3, 3], observation))
    ...     observation, reward, terminated, truncated, info = step
    >>> info["event"], round(info["time"], 6), round(reward, 6)
    ('service', 0.030303, -0.272727)
    >>> env.render()
    'Step 3: 0 jobs in the system, last event service.'
    """

    def __init__(
        self,
        *,
        problem: ServiceRateQueue | None = None,
        rates: QueueRates | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        default, default_rates = ServiceRateQueue.example()
        self.problem = default if problem is None else problem
        truth = default_rates if rates is None else rates
        self.problem.simulator(truth)  # refuses rates above their bounds
        self.observation_space = Discrete(self.problem.system.buffer + 1)
        self.action_space = Discrete(self.problem.system.max_rate + 1)
        self._arrival_rates = (truth.arrival_rate * self.problem.system.profile).tolist()
        self._deadline_rate = truth.deadline_rate
        self._power = self.problem.system.power_costs.tolist()
        self._rng: Generator
        self._empty()

    def __repr__(self) -> str:
        buffer, max_rate = self.problem.system.buffer, self.problem.system.max_rate
        return f"ServiceRateQueueEnv(buffer={buffer}, max_rate={max_rate})"

    def policy_action(self, policy: ArrayLike, observation: ArrayLike) -> np.int64:
        """The action of a policy [θ]: its service rate in the observed state [θ_s].

        >>> env = ServiceRateQueueEnv()
        >>> [int(env.policy_action((0, 1, 3), jobs)) for jobs in range(3)]
        [0, 1, 3]
        """
        rates, states = _array(policy), self.problem.system.buffer + 1
        if rates.shape != (states,):
            raise InputError(f"A policy has {states} rates, one per state, not {shown(policy)}.")
        jobs = _whole("An observation", observation, self.problem.system.buffer)
        return np.int64(
            _whole("A rate of a policy", rates[jobs].item(), self.problem.system.max_rate)
        )

    def _start(self, seed: SeedSequence) -> None:
        self._rng = Generator(PCG64(seed))
        self._empty()

    def _empty(self) -> None:
        self._jobs = 0
        self._event: str | None = None

    def _advance(self, action: np.int64) -> tuple[float, dict[str, Any]]:
        rate = _whole("An action", action, self.problem.system.max_rate)
        jobs, steps_per_time = self._jobs, self.problem.system.uniform_rate
        event = kernels.next_event(
            self._rng.random() * steps_per_time,
            self._arrival_rates[jobs],
            float(rate) if jobs else 0.0,
            jobs * self._deadline_rate,
        )
        self._jobs += _CHANGES[event]
        self._event = _EVENTS[event]
        time = 1 / steps_per_time
        cost = self._power[rate] * time + self.problem.system.miss_penalty * (event == kernels.MISS)
        return cost, {"event": self._event, "time": time, "cost": cost}

    def _observation(self) -> np.int64:
        return np.int64(self._jobs)

    def _line(self) -> str:
        jobs = "1 job" if self._jobs == 1 else f"{self._jobs} jobs"
        return f"Step {self._steps}: {jobs} in the system, last event {self._event or 'none yet'}."


def _whole(name: str, value: ArrayLike, highest: int) -> int:
    """An integer from 0 to ``highest``; otherwise an :class:`InputError` that names it."""
    number = _array(value)
    if number.shape == () and number.dtype.kind in "iuf":
        if number == np.floor(number) and 0 <= number <= highest:
            return int(number)
        value = number.item()
    raise InputError(f"{name} is a whole number from 0 to {highest}, not {shown(value)}.")


def _array(value: ArrayLike) -> NDArray[Any]:
    """The value as an array; empty if that is impossible, as for lists of unequal length."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.empty(0)
