"""State that is declared once, and saved and loaded from the declaration.

A class names its parts in ``saved``, each with how it is read back::

    class Counter(Stateful):
        saved = {"steps": int, "sums": array, "batches": Part}

The part ``steps`` is the attribute ``_steps``, or ``steps`` if there is none with an underscore. A
saved state is made of JSON values and arrays: tuples are saved as lists, arrays as copies, parts that
have a state of their own by their ``state_dict``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from iopea.types import Array, Indices, Mask, Policy, State

Value = TypeVar("Value")
#: How a part is read back from what was saved.
Reader = Callable[..., Any]


def array(value: Any) -> Array:
    """An array of numbers, of the precision that was saved."""
    return np.array(value)


def indices(value: Any) -> Indices:
    """An array of whole numbers."""
    return np.array(value, dtype=np.intp)


def mask(value: Any) -> Mask:
    """An array of true and false."""
    return np.array(value, dtype=np.bool_)


def policy(value: Any) -> Policy:
    """A policy: a tuple of numbers."""
    return tuple(map(float, value))


class Part:
    """Marks a part with a ``state_dict`` of its own, which loads itself."""


class Noise:
    """Marks a bit generator, of which the ``state`` is saved."""


def optional(reader: Reader) -> Reader:
    """What may also be None."""
    return lambda value: None if value is None else reader(value)


def each(reader: Reader) -> Reader:
    """A list of such things."""
    return lambda value: [reader(one) for one in value]


def record(kind: type[Value], *readers: Reader) -> Callable[[Any], Value]:
    """A named tuple, or a dataclass, whose fields are read back by these readers in turn."""

    def read(value: Any) -> Value:
        values = value.values() if isinstance(value, Mapping) else value
        return kind(*(reader(one) for reader, one in zip(readers, values, strict=True)))

    return read


class Stateful:
    """Something whose state is declared, saved and loaded."""

    saved: ClassVar[Mapping[str, Reader]] = {}

    def state_dict(self) -> State:
        """Everything needed to go on, as JSON values and arrays."""
        return gather(self)

    def load_state_dict(self, state: State) -> None:
        """Go on from a saved state."""
        restore(self, state)

    def _loaded(self) -> None:
        """Make anew what follows from what was loaded."""


def declared(thing: Stateful) -> dict[str, Reader]:
    """All that a class and those that it extends declare, theirs first."""
    parts: dict[str, Reader] = {}
    for kind in reversed(type(thing).__mro__):
        parts.update(vars(kind).get("saved", {}))
    return parts


def gather(thing: Stateful) -> State:
    """The declared state of a thing."""
    return {
        name: _plain(getattr(thing, _attribute(thing, name)), reader)
        for name, reader in declared(thing).items()
    }


def restore(thing: Stateful, state: State) -> None:
    """Load the declared state of a thing."""
    for name, reader in declared(thing).items():
        attribute, value = _attribute(thing, name), state[name]
        if reader is Part:
            getattr(thing, attribute).load_state_dict(value)
        elif reader is Noise:
            getattr(thing, attribute).state = value
        else:
            setattr(thing, attribute, reader(value))
    thing._loaded()


def _attribute(thing: object, name: str) -> str:
    return f"_{name}" if hasattr(thing, f"_{name}") else name


def _plain(value: Any, reader: Reader | None = None) -> Any:
    """A value as JSON values and arrays."""
    if reader is Part:
        return value.state_dict()
    if reader is Noise:
        return value.state
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list | tuple) or type(value).__name__ == "deque":
        return [_plain(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: _plain(getattr(value, part.name)) for part in fields(value)}
    return value
