"""What a history can tell for certain: how far it reaches, and whether it may be trusted.

The product limit assumes that the stock of a period was chosen independently of its demand. Then
the score of a period, which compares its demand with the law, has mean 0 whatever the stock was and
whatever came before: so its products with the stock, and with earlier scores, add up to martingales
that are about normal. Where one of them is too large, stock was chosen by somebody who knew
something of demand, or demand depends on the demand before it, and nothing is certified.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from iopea.systems.shop.dependence import dependence, scores
from iopea.types import Array, Mask

#: Periods with a stock from which demand up to it counts as known.
FEWEST_PERIODS = 10
#: Fewest periods with sales from which anything is certified.
FEWEST_SALES = 12
#: Share of the squares of all sales from which a single period is too much of them.
_ONE = 0.5
#: Probability that a history which satisfies the assumption is refused.
_REFUSED = 0.01
#: Ways in which one of the sums is too large.
_TAILS = 6


def reach(sales: Array, censored: Mask, stock: Array | None) -> float:
    """The largest stock that enough periods had; infinite where stock seems to have no limit.

    Without known stock, that of periods which were not sold out is estimated by the product limit
    with the roles exchanged: it is seen where it sold out.

    >>> reach(np.full(40, 1.0), np.zeros(40, dtype=bool), np.repeat([5.0, 8.0], [31, 9]))
    5.0
    >>> reach(np.full(40, 1.0), np.zeros(40, dtype=bool), None)
    inf
    """
    if sales.size < FEWEST_PERIODS:
        return 0.0
    if stock is not None:
        return float(np.sort(stock)[-FEWEST_PERIODS])
    order = np.lexsort((~censored, sales))  # a demand seen had more stock than what sold out there
    at_risk = np.arange(sales.size, 0, -1)
    left = np.cumprod(np.where(censored[order], 1 - 1 / at_risk, 1.0))
    above = np.append(1.0, left[:-1]) * sales.size  # periods with at least the stock of each value
    limits = sales[order][censored[order]]
    fits = above[censored[order]] >= FEWEST_PERIODS
    if left[-1] * sales.size >= FEWEST_PERIODS:
        return math.inf
    return float(limits[fits][-1]) if fits.any() else 0.0


def trust(sales: Array, censored: Mask, stock: Array | None, whole: bool) -> str | None:
    """Why a history can't be certified, or None.

    ``whole`` says whether the history has no gaps, so that neighbours follow each other.
    """
    if float((sales**2).sum()) > 0 and float(sales.max()) ** 2 > _ONE * float((sales**2).sum()):
        return (
            "a single period had most of all sales: rare large demand decides, of which little "
            "is known"
        )
    if stock is None:
        return "stock is not known, so whether it was independent of demand can't be tested"
    held = np.where(censored, sales, np.maximum(stock, sales * (1 + 1e-6)))
    limit = float(-ndtri(_REFUSED / _TAILS))
    each = scores(held, sales)
    ranks = rankdata(stock)
    by_stock = each * (ranks - ranks.mean())
    spread = math.sqrt(float(by_stock @ by_stock))
    if spread > 0 and abs(by_stock.sum()) > limit * spread:
        more = "larger" if by_stock.sum() > 0 else "smaller"
        return f"demand was {more} where there was more stock: stock was not chosen independently"
    if whole and dependence(held, sales) > limit:
        return "demand depends on the demand of earlier periods, or changes in time"
    return None
