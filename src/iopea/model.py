"""The base class of everything a user configures: immutable and validated."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Collection, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from iopea.errors import InputError, shown, shown_path, unknown

Value = TypeVar("Value")

#: What a value should be, by a part of the name of Pydantic's error.
_KINDS = {
    "too_short": "a list with at least one value",
    "missing": "a longer list",
    "tuple": "a list",
    "list": "a list",
    "bool": "true or false",
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "path": "the path of a file",
    "callable": "a function",
    "dict": "a table",
    "mapping": "a table",
    "model": "a table",
    "instance": "an object of the right kind",
    "frozen": "left as it is",
}

#: Larger numbers could overflow: fourth powers of a cost times a level times steps are taken.
#: Larger counts mean nothing.
LARGEST, MOST_COUNTED = 1e32, 10**18
#: Smaller numbers above 0 could vanish in the same way.
LEAST = 1e-40
#: Most bytes of a file that is read: a problem file, or past demand.
LARGEST_FILE = 2**26
#: What NumPy takes as numbers in a list, but is none.
_NO_NUMBERS = (bool, np.bool_, np.ma.MaskedArray)


class Model(BaseModel):
    """An immutable set of validated values; an invalid one raises :class:`InputError`."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    def __str__(self) -> str:
        return repr(self)

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
        case kind:
            return InputError(f"{key} must be {_right(kind, first)}, not {shown(first['input'])}.")


def _right(kind: str, error: Mapping[str, Any]) -> str:
    """What would be right where a value is of the wrong kind, or out of range."""
    context = error.get("ctx", {})
    limits = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
    for key, words in limits.items():
        if key in context:
            return f"a number {words} {context[key]:g}"
    if kind == "literal_error":
        return f"one of {context['expected'].replace(' or ', ', ')}"
    for part, words in _KINDS.items():
        if part in kind:
            return words
    text = str(error["msg"])
    return text[0].lower() + text[1:]


def real_numbers(values: ArrayLike, flags: bool = False) -> NDArray[np.float64]:
    """Numbers as a new array; text, dates, truth values, complex or masked ones are a TypeError.

    With ``flags``, a list of truth values alone is one of zeros and ones.

    >>> real_numbers([1, 2.5])
    array([1. , 2.5])
    >>> real_numbers(["1"])
    Traceback (most recent call last):
    TypeError: not numbers
    """
    given = np.asarray(values)
    if flags and given.ndim and given.dtype.kind == "b":
        return given.astype(np.float64)
    whole = given.dtype == object and all(map(is_real, given.ravel()))  # of many digits; fractions
    # NumPy takes a truth value among numbers as one of them, and a masked one as its value.
    if not (whole or given.dtype.kind in "iuf") or holds(values, _NO_NUMBERS):
        raise TypeError("not numbers")
    return given.astype(np.float64)


def holds(values: object, kinds: Any) -> bool:
    """Whether a list, however nested, holds something of these types.

    >>> holds([1, [2, True]], bool)
    True
    """
    if isinstance(values, list | tuple):
        return any(holds(each, kinds) for each in values)
    return isinstance(values, kinds)


def is_real(value: object) -> bool:
    """Whether this is a number; Python has truth values, and NumPy spans of time, as integers."""
    return isinstance(value, Real) and not isinstance(value, bool | np.timedelta64)


def is_whole(value: object) -> bool:
    """Whether this is an integer."""
    return isinstance(value, Integral) and is_real(value)


def _number(value: Any) -> float:
    number = math.nan
    if is_real(value):
        try:
            number = float(value)
        except OverflowError:
            number = 2 * LARGEST  # of either sign
    if not math.isfinite(number):
        raise ValueError(f"must be a finite number, not {shown(value)}.")
    if abs(number) > LARGEST:
        raise ValueError(f"must be at most {LARGEST:g} in size, not {shown(value)}.")
    return number


def _nonnegative(value: Any) -> float:
    if (number := _number(value)) < 0:
        raise ValueError(f"must be a finite number of at least 0, not {shown(value)}.")
    return number + 0.0  # -0.0 would not be the same everywhere


def _positive(value: Any) -> float:
    if (number := _number(value)) < LEAST:
        least = "" if number <= 0 else f", of at least {LEAST:g}"
        raise ValueError(f"must be a finite number above 0{least}, not {shown(value)}.")
    return number


def _probability(value: Any) -> float:
    if not 0 <= (number := _number(value)) <= 1:
        raise ValueError(f"must lie between 0 and 1, not {shown(value)}.")
    return number


def _share(value: Any) -> float:
    if not LEAST <= (number := _number(value)) < 1:
        raise ValueError(f"must lie strictly between 0 and 1, not {shown(value)}.")
    return number


def _count(value: Any, least: int = 0, most: float = math.inf) -> int:
    if not is_whole(value) or not least <= value <= most:
        upper = "" if math.isinf(most) else f" and at most {shown(most)}"
        raise ValueError(f"must be a whole number of at least {least}{upper}, not {shown(value)}.")
    return int(value)


def number_in(text: str, kind: Callable[[str], Any] = float) -> Any:
    """The number that a text is; Python would also take 1_000, and digits of other scripts.

    >>> number_in(" 1e3 "), number_in("12", int)
    (1000.0, 12)
    >>> number_in("1_000")
    Traceback (most recent call last):
    ValueError: not a number
    """
    if "_" in text or not text.isascii():
        raise ValueError("not a number")
    return kind(text)


def check_count(name: str, value: Any, least: int = 1, most: float = math.inf) -> int:
    """An integer in a range; otherwise an :class:`InputError` that names it."""
    return _checked(name, lambda: _count(value, least, most))


def check_seed(value: Any) -> int:
    """A seed: an integer of at most 128 bits; otherwise an :class:`InputError`."""
    return check_count("seed", value, 0, 2**128 - 1)


def check_choice(name: str, value: Any, known: Collection[str]) -> str:
    """One of some words; otherwise an :class:`InputError` that names it."""
    if not isinstance(value, str):
        raise InputError(
            f"{name} must be one of {', '.join(map(repr, known))}, not {shown(value)}."
        )
    if value not in known:
        raise unknown(name, value, known)
    return value


def check_numbers(name: str, value: Any) -> NDArray[np.float64]:
    """Finite numbers as an array of any shape; otherwise an :class:`InputError` that names it."""
    try:
        values = real_numbers(value)
    except (TypeError, ValueError, OverflowError):
        values = np.array(np.nan)
    if not np.isfinite(values).all():
        raise InputError(f"{name} must be finite numbers, not {shown(value)}.")
    if not (np.abs(values) <= LARGEST).all():
        raise InputError(f"{name} must be at most {LARGEST:g} in size, not {shown(value)}.")
    return values


def check_path(name: str, value: Any) -> Path:
    """A path; otherwise an :class:`InputError` that names it."""
    if not isinstance(value, str | os.PathLike) or "\0" in os.fspath(value):
        raise InputError(f"{name} is {shown(value)}: give the path of a file.")
    return Path(value)


def check_file(path: Path, most: float = LARGEST_FILE) -> None:
    """Refuse to read a device or a pipe, which may have no end, or a file that is too large."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise InputError(
            f"Cannot read {shown_path(path)}: it is a device, a pipe or a socket, not a file."
        )
    if found.st_size > most:
        raise InputError(f"Cannot read {shown_path(path)}: it has more than {most:,} bytes.")


def check_number(name: str, value: Any) -> float:
    """A finite number; otherwise an :class:`InputError` that names it."""
    return _checked(name, lambda: _number(value))


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
        raise InputError(f"{name} is {shown(value)}: give {article} {kind.__name__}.")
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
Count = Annotated[int, BeforeValidator(lambda value: _count(value, 0, MOST_COUNTED))]
