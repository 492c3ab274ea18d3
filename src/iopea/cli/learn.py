"""The command ``learn``: runs of a learner, and their report."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import iopea
from iopea.cli.options import (
    MOST_WORKERS,
    AsJson,
    Horizon,
    Import,
    Seeds,
    path,
    positive,
    share,
    whole,
)
from iopea.errors import InputError, shown, unknown

#: Largest number of parameters of a policy that are shown individually.
_MOST_SHOWN = 8


def learn(
    file: Annotated[
        Path | None,
        typer.Argument(
            parser=path, help="A problem file; default: the paper's small inventory setting."
        ),
    ] = None,
    learner: Annotated[
        str, typer.Option(help="Name of the learner, as listed by `iopea learners`.")
    ] = "iopea",
    horizon: Horizon = 100_000,
    seeds: Seeds = 20,
    rule: Annotated[
        str | None,
        typer.Option(
            help="Elimination rule of iopea: paired (default), theorem, published, or your own."
        ),
    ] = None,
    play: Annotated[
        str | None,
        typer.Option(
            help="How iopea plays: frugal, the best by estimate (default if demand drives the "
            "system), or maximal."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="The policy in force before the first step, for play frugal: its parameters, "
            "separated by commas."
        ),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            help="The stock on hand before the first step, then what is on order, the oldest "
            "first, separated by commas; default: an empty shop."
        ),
    ] = None,
    restart: Annotated[
        str | None,
        typer.Option(
            help="For iopea: none (default), or return, which empties the system between policies."
        ),
    ] = None,
    delta: Annotated[
        float | None, share("--delta", help="Probability that the guarantee fails; default: 0.05.")
    ] = None,
    radius: Annotated[
        float | None,
        positive(
            "--radius",
            help="Distance of neighbouring policies; default for iopea: range/max(2000, √T).",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the learner as NAME=VALUE; may be repeated."),
    ] = None,
    workers: Annotated[
        int,
        whole(
            "--workers",
            0,
            MOST_WORKERS,
            help="Number of threads, without effect on results; 0: all cores.",
        ),
    ] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(
            parser=path, help="Write a figure of survivors and average cost to this file."
        ),
    ] = None,
    modules: Import = None,
    as_json: AsJson = False,
) -> None:
    """Learn the best policy of a problem. It is compared with the best of its class."""
    from iopea.learners import learner_named
    from iopea.learners.base import made
    from iopea.plugins import import_plugins
    from iopea.problem_files import default_problem, read_problem
    from iopea.simulate import best_in_class

    import_plugins(modules or [])
    problem, truth = default_problem() if file is None else read_problem(file)
    kind = learner_named(learner)
    options = {
        "rule": rule,
        "play": play,
        "start": None if start is None else _numbers("start", start),
        "state": None if state is None else _numbers("state", state),
        "restart": restart,
        "delta": delta,
        "radius": radius,
    }
    given = {name: value for name, value in options.items() if value is not None}
    held = given.get("state")
    if "state" not in inspect.signature(kind).parameters:
        given.pop("state", None)  # the shop begins with it all the same
    chosen = _settings(kind, given, settings or [])
    held = chosen.get("state", held)

    def make(seed: int = 0) -> iopea.Learner:
        return made(kind, problem, horizon=horizon, seed=seed, **chosen)

    first = make()  # invalid settings are reported before anything runs
    if plot is not None:
        from iopea.cli.learning_figure import check_target, draw_learning

        check_target(plot)
    problem.simulator(truth, state=held)  # so is an invalid state
    best = best_in_class(problem.simulator(truth))
    cores = workers or os.cpu_count() or 1
    runs = _run_seeds(make, problem, truth, horizon, seeds, cores, held)
    fresh = [problem.simulator(truth, seed, held) for seed in range(seeds)]
    report = _report(fresh, first, horizon, best, runs)
    if plot is not None:
        title = f"{first.title}: {seeds} runs of {horizon} steps"
        draw_learning(runs, best, problem.policy_class, plot, title)
    if as_json:
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
    else:
        _print(report, first.title, best, runs)
        if plot is not None:
            typer.echo(f"Figure written to {plot}.")


def _numbers(option: str, text: str) -> tuple[float, ...]:
    """Parameters of a policy, or quantities, separated by commas."""
    from iopea.model import number_in

    try:
        return tuple(number_in(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--{option} takes numbers separated by commas, such as 12 or 4,18, not {shown(text)}."
        ) from None


def _settings(kind: type[iopea.Learner], given: dict[str, Any], pairs: list[str]) -> dict[str, Any]:
    """Settings of a learner, from command-line options and from ``--set NAME=VALUE``."""
    known = set(inspect.signature(kind).parameters) - {"problem", "horizon", "seed"}
    for name in given:
        if name not in known:
            raise InputError(f"--{name} is not a setting of {kind.name}.")
    chosen: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals:
            raise InputError(f"--set takes NAME=VALUE, not {shown(pair)}.")
        if name not in known:
            raise unknown(f"setting of {kind.name}", name, known)
        if name in chosen or name in given:
            other = f"--{name}" if name in given else "--set"
            raise InputError(
                f"{name} is given twice, by {other} and by --set: leave out one of them."
            )
        try:
            found = tomllib.loads(f"value = {value}")
        except tomllib.TOMLDecodeError:
            found = {"value": value.strip()}
        except (ValueError, RecursionError):  # too many digits, or too deep
            raise InputError(
                f"--set {name} takes a number, a word or a list, not {shown(value)}."
            ) from None
        if len(found) > 1:  # of several lines
            raise InputError(f"--set {name} takes one value, not {shown(value)}.")
        chosen[name] = found["value"]
    return {**given, **chosen}


def _run_seeds(
    make: Callable[[int], iopea.Learner],
    problem: iopea.Problem,
    truth: iopea.Truth,
    horizon: int,
    seeds: int,
    workers: int,
    state: object = None,
) -> list[iopea.RunResult]:
    """All runs, with their progress on stderr."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    from iopea.cli.jobs import plain_progress
    from iopea.simulate import run, run_all

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[surviving]}"),
        TimeRemainingColumn(),
    )
    with (
        plain_progress(console) as say,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        bar = progress.add_task("steps", total=horizon * seeds, surviving="")
        stopped, steps = False, 0

        def once(seed: int) -> iopea.RunResult:
            before = 0

            def watch(learner: iopea.Learner, done: int) -> None:
                nonlocal before, steps
                if stopped:
                    raise typer.Abort
                surviving = _progress(seed, learner)
                progress.update(bar, advance=done - before, surviving=surviving)
                steps += done - before
                before = done
                say(f"{100 * steps / (horizon * seeds):.0f} % of all steps, {surviving}")

            return run(make(seed), problem.simulator(truth, seed, state), horizon, watch)

        try:
            return run_all(once, range(seeds), workers)
        except KeyboardInterrupt:
            stopped = True
            raise


def _progress(seed: int, learner: iopea.Learner) -> str:
    """The progress of a run in a few words."""
    if not learner.records:
        return f"seed {seed}"
    last = learner.records[-1]
    number = "many" if last.survivors is None else last.survivors
    return f"seed {seed}: {number} survive, {_short(last.lowest)} to {_short(last.highest)}"


def _report(
    fresh: list[iopea.Simulator],
    learner: iopea.Learner,
    horizon: int,
    best: iopea.BestInClass,
    runs: list[iopea.RunResult],
) -> dict[str, Any]:
    """Runs with their problem and settings, as JSON values; ``fresh`` are their simulators."""
    import numpy as np

    from iopea.simulate import compare_runs

    compared = compare_runs(runs, fresh, best)
    return {
        "version": iopea.__version__,
        "learner": learner.name,
        "oracle": learner.oracle,
        "settings": {key: value for key, value in learner.settings().items() if key != "seed"},
        "problem": learner.problem.describe(),
        "truth": fresh[0].truth.table(),
        "horizon": horizon,
        "optimal_policy": _plain(best.policy),
        "optimal_cost": best.cost,
        "optimal_cost_standard_error": best.standard_error,
        "runs": [
            {
                "seed": seed,
                "policy": _plain(result.recommendation),
                "average_cost": result.average_cost,
                "best_average_cost": found.best_average_cost,
                "relative_gap": _or_null(found.relative_gap),
                "regret": found.regret,
                "relative_regret": _or_null(found.relative_regret),
                "epochs": result.epochs,
                "survivors": result.survivors,
                "effective_alpha": _or_null(result.effective_alpha),
                "outlook": result.outlook,
            }
            for seed, (result, found) in enumerate(zip(runs, compared, strict=True))
        ],
        "mean_effective_alpha": _or_null(np.mean([r.effective_alpha for r in runs])),
        "mean_relative_gap": _or_null(np.mean([found.relative_gap for found in compared])),
        "mean_relative_regret": _or_null(np.mean([found.relative_regret for found in compared])),
    }


def _print(
    report: dict[str, Any], title: str, best: iopea.BestInClass, runs: list[iopea.RunResult]
) -> None:
    """Print runs as a table, and their final messages."""
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=f"{title}, {report['horizon']} steps", title_justify="left")
    epochs = any(result.records for result in runs)
    shares = report["mean_effective_alpha"] is not None
    headings = ["seed", "policy", "cost", "gap", "regret/(T g*)"]
    for heading in headings + ["epochs", "survivors"] * epochs + ["α"] * shares:
        table.add_column(heading, justify="right")
    for row, result in zip(report["runs"], runs, strict=True):
        cells = [
            str(row["seed"]),
            _short(result.recommendation),
            f"{row['average_cost']:.4g}",
            _percent(row["relative_gap"], 4),
            _percent(row["relative_regret"], 2),
        ]
        if epochs:
            survivors = "many" if row["survivors"] is None else str(row["survivors"])
            cells += [str(row["epochs"]), survivors]
        if shares:
            cells.append(_three_digits(row["effective_alpha"]))
        table.add_row(*cells)
    table.add_section()
    means = [
        "mean",
        "",
        f"{np.mean([result.average_cost for result in runs]):.4g}",
        _percent(report["mean_relative_gap"], 4),
        _percent(report["mean_relative_regret"], 2),
    ]
    alpha = _three_digits(report["mean_effective_alpha"])
    table.add_row(*means, *["", ""] * epochs, *[alpha] * shares)
    console.print(table)
    exactness = f"standard error {best.standard_error:.2g}" if best.standard_error else "exact"
    console.print(
        f"Best in class: {_short(best.policy)} at {best.cost:.4g} per step ({exactness}).",
        highlight=False,
    )
    console.print("cost: per step over the whole run, learning included.", highlight=False)
    console.print(
        "regret: extra cost of the run over the best in class on the same noise.",
        highlight=False,
        soft_wrap=True,
    )
    if shares:
        console.print(
            "α: share of the steps that were informative about the recommended policy.",
            highlight=False,
        )
    for outlook in dict.fromkeys(result.outlook for result in runs):
        share = sum(result.outlook == outlook for result in runs)
        console.print(f"{share} of {len(runs)} runs: {outlook}", highlight=False, soft_wrap=True)


def _short(policy: iopea.Recommendation) -> str:
    """A policy with few digits; runs of equal parameters are counted if there are many."""
    from iopea.types import show_policy

    if not isinstance(policy, tuple):
        return str(policy)
    if len(policy) <= _MOST_SHOWN:
        return show_policy(policy, digits=4)
    runs = [(value, len(list(group))) for value, group in itertools.groupby(policy)]
    shown = [f"{value:.4g}" + (f" ({count}×)" if count > 1 else "") for value, count in runs]
    if len(shown) > _MOST_SHOWN:
        shown = [*shown[: _MOST_SHOWN - 1], "..."]
    return ", ".join(shown)


def _plain(policy: iopea.Recommendation) -> object:
    """A policy as JSON value: a number if it has one parameter."""
    from iopea.types import Controller, Randomised

    if isinstance(policy, Controller):
        return policy.table()
    if isinstance(policy, Randomised):
        return str(policy)
    return policy[0] if len(policy) == 1 else list(policy)


def _or_null(value: Any) -> float | None:
    """None for NaN, which JSON does not have."""
    number = float(value)
    return None if number != number else number


def _percent(share: float | None, digits: int) -> str:
    return "-" if share is None else f"{round(100 * share, digits) + 0.0:.{digits}f} %"


def _three_digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
