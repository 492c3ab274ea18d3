"""Tables on a terminal, as CSV, Markdown and LaTeX, and whole reports as one page of HTML.

They all render the model of :mod:`~iopea.comparison.tables`.
"""

from __future__ import annotations

import csv
import io
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from iopea.comparison.tables import MARKS, Cell, Column, Entry, Figure, Line, Report, Table, Verdict

if TYPE_CHECKING:
    from jinja2 import Template
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

#: Shown in a table without rows.
EMPTY = "No results yet."


# CSV

#: Columns of the CSV form of entries: the place of an entry, and its fields.
_OF_ENTRIES = tuple(field.name for field in fields(Entry) if field.name != "over")
FIELDS = ("section", "row", "column", *_OF_ENTRIES)


def to_csv(table: Table) -> str:
    r"""A table as CSV.

    Tables of entries are written in long form, one line per entry, with all digits; other tables as
    they are shown.

    >>> columns = Column.text("case"), Column("cost")
    >>> to_csv(Table("a", "Costs", columns, (Line(("a, b", 1)),)))
    'case,cost\n"a, b",1\n'
    >>> line = Line(("IOPEA", Entry(2.5, 0.25, 20, command="iopea learn")), "Normal")
    >>> to_csv(Table("a", "A", (Column.text(""), Column("small")), (line,))).splitlines()[1]
    'Normal,IOPEA,small,2.5,0.25,20,cost,,,,,,,iopea learn,'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    entries = list(table.entries())
    if entries:
        writer.writerow(FIELDS)
        for line, column, entry in entries:
            values = (getattr(entry, name) for name in _OF_ENTRIES)
            writer.writerow([line.section, line.name, column.title, *map(_plain, values)])
    else:
        writer.writerow([column.title for column in table.columns])
        writer.writerows(_shown(table.columns, line) for line in table.lines)
    return text.getvalue()


def _plain(value: object) -> str:
    """A value in a file: unknown numbers are empty, others have all their digits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)


def _shown(columns: Sequence[Column], line: Line) -> list[str]:
    """The cells of a row as people read them."""
    return [column.show(cell) for column, cell in zip(columns, line.cells, strict=True)]


# Markdown

_RULES = {"left": ":---", "right": "---:"}


def to_markdown(table: Table, level: int = 2) -> str:
    """A table as GitHub reads it.

    Parameters
    ----------
    table : Table.
    level : int. Of the heading; sections have the next one.

    >>> entry = Entry(2.58, 0.01, 20, printed=2.6, verdict="reproduced")
    >>> columns = Column.text(""), Column("small")
    >>> print(to_markdown(Table("a", "Costs", columns, (Line(("IOPEA", entry)),))))
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
    sections = table.sections
    for section, lines in sections.items():
        if len(sections) > 1:
            blocks.append(f"{'#' * (level + 1)} {markdown(section)}")
        rows = [
            [markdown(column.title) for column in table.columns],
            [_RULES[column.side] for column in table.columns],
            *(_markdown_row(table.columns, line) for line in lines),
        ]
        blocks.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    if not sections:
        blocks.append(EMPTY)
    said = [markdown(sentence) for sentence in filter(None, (table.key, *table.notes))]
    said += [
        f"{markdown(sentence)} *Entries: {markdown(entries)}.*"
        for sentence, entries in table.explanations
    ]
    if said:
        blocks.append("\n".join(f"- {sentence}" for sentence in said))
    return "\n\n".join(blocks) + "\n"


def _markdown_row(columns: Sequence[Column], line: Line) -> list[str]:
    below = (cell.beside if isinstance(cell, Entry) else "" for cell in line.cells)
    return [
        "<br>".join(markdown(text) for text in pair if text)
        for pair in zip(_shown(columns, line), below, strict=True)
    ]


def markdown(text: str) -> str:
    r"""Text escaped for Markdown.

    >>> print(markdown("z_e|z_r <b>"))
    z\_e\|z\_r \<b\>
    """
    text = re.sub(r"[\\`*_<>\[\]|~$]", r"\\\g<0>", " ".join(text.split()))
    text = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    return re.sub(r"^(\d*)([-#+.)])(?=\s)", r"\1\\\2", text)


# LaTeX, for documents with the package booktabs

#: Heights of rows with one and with two lines in a LaTeX table, and the height of a page.
_ONE_LINE, _TWO_LINES, _PAGE = 1.0, 1.8, 48.0
#: Most columns of a LaTeX table in larger type, and most characters in a line of their headings.
_FEW, _HEADING = 5, 14
_BELOW = (
    "Below a value: the gap to the best policy of the class, and in brackets the printed value."
)
_THIN = "\u2009"
#: Special characters of LaTeX, and those that its fonts have only in mathematics.
_LATEX = {
    **{sign: rf"\{sign}" for sign in "%&#_$"},
    "{": r"\{",
    "}": r"\}",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "[": "{[}",  # else an option of the end of a row before it
    "]": "{]}",
    "*": "{*}",
    "–": "--",
    "—": "---",
    "−": "$-$",
    "…": r"\dots{}",
    "\u00a0": "~",
    _THIN: r"\,",
    "★": r"$\star$",
    "○": r"$\circ$",
    "√": r"$\surd$",
    "∞": r"$\infty$",
    **{
        sign: rf"$\{name}$"
        for sign, name in {
            "±": "pm", "×": "times", "·": "cdot", "≠": "neq", "≤": "leq", "≥": "geq", "≈": "approx",
            "→": "to", "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon",
            "θ": "theta", "λ": "lambda", "μ": "mu", "π": "pi", "ρ": "rho", "σ": "sigma",
            "τ": "tau", "φ": "varphi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Π": "Pi",
            "Σ": "Sigma", "Ω": "Omega",
        }.items()
    },
}  # fmt: skip
_RAISED, _LOWERED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "₀₁₂₃₄₅₆₇₈₉"
_FLAT = str.maketrans(_RAISED + _LOWERED, "0123456789-0123456789")


def to_latex(table: Table) -> str:
    r"""A table as LaTeX floats that need ``booktabs`` alone.

    Sections are separated by rules. A table too high for a page continues in another float, from
    the start of a section. Notes are in a list below the floats.

    >>> columns = Column.text(""), Column("z_e")
    >>> line = Line(("IOPEA", Entry(0.25, 0.01, 20, unit="share")))
    >>> print(to_latex(Table("a", "Gaps", columns, (line,))))
    \begin{table}[htbp]
      \centering\footnotesize\setlength{\tabcolsep}{4pt}
      \caption{Gaps}
      \label{tab:a}
      \begin{tabular}{@{}lr@{}}
        \toprule
         & z\_e \\
        \midrule
        IOPEA & 25.00\,$\pm$\,1.00\,\% \\
        \bottomrule
      \end{tabular}
    \end{table}
    <BLANKLINE>
    """
    below = _BELOW if any(map(_two_lines, table.lines)) else ""
    said = [_latex(sentence) for sentence in filter(None, (below, table.key, *table.notes))]
    said += [
        rf"{_latex(sentence)} \emph{{Entries: {_latex(entries)}.}}"
        for sentence, entries in table.explanations
    ]
    lines: list[str] = []
    for number, rows in enumerate(_pages(table)):
        lines += _float(table, rows, number)
    if said:
        lines += ["", r"\begin{itemize}\footnotesize"]
        lines += [rf"  \item {sentence}" for sentence in said]
        lines.append(r"\end{itemize}")
    return "\n".join(lines) + "\n"


def _pages(table: Table) -> list[list[Line]]:
    """Rows by float."""
    pages: list[list[Line]] = [[]]
    height = 0.0
    for lines in table.sections.values():
        rows = sum(_TWO_LINES if _two_lines(line) else _ONE_LINE for line in lines) + _TWO_LINES
        if pages[-1] and height + rows > _PAGE:
            pages.append([])
            height = 0.0
        pages[-1] += lines
        height += rows
    return pages


def _two_lines(line: Line) -> bool:
    return any(entry.printed is not None or entry.gap_text for entry in line.entries)


def _float(table: Table, rows: list[Line], number: int) -> list[str]:
    """One float with some of the rows of a table."""
    width = len(table.columns)
    title = f"{table.title} (continued)" if number else table.title
    size, apart = ("footnotesize", 4) if width <= _FEW else ("scriptsize", 3)
    label = re.sub(r"[^\w:.-]+", "-", table.name, flags=re.ASCII)
    sides = "".join(column.side[0] for column in table.columns)
    lines = [
        r"\begin{table}[htbp]",
        rf"  \centering\{size}\setlength{{\tabcolsep}}{{{apart}pt}}",
        rf"  \caption{{{_latex(title)}}}",
        rf"  \label{{tab:{label}{f'-{number + 1}' if number else ''}}}",
        rf"  \begin{{tabular}}{{@{{}}{sides}@{{}}}}",
        r"    \toprule",
        rf"    {' & '.join(map(_latex_heading, table.columns))} \\",
    ]
    found: dict[str, list[Line]] = {}
    for line in rows:
        found.setdefault(line.section, []).append(line)
    for section, under in found.items():
        lines.append(r"    \midrule")
        if len(table.sections) > 1:
            heading = rf"\emph{{{_latex(section)}}}"
            lines.append(rf"    \multicolumn{{{width}}}{{@{{}}l@{{}}}}{{{heading}}} \\")
        for line in under:
            lines += [f"    {text}" for text in _latex_row(table.columns, line)]
    if not rows:
        lines += [r"    \midrule", rf"    \multicolumn{{{width}}}{{@{{}}l@{{}}}}{{{EMPTY}}} \\"]
    return [*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]


def _latex_row(columns: Sequence[Column], line: Line) -> list[str]:
    """A row: values, and gaps and printed values in a smaller line below them."""
    first = " & ".join(
        _latex(
            cell.value_text.replace(" ", _THIN) if isinstance(cell, Entry) else column.show(cell)
        )
        for column, cell in zip(columns, line.cells, strict=True)
    )
    if not _two_lines(line):
        return [rf"{first} \\"]
    below = [rf"\tiny {text}" if text else "" for text in map(_latex_below, line.cells)]
    return [rf"{first} \\[-0.4ex]", rf"{' & '.join(below)} \\"]


def _latex_below(cell: Cell) -> str:
    """The gap of an entry, and the printed value."""
    if not isinstance(cell, Entry):
        return ""
    printed = f"[{cell.beside.removeprefix('printed ')}]" if cell.beside else ""
    return _latex(f"{cell.gap_text.strip('()')} {printed}".strip())


def _latex_heading(column: Column) -> str:
    """A heading; a long one has several lines."""
    lines = textwrap.wrap(column.title, _HEADING, break_long_words=False)
    text = r" \\ ".join(map(_latex, lines))
    side = column.side[0]
    return rf"\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}{text}\end{{tabular}}" if lines[1:] else text


def _latex(text: str) -> str:
    r"""Text escaped for LaTeX.

    >>> print(_latex("★ 5 % of z_e & 10⁻¹²"))
    $\star$ 5 \% of z\_e \& 10$^{-12}$
    """
    pieces = re.findall(f"[{_RAISED}]+|[{_LOWERED}]+|.", text, re.DOTALL)
    return "".join(map(_latex_piece, pieces))


def _latex_piece(piece: str) -> str:
    if piece[0] in _RAISED:
        return f"$^{{{piece.translate(_FLAT)}}}$"
    if piece[0] in _LOWERED:
        return f"$_{{{piece.translate(_FLAT)}}}$"
    return " " if piece in "\t\r\n" else _LATEX.get(piece, piece)


# Terminal

_COLOURS: dict[Verdict | None, str] = {
    "reproduced": "green",
    "differs": "yellow",
    "better": "cyan",
    None: "dim",
}
#: Characters between two columns.
_BETWEEN = 2


def print_table(console: Console, table: Table) -> None:
    """Print a table and its notes."""
    from rich.table import Table as Grid
    from rich.text import Text

    console.print(Text(table.title, style="bold"))
    if table.lines:
        for grid in _grids(console, table, range(1, len(table.columns))):
            console.print(grid)
    else:
        console.print(EMPTY)
    for sentence in filter(None, (table.key, *table.notes)):
        console.print(Text(sentence))
    if said := table.explanations:
        listed = Grid.grid(padding=(0, 1, 0, 0))
        for sentence, entries in said:
            listed.add_row("•", Text.assemble(sentence, " ", (f"{entries}.", "dim")))
        console.print(listed)


def _grids(console: Console, table: Table, columns: range) -> list[Grid]:
    """The table in one piece if it fits the terminal, else in groups of columns."""
    wide = _Layout(table, columns, stacked=False)
    if wide.total(wide.natural) <= console.width:
        return [wide.grid(wide.natural)]
    narrow = _Layout(table, columns, stacked=True)
    if len(columns) < 2 or narrow.total(narrow.least) <= console.width:
        return [narrow.grid(narrow.within(console.width))]
    half = (len(columns) + 1) // 2
    return _grids(console, table, columns[:half]) + _grids(console, table, columns[half:])


class _Layout:
    """The first column of a table and some others, with the widths that their cells need.

    Text and headings may wrap, numbers may not. Gaps are below values if ``stacked``.
    """

    def __init__(self, table: Table, columns: range, stacked: bool) -> None:
        self._table = table
        self._columns = [table.columns[number] for number in (0, *columns)]
        self._rows = [
            [_on_terminal(table.columns[number], line.cells[number], stacked)
             for number in (0, *columns)]
            for line in table.lines
        ]  # fmt: skip
        self.natural, self.least = [], []
        for place, column in enumerate(self._columns):
            lines = [line for row in self._rows for line in row[place].plain.split("\n")]
            lines += [] if place else table.sections  # whose names are in the first column
            breakable = [column.title, *lines] if column.side == "left" else [column.title]
            words = [word for text in breakable for word in text.split()]
            kept = [] if column.side == "left" else lines
            self.natural.append(max(map(len, [column.title, *lines])))
            self.least.append(max(map(len, [*words, *kept]), default=0))

    def total(self, widths: Sequence[int]) -> int:
        """Characters of a line."""
        return sum(widths) + _BETWEEN * (len(widths) - 1)

    def within(self, width: int) -> list[int]:
        """The least widths, widened as far as the line has room."""
        room, found = max(0, width - self.total(self.least)), []
        for least, natural in zip(self.least, self.natural, strict=True):
            more = min(room, natural - least)
            room -= more
            found.append(least + more)
        return found

    def grid(self, widths: Sequence[int]) -> Grid:
        """The rows under columns of these widths."""
        from rich import box
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
        for column, width in zip(self._columns, widths, strict=True):
            grid.add_column(Text(column.title), justify=column.side, width=width)
        section = None
        for line, row in zip(self._table.lines, self._rows, strict=True):
            if line.section != section:
                section = line.section
                grid.add_section()
                if len(self._table.sections) > 1:
                    grid.add_row(Text(section, style="bold italic"))
            grid.add_row(*row)
        return grid


def _on_terminal(column: Column, cell: Cell, stacked: bool) -> Text:
    """The lines of a cell."""
    from rich.text import Text

    if not isinstance(cell, Entry):
        return Text(column.show(cell))
    lines = filter(None, (cell.value_text, cell.gap_text))
    text = Text("\n".join(lines) if stacked else cell.text)
    if cell.beside:
        text.append("\n").append(cell.beside, style=_COLOURS[cell.verdict])
    return text


# HTML

_NO_BREAK = "\u00a0"
_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"


def to_html(report: Report) -> str:
    """A report as a page that opens offline.

    Style, script and figures are in the page; its policy lets a browser load nothing else. Tables
    can be sorted by their columns within sections. An entry leads to the command that reproduces
    it: in a bar with the test and the reason, or without scripts in the list of commands.

    >>> page = to_html(Report("Costs & gaps", ("All is well.",), (), (("version", "1.0"),)))
    >>> "<title>Costs &amp; gaps</title>" in page
    True
    """
    made: dict[str, list[str]] = {}
    for part in report.parts:
        for command, what in _commands(part):
            made.setdefault(command, []).append(what)
    ids = {command: f"command-{number}" for number, command in enumerate(made, 1)}
    return _page().render(report=report, made=made, ids=ids)


def _commands(part: object) -> Iterator[tuple[str, str]]:
    """The commands of a part, and what each reproduces."""
    if isinstance(part, Table):
        for command, entries in part.grouped("command").items():
            yield command, f"{part.title.rstrip('.')}: {entries}"
    elif isinstance(part, Figure) and part.command:
        yield part.command, part.title


@cache
def _page() -> Template:
    """The template of a page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("iopea.comparison"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    helpers: dict[str, Any] = {
        "MARKS": MARKS,
        "EMPTY": EMPTY,
        "zip": zip,
        "kind": lambda part: type(part).__name__,
        "is_entry": lambda cell: isinstance(cell, Entry),
        "is_number": lambda cell: isinstance(cell, int | float) and not math.isnan(cell),
        "caption": _caption,
        "about": _about,
        # The SVG was parsed, and stripped of scripts and links.
        "inline": lambda figure, prefix: Markup(_inline_svg(figure, prefix)),
        "together": lambda text: text.replace(" ", _NO_BREAK),
    }
    environment.globals |= helpers
    return environment.get_template("report.html")


def _caption(table: Table) -> str:
    """How to read a table."""
    entries = [entry for _, _, entry in table.entries() if entry.seeds]
    said = []
    if any(not math.isnan(entry.half) for entry in entries):
        said.append(f"Mean over {entries[0].over}s ± half of its 95 % interval.")
    if any(entry.gap_text for entry in entries):
        said.append("In brackets: the gap to the best policy of the class.")
    said.append(table.key)
    if any(entry.command for entry in entries):
        said.append("Select an entry to see the command that reproduces it.")
    return " ".join(filter(None, said))


def _about(entry: Entry) -> str:
    """Seeds, test, printed value and reason of an entry, in sentences."""
    said = []
    if entry.seeds:
        said.append(f"{entry.seeds} {entry.over}{'' if entry.seeds == 1 else 's'}.")
    if entry.p_value is not None and not math.isnan(entry.p_value):
        said.append(f"p = {entry.p_value:.2g}.")
    if entry.printed is not None:
        stands = f", {entry.verdict}" if entry.verdict else ""
        said.append(f"Printed {entry.printed_text}{stands}.")
    return " ".join(filter(None, [*said, entry.reason, entry.absent]))


def _inline_svg(figure: Figure, prefix: str) -> str:
    """An SVG for a page: ids and styles of its own, no metadata and no scripts.

    Matplotlib gives the same ids to clip paths, markers and glyphs of every figure, and a style
    to all elements of the document.
    """
    root = ElementTree.fromstring(figure.svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if not child.tag.startswith(_SVG) or child.tag[len(_SVG) :] in ("metadata", "script"):
                parent.remove(child)
    names = (f"{prefix}-{number}" for number in count(1))
    new = {old: next(names) for element in root.iter() if (old := element.get("id"))}
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        element.attrib = dict(_attributes(element, new))
        if element.tag == "style":
            element.text = re.sub(r"([^{},]+)(?=[,{])", rf"#{prefix} \1", element.text or "")
    root.set("id", prefix)
    root.set("role", "img")
    root.set("aria-label", figure.title)
    return ElementTree.tostring(root, encoding="unicode")


def _attributes(element: ElementTree.Element, new: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Attributes with the new ids where they have or name an old one."""
    for name, value in element.attrib.items():
        name = name.removeprefix(_XLINK)
        if name.startswith("on"):
            continue
        if name == "id":
            value = new[value]
        elif name == "href":
            if not value.startswith(("#", "data:")):
                continue
            value = "#" + new.get(value[1:], value[1:]) if value[0] == "#" else value
        else:
            value = re.sub(
                r"url\((['\"]?)#([^)'\"]+)\1\)",
                lambda found: f"url(#{new.get(found[2], found[2])})",
                value,
            )
        yield name, value
