r"""Demand distributions: the demand of each period before censoring.

From a draw :math:`X` of the distribution, demand is :math:`D = B \min(\max(X, 0), M)`, where
:math:`M` is the ``maximum`` and :math:`B` is 0 with probability ``zero_probability`` and 1
otherwise. A :class:`Demand` holds parameters; a :class:`DemandStream` made from it holds the random
generators.
"""

from __future__ import annotations

import csv
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray
from pydantic import Field, model_validator
from scipy.special import betainc, betaincc, gammainc, gammaincc, ndtr

from iopea.errors import InputError, shown, shown_path, unknown
from iopea.model import (
    Model,
    NonNegative,
    Number,
    Positive,
    Probability,
    check_choice,
    check_file,
    number_in,
)
from iopea.state import Noise, Stateful, parts
from iopea.types import Array

Size = Annotated[Positive, Field(ge=1e-9, le=1e9)]  # so that no distribution overflows
NO_DEMAND_ABOVE = 1e100  # stands for an infinite maximum: no distribution below reaches it
POISSON_RATIO = 1e9  # above this ratio of size to mean, a negative binomial is drawn as Poisson

# A stream's generators use the last two children of its seed, so that the first ones, which
# seed.spawn() returns, stay free for other uses.
_LAW_CHILD, _ZERO_CHILD = 2**32 - 1, 2**32 - 2
#: Standard deviations that a normal mean may lie below 0: one draw in 740 is above it then.
_SELDOM = 3.0


class Demand(Model, ABC):
    """A demand distribution; its subclasses are in :data:`LAWS`.

    Parameters
    ----------
    maximum : float, optional
        The largest possible demand [M]; larger draws are reduced to it.
    zero_probability : float
        Probability that demand is set to 0 in a period, whatever was drawn.
    """

    distribution: ClassVar[str]
    maximum: NonNegative | None = None
    zero_probability: Probability = 0.0

    def stream(self, seed: SeedSequence) -> DemandStream:
        """Start a sequence of draws; the same seed always gives the same sequence."""
        return DemandStream(self, seed)

    def table(self) -> dict[str, object]:
        """The ``[demand]`` table from which :func:`demand_from` makes this distribution.

        >>> Poisson(mean=3, maximum=8).table()
        {'distribution': 'poisson', 'maximum': 8.0, 'mean': 3.0}
        """
        fields = self.model_dump(mode="json", exclude_defaults=True)
        return {"distribution": self.distribution, **fields}

    def mean_demand(self) -> float:
        """Expected demand per period [E D], after the maximum and the added zeros."""
        if self.maximum == 0:
            return 0.0
        limit = NO_DEMAND_ABOVE if self.maximum is None else min(self.maximum, NO_DEMAND_ABOVE)
        return (1 - self.zero_probability) * float(self._mean_up_to(limit))

    def probability_zero(self) -> float:
        """Probability of no demand in a period [P(D = 0)]."""
        atom = 1.0 if self.maximum == 0 else float(self._atom_at_zero())
        return atom + (1 - atom) * self.zero_probability

    @abstractmethod
    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        """Draw X n times in sequence, so that drawing in parts gives the same values."""

    @abstractmethod
    def _mean_up_to(self, limit: float) -> float:
        """E[min(max(X, 0), limit)] for a limit above 0."""

    def _atom_at_zero(self) -> float:
        """P(X <= 0); for a distribution without atoms, 1 if it is always 0 and 0 otherwise."""
        return float(self._mean_up_to(NO_DEMAND_ABOVE) == 0)


class DemandStream(Stateful):
    """Demand drawn in order: drawing a, then b, gives the same bits as drawing a + b."""

    saved = parts(law=Noise, zero=Noise)

    def __init__(self, demand: Demand, seed: SeedSequence) -> None:
        self.demand = demand
        # The zeros have their own generator, since a draw of X may take any number of bits.
        self._law, self._zero = (
            Generator(PCG64(SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, child))))
            for child in (_LAW_CHILD, _ZERO_CHILD)
        )

    def draw(self, n: int) -> Array:
        """Draw the demand of the next n periods."""
        if n < 0:
            raise InputError(
                f"Cannot draw {shown(n)} demands: ask for a whole number of at least 0."
            )
        draws = self.demand._draw(self._law, n).astype(np.float64, copy=False)
        np.clip(draws, 0.0, self.demand.maximum, out=draws)
        if self.demand.zero_probability > 0:
            draws[self._zero.random(n) < self.demand.zero_probability] = 0.0
        return draws


class Exponential(Demand):
    """Exponential demand with a given mean."""

    distribution = "exponential"
    mean: Size

    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        return rng.exponential(self.mean, n)

    def _mean_up_to(self, limit: float) -> float:
        return -self.mean * math.expm1(-limit / self.mean)


class Normal(Demand):
    """Normal demand with negative draws set to 0; mean and sd are those of the draws."""

    distribution = "normal"
    mean: Annotated[Number, Field(ge=-1e9, le=1e9)]
    sd: Size

    @model_validator(mode="after")
    def _some_demand(self) -> Self:
        if self.mean < -_SELDOM * self.sd:
            raise ValueError(
                f"Nearly all normal demand with mean {self.mean:g} and sd {self.sd:g} is below 0, "
                f"and set to 0: give a mean of at least {-_SELDOM * self.sd:g}."
            )
        return self

    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        return rng.normal(self.mean, self.sd, n)

    def _mean_up_to(self, limit: float) -> float:
        ends = (np.array([0.0, limit]) - self.mean) / self.sd
        loss = np.exp(-(ends**2) / 2) / math.sqrt(2 * math.pi) - ends * ndtr(-ends)
        return self.sd * max(0.0, float(loss[0] - loss[1]))

    def _atom_at_zero(self) -> float:
        return float(ndtr(-self.mean / self.sd))


class Uniform(Demand):
    """Uniform demand between low and high."""

    distribution = "uniform"
    low: NonNegative
    high: NonNegative

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"Uniform needs low <= high, not low={self.low}, high={self.high}.")
        return self

    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        return rng.uniform(self.low, self.high, n)

    def _mean_up_to(self, limit: float) -> float:
        if self.low < limit < self.high:
            return limit - (limit - self.low) ** 2 / (2 * (self.high - self.low))
        return min(limit, self.low / 2 + self.high / 2)


class Gamma(Demand):
    """Gamma demand with a given mean and shape; shape 1 is exponential."""

    distribution = "gamma"
    mean: Size
    shape: Size

    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        return rng.gamma(self.shape, self.mean / self.shape, n)

    def _mean_up_to(self, limit: float) -> float:
        scaled = limit / (self.mean / self.shape)
        below, above = gammainc(self.shape + 1, scaled), gammaincc(self.shape, scaled)
        return float(self.mean * below + limit * above)


class Lognormal(Demand):
    """Lognormal demand; mean and sd are those of the demand, not of its logarithm."""

    distribution = "lognormal"
    mean: Size
    sd: Size

    def _logarithm_mean_sd(self) -> tuple[float, float]:
        variance = math.log1p((self.sd / self.mean) ** 2)
        return math.log(self.mean) - variance / 2, math.sqrt(variance)

    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        return rng.lognormal(*self._logarithm_mean_sd(), n)

    def _mean_up_to(self, limit: float) -> float:
        center, spread = self._logarithm_mean_sd()
        standard = (math.log(limit) - center) / spread
        return float(self.mean * ndtr(standard - spread) + limit * ndtr(-standard))


class Poisson(Demand):
    """Poisson demand."""

    distribution = "poisson"
    mean: Size

    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        return rng.poisson(self.mean, n)

    def _mean_up_to(self, limit: float) -> float:
        whole = np.floor(limit)
        # x P(X = x) = mean P(X = x - 1), and P(X < k) is an incomplete gamma function.
        below, above = gammaincc(whole, self.mean), gammainc(whole + 1, self.mean)
        return float(self.mean * below + limit * above)

    def _atom_at_zero(self) -> float:
        return math.exp(-self.mean)


class Geometric(Demand):
    """Geometric demand on 0, 1, 2, ..."""

    distribution = "geometric"
    mean: Size

    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        return rng.geometric(1 / (1 + self.mean), n) - 1

    def _mean_up_to(self, limit: float) -> float:
        return NegativeBinomial(mean=self.mean, size=1)._mean_up_to(limit)

    def _atom_at_zero(self) -> float:
        return 1 / (1 + self.mean)


class NegativeBinomial(Demand):
    """Negative binomial demand: Poisson with a gamma distributed mean of shape ``size``."""

    distribution = "negative-binomial"
    mean: Size
    size: Size

    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        if self.size > POISSON_RATIO * self.mean:
            return rng.poisson(self.mean, n)
        return rng.negative_binomial(self.size, self.size / (self.size + self.mean), n)

    def _mean_up_to(self, limit: float) -> float:
        size, whole, total = self.size, np.floor(limit), self.size + self.mean
        # x P(X = x) = mean P(Y = x - 1) with Y of size + 1, and P(X < k) is an incomplete beta
        # function of either probability; the smaller one is more precise.
        if self.mean < size:
            probability = self.mean / total
            below, above = (
                betaincc(whole, size + 1, probability),
                betainc(whole + 1, size, probability),
            )
        else:
            probability = size / total
            below, above = (
                betainc(size + 1, whole, probability),
                betaincc(size, whole + 1, probability),
            )
        return float((self.mean * below if whole else 0.0) + limit * above)

    def _atom_at_zero(self) -> float:
        return math.exp(-self.size * math.log1p(self.mean / self.size))


class Empirical(Demand):
    """One of the given values, such as past demand, each with the same probability.

    Instead of ``values``, give the ``file`` (CSV with a header) and the ``column`` they are in;
    both are only used to read the values, and not kept.
    """

    distribution = "empirical"
    values: tuple[NonNegative, ...] = Field(default=(), min_length=1)
    file: Path | None = Field(default=None, repr=False)
    column: str | None = Field(default=None, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _read_file(cls, data: dict[str, Any]) -> dict[str, Any]:
        given = [key for key in ("values", "file", "column") if data.get(key) is not None]
        if given == ["file", "column"]:
            values = _read_column(Path(str(data.pop("file"))), str(data.pop("column")))
            return {**data, "values": values}
        if given != ["values"]:
            names = " and ".join(map(repr, given)) or "none of them"
            raise ValueError(f"Empirical needs 'values', or 'file' and 'column', not {names}.")
        return data

    @cached_property
    def _array(self) -> Array:
        return np.array(self.values)

    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        return self._array[rng.integers(len(self._array), size=n)]

    def _mean_up_to(self, limit: float) -> float:
        return float(np.minimum(self._array, limit).mean())

    def _atom_at_zero(self) -> float:
        return float((self._array == 0).mean())


class Constant(Demand):
    """The same demand in every period."""

    distribution = "constant"
    value: NonNegative

    def _draw(self, rng: Generator, n: int) -> NDArray[Any]:
        return np.full(n, self.value)

    def _mean_up_to(self, limit: float) -> float:
        return min(self.value, limit)


LAWS: dict[str, type[Demand]] = {
    "exponential": Exponential,
    "normal": Normal,
    "uniform": Uniform,
    "gamma": Gamma,
    "lognormal": Lognormal,
    "poisson": Poisson,
    "geometric": Geometric,
    "negative-binomial": NegativeBinomial,
    "empirical": Empirical,
    "constant": Constant,
}


def demand_from(table: Mapping[str, object], directory: Path | None = None) -> Demand:
    """Make a demand distribution from the ``[demand]`` table of a problem file.

    >>> demand_from({"distribution": "uniform", "low": 1, "high": 3}).mean_demand()
    2.0

    Parameters
    ----------
    table : mapping
        ``distribution``, one of :data:`LAWS`, and the keys of that distribution.
    directory : Path, optional
        The folder to which a relative ``file`` refers; the working directory if not given.
    """
    values = dict(table)
    if "distribution" not in values:
        raise InputError(f"A demand needs a 'distribution': one of {', '.join(map(repr, LAWS))}.")
    name = check_choice("distribution", values.pop("distribution"), LAWS)
    if directory is not None and "file" in values:
        values["file"] = directory / str(values["file"])
    return LAWS[name](**values)


def _read_column(path: Path, column: str) -> list[float]:
    """The numbers in one column of a CSV file with a header."""
    name = shown_path(path)
    try:
        check_file(path)
        with path.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.DictReader(lines)
            if column not in (header := reader.fieldnames or [column]):
                raise unknown(f"column of '{name}'", column, header)
            if list(header).count(column) > 1:
                raise InputError(f"'{name}' has {list(header).count(column)} columns {column!r}.")
            values = [
                _cell(row, column, f"Row {reader.line_num} of '{name}'", len(header))
                for row in reader
            ]
    except FileNotFoundError:
        raise InputError(f"There is no file '{name}': give a CSV file with a header.") from None
    except (OSError, UnicodeError, csv.Error) as error:
        raise InputError(f"Cannot read '{name}' as CSV text: {error}.") from None
    if not values:
        raise InputError(f"The column {column!r} of '{name}' is empty: give at least one number.")
    return values


def _cell(row: Mapping[str | None, Any], column: str, place: str, cells: int) -> float:
    """The number in a column of a row, which must have as many cells as the header."""
    found = sum(value is not None for key, value in row.items() if key is not None)
    found += len(row.get(None, ()))
    if found != cells:
        s = "" if found == 1 else "s"
        raise InputError(f"{place} has {found} cell{s}, but the header has {cells}.")
    text = row[column]
    try:
        value: float = number_in(text or "")
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(f"{place} must have a finite number of at least 0, not {shown(text)}.")
    return value
