"""Tables of results as CSV, Markdown and LaTeX, and on a terminal."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from iopea.comparison.tables import Cell, Line, Table, Verdict

#: Row, section and column of an entry.
_Place = tuple[str, str, str]
#: How an entry stands to the printed one, in one sign.
MARKS: dict[Verdict, str] = {"reproduced": "=", "differs": "≠", "better": "+"}
#: What is said of a table without rows.
EMPTY = "No results yet."
#: Columns of the CSV form: where an entry stands, and what it says.
FIELDS = ("section", "row", "column", *(field.name for field in fields(Cell)))

_COLOURS: dict[Verdict | None, str] = {
    "reproduced": "green",
    "differs": "yellow",
    "better": "cyan",
    None: "dim",
}
#: Characters that no terminal has in a row.
_NO_LIMIT = 10_000
#: Between names, which may have commas.
_AND = " / "


def value_and_gap(cell: Cell) -> tuple[str, str]:
    """The value of an entry, and its distance to the best policy.

    >>> value_and_gap(Cell(2.5731, 0.0012, 20, gap=0.0004, sign="★"))
    ('★2.573 ± 0.001', '(0.04 %)')
    """
    value = replace(cell, gap=None).text
    return value, cell.text.removeprefix(value).strip()


def printed_value(cell: Cell) -> str:
    """The paper's value in the unit of the entry, empty where there is none.

    >>> printed_value(Cell(printed=2.60)), printed_value(Cell(unit="share", printed=0.0107))
    ('2.6', '1.07 %')
    """
    if cell.printed is None:
        return ""
    return f"{100 * cell.printed:.6g} %" if cell.unit == "share" else f"{cell.printed:.1f}"


def printed_short(cell: Cell) -> str:
    """The paper's value and, in a sign, how the entry stands to it.

    >>> printed_short(Cell(2.58, 0.01, 20, printed=2.6, verdict="reproduced"))
    'printed 2.6 ='
    """
    if cell.printed is None:
        return ""
    return f"printed {printed_value(cell)} {MARKS[cell.verdict] if cell.verdict else ''}".rstrip()


def key(table: Table) -> str:
    """What the signs beside printed values mean, and how often each occurs.

    >>> cell = Cell(2.58, 0.01, 20, printed=2.6, verdict="reproduced")
    >>> key(Table("a", "A", ("cost",), (Line("", "IOPEA", (cell,)),)))
    'Printed values: = reproduced (1).'
    """
    found = Counter(cell.verdict for line in table.lines for cell in line.cells)
    said = [f"{sign} {verdict} ({found[verdict]})" for verdict, sign in MARKS.items()]
    present = [text for text, verdict in zip(said, MARKS, strict=True) if found[verdict]]
    return f"Printed values: {', '.join(present)}." if present else ""


def by_section(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Rows under the sections they stand in."""
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line.section, []).append(line)
    return found


def explanations(table: Table) -> list[tuple[str, str]]:
    """Sentences about entries, each once, and the entries it is about in few words.

    First come those that say why entries differ from the printed ones, then those that say why
    entries are absent. A row without a place in brackets is meant as a whole.

    >>> cells = Cell(1.0, 0.1, 5, reason="The law is another."), Cell(absent="Not run.")
    >>> lines = Line("Normal", "IOPEA", cells), Line("Uniform", "IOPEA", cells)
    >>> explanations(Table("a", "A", ("small", "large"), lines))
    [('The law is another.', 'IOPEA (small)'), ('Not run.', 'IOPEA (large)')]
    """
    return [*grouped(table, "reason").items(), *grouped(table, "absent").items()]


def grouped(table: Table, attribute: str) -> dict[str, str]:
    """Texts that entries have as an attribute, and for each the entries in few words."""
    found: dict[str, list[_Place]] = {}
    for line in table.lines:
        for column, cell in zip(table.columns, line.cells, strict=True):
            if text := getattr(cell, attribute):
                found.setdefault(text, []).append((line.name, line.section, column))
    return {text: _entries(table, places) for text, places in found.items()}


def _entries(table: Table, places: list[_Place]) -> str:
    """Entries in few words: rows with the same places stand together."""
    if len(places) > 1 and len(places) == len(table.lines) * len(table.columns):
        return "all entries"
    rows: dict[str, dict[str, list[str]]] = {}
    for row, section, column in places:
        rows.setdefault(row, {}).setdefault(section, []).append(column)
    alike: dict[str, list[str]] = {}
    for row, columns in rows.items():
        alike.setdefault(_within(table, row, columns), []).append(row)
    return "; ".join(
        _AND.join(names) + (f" ({within})" if within else "") for within, names in alike.items()
    )


def _within(table: Table, row: str, columns: dict[str, list[str]]) -> str:
    """Which entries of a row are meant: sections with the same columns stand together."""
    everywhere = {line.section for line in table.lines if line.name == row}
    alike: dict[tuple[str, ...], list[str]] = {}
    for section, named in columns.items():
        alike.setdefault(tuple(named), []).append(section)
    said = []
    for those, sections in alike.items():
        words = [] if set(sections) == everywhere else [_AND.join(sections)]
        if those != table.columns:
            words.append(_AND.join(those))
        said.append(": ".join(words))
    return "; ".join(filter(None, said))


def to_csv(table: Table) -> str:
    """A table in long form: one line for each entry, numbers to the last digit.

    >>> line = Line("Normal", "IOPEA", (Cell(2.5, 0.25, 20, command="iopea learn"),))
    >>> print(to_csv(Table("a", "A", ("small",), (line,))).splitlines()[1])
    Normal,IOPEA,small,2.5,0.25,20,cost,,,,,,,iopea learn,
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    for line in table.lines:
        for column, cell in zip(table.columns, line.cells, strict=True):
            values = (getattr(cell, field.name) for field in fields(Cell))
            writer.writerow([line.section, line.name, column, *map(_plain, values)])
    return text.getvalue()


def _plain(value: object) -> str:
    """A value in a file: unknown numbers are empty, others come back to the last bit."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)


def to_markdown(table: Table, level: int = 2) -> str:
    """A table as GitHub reads it.

    Parameters
    ----------
    table : Table.
    level : int. Of the heading; sections have the next one.

    >>> cell = Cell(2.58, 0.01, 20, printed=2.6, verdict="reproduced")
    >>> print(to_markdown(Table("a", "Costs", ("small",), (Line("", "IOPEA", (cell,)),))))
    ## Costs
    <BLANKLINE>
    |  | small |
    | :--- | ---: |
    | IOPEA | 2.580 ± 0.010<br>printed 2.6 = |
    <BLANKLINE>
    - Printed values: = reproduced (1).
    <BLANKLINE>
    """
    blocks = [f"{'#' * level} {markdown(table.title)}"]
    sections = by_section(table.lines)
    for section, lines in sections.items():
        if len(sections) > 1:
            blocks.append(f"{'#' * (level + 1)} {markdown(section)}")
        rows = [
            ["", *map(markdown, table.columns)],
            [":---", *["---:"] * len(table.columns)],
            *([markdown(line.name), *map(_markdown_cell, line.cells)] for line in lines),
        ]
        blocks.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    if not sections:
        blocks.append(EMPTY)
    said = [markdown(sentence) for sentence in filter(None, (key(table), *table.notes))]
    said += [
        f"{markdown(sentence)} *Entries: {markdown(entries)}.*"
        for sentence, entries in explanations(table)
    ]
    if said:
        blocks.append("\n".join(f"- {sentence}" for sentence in said))
    return "\n\n".join(blocks) + "\n"


def _markdown_cell(cell: Cell) -> str:
    return "<br>".join(markdown(text) for text in (cell.text, printed_short(cell)) if text)


def markdown(text: str) -> str:
    r"""Text without a meaning to Markdown.

    >>> print(markdown("z_e|z_r <b>"))
    z\_e\|z\_r \<b\>
    """
    text = re.sub(r"[\\`*_<>\[\]|~$]", r"\\\g<0>", " ".join(text.split()))
    text = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    return re.sub(r"^(\d*)([-#+.)])(?=\s)", r"\1\\\2", text)


def print_table(console: Console, table: Table) -> None:
    """Print a table and what is to be said about it."""
    console.print(Text(table.title, style="bold"))
    if table.lines:
        for grid in _grids(console, table, range(len(table.columns))):
            console.print(grid)
    else:
        console.print(EMPTY)
    for sentence in filter(None, (key(table), *table.notes)):
        console.print(Text(sentence))
    if said := explanations(table):
        listed = Grid.grid(padding=(0, 1, 0, 0))
        for sentence, entries in said:
            listed.add_row("•", Text.assemble(sentence, " ", (f"{entries}.", "dim")))
        console.print(listed)


def _grids(console: Console, table: Table, columns: range) -> list[Grid]:
    """The table in one piece if it fits the terminal, else some columns after the others."""
    free = console.options.update(width=_NO_LIMIT)
    wide, narrow = (_grid(table, columns, stacked) for stacked in (False, True))
    if console.measure(wide, options=free).maximum <= console.width:
        return [wide]
    if len(columns) < 2 or console.measure(narrow, options=free).minimum <= console.width:
        return [narrow]
    half = (len(columns) + 1) // 2
    return _grids(console, table, columns[:half]) + _grids(console, table, columns[half:])


def _grid(table: Table, columns: range, stacked: bool) -> Grid:
    """Rows under some columns for a terminal; gaps stand below values if ``stacked``."""
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    words = [word for line in table.lines for word in line.name.split()]
    grid.add_column("", min_width=max(map(len, words), default=0))
    for number in columns:
        lines = [_entry(line.cells[number], stacked).plain for line in table.lines]
        width = max(len(text) for text in "\n".join(lines).split("\n"))
        grid.add_column(Text(table.columns[number]), justify="right", min_width=width)
    sections = by_section(table.lines)
    for section, under in sections.items():
        grid.add_section()
        if len(sections) > 1:
            grid.add_row(Text(section, style="bold italic"))
        for line in under:
            grid.add_row(
                Text(line.name), *(_entry(line.cells[number], stacked) for number in columns)
            )
    return grid


def _entry(cell: Cell, stacked: bool) -> Text:
    """The lines of an entry on a terminal."""
    value = "\n".join(filter(None, value_and_gap(cell))) if stacked else cell.text
    text = Text(value)
    if beside := printed_short(cell):
        text.append("\n").append(beside, style=_COLOURS[cell.verdict])
    return text
