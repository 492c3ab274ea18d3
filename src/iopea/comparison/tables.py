"""Tables of results, made from rows; how they are written is a matter of :mod:`formats`."""

from __future__ import annotations

import math
import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

import iopea
from iopea.comparison.statistics import LEVEL

Verdict = Literal["reproduced", "differs", "better"]
Unit = Literal["cost", "share"]

#: Costs are shown to so many digits after the point at the most.
_SMALLEST = 1e-3
#: Signs of a significant improvement, and of the opposite.
IMPROVED, WORSE = "★", "○"
#: Packages whose versions a report names.
_PACKAGES = ("numpy", "scipy", "numba", "polars", "joblib")


@dataclass(frozen=True)
class Cell:
    """One entry of a table.

    Attributes
    ----------
    mean, half : float. Mean over seeds and half of its 95 % interval.
    seeds : int. How many.
    unit : str. ``"cost"``, or ``"share"`` for what is shown in percent.
    gap : float, optional. How much dearer than the best policy of the class, as a share.
    sign : str. Whether it differs significantly from what it is tested against.
    p_value : float, optional. Of that test.
    printed : float, optional. The paper's value.
    verdict : str, optional. How it stands to that.
    reason : str. Why it differs from it.
    command : str. What makes it again.
    absent : str. Why there is no value.
    """

    mean: float = math.nan
    half: float = math.nan
    seeds: int = 0
    unit: Unit = "cost"
    gap: float | None = None
    sign: str = ""
    p_value: float | None = None
    printed: float | None = None
    verdict: Verdict | None = None
    reason: str = ""
    command: str = ""
    absent: str = ""

    @property
    def text(self) -> str:
        """The value as people read it.

        >>> Cell(2.5731, 0.0012, 20, gap=0.0004, sign="★").text
        '★2.573 ± 0.001 (0.04 %)'
        >>> Cell(0.0107, 0.0003, 20, unit="share").text
        '1.07 ± 0.03 %'
        """
        if not self.seeds or math.isnan(self.mean):
            return "–"
        if self.unit == "share":
            return f"{self.sign}{_with_error(100 * self.mean, 100 * self.half, 2)} %"
        size = max(abs(self.mean), _SMALLEST)
        places = max(0, 3 - math.floor(math.log10(size)))
        gap = "" if self.gap is None else f" ({percent(self.gap)})"
        return f"{self.sign}{_with_error(self.mean, self.half, places)}{gap}"


def _with_error(value: float, half: float, places: int) -> str:
    value = round(value, places) + 0.0  # no minus before a zero
    return f"{value:.{places}f}" + ("" if math.isnan(half) else f" ± {half:.{places}f}")


def runs(number: int) -> str:
    """What a mean is taken over, in words.

    >>> runs(1), runs(20)
    ('one run', 'mean and 95 % interval of 20 runs')
    """
    return "one run" if number == 1 else f"mean and 95 % interval of {number} runs"


def percent(share: float) -> str:
    """A share as percent, with as many digits as say something.

    >>> percent(0.43), percent(0.0123), percent(0.00004), percent(-1e-9)
    ('43 %', '1.2 %', '0.004 %', '0 %')
    """
    size = abs(100 * share)
    if size < 0.0005:
        return "0 %"
    places = 0 if size >= 10 else 1 if size >= 1 else 2 if size >= 0.01 else 3
    return f"{round(100 * share, places) + 0.0:.{places}f} %"


@dataclass(frozen=True)
class Line:
    """One row of a table; ``section`` is what it stands under."""

    section: str
    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Rows under columns, in sections.

    Attributes
    ----------
    name : str. Fit for a file.
    title : str. What it shows, in a sentence.
    columns : tuple of str.
    lines : tuple of Line. Those of a section stand together.
    notes : tuple of str. Sentences below the table.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A picture, ready to be written.

    Attributes
    ----------
    name : str. Fit for a file.
    title, caption : str. What it shows, in a few words and in full.
    svg : str. The picture as SVG text.
    png : bytes. The same as PNG.
    command : str. What makes it again.
    """

    name: str
    title: str
    caption: str
    svg: str
    png: bytes
    command: str


@dataclass(frozen=True)
class Report:
    """Tables and figures with what is to be said about them.

    Attributes
    ----------
    title : str.
    lead : tuple of str. Paragraphs at the top.
    parts : tuple of Table and Figure. In their order.
    facts : tuple of (str, str). Versions, seeds and the like, at the foot.
    """

    title: str
    lead: tuple[str, ...]
    parts: tuple[Table | Figure, ...]
    facts: tuple[tuple[str, str], ...]


def run_facts(seeds: range, evaluation: int, finished: int) -> tuple[tuple[str, str], ...]:
    """Versions, seeds and tests, for the foot of a report."""
    return (
        *versions(),
        ("seeds", f"{seeds[0]} to {seeds[-1]}, the same chance for all learners of a setting"),
        ("evaluation", f"{evaluation:,} steps, the same for all policies of a setting"),
        ("tests", f"Welch's, two-sided, at {100 * LEVEL:g} %"),
        ("finished tasks in the folder", str(finished)),
    )


def versions() -> tuple[tuple[str, str], ...]:
    """Versions of the library and of what it stands on."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        ("iopea", iopea.__version__),
        ("Python", platform.python_version()),
        ("packages", packages),
    )
