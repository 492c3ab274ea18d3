"""What the commands on tables of sales share: their options, and progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from iopea.cli.options import path
from iopea.errors import InputError, shown

History = Annotated[
    Path,
    typer.Argument(parser=path, help="Sales by item and period: a CSV, Parquet or Arrow file."),
]
Items = Annotated[
    Path,
    typer.Option(
        parser=path, help="The items, their lead times and costs: a CSV, Parquet or Arrow file."
    ),
]
Calendar = Annotated[
    str,
    typer.Option(help="auto, none, or some of weekday, season, holiday, separated by commas."),
]
Memory = Annotated[
    str, typer.Option(help="Periods after which a record weighs half as much; auto or none.")
]
NoForecast = Annotated[
    bool, typer.Option("--no-forecast", help="Leave a column forecast of the history out.")
]
NoBorrow = Annotated[
    bool, typer.Option("--no-borrow", help="Items with few records borrow nothing from others.")
]
SoldFrom = Annotated[
    str,
    typer.Option(
        help="First period in which an order of the end of period t, with lead time L, can be "
        "sold: t+1+L or t+L."
    ),
]
Every = Annotated[
    str | None, typer.Option("--frequency", help="day, week or month; seen from the dates.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="OURS=THEIRS",
        help="A column of the history that has another name; may be repeated.",
    ),
]


def named_columns(pairs: Sequence[str] | None) -> Mapping[str, str]:
    """Columns by our names."""
    found = {}
    for pair in pairs or []:
        ours, equals, theirs = pair.partition("=")
        if not (ours and equals and theirs):
            raise InputError(f"--column is {shown(pair)}: give OURS=THEIRS, as in sales=qty.")
        found[ours] = theirs
    return found


@contextmanager
def watching(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function that is told how many items are done; it says so on stderr."""
    from rich.console import Console

    from iopea.cli.jobs import plain_progress

    console = Console(stderr=True)
    with plain_progress(console) as say:
        if not console.is_terminal:
            yield lambda done, total: say(f"{what}: {done:,} of {total:,} items")
            return
        with console.status("reading the tables") as status:
            yield lambda done, total: status.update(f"{what}: {done:,} of {total:,} items")
