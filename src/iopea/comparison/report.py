"""A report as one page of HTML that needs nothing beside it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from itertools import count
from xml.etree import ElementTree

from iopea.comparison.formats import (
    EMPTY,
    MARKS,
    by_section,
    explanations,
    grouped,
    key,
    printed_value,
    value_and_gap,
)
from iopea.comparison.tables import Cell, Figure, Line, Report, Table

#: Parts of the page beside those of the report, with their headings.
_COMMANDS, _FACTS = ("commands", "Commands"), ("facts", "Versions and seeds")
#: What a browser may load: nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_NO_BREAK = "\u00a0"


class _Commands:
    """The commands of a report, each once, with what it makes."""

    def __init__(self) -> None:
        self._made: dict[str, list[str]] = {}
        self._ids: dict[str, str] = {}

    def add(self, command: str, what: str) -> None:
        """Note what a command makes."""
        self._made.setdefault(command, []).append(what)
        self._ids.setdefault(command, f"command-{len(self._ids) + 1}")

    def place(self, command: str) -> str:
        """Where a command stands on the page."""
        return self._ids[command]

    def html(self) -> str:
        """A list of them."""
        items = "\n".join(
            f'<li id="{self._ids[command]}"><code>{escape(command)}</code>'
            f" <span>{escape('; '.join(made))}</span></li>"
            for command, made in self._made.items()
        )
        if not items:
            return "<p>There are none.</p>"
        return f"""<p>Each makes what is named below it again.</p>
<details open>
<summary>{len(self._made)} in all</summary>
<ol>
{items}
</ol>
</details>"""


def to_html(report: Report) -> str:
    """A report as a page that opens offline.

    Style, script and figures are in the page; a browser is told to load nothing else. Tables sort
    by their columns within sections. An entry leads to the command that makes it again: in a bar
    with the test and the reason behind it, or without a script in the list of commands.

    >>> page = to_html(Report("Costs & gaps", ("All is well.",), (), (("version", "1.0"),)))
    >>> "<title>Costs &amp; gaps</title>" in page
    True
    """
    commands = _Commands()
    parts = [
        _table(part, f"part-{number}", commands)
        if isinstance(part, Table)
        else _figure(part, f"part-{number}", commands)
        for number, part in enumerate(report.parts, 1)
    ]
    headings = [(f"part-{number}", part.title) for number, part in enumerate(report.parts, 1)]
    contents = "\n".join(
        f'<li><a href="#{place}">{escape(title)}</a></li>'
        for place, title in [*headings, _COMMANDS, _FACTS]
    )
    lead = "\n".join(f"<p>{escape(paragraph)}</p>" for paragraph in report.lead)
    facts = "\n".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in report.facts
    )
    body = "\n".join(parts)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(report.title)}</title>
<style>
{_resource("report.css")}</style>
</head>
<body>
<header>
<h1>{escape(report.title)}</h1>
{lead}
</header>
<nav aria-label="Contents">
<ol>
{contents}
</ol>
</nav>
<main>
{body}
<section id="{_COMMANDS[0]}">
<h2>{_COMMANDS[1]}</h2>
{commands.html()}
</section>
</main>
<footer id="{_FACTS[0]}">
<h2>{_FACTS[1]}</h2>
<dl>
{facts}
</dl>
</footer>
<aside id="bar" aria-label="Command for the selected entry" hidden>
<div role="status">
<p class="place"></p>
<p class="about"></p>
</div>
<p class="run"><code tabindex="0"></code></p>
<p class="buttons">
<button type="button" class="copy">Copy</button>
<button type="button" class="close">Close</button>
</p>
</aside>
<script>
{_resource("report.js")}</script>
</body>
</html>
"""


def _resource(name: str) -> str:
    return files("iopea.comparison").joinpath("templates", name).read_text(encoding="utf-8")


def _table(table: Table, place: str, commands: _Commands) -> str:
    """A table in a box that scrolls, and below it what is to be said."""
    for command, made in grouped(table, "command").items():
        commands.add(command, f"{table.title.rstrip('.')}: {made}")
    head = "\n".join(
        f'<th scope="col">{_sort_button(column)}</th>' for column in ("Row", *table.columns)
    )
    sections = by_section(table.lines)
    groups = "\n".join(
        _group(table, section, lines, len(sections) > 1, commands)
        for section, lines in sections.items()
    )
    if not sections:
        groups = f'<tbody><tr><td colspan="{1 + len(table.columns)}">{EMPTY}</td></tr></tbody>'
    said = [escape(sentence) for sentence in table.notes]
    said += [
        f'{escape(sentence)} <span class="entries">{escape(entries)}.</span>'
        for sentence, entries in explanations(table)
    ]
    notes = "\n".join(f"<li>{sentence}</li>" for sentence in said)
    return f"""<section id="{place}">
<h2 id="{place}-title">{escape(table.title)}</h2>
<div class="scroll" role="region" aria-labelledby="{place}-title" tabindex="0">
<table>
<caption><span>{escape(_caption(table))}</span></caption>
<thead>
<tr>
{head}
</tr>
</thead>
{groups}
</table>
</div>
<ul class="notes">
{notes}
</ul>
</section>"""


def _sort_button(column: str) -> str:
    """A heading that sorts, once the script has enabled it."""
    return (
        f'<button type="button" class="sort" disabled>{escape(column)}'
        '<span class="arrow" aria-hidden="true"></span></button>'
    )


def _caption(table: Table) -> str:
    """How to read a table, and how many printed values hold."""
    cells = [cell for line in table.lines for cell in line.cells if cell.seeds]
    said = []
    if any(not math.isnan(cell.half) for cell in cells):
        said.append("Mean over seeds ± half of its 95 % interval.")
    if any(value_and_gap(cell)[1] for cell in cells):
        said.append("In brackets: how much dearer than the best policy of the class.")
    said.append(key(table))
    if any(cell.command for cell in cells):
        said.append("Select an entry for the command that makes it again.")
    return " ".join(filter(None, said))


def _group(table: Table, section: str, lines: list[Line], headed: bool, commands: _Commands) -> str:
    """The rows of a section."""
    rows = []
    if headed:
        rows.append(
            f'<tr class="section"><th colspan="{1 + len(table.columns)}" scope="rowgroup">'
            f"<span>{escape(section)}</span></th></tr>"
        )
    for line in lines:
        cells = "\n".join(
            _cell(cell, ", ".join(filter(None, (line.name, section, column))), commands)
            for column, cell in zip(table.columns, line.cells, strict=True)
        )
        rows.append(f'<tr>\n<th scope="row">{escape(line.name)}</th>\n{cells}\n</tr>')
    return "<tbody>\n" + "\n".join(rows) + "\n</tbody>"


def _cell(cell: Cell, what: str, commands: _Commands) -> str:
    """An entry that leads to its command, and the printed value below it."""
    value, gap = (_together(text) for text in value_and_gap(cell))
    shown = value + (f'<span class="gap"> {gap}</span>' if gap else "")
    about = escape(_about(cell))
    if cell.command:
        link = commands.place(cell.command)
        shown = (
            f'<a class="entry" href="#{link}" data-place="{escape(what)}" title="{about}">'
            f"{shown}</a>"
        )
    elif about:
        shown = f'<span title="{about}">{shown}</span>'
    if cell.printed is not None:
        verdict = f"{MARKS[cell.verdict]} {cell.verdict}" if cell.verdict else ""
        stands = f' <span class="verdict">{_together(verdict)}</span>' if verdict else ""
        printed = _together(f"printed {printed_value(cell)}")
        shown += f'<span class="printed">{printed}{stands}</span>'
    order = f' data-value="{float(cell.mean)!r}"' if cell.seeds else ""
    return f'<td class="{cell.verdict or "plain"}"{order}>{shown}</td>'


def _together(text: str) -> str:
    """Escaped text that stays on one line."""
    return escape(text.replace(" ", _NO_BREAK))


def _about(cell: Cell) -> str:
    """What is known of an entry beside its value, in sentences."""
    said = []
    if cell.seeds:
        said.append("1 seed." if cell.seeds == 1 else f"{cell.seeds} seeds.")
    if cell.p_value is not None and not math.isnan(cell.p_value):
        said.append(f"p = {cell.p_value:.2g}.")
    if cell.printed is not None:
        stands = f", {cell.verdict}" if cell.verdict else ""
        said.append(f"Printed {printed_value(cell)}{stands}.")
    return " ".join(filter(None, [*said, cell.reason, cell.absent]))


def _figure(figure: Figure, place: str, commands: _Commands) -> str:
    """A figure on white, with its caption and command."""
    again = ""
    if figure.command:
        commands.add(figure.command, figure.title)
        link = commands.place(figure.command)
        again = (
            f' <a class="entry" href="#{link}" data-place="{escape(figure.title)}">'
            "The command that makes it again</a>."
        )
    return f"""<section id="{place}">
<h2>{escape(figure.title)}</h2>
<figure>
<div class="card">{_inline(figure, f"{place}-svg")}</div>
<figcaption>{escape(figure.caption)}{again}</figcaption>
</figure>
</section>"""


def _inline(figure: Figure, prefix: str) -> str:
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
