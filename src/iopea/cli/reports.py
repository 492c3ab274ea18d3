"""What the commands print: runs, learners, orders and speeds, for people and as JSON values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import iopea
from iopea.learners import LEARNERS
from iopea.learners.base import Learner
from iopea.orders.checking import OrderReport
from iopea.problems.base import Problem
from iopea.simulate import BestInClass, relative_regret
from iopea.systems import PROBLEMS
from iopea.testing.twins import KernelSpeed
from iopea.types import (
    Array,
    Controller,
    Randomised,
    Recommendation,
    RunResult,
    Truth,
    show_policy,
)

#: Parameters of a policy that are shown one by one.
_MOST_SHOWN = 8


def progress_of(seed: int, learner: Learner) -> str:
    """How far a run has come, in a few words."""
    if not learner.records:
        return f"seed {seed}"
    last = learner.records[-1]
    number = "many" if last.survivors is None else last.survivors
    return f"seed {seed}: {number} survive, {_short(last.lowest)} to {_short(last.highest)}"


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


def run_report(
    problem: Problem,
    truth: Truth,
    learner: Learner,
    horizon: int,
    best: BestInClass,
    runs: list[RunResult],
    gaps: Array,
) -> dict[str, Any]:
    """Runs with all they came from, as JSON values."""
    regrets = [relative_regret(result, best) for result in runs]
    return {
        "version": iopea.__version__,
        "learner": learner.name,
        "oracle": learner.oracle,
        "settings": {key: value for key, value in learner.settings().items() if key != "seed"},
        "problem": problem.describe(),
        "truth": truth.table(),
        "horizon": horizon,
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


def _exactness(best: BestInClass) -> str:
    return f"standard error {best.standard_error:.2g}" if best.standard_error else "exact"


def _three_digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def print_runs(
    report: dict[str, Any], title: str, best: BestInClass, runs: list[RunResult]
) -> None:
    """Runs as a table, and what was said at their ends."""
    console = Console()
    table = Table(title=f"{title}, {report['horizon']} steps", title_justify="left")
    epochs = any(result.records for result in runs)
    shares = report["mean_effective_alpha"] is not None
    headings = ["seed", "policy", "cost", "gap", "regret"]
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
    console.print(
        f"Best in class: {_short(best.policy)} at {best.cost:.4g} per step ({_exactness(best)}).",
        highlight=False,
    )
    if shares:
        console.print("α: share of the steps that told of the recommended policy.", highlight=False)
    for outlook in dict.fromkeys(result.outlook for result in runs):
        share = sum(result.outlook == outlook for result in runs)
        console.print(f"{share} of {len(runs)} runs: {outlook}", highlight=False, soft_wrap=True)


def learner_rows() -> list[dict[str, Any]]:
    """Every learner with what it needs, as JSON values."""
    return [
        {
            "name": name,
            "oracle": learner.oracle,
            "needs": learner.needs,
            "extra": learner.extra,
            "about": (learner.__doc__ or "").splitlines()[0],
            "fits": [
                kind for kind, problem in PROBLEMS.items() if learner.fits(problem.example()[0])
            ],
        }
        for name, learner in LEARNERS.items()
    ]


def print_learners() -> None:
    """Every learner as a table."""
    console = Console()
    table = Table(title="Learners", title_justify="left")
    for heading in ("name", "what it does", "needs", "problems"):
        table.add_column(heading)
    for row in learner_rows():
        about = f"{row['about']}{' An oracle: it is told the truth.' if row['oracle'] else ''}"
        extra = f"; the extra {row['extra']!r}" if row["extra"] else ""
        fits = "any" if len(row["fits"]) == len(PROBLEMS) else ", ".join(row["fits"])
        table.add_row(row["name"], about, row["needs"] + extra, fits)
    console.print(table)


def print_order(report: OrderReport) -> None:
    """What was claimed of an order, and what was measured."""
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


def print_speeds(what: str, lead_time: str, speeds: list[KernelSpeed]) -> None:
    """Speeds of a kernel and its twin as a table."""
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
