import csv
import io
import math
import re
from html.parser import HTMLParser

import matplotlib
import pytest
from matplotlib.figure import Figure as Drawing
from rich.console import Console

from iopea.comparison.formats import (
    EMPTY,
    FIELDS,
    print_table,
    to_csv,
    to_html,
    to_latex,
    to_markdown,
)
from iopea.comparison.tables import (
    Column,
    Entry,
    Figure,
    Heading,
    Line,
    Report,
    Table,
    entry_columns,
)

EVIL = "<script>alert('x')</script> & \"z_e\" | 5 % *a* [b] $c$ {d} \\e #1 ~^"
NOT_RUN = "Too many policies."
OTHER_LAW = "The law is another: 5 % of z_e."


def some_table(columns=("small", "large", "dual"), sections=("Exponential", "Normal")):
    """Rows with every kind of entry: with and without value, printed value, reason and command."""
    lines = []
    for part, section in enumerate(sections):
        for row, name in enumerate(("IOPEA", "ERM", "PPO")):
            cells = [name]
            for column in range(len(columns)):
                number = 100 * part + 10 * row + column
                command = f"iopea reproduce table1 --cell {number}"
                cell = Entry(1 / 3 + number, 0.01 / 7, 20, gap=0.1 / 3, sign="★", p_value=1e-7 / 3,
                            printed=2.6, verdict="reproduced", command=command)  # fmt: skip
                if name == "ERM":
                    cell = Entry(0.1 / 3, math.nan, 1, unit="share", printed=0.0107,
                                verdict="differs", reason=OTHER_LAW, command=command)  # fmt: skip
                if name == "PPO":
                    cell = Entry(printed=3.8, absent=NOT_RUN)
                cells.append(cell)
            lines.append(Line(tuple(cells), section))
    return Table("table1", "Costs of learners.", entry_columns(columns), tuple(lines), ("A note.",))


def some_svg():
    with matplotlib.rc_context({"svg.hashsalt": "i"}):
        drawing = Drawing(figsize=(3, 2))
        axes = drawing.subplots()
        axes.plot([0, 1, 2], [1, 3, 2], "o-", label="IOPEA")
        axes.legend()
        text = io.StringIO()
        drawing.savefig(text, format="svg")
    return text.getvalue()


def some_figure(title="Costs over time"):
    return Figure("figure1", title, "Mean of 20 seeds.", some_svg(), b"", "iopea reproduce figure1")


def some_report(*parts):
    return Report("Reproduction", ("A lead.",), parts, (("version", "1.2.3"), ("seeds", "0 to 19")))


class Page(HTMLParser):
    """A page as a browser sees it: elements with their attributes, and the text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.open, self.inside = [], [], [], {}
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)
        if self.open:
            self.inside.setdefault(self.open[-1], []).append(data)

    def all(self, tag, **wanted):
        return [
            attrs
            for name, attrs in self.elements
            if name == tag and all(attrs.get(key) == value for key, value in wanted.items())
        ]

    @property
    def text(self):
        return "".join(self.words).replace("\u00a0", " ")

    @property
    def ids(self):
        return [attrs["id"] for _, attrs in self.elements if "id" in attrs]


def printed(table, width=100):
    console = Console(width=width, file=io.StringIO(), force_terminal=False, color_system=None)
    print_table(console, table)
    return console.file.getvalue()


def evil_table():
    cell = Entry(1.0, 0.1, 3, reason=EVIL, command=EVIL, printed=1.0, verdict="differs")
    line = Line((EVIL, cell, Entry(absent=EVIL)), EVIL)
    return Table("a b", EVIL, entry_columns((EVIL, "x")), (line,), (EVIL,))


# CSV


def test_csv_reads_back_to_the_same_numbers():
    table = some_table()
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    cells = [entry for _, _, entry in table.entries()]
    assert tuple(rows[0]) == FIELDS
    assert len(rows) == len(cells) == 18
    for row, cell in zip(rows, cells, strict=True):
        for name in ("mean", "half", "gap", "p_value", "printed"):
            value = getattr(cell, name)
            unknown = value is None or math.isnan(value)
            assert (row[name] == "") if unknown else (float(row[name]) == value)
        assert int(row["seeds"]) == cell.seeds
        for name in ("unit", "sign", "reason", "command", "absent"):
            assert row[name] == getattr(cell, name)
        assert row["verdict"] == (cell.verdict or "")
    assert (rows[5]["section"], rows[5]["row"], rows[5]["column"]) == ("Exponential", "ERM", "dual")


def test_csv_keeps_odd_text():
    row = next(csv.DictReader(io.StringIO(to_csv(evil_table()))))
    assert (row["section"], row["row"], row["column"], row["reason"]) == (EVIL,) * 4


# Sentences


def test_each_sentence_is_said_once_with_its_entries():
    table = some_table()
    assert dict(table.explanations) == {OTHER_LAW: "ERM", NOT_RUN: "PPO"}
    for text in (to_markdown(table).replace("\\_", "_"), printed(table, 200)):
        assert text.count(OTHER_LAW) == text.count(NOT_RUN) == 1


def test_entries_are_grouped_by_what_they_share():
    odd, even = Entry(1.0, 0.1, 2, reason="Why."), Entry(1.0, 0.1, 2)
    lines = [
        Line(("one", odd, even), "A"),
        Line(("two", odd, even), "A"),
        Line(("three", odd, odd), "A"),
        Line(("one", odd, even), "B"),
        Line(("two", odd, even), "B"),
        Line(("three", even, even), "B"),
    ]
    ((_, entries),) = Table("t", "T", entry_columns(("x", "y")), tuple(lines)).explanations
    assert entries == "one / two (x); three (A)"


# Markdown


@pytest.mark.parametrize("columns", [("a",), ("a", "b|c", "d_e"), tuple("abcdefg")])
def test_markdown_has_the_columns_and_rows_of_the_table(columns):
    text = to_markdown(some_table(columns))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(columns) + 2}
    assert len(rows) == 2 * (2 + 3)
    assert [line for line in text.splitlines() if line.startswith("###")] == [
        "### Exponential",
        "### Normal",
    ]


def test_markdown_of_one_section_has_no_heading_for_it():
    assert "###" not in to_markdown(some_table(sections=("Normal",)))
    assert to_markdown(some_table(), level=3).startswith("### Costs")


def test_markdown_shows_printed_values_below():
    text = to_markdown(some_table())
    assert "★0.3333 ± 0.0014 (3.3 %)<br>printed 2.6 = |" in text
    assert "3.33 %<br>printed 1.07 % ≠ |" in text
    assert "–<br>printed 3.8 |" in text


def test_markdown_escapes():
    text = to_markdown(evil_table())
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert not re.search(r"(?<!\\)[$`\[]", text)
    assert text.count("\n#") == 0


# LaTeX


def test_latex_escapes():
    text = to_latex(evil_table()).replace(r"\\", "")
    assert r"\textless{}script\textgreater{}" in text
    assert not re.search(r"(?<!\\)[%#]", text)
    assert not re.search(r"(?<![\\}])_", text)
    assert r"\& ''z\_e'' \textbar{} 5 \% {*}a{*} {[}b{]} \$c\$ \{d\} \textbackslash{}e \#1" in text
    assert r"\textasciitilde{}\textasciicircum{}" in text
    assert text.count("{") == text.count("}")


def test_latex_has_no_character_that_its_fonts_lack():
    cell = Entry(1.0, 0.1, 3, gap=0.01, sign="★", printed=2.0, verdict="differs")
    title = "○ ± × ≤ ≥ ≠ α λ – 10⁻¹² z₁ − √T"
    text = to_latex(Table("a", title, entry_columns(("x",)), (Line(("λ", cell)),), ("≈ →",)))
    assert text.isascii()
    assert "$\\star$1.000\\,$\\pm$\\,0.100" in text
    assert "10$^{-12}$ z$_{1}$" in text


def test_latex_rows_have_all_columns():
    table = some_table()
    text = to_latex(table)
    rows = [line for line in text.splitlines() if re.search(r"(?<!\\)&", line)]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(table.columns) - 1}
    assert len(rows) == 1 + 2 * 6  # every row has a second line, with what was printed
    for rule in (r"\toprule", r"\bottomrule"):
        assert text.count(rule) == 1
    assert text.count(r"\midrule") == 2


def test_latex_goes_on_in_another_float():
    lines = tuple(
        Line((f"row {row}", Entry(1.0, 0.1, 2)), section) for section in "ABC" for row in range(20)
    )
    text = to_latex(Table("long", "T", entry_columns(("x",)), lines))
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    assert r"\label{tab:long}" in text
    assert r"\label{tab:long-2}" in text
    assert all(text.count(f"row {row} &") == 3 for row in range(20))


# Terminal


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_terminal_shows_every_value_whole(width):
    table = some_table(("Inventory, small", "Inventory, large", "Dual, small", "Dual, large", "x"))
    text = printed(table, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    values = [entry.value_text for _, _, entry in table.entries()]
    assert len(values) == 30
    assert [value for value in values if value not in text] == []
    assert "printed 2.6 =" in text
    assert "printed 1.07 % ≠" in text


def test_terminal_reads_no_markup():
    assert "[bold]" in printed(
        Table("a", "A [bold]title", entry_columns(("[red]x",)), (), ("[bold]note",))
    )


# HTML


def test_html_escapes_everything():
    figure = Figure("f", EVIL, EVIL, some_svg(), b"", EVIL)
    report = Report(EVIL, (EVIL,), (evil_table(), figure), ((EVIL, EVIL),))
    page = Page(to_html(report))
    assert len(page.all("script")) == 1
    assert "alert" not in "".join(page.inside["script"])
    assert page.inside["h1"] == page.inside["dt"] == page.inside["dd"] == [EVIL]
    assert set(page.inside["code"]) == {EVIL}
    assert EVIL in page.all("a", **{"class": "entry"})[0]["title"]


def test_html_loads_nothing():
    report = Report("See https://example.org/x", (), (some_table(), some_figure()), ())
    text = to_html(report)
    page = Page(text)
    assert not page.all("link")
    assert not page.all("img")
    for _, attrs in page.elements:
        for name in ("src", "href", "xlink:href", "data", "action", "srcset"):
            assert attrs.get(name, "#").startswith("#")
    style = "".join(page.inside["style"])
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert "@font-face" not in style
    assert re.findall(r"https?://[^<\s]+", text) == ["https://example.org/x"] * 2
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert "default-src 'none'" in policy["content"]


def test_html_leads_from_every_entry_to_its_command():
    table, figure = some_table(), some_figure()
    text = to_html(some_report(table, figure))
    listed = dict(re.findall(r'<li id="([\w-]+)"><code>(.*?)</code>', text))
    entries = Page(text).all("a", **{"class": "entry"})
    cells = [entry for _, _, entry in table.entries() if entry.command]
    wanted = [*(cell.command for cell in cells), figure.command]
    assert [listed[entry["href"][1:]] for entry in entries] == wanted
    assert sorted(listed.values()) == sorted(set(wanted))
    assert entries[0]["title"] == "20 seeds. p = 3.3e-08. Printed 2.6, reproduced."
    assert entries[3]["title"] == f"1 seed. Printed 1.07 %, differs. {OTHER_LAW}"


def test_html_lists_a_shared_command_once():
    cell = Entry(1.0, 0.1, 2, command="iopea compare a.toml")
    text = to_html(
        some_report(Table("t", "T", entry_columns(("x", "y")), (Line(("IOPEA", cell, cell)),)))
    )
    assert text.count("<code>iopea compare a.toml</code>") == 1
    assert text.count('href="#command-1"') == 2


def test_html_ids_are_unique_even_for_a_figure_twice():
    page = Page(to_html(some_report(some_table(), some_figure(), some_figure(), some_table())))
    assert len(page.ids) == len(set(page.ids))
    named = set(page.ids)
    uses = [attrs["href"][1:] for attrs in page.all("use")]
    assert uses
    assert set(uses) <= named
    clips = [
        place
        for _, attrs in page.elements
        for value in attrs.values()
        for place in re.findall(r"url\(#([^)]+)\)", value or "")
    ]
    assert clips
    assert set(clips) <= named
    first = [place for place in clips if place.startswith("part-2-")]
    assert len(first) == len(clips) / 2
    assert {attrs["href"][1:] for attrs in page.all("a")} <= named


def test_html_figures_bring_no_metadata_scripts_or_styles_for_the_page():
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        "<metadata>m</metadata><script>s()</script><style>*, path {fill: red}</style>"
        '<path id="p" onclick="x()"/><use xlink:href="#p"/><use xlink:href="http://a.b/c"/></svg>'
    )
    text = to_html(some_report(Figure("f", "F", "C", svg, b"", "")))
    drawn = text[text.index("<svg") : text.index("</svg>")]
    assert not re.search("metadata|script|onclick|http", drawn)
    assert "#part-1-svg *,#part-1-svg  path {fill: red}" in drawn
    assert '<use href="#part-1-svg-1"' in drawn


def test_html_tables_sort_and_say_what_they_are():
    table = some_table()
    page = Page(to_html(some_report(table)))
    assert len(page.all("button", **{"class": "sort"})) == len(table.columns)
    assert len(page.all("th", scope="col")) == len(table.columns)
    assert len(page.all("th", scope="row")) == len(table.lines)
    assert len(page.all("tbody")) == len(page.all("th", scope="rowgroup")) == 2
    values = [float(cell["data-value"]) for cell in page.all("td") if "data-value" in cell]
    assert values == [entry.mean for _, _, entry in table.entries() if entry.seeds]
    script = "".join(page.inside["script"])
    assert "aria-sort" in script
    assert len(page.all("caption")) == 1
    assert page.all("html", lang="en")
    assert page.all("meta", name="viewport")
    assert page.inside["title"] == ["Reproduction"]


def test_html_says_verdicts_in_words():
    text = Page(to_html(some_report(some_table()))).text
    for words in ("printed 2.6 = reproduced", "printed 1.07 % ≠ differs", NOT_RUN, OTHER_LAW):
        assert words in text
    assert "version" in text
    assert "1.2.3" in text


# All


def test_an_empty_table_says_so():
    table = Table("none", "Nothing here", entry_columns(("a", "b")), ())
    assert to_csv(table).splitlines() == [",a,b"]
    html = Page(to_html(some_report(table))).text
    for text in (to_markdown(table), to_latex(table), printed(table), html):
        assert EMPTY in text
        assert "Nothing here" in text


def test_absent_entries_have_a_dash_and_a_sentence():
    table = Table("t", "T", entry_columns(("x",)), (Line(("PPO", Entry(absent=NOT_RUN))),))
    html = to_html(some_report(table))
    assert 'class="entry"' not in html
    assert "data-value" not in html
    for text in (to_markdown(table), printed(table), html):
        assert "–" in text
        assert NOT_RUN in text
    assert "PPO & -- " in to_latex(table)
    assert next(csv.DictReader(io.StringIO(to_csv(table))))["absent"] == NOT_RUN


def plain_table():
    columns = Column.text("system"), Column("T", ","), Column("regret"), Column("bound", ".3g")
    lines = Line(("lost sales", 100_000, "12 ± 3", 1234.5)), Line(("queue", 3000, "7 ± 1", None))
    return Table("plain", "Bounds", columns, lines, ("A note.",))


def test_a_table_without_entries_has_the_same_cells_in_every_format():
    table = plain_table()
    shown = [["lost sales", "100,000", "12 ± 3", "1.23e+03"], ["queue", "3,000", "7 ± 1", "–"]]
    assert list(csv.reader(io.StringIO(to_csv(table))))[1:] == shown
    text = to_markdown(table)
    assert "| :--- | ---: | ---: | ---: |" in text
    for row in shown:
        assert f"| {' | '.join(row)} |" in text
    latex = to_latex(table)
    assert r"\begin{tabular}{@{}lrrr@{}}" in latex
    assert r"lost sales & 100,000 & 12 $\pm$ 3 & 1.23e+03 \\" in latex
    page = Page(to_html(some_report(table)))
    assert [cell.get("data-value") for cell in page.all("td")] == [
        "100000", None, "1234.5", "3000", None, None,
    ]  # fmt: skip
    for cell in (cell for row in shown for cell in row):
        assert cell in page.text
        assert cell in printed(table)


@pytest.mark.parametrize("width", [30, 60, 120])
def test_terminal_breaks_no_number(width):
    text = printed(plain_table(), width)
    assert max(map(len, text.splitlines())) <= width
    for number in ("100,000", "12 ± 3", "1.23e+03"):
        assert number in text


def test_parts_stand_below_the_heading_before_them():
    report = some_report(plain_table(), Heading("Growth", ("Why.",)), plain_table(), some_figure())
    assert [level for level, _ in report.levels] == [2, 2, 3, 3]
    page = Page(to_html(report))
    assert len(page.all("h3")) == 2
    contents = [attrs["href"] for attrs in page.all("a") if attrs["href"].startswith("#part")]
    assert contents == ["#part-1", "#part-2"]
    assert "Why." in page.text
