"""Reports as files: tables as CSV, Markdown and LaTeX, figures as PNG and SVG, one page of HTML."""

from __future__ import annotations

from pathlib import Path

from iopea.comparison.formats import to_csv, to_html, to_latex, to_markdown
from iopea.comparison.tables import Figure, Report, Table
from iopea.errors import InputError, shown_path
from iopea.storage import check_writable, clear_drafts_of, make_folder_of, writing

#: The HTML page of the whole report.
PAGE = "report.html"


def check_document(path: Path | None) -> None:
    """Before any work is done, refuse a document that is no Markdown file or can't be written."""
    if path is None:
        return
    if path.suffix != ".md":
        raise InputError(
            f"Cannot write a document to {shown_path(path)}: its name must end in .md."
        )
    check_writable(path)


def write_report(report: Report, directory: str | Path, page: str = PAGE) -> Path:
    """Write all files of a report, and return the path of the HTML page."""
    folder = Path(directory)
    for part in report.parts:
        if isinstance(part, Table):
            for suffix, text in (
                ("csv", to_csv(part)),
                ("md", to_markdown(part)),
                ("tex", to_latex(part)),
            ):
                _write(folder / "tables" / f"{part.name}.{suffix}", text.encode())
        elif isinstance(part, Figure):
            _write(folder / "figures" / f"{part.name}.svg", part.svg.encode())
            _write(folder / "figures" / f"{part.name}.png", part.png)
    _write(folder / page, to_html(report).encode())
    return folder / page


def write_document(report: Report, path: str | Path) -> None:
    """Write a report as one Markdown file, its figures in a folder of the same name beside it."""
    target = Path(path)
    check_document(target)
    lines = [f"# {report.title}", "", *(f"{paragraph}\n" for paragraph in report.lead)]
    for level, part in report.levels:
        if isinstance(part, Table):
            lines.append(to_markdown(part, level))
            continue
        lines += [f"{'#' * level} {part.title}", ""]
        if isinstance(part, Figure):
            lines += _picture_beside(target, part)
        else:
            lines += [f"{paragraph}\n" for paragraph in part.lead]
    lines += ["## How this was made", "", *(f"- {name}: {value}" for name, value in report.facts)]
    _write(target, ("\n".join(lines) + "\n").encode())


def _picture_beside(document: Path, figure: Figure) -> list[str]:
    """Write a figure to the folder of a Markdown file, and return the lines that show it."""
    picture = Path(document.stem) / f"{figure.name}.png"
    _write(document.parent / picture, figure.png)
    shown = f"![{figure.title}]({picture.as_posix()})"
    return [shown, "", figure.caption, "", f"`{figure.command}`", ""]


def _write(path: Path, content: bytes) -> None:
    """Write a file and make its folder; what can't be written is an InputError."""
    make_folder_of(path)
    clear_drafts_of(path)
    with writing(path) as file:
        file.write(content)
