"""The command ``validate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from iopea.cli.options import Cluster, Workers, path
from iopea.errors import InputError, unknown


def validate(
    studies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STUDY",
            help="One or more of survival, growth, width, alpha, bounds, robustness; default: all.",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick",
            help="Full: as in docs/guarantees.md, over an hour on two cores. Quick: minutes.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=path, help="Folder of results; default: out/validation-quick or -full."
        ),
    ] = None,
    workers: Workers = 0,
    cluster: Cluster = None,
    document: Annotated[
        Path | None,
        typer.Option(parser=path, help="Also write the document to this Markdown file."),
    ] = None,
) -> None:
    """Measure the guarantees of the library. The exit status is 1 if one does not hold.

    Tables, figures and one Markdown document are written to the folder; finished parts are not run
    again.
    """
    from rich.console import Console

    from iopea.cli.jobs import run_jobs, warning
    from iopea.comparison.output import check_document
    from iopea.comparison.runner import check_cluster
    from iopea.comparison.store import Store
    from iopea.studies.guarantees import STUDIES
    from iopea.studies.guarantees.document import Chapter, show, write_all, write_document
    from iopea.studies.guarantees.study import COLUMNS

    names = studies or []
    for name in names:
        if name not in STUDIES:
            raise unknown("study", name, STUDIES)
    chosen = {name: study for name, study in STUDIES.items() if not names or name in names}
    if document is not None and len(chosen) < len(STUDIES):
        raise InputError(
            f"--document needs all studies, not {', '.join(chosen)} alone: name none of them."
        )
    check_document(document)
    size = "full" if full else "quick"
    out = out or Path(f"out/validation-{size}")
    console = Console(stderr=True)
    about = {"command": "validate", "size": size}
    check_cluster(cluster)
    store = Store(out, about, warn=warning(console), columns=COLUMNS)
    parts = {name: study.parts(full) for name, study in chosen.items()}
    run_jobs([part for each in parts.values() for part in each], store, workers, cluster, console)
    chapters = []
    for name, study in chosen.items():
        values = {part.key: json.loads(store.rows(part.key)[0]["values"]) for part in parts[name]}
        chapters.append(Chapter(study, parts[name], study.finding(full, values)))
    show(Console(), chapters)
    command = " ".join(["iopea validate", *names, f"--{size}"])
    if document is not None:
        write_document(chapters, document, command)
    typer.echo(f"Written to {write_all(chapters, out, command)}.")
    broken = [claim for chapter in chapters for claim in chapter.broken]
    if broken:
        number = "A promise is" if len(broken) == 1 else f"{len(broken)} promises are"
        typer.echo(f"{number} broken: {'; '.join(broken)}.", err=True)
        raise typer.Exit(1)
