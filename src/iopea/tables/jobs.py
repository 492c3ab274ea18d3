"""The same work for many items, in one process or several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

#: Told how many items are done, and of how many.
Watch = Callable[[int, int], None]
#: Most processes.
MOST_WORKERS = 4096
_Result = TypeVar("_Result")


def quiet(done: int, total: int) -> None:
    """Say nothing."""


def each_of(
    work: Callable[..., _Result],
    jobs: Iterable[tuple[object, ...]],
    workers: int,
    watch: Watch,
    size: Callable[[_Result], int],
    total: int,
) -> Iterator[_Result]:
    """The results of all jobs, in their order; 0 workers stand for all cores.

    ``size`` says how many items of ``total`` a result is of.

    >>> said = []
    >>> watch = lambda done, total: said.append((done, total))
    >>> list(each_of(lambda one: [one], [(1,), (2,)], 1, watch, len, 2)), said
    ([[1], [2]], [(0, 2), (1, 2), (2, 2)])
    """
    done = 0
    watch(done, total)
    for result in _results(work, jobs, workers):
        done += size(result)
        watch(done, total)
        yield result


def _results(
    work: Callable[..., _Result], jobs: Iterable[tuple[object, ...]], workers: int
) -> Iterator[_Result]:
    if workers == 1:
        yield from (work(*job) for job in jobs)
        return
    from joblib import Parallel, cpu_count, delayed

    if workers == 0 and cpu_count() == 1:
        yield from (work(*job) for job in jobs)
        return
    run = Parallel(n_jobs=workers or cpu_count(), return_as="generator")
    yield from run(delayed(work)(*job) for job in jobs)
