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
    from iopea.problems.base import example_of
    from iopea.registry import strangers

    import_plugins(modules or [])
    for registry in REGISTRIES.values():
        for sentence in registry.refused:
            _warn(sentence)
    for sentence in strangers(REGISTRIES):
        _warn(sentence)
    examples = {}
    for name, kind in iopea.PROBLEMS.items():
        try:
            examples[name] = example_of(kind)[0]
        except iopea.IopeaError as error:
            _warn(str(error))
    rows = _rows(examples)
    if as_json:
        typer.echo(json.dumps({"version": iopea.__version__, "learners": rows}, indent=2))
    else:
        _print_table(rows, len(examples))


def _warn(sentence: str) -> None:
    typer.echo(f"Warning: {sentence}", err=True)


def _fits(learner: type[iopea.Learner], problem: iopea.Problem) -> bool:
    """Whether a learner fits a problem; one that can't say so does not."""
    from iopea.learners.base import fits

    try:
        return fits(learner, problem)
    except iopea.IopeaError as error:
        _warn(str(error))
        return False


def _rows(examples: dict[str, iopea.Problem]) -> list[dict[str, Any]]:
    """Every learner and its requirements, as JSON values."""
    return [
        {
            "name": name,
            "oracle": learner.oracle,
            "needs": learner.needs,
            "extra": learner.extra,
            "about": next(iter((learner.__doc__ or "").strip().splitlines()), ""),
            "fits": [kind for kind, problem in examples.items() if _fits(learner, problem)],
        }
        for name, learner in iopea.LEARNERS.items()
    ]


def _print_table(rows: list[dict[str, Any]], problems: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Learners", title_justify="left")
    for heading in ("name", "what it does", "needs", "problems"):
        table.add_column(heading)
    for row in rows:
        about = f"{row['about']}{' An oracle: it knows the true system.' if row['oracle'] else ''}"
        extra = f"; the extra {row['extra']!r}" if row["extra"] else ""
        fits = "any" if len(row["fits"]) == problems else ", ".join(row["fits"])
        table.add_row(row["name"], about, row["needs"] + extra, fits)
    Console().print(table)
