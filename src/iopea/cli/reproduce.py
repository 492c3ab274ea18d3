"""The command ``reproduce``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from iopea.cli.options import MOST_SEEDS, Cluster, FirstSeed, Import, Out, Workers, path, whole
from iopea.errors import InputError, shown, unknown

_ALL, _PAPER = "all", "paper"
_TABLES = ("table1", "table-queue")
_BOTH = "both"


def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            help="One of table1, table-queue, figure1, figure2, regret, year, paper (without "
            "year), or all."
        ),
    ] = _ALL,
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick",
            help="Full: 20 runs of all learners with PPO, up to T = 10^6. Quick: 3 runs, no PPO.",
        ),
    ] = False,
    profile: Annotated[str, typer.Option(help="as-stated, as-published, or both.")] = _BOTH,
    out: Out = Path("out/reproduction"),
    only: Annotated[
        list[str] | None, typer.Option(help="A setting, such as queue-fixed; may be repeated.")
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(help="A row of the tables, or any learner; may be repeated."),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="A row to leave out, such as ppo; may be repeated.")
    ] = None,
    seeds: Annotated[
        int | None, whole("--seeds", 1, MOST_SEEDS, help="Runs of each learner.")
    ] = None,
    first_seed: FirstSeed = 0,
    workers: Workers = 0,
    cluster: Cluster = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Run nothing: report the finished results.")
    ] = False,
    document: Annotated[
        Path | None, typer.Option(parser=path, help="Also write the report to this Markdown file.")
    ] = None,
    modules: Import = None,
) -> None:
    """Run the paper's experiments. Results are compared with the printed numbers.

    Tables, figures and one page of HTML are written to the folder; finished runs are not repeated.
    With --only or --rows, part of table1 and table-queue is printed, and no report is written;
    other targets, such as regret and year, need complete results.
    """
    from rich.console import Console

    from iopea.cli.jobs import print_report, run_jobs, warning
    from iopea.comparison.output import PAGE, check_document, write_document, write_report
    from iopea.comparison.runner import check_cluster
    from iopea.comparison.store import Store
    from iopea.plugins import import_plugins
    from iopea.studies.reproduction.costs import BASELINE, SIZES, Choice
    from iopea.studies.reproduction.reproduce import TARGETS, report_for, tasks_for
    from iopea.studies.reproduction.scenarios import PROFILES, scenarios

    import_plugins(modules or [])
    if target not in (*TARGETS, _PAPER, _ALL):
        raise InputError(
            f"There is no table or figure {shown(target)}: use one of {', '.join(TARGETS)}, "
            f"{_PAPER} and {_ALL}."
        )
    part = bool(only or rows)
    targets = tuple(
        each
        for each in TARGETS
        if target in (each, _ALL) or (target == _PAPER and each != "year")
        if each in _TABLES or not part
    )
    if not targets or (part and document is not None):
        what = target if not targets else "--document"
        raise InputError(f"{what} needs complete results: leave out --only and --rows.")
    check_document(document)
    if profile not in (*PROFILES, _BOTH):
        raise unknown("profile", profile, (*PROFILES, _BOTH))
    settings = tuple(scenarios(PROFILES[0]))
    for name in only or []:
        if name not in settings:
            raise unknown("setting", name, settings)
    size = SIZES["full" if full else "quick"]
    choice = Choice(
        size if seeds is None else size.of(seeds),
        PROFILES if profile == _BOTH else tuple(each for each in PROFILES if each == profile),
        _methods(rows or [], without or [], slow=size.slow),
        tuple(only or []),
        BASELINE not in (without or []),
        first_seed,
    )
    console = Console(stderr=True)
    if stored and not out.is_dir():
        raise InputError(f"There is no folder {out}: --stored reports the results of earlier runs.")
    about = {"command": "reproduce", "profiles": list(PROFILES if part else choice.profiles)}
    check_cluster(cluster)
    store = Store(out, about, warn=warning(console), part=True, alone=not stored)
    if not stored:
        _try_out(choice.methods)
        run_jobs(tasks_for(choice, targets), store, workers, cluster, console)
    report = report_for(choice, targets, store)
    print_report(report)
    if part:
        return
    if document is not None:
        write_document(report, document)
    # A report of only some targets or profiles does not replace the page of everything.
    whole = target == _ALL and list(choice.profiles) == store.about["profiles"]
    names = (target, *([] if profile == _BOTH else [profile]))
    page = write_report(report, out, PAGE if whole else f"{'-'.join(names)}.html")
    typer.echo(f"Written to {page}.")


def _methods(rows: list[str], without: list[str], slow: bool) -> tuple[str, ...]:
    """The selected rows of the tables; every name must be known."""
    from iopea.learners import LEARNERS
    from iopea.studies.reproduction.scenarios import METHODS

    for name in rows:
        if name not in METHODS and name not in LEARNERS:
            raise unknown("row", name, [*METHODS, *LEARNERS.names])
    for name in without:
        if name not in METHODS:
            raise unknown("row", name, METHODS)
    usual = (name for name, method in METHODS.items() if slow or not method.slow)
    methods = tuple(
        name
        for name in (dict.fromkeys(sorted(rows, key=_place)) if rows else usual)
        if name not in without
    )
    if not methods:
        raise InputError("No row is left: --without excludes all of --rows.")
    return methods


def _place(row: str) -> int:
    """The place of a row in the tables; learners that are in no table come last."""
    from iopea.studies.reproduction.scenarios import METHODS

    return [*METHODS, row].index(row)


def _try_out(methods: Sequence[str]) -> None:
    """Before anything runs, refuse learners whose optional dependency is not installed."""
    from iopea.learners import learner_named
    from iopea.learners.iopea import IOPEA
    from iopea.problem_files import problem_from
    from iopea.studies.reproduction.scenarios import PROFILES, method_named, scenarios

    scenario = next(iter(scenarios(PROFILES[0]).values()))
    problem, _ = problem_from(scenario.tables)
    for name in methods:
        kind: Any = learner_named(method_named(name).learner(scenario) or IOPEA.name)
        if kind.extra is not None:
            kind(problem)
