"""The commands that run experiments: ``reproduce`` and ``compare``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from iopea.cli.jobs import Cluster, Out, Workers, run_jobs, warning
from iopea.cli.options import whole_number
from iopea.comparison.compare import Comparison, labels_of
from iopea.comparison.formats import print_table
from iopea.comparison.output import PAGE, check_document, write_document, write_report
from iopea.comparison.store import Store
from iopea.comparison.tables import Report, Table
from iopea.errors import InputError, unknown
from iopea.learners import learner_named
from iopea.learners.iopea import IOPEA
from iopea.model import check_count
from iopea.problem_files import problem_from, read_problem
from iopea.studies.reproduction.costs import BASELINE, SIZES, Choice
from iopea.studies.reproduction.reproduce import TARGETS, report_for, tasks_for
from iopea.studies.reproduction.scenarios import METHODS, PROFILES, scenarios

_ALL = "all"
_TABLES = ("table1", "table-queue")
_BOTH = "both"


def reproduce(
    target: Annotated[str, typer.Argument(help=f"One of {', '.join(TARGETS)}, or {_ALL}.")] = _ALL,
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick",
            help="20 runs of everything, PPO too, to T = 10^6; or 3 runs, without PPO.",
        ),
    ] = False,
    profile: Annotated[str, typer.Option(help=f"{', '.join(PROFILES)}, or {_BOTH}.")] = _BOTH,
    out: Out = Path("out/reproduction"),
    only: Annotated[
        list[str] | None, typer.Option(help="A setting, such as queue-fixed; may be repeated.")
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option(help="A row of the tables; may be repeated.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="A row to leave out, such as ppo; may be repeated.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(parser=whole_number, help="Runs of each learner.")
    ] = None,
    first_seed: Annotated[int, typer.Option(parser=whole_number, help="The first of them.")] = 0,
    workers: Workers = 0,
    cluster: Cluster = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Run nothing: report what is finished.")
    ] = False,
    document: Annotated[
        Path | None, typer.Option(help="Write the report to this Markdown file, too.")
    ] = None,
) -> None:
    """Run the paper's experiments and set them beside the printed numbers.

    Tables, figures and one page of HTML are written to the folder; what is finished there is not
    run again. With --only or --rows, part of the tables is printed, and nothing else.
    """
    if target not in (*TARGETS, _ALL):
        raise InputError(
            f"There is no table or figure {target!r}: known are {', '.join(TARGETS)} and {_ALL}."
        )
    part = bool(only or rows)
    targets = tuple(
        each for each in TARGETS if target in (each, _ALL) and (each in _TABLES or not part)
    )
    if not targets or (part and document is not None):
        what = target if not targets else "--document"
        raise InputError(f"{what} is made whole: leave out --only and --rows.")
    check_document(document)
    choice = _choice(full, profile, only or [], rows or [], without or [], seeds, first_seed)
    check_count("--workers", workers, least=0)
    console = Console(stderr=True)
    if stored and not out.is_dir():
        raise InputError(f"There is no folder {out}: --stored reports what a run has left there.")
    about = {"command": "reproduce", "profiles": list(PROFILES if part else choice.profiles)}
    store = Store(out, about, warn=warning(console), part=True)
    if not stored:
        _try_out(choice)
        run_jobs(tasks_for(choice, targets), store, workers, cluster, console)
    report = report_for(choice, targets, store)
    _show(report)
    if part:
        return
    if document is not None:
        write_document(report, document)
    # The page of everything is not replaced by one of a part.
    whole = target == _ALL and list(choice.profiles) == store.about["profiles"]
    names = (target, *([] if profile == _BOTH else [profile]))
    page = write_report(report, out, PAGE if whole else f"{'-'.join(names)}.html")
    typer.echo(f"Written to {page}.")


def _choice(
    full: bool,
    profile: str,
    only: list[str],
    rows: list[str],
    without: list[str],
    seeds: int | None,
    first_seed: int,
) -> Choice:
    """What is asked for; every name must be known."""
    if profile not in (*PROFILES, _BOTH):
        raise unknown("profile", profile, (*PROFILES, _BOTH))
    settings = tuple(scenarios(PROFILES[0]))
    for name in only:
        if name not in settings:
            raise unknown("setting", name, settings)
    for name in (*rows, *without):
        if name not in METHODS:
            raise unknown("row", name, METHODS)
    size = SIZES["full" if full else "quick"]
    if seeds is not None:
        size = size.of(check_count("--seeds", seeds))
    methods = tuple(
        name
        for name, method in METHODS.items()
        if (name in rows if rows else size.slow or not method.slow) and name not in without
    )
    if not methods:
        raise InputError("No row is left: --without leaves out all of --rows.")
    return Choice(
        size,
        PROFILES if profile == _BOTH else tuple(each for each in PROFILES if each == profile),
        methods,
        tuple(only),
        BASELINE not in without,
        check_count("--first-seed", first_seed, least=0),
    )


def _try_out(choice: Choice) -> None:
    """Refuse learners whose extra is not installed before anything runs."""
    scenario = next(iter(scenarios(PROFILES[0]).values()))
    problem, _ = problem_from(scenario.tables)
    for name in choice.methods:
        kind: Any = learner_named(METHODS[name].learner(scenario) or IOPEA.name)
        if kind.extra is not None:
            kind(problem)


def compare(
    files: Annotated[list[Path], typer.Argument(help="Problem files.")],
    learners: Annotated[
        str, typer.Option(help="Names with commas between; the first is what others are tested by.")
    ] = "iopea,optimal",
    horizon: Annotated[int, typer.Option(parser=whole_number, help="Steps of each run.")] = 100_000,
    seeds: Annotated[
        int, typer.Option(parser=whole_number, help="Number of independent runs.")
    ] = 10,
    first_seed: Annotated[int, typer.Option(parser=whole_number, help="The first of them.")] = 0,
    out: Out = Path("out/comparison"),
    workers: Workers = 0,
    cluster: Cluster = None,
) -> None:
    """Compare learners on your own problems: tables, tests, figures and a report."""
    names = tuple(dict.fromkeys(filter(None, map(str.strip, learners.split(",")))))
    if not names:
        raise InputError("--learners is empty: give names with commas between.")
    for name in names:
        learner_named(name)
    check_count("--workers", workers, least=0)
    check_count("--first-seed", first_seed, least=0)
    check_count("--seeds", seeds)
    systems = dict(zip(labels_of([file.stem for file in files]), map(read_problem, files),
                       strict=True))  # fmt: skip
    comparison = Comparison(
        systems,
        names,
        check_count("--horizon", horizon),
        range(first_seed, first_seed + seeds),
        SIZES["full"].evaluation,
        _command(files, names, horizon, seeds, first_seed),
    )
    console = Console(stderr=True)
    about = {"command": "compare"}
    store = Store(out, about, warn=warning(console))
    run_jobs(comparison.tasks(), store, workers, cluster, console)
    report = comparison.report(store)
    _show(report)
    typer.echo(f"Written to {write_report(report, out)}.")


def _command(
    files: list[Path], names: tuple[str, ...], horizon: int, seeds: int, first_seed: int
) -> str:
    words = ["iopea compare", *map(shlex.quote, map(str, files)), f"--learners {','.join(names)}"]
    words += [f"--horizon {horizon}", f"--seeds {seeds}"]
    return " ".join(words + [f"--first-seed {first_seed}"] * bool(first_seed))


def _show(report: Report) -> None:
    console = Console()
    for part in report.parts:
        if isinstance(part, Table) and part.lines:
            print_table(console, part)
            console.print()
    for paragraph in report.lead[1:]:
        console.print(paragraph, highlight=False, soft_wrap=True)
