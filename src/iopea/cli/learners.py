"""The command ``learners``."""

from __future__ import annotations

import json
from typing import Any

import typer

import iopea
from iopea.cli.options import AsJson, Import


def learners(modules: Import = None, as_json: AsJson = False) -> None:
    """List the learners and the problems that they fit."""
    from iopea.plugins import REGISTRIES, import_plugins

    import_plugins(modules or [])
    for registry in REGISTRIES.values():
        for sentence in registry.refused:
            typer.echo(f"Warning: {sentence}", err=True)
    if as_json:
        rows = {"version": iopea.__version__, "learners": _rows()}
        typer.echo(json.dumps(rows, indent=2))
    else:
        _print_table()


def _rows() -> list[dict[str, Any]]:
    """Every learner and its requirements, as JSON values."""
    return [
        {
            "name": name,
            "oracle": learner.oracle,
            "needs": learner.needs,
            "extra": learner.extra,
            "about": next(iter((learner.__doc__ or "").strip().splitlines()), ""),
            "fits": [
                kind
                for kind, problem in iopea.PROBLEMS.items()
                if learner.fits(problem.example()[0])
            ],
        }
        for name, learner in iopea.LEARNERS.items()
    ]


def _print_table() -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Learners", title_justify="left")
    for heading in ("name", "what it does", "needs", "problems"):
        table.add_column(heading)
    for row in _rows():
        about = f"{row['about']}{' An oracle: it knows the true system.' if row['oracle'] else ''}"
        extra = f"; the extra {row['extra']!r}" if row["extra"] else ""
        fits = "any" if len(row["fits"]) == len(iopea.PROBLEMS) else ", ".join(row["fits"])
        table.add_row(row["name"], about, row["needs"] + extra, fits)
    Console().print(table)
