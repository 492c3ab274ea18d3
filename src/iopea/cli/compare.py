"""The command ``compare``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from iopea.cli.options import Cluster, FirstSeed, Horizon, Import, Out, Seeds, Workers, path
from iopea.errors import InputError, shown_path


def compare(
    files: Annotated[list[Path], typer.Argument(parser=path, help="Problem files.")],
    learners: Annotated[
        str, typer.Option(help="Names separated by commas; all are tested against the first.")
    ] = "iopea,optimal",
    horizon: Horizon = 100_000,
    seeds: Seeds = 10,
    first_seed: FirstSeed = 0,
    out: Out = Path("out/comparison"),
    workers: Workers = 0,
    cluster: Cluster = None,
    modules: Import = None,
) -> None:
    """Compare learners on your own problems. Tables, tests and figures are in a report."""
    from rich.console import Console

    from iopea.cli.jobs import print_report, run_jobs, warning
    from iopea.comparison.compare import Comparison, labels_of
    from iopea.comparison.output import write_report
    from iopea.comparison.runner import check_cluster
    from iopea.comparison.store import Store
    from iopea.learners import learner_named
    from iopea.plugins import import_plugins
    from iopea.problem_files import read_problem
    from iopea.simulate import EVALUATION_STEPS

    import_plugins(modules or [])
    names = tuple(dict.fromkeys(filter(None, map(str.strip, learners.split(",")))))
    if not names:
        raise InputError("--learners is empty: give names separated by commas.")
    for name in names:
        learner_named(name)
    stems = [file.stem for file in files]
    labels = labels_of(stems)
    systems = dict(zip(labels, map(read_problem, files), strict=True))
    comparison = Comparison(
        systems,
        names,
        horizon,
        range(first_seed, first_seed + seeds),
        EVALUATION_STEPS,
        _command(files, names, horizon, seeds, first_seed, modules or []),
        {} if labels == stems else dict(zip(labels, map(shown_path, files), strict=True)),
    )
    console = Console(stderr=True)
    check_cluster(cluster)
    store = Store(out, {"command": "compare"}, warn=warning(console))
    run_jobs(comparison.tasks(), store, workers, cluster, console)
    report = comparison.report(store)
    print_report(report)
    typer.echo(f"Written to {write_report(report, out)}.")


def _command(
    files: list[Path],
    names: tuple[str, ...],
    horizon: int,
    seeds: int,
    first_seed: int,
    modules: list[str],
) -> str:
    """The command that reproduces the report."""
    words = ["iopea compare", *map(shlex.quote, map(str, files)), f"--learners {','.join(names)}"]
    words += [f"--horizon {horizon}", f"--seeds {seeds}"]
    words += [f"--first-seed {first_seed}"] * bool(first_seed)
    return " ".join(words + [f"--import {shlex.quote(module)}" for module in modules])
