"""The command ``check-order``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import iopea
from iopea.cli.options import AsJson, Import, path, share, whole

#: ``SOME_PAIRS`` of :mod:`iopea.orders.checking`.
_SOME_PAIRS = 1000


def check_order(
    file: Annotated[
        Path,
        typer.Argument(
            parser=path, help="A problem file; its table [order] may hold the claim to test."
        ),
    ],
    pairs: Annotated[
        int, whole("--pairs", 1, help="Largest number of pairs to test.")
    ] = _SOME_PAIRS,
    steps: Annotated[
        int | None,
        whole("--steps", 1, help="Steps of each path; 2000, or 10000 for distributional claims."),
    ] = None,
    replications: Annotated[
        int | None,
        whole(
            "--replications", 1, help="Paths of each policy; 4, or 24 for distributional claims."
        ),
    ] = None,
    error_rate: Annotated[
        float, share("--error-rate", help="Probability of rejecting a true distributional claim.")
    ] = 0.01,
    seed: Annotated[int, whole("--seed", help="Seed of all random draws.")] = 0,
    modules: Import = None,
    as_json: AsJson = False,
) -> None:
    """Test a claimed information order. The exit status is 1 if the claim is false."""
    from iopea.orders.checking import some_policies
    from iopea.plugins import import_plugins
    from iopea.problem_files import read_order, read_problem

    import_plugins(modules or [])
    problem, truth = read_problem(file)
    claimed = read_order(file)
    policies = some_policies(problem, seed) if claimed.policies is None else claimed.policies
    report = iopea.check_order(
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
        _print(report)
    if not report.holds:
        raise typer.Exit(1)


def _print(report: iopea.OrderReport) -> None:
    """Print the claimed and the measured properties of an order."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=f"Information order, {report.claim}", title_justify="left")
    table.add_column("", justify="left")
    table.add_column("claimed", justify="right")
    table.add_column("measured", justify="right")
    passed = report.pairs_tested - report.pairs_failed
    table.add_row(
        "pairs i, j: i informs j", str(report.pairs), f"{passed} of {report.pairs_tested}"
    )
    table.add_row(f"width, of {len(report.policies)} policies", str(report.width), "")
    claimed, least = f"{report.alpha_claimed:.4g}", f"{report.alpha_least:.4g}"
    table.add_row("α, least of the pairs", claimed, least)
    table.add_row("α, mean of the pairs", "", f"{report.alpha_measured:.4g}")
    if report.error_rate is not None:
        table.add_row("error rate, p-value", f"{report.error_rate:g}", f"{report.p_value:.2g}")
    console.print(table)
    console.print(str(report), highlight=False, soft_wrap=True)
