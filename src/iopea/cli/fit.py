"""The command ``fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from iopea.cli.options import Import, Workers, path, share
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
from iopea.errors import InputError

#: Most reasons that are printed; all are in the plan.
_MOST = 5


def fit(
    history: History,
    items: Items,
    out: Annotated[
        Path,
        typer.Option(parser=path, metavar="PLAN", help="The plan: a CSV, Parquet or Arrow file."),
    ],
    family: Annotated[
        str, typer.Option(help="Kind of policies: base-stock, capped-base-stock, s-S, your own.")
    ] = "base-stock",
    calendar: Calendar = "auto",
    memory: Memory = "auto",
    no_forecast: NoForecast = False,
    no_borrow: NoBorrow = False,
    sold_from: SoldFrom = "t+1+L",
    delta: Annotated[
        float, share("--delta", help="Error rate of certificates and surviving ranges.")
    ] = 0.05,
    level: Annotated[float, share("--level", help="Confidence of the intervals of costs.")] = 0.95,
    frequency: Every = None,
    columns: Columns = None,
    workers: Workers = 0,
    modules: Import = None,
) -> None:
    """Tonight's orders from a table of sales.

    The best policy of each item, what it costs and how sure that is, and what to order tonight.
    """
    import iopea
    from iopea.cli.sales import named_columns, watching
    from iopea.plugins import import_plugins
    from iopea.storage import check_writable
    from iopea.tables.frames import suffix_of

    import_plugins(modules or [])
    suffix_of("plan", out)
    check_writable(out)
    for given in (history, items):
        if out.resolve() == given.resolve():
            raise InputError(f"--out is {str(out)!r}, which is read: give another file.")
    with watching("fit") as watch:
        plan = iopea.fit(
            history,
            items,
            family=family,
            calendar=calendar,
            memory=memory,
            forecast=not no_forecast,
            borrow=not no_borrow,
            sold_from=sold_from,
            delta=delta,
            level=level,
            frequency=frequency,
            columns=named_columns(columns),
            workers=workers,
            watch=watch,
        )
    plan.write(out)
    for remark in plan.sales.remarks:
        typer.echo(remark)
    typer.echo(f"Fits used {plan.outlook}.")
    for verdict, number in plan.counts.items():
        typer.echo(f"{verdict}: {number} item{'' if number == 1 else 's'}")
    for name, reason in list(plan.refused.items())[:_MOST]:
        typer.echo(f"  {name}: {reason}")
    if len(plan.refused) > _MOST:
        typer.echo(f"  and {len(plan.refused) - _MOST} more, in the column reason")
    ordered = plan.table["order"].drop_nulls()
    number = int((ordered > 0).sum())
    unknown = plan.table.height - len(plan.refused) - ordered.len()
    if ordered.len():
        typer.echo(f"{number} orders above 0, {ordered.sum():,.6g} units in all.")
    if unknown:
        some = "1 item" if unknown == 1 else f"{unknown} items"
        typer.echo(f"No order for {some}: stock on hand or on order is not known.")
    typer.echo(f"Written to {out}.")
