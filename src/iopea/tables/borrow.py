"""Items with few records borrow from their group.

The laws that were fitted to other items of a group say how far means and sizes of its items lie
apart: means are about lognormal, and sizes are as those found. The prior of an item is the mixture
of the laws that are likely, given this and the item's own records. It enters the product limit as
some extra records; how many is estimated on the group: the first half of each item's records makes
the mixture, and the likelihood of the second half, as that of a Dirichlet process seen with
censoring, says how many records the mixture is worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.special import betaln, logsumexp

from iopea.tables.counts import count_quantiles
from iopea.tables.item import Item
from iopea.tables.scaled import expected, fit_scaled, log_likelihood
from iopea.types import Array, Mask

#: Items with fewer records than this borrow; those with as many are borrowed from. With a memory
#: or a calendar, for which there is no certificate, twice as many, by weight.
FEW = 26
#: Fewest items from which can be borrowed, and most that are looked at.
_FEWEST, _MOST = 5, 60
#: Numbers of records that a mixture may be worth.
_WORTH = (1.0, 3.0, 10.0, 30.0)
#: Places at which a law of the mixture is written down.
_PLACES = 200
#: Sizes of a mixture, its means for each of them, and how many standard deviations these reach.
_SIZES, _MEANS, _REACH = 5, 9, 2.5
#: Least spread of the logarithm of means in a group, and the steps in which the likeliest is found.
_LEAST_SPREAD, _STEPS = 0.1, 12


@njit(cache=True, nogil=True, error_model="numpy")
def _likeliest(counts, censored, factors, weights, size, middle, spread):  # type: ignore[no-untyped-def]
    """The likeliest logarithm of the mean, and its standard deviation, by Fisher's scoring."""
    told = np.empty(counts.shape[0])
    found, precision = middle, spread**-2
    for _ in range(_STEPS):
        mean = math.exp(found)
        expected(counts, censored, factors, mean, size, told)
        slope, info = precision * (middle - found), precision
        for i in range(counts.shape[0]):
            usual = mean * factors[i]
            trust = weights[i] / (1.0 + usual / size)
            slope += trust * (told[i] - usual)
            info += trust * usual
        found += min(max(slope / info, -1.0), 1.0)
    return found, info**-0.5


@dataclass(frozen=True)
class Prior:
    """What a group says of an item about which little is known.

    Attributes
    ----------
    means, sizes : arrays. The laws of its other items, at factor 1.
    worth : float. Records that the mixture of them counts for.
    """

    means: Array
    sizes: Array
    worth: float

    def values(
        self, counts: Array, censored: Mask, factors: Array, weights: Array, target: float
    ) -> Array:
        """The mixture for an item, as equally likely values at factor ``target``."""
        means, sizes, shares = self._mixture(counts, censored, factors, weights)
        places = np.repeat(
            np.arange(shares.size),
            np.diff(np.round(np.cumsum(shares) * _PLACES), prepend=0).astype(int),
        )
        found = [
            count_quantiles(means[k] * target, sizes[k], _evenly(int(number)))
            for k, number in zip(*np.unique(places, return_counts=True), strict=True)
        ]
        return np.sort(np.concatenate(found))

    def _mixture(
        self, counts: Array, censored: Mask, factors: Array, weights: Array
    ) -> tuple[Array, Array, Array]:
        """Means, sizes and probabilities of laws that are likely for an item."""
        logs = np.log(self.means)
        middle, spread = float(logs.mean()), max(float(logs.std(ddof=1)), _LEAST_SPREAD)
        apart = np.linspace(-_REACH, _REACH, _MEANS)
        means, sizes, likely = [], [], []
        for size in np.quantile(self.sizes, _evenly(_SIZES)):
            best, error = _likeliest(counts, censored, factors, weights, size, middle, spread)
            for one in best + error * apart:
                mean = math.exp(one)
                means.append(mean)
                sizes.append(float(size))
                likely.append(
                    log_likelihood(counts, censored, factors, weights, mean, size)
                    - ((one - middle) / spread) ** 2 / 2
                    + math.log(error)
                )
        shares = np.exp(np.array(likely) - logsumexp(likely))
        return np.array(means), np.array(sizes), shares


def borrows(item: Item, weights: Array | None, plain: bool) -> bool:
    """Whether so little is known of an item that it borrows from its group."""
    known = float(item.sales.size if weights is None else weights.sum())
    return known < (FEW if plain else 2 * FEW)


def _evenly(number: int) -> Array:
    return (np.arange(number) + 0.5) / number


def fit_prior(records: Sequence[tuple[Array, Mask, Array, Array]]) -> Prior | None:
    """The prior of a group, from the records of its items that have many.

    Those of an item are counts, censoring, factors and weights.

    None if there are too few of them.

    >>> rng = np.random.default_rng(0)
    >>> items = [rng.poisson(mean, 60).astype(float) for mean in rng.gamma(4, 2, 20)]
    >>> prior = fit_prior([(one, one < 0, np.ones(60), np.ones(60)) for one in items])
    >>> seen = np.array([9.0, 8.0])
    >>> new = prior.values(seen, seen < 0, np.ones(2), np.ones(2), 1.0)
    >>> bool(6 < new.mean() < 11)
    True
    """
    some = records[:: -(-len(records) // _MOST)] if records else []
    if len(some) < _FEWEST:
        return None
    laws = [fit_scaled(*each) for each in some]
    means, sizes = (np.array(column) for column in zip(*laws, strict=True))
    scores = np.zeros(len(_WORTH))
    for k, (counts, censored, factors, _) in enumerate(some):
        others = np.arange(len(some)) != k
        prior = Prior(means[others], sizes[others], 1.0)
        first = min(counts.size // 2, FEW // 2)
        usual = float(factors.mean())
        known = (counts[:first], censored[:first], factors[:first])
        values = prior.values(*known, np.ones(first), usual)
        later = slice(first, 2 * first)
        scores += [_score(values, worth, counts[later], censored[later]) for worth in _WORTH]
    return Prior(means, sizes, _WORTH[int(scores.argmax())])


def _score(values: Array, worth: float, counts: Array, censored: Mask) -> float:
    """Log-likelihood of records under a Dirichlet process around a law of equally likely values.

    Hazards are independent beta variables, so that censored records have a closed form.
    """
    cells = np.unique(np.concatenate([values, counts]))
    mass = np.diff(np.append(np.searchsorted(values, cells), values.size)) + 0.5 / cells.size
    mass = worth * mass / mass.sum()
    beyond = np.cumsum(mass[::-1])[::-1] - mass + 1e-9
    seen = np.bincount(np.searchsorted(cells, counts[~censored]), minlength=cells.size)
    every = np.bincount(np.searchsorted(cells, counts), minlength=cells.size)
    at_risk = np.cumsum(every[::-1])[::-1]
    survived = at_risk - every  # what sold out in a cell is not known to have exceeded it
    return float((betaln(mass + seen, beyond + survived) - betaln(mass, beyond)).sum())
