"""Saving and loading the state of an object by declaring its parts.

A class lists the parts of its state in ``saved``, each with a function that reads it back:

>>> class Counter(Stateful):
...     saved = parts(steps=int, sums=array)
...     def __init__(self):
...         self._steps, self._sums = 0, np.zeros(2)
>>> counter = Counter()
>>> counter.load_state_dict({"steps": 3, "sums": [1.0, 2.0]})
>>> counter.state_dict()
{'steps': 3, 'sums': array([1., 2.])}

The part ``steps`` is the attribute ``_steps``, or ``steps`` if there is none with an underscore. A
subclass lists only what it adds. A saved state consists of JSON values and arrays: a tuple is saved
as a list, a record as a dictionary, and a generator or anything with a ``state_dict`` as its state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.random import BitGenerator, Generator

from iopea.errors import InputError
from iopea.types import Array, Indices, Mask, State

Value = TypeVar("Value")
#: Makes a part of a state from its saved value.
Reader = Callable[..., Any]

#: Message for a state that can't be loaded.
DAMAGED = "Cannot load this state: parts of it are missing or damaged."


class Stateful:
    """Base class of objects that declare the parts of their state.

    Attributes
    ----------
    saved : mapping. A reader for each part of the state, by its name: see :func:`parts`.
    """

    saved: ClassVar[Mapping[str, Reader]] = {}

    def state_dict(self) -> State:
        """Everything needed to continue, as JSON values and arrays."""
        return gather(self)

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state; one with missing or damaged parts changes nothing."""
        before = self.state_dict()
        try:
            restore(self, state)
        except Exception:  # a damaged state may raise almost anything
            restore(self, before)
            raise InputError(DAMAGED) from None

    def _loaded(self) -> None:
        """Recompute what is derived from the loaded parts."""


def parts(**readers: Reader) -> Mapping[str, Reader]:
    """The parts of a state by name, each with its reader.

    A reader is a type such as ``int``, one of the readers of this module, or your own function;
    :class:`Part` and :class:`Noise` mark existing objects whose state is set in place.
    """
    return readers


class Part:
    """Marks a part with its own ``load_state_dict``."""


class Noise:
    """Marks a random generator, or a bit generator."""


def array(value: Any) -> Array:
    """An array of numbers, in the saved precision."""
    read = np.array(value)
    if read.dtype.kind not in "iuf":
        raise TypeError(f"{value!r} is not an array of numbers.")
    return read


def shaped(*shape: int) -> Reader:
    """An array of numbers of this shape, where -1 stands for any length."""
    return lambda value: array(value).reshape(shape)


def indices(value: Any) -> Indices:
    """An array of integers."""
    return np.array(value, dtype=np.intp)


def mask(value: Any) -> Mask:
    """An array of booleans."""
    return np.array(value, dtype=np.bool_)


def numbers(value: Any) -> tuple[float, ...]:
    """A tuple of numbers, such as a policy."""
    return tuple(map(float, value))


def optional(reader: Reader) -> Reader:
    """The same reader for a part that may be None."""
    return lambda value: None if value is None else reader(value)


def each(reader: Reader) -> Reader:
    """A list whose elements have this reader."""
    return lambda value: [reader(one) for one in value]


def record(kind: Callable[..., Value], **readers: Reader) -> Callable[[Any], Value]:
    """A dataclass or a named tuple with these fields."""
    return lambda value: kind(**{name: reader(value[name]) for name, reader in readers.items()})


def by_number(make: Callable[[], Value]) -> Callable[[Any], dict[int, Value]]:
    """A dictionary from integers to parts, each made by ``make`` and given its saved state."""

    def read(value: Any) -> dict[int, Value]:
        made = {int(number): make() for number in value}
        for number, part in made.items():
            part.load_state_dict(value[str(number)])  # type: ignore[attr-defined]
        return made

    return read


def gather(owner: Stateful) -> State:
    """The declared state of an object."""
    return {name: _plain(getattr(owner, _attribute(owner, name))) for name in _declared(owner)}


def restore(owner: Stateful, state: State) -> None:
    """Load the declared state of an object, and recompute what is derived from it."""
    for name, reader in _declared(owner).items():
        attribute, value = _attribute(owner, name), state[name]
        if reader is Part:
            getattr(owner, attribute).load_state_dict(value)
        elif reader is Noise:
            generator = getattr(owner, attribute)
            getattr(generator, "bit_generator", generator).state = value
        else:
            setattr(owner, attribute, reader(value))
    owner._loaded()


def _declared(owner: Stateful) -> dict[str, Reader]:
    """All parts declared by a class and its base classes, those of the bases first."""
    declared: dict[str, Reader] = {}
    for kind in reversed(type(owner).__mro__):
        declared |= vars(kind).get("saved", {})
    return declared


def _attribute(owner: Stateful, name: str) -> str:
    # Only instance attributes count: a learner may have a part "state" and a method "_state".
    return f"_{name}" if f"_{name}" in vars(owner) else name


def _plain(value: Any) -> Any:
    """A copy of a value as JSON values and arrays."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Generator):
        return value.bit_generator.state
    if isinstance(value, BitGenerator):
        return value.state
    if hasattr(value, "state_dict"):
        return value.state_dict()
    if hasattr(value, "_asdict"):  # a named tuple
        return _plain(value._asdict())
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | deque):
        return [_plain(one) for one in value]
    return value
