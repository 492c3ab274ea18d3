"""The truth of a finite Markov decision process: probabilities and mean costs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BeforeValidator, Field, StrictBool, model_validator

from iopea.errors import InputError, shown_path
from iopea.model import Model, check_file, real_numbers
from iopea.types import Array

#: Tolerance for the sum of probabilities.
ROUNDING = 1e-9
#: The arrays of a file.
_NAMES = ("transitions", "costs")


def _nested(value: Any) -> Any:
    """Numbers of any shape as nested lists."""
    try:
        numbers = real_numbers(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("must be numbers, as many in every row.") from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"must be finite numbers, not {numbers[~np.isfinite(numbers)][0]}.")
    return numbers.tolist()


class Dynamics(Model):
    """Transition probabilities and mean costs.

    Parameters
    ----------
    transitions : array (S, A, S). Probabilities of the next state.
    costs : array (S, A). Mean cost of a step.
    bernoulli : bool. Whether a step costs either of the problem's cost bounds, with that mean;
        otherwise it always costs the mean.
    file : path, optional. An ``.npz`` file with both arrays, instead of them. It is read once.

    Examples
    --------
    >>> Dynamics(transitions=[[[0.5, 0.4]], [[1, 0]]], costs=[[1], [0]])
    Traceback (most recent call last):
    iopea.errors.InputError: The probabilities of action 0 in state 0 add up to 0.9, not to 1.
    """

    transitions: Annotated[
        tuple[tuple[tuple[float, ...], ...], ...], BeforeValidator(_nested), Field(repr=False)
    ]
    costs: Annotated[tuple[tuple[float, ...], ...], BeforeValidator(_nested), Field(repr=False)]
    bernoulli: StrictBool = False
    file: Path | None = Field(default=None, repr=False, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _read_file(cls, values: dict[str, Any]) -> dict[str, Any]:
        if values.get("file") is None:
            return values
        given = [name for name in _NAMES if name in values]
        if given:
            raise ValueError(f"Give the dynamics by 'file' or by {given[0]!r}, not by both.")
        path = Path(str(values["file"]))
        try:
            check_file(path, most=math.inf)
            with np.load(path, allow_pickle=False) as arrays:
                read = {name: arrays[name] for name in _NAMES}
        except FileNotFoundError:
            raise InputError(f"There is no file '{shown_path(path)}': give an .npz file.") from None
        except InputError:
            raise
        except Exception:  # a file of another kind may raise anything
            raise InputError(
                f"Cannot read '{shown_path(path)}': give an .npz file with the arrays transitions "
                "and costs."
            ) from None
        return {**values, **read, "file": None}

    @model_validator(mode="after")
    def _probabilities_fit(self) -> Self:
        probabilities, fitting = self.probabilities, self.mean_costs.shape
        if probabilities.shape != (*fitting, fitting[0]) or not probabilities.size:
            raise ValueError(
                "The transitions have the shape (S, A, S) and costs (S, A), not "
                f"{probabilities.shape} and {fitting}."
            )
        negative = np.argwhere(probabilities < 0)
        if negative.size:
            state, action, other = map(int, negative[0])
            raise ValueError(
                f"The probability of state {other} after action {action} in state {state} is "
                f"{probabilities[state, action, other]}: it can't be negative."
            )
        totals = probabilities.sum(axis=2)
        wrong = np.argwhere(np.abs(totals - 1) > ROUNDING)
        if wrong.size:
            state, action = map(int, wrong[0])
            raise ValueError(
                f"The probabilities of action {action} in state {state} add up to "
                f"{totals[state, action]:.9g}, not to 1."
            )
        return self

    @property
    def probabilities(self) -> Array:
        """The transitions as an array (S, A, S)."""
        return np.array(self.transitions, dtype=np.float64)

    @property
    def mean_costs(self) -> Array:
        """The costs as an array (S, A)."""
        return np.array(self.costs, dtype=np.float64)

    def table(self) -> dict[str, object]:
        """The ``[dynamics]`` table of a problem file."""
        return self.model_dump(mode="json")
