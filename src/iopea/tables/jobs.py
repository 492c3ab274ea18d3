"""The same work for many items, in one process or several."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TypeVar

from iopea.plugins import prepare
from iopea.registry import Plugin

#: Told how many items are done, and of how many.
Watch = Callable[[int, int], None]
#: Most processes.
MOST_WORKERS = 4096
_Result = TypeVar("_Result")
#: Seconds after which a worker looks again whether its owner is there.
_LOOK = 1.0


def quiet(done: int, total: int) -> None:
    """Say nothing."""


@cache
def end_with(owner: int) -> None:
    """End this worker process when the one that started it has ended, even by a kill."""

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def each_of(
    work: Callable[..., _Result],
    jobs: Iterable[tuple[object, ...]],
    workers: int,
    watch: Watch,
    size: Callable[[_Result], int],
    total: int,
    plugins: Sequence[Plugin] = (),
) -> Iterator[_Result]:
    """The results of all jobs, in their order; 0 workers stand for all cores.

    ``size`` says how many items of ``total`` a result is of; ``plugins`` are classes of others that
    workers need.

    >>> said = []
    >>> watch = lambda done, total: said.append((done, total))
    >>> list(each_of(lambda one: [one], [(1,), (2,)], 1, watch, len, 2)), said
    ([[1], [2]], [(0, 2), (1, 2), (2, 2)])
    """
    done = 0
    watch(done, total)
    for result in _results(work, jobs, workers, plugins):
        done += size(result)
        watch(done, total)
        yield result


def _results(
    work: Callable[..., _Result],
    jobs: Iterable[tuple[object, ...]],
    workers: int,
    plugins: Sequence[Plugin],
) -> Iterator[_Result]:
    from joblib import Parallel, cpu_count, delayed

    number = workers or cpu_count()
    if number == 1:
        yield from (work(*job) for job in jobs)
        return
    run = Parallel(n_jobs=number, return_as="generator")
    each = delayed(partial(_guarded, os.getpid(), tuple(plugins), work))
    yield from run(each(*job) for job in jobs)


def _guarded(
    owner: int, plugins: Sequence[Plugin], work: Callable[..., _Result], *job: object
) -> _Result:
    """Work in a process of its own, which knows the plug-ins and ends with its owner."""
    if os.getpid() != owner:
        end_with(owner)
        prepare(plugins)
    return work(*job)
