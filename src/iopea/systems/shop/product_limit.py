"""Product-limit estimate of the demand distribution from censored sales, and imputed demand.

Where sales are below the stock, they are the demand. Where the shop was sold out, demand was at
least the stock. The stock is known before demand, so censoring is independent of demand, and the
Kaplan-Meier estimator is consistent on the range that the stock has reached.

In compiled code the observed values of demand are numbered in ascending order. ``seen`` counts the
observations of each value, ``gone`` the periods that were sold out at or below it since the value
before.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from iopea.seeds import seed_for
from iopea.types import Array, Indices, Mask

#: Tolerance within which stock and demand are equal, as a share of the largest sales: an order
#: replaces what was sold, so the two are often equal up to rounding.
ROUNDING = 1e-9


@njit(cache=True, nogil=True, error_model="numpy")
def _accumulate(seen, gone, unseen, below):  # type: ignore[no-untyped-def]
    at_risk = seen.sum() + gone.sum()
    left, total = 1.0, 0.0
    below[0] = 0.0
    for k in range(seen.shape[0]):
        at_risk -= gone[k]
        if seen[k] > 0:
            in_all = at_risk + unseen[k]
            after = left * ((in_all - seen[k]) / in_all)
            total += left - after
            left = after
            at_risk -= seen[k]
        below[k + 1] = total
    return left


def accumulate(seen: Indices, gone: Indices, unseen: Array | None = None) -> tuple[Array, float]:
    """Probabilities of demand below each value, then up to the last; and that of larger demand.

    ``seen`` has an entry for each value, ``gone`` one more: periods sold out above all values.
    ``unseen`` is a number of periods for each value that are taken to have had larger demand.

    >>> accumulate(np.array([1, 1]), np.array([0, 1, 1]))
    (array([0.   , 0.25 , 0.625]), 0.375)
    >>> accumulate(np.array([1, 1]), np.array([0, 0, 0]), np.array([0.0, 1.0]))
    (array([0.  , 0.5 , 0.75]), 0.25)
    """
    below = np.empty(seen.size + 1)
    unseen = np.zeros(seen.size) if unseen is None else unseen
    return below, float(_accumulate(seen, gone, unseen, below))


@njit(cache=True, nogil=True, error_model="numpy")
def _draw(below, beyond, values, places, shares, drawn):  # type: ignore[no-untyped-def]
    count = values.shape[0]
    last = count  # the highest value of positive probability
    while last > 0 and below[last] <= below[last - 1]:
        last -= 1
    highest = np.inf if beyond > 0 or last == 0 else values[last - 1]
    # Guide table: for each of count + 1 equal parts of [0, 1], where the search begins.
    parts = count + 1
    guide = np.empty(parts, np.int32)
    part = 0
    for k in range(count):
        while part < parts and part < below[k + 1] * parts:
            guide[part] = k
            part += 1
    guide[part:] = count
    for i in range(places.shape[0]):
        base = below[places[i]]
        target = base + shares[i] * (below[count] + beyond - base)
        k = guide[min(int(target * parts), parts - 1)]
        while k > 0 and below[k] > target:
            k -= 1
        while k < count and below[k + 1] <= target:
            k += 1
        drawn[i] = values[k] if k < count else highest


def draw(below: Array, beyond: float, values: Array, places: Indices, shares: Array) -> Array:
    """Draw from the distribution, given that demand is at least the value with this number.

    A draw is the quantile of the conditional distribution at its share. It is infinite beyond all
    values; if there is no probability beyond, it is at most the highest value.

    >>> draw(np.array([0.0, 0.5, 1.0]), 0.0, np.array([3.0, 4.0]), np.array([0, 0, 1]),
    ...      np.array([0.4, 0.6, 0.1]))
    array([3., 4., 4.])
    """
    drawn = np.empty(places.size)
    _draw(below, beyond, values, places, shares, drawn)
    return drawn


class ProductLimit:
    """Estimated demand distribution; the probability beyond all observations is at infinity.

    Parameters
    ----------
    sales : array. Sales of each period.
    sold_out : bool array. Whether the period sold out, so that demand is censored.

    Examples
    --------
    >>> law = ProductLimit(np.array([1.0, 2.0, 2.0, 3.0]), np.array([False, True, False, False]))
    >>> law.values, law.probabilities.round(4)
    (array([1., 2., 3.]), array([0.25 , 0.375, 0.375]))
    """

    def __init__(self, sales: Array, sold_out: Mask) -> None:
        self._sales, self._sold_out = sales, sold_out
        self._seen, places = np.unique(sales[~sold_out], return_inverse=True)
        self._places = np.empty(sales.size, dtype=np.intp)
        self._places[~sold_out] = places
        # A period sold out at a value is informative only about values below it.
        limits = sales[sold_out] - ROUNDING * sales.max(initial=0.0)
        self._places[sold_out] = np.searchsorted(self._seen, limits, side="left")
        self._counts = self._count(slice(None))
        self._below, self.beyond = accumulate(*self._counts)

    def _count(self, periods: slice) -> tuple[Indices, Indices]:
        """Number of observations of each value, and of periods censored below it."""
        places, sold_out = self._places[periods], self._sold_out[periods]
        number = self._seen.size
        seen = np.bincount(places[~sold_out], minlength=number)
        return seen, np.bincount(places[sold_out], minlength=number + 1)

    @property
    def values(self) -> Array:
        """Values of positive probability, ascending; infinity stands beyond all observations."""
        values = self._seen[np.diff(self._below) > 0]
        return np.append(values, np.inf) if self.beyond else values

    @property
    def probabilities(self) -> Array:
        """Their probabilities."""
        probabilities = np.diff(self._below)
        probabilities = probabilities[probabilities > 0]
        return np.append(probabilities, self.beyond) if self.beyond else probabilities

    def means(self, most: Array, without: slice | None = None) -> Array:
        """Means of demand, where more than each of ``most`` counts as that much.

        The distribution is estimated from all periods except those in ``without``.

        >>> law = ProductLimit(np.array([1.0, 2.0, 3.0]), np.array([False, False, True]))
        >>> law.means(np.array([1.5, 3.0])), law.means(np.array([3.0]), without=slice(0, 1))
        (array([1.33333333, 2.        ]), array([2.5]))
        """
        below, beyond = self._without(without)
        place = np.searchsorted(self._seen, most, side="right")
        up_to = np.append(0.0, np.cumsum(np.diff(below) * self._seen))[place]
        return np.asarray(up_to + most * (below[-1] + beyond - below[place]))

    def survival(self, sizes: Array) -> tuple[Array, Array]:
        """Probabilities that demand is at least each size, and that it is more.

        >>> law = ProductLimit(np.array([1.0, 2.0, 2.0, 3.0]), np.zeros(4, dtype=bool))
        >>> law.survival(np.array([2.0, 2.5]))
        (array([0.75, 0.25]), array([0.25, 0.25]))
        """
        nearly = ROUNDING * self._sales.max(initial=0.0)
        below = np.searchsorted(self._seen, sizes - nearly, side="left")
        up_to = np.searchsorted(self._seen, sizes + nearly, side="right")
        return 1.0 - self._below[below], 1.0 - self._below[up_to]

    def _without(self, periods: slice | None) -> tuple[Array, float]:
        """Cumulative probabilities from all periods except some."""
        if periods is None:
            return self._below, self.beyond
        seen, gone = self._count(periods)
        return accumulate(self._counts[0] - seen, self._counts[1] - gone)

    def at_least(self, limits: Array, shares: Array) -> Array:
        """Quantiles, at these shares, of demand conditional on being at least the limits.

        >>> law = ProductLimit(np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(4, dtype=bool))
        >>> law.at_least(np.array([0.0, 3.0, 3.0, 9.0]), np.array([0.6, 0.2, 0.8, 0.5]))
        array([3., 3., 4., 9.])
        """
        places = np.searchsorted(self._seen, limits, side="left")
        drawn = draw(self._below, self.beyond, self._seen, places, shares)
        return np.maximum(drawn, limits)

    def demand(self, shares: Array, without: slice | None = None) -> Array:
        """Demand of all periods, imputed at these quantiles where the shop was sold out.

        The distribution is estimated from all periods except those in ``without``.

        >>> law = ProductLimit(np.array([2.0, 1.0, 3.0]), np.array([False, True, False]))
        >>> law.demand(np.full(3, 0.4)), law.demand(np.full(3, 0.4), without=slice(0, 1))
        (array([2., 2., 3.]), array([2., 3., 3.]))
        """
        below, beyond = self._without(without)
        unknown = np.flatnonzero(self._sold_out)
        drawn = draw(below, beyond, self._seen, self._places[unknown], shares[unknown])
        demand = self._sales.copy()
        demand[unknown] = np.maximum(drawn, self._sales[unknown])
        return demand


def shares_of(periods: int) -> Array:
    """Quantiles at which demand of each period is imputed; they don't depend on later periods."""
    return np.random.Generator(np.random.PCG64(seed_for("imputation"))).random(periods)
