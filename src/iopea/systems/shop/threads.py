"""Spreads policies over threads; compiled code releases the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

#: Policy-periods below which starting threads costs more than it saves.
_WORTH_A_THREAD = 2**20


def in_threads(
    advance: Callable[[int, int], Result], policies: int, periods: int, block: int, threads: int
) -> list[Result]:
    """Call ``advance(start, stop)`` on one contiguous part of whole blocks per thread.

    No part is empty, and results don't depend on the number of threads.

    >>> in_threads(lambda start, stop: (start, stop), 1000, 10**6, 256, 2)
    [(0, 512), (512, 1000)]
    """
    if threads == 1 or policies * periods < _WORTH_A_THREAD:
        return [advance(0, policies)]
    blocks = -(-policies // block)
    threads = min(threads, blocks)
    edges = [min(policies, block * (blocks * i // threads)) for i in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(advance, edges[:-1], edges[1:]))
