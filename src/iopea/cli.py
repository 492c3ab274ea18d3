"""The command line."""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

import iopea
from iopea.checking import SOME_PAIRS, OrderReport, check_order, some_policies
from iopea.errors import InputError
from iopea.files import default_problem, read_order, read_problem
from iopea.learners.base import Learner
from iopea.learners.iopea import IOPEA, Restart
from iopea.model import check_count
from iopea.plotting import check_target, draw_learning
from iopea.problems import PROBLEMS
from iopea.problems.base import Problem
from iopea.run import BestInClass, best_in_class, relative_regret, run, run_all
from iopea.testing import KernelSpeed, dual_replay_speed, replay_speed
from iopea.types import (
    Array,
    Controller,
    Randomised,
    Recommendation,
    RunResult,
    Truth,
    show_policy,
)

app = typer.Typer(
    help="Learn an operating policy online when only part of what happened is seen.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

#: Exit status of what was interrupted, as shells have it.
_INTERRUPTED = 130
#: Parameters of a policy that are shown one by one.
_MOST_SHOWN = 8
#: Steps of the runs that compile everything, and points of the nets per parameter.
_WARMUP_STEPS = 2000
_WARMUP_POINTS = 32


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number.") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number.") from None


@app.command()
def learn(
    file: Annotated[
        Path | None,
        typer.Argument(help="A problem file; without one, the paper's small inventory setting."),
    ] = None,
    horizon: Annotated[
        int, typer.Option(parser=_whole_number, help="Steps of each run.")
    ] = 100_000,
    seeds: Annotated[
        int, typer.Option(parser=_whole_number, help="Number of independent runs.")
    ] = 20,
    rule: Annotated[str, typer.Option(help="paired, theorem or published.")] = "paired",
    restart: Annotated[
        str, typer.Option(help="none: the system runs on. return: it is emptied between policies.")
    ] = "none",
    delta: Annotated[
        float, typer.Option(parser=_number, help="Chance that the guarantee fails.")
    ] = 0.05,
    radius: Annotated[
        float | None,
        typer.Option(parser=_number, help="Distance of neighbouring policies; T^(-1/2) if absent."),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(parser=_whole_number, help="Threads; no effect on results; all cores if 0."),
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

    def make(seed: int = 0) -> IOPEA:
        return IOPEA(
            problem,
            rule=rule,
            horizon=horizon,
            delta=delta,
            restart=restart,  # type: ignore[arg-type]
            radius=radius,
            seed=seed,
        )

    learner = make()  # what is wrong with the settings is said before anything runs
    if plot is not None:
        check_target(plot)
    best = best_in_class(problem.simulator(truth))
    runs = _run_seeds(make, problem, truth, horizon, seeds, workers or os.cpu_count() or 1)
    gaps = best.relative_gaps(problem.simulator(truth), [result.recommendation for result in runs])
    report = _report(problem, truth, learner, horizon, best, runs, gaps)
    if plot is not None:
        title = f"IOPEA, rule {rule}: {seeds} runs of {horizon} steps"
        draw_learning(runs, best, problem.policy_class, plot, title)
    if as_json:
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
    else:
        _print_report(report, best, runs)
        if plot is not None:
            Console().print(f"Drawn to {plot}.", highlight=False)


def _run_seeds(
    make: Callable[[int], IOPEA],
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
                progress.update(bar, advance=done - before, surviving=_surviving(seed, learner))
                before = done

            return run(make(seed), problem.simulator(truth, seed), horizon, watch)

        try:
            return run_all(once, range(seeds), workers)
        except KeyboardInterrupt:
            stopped = True
            raise


def _surviving(seed: int, learner: Learner) -> str:
    if not learner.records:
        return f"seed {seed}: all policies survive"
    last = learner.records[-1]
    return f"seed {seed}: {last.survivors} survive, {_short(last.lowest)} to {_short(last.highest)}"


def _short(policy: Recommendation) -> str:
    """A policy in a few digits; equal parameters in a row are counted where there are many."""
    if not isinstance(policy, tuple):
        return str(policy)
    if len(policy) <= _MOST_SHOWN:
        return show_policy(policy, digits=4)
    runs = [(value, len(list(group))) for value, group in itertools.groupby(policy)]
    shown = [f"{value:.4g}" + (f" ({count}×)" if count > 1 else "") for value, count in runs]
    if len(shown) > _MOST_SHOWN:
        shown = [*shown[: _MOST_SHOWN - 1], "..."]
    return ", ".join(shown)


def _plain(policy: Recommendation) -> object:
    """A policy as people write it: a number if it has one parameter."""
    if isinstance(policy, Controller):
        return policy.table()
    if isinstance(policy, Randomised):
        return str(policy)
    return policy[0] if len(policy) == 1 else list(policy)


def _report(
    problem: Problem,
    truth: Truth,
    learner: IOPEA,
    horizon: int,
    best: BestInClass,
    runs: list[RunResult],
    gaps: Array,
) -> dict[str, Any]:
    regrets = [relative_regret(result, best) for result in runs]
    return {
        "version": iopea.__version__,
        "learner": learner.name,
        "problem": problem.describe(),
        "truth": truth.table(),
        "horizon": horizon,
        "rule": learner.rule.name,
        "restart": learner.restart,
        "delta": learner.rule.setting.delta,
        "policies": learner.count,
        "optimal_policy": _plain(best.policy),
        "optimal_cost": best.cost,
        "optimal_cost_standard_error": best.standard_error,
        "runs": [
            {
                "seed": seed,
                "policy": _plain(result.recommendation),
                "average_cost": result.average_cost,
                "relative_gap": _or_null(gap),
                "regret": result.elapsed * (result.average_cost - best.cost),
                "relative_regret": _or_null(relative),
                "epochs": result.epochs,
                "survivors": result.survivors,
                "effective_alpha": _or_null(result.effective_alpha),
                "outlook": result.outlook,
            }
            for seed, (result, gap, relative) in enumerate(zip(runs, gaps, regrets, strict=True))
        ],
        "mean_effective_alpha": _or_null(float(np.mean([r.effective_alpha for r in runs]))),
        "mean_relative_gap": _or_null(float(np.mean(gaps))),
        "mean_relative_regret": _or_null(float(np.mean(regrets))),
    }


def _or_null(value: float) -> float | None:
    """JSON has no NaN: a share of a best cost of 0 is null."""
    return None if np.isnan(value) else float(value)


def _percent(share: float | None, digits: int) -> str:
    return "-" if share is None else f"{round(100 * share, digits) + 0.0:.{digits}f} %"


def _many(count: int) -> str:
    """A number of policies; of those nobody could list, its size."""
    return str(count) if count < 10**9 else f"about 10^{math.log10(count):.0f}"


def _exactness(best: BestInClass) -> str:
    return f"standard error {best.standard_error:.2g}" if best.standard_error else "exact"


def _three_digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _print_report(report: dict[str, Any], best: BestInClass, runs: list[RunResult]) -> None:
    console = Console()
    table = Table(
        title=f"IOPEA, rule {report['rule']}, {report['horizon']} steps, "
        f"{_many(report['policies'])} policies",
        title_justify="left",
    )
    for heading in ("seed", "policy", "cost", "gap", "regret", "epochs", "survivors", "α"):
        table.add_column(heading, justify="right")
    for row, result in zip(report["runs"], runs, strict=True):
        table.add_row(
            str(row["seed"]),
            _short(result.recommendation),
            f"{row['average_cost']:.4g}",
            _percent(row["relative_gap"], 4),
            _percent(row["relative_regret"], 2),
            str(row["epochs"]),
            "many" if row["survivors"] is None else str(row["survivors"]),
            _three_digits(row["effective_alpha"]),
        )
    table.add_section()
    table.add_row(
        "mean",
        "",
        f"{np.mean([result.average_cost for result in runs]):.4g}",
        _percent(report["mean_relative_gap"], 4),
        _percent(report["mean_relative_regret"], 2),
        "",
        "",
        _three_digits(report["mean_effective_alpha"]),
    )
    console.print(table)
    console.print(
        f"Best in class: {_short(best.policy)} at {best.cost:.4g} per step ({_exactness(best)}).",
        highlight=False,
    )
    console.print("α: share of the steps that told of the recommended policy.", highlight=False)
    for outlook in dict.fromkeys(result.outlook for result in runs):
        share = sum(result.outlook == outlook for result in runs)
        console.print(f"{share} of {len(runs)} runs: {outlook}", highlight=False, soft_wrap=True)


@app.command("check-order")
def check_order_command(
    file: Annotated[
        Path, typer.Argument(help="A problem file; its table [order] may hold the claim to test.")
    ],
    pairs: Annotated[
        int, typer.Option(parser=_whole_number, help="The most pairs of policies to test.")
    ] = SOME_PAIRS,
    steps: Annotated[
        int | None,
        typer.Option(parser=_whole_number, help="Steps of each path; 2000, or 10000 in law."),
    ] = None,
    replications: Annotated[
        int | None,
        typer.Option(parser=_whole_number, help="Paths of each policy; 4, or 24 in law."),
    ] = None,
    error_rate: Annotated[
        float, typer.Option(parser=_number, help="Chance to reject a true distributional claim.")
    ] = 0.01,
    seed: Annotated[int, typer.Option(parser=_whole_number, help="Of all that is drawn.")] = 0,
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
        _print_order(report)
    if not report.holds:
        raise typer.Exit(1)


def _print_order(report: OrderReport) -> None:
    console = Console()
    table = Table(title=f"Information order, {report.claim}", title_justify="left")
    for heading, side in (("", "left"), ("claimed", "right"), ("measured", "right")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    passed = report.pairs_tested - report.pairs_failed
    table.add_row(
        "pairs i, j: i informs j", str(report.pairs), f"{passed} of {report.pairs_tested}"
    )
    table.add_row("width", str(report.width), "")
    claimed, least = f"{report.alpha_claimed:.4g}", f"{report.alpha_least:.4g}"
    table.add_row("α, least of the pairs", claimed, least)
    table.add_row("α, mean of the pairs", "", f"{report.alpha_measured:.4g}")
    if report.error_rate is not None:
        table.add_row("error rate, p-value", f"{report.error_rate:g}", f"{report.p_value:.2g}")
    console.print(table)
    console.print(str(report), highlight=False, soft_wrap=True)


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
    _print_speeds("base-stock levels", "lead time", single)
    _print_speeds("dual-index policies", "lead times", dual)


def _print_speeds(what: str, lead_time: str, speeds: list[KernelSpeed]) -> None:
    table = Table(title=f"Replay of {what}, policy-steps per second on one core")
    for heading in (lead_time, "precision", "kernel", "plain Python", "ratio", "largest error"):
        table.add_column(heading, justify="right")
    for speed in speeds:
        table.add_row(
            str(speed.lead_time),
            speed.precision,
            f"{speed.kernel:.3g}",
            f"{speed.twin:.3g}",
            f"{speed.ratio:,.0f}",
            f"{speed.largest_error:.1g}",
        )
    Console().print(table)


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
        _end("Interrupted: no result was written.", _INTERRUPTED)
    except Exception as error:
        # Errors of usage have different classes in different versions of Typer.
        if not hasattr(error, "format_message"):
            raise
        _end(f"Error: {error.format_message()}", 2)
    else:
        if status == _INTERRUPTED:  # newer versions of Typer turn an interrupt into a status
            _end("Interrupted: no result was written.", _INTERRUPTED)
        sys.exit(status or 0)


def _end(message: str, status: int) -> None:
    typer.echo(message, err=True)
    sys.exit(status)
