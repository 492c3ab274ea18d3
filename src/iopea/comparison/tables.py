"""Tables, figures and reports as data; :mod:`~iopea.comparison.formats` writes them."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

from iopea.comparison.statistics import LEVEL

Verdict = Literal["reproduced", "differs", "better"]
Unit = Literal["cost", "share"]
Side = Literal["left", "right"]

#: Costs below this get no further digits.
_SMALLEST = 1e-3
#: Signs of a significant improvement and of a significant deterioration.
IMPROVED, WORSE = "★", "○"
#: Signs for the comparison of an entry with the printed value.
MARKS: dict[Verdict, str] = {"reproduced": "=", "differs": "≠", "better": "+"}
#: Shown where there is no value.
NOTHING = "–"
#: Between names, which may have commas.
_AND = " / "
#: Packages whose versions a report names.
_PACKAGES = ("numpy", "scipy", "numba", "polars", "joblib")


@dataclass(frozen=True)
class Entry:
    """A measured cell: a mean over seeds, and what is known about it.

    Attributes
    ----------
    mean, half : float. Mean over seeds and half of its 95 % interval.
    seeds : int. How many.
    unit : str. ``"cost"``, or ``"share"`` for what is shown in percent.
    gap : float, optional. Extra cost over the best policy of the class, as a share.
    sign : str. Of a significant difference from the learner it is tested against.
    p_value : float, optional. Of that test.
    printed : float, optional. The paper's value.
    verdict : str, optional. Comparison with that value.
    reason : str. Why it differs from the printed value.
    command : str. The command that reproduces it.
    absent : str. Why there is no value.
    over : str. What the mean is over.
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
    over: str = "seed"

    @property
    def value_text(self) -> str:
        """The mean with its interval, as people read it.

        >>> Entry(2.5731, 0.0012, 20, gap=0.0004, sign="★").value_text
        '★2.573 ± 0.001'
        >>> Entry(0.0107, 0.0003, 20, unit="share").value_text
        '1.07 ± 0.03 %'
        >>> Entry(3.229, 0.382, 20, unit="share").value_text
        '323 ± 38 %'
        """
        if not self.seeds or math.isnan(self.mean):
            return NOTHING
        if self.unit == "share":
            places = 2 if abs(self.mean) <= 1 else 0
            return f"{self.sign}{_with_error(100 * self.mean, 100 * self.half, places)} %"
        size = max(abs(self.mean), _SMALLEST)
        places = max(0, 3 - math.floor(math.log10(size)))
        return f"{self.sign}{_with_error(self.mean, self.half, places)}"

    @property
    def gap_text(self) -> str:
        """The gap to the best policy in brackets; empty where there is none.

        >>> Entry(2.5731, 0.0012, 20, gap=0.0004).gap_text
        '(0.04 %)'
        """
        shown = self.unit == "cost" and self.gap is not None and self.value_text != NOTHING
        return f"({percent(self.gap or 0.0)})" if shown else ""

    @property
    def text(self) -> str:
        """Value and gap.

        >>> Entry(2.5731, 0.0012, 20, gap=0.0004, sign="★").text
        '★2.573 ± 0.001 (0.04 %)'
        """
        return f"{self.value_text} {self.gap_text}".rstrip()

    @property
    def printed_text(self) -> str:
        """The paper's value in the unit of the entry; empty where there is none.

        >>> Entry(printed=2.60).printed_text, Entry(unit="share", printed=0.0107).printed_text
        ('2.6', '1.07 %')
        """
        if self.printed is None:
            return ""
        return f"{100 * self.printed:.6g} %" if self.unit == "share" else f"{self.printed:.1f}"

    @property
    def beside(self) -> str:
        """The paper's value, with the sign of the verdict.

        >>> Entry(2.58, 0.01, 20, printed=2.6, verdict="reproduced").beside
        'printed 2.6 ='
        """
        if self.printed is None:
            return ""
        mark = MARKS[self.verdict] if self.verdict else ""
        return f"printed {self.printed_text} {mark}".rstrip()


#: Text, a number, which the column formats, or an entry; None where there is no value.
Cell = str | float | None | Entry


def _with_error(value: float, half: float, places: int) -> str:
    value = round(value, places) + 0.0  # no minus before a zero
    return f"{value:.{places}f}" + ("" if math.isnan(half) else f" ± {half:.{places}f}")


def runs(number: int) -> str:
    """The number of runs behind a mean, in words.

    >>> runs(1), runs(20)
    ('one run', 'mean and 95 % interval of 20 runs')
    """
    return "one run" if number == 1 else f"mean and 95 % interval of {number} runs"


def percent(share: float) -> str:
    """A share in percent, with at most two significant digits.

    >>> percent(0.43), percent(0.0123), percent(0.00004), percent(-1e-9)
    ('43 %', '1.2 %', '0.004 %', '0 %')
    """
    size = abs(100 * share)
    if size < 0.0005:
        return "0 %"
    places = 0 if size >= 10 else 1 if size >= 1 else 2 if size >= 0.01 else 3
    return f"{round(100 * share, places) + 0.0:.{places}f} %"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    title : str. Its heading.
    spec : str. Format of its numbers, as for :func:`format`.
    side : str. ``"left"`` or ``"right"`` alignment.
    """

    title: str
    spec: str = ""
    side: Side = "right"

    @classmethod
    def text(cls, title: str) -> Column:
        """A column of text, aligned left."""
        return cls(title, side="left")

    def show(self, cell: Cell) -> str:
        """A cell as people read it.

        >>> Column("T", ",").show(10_000), Column("T").show(None), Column.text("case").show("a")
        ('10,000', '–', 'a')
        """
        if isinstance(cell, str):
            return cell
        if isinstance(cell, Entry):
            return cell.text
        return NOTHING if cell is None or math.isnan(cell) else format(cell, self.spec)


@dataclass(frozen=True)
class Line:
    """A row of a table, in a section; its first cell is its name."""

    cells: tuple[Cell, ...]
    section: str = ""

    @property
    def name(self) -> str:
        """The first cell."""
        return str(self.cells[0])

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The measured cells."""
        return tuple(cell for cell in self.cells if isinstance(cell, Entry))


@dataclass(frozen=True)
class Table:
    """Rows under columns, in sections.

    Attributes
    ----------
    name : str. Valid in a file name.
    title : str.
    columns : tuple of Column. The first has the names of the rows.
    lines : tuple of Line. With a cell for each column; those of a section are consecutive.
    notes : tuple of str. Sentences below the table.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()

    @property
    def sections(self) -> dict[str, list[Line]]:
        """Rows by section."""
        found: dict[str, list[Line]] = {}
        for line in self.lines:
            found.setdefault(line.section, []).append(line)
        return found

    def entries(self) -> Iterator[tuple[Line, Column, Entry]]:
        """The measured cells, row by row, with their rows and columns."""
        for line in self.lines:
            for column, cell in zip(self.columns, line.cells, strict=True):
                if isinstance(cell, Entry):
                    yield line, column, cell

    @property
    def key(self) -> str:
        """Legend of the signs beside printed values, with their counts.

        >>> entry = Entry(2.58, 0.01, 20, printed=2.6, verdict="reproduced")
        >>> Table("a", "A", (Column(""), Column("x")), (Line(("IOPEA", entry)),)).key
        'Printed values: = reproduced (1).'
        """
        found = Counter(entry.verdict for _, _, entry in self.entries())
        present = [
            f"{mark} {verdict} ({found[verdict]})"
            for verdict, mark in MARKS.items()
            if found[verdict]
        ]
        return f"Printed values: {', '.join(present)}." if present else ""

    @property
    def explanations(self) -> list[tuple[str, str]]:
        """Sentences about entries, each once, with the entries it applies to.

        First why entries differ from the printed values, then why entries are absent. A row without
        brackets is meant as a whole.

        >>> cells = "IOPEA", Entry(1.0, 0.1, 5, reason="The law is another."), Entry(absent="Why.")
        >>> lines = Line(cells, "Normal"), Line(cells, "Uniform")
        >>> Table("a", "A", (Column(""), Column("small"), Column("large")), lines).explanations
        [('The law is another.', 'IOPEA (small)'), ('Why.', 'IOPEA (large)')]
        """
        return [*self.grouped("reason").items(), *self.grouped("absent").items()]

    def grouped(self, attribute: str) -> dict[str, str]:
        """Values of a text attribute of entries, with the entries that have it."""
        found: dict[str, list[_Place]] = {}
        for line, column, entry in self.entries():
            if text := getattr(entry, attribute):
                found.setdefault(text, []).append((line.name, line.section, column.title))
        return {text: self._named(places) for text, places in found.items()}

    def _named(self, places: list[_Place]) -> str:
        """Names of entries; rows with the same sections and columns are grouped."""
        if len(places) > 1 and len(places) == len(self.lines) * (len(self.columns) - 1):
            return "all entries"
        rows: dict[str, dict[str, list[str]]] = {}
        for row, section, column in places:
            rows.setdefault(row, {}).setdefault(section, []).append(column)
        alike: dict[str, list[str]] = {}
        for row, columns in rows.items():
            alike.setdefault(self._within(row, columns), []).append(row)
        return "; ".join(
            _AND.join(names) + (f" ({within})" if within else "") for within, names in alike.items()
        )

    def _within(self, row: str, columns: dict[str, list[str]]) -> str:
        """Names of some entries of a row; sections with the same columns are grouped."""
        everywhere = {line.section for line in self.lines if line.name == row}
        titles = tuple(column.title for column in self.columns[1:])
        alike: dict[tuple[str, ...], list[str]] = {}
        for section, named in columns.items():
            alike.setdefault(tuple(named), []).append(section)
        said = []
        for those, sections in alike.items():
            words = [] if set(sections) == everywhere else [_AND.join(sections)]
            if those != titles:
                words.append(_AND.join(those))
            said.append(": ".join(words))
        return "; ".join(filter(None, said))


#: Row, section and column of an entry.
_Place = tuple[str, str, str]


def entry_columns(titles: tuple[str, ...]) -> tuple[Column, ...]:
    """A column of row names, and columns of entries."""
    return (Column.text(""), *map(Column, titles))


@dataclass(frozen=True)
class Figure:
    """A picture, ready to be written.

    Attributes
    ----------
    name : str. Valid in a file name.
    title, caption : str.
    svg : str. The picture as SVG text.
    png : bytes. The same as PNG.
    command : str. The command that reproduces it.
    """

    name: str
    title: str
    caption: str
    svg: str
    png: bytes
    command: str


@dataclass(frozen=True)
class Heading:
    """The heading of a chapter of a report, with its first paragraphs."""

    title: str
    lead: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """Tables, figures and text.

    Attributes
    ----------
    title : str.
    lead : tuple of str. Paragraphs at the top.
    parts : tuple of Table, Figure and Heading. In their order; after the first heading, tables and
        figures are one level below.
    facts : tuple of (str, str). Versions, seeds and the like, at the foot.
    """

    title: str
    lead: tuple[str, ...]
    parts: tuple[Table | Figure | Heading, ...]
    facts: tuple[tuple[str, str], ...]

    @property
    def levels(self) -> list[tuple[int, Table | Figure | Heading]]:
        """The parts with the levels of their headings; the title has level 1."""
        found: list[tuple[int, Table | Figure | Heading]] = []
        below = 2
        for part in self.parts:
            found.append((2 if isinstance(part, Heading) else below, part))
            below = 3 if isinstance(part, Heading) else below
        return found


def run_facts(seeds: range, evaluation: int, finished: int) -> tuple[tuple[str, str], ...]:
    """Versions, seeds and tests, for the foot of a report."""
    return (
        *versions(),
        (
            "seeds",
            f"{seeds[0]} to {seeds[-1]}, common random numbers for all learners of a setting",
        ),
        ("evaluation", f"{evaluation:,} steps, the same for all policies of a setting"),
        ("tests", f"Welch's, two-sided, at {100 * LEVEL:g} %"),
        ("finished tasks in the folder", str(finished)),
    )


def versions() -> tuple[tuple[str, str], ...]:
    """Versions of the library and its dependencies."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        ("iopea", version("iopea")),
        ("Python", platform.python_version()),
        ("packages", packages),
    )
