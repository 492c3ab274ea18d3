"""Whether the records of a shop with two suppliers fit the model, and the likely reason if not.

Estimators that simulate candidates need only stock and sales. Whether
the stock is consistent with the policy's orders is checked nevertheless: if it is not, lead times
or orders differ from the problem, and simulated candidates are not informative about the shop.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iopea.state import Stateful, array, parts, shaped
from iopea.systems.dual_sourcing import kernel as kernels
from iopea.systems.shop.records import FITS, tolerance
from iopea.types import Array, Mask, Trajectory

#: Number of latest records that are searched for the reason.
MOST_RECORDS = 1024
#: Changes of lead times that are tried.
_OTHER_LEAD_TIMES = (-2, -1, 1, 2)
#: Share of the inconsistent steps that a reason may leave.
_LEFT = 0.25
#: Least share of arrivals that are multiples of a case, and largest share of sales that are.
_MULTIPLES, _OF_SALES = 0.95, 0.75
#: Case sizes that are tried, in units of the smallest difference of arrivals.
_CASES = range(2, 145)

# Rows of the kept records.
_EXPEDITED, _REGULAR, _STOCK, _SALES, _GAP = range(5)


class DualRecords(Stateful):
    """Tracks the real system, counts inconsistent steps, and finds the likely reason.

    Attributes
    ----------
    on_hand : float. Stock left over.
    """

    saved = parts(
        rows=shaped(5, -1), faults=int, steps=int, unknown=int, on_hand=float, regular=array,
        expedited=array,
    )  # fmt: skip

    def __init__(self, lead_times: tuple[int, int], bound: float, step: float | None) -> None:
        self._lead_times = lead_times
        self._near = float(tolerance(np.array(bound), step))
        self._rows = np.empty((5, 0))
        self._faults = 0
        self._steps = 0
        self.on_hand = 0.0
        self._regular, self._expedited = map(np.zeros, lead_times)
        self._unknown = lead_times[0] + 1

    @property
    def pipelines(self) -> tuple[Array, Array]:
        """The regular and the expedited pipeline, oldest first."""
        return self._regular, self._expedited

    @property
    def position(self) -> float:
        """Stock on hand and on order."""
        return float(self.on_hand + sum(each.sum() for each in self.pipelines))

    @property
    def inconsistent(self) -> int:
        """Number of steps whose stock is inconsistent with the orders."""
        return self._faults

    def place(self, state: Array) -> None:
        """Begin with this stock on hand and on order: regular, then expedited."""
        regular, _ = self._lead_times
        self.on_hand = float(state[0])
        self._regular, self._expedited = state[1 : 1 + regular].copy(), state[1 + regular :].copy()

    def add(self, trajectory: Trajectory) -> None:
        """Add records; at first, and after a gap, the pipeline is unknown for a while."""
        steps = len(trajectory)
        gap = trajectory.columns.get("gap", np.zeros(steps))
        stock, sales = trajectory["stock"], trajectory["sales"]
        policy = np.array(trajectory.policy)[:, None]
        rows = np.vstack([np.tile(policy, steps), stock, sales, gap])
        bad, self.on_hand = self._follow(rows, self.pipelines, self.on_hand)
        judged = np.ones(steps, dtype=np.bool_)
        for first, after in self._unjudged(gap):
            judged[first:after] = False
        self._faults += int((bad & judged).sum())
        self._steps += steps
        self._rows = np.concatenate([self._rows, rows], axis=1)[:, -MOST_RECORDS:]

    def _unjudged(self, gap: Array) -> Iterator[tuple[int, int]]:
        """Stretches in which the pipeline is unknown."""
        wait = self._lead_times[0] + 1
        yield 0, min(self._unknown, gap.size)
        self._unknown = max(self._unknown - gap.size, 0)
        for step in np.flatnonzero(gap):
            yield int(step), int(step) + wait
            self._unknown = max(self._unknown, int(step) + wait - gap.size)

    def _follow(
        self,
        rows: Array,
        pipelines: tuple[Array, ...],
        on_hand: float,
    ) -> tuple[Mask, float]:
        """Inconsistent steps, and the stock left over; ``pipelines`` are changed in place."""
        regular, expedited = pipelines
        left, bad = kernels.follow(
            rows[: _REGULAR + 1], on_hand, regular, expedited, rows[_STOCK], rows[_SALES],
            self._near,
        )  # fmt: skip
        return bad, left

    @property
    def contradiction(self) -> str | None:
        """Message if the records don't fit, with the likely reason; None if they do."""
        if self._faults <= FITS * self._steps or self._steps <= 2 * (self._lead_times[0] + 1):
            return None
        return (
            f"{self._faults:,} of {self._steps:,} steps contradict the model, so that nothing "
            f"more is eliminated on these records. {self._reason()}"
        )

    def _reason(self) -> str:
        told = self._faults_with(self._rows, self._lead_times)
        evening = self._rows.copy()
        evening[_STOCK] += evening[_SALES]
        if self._faults_with(evening, self._lead_times) <= _LEFT * told:
            return (
                "The stock seems to be that of the evening: give the stock after arrivals, before "
                "sales."
            )
        regular, expedited = self._lead_times
        others = [(regular + more, expedited) for more in _OTHER_LEAD_TIMES]
        others += [(regular, expedited + more) for more in _OTHER_LEAD_TIMES]
        possible = [pair for pair in others if pair[0] > pair[1] >= 0]
        found = min(possible, key=lambda pair: self._faults_with(self._rows, pair))
        if (faults := self._faults_with(self._rows, found)) <= _LEFT * told:
            which = "regular" if found[0] != regular else "expedited"
            old, new = (regular, found[0]) if which == "regular" else (expedited, found[1])
            return (
                f"Deliveries fit a lead time of {new} for {which} orders, not {old}: then "
                f"{faults:,} of the last {self._rows.shape[1]:,} steps are inconsistent, not "
                f"{told:,}."
            )
        multiple = self._multiple()
        if multiple:
            return f"Orders come in multiples of {multiple:g}, which the policy did not ask for."
        return (
            "None of the usual reasons fits: evening stock, another lead time, orders in multiples."
        )

    def _faults_with(self, rows: Array, lead_times: tuple[int, int]) -> int:
        """Number of inconsistent steps with these lead times, after the initial state is gone."""
        pipelines = tuple(np.zeros(each) for each in lead_times)
        bad, _ = self._follow(rows, pipelines, 0.0)
        return int(bad[3 * (lead_times[0] + 1) :].sum())

    def _multiple(self) -> float:
        """The number that nearly all arrivals, but not sales, are multiples of; 0 if none."""
        stock, sales = self._rows[_STOCK], self._rows[_SALES]
        arrived = stock[1:] - (stock[:-1] - sales[:-1])
        amounts, sold = arrived[arrived > self._near], sales[sales > self._near]
        if amounts.size < 8 or not sold.size:
            return 0.0
        unit = np.diff(np.unique(np.append(0.0, amounts))).min(initial=np.inf, where=True)
        for case in [unit * number / 12 for number in (12, *_CASES)]:
            if case > 2 * self._near and _share(amounts, case) >= _MULTIPLES:
                return float(case) if _share(sold, case) < _OF_SALES else 0.0
        return 0.0


def _share(amounts: Array, multiple: float) -> float:
    """Share of the amounts that are multiples."""
    numbers = amounts / multiple
    return float((np.abs(numbers - np.rint(numbers)) <= 1e-6 * (1 + numbers)).mean())
