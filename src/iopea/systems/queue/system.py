"""The M/M/1/L queue whose jobs have deadlines, under control of the service rate.

With s jobs present, jobs enter a buffer of size L at rate λ_s; a job that finds it full is lost.
Each waits until it is served, or until its deadline, exponential with rate μ, has passed; then it
leaves, at a penalty C. In state s a policy serves at rate θ_s, which costs power w(θ_s) per unit
of time. Time is measured in steps of the uniformised chain, U per unit of time.

Only the scale λ of the arrivals and the deadline rate μ are unknown, and the records of any policy
estimate them: all policies inform each other (label ``queuing_dtv``). From the two estimates, the
cost of any policy follows by the stationary distribution of the birth-death chain, and the best
policy by policy iteration, so that no list of policies is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, ValidationInfo, field_validator, model_validator

from iopea.errors import InputError, ModelMismatchError, shown, unknown
from iopea.model import Count, Model, NonNegative, Positive, check_nonnegative
from iopea.problems.base import Problem, System
from iopea.systems.queue.simulator import QueueControl, QueueSimulator
from iopea.systems.queue.table import QueueTable
from iopea.types import Array, Trajectory

#: Most numbers in all policies together that differ from the best one in a single rate.
MOST_CHANGES = 2**25
#: Tolerance for rounding, as a share of the uniformisation constant.
_ROUNDING = 1e-12

AtLeastOne = Annotated[Count, Field(ge=1)]


class QueueRates(Model):
    """The two unknown rates, and how the simulator measures time.

    Parameters
    ----------
    arrival_rate : float. Largest arrival rate of any state [λ].
    deadline_rate : float. Rate at which the deadline of a job passes [μ].
    clock : str. ``"uniformized"``: a step is one transition of the uniformised chain.
        ``"continuous"``: a step lasts until the next event.
    """

    arrival_rate: Positive
    deadline_rate: Positive
    clock: Literal["uniformized", "continuous"] = "uniformized"

    def table(self) -> dict[str, object]:
        """Its part of the ``[problem]`` table of a problem file.

        >>> QueueRates(arrival_rate=6, deadline_rate=3).table()
        {'arrival_rate': 6.0, 'deadline_rate': 3.0}
        """
        return self.model_dump(mode="json", exclude_defaults=True)


class QueueSystem(System):
    """A queue with deadlines, without its unknown rates.

    Parameters
    ----------
    buffer : int. The most jobs in the system [L].
    max_rate : int. Largest service rate; the rates are 0, 1, ... up to it [A_max].
    arrival_rate_bound, deadline_rate_bound : float. Upper bounds on the unknown rates
        [λ_max, μ_max].
    miss_penalty : float. Cost of a job whose deadline passes [C].
    arrivals : str or list. How the arrival rate depends on the jobs s in the system:
        ``"decaying"`` is λ (1 - s/L), ``"fixed"`` is λ below L. From a list of L + 1 rates by
        state only the profile is used: each as a share of the largest. A job that finds L others
        is lost, whatever the last entry.
    power : str or list. Cost per unit of time of each service rate [w]: ``"square"``, or a list
        of A_max + 1 costs of any shape.
    uniformization : float, optional. Steps per unit of time [U]; λ_max + L μ_max + A_max if not
        given.
    """

    kind: ClassVar[str] = "queue"
    tables: ClassVar[tuple[str, ...]] = ()
    truth_type: ClassVar[type[Any]] = QueueRates

    buffer: AtLeastOne
    max_rate: AtLeastOne
    arrival_rate_bound: Positive
    deadline_rate_bound: Positive
    miss_penalty: NonNegative
    arrivals: Literal["decaying", "fixed"] | tuple[float, ...] = "decaying"
    power: Literal["square"] | tuple[float, ...] = "square"
    uniformization: Positive | None = None

    @field_validator("arrivals", mode="before")
    @classmethod
    def _profile(cls, value: Any, info: ValidationInfo) -> Any:
        rates = _word_or_numbers(value, "arrivals", ("decaying", "fixed"), "buffer", info)
        if isinstance(rates, str):
            return rates
        if rates[0] == 0:
            raise ValueError("must have a rate above 0 in the empty queue, not 0.")
        largest = max(rates[:-1])
        return (*(rate / largest for rate in rates[:-1]), 0.0)

    @field_validator("power", mode="before")
    @classmethod
    def _power(cls, value: Any, info: ValidationInfo) -> Any:
        return _word_or_numbers(value, "power", ("square",), "max_rate", info)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        changes = (self.buffer + 1) ** 2 * self.max_rate
        if changes > MOST_CHANGES:
            raise ValueError(
                f"A buffer of {shown(self.buffer)} with rates up to {shown(self.max_rate)} makes "
                f"(L + 1)² A_max = {shown(changes)}: it can be at most {MOST_CHANGES}."
            )
        if self.miss_penalty + self.power_costs.max() == 0:
            raise ValueError("All costs are 0, so every policy is best: give one that is not.")
        entering = self.arrival_rate_bound * self.profile
        leaving = self.deadline_rate_bound * np.arange(self.buffer + 1) + self.max_rate
        leaving[0] = 0.0  # in an empty queue there is no one to serve
        least = float((entering + leaving).max())
        if self.uniform_rate < least * (1 - _ROUNDING):
            raise ValueError(
                f"uniformization is {self.uniform_rate:.10g}, but must be at least {least:.10g}, "
                "the largest total rate at which a state can be left."
            )
        return self

    @classmethod
    def read_truth(
        cls, content: Mapping[str, dict[str, Any]], directory: Path | None
    ) -> QueueRates:
        """The rates, from the ``[problem]`` table."""
        table = content["problem"]
        return QueueRates(**{key: table[key] for key in QueueRates.model_fields if key in table})

    @property
    def columns(self) -> tuple[str, ...]:
        """State, time and event."""
        return ("state", "time", "arrivals", "services", "misses")

    @property
    def profile(self) -> Array:
        """Arrival rate by state as a share of the largest; 0 in state L, where jobs are lost."""
        if not isinstance(self.arrivals, str):
            return np.array(self.arrivals)
        decay = np.arange(self.buffer + 1) / self.buffer
        return 1 - (decay if self.arrivals == "decaying" else np.floor(decay))

    @property
    def power_costs(self) -> Array:
        """Cost per unit of time of the rates 0, ..., A_max."""
        if self.power == "square":
            return np.arange(self.max_rate + 1.0) ** 2
        return np.array(self.power)

    @property
    def known(self) -> tuple[Array, Array, float]:
        """Profile, power and penalty, as the kernels take them."""
        return self.profile, self.power_costs, self.miss_penalty

    @property
    def uniform_rate(self) -> float:
        """Steps of the uniformised chain per unit of time [U]."""
        if self.uniformization is not None:
            return self.uniformization
        return self.arrival_rate_bound + self.buffer * self.deadline_rate_bound + self.max_rate

    def control(self, problem: Problem) -> QueueControl:
        """Jobs in the system, and the service rate to be chosen."""
        return QueueControl(problem)

    def tabular(self, problem: Problem, radius: float | None = None) -> QueueTable:
        """Jobs in the system, and the service rates; the radius has no effect."""
        return QueueTable(self)

    def simulator(self, problem: Problem, truth: QueueRates, seed: int = 0) -> QueueSimulator:
        """The true queue with those rates."""
        self.refuse_above_bounds(truth)
        return QueueSimulator(problem, truth, seed)

    def describe(self) -> dict[str, object]:
        """The queue as JSON values, without the rates."""
        return self.model_dump(mode="json", exclude_none=True)

    def check(self, trajectory: Trajectory) -> None:
        """Refuse states and events that a queue can't have."""
        state, time, arrivals, services, misses = (trajectory[name] for name in self.columns)
        inside = (state == np.floor(state)) & (state >= 0) & (state <= self.buffer)
        shares = self.profile[np.where(inside, state, 0).astype(np.intp)]
        flags = np.array([arrivals, services, misses])
        faults = {
            f"state is {{state}} at step {{step}}: it must be whole, 0 to {self.buffer}.": ~inside,
            "time is {time} at step {step}: it must be above 0.": time <= 0,
            "arrivals, services and misses are {arrivals:g}, {services:g} and {misses:g} at step "
            "{step}: each must be 0 or 1, and only one of them 1.": (
                ((flags != 0) & (flags != 1)).any(axis=0) | (flags.sum(axis=0) > 1)
            ),
            "A job left at step {step}, but there were 0.": (state == 0) & (services + misses > 0),
            "A job entered at step {step}, but with {state:g} jobs none can: one that finds the "
            "queue full is lost, and is no event.": (arrivals > 0) & (shares == 0),
        }
        for sentence, fault in faults.items():
            if fault.any():
                step = int(fault.argmax())
                row = {name: float(trajectory[name][step]) for name in self.columns}
                raise ModelMismatchError(sentence.format(step=step, **row))

    def refuse_above_bounds(self, truth: QueueRates) -> None:
        """Refuse rates above their bounds."""
        for name in ("arrival_rate", "deadline_rate"):
            rate, bound = getattr(truth, name), getattr(self, f"{name}_bound")
            if rate > bound:
                raise InputError(f"{name} is {rate}, above {name}_bound, which is {bound}.")


def _word_or_numbers(
    value: Any, name: str, words: tuple[str, ...], last: str, info: ValidationInfo
) -> str | tuple[float, ...]:
    """One of the words, or a list of numbers, one for each of 0, ..., the field ``last``."""
    if isinstance(value, str):
        if value not in words:
            raise unknown(name, value, words)
        return value
    if not isinstance(value, list | tuple | np.ndarray) or np.ndim(value) != 1:
        raise ValueError(f"must be one of {', '.join(words)} or a list, not {shown(value)}.")
    expected = info.data.get(last, 1) + 1
    if len(value) != expected:
        raise ValueError(f"must have {expected} entries, {last} and one more, not {len(value)}.")
    return tuple(check_nonnegative(f"Entry {i} of {name}", each) for i, each in enumerate(value))
