"""The product-limit law of demand from censored sales, and demand filled in from it.

Where sales are below the stock, they are the demand. Where the shop was sold out, demand was at
least the stock. The stock is known before demand, so censoring tells nothing of it, and the
estimator of Kaplan and Meier is consistent on the range that the stock has reached.
"""

from __future__ import annotations

import numpy as np

from iopea.seeds import seed_for
from iopea.systems.shop import product_limit_kernel as kernels
from iopea.types import Array, Indices, Mask

#: Share of the largest sales by which a stock may differ from demand that it equals: an order
#: replaces what was sold, so that the two are often the same but for rounding.
ROUNDING = 1e-9


class ProductLimit:
    """The law of demand by all sales so far; what was never seen counts as infinite demand.

    Parameters
    ----------
    sales : array. What was sold in each period.
    sold_out : bool array. Whether nothing was left.

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
        # Sold out at a value, a period tells of the values below it alone.
        limits = sales[sold_out] - ROUNDING * sales.max(initial=0.0)
        self._places[sold_out] = np.searchsorted(self._seen, limits, side="left")
        self._counts = self._count(slice(None))
        self._below, self.beyond = kernels.accumulate(*self._counts)

    def _count(self, periods: slice) -> tuple[Indices, Indices]:
        """How often each value was seen, and before which value periods tell no more."""
        places, sold_out = self._places[periods], self._sold_out[periods]
        number = self._seen.size
        seen = np.bincount(places[~sold_out], minlength=number)
        return seen, np.bincount(places[sold_out], minlength=number + 1)

    @property
    def values(self) -> Array:
        """Values of positive probability, ascending; infinity for what lies beyond all seen."""
        values = self._seen[np.diff(self._below) > 0]
        return np.append(values, np.inf) if self.beyond else values

    @property
    def probabilities(self) -> Array:
        """Their probabilities."""
        probabilities = np.diff(self._below)
        probabilities = probabilities[probabilities > 0]
        return np.append(probabilities, self.beyond) if self.beyond else probabilities

    def at_least(self, limits: Array, shares: Array) -> Array:
        """Demand known to be at least the limits, at these shares of the law's remainder.

        >>> law = ProductLimit(np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(4, dtype=bool))
        >>> law.at_least(np.array([0.0, 3.0, 3.0, 9.0]), np.array([0.6, 0.2, 0.8, 0.5]))
        array([3., 3., 4., 9.])
        """
        places = np.searchsorted(self._seen, limits, side="left")
        drawn = kernels.draw(self._below, self.beyond, self._seen, places, shares)
        return np.maximum(drawn, limits)

    def demand(self, shares: Array, without: slice | None = None) -> Array:
        """Demand of all periods, filled in at these shares where the shop was sold out.

        The law is that of all periods, or of those that are not left out.

        >>> law = ProductLimit(np.array([2.0, 1.0, 3.0]), np.array([False, True, False]))
        >>> law.demand(np.full(3, 0.4)), law.demand(np.full(3, 0.4), without=slice(0, 1))
        (array([2., 2., 3.]), array([2., 3., 3.]))
        """
        below, beyond = self._below, self.beyond
        if without is not None:
            seen, gone = self._count(without)
            below, beyond = kernels.accumulate(self._counts[0] - seen, self._counts[1] - gone)
        unknown = np.flatnonzero(self._sold_out)
        drawn = kernels.draw(below, beyond, self._seen, self._places[unknown], shares[unknown])
        demand = self._sales.copy()
        demand[unknown] = np.maximum(drawn, self._sales[unknown])
        return demand


def shares_of(periods: int) -> Array:
    """Where in the law of demand each period is filled in: the same whatever comes after it."""
    return np.random.Generator(np.random.PCG64(seed_for("imputation"))).random(periods)
