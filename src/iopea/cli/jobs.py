"""Shared by commands that run long: progress, interrupts, and printed tables."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from iopea.comparison.formats import print_table
from iopea.comparison.runner import Job, Progress, Watch, run_tasks
from iopea.comparison.store import Store
from iopea.comparison.tables import Report, Table

#: Largest number of running tasks shown by name.
_MOST_NAMED = 2
#: Seconds between two lines of progress where there is no terminal.
_SECONDS = 5.0


def warning(console: Console) -> Callable[[str], None]:
    """A function that prints a sentence on a console, without highlighting or wrapping."""
    return lambda sentence: console.print(sentence, highlight=False, soft_wrap=True)


def run_jobs(
    tasks: Sequence[Job], store: Store, workers: int, cluster: str | None, console: Console
) -> None:
    """Run the unfinished tasks; after an interrupt, print which results are kept."""
    try:
        with _watching(console) as watch:
            run_tasks(tasks, store, workers=workers, cluster=cluster, watch=watch)
    except KeyboardInterrupt:
        warning(console)(
            f"{len(store)} finished tasks are kept in {store.directory}: run the same command "
            "again to continue."
        )
        raise


def print_report(report: Report) -> None:
    """Print the tables and the summary of a report."""
    console = Console()
    for part in report.parts:
        if isinstance(part, Table) and part.lines:
            print_table(console, part)
            console.print()
    for paragraph in report.lead[1:]:
        console.print(paragraph, highlight=False, soft_wrap=True)


@contextmanager
def _watching(console: Console) -> Iterator[Watch]:
    """Progress on stderr: tasks done, tasks running, time left."""
    columns = (
        TextColumn("{task.fields[done]}"),
        BarColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[running]}"),
    )
    start = time.monotonic()
    with (
        plain_progress(console) as say,
        Bars(*columns, console=console, disable=not console.is_terminal) as bars,
    ):
        bar = bars.add_task("tasks", total=None, done="", left="", running="")

        def watch(progress: Progress) -> None:
            share = progress.effort_done / progress.effort_total
            spent = time.monotonic() - start
            left = f"{_clock(spent / share - spent)} left" if share > 0 else ""
            named = [task.key.rsplit(".", 1)[0] for task in progress.running[:_MOST_NAMED]]
            more = len(progress.running) - len(named)
            running = ", ".join(named) + (f" and {more} more" if more > 0 else "")
            done = f"{progress.done} of {progress.total} tasks"
            bars.update(
                bar,
                completed=progress.effort_done,
                total=progress.effort_total,
                done=done,
                left=left,
                running=running,
            )
            say(", ".join(filter(None, (done, left, running and f"running {running}"))))

        yield watch


@contextmanager
def plain_progress(console: Console) -> Iterator[Callable[[str], None]]:
    """A function that takes the latest line of progress; it is printed every few seconds.

    Only where there is no terminal, which has bars instead.
    """
    latest, ended, start = "", threading.Event(), time.monotonic()

    def take(line: str) -> None:
        nonlocal latest
        latest = line

    def speak() -> None:
        while not ended.wait(_SECONDS):
            line = f"{_clock(time.monotonic() - start)}: {latest or 'preparing'}"
            console.print(line, highlight=False, soft_wrap=True)

    thread = threading.Thread(target=speak, daemon=True)
    if not console.is_terminal:
        thread.start()
    try:
        yield take
    finally:
        ended.set()
        if thread.ident is not None:
            thread.join()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
