"""State that is declared once, and saved and loaded from the declaration.

A class names the parts of its state in ``saved``, each with how it is read back:

>>> class Counter(Stateful):
...     saved = parts(steps=int, sums=array)
...     def __init__(self):
...         self._steps, self._sums = 0, np.zeros(2)
>>> counter = Counter()
>>> counter.load_state_dict({"steps": 3, "sums": [1.0, 2.0]})
>>> counter.state_dict()
{'steps': 3, 'sums': array([1., 2.])}

The part ``steps`` is the attribute ``_steps``, or ``steps`` if there is none with an underscore. A
subclass names only what it adds. A saved state is made of JSON values and arrays: tuples become
lists, records dictionaries, generators and all that has a ``state_dict`` their state.
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
#: How a part is read back from what was saved.
Reader = Callable[..., Any]

#: What is said of a state that can't be loaded.
DAMAGED = "Cannot load a state of which parts are missing or damaged."


class Stateful:
    """Something whose state is declared, saved and loaded.

    Attributes
    ----------
    saved : mapping. How each part of the state is read back, by its name: see :func:`parts`.
    """

    saved: ClassVar[Mapping[str, Reader]] = {}

    def state_dict(self) -> State:
        """Everything needed to go on, as JSON values and arrays."""
        return gather(self)

    def load_state_dict(self, state: State) -> None:
        """Go on from a saved state; one with missing or damaged parts changes nothing."""
        before = self.state_dict()
        try:
            restore(self, state)
        except Exception:  # whatever a damaged state makes the readers raise
            restore(self, before)
            raise InputError(DAMAGED) from None

    def _loaded(self) -> None:
        """Make anew what follows from what was loaded."""


def parts(**readers: Reader) -> Mapping[str, Reader]:
    """Names of parts of a state, each with how it is read back.

    That is a type such as ``int``, one of the readers of this module, or a function of one's own;
    :class:`Part` or :class:`Noise` for what is not read, but told its state.
    """
    return readers


class Part:
    """Marks a part with a ``load_state_dict`` of its own."""


class Noise:
    """Marks a random generator, or a bit generator."""


def array(value: Any) -> Array:
    """An array of numbers, of the precision that was saved."""
    read = np.array(value)
    if read.dtype.kind not in "iuf":
        raise TypeError(f"{value!r} is no array of numbers.")
    return read


def shaped(*shape: int) -> Reader:
    """An array of numbers of this shape, where -1 is any length."""
    return lambda value: array(value).reshape(shape)


def indices(value: Any) -> Indices:
    """An array of whole numbers."""
    return np.array(value, dtype=np.intp)


def mask(value: Any) -> Mask:
    """An array of true and false."""
    return np.array(value, dtype=np.bool_)


def numbers(value: Any) -> tuple[float, ...]:
    """A tuple of numbers, such as a policy."""
    return tuple(map(float, value))


def optional(reader: Reader) -> Reader:
    """What may also be None."""
    return lambda value: None if value is None else reader(value)


def each(reader: Reader) -> Reader:
    """A list of such things."""
    return lambda value: [reader(one) for one in value]


def record(kind: Callable[..., Value], **readers: Reader) -> Callable[[Any], Value]:
    """A dataclass or a named tuple, of these fields."""
    return lambda value: kind(**{name: reader(value[name]) for name, reader in readers.items()})


def by_number(make: Callable[[], Value]) -> Callable[[Any], dict[int, Value]]:
    """Parts with a state of their own by whole numbers; they are made anew and loaded."""

    def read(value: Any) -> dict[int, Value]:
        made = {int(number): make() for number in value}
        for number, part in made.items():
            part.load_state_dict(value[str(number)])  # type: ignore[attr-defined]
        return made

    return read


def gather(thing: Stateful) -> State:
    """The declared state of a thing."""
    return {name: _plain(getattr(thing, _attribute(thing, name))) for name in _declared(thing)}


def restore(thing: Stateful, state: State) -> None:
    """Load the declared state of a thing, and what follows from it."""
    for name, reader in _declared(thing).items():
        attribute, value = _attribute(thing, name), state[name]
        if reader is Part:
            getattr(thing, attribute).load_state_dict(value)
        elif reader is Noise:
            generator = getattr(thing, attribute)
            getattr(generator, "bit_generator", generator).state = value
        else:
            setattr(thing, attribute, reader(value))
    thing._loaded()


def _declared(thing: Stateful) -> dict[str, Reader]:
    """All parts that a class and those that it extends declare, theirs first."""
    declared: dict[str, Reader] = {}
    for kind in reversed(type(thing).__mro__):
        declared |= vars(kind).get("saved", {})
    return declared


def _attribute(thing: Stateful, name: str) -> str:
    # Methods don't count: a learner may have a part "state".
    return f"_{name}" if f"_{name}" in vars(thing) else name


def _plain(value: Any) -> Any:
    """A value as JSON values and arrays, none of which is shared with it."""
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
