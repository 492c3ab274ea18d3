"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Horizon = Annotated[int, typer.Option(min=1, help="Steps of each run.")]
Seeds = Annotated[int, typer.Option(min=1, help="Number of independent runs.")]
FirstSeed = Annotated[int, typer.Option(min=0, help="The first of them.")]
Out = Annotated[Path, typer.Option(help="Folder of results and report; a run goes on there.")]
Workers = Annotated[
    int, typer.Option(min=0, help="Processes; no effect on results; all cores if 0.")
]
Cluster = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler, whose workers are used instead.")
]
