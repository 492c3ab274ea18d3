"""Tables of results as LaTeX, for documents with the package booktabs."""

from __future__ import annotations

import re
import textwrap

from iopea.comparison.formats import (
    EMPTY,
    by_section,
    explanations,
    key,
    printed_short,
    value_and_gap,
)
from iopea.comparison.tables import Line, Table

#: Heights of rows with one and with two lines in a LaTeX table, and what a page holds of them.
_ONE_LINE, _TWO_LINES, _PAGE = 1.0, 1.8, 48.0
#: Most columns of a LaTeX table in larger type, and most characters in a line of their headings.
_FEW, _HEADING = 4, 14
_BELOW = (
    "Below a value: how much dearer it is than the best policy of the class, and in brackets the"
    " printed value."
)
_THIN = "\u2009"
#: Characters with a meaning to LaTeX, and those its fonts have only in mathematics.
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

    Sections stand between rules. A table too high for a page goes on in the next float, from the
    start of a section. The sentences about entries stand below the floats, in a list.

    >>> from iopea.comparison.tables import Cell
    >>> cell = Cell(0.25, 0.01, 20, unit="share")
    >>> print(to_latex(Table("a", "Gaps", ("z_e",), (Line("", "IOPEA", (cell,)),))))
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
    said = [_latex(sentence) for sentence in filter(None, (below, key(table), *table.notes))]
    said += [
        rf"{_latex(sentence)} \emph{{Entries: {_latex(entries)}.}}"
        for sentence, entries in explanations(table)
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
    """Rows by the float they stand in."""
    pages: list[list[Line]] = [[]]
    height = 0.0
    for lines in by_section(table.lines).values():
        rows = sum(_TWO_LINES if _two_lines(line) else _ONE_LINE for line in lines) + _TWO_LINES
        if pages[-1] and height + rows > _PAGE:
            pages.append([])
            height = 0.0
        pages[-1] += lines
        height += rows
    return pages


def _two_lines(line: Line) -> bool:
    return any(cell.printed is not None or value_and_gap(cell)[1] for cell in line.cells)


def _float(table: Table, rows: list[Line], number: int) -> list[str]:
    """One float with some of the rows of a table."""
    width = 1 + len(table.columns)
    title = f"{table.title} (continued)" if number else table.title
    size, apart = ("footnotesize", 4) if len(table.columns) <= _FEW else ("scriptsize", 3)
    label = re.sub(r"[^\w:.-]+", "-", table.name, flags=re.ASCII)
    lines = [
        r"\begin{table}[htbp]",
        rf"  \centering\{size}\setlength{{\tabcolsep}}{{{apart}pt}}",
        rf"  \caption{{{_latex(title)}}}",
        rf"  \label{{tab:{label}{f'-{number + 1}' if number else ''}}}",
        rf"  \begin{{tabular}}{{@{{}}l{'r' * len(table.columns)}@{{}}}}",
        r"    \toprule",
        rf"    {' & '.join(['', *map(_latex_heading, table.columns)])} \\",
    ]
    for section, under in by_section(rows).items():
        lines.append(r"    \midrule")
        if len(by_section(table.lines)) > 1:
            heading = rf"\emph{{{_latex(section)}}}"
            lines.append(rf"    \multicolumn{{{width}}}{{@{{}}l@{{}}}}{{{heading}}} \\")
        for line in under:
            lines += [f"    {text}" for text in _latex_row(line)]
    if not rows:
        lines += [r"    \midrule", rf"    \multicolumn{{{width}}}{{@{{}}l@{{}}}}{{{EMPTY}}} \\"]
    return [*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]


def _latex_row(line: Line) -> list[str]:
    """A row: values, and where there is more to say a smaller line below them."""
    pairs = [value_and_gap(cell) for cell in line.cells]
    first = " & ".join(
        [_latex(line.name), *(_latex(value.replace(" ", _THIN)) for value, _ in pairs)]
    )
    if not _two_lines(line):
        return [rf"{first} \\"]
    below = []
    for (_, gap), cell in zip(pairs, line.cells, strict=True):
        printed = f"[{printed_short(cell).removeprefix('printed ')}]" if printed_short(cell) else ""
        below.append(_latex(f"{gap.strip('()')} {printed}".strip()))
    second = " & ".join(["", *(rf"\tiny {text}" if text else "" for text in below)])
    return [rf"{first} \\[-0.4ex]", rf"{second} \\"]


def _latex_heading(column: str) -> str:
    """A heading; one of many words on several lines."""
    lines = textwrap.wrap(column, _HEADING, break_long_words=False)
    text = r" \\ ".join(map(_latex, lines))
    return rf"\begin{{tabular}}[b]{{@{{}}r@{{}}}}{text}\end{{tabular}}" if len(lines) > 1 else text


def _latex(text: str) -> str:
    r"""Text without a meaning to LaTeX.

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
