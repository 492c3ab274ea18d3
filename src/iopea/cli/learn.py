"""The command line."""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

import iopea
from iopea.cli.learning_figure import check_target, draw_learning
from iopea.cli.options import number, whole_number
from iopea.cli.reports import (
    learner_rows,
    print_learners,
    print_order,
    print_runs,
    print_speeds,
    progress_of,
    run_report,
)
from iopea.cli.reproduce import compare, reproduce
from iopea.cli.validate import validate
from iopea.errors import InputError, unknown
from iopea.learners import learner_named
from iopea.learners.base import Learner
from iopea.learners.iopea import IOPEA, Restart
from iopea.model import check_count
from iopea.orders.checking import SOME_PAIRS, check_order, some_policies
from iopea.problem_files import default_problem, read_order, read_problem
from iopea.problems.base import Problem
from iopea.simulate import best_in_class, run, run_all
from iopea.systems import PROBLEMS
from iopea.testing.twins import dual_replay_speed, replay_speed
from iopea.types import RunResult, Truth

app = typer.Typer(
    help="Learn an operating policy online when only part of what happened is seen.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

#: Exit status of what was interrupted, as shells have it, and what is said of it.
_INTERRUPTED = 130
_INTERRUPTION = "Interrupted: no report was written."
#: Steps of the runs that compile everything, and points of the nets per parameter.
_WARMUP_STEPS = 2000
_WARMUP_POINTS = 32


@app.command()
def learn(
    file: Annotated[
        Path | None,
        typer.Argument(help="A problem file; without one, the paper's small inventory setting."),
    ] = None,
    learner: Annotated[
        str, typer.Option(help="By its name, as `iopea learners` has it.")
    ] = IOPEA.name,
    horizon: Annotated[int, typer.Option(parser=whole_number, help="Steps of each run.")] = 100_000,
    seeds: Annotated[
        int, typer.Option(parser=whole_number, help="Number of independent runs.")
    ] = 20,
    rule: Annotated[
        str | None, typer.Option(help="Of iopea: paired (default), theorem or published.")
    ] = None,
    restart: Annotated[
        str | None,
        typer.Option(
            help="Of iopea: none (default), or return: the system is emptied between policies."
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(parser=number, help="Chance that the guarantee fails; 0.05 if absent."),
    ] = None,
    radius: Annotated[
        float | None,
        typer.Option(
            parser=number,
            help="Distance of neighbouring policies; of iopea the range/max(2000, √T) if absent.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the learner as NAME=VALUE; may be repeated."),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(parser=whole_number, help="Threads; no effect on results; all cores if 0."),
    ] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw survivors and running cost to this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Learn the best policy of a problem, and compare with the best in class."""
    problem, truth = default_problem() if file is None else read_problem(file)
    check_count("--seeds", seeds)
    check_count("--workers", workers, least=0)
    kind = learner_named(learner)
    options = {"rule": rule, "restart": restart, "delta": delta, "radius": radius}
    given = {name: value for name, value in options.items() if value is not None}
    chosen = _settings(kind, given, settings or [])

    def make(seed: int = 0) -> Learner:
        return kind(problem, horizon=horizon, seed=seed, **chosen)

    first = make()  # what is wrong with the settings is said before anything runs
    if plot is not None:
        check_target(plot)
    best = best_in_class(problem.simulator(truth))
    runs = _run_seeds(make, problem, truth, horizon, seeds, workers or os.cpu_count() or 1)
    gaps = best.relative_gaps(problem.simulator(truth), [result.recommendation for result in runs])
    report = run_report(problem, truth, first, horizon, best, runs, gaps)
    if plot is not None:
        title = f"{first.title}: {seeds} runs of {horizon} steps"
        draw_learning(runs, best, problem.policy_class, plot, title)
    if as_json:
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
    else:
        print_runs(report, first.title, best, runs)
        if plot is not None:
            Console().print(f"Drawn to {plot}.", highlight=False)


def _settings(kind: type[Learner], given: dict[str, Any], pairs: list[str]) -> dict[str, Any]:
    """Settings of a learner from options of their own and from NAME=VALUE."""
    known = set(inspect.signature(kind).parameters) - {"problem", "horizon", "seed"}
    for name in given:
        if name not in known:
            raise InputError(f"--{name} is no setting of {kind.name}.")
    chosen = dict(given)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals:
            raise InputError(f"--set takes NAME=VALUE, not {pair!r}.")
        if name not in known:
            raise unknown(f"setting of {kind.name}", name, known)
        try:
            chosen[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            chosen[name] = value.strip()
    return chosen


def _run_seeds(
    make: Callable[[int], Learner],
    problem: Problem,
    truth: Truth,
    horizon: int,
    seeds: int,
    workers: int,
) -> list[RunResult]:
    """All runs, with a live bar on the terminal's error stream."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[surviving]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("steps", total=horizon * seeds, surviving="")
        stopped = False

        def once(seed: int) -> RunResult:
            before = 0

            def watch(learner: Learner, done: int) -> None:
                nonlocal before
                if stopped:
                    raise typer.Abort
                progress.update(bar, advance=done - before, surviving=progress_of(seed, learner))
                before = done

            return run(make(seed), problem.simulator(truth, seed), horizon, watch)

        try:
            return run_all(once, range(seeds), workers)
        except KeyboardInterrupt:
            stopped = True
            raise


@app.command()
def learners(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the learners, what each needs and which problems it fits."""
    if as_json:
        rows = {"version": iopea.__version__, "learners": learner_rows()}
        typer.echo(json.dumps(rows, indent=2))
    else:
        print_learners()


@app.command("check-order")
def check_order_command(
    file: Annotated[
        Path, typer.Argument(help="A problem file; its table [order] may hold the claim to test.")
    ],
    pairs: Annotated[
        int, typer.Option(parser=whole_number, help="The most pairs of policies to test.")
    ] = SOME_PAIRS,
    steps: Annotated[
        int | None,
        typer.Option(parser=whole_number, help="Steps of each path; 2000, or 10000 in law."),
    ] = None,
    replications: Annotated[
        int | None,
        typer.Option(parser=whole_number, help="Paths of each policy; 4, or 24 in law."),
    ] = None,
    error_rate: Annotated[
        float, typer.Option(parser=number, help="Chance to reject a true distributional claim.")
    ] = 0.01,
    seed: Annotated[int, typer.Option(parser=whole_number, help="Of all that is drawn.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Test which policies' data tells of which others; status 1 where the claim is false."""
    problem, truth = read_problem(file)
    claimed = read_order(file)
    policies = some_policies(problem, seed) if claimed.policies is None else claimed.policies
    report = check_order(
        problem,
        truth,
        policies=policies,
        order=claimed.order_on(policies),
        claim=claimed.claim,
        pairs=pairs,
        steps=steps,
        replications=replications,
        error_rate=error_rate,
        seed=seed,
    )
    if as_json:
        about = {"version": iopea.__version__, "problem": problem.describe()}
        result = {**about, "truth": truth.table(), **report.as_dict()}
        typer.echo(json.dumps(result, indent=2, allow_nan=False))
    else:
        print_order(report)
    if not report.holds:
        raise typer.Exit(1)


@app.command()
def warmup() -> None:
    """Compile everything ahead; compiled code is kept for later runs."""
    start = time.perf_counter()
    for kind in PROBLEMS.values():
        problem, truth = kind.example()
        radius = problem.policy_class.extent / _WARMUP_POINTS or None
        for restart in get_args(Restart):
            learner = IOPEA(problem, restart=restart, radius=radius)
            run(learner, problem.simulator(truth), _WARMUP_STEPS)
        best_in_class(problem.simulator(truth), steps=_WARMUP_STEPS)
    replay_speed(2, "float32", policies=64, periods=200)
    dual_replay_speed((2, 0), "float32", policies=64, periods=200)
    typer.echo(f"Compiled in {time.perf_counter() - start:.1f} s.")


@app.command()
def bench(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure the replay kernels beside their plain-Python twins, on one core, in this run."""
    precisions = ("float64", "float32")
    single = [replay_speed(lead, precision) for precision in precisions for lead in (0, 2, 6)]
    dual = [
        dual_replay_speed(leads, precision)
        for precision in precisions
        for leads in ((1, 0), (2, 0), (5, 0), (3, 1))
    ]
    if as_json:
        rows = {
            name: [{**vars(speed), "ratio": speed.ratio} for speed in speeds]
            for name, speeds in (("replay", single), ("dual_replay", dual))
        }
        typer.echo(json.dumps({"version": iopea.__version__, **rows}, indent=2))
        return
    print_speeds("base-stock levels", "lead time", single)
    print_speeds("dual-index policies", "lead times", dual)


app.command()(reproduce)
app.command()(compare)
app.command()(validate)


@app.callback(invoke_without_command=True)
def _without_command(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(iopea.__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line; a refusal is one sentence on the error stream and status 2."""
    try:
        status = app(standalone_mode=False)
    except InputError as error:
        _end(f"Error: {error}", 2)
    except (KeyboardInterrupt, typer.Abort):
        _end(_INTERRUPTION, _INTERRUPTED)
    except Exception as error:
        # Errors of usage have different classes in different versions of Typer.
        if not hasattr(error, "format_message"):
            raise
        _end(f"Error: {error.format_message()}", 2)
    else:
        if status == _INTERRUPTED:  # newer versions of Typer turn an interrupt into a status
            _end(_INTERRUPTION, _INTERRUPTED)
        sys.exit(status or 0)


def _end(message: str, status: int) -> None:
    typer.echo(message, err=True)
    sys.exit(status)
