"""The product-limit law of demand from censored sales, and demand filled in from it.

Where sales are below the stock, they are the demand. Where the shop was sold out, demand was at
least the stock. The stock is known before demand, so censoring tells nothing of it, and the
estimator of Kaplan and Meier is consistent on the range that the stock has reached. It comes from
SciPy, which takes a censored value to mean more than that value; sold out means at least, so
censored values are passed on as the next smaller number.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import CensoredData, ecdf

from iopea.types import Array, Mask


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
        censored = np.nextafter(sales[sold_out], -np.inf)
        survival = ecdf(CensoredData(uncensored=sales[~sold_out], right=censored)).sf
        drops = -np.diff(survival.probabilities, prepend=1.0)
        seen = drops > 0
        self.values: Array = np.asarray(survival.quantiles[seen])
        self.probabilities: Array = np.asarray(drops[seen])
        # Of demand beyond all that was ever seen, only the probability is known.
        beyond = 1.0 - float(self.probabilities.sum())
        self.beyond = beyond if beyond > np.finfo(np.float64).eps * sales.size else 0.0
        if not self.values.size or self.beyond:
            self.values = np.append(self.values, np.inf)
            self.probabilities = np.append(self.probabilities, beyond)

    def at_least(self, limits: Array, shares: Array) -> Array:
        """Demand known to be at least the limits, at these shares of the law's remainder.

        >>> law = ProductLimit(np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(4, dtype=bool))
        >>> law.at_least(np.array([0.0, 3.0, 3.0, 9.0]), np.array([0.6, 0.2, 0.8, 0.5]))
        array([3., 3., 4., 9.])
        """
        below = np.concatenate([[0.0], np.cumsum(self.probabilities)])
        base = below[np.searchsorted(self.values, limits, side="left")]
        targets = base + shares * (below[-1] - base)
        places = np.searchsorted(below[1:], targets, side="right")
        drawn = self.values[np.minimum(places, self.values.size - 1)]
        return np.asarray(np.maximum(drawn, limits))
