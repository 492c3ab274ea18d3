"""Curves over time, from the rows of runs that were looked at on the way."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from iopea.comparison.figures import Curve
from iopea.comparison.store import Store
from iopea.comparison.tasks import Task

#: The first look at a short run is after this part of it.
_SHORT = 10


def looks(last: int, first: int = 1000) -> tuple[int, ...]:
    """Steps at which a run is looked at: 1, 2 and 5 times powers of ten, and its end.

    >>> looks(10_000)
    (1000, 2000, 5000, 10000)
    >>> looks(2000, first=200), looks(300)
    ((200, 500, 1000, 2000), (50, 100, 200, 300))
    """
    first = min(first, last // _SHORT)
    steps = [digit * 10**power for power in range(len(str(last))) for digit in (1, 2, 5)]
    return (*(each for each in steps if first <= each < last), last)


def curves_of(
    tasks: Mapping[str, Sequence[Task]],
    store: Store,
    column: str,
    constants: Collection[str] = (),
) -> list[Curve]:
    """A column of the rows of finished runs, over time.

    Parameters
    ----------
    tasks : dict. Runs by method.
    store : Store. Of their rows.
    column : str. The quantity.
    constants : collection of str. Methods that don't learn: one look holds for all times.
    """
    found = []
    for name, runs in tasks.items():
        rows = [store.rows(task.key) for task in runs if task.key in store]
        if rows:
            steps = np.array([row["steps"] for row in rows[0]], dtype=np.float64)
            values = np.array([[row[column] for row in run] for run in rows])
            found.append(Curve(name, steps, values, name in constants and steps.size == 1))
    return found
