"""What the studies found, as one Markdown document, as files, and on a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from iopea.comparison.formats import markdown
from iopea.comparison.output import made_how, picture_beside, write_file
from iopea.comparison.tables import versions
from iopea.studies.guarantees.study import Check, Finding, Grid, Part, Study

TITLE = "What the library promises, measured"
#: Characters of a first column that are never broken.
_WIDEST = 40
#: From this on, a rate of false alarms is none: the check proves what it claims.
_PROOF = 0.5
#: The document in the folder of results.
DOCUMENT = "guarantees.md"
_LEAD = (
    "Each promise is measured by a study of its own, on systems whose truth is known, and each "
    "check below passes or fails. Beside it stands the probability that it would fail although "
    "the promise holds; of means it is that of Student's test, for Gaussian means of independent "
    "runs."
)


@dataclass(frozen=True)
class Chapter:
    """A study, the parts that were run, and what it found."""

    study: Study
    parts: Sequence[Part]
    finding: Finding

    @property
    def broken(self) -> list[str]:
        """The claims that do not hold."""
        return [_plain(check.claim) for check in self.finding.checks if not check.passed]


def _plain(claim: str) -> str:
    """A claim without its full stop, to go on after it."""
    return claim.removesuffix(".")


def summary(chapters: Sequence[Chapter]) -> Grid:
    """All checks of all studies."""
    return Grid(
        name="checks",
        title="All checks",
        columns=("study", "promise", "measured", "kept?", "false alarm"),
        rows=tuple(
            (
                chapter.study.name,
                _plain(check.claim),
                check.measured,
                "kept" if check.passed else "broken",
                _alarm(check),
            )
            for chapter in chapters
            for check in chapter.finding.checks
        ),
        notes=("Where no rate is given, the check is a proof: it may fail though all is well.",),
    )


def _alarm(check: Check) -> str:
    """The rate of false alarms, where there is one to speak of."""
    return f"{check.false_alarm:.1g}" if check.false_alarm < _PROOF else "–"


def write_all(chapters: Sequence[Chapter], folder: Path, command: str) -> Path:
    """Write tables as CSV, figures as PNG and SVG, and the document; return the document's path."""
    for grid in (summary(chapters), *(g for each in chapters for g in each.finding.grids)):
        write_file(folder / "tables" / f"{grid.name}.csv", to_csv(grid).encode())
    for chapter in chapters:
        for figure in chapter.finding.figures:
            write_file(folder / "figures" / f"{figure.name}.svg", figure.svg.encode())
            write_file(folder / "figures" / f"{figure.name}.png", figure.png)
    write_document(chapters, folder / DOCUMENT, command)
    return folder / DOCUMENT


def write_document(chapters: Sequence[Chapter], path: Path, command: str) -> None:
    """Write one Markdown file, its figures in a folder of the same name beside it."""
    lines = [f"# {TITLE}", "", _LEAD, "", to_markdown(summary(chapters))]
    for chapter in chapters:
        lines += [f"## {chapter.study.title}", ""]
        lines += [f"{paragraph}\n" for paragraph in chapter.finding.lead]
        lines += [to_markdown(grid, level=3) for grid in chapter.finding.grids]
        for figure in chapter.finding.figures:
            lines += [f"### {figure.title}", "", *picture_beside(path, figure)]
    lines += made_how(facts(chapters, command))
    write_file(path, ("\n".join(lines) + "\n").encode())


def facts(chapters: Sequence[Chapter], command: str) -> tuple[tuple[str, str], ...]:
    """Versions, seeds, command and false alarms, for the foot of the document."""
    seeds = ", ".join(f"{chapter.study.name} {_seeds(chapter.parts)}" for chapter in chapters)
    alarms = [check.false_alarm for chapter in chapters for check in chapter.finding.checks]
    together = (
        f"at most {sum(alarms):.1g} for all checks together"
        if sum(alarms) < 1
        else "beside each check, in the first table"
    )
    return (
        *versions(),
        ("seeds", seeds),
        ("command", f"`{command}`"),
        ("false alarms", together),
    )


def _seeds(parts: Sequence[Part]) -> str:
    seeds = [seed for part in parts for seed in (part.first_seed, part.first_seed + part.runs - 1)]
    return f"{min(seeds)} to {max(seeds)}" if seeds else "none"


def to_markdown(grid: Grid, level: int = 2) -> str:
    r"""A table as GitHub reads it.

    >>> print(to_markdown(Grid("a", "Costs", ("case", "cost"), (("a_b", "1"),), ("Note.",))))
    ## Costs
    <BLANKLINE>
    | case | cost |
    | :--- | ---: |
    | a\_b | 1 |
    <BLANKLINE>
    - Note.
    <BLANKLINE>
    """
    rows = [
        [*map(markdown, grid.columns)],
        [_side(cells) for cells in zip(grid.columns, *grid.rows, strict=True)],
        *([*map(markdown, row)] for row in grid.rows),
    ]
    blocks = [f"{'#' * level} {markdown(grid.title)}"]
    blocks.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    if grid.notes:
        blocks.append("\n".join(f"- {markdown(note)}" for note in grid.notes))
    return "\n\n".join(blocks) + "\n"


def _is_number(text: str) -> bool:
    return text[:1] in "+-−–0123456789"


def _side(cells: tuple[str, ...]) -> str:
    """Numbers stand to the right; the first of the cells is the heading."""
    return "---:" if len(cells) > 1 and all(map(_is_number, cells[1:])) else ":---"


def to_csv(grid: Grid) -> str:
    r"""A table as CSV.

    >>> to_csv(Grid("a", "Costs", ("case", "cost"), (("a, b", "1"),)))
    'case,cost\n"a, b",1\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(grid.columns)
    writer.writerows(grid.rows)
    return text.getvalue()


def show(console: Console, chapters: Sequence[Chapter]) -> None:
    """Print all tables, then all checks."""
    for chapter in chapters:
        console.print(Text(chapter.study.title, style="bold underline"))
        for grid in chapter.finding.grids:
            _print(console, grid)
    for chapter in chapters:
        for check in chapter.finding.checks:
            mark = Text("pass ", "green") if check.passed else Text("FAIL ", "bold red")
            mark.append(
                f"{chapter.study.name}: {_plain(check.claim)}. Measured: {check.measured}. ", "none"
            )
            mark.append(f"False alarm: {_alarm(check)}.", "dim")
            console.print(mark)


def _print(console: Console, grid: Grid) -> None:
    table = Table(
        title=Text(grid.title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD,
        show_edge=False, pad_edge=False,
    )  # fmt: skip
    for number, column in enumerate(grid.columns):
        cells = (column, *(row[number] for row in grid.rows))
        width = 0 if number else min(max(map(len, cells)), _WIDEST)
        justify: Literal["left", "right"] = "right" if _side(cells) == "---:" else "left"
        table.add_column(Text(column), justify=justify, min_width=width or None)
    for row in grid.rows:
        table.add_row(*map(Text, row))
    console.print(table)
    for note in grid.notes:
        console.print(Text(note))
    console.print()
