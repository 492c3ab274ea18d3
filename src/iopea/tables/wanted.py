"""What may have been wanted in periods that sold out: readings of a history for a backtest.

Where demand was censored, the cost of another stock than that of the history is not a fact. It is
computed on several readings: nothing more was wanted than sold; so many draws of what may have been
wanted, given that it was at least what was sold; and a high quantile of it. A draw is from a
negative binomial law whose calendar and size come from other items alone (the items are divided
into folds), so that no policy is judged by its own law; only the scale is the item's own.

A period that tells nothing of demand had at least its sales, or any demand if these are unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from iopea.seeds import seed_for
from iopea.tables.item import Item
from iopea.tables.outlook import Outlook, terms_of
from iopea.tables.reading import Clock
from iopea.tables.scaled import best_mean, fit_scaled
from iopea.types import Array, Indices, Mask

#: Parts into which the items are divided, and items of which a size is the median.
_FOLDS, _NEAR = 5, 25
#: Most items whose sizes are fitted.
_MOST = 300
#: Rounds in which the scale of an item is fitted, and the size if there are no other items.
_ROUNDS, _USUAL_SIZE = 20, 2.0
#: The high quantile of what may have been wanted.
HIGH = 0.95


@dataclass(frozen=True)
class Scored:
    """The periods of an item on which policies are scored.

    Attributes
    ----------
    periods : array. Without gaps.
    least : array. What was wanted at least: the sales, 0 where they are unknown.
    open : bool array. Whether more may have been wanted.
    """

    periods: Indices
    least: Array
    open: Mask


@dataclass(frozen=True)
class Model:
    """What other items tell of an item's demand, by fold.

    Attributes
    ----------
    fold : dict. The fold of each item.
    calendars : tuple of Outlook. Of the items of all other folds.
    laws : tuple of arrays (2, n). Logarithms of their means and sizes, by ascending mean.
    """

    fold: Mapping[str, int]
    calendars: tuple[Outlook, ...]
    laws: tuple[Array, ...]

    def readings(self, item: Item, scored: Scored, number: int) -> Array:
        """What was wanted: nothing more, so many draws, and a high quantile: (number + 2, n)."""
        found = np.tile(scored.least, (number + 2, 1))
        at = np.flatnonzero(scored.open)
        if not at.size:
            return found
        rng = np.random.default_rng(seed_for("wanted", item.name))
        shares = np.vstack([rng.random((number, at.size)), np.full(at.size, HIGH)])
        place = self.fold[item.name]
        calendar, laws = self.calendars[place], self.laws[place]
        factors = calendar.factors(item, item.periods)
        counts = np.floor(item.counts)
        ones, size = np.ones(counts.size), _USUAL_SIZE
        mean = max(float(counts.sum()), 0.5) / float(factors.sum())
        for _ in range(2):
            size = _size_near(laws, mean)
            mean = best_mean(counts, item.censored, factors, ones, mean, size, _ROUNDS)
        ahead = mean * calendar.factors(item, scored.periods[at])
        least = scored.least[at] / item.unit
        drawn = np.empty(shares.shape)
        _draw(np.ceil(least - 1e-9), ahead, size, shares, drawn)
        drawn *= item.unit
        found[1:, at] = np.maximum(np.round(drawn) if item.whole else drawn, scored.least[at])
        return found


def _size_near(laws: Array, mean: float) -> float:
    """The median size of the items whose means are nearest."""
    means, sizes = laws
    if not means.size:
        return _USUAL_SIZE
    place = int(np.searchsorted(means, math.log(mean)))
    first = min(max(place - _NEAR // 2, 0), max(means.size - _NEAR, 0))
    return float(np.exp(np.median(sizes[first : first + _NEAR])))


@njit(cache=True, nogil=True, error_model="numpy")
def _draw(least, means, size, shares, drawn):  # type: ignore[no-untyped-def]
    """Quantiles of demand, given that it is at least ``least``; columns are periods."""
    for j in range(least.shape[0]):
        share = means[j] / (means[j] + size)
        probability = math.exp(-size * math.log1p(means[j] / size))
        below = 0.0
        for k in range(int(least[j])):
            below += probability
            probability *= share * (k + size) / (k + 1)
        left = 1.0 - below
        for i in range(shares.shape[0]):
            value, chance, upto = least[j], probability, 0.0
            if left > 1e-9:
                while upto + chance <= shares[i, j] * left and chance > 1e-15:
                    upto += chance
                    chance *= share * (value + size) / (value + 1.0)
                    value += 1.0
            drawn[i, j] = value


def fit_model(items: Sequence[Item], clock: Clock) -> Model:
    """Calendars and sizes for each fold, from the items of the others."""
    told = sorted((item for item in items if item.sales.any()), key=lambda item: item.name)
    fold = {item.name: place % _FOLDS for place, item in enumerate(told)}
    asked = Outlook(clock, tuple(terms_of(told, clock)))
    calendars = tuple(
        asked.fitted([item for item in told if fold[item.name] != one]) for one in range(_FOLDS)
    )
    some = told[:: -(-len(told) // _MOST)] if told else []
    laws = np.array(
        [
            fit_scaled(
                np.floor(item.counts), item.censored,
                calendars[fold[item.name]].factors(item, item.periods), np.ones(item.sales.size),
            )
            for item in some
        ]
    ).reshape(-1, 2)  # fmt: skip
    places = np.array([fold[item.name] for item in some])
    each = []
    for one in range(_FOLDS):
        found = np.log(laws[places != one])
        each.append(found[np.argsort(found[:, 0], kind="stable")].T)
    every = {item.name: fold.get(item.name, 0) for item in items}
    return Model(every, calendars, tuple(each))
