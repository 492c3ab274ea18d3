"""Records of a shop with a lead time: whether they fit the model, and estimates from them.

If orders, arrivals or gaps are recorded, or a policy was played that informs only some candidates,
the records are kept, read as they fit (:mod:`iopea.systems.shop.records`), and every candidate is
replayed on them: with the lead time and the order sizes that the records show, after a warm-up on
the end of the records. A period is informative about a candidate if the level played is at least
its own. Periods without record are left out. A candidate may then hold more than the real stock, as
after a short delivery. If demand was censored in such a period, it is imputed from the
product-limit estimate of all records.
"""

from __future__ import annotations

import math

import numpy as np

from iopea.state import Part, Stateful, array, parts, shaped
from iopea.systems.lost_sales import kernel as kernels
from iopea.systems.shop.base import TOLD
from iopea.systems.shop.product_limit import ProductLimit, shares_of
from iopea.systems.shop.records import (
    FITS,
    MOST_RECORDS,
    Reading,
    Records,
    consistent_with_model,
    explain,
    explain_deliveries,
    fill_rates,
    read,
)
from iopea.types import Array, Estimates, Indices, Mask, PeriodCost, State, Trajectory

#: Rows of the kept records.
_COLUMNS = ("level", "stock", "sales", *TOLD)
#: Length of the first batches, which doubles, and the most batches.
FIRST_BATCH, MOST_BATCHES = 4, 256
#: Most batch sums in memory; with more policies, fewer batches are made.
MOST_COSTS = 2**23
#: Relative tolerance within which levels are equal.
ROUNDING = 1e-9
#: Length of the warm-up, in lead times.
WARM_UP = 4
#: Decimal digits to which records may be rounded, and tolerance for integers.
_DIGITS, _WHOLE = 6, 1e-6
#: Roundings of stock and sales that may add up in a step of the levels.
ROUNDINGS = 4
#: With at most this many records, no contradiction is reported.
_FEW = 12


def _columns_of(trajectory: Trajectory) -> Array:
    """The records of a trajectory as rows, NaN where orders and arrivals are not recorded."""
    steps = len(trajectory)
    unknown = {"ordered": math.nan, "received": math.nan, "gap": 0.0}
    level = np.full(steps, trajectory.policy[0])
    rows = [level, trajectory["stock"], trajectory["sales"]]
    rows += [trajectory.columns.get(name, np.full(steps, unknown[name])) for name in TOLD]
    return np.array(rows)


class Ledger(Stateful):
    """The records of a shop, as far as they are needed.

    Parameters
    ----------
    lead_time : int. Lead time of the problem [L].
    step : float, optional. Step of the levels.

    As long as only stock and sales are recorded, the last records are kept, to check whether they
    fit. From the first record with more columns on, all are kept, and :attr:`open` is true.
    """

    saved = parts(
        rows=shaped(len(_COLUMNS), -1),
        faults=int,
        steps=int,
        before=int,
        interrupted=bool,
        open=bool,
    )

    def __init__(self, lead_time: int, step: float | None) -> None:
        self._lead_time, self._step = lead_time, step
        self._rows = np.empty((len(_COLUMNS), 0))
        self._parts: list[Array] = []
        self._held = 0
        self._faults = 0
        self._steps = 0
        self._before = 0  # steps before the ledger was opened
        self._interrupted = False
        self.open = False
        self._known: Reading | None = None

    def add(self, trajectory: Trajectory) -> None:
        """Add records."""
        self._known = None
        self._steps += len(trajectory)
        rows = _columns_of(trajectory)
        if self._interrupted and len(trajectory):
            rows[_COLUMNS.index("gap"), 0] += self._lead_time + 1
            self._interrupted = False
        while rows.shape[1]:
            room = rows.shape[1] if self.open else MOST_RECORDS - self._held
            part, rows = rows[:, :room], rows[:, room:]
            self._parts.append(part)
            self._held += part.shape[1]
            if not self.open and self._held == MOST_RECORDS:
                self._forget_half()

    def interrupt(self) -> None:
        """Note that steps without records follow: the pipeline is unknown after them."""
        self._interrupted = self._steps > 0

    def begin_late(self) -> None:
        """Note that the shop was not empty before the first record."""
        self._interrupted = True

    def _forget_half(self) -> None:
        """Count inconsistent steps in the older half of the records, and drop that half."""
        half = MOST_RECORDS // 2
        self._faults += int(self._inconsistent()[:half].sum())
        self._rows = self._rows[:, half:].copy()
        self._held -= half

    def begin(self) -> None:
        """Keep all records from now on; earlier ones were evaluated without being kept."""
        if self.open:
            return
        self._rows, self._parts = np.empty((len(_COLUMNS), 0)), []
        self._before = self._steps
        self._held = self._faults = self._steps = 0
        self.open, self._known = True, None

    def _joined(self) -> Array:
        if self._parts:
            self._rows = np.concatenate([self._rows, *self._parts], axis=1)
            self._parts = []
        return self._rows

    @property
    def records(self) -> Records:
        """The records in memory."""
        return Records(*self._joined())

    def _inconsistent(self) -> Mask:
        return consistent_with_model(self.records, self._lead_time, self._step)

    @property
    def reading(self) -> Reading:
        """The reading of the records in memory."""
        if self._known is None:
            self._known = read(self.records, self._lead_time, self._step)
        return self._known

    @property
    def inconsistent(self) -> int:
        """Number of steps that don't fit the model, or the reading once the ledger is open."""
        if self.open:
            return int(self.reading.inconsistent.sum())
        return self._faults + (int(self._inconsistent().sum()) if self._held else 0)

    @property
    def contradiction(self) -> str | None:
        """Message if the records don't fit, with the likely reason; None if they do."""
        if self._held < _FEW:
            return None
        faults, reading = self.inconsistent, self.reading
        told = reading.as_told(self._lead_time) or bool(reading.missing.size)
        if faults <= FITS * self._steps and (told or self.open):
            return None
        since = f" since step {self._before:,}" if self._before else ""
        return (
            f"{faults:,} of {self._steps:,} steps{since} contradict the model, so that nothing "
            f"more is eliminated on these records. {self._reason(reading)}"
        )

    def _why(self) -> str | None:
        """The likely reason, from the records in memory."""
        first = self._before + self._steps - self._held
        return explain(self.reading, self.records, self._lead_time, first)

    def _reason(self, reading: Reading) -> str:
        unit = self._rounded_to()
        if unit is not None:
            return (
                f"They seem to be rounded to {unit:g}: levels with a step of {ROUNDINGS * unit:g} "
                "or more allow for that."
            )
        if reading.as_told(self._lead_time) and self.inconsistent < _FEW:
            return "So few don't tell why."
        return f"{self._why() or ''}{self._advice(reading)}"

    def _rounded_to(self) -> float | None:
        """The unit to which all records are rounded, if that explains the inconsistent steps."""
        records = self.records
        values = np.append(records.stock, records.sales)
        largest = values.max(initial=0.0)
        if not largest > 0 or self._step is not None:
            return None
        for digits in range(_DIGITS):
            unit = 10.0 ** (math.floor(math.log10(largest)) - digits)
            if (np.abs(values / unit - np.rint(values / unit)) <= _WHOLE).all():
                wide = consistent_with_model(records, self._lead_time, ROUNDINGS * unit)
                return unit if wide.mean() <= FITS and unit < largest / ROUNDINGS else None
        return None

    def _advice(self, reading: Reading) -> str:
        if self.open:
            return ""
        if reading.missing.size:
            return (
                " Tell the column gap, the periods without a record just before each step; or "
                "ordered and received, if none is missing but deliveries were short."
            )
        instead = ""
        if reading.evening:
            instead = " Give stock + sales as the stock, or tell"
        elif reading.lead_time != self._lead_time:
            instead = f" Give the problem a lead time of {reading.lead_time}, or tell"
        return f"{instead or ' Tell'} the columns ordered and received, which will be followed."

    @property
    def note(self) -> str | None:
        """How the records are read, if not as the problem says."""
        if self._held < _FEW or self.contradiction:
            return None
        texts = [] if self.reading.as_told(self._lead_time) else [self._why() or ""]
        if self.open:
            if any(texts):
                texts.append("Candidates are judged accordingly.")
            texts.append(explain_deliveries(self.reading, self.records) or "")
        return " ".join(text for text in texts if text) or None

    @property
    def demand_records(self) -> tuple[Array, Array] | None:
        """Sales and stock as the records are read, once all of them are kept."""
        if not self.open:
            return None
        stock = self.reading.stock
        return np.minimum(self.records.sales, stock), stock

    @property
    def as_modelled(self) -> bool:
        """Whether estimates from before the ledger was opened may be used with it."""
        reading = self.reading
        return reading.lead_time == self._lead_time and not reading.multiple and not reading.evening

    def estimates(
        self,
        levels: Array,
        costs: tuple[float, float],
        own: PeriodCost | None = None,
        threads: int = 1,
    ) -> Estimates:
        """Pseudo-costs by batch of candidates on all records."""
        records, reading = self.records, self.reading
        stock, sales = reading.stock, np.minimum(records.sales, reading.stock)
        filled = fill_rates(records, reading)
        if not sales.size or not levels.size:
            return Estimates(np.empty((0, levels.size)), np.empty(0))
        ends = _batch_ends(records.level >= levels.max() * (1 - ROUNDING), levels.size)
        sold_out = sales >= stock
        law = ProductLimit(sales, sold_out)
        demand = law.demand(shares_of(sales.size)) if sold_out.any() else sales
        unseen = np.isinf(demand)
        low = np.where(unseen, sales.max(), demand)

        def replay(path: Array, until: Indices) -> tuple[Array, Array]:
            return kernels.replay_orders(
                path, records.level, filled, levels, until, reading.lead_time, reading.multiple,
                reading.rounding, costs, WARM_UP * (reading.lead_time + 1), own, threads,
            )  # fmt: skip

        sums, sizes = replay(low, ends)
        memory = np.full(levels.size, float(max(reading.lead_time, 1)))
        if unseen.any():
            whole = ends[-1:]
            high = np.where(unseen, 2 * levels.max(initial=0.0) + sales.max(), demand)
            change = replay(high, whole)[0] - replay(low, whole)[0]
            told = np.abs(change[0]) <= 1e-9 * np.abs(sums).sum(axis=0)
            sums, sizes = sums * told, sizes * told
        if (sizes == sizes[:, :1]).all():
            sizes = sizes[:, 0].copy()
        return Estimates(sums, sizes, memory=memory, jump=reading.multiple)

    def clear(self) -> None:
        """Forget all records."""
        self._rows, self._parts = np.empty((len(_COLUMNS), 0)), []
        self._held = self._faults = self._steps = 0
        self._known = None

    def state_dict(self) -> State:
        """The records and counts."""
        self._joined()
        return super().state_dict()

    def _loaded(self) -> None:
        self._held = self._rows.shape[1]
        self._parts, self._known = [], None


class Followed(Stateful):
    """The real shop under base-stock levels, and the ledger of its records.

    Parameters
    ----------
    lead_time : int. Lead time of the problem [L].
    step : float, optional. Step of the levels.
    high : float. The highest level, which is the scale of rounding errors.
    """

    saved = parts(on_hand=float, pipeline=array, ledger=Part)

    def __init__(self, lead_time: int, step: float | None, high: float) -> None:
        self._near = ROUNDING * high
        self._on_hand, self._pipeline = 0.0, np.zeros(lead_time)
        self._ledger = Ledger(lead_time, step)

    @property
    def ledger(self) -> Ledger:
        """The records as far as they are needed."""
        return self._ledger

    def add(self, trajectory: Trajectory, counts: bool) -> None:
        """Follow the shop; records that don't count are not kept."""
        self._on_hand = kernels.follow(
            trajectory.policy[0], self._on_hand, self._pipeline, trajectory["stock"],
            trajectory["sales"], self._near,
        )  # fmt: skip
        if counts:
            self._ledger.add(trajectory)
        else:
            self._ledger.interrupt()

    def place(self, state: Array) -> None:
        """Begin with this stock on hand and on order."""
        self._on_hand, self._pipeline = float(state[0]), state[1:].copy()
        self._ledger.begin_late()

    @property
    def state(self) -> tuple[float, ...]:
        """Stock on hand, then what is on order, the oldest order first."""
        return self._on_hand, *self._pipeline.tolist()

    @property
    def position(self) -> float:
        """Stock on hand and on order."""
        return sum(self.state)

    @property
    def inconsistent(self) -> int:
        """Number of steps that don't fit."""
        return self._ledger.inconsistent

    @property
    def contradiction(self) -> str | None:
        """Message if the records don't fit, with the likely reason."""
        return self._ledger.contradiction


def _batch_ends(for_all: Mask, policies: int) -> Indices:
    """Ends of batches; those that are informative about all policies have their own length.

    So a level with little data does not have to wait until long batches are full.
    """
    most = min(MOST_BATCHES, max(32, MOST_COSTS // max(policies, 1))) // 2
    lengths = []
    for some in (for_all, ~for_all):
        length = FIRST_BATCH
        while some.sum() > length * most:
            length *= 2
        lengths.append(length)
    changes = np.append(np.flatnonzero(np.diff(for_all)) + 1, for_all.size)
    first, ends = 0, []
    for last in changes.tolist():
        length = lengths[0] if for_all[first] else lengths[1]
        ends += [*range(first + length, last, length), last]
        first = last
    if len(ends) > 4 * most:  # told in turns
        length = math.ceil(for_all.size / (2 * most))
        ends = [*range(length, for_all.size, length), for_all.size]
    return np.array(ends, dtype=np.intp)
