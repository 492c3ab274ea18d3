"""The command ``backtest``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from iopea.cli.options import Import, Workers, path
from iopea.cli.sales import (
    Calendar,
    Columns,
    Every,
    History,
    Items,
    Memory,
    NoBorrow,
    NoForecast,
    SoldFrom,
)


def backtest(
    history: History,
    items: Items,
    start: Annotated[
        str, typer.Option("--from", metavar="DATE", help="The first day that is scored.")
    ],
    contestants: Annotated[
        str,
        typer.Option(
            help="Names separated by commas: iopea, iopea:s-S and other families, order-up-to, "
            "moving-average, history. All are compared to the first."
        ),
    ] = "iopea,order-up-to,moving-average,history",
    out: Annotated[Path, typer.Option(parser=path, help="Folder of the report.")] = Path(
        "out/backtest"
    ),
    calendar: Calendar = "auto",
    memory: Memory = "auto",
    no_forecast: NoForecast = False,
    no_borrow: NoBorrow = False,
    sold_from: SoldFrom = "t+1+L",
    frequency: Every = None,
    columns: Columns = None,
    workers: Workers = 0,
    modules: Import = None,
) -> None:
    """What policies would have cost on a history of sales.

    Each decides from what was known at the time. Where demand was censored, costs are shown on
    several readings, and a winner is named only if it wins on all of them.
    """
    import iopea
    from iopea.cli.jobs import print_report
    from iopea.cli.sales import named_columns, watching
    from iopea.comparison.backtest_report import backtest_report
    from iopea.comparison.output import PAGE, write_report
    from iopea.plugins import import_plugins
    from iopea.storage import check_writable
    from iopea.tables.fit import write_table

    import_plugins(modules or [])
    check_writable(out / PAGE)
    names = [name for name in map(str.strip, contestants.split(",")) if name]
    with watching("backtest") as watch:
        found = iopea.backtest(
            history,
            items,
            start,
            contestants=names,
            calendar=calendar,
            memory=memory,
            forecast=not no_forecast,
            borrow=not no_borrow,
            sold_from=sold_from,
            frequency=frequency,
            columns=named_columns(columns),
            workers=workers,
            watch=watch,
        )
    report = backtest_report(found, shlex.join(["iopea", *sys.argv[1:]]))
    print_report(report)
    for name in names:
        if name not in found.contestants:
            typer.echo(f"{name} takes no part: the stock of no item is known in all periods.")
    write_table(found.items, out / "items.csv")
    write_table(found.periods, out / "periods.csv")
    typer.echo(f"Written to {write_report(report, out)}.")
