r"""Warnings about assumptions that fail: demand that is not i.i.d., a range that is too narrow.

Demand is censored: only sales are observed, at most the stock. Yet whether demand reached a fixed
size c is known in every step whose stock was at least c, and the stock is known before demand. So
if demand is i.i.d., these indicators are i.i.d. Bernoulli whatever was played, and this can be
tested although sales are censored.

Both tests are likelihood ratios: the likelihood of the indicators under an alternative, over their
maximum likelihood under a single probability. The alternatives are Krichevsky-Trofimov mixtures,
either with one probability for each outcome of the previous step, or each count in the last few
steps, or each place in a week of steps (dependence), or with one probability before and another
after an unknown step (change). If demand is i.i.d., such a ratio is at most a martingale that
starts at 1. By Ville's inequality it ever reaches x with a probability of at most 1/x, so the tests
may be read after every step.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, xlogy

from iopea.problems.base import Problem
from iopea.state import Stateful, each, optional, parts, shaped
from iopea.types import Array, Policy

#: Probability that a warning about demand ever appears although demand is i.i.d.
FALSE_ALARM = 0.001
#: Number of positive sales whose median becomes the size c.
FIRST_SALES = 31
#: Number of latest indicators whose sum is used to detect runs.
RECENT = 8
#: Steps of a week, if they are days.
WEEK = 7
#: Most bins of steps (a change is sought between bins), and the length of the first bins.
MOST_BINS, FIRST_BIN = 128, 8
#: The end of a range is named if all survivors lie within this share of the range from it.
EDGE = 0.1
#: Code of a step whose indicator is censored; 0 and 1 stand for demand below c and at least c.
_HIDDEN = 2
#: How the warnings begin.
CHANGED = "Demand seems to have changed"
DEPENDS = "Demand seems to depend on the demand before it"
AT_EDGE = "The best policy is at the edge of the range"

Kind = Literal["change", "dependence"]
Counts = NDArray[np.int64]


class DemandWatch(Stateful):
    """Tests whether demand is independent from step to step and keeps its distribution.

    The counts are integers, so they don't depend on how the steps were split into calls.

    Examples
    --------
    >>> rng, stock = np.random.default_rng(0), np.full(1000, 9.0)
    >>> watch = DemandWatch()
    >>> watch.observe(np.minimum(rng.exponential(1.0, 1000), stock), stock)
    >>> watch.noticed is None
    True
    >>> watch.observe(np.minimum(rng.exponential(2.0, 1000), stock), stock)
    >>> watch.noticed, watch.change_step
    ('change', 991)
    """

    saved = parts(
        first=each(float), size=optional(float), skipped=int, before=int, follows=shaped(3, 2),
        recent=shaped(-1), after_recent=shaped(RECENT + 1, 2), of_week=shaped(WEEK, 2),
        bins=shaped(MOST_BINS, 2), bin_steps=int, steps=int,
    )  # fmt: skip

    def __init__(self) -> None:
        self._first: list[float] = []
        self._size: float | None = None
        self._skipped = 0
        self._before = _HIDDEN
        self._follows = np.zeros((3, 2), dtype=np.int64)
        self._recent = np.empty(0, dtype=np.int64)
        self._after_recent = np.zeros((RECENT + 1, 2), dtype=np.int64)
        self._of_week = np.zeros((WEEK, 2), dtype=np.int64)
        self._bins = np.zeros((MOST_BINS, 2), dtype=np.int64)
        self._bin_steps = FIRST_BIN
        self._steps = 0

    def observe(self, sales: Array, stock: Array) -> None:
        """Add steps: the sales, and the stock that was available."""
        if self._size is None:
            taken = self._choose_size(sales)
            self._skipped += taken
            sales, stock = sales[taken:], stock[taken:]
        if self._size is None or not sales.size:
            return
        seen, reached = stock >= self._size, sales >= self._size
        codes = np.where(seen, reached, _HIDDEN).astype(np.int64)
        before = np.append(self._before, codes[:-1])
        pairs = np.bincount(2 * before[seen] + codes[seen], minlength=6)
        self._follows += pairs.reshape(3, 2)
        self._before = int(codes[-1])
        self._count_recent(codes[seen])
        places = (self._steps + np.flatnonzero(seen)) % WEEK
        self._of_week += np.bincount(2 * places + codes[seen], minlength=2 * WEEK).reshape(WEEK, 2)
        self._fill_bins(codes)

    def _choose_size(self, sales: Array) -> int:
        """Set c once there are enough positive sales; return how many steps were used for it."""
        positive = np.flatnonzero(sales > 0)[: FIRST_SALES - len(self._first)]
        self._first += sales[positive].tolist()
        if len(self._first) < FIRST_SALES:
            return sales.size
        self._size = sorted(self._first)[FIRST_SALES // 2]
        return int(positive[-1]) + 1

    def _count_recent(self, seen: NDArray[np.int64]) -> None:
        """Count indicators by the sum of the last ``RECENT`` indicators before them."""
        codes = np.append(self._recent, seen)
        if codes.size > RECENT:
            upto = np.append(0, codes.cumsum())
            cells = 2 * (upto[RECENT:-1] - upto[: -RECENT - 1]) + codes[RECENT:]
            counts = np.bincount(cells, minlength=2 * RECENT + 2)
            self._after_recent += counts.reshape(RECENT + 1, 2)
        self._recent = codes[-RECENT:]

    def _fill_bins(self, codes: NDArray[np.int64]) -> None:
        while codes.size:
            room = MOST_BINS * self._bin_steps - self._steps
            part, codes = codes[:room], codes[room:]
            places = (self._steps + np.arange(part.size)) // self._bin_steps
            cells = (2 * places + part)[part != _HIDDEN]
            self._bins += np.bincount(cells, minlength=2 * MOST_BINS).reshape(MOST_BINS, 2)
            self._steps += part.size
            if part.size == room:
                self._bins[: MOST_BINS // 2] = self._bins[0::2] + self._bins[1::2]
                self._bins[MOST_BINS // 2 :] = 0
                self._bin_steps *= 2

    @property
    def dependence(self) -> float:
        """Logarithm of the evidence that demand depends on past demand."""
        models = (self._follows, self._after_recent, self._of_week)
        each = [float(_mixed(counts).sum()) - _at_best(counts.sum(axis=0)) for counts in models]
        return float(np.logaddexp.reduce(each)) - math.log(len(models))

    @property
    def change(self) -> float:
        """Logarithm of the evidence that demand has changed once."""
        return float(np.logaddexp.reduce(self._splits()))

    @property
    def change_step(self) -> int:
        """Estimate of the last step before the change, if there was one."""
        return self._skipped + self._bin_steps * (1 + int(np.argmax(self._splits())))

    def _splits(self) -> Array:
        """Logarithm of the evidence of a change after each bin, times its prior probability."""
        upto = self._bins.cumsum(axis=0)
        total = upto[-1]
        # The prior probabilities of all bin lengths and places sum to 1, so restricting the sum
        # to the present bins keeps the ratio below a martingale.
        longer = (self._bin_steps // FIRST_BIN).bit_length()
        prior = 1 / (longer * (longer + 1) * MOST_BINS)
        evidence = _mixed(upto) + _mixed(total - upto) - _at_best(total)
        return np.asarray(evidence + math.log(prior))

    @property
    def noticed(self) -> Kind | None:
        """The assumption that fails, by the larger evidence, if that is significant."""
        dependence, change = self.dependence, self.change
        if max(dependence, change) < math.log(2 / FALSE_ALARM):
            return None
        return "change" if change >= dependence else "dependence"

    @property
    def warning(self) -> str | None:
        """The assumption that fails, in words."""
        match self.noticed:
            case "change":
                return (
                    f"{CHANGED} around step {_about(self.change_step)}: what "
                    "was learned before no longer holds. Learn anew from there."
                )
            case "dependence":
                return (
                    f"{DEPENDS}: standard errors and the estimates for lost sales assume "
                    "independent demand, so they claim more precision than they have."
                )
        return None


def _mixed(counts: Counts) -> Array:
    """Log-likelihood of counts (..., 2), the probability mixed over Beta(1/2, 1/2)."""
    return np.asarray(betaln(counts[..., 0] + 0.5, counts[..., 1] + 0.5) - betaln(0.5, 0.5))


def _at_best(counts: Counts) -> float:
    """Maximum log-likelihood of two counts."""
    total = max(int(counts.sum()), 1)
    return float(xlogy(counts, counts / total).sum())


def _about(step: int) -> str:
    """A step rounded to two digits, since the estimate is no more precise.

    >>> _about(12_345)
    '12,000'
    """
    return f"{int(float(f'{step:.2g}')):,}"


def edge_warning(
    name: str, ends: tuple[float, float], movable: tuple[bool, bool], best: float, alive: Array
) -> str | None:
    """Warning if the best value of a parameter is an end of its range that could be moved.

    Parameters
    ----------
    name : str. Name of the parameter.
    ends : pair of float. Its range.
    movable : pair of bool. Which ends could be moved outwards.
    best : float. Its value in the estimated best policy.
    alive : array. Its values in all policies that may still be best.

    Examples
    --------
    >>> text = edge_warning("level", (0, 5), (False, True), 5.0, np.array([4.8, 4.9, 5.0]))
    >>> text.split(": ")[1]
    "5 is the highest level. A higher 'high' may hold a better one."
    >>> edge_warning("level", (0, 5), (False, True), 5.0, np.array([3.0, 5.0])) is None
    True
    """
    reach = EDGE * (ends[1] - ends[0])
    if not reach:
        return None
    sides = (("lowest", "lower", "low"), ("highest", "higher", "high"))
    for end, can_move, (most, more, key) in zip(ends, movable, sides, strict=True):
        if can_move and best == end and float(np.abs(alive - end).max()) <= reach:
            return (
                f"{AT_EDGE}: {end:.10g} is the {most} {name}. "
                f"A {more} '{key}' may hold a better one."
            )
    return None


def edge_warnings(problem: Problem, best: Policy, surviving: Array) -> tuple[str, ...]:
    """Warnings about ends of ranges, given the estimated best policy and all survivors."""
    policies = problem.policy_class
    texts = (
        edge_warning(
            name, policies.ends(axis), problem.can_widen(axis), best[axis], surviving[:, axis]
        )
        for axis, name in enumerate(policies.names)
    )
    return tuple(text for text in texts if text is not None)
