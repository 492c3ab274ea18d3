"""Run the tasks of an experiment on all cores or on a cluster, and store each result at once.

Tasks that are already stored are not run again. The same code runs in this process, in several
processes (joblib) and on the workers of a Dask cluster, and gives the same rows: a task carries
everything that its result depends on.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import dataclass
from typing import Any, Protocol

from joblib import Parallel, delayed, parallel_config

from iopea.comparison.store import Store
from iopea.comparison.tasks import Row
from iopea.errors import ComputationError, InputError, shown
from iopea.plugins import failure
from iopea.tables.jobs import end_with

#: Seconds in which a cluster must answer.
_PATIENCE = 3.0


class Job(Protocol):
    """A unit of work that runs on any machine, and is stored under a key."""

    @property
    def key(self) -> str:
        """A unique name, valid in a file name."""

    @property
    def effort(self) -> float:
        """Estimated run time in seconds."""

    @property
    def before(self) -> tuple[Job, ...]:
        """Jobs whose rows this one needs; these need none themselves."""

    def perform(self, found: Sequence[list[Row]]) -> list[Row]:
        """Run the job, given the rows of the jobs before, and return its rows."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run.

    Attributes
    ----------
    done, total : int. Finished tasks and all tasks, of those that were not stored before.
    running : tuple of Job. Those being run by workers.
    effort_done, effort_total : float. The same in estimated seconds of work.
    """

    done: int
    total: int
    running: tuple[Job, ...]
    effort_done: float
    effort_total: float


Watch = Callable[[Progress], None]


def run_tasks(
    tasks: Iterable[Job],
    store: Store,
    *,
    workers: int = 0,
    cluster: str | None = None,
    watch: Watch = lambda progress: None,
) -> None:
    """Run all tasks that the store does not have.

    Parameters
    ----------
    tasks : iterable of Job.
    store : Store. Receives the result of each task as soon as it is finished.
    workers : int. Processes; all cores if 0. Results don't depend on it.
    cluster : str, optional. Address of a Dask scheduler, whose workers are used instead.
    watch : callable. Called with the progress.
    """
    wanted = {task.key: task for task in tasks}
    missing = {key: task for key, task in wanted.items() if key not in store}
    needed = {first.key: first for task in wanted.values() for first in task.before}
    firsts = {key: task for key, task in needed.items() if key not in store}
    others = {key: task for key, task in missing.items() if key not in firsts}
    # Long tasks first, so that no core is left with one at the end.
    stages = [sorted(stage.values(), key=lambda task: -task.effort) for stage in (firsts, others)]
    state = _State(watch, [task for stage in stages for task in stage])
    if not state.total:
        return
    owner = os.getpid() if cluster is None else None
    try:
        with _backend(workers, cluster) as parallel:
            for stage in stages:
                jobs = (
                    delayed(_carry_out)(
                        task, [store.rows(first.key) for first in task.before], owner
                    )
                    for task in state.take(stage)
                )
                for key, rows in parallel(jobs):
                    store.add(key, rows)
                    state.finished(key)
    except (BrokenExecutor, CancelledError) as error:
        who = "A worker process" if cluster is None else f"The cluster at {cluster}"
        raise ComputationError(
            f"{who} ended in the middle of a task, perhaps for lack of memory "
            f"({type(error).__name__}). {len(store)} finished tasks are kept: give the same "
            "command again, with fewer --workers if it is memory."
        ) from None


class _State:
    """Which tasks are running, and which are finished."""

    def __init__(self, watch: Watch, tasks: list[Job]) -> None:
        self._watch, self.total, self._done = watch, len(tasks), 0
        self._effort, self._effort_done = sum(task.effort for task in tasks), 0.0
        self._running: dict[str, Job] = {}
        self._lock = threading.Lock()  # jobs are handed out by another thread than takes results

    def take(self, stage: list[Job]) -> Iterator[Job]:
        for task in stage:
            with self._lock:
                self._running[task.key] = task
                self._tell()
            yield task

    def finished(self, key: str) -> None:
        with self._lock:
            self._done += 1
            self._effort_done += self._running.pop(key).effort
            self._tell()

    def _tell(self) -> None:
        running = tuple(self._running.values())
        self._watch(Progress(self._done, self.total, running, self._effort_done, self._effort))


def _carry_out(task: Job, found: Sequence[list[Row]], owner: int | None) -> tuple[str, list[Row]]:
    if owner is not None and owner != os.getpid():
        end_with(owner)
    try:
        return task.key, task.perform(found)
    except (Exception, SystemExit) as error:
        # Not every exception can be sent back from a worker; its text can.
        raise ComputationError(f"Task {task.key} failed: {failure(error)}") from error


@contextlib.contextmanager
def _backend(workers: int, cluster: str | None) -> Iterator[Parallel]:
    """A pool of workers that returns results as they finish."""
    # Joblib warns of tasks that an early end leaves behind; the next run does them.
    warnings.filterwarnings("ignore", "[0-9]+ tasks? .*", UserWarning, "joblib")
    how: dict[str, Any] = {"return_as": "generator_unordered", "batch_size": 1}
    if cluster is None:
        number = workers or os.cpu_count() or 1
        with Parallel(n_jobs=number, pre_dispatch=number, **how) as parallel:
            yield parallel
        return
    with (
        _client(cluster) as client,
        parallel_config(backend="dask", client=client),
        Parallel(n_jobs=-1, pre_dispatch="2*n_jobs", **how) as parallel,
    ):
        yield parallel


def check_cluster(address: str | None) -> None:
    """Refuse the address of a cluster that does not answer, before any work is done."""
    if address is not None:
        with _client(address):
            pass


def _knock(address: str) -> None:
    """Raise an OSError at once where nothing listens; Dask would try again and again."""
    from distributed.comm.addressing import parse_address, parse_host_port

    scheme, place = parse_address(address)
    if scheme in ("tcp", "tls"):
        socket.create_connection(parse_host_port(place, 8786), timeout=_PATIENCE).close()


@contextlib.contextmanager
def _client(address: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            "--cluster needs Dask: install it with pip install 'iopea[cluster]'."
        ) from None
    try:
        _knock(address)
        client = Client(address, timeout="10s")
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(
            f"There is no Dask scheduler at {shown(address)} ({error}): give the address that "
            "`dask scheduler` prints, such as tcp://host:8786."
        ) from None
    with client:
        if not client.ncores():
            raise InputError(
                f"The Dask scheduler at {address} has no workers: start some with "
                f"`dask worker {address}`."
            )
        yield client
