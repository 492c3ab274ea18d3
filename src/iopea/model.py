"""The base class of everything a user configures: immutable and validated."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Annotated, Any, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from iopea.errors import InputError, unknown

Value = TypeVar("Value")

#: Larger numbers could overflow when they are multiplied.
LARGEST = 1e300


class Model(BaseModel):
    """An immutable set of validated values; an invalid one raises :class:`InputError`."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    def __init__(self, /, **values: Any) -> None:
        known = type(self).model_fields
        for key in values:  # first, so that a misspelt key isn't reported as a missing one
            if key not in known:
                raise unknown(f"key in {type(self).__name__}", key, known)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _sentence(type(self), error) from None


def _sentence(model: type[Model], error: ValidationError) -> InputError:
    """A message about the first invalid value: what it is, and what is valid."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    match first["type"]:
        case "missing":
            return InputError(f"{model.__name__} needs {key!r}, which is missing.")
        case "value_error":
            # Raised by one of our own validators. Its message is either a complete sentence, with
            # the key as the user must type it, or lacks the key at its start.
            text = str(first["ctx"]["error"])
            complete = not key or text[0].isupper() or text.split()[0] in first["loc"]
            return InputError(text if complete else f"{key} {text}")
        case _:
            return InputError(f"{key} is {first['input']!r}: {first['msg']}.")


def _number(value: Any) -> float:
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            number = float(value)
    if not abs(number) <= LARGEST:
        raise ValueError(f"must be a finite number, not {value!r}.")
    return number


def _nonnegative(value: Any) -> float:
    if (number := _number(value)) < 0:
        raise ValueError(f"must be a finite number of at least 0, not {value!r}.")
    return number


def _positive(value: Any) -> float:
    if (number := _number(value)) <= 0:
        raise ValueError(f"must be a finite number above 0, not {value!r}.")
    return number


def _probability(value: Any) -> float:
    if not 0 <= (number := _number(value)) <= 1:
        raise ValueError(f"must lie between 0 and 1, not {value!r}.")
    return number


def _share(value: Any) -> float:
    if not 0 < (number := _number(value)) < 1:
        raise ValueError(f"must lie strictly between 0 and 1, not {value!r}.")
    return number


def _count(value: Any, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"must be a whole number of at least {least}, not {value!r}.")
    return int(value)


def check_count(name: str, value: Any, least: int = 1) -> int:
    """An integer of at least ``least``; otherwise an :class:`InputError` that names it."""
    return _checked(name, lambda: _count(value, least))


def check_share(name: str, value: Any) -> float:
    """A number strictly between 0 and 1; otherwise an :class:`InputError` that names it."""
    return _checked(name, lambda: _share(value))


def check_positive(name: str, value: Any) -> float:
    """A number above 0; otherwise an :class:`InputError` that names it."""
    return _checked(name, lambda: _positive(value))


def check_nonnegative(name: str, value: Any) -> float:
    """A number of at least 0; otherwise an :class:`InputError` that names it."""
    return _checked(name, lambda: _nonnegative(value))


def check_kind(name: str, value: Value, kind: Any) -> Value:
    """A value of this type; otherwise an :class:`InputError` that names it."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise InputError(f"{name} is {value!r}: give {article} {kind.__name__}.")
    return value


def _checked(name: str, check: Callable[[], Value]) -> Value:
    try:
        return check()
    except ValueError as error:
        raise InputError(f"{name} {error}") from None


Number = Annotated[float, BeforeValidator(_number)]
NonNegative = Annotated[float, BeforeValidator(_nonnegative)]
Positive = Annotated[float, BeforeValidator(_positive)]
Probability = Annotated[float, BeforeValidator(_probability)]
Count = Annotated[int, BeforeValidator(_count)]


def made_of(kind: str, given: object, base: Any, known: Mapping[str, type[Value]]) -> Value:
    """An exchangeable object from its name, its class or an instance.

    >>> made_of("number", "whole", int, {"whole": int})
    0
    """
    if isinstance(given, base):
        return cast(Value, given)
    if isinstance(given, type) and issubclass(given, base):
        return cast(Value, given())
    if not isinstance(given, str):
        raise InputError(
            f"A {kind} is a name, a class or an instance of {base.__name__}, not {given!r}."
        )
    if given not in known:
        raise unknown(kind, given, known)
    return known[given]()
