"""The parts of a study, which run on any machine, and the finding made of their results.

A study measures a promise of the library and checks whether it holds, with a bound on the
probability that the check fails although the promise holds.
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import polars as pl

import iopea
from iopea.comparison.tables import Figure, Table
from iopea.comparison.tasks import Row, as_text

#: Columns of the stored rows, one for each part.
COLUMNS: dict[str, Any] = {
    "task": pl.String,
    "study": pl.String,
    "settings": pl.String,
    "first_seed": pl.Int64,
    "runs": pl.Int64,
    "version": pl.String,
    "values": pl.String,
    "seconds": pl.Float64,
}
_DIGEST = 16

#: The measurements of a part, as JSON values.
Values = dict[str, Any]


@dataclass(frozen=True)
class Part(ABC):
    """Some runs of one case of a study.

    A subclass adds the fields that its result depends on, as numbers and text, and :meth:`measure`.

    Attributes
    ----------
    case : str. Name of the case, valid in a file name.
    first_seed, runs : int. The seeds.
    effort : float. Estimated run time in seconds.
    """

    study: ClassVar[str]

    case: str
    first_seed: int
    runs: int
    effort: float

    @property
    def seeds(self) -> range:
        """One for each run."""
        return range(self.first_seed, self.first_seed + self.runs)

    @property
    def key(self) -> str:
        """A unique name, valid in a file name."""
        about = as_text(asdict(self) | {"study": self.study, "effort": None})
        digest = hashlib.sha256(about.encode()).hexdigest()[:_DIGEST]
        return f"{self.study}.{self.case}.{self.first_seed}.{digest}"

    @property
    def before(self) -> tuple[Part, ...]:
        """No part needs another."""
        return ()

    @abstractmethod
    def measure(self) -> Values:
        """Do the runs, and return the measurements as JSON values."""

    def perform(self, found: Sequence[list[Row]]) -> list[Row]:
        """Measure, and return the row to store."""
        start = time.perf_counter()
        values = as_text(self.measure())
        return [
            {
                "task": self.key,
                "study": self.study,
                "settings": as_text(asdict(self)),
                "first_seed": self.first_seed,
                "runs": self.runs,
                "version": iopea.__version__,
                "values": values,
                "seconds": time.perf_counter() - start,
            }
        ]


@dataclass(frozen=True)
class Check:
    """A promise, and whether it was kept.

    Attributes
    ----------
    claim : str. The promise, in a sentence.
    measured : str. The evidence.
    passed : bool. Whether it holds.
    false_alarm : float. A bound on the probability to fail although the promise holds.
    """

    claim: str
    measured: str
    passed: bool
    false_alarm: float


@dataclass(frozen=True)
class Finding:
    """The result of a study.

    Attributes
    ----------
    lead : tuple of str. Paragraphs: the promise, and how it was measured.
    tables : tuple of Table.
    figures : tuple of Figure.
    checks : tuple of Check.
    """

    lead: tuple[str, ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    checks: tuple[Check, ...]


class Study(ABC):
    """One promise of the library.

    The ``full`` study is for the report. The quick one runs with the tests: all its checks together
    raise a false alarm less than once in 10^6 runs.
    """

    name: ClassVar[str]
    title: ClassVar[str]

    @classmethod
    def command(cls, full: bool) -> str:
        """The command that runs the study."""
        return f"iopea validate {cls.name} --{'full' if full else 'quick'}"

    @abstractmethod
    def parts(self, full: bool) -> list[Part]:
        """All parts to run."""

    @abstractmethod
    def finding(self, full: bool, values: Mapping[str, Values]) -> Finding:
        """The result, from the values of all parts by their keys."""
