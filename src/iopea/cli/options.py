"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Horizon = Annotated[int, typer.Option(min=1, help="Steps of each run.")]
Seeds = Annotated[int, typer.Option(min=1, help="Number of independent runs.")]
FirstSeed = Annotated[int, typer.Option(min=0, help="Seed of the first run.")]
Out = Annotated[
    Path, typer.Option(help="Folder of results and report; an interrupted run continues there.")
]
Workers = Annotated[
    int, typer.Option(min=0, help="Number of processes, without effect on results; 0: all cores.")
]
Cluster = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler, whose workers are used instead.")
]
