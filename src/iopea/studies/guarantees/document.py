"""The report of the studies, as files and on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from iopea.comparison import output
from iopea.comparison.formats import print_table
from iopea.comparison.tables import Column, Figure, Heading, Line, Report, Table, versions
from iopea.studies.guarantees.study import Check, Finding, Part, Study

if TYPE_CHECKING:
    from rich.console import Console

TITLE = "What the library promises, measured"
#: A check with a larger rate of false alarms is meant as a proof, and no rate is shown.
_PROOF = 0.5
#: The document in the folder of results.
DOCUMENT = "guarantees.md"
_LEAD = (
    "Each promise is measured by a study of its own, on systems whose truth is known, and each "
    "check below passes or fails. The last column bounds the probability that a check fails "
    "although the promise holds; for means it is the level of Student's test, which takes the "
    "means of independent runs to be Gaussian."
)


@dataclass(frozen=True)
class Chapter:
    """A study, its parts and its result."""

    study: Study
    parts: Sequence[Part]
    finding: Finding

    @property
    def broken(self) -> list[str]:
        """The claims that do not hold."""
        return [_plain(check.claim) for check in self.finding.checks if not check.passed]


def _plain(claim: str) -> str:
    """A claim without its full stop."""
    return claim.removesuffix(".")


def summary(chapters: Sequence[Chapter]) -> Table:
    """All checks of all studies."""
    return Table(
        name="checks",
        title="All checks",
        columns=(
            *map(Column.text, ("study", "promise", "measured", "kept?")),
            Column("false alarm", ".1g"),
        ),
        lines=tuple(
            Line(
                (
                    chapter.study.name,
                    _plain(check.claim),
                    check.measured,
                    "kept" if check.passed else "broken",
                    check.false_alarm if check.false_alarm < _PROOF else None,
                )
            )
            for chapter in chapters
            for check in chapter.finding.checks
        ),
        notes=("A check without a rate is a proof: it may fail although the promise holds.",),
    )


def _alarm(check: Check) -> str:
    """The rate of false alarms, if it is shown."""
    return f"{check.false_alarm:.1g}" if check.false_alarm < _PROOF else "–"


def report_of(chapters: Sequence[Chapter], command: str) -> Report:
    """All checks, then the tables and figures of each study."""
    parts: list[Table | Figure | Heading] = [summary(chapters)]
    for chapter in chapters:
        parts.append(Heading(chapter.study.title, chapter.finding.lead))
        parts += [*chapter.finding.tables, *chapter.finding.figures]
    return Report(TITLE, (_LEAD,), tuple(parts), facts(chapters, command))


def write_all(chapters: Sequence[Chapter], folder: Path, command: str) -> Path:
    """Write all files of the report, and return the path of the Markdown document."""
    report = report_of(chapters, command)
    output.write_report(report, folder)
    output.write_document(report, folder / DOCUMENT)
    return folder / DOCUMENT


def write_document(chapters: Sequence[Chapter], path: Path, command: str) -> None:
    """Write the report as one Markdown file, its figures in a folder of the same name beside it."""
    output.write_document(report_of(chapters, command), path)


def facts(chapters: Sequence[Chapter], command: str) -> tuple[tuple[str, str], ...]:
    """Versions, seeds, command and false alarms, for the foot of the document."""
    seeds = ", ".join(f"{chapter.study.name} {_seeds(chapter.parts)}" for chapter in chapters)
    alarms = [check.false_alarm for chapter in chapters for check in chapter.finding.checks]
    together = (
        f"at most {sum(alarms):.1g} for all checks together"
        if sum(alarms) < 1
        else "for each check in the first table"
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


def show(console: Console, chapters: Sequence[Chapter]) -> None:
    """Print all tables, then all checks."""
    from rich.text import Text

    for chapter in chapters:
        console.print(Text(chapter.study.title, style="bold underline"))
        for table in chapter.finding.tables:
            print_table(console, table)
            console.print()
    for chapter in chapters:
        for check in chapter.finding.checks:
            mark = Text("pass ", "green") if check.passed else Text("FAIL ", "bold red")
            mark.append(
                f"{chapter.study.name}: {_plain(check.claim)}. Measured: {check.measured}. ", "none"
            )
            mark.append(f"False alarm: {_alarm(check)}.", "dim")
            console.print(mark)
