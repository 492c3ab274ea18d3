"""The law of demand of one item, from its sales and what is known of stock-outs.

Up to the largest stock that sold out it is the product limit of all records. Beyond, records say
how much probability is left, not where it lies: there the law is completed by an exponential tail,
geometric for counts, whose mean is that of a negative binomial law fitted to all records.

How well the law is known is found by drawing it again: every record gets a random weight, and so
does one more, which is taken to be sold out at the largest value (a Bayesian bootstrap). It stands
for demand that has not come yet.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from iopea.systems.shop.tally import strata
from iopea.tables.counts import fit_counts, mean_excess
from iopea.types import Array, Indices, Mask

#: Cells in which demand is counted for the negative binomial fit, if it has many values.
_CELLS = 512
#: The mean of a tail is drawn anew from this share of the records, and at least so many.
_UPPER, _FEW = 0.3, 10
#: Events of the fitted tail that are added to those of a draw.
_EVENTS = 2.0
#: Least mean of a tail, as a share of a count or of a cell.
_LEAST_EXCESS = 0.05


@njit(cache=True, nogil=True, error_model="numpy")
def _draw(values, seen, weights, shares, order, usual, count, excess, varied, drawn, means):  # type: ignore[no-untyped-def]
    """Quantiles of the law for each row of weights; its last entry is the record to come.

    ``excess`` is the mean of the tail of the records as they are, whose weights are ``usual``; the
    quantile at ``shares[i]`` is written to place ``order[i]``.
    """
    number = values.shape[0]
    total = usual.sum()
    upper, first = 0.0, number - 1
    enough = min(max(float(_FEW), _UPPER * total), total)
    while first > 0 and upper + usual[first] < enough:
        upper += usual[first]
        first -= 1
    lower = values[first]
    while first > 0 and values[first - 1] == lower:
        first -= 1
    met, ended = 0.0, 0.0
    for i in range(first, number):
        met += usual[i] * (values[i] - lower)
        ended += usual[i] * seen[i]
    plain = met / ended if ended > 0 else np.inf
    known = plain > 0 and plain < np.inf
    for k in range(weights.shape[0]):
        met, ended = _EVENTS * plain, _EVENTS
        if known:
            for i in range(first, number):
                met += weights[k, i] * (values[i] - lower)
                ended += weights[k, i] * seen[i]
        # Beyond all stock the fit may be wrong however many records there are: the record to come
        # says how far on.
        mean = excess * (met / ended / plain if known else 1.0)
        if varied:
            mean *= 0.5 + 0.5 * weights[k, number]
        at_risk = weights[k].sum()
        left, place, sum_ = 1.0, 0, 0.0
        for i in range(number):
            if seen[i]:
                left *= max(at_risk - weights[k, i], 0.0) / at_risk
                while place < shares.shape[0] and shares[place] < 1.0 - left:
                    drawn[k, order[place]] = values[i]
                    sum_ += values[i]
                    place += 1
            at_risk -= weights[k, i]
        while place < shares.shape[0]:
            rest = min((1.0 - shares[place]) / max(left, 1e-300), 1.0)
            more = -mean * math.log(rest)
            if count > 0:
                more = count * math.floor(math.log(rest) / math.log(mean / (mean + count)))
            more += values[number - 1]
            drawn[k, order[place]] = more
            sum_ += more
            place += 1
        means[k] = sum_ / shares.shape[0]


class ItemLaw:
    """The law of demand of an item.

    Parameters
    ----------
    sales : array. Sales of the periods that tell of demand.
    censored : bool array. Whether demand may have been more.
    weights : array, optional. The weight of each record, at most 1; by default, all have 1.
    whole : bool, optional. Whether demand comes in whole units; seen from the sales by default.

    Examples
    --------
    >>> law = ItemLaw(np.array([3.0, 5.0, 5.0, 1.0]), np.array([False, True, False, False]))
    >>> law.quantiles(4)
    array([1., 3., 5., 7.])
    """

    def __init__(
        self,
        sales: Array,
        censored: Mask,
        weights: Array | None = None,
        whole: bool | None = None,
    ) -> None:
        order = np.lexsort((censored, sales))
        values, out = sales[order], censored[order]
        new = np.append(True, (np.diff(values) != 0) | (np.diff(out.astype(np.int8)) != 0))
        # Equal records are counted together.
        self._first = np.flatnonzero(new)
        self._each = np.ones(sales.size) if weights is None else weights[order]
        self._values, self._seen = values[self._first], ~out[self._first]
        self._weights = np.add.reduceat(self._each, self._first)
        #: Whether demand comes in whole units.
        self.whole = bool((sales == np.floor(sales)).all()) if whole is None else whole
        self._excess = self._tail()

    @property
    def number(self) -> float:
        """The number of records, by weight."""
        return float(self._weights.sum())

    @property
    def largest(self) -> float:
        """The largest sales."""
        return float(self._values[-1])

    @property
    def unit(self) -> float:
        """The least difference of two amounts that matters: 1 for counts."""
        return 1.0 if self.whole else self._cell

    @property
    def censored(self) -> float:
        """The share of the records that sold out, by weight."""
        return float(self._weights @ ~self._seen / self._weights.sum())

    @property
    def unseen(self) -> float:
        """The probability that more is wanted than was ever in stock, by the product limit."""
        at_risk = np.cumsum(self._weights[::-1])[::-1]
        return float(np.prod(np.where(self._seen, 1 - self._weights / at_risk, 1.0)))

    @property
    def _cell(self) -> float:
        cells = max(self.largest, 1e-300) / _CELLS
        return max(1.0, math.ceil(cells)) if self.whole else cells

    def _tail(self) -> float:
        """Mean of what exceeds the largest value."""
        cell = self._cell
        places = np.floor(self._values / cell + 1e-9).astype(np.intp)
        number = int(places[-1]) + 1
        seen, gone = (
            np.bincount(places[some], self._weights[some], number).astype(np.float64)
            for some in (self._seen, ~self._seen)
        )
        mean, size = fit_counts(seen, gone)
        excess = mean_excess(mean, size, number - 1)
        if not excess > _LEAST_EXCESS:
            excess = _LEAST_EXCESS
        return excess * cell

    def quantiles(self, number: int, order: Indices | None = None) -> Array:
        """The law as that many equally likely values, ascending, or in this order.

        The share of records that sold out is the weight of one more record, sold out at the largest
        value: where most sell out, few tell of large demand.
        """
        weights = np.append(self._weights, self.censored)
        order = np.arange(number) if order is None else order
        drawn, _ = self._drawn(weights[None], order, False)
        return np.asarray(drawn[0])

    def redrawn(self, draws: int, order: Indices, rng: np.random.Generator) -> tuple[Array, Array]:
        """Other laws that the records allow, as rows of values in this order; and their means."""
        each = rng.standard_exponential((draws, self._each.size + 1))
        each[:, :-1] *= self._each
        weights = np.add.reduceat(each, np.append(self._first, self._each.size), 1)
        return self._drawn(weights, order, True)

    def _drawn(self, weights: Array, order: Indices, varied: bool) -> tuple[Array, Array]:
        drawn, means = np.empty((len(weights), order.size)), np.empty(len(weights))
        _draw(
            self._values, self._seen, weights, strata(order.size), order, self._weights,
            1.0 if self.whole else 0.0, self._excess, varied, drawn, means,
        )  # fmt: skip
        return drawn, means
