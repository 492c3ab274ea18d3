"""The command ``bench``."""

from __future__ import annotations

import json
from typing import Any

import typer

import iopea
from iopea.cli.options import AsJson


def bench(as_json: AsJson = False) -> None:
    """Measure the speed of the kernels. Their plain-Python versions run beside them."""
    from iopea.testing.twins import dual_replay_speed, replay_speed, rule_replay_speed
    from iopea.types import Precision

    precisions: tuple[Precision, ...] = ("float64", "float32")
    single = [replay_speed(lead, precision) for precision in precisions for lead in (0, 2, 6)]
    dual = [
        dual_replay_speed(leads, precision)
        for precision in precisions
        for leads in ((1, 0), (2, 0), (5, 0), (3, 1))
    ]
    any_rule = [rule_replay_speed(lead) for lead in (0, 2, 6)]
    rows = {
        name: [{**vars(speed), "ratio": speed.ratio} for speed in speeds]
        for name, speeds in (
            ("replay", single),
            ("dual_replay", dual),
            ("rule_replay", any_rule),
        )
    }
    if as_json:
        typer.echo(json.dumps({"version": iopea.__version__, **rows}, indent=2))
        return
    _print("base-stock levels", "lead time", rows["replay"])
    _print("dual-index policies", "lead times", rows["dual_replay"])
    _print("capped base-stock policies, as any rule", "lead time", rows["rule_replay"])


def _print(what: str, lead_time: str, speeds: list[dict[str, Any]]) -> None:
    """Print the speeds of a kernel and its plain-Python version as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Replay of {what}, policy-steps per second on one core")
    for heading in (lead_time, "precision", "kernel", "plain Python", "ratio", "largest error"):
        table.add_column(heading, justify="right")
    for speed in speeds:
        table.add_row(
            str(speed["lead_time"]),
            speed["precision"],
            f"{speed['kernel']:.3g}",
            f"{speed['twin']:.3g}",
            f"{speed['ratio']:,.0f}",
            f"{speed['largest_error']:.1g}",
        )
    Console().print(table)
