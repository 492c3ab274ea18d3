"""The M/M/1/L queue with deadlines, and its policy families."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from iopea.errors import InputError, unknown
from iopea.problems.base import Problem
from iopea.systems.queue.service_rates import ServiceRates
from iopea.systems.queue.system import QueueRates as QueueRates
from iopea.systems.queue.system import QueueSystem


class ServiceRateQueue(Problem):
    """The service-rate problem: the queue, and its service rates.

    Created from the keys of :class:`~iopea.QueueSystem` and of :class:`~iopea.ServiceRates`, or of
    any other family as ``policies``.

    Examples
    --------
    >>> queue = ServiceRateQueue(buffer=2, max_rate=3, arrival_rate_bound=10,
    ...                          deadline_rate_bound=10, miss_penalty=100)
    >>> queue.system.uniform_rate, queue.policy_class.count(1.0)
    (33.0, 64)
    """

    system_type = QueueSystem
    families = (ServiceRates,)

    @classmethod
    def read(
        cls, content: Mapping[str, dict[str, Any]], directory: Path | None = None
    ) -> tuple[Self, QueueRates]:
        """Problem and rates from the ``[problem]`` table, which holds both.

        A list of arrivals also gives the arrival rate, which then needs no entry of its own; if its
        largest value is 1, it may be a profile that is scaled by that entry.
        """
        table = dict(content["problem"])
        known = {*QueueSystem.model_fields, *ServiceRates.model_fields, *QueueRates.model_fields}
        for key in table:
            if key not in known:
                raise unknown("key in [problem]", key, known)
        rates = {key: table.pop(key) for key in QueueRates.model_fields if key in table}
        problem = cls(policies=content.get("policies"), **table)
        if not isinstance(problem.system.arrivals, str):
            largest = float(max(table["arrivals"][:-1]))
            given = rates.setdefault("arrival_rate", largest)
            if given != largest != 1:
                raise InputError(
                    f"arrival_rate is {given!r}, but the largest of the arrivals is {largest}: "
                    "leave it out, or give the same."
                )
        truth = QueueRates(**rates)
        problem.system.refuse_above_bounds(truth)
        return problem, truth

    @classmethod
    def example(cls) -> tuple[Self, QueueRates]:
        """The setting of the paper."""
        queue = cls(
            buffer=2, max_rate=3, arrival_rate_bound=10, deadline_rate_bound=10, miss_penalty=100
        )
        return queue, QueueRates(arrival_rate=6, deadline_rate=3)
