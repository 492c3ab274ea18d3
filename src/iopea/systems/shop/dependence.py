r"""Signs that demand is not independent from period to period, in censored records.

Each period has a score: 1 - P(D > d) - P(D >= d) if demand was seen to be d, and 1 - P(D >= x) if
a stock of x was sold out, with the product-limit estimate of the probabilities. Whatever the stock
was, a score has mean 0 if demand is independent of the past: the stock is known before the demand.
So the sum of its products with a function of earlier scores is a martingale, and that sum over the
root of the sum of its squares is about normal. It is large where high demand follows high demand,
in the next period or a week later.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from iopea.systems.shop.product_limit import ProductLimit
from iopea.types import Array

#: Weights of earlier scores fall by these factors from period to period: only the last one counts,
#: or about the last ten.
_FADING = (0.0, 0.9)
#: Periods of a week, if they are days.
WEEK = 7


def scores(stock: Array, sales: Array) -> Array:
    """Scores of demand, of mean 0 and between -1 and 1.

    >>> scores(np.array([9.0, 9.0, 2.0, 9.0]), np.array([1.0, 3.0, 2.0, 4.0])).round(3)
    array([-0.75 , -0.125,  0.25 ,  0.625])
    """
    sold_out = sales >= stock
    law = ProductLimit(sales, sold_out)
    at_least, more = law.survival(np.where(sold_out, stock, sales))
    return np.where(sold_out, 1 - at_least, 1 - at_least - more)


@njit(cache=True, nogil=True)
def _standardised(scores, fading):  # type: ignore[no-untyped-def]
    before, total, squares = 0.0, 0.0, 0.0
    for score in scores:
        total += score * before
        squares += (score * before) ** 2
        before = fading * before + score
    return total / np.sqrt(squares) if squares > 0.0 else 0.0


@njit(cache=True, nogil=True)
def _standardised_after(scores, lag):  # type: ignore[no-untyped-def]
    total, squares = 0.0, 0.0
    for i in range(lag, scores.shape[0]):
        total += scores[i] * scores[i - lag]
        squares += (scores[i] * scores[i - lag]) ** 2
    return total / np.sqrt(squares) if squares > 0.0 else 0.0


def dependence(stock: Array, sales: Array) -> float:
    """The largest of three standardised sums of products of scores; about normal, each.

    They have each score times the one before it, times a fading sum of those before it, and times
    that of a week before. In the first, low demand after high demand counts as well.

    >>> waves = np.repeat([1.0, 5.0, 2.0, 7.0], 8)
    >>> round(dependence(np.full(32, 9.0), waves), 1)
    3.9
    >>> weeks = np.tile([2.0, 4.0, 1.0, 5.0, 3.0, 1.0, 7.0], 6)
    >>> round(dependence(np.full(42, 9.0), weeks), 1)
    4.6
    """
    each = scores(stock, sales)
    last, several = (float(_standardised(each, fading)) for fading in _FADING)
    return max(abs(last), several, float(_standardised_after(each, WEEK)))
