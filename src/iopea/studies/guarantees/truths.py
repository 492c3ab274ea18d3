"""Demand that violates an assumption: it is autocorrelated, or its law changes.

Problem files have no such laws; :func:`system_from` reads systems with them.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import Annotated, Any

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr
from scipy.signal import lfilter
from scipy.special import log_ndtr

from iopea.demand import DemandStream, Exponential, Size
from iopea.model import Count, Probability
from iopea.problem_files import problem_from
from iopea.problems.base import Problem
from iopea.state import parts
from iopea.types import Truth


class Remembering(Exponential):
    """Exponential demand with a state that its stream keeps."""

    _memory: float = PrivateAttr(default=0.0)

    def stream(self, seed: SeedSequence) -> DemandStream:
        """A sequence of draws with its own state."""
        return _RememberingStream(self.model_copy(), seed)

    @abstractmethod
    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        """Draw n times, and update the state."""


class _RememberingStream(DemandStream):
    """Saves the state of the demand as well."""

    saved = parts(memory=float)
    demand: Remembering

    @property
    def memory(self) -> float:
        return self.demand._memory

    @memory.setter
    def memory(self, value: float) -> None:
        self.demand._memory = value


class Persistent(Remembering):
    """Exponential in every step, with a normal score that follows an AR(1) process.

    The law of a single step is that of :class:`~iopea.demand.Exponential`.
    """

    distribution = "persistent"
    correlation: Annotated[float, Field(gt=-1, lt=1)]

    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        noise = np.sqrt(1 - self.correlation**2) * rng.standard_normal(n)
        start = [self.correlation * self._memory]
        scores, _ = lfilter([1.0], [1.0, -self.correlation], noise, zi=start)
        if n:
            self._memory = float(scores[-1])
        return np.asarray(-self.mean * log_ndtr(-scores))


class Seasons(Remembering):
    """Exponential, with a mean that is ``factor`` times as large in high seasons as in low ones.

    A season continues in the next step with probability ``stay``.
    """

    distribution = "seasons"
    factor: Size
    stay: Probability

    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        uniform = rng.random((n, 2))
        season = (self._memory + np.cumsum(uniform[:, 0] > self.stay)) % 2
        if n:
            self._memory = float(season[-1])
        low = 2 * self.mean / (1 + self.factor)
        return np.asarray(-low * self.factor**season * np.log1p(-uniform[:, 1]))


class Changing(Remembering):
    """Exponential, with a mean that is ``factor`` times as large from one step on."""

    distribution = "changing"
    factor: Size
    after: Count

    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        later = self._memory + np.arange(n) >= self.after
        self._memory += n
        return rng.exponential(self.mean, n) * np.where(later, self.factor, 1.0)


#: The laws of this module by their names.
_LAWS: dict[str, type[Remembering]] = {
    law.distribution: law for law in (Persistent, Seasons, Changing)
}


def system_from(text: str) -> tuple[Problem, Truth]:
    """Problem and truth from the text of a system, as :func:`system_text` has it."""
    content = json.loads(text)
    table = dict(content.get("demand", {}))
    law = _LAWS.get(table.pop("distribution", ""))
    if law is None:
        return problem_from(content)
    known = {**content, "demand": Exponential(mean=table["mean"]).table()}
    return problem_from(known)[0], law(**table)
