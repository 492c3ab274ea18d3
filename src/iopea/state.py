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
A whole state is sealed with a digest of its content, which is the same after a round trip through
JSON; a state that was altered is refused.
"""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.random import BitGenerator, Generator

from iopea.errors import InputError, shown
from iopea.model import holds, is_whole
from iopea.types import Array, Indices, Mask, State

Value = TypeVar("Value")
#: Makes a part of a state from its saved value.
Reader = Callable[..., Any]

#: Message for a state that can't be loaded.
DAMAGED = "Cannot load this state: parts of it are missing or damaged."
#: Key of the digest of a sealed state.
DIGEST = "digest"
#: Integers up to this size are exact as floating-point numbers.
_EXACT = 2**53


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
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("A masked array is not an array of numbers.")
    read = np.array(value)
    if read.dtype.kind not in "iuf":
        raise TypeError(f"{value!r} is not an array of numbers.")
    return read


def shaped(*shape: int) -> Reader:
    """An array of numbers of this shape, where -1 stands for any length."""
    return lambda value: array(value).reshape(shape)


def indices(value: Any) -> Indices:
    """An array of integers."""
    read = array(value)
    whole = read.astype(np.intp)
    if not np.array_equal(read, whole):
        raise TypeError(f"{value!r} is not an array of integers.")
    return whole


def mask(value: Any) -> Mask:
    """An array of booleans."""
    read = np.array(value)
    if read.size and read.dtype != np.bool_:
        raise TypeError(f"{value!r} is not an array of booleans.")
    return read.astype(np.bool_)


def numbers(value: Any) -> tuple[float, ...]:
    """A tuple of numbers, such as a policy."""
    if isinstance(value, str):
        raise TypeError(f"{value!r} is not a list of numbers.")
    return tuple(map(_number, value))


def optional(reader: Reader) -> Reader:
    """The same reader for a part that may be None."""
    return lambda value: None if value is None else _read(reader, value)


def each(reader: Reader) -> Reader:
    """A list whose elements have this reader."""

    def read(value: Any) -> list[Any]:
        if isinstance(value, str | dict):
            raise TypeError(f"{value!r} is not a list.")
        return [_read(reader, one) for one in value]

    return read


def record(kind: Callable[..., Value], **readers: Reader) -> Callable[[Any], Value]:
    """A dataclass or a named tuple with these fields."""
    return lambda value: kind(
        **{name: _read(reader, value[name]) for name, reader in readers.items()}
    )


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
            setattr(owner, attribute, _alike(_read(reader, value), getattr(owner, attribute)))
    owner._loaded()


def check_schema(state: Any, schema: int) -> None:
    """Refuse a state that another version of iopea wrote."""
    found = state.get("schema") if isinstance(state, dict) else schema
    if not is_whole(found) or found != schema:
        raise InputError(
            f"Cannot load a state whose schema is {shown(found)}: this version of iopea reads "
            f"schema {schema}. Tell the records to a new learner instead."
        )


def sealed(state: State) -> State:
    """A whole state with the digest of its content."""
    return {**state, DIGEST: digest(state)}


def unsealed(state: Any) -> State:
    """The content of a sealed state; anything else, or a state that was altered, is refused."""
    if not isinstance(state, dict):
        raise InputError(f"Cannot load {shown(state)}: a state is a dictionary.")
    content = {key: value for key, value in state.items() if key != DIGEST}
    try:
        intact = state.get(DIGEST) == digest(content)
    except Exception:  # an altered state may hold almost anything
        intact = False
    if intact is not True:
        raise InputError(
            f"{DAMAGED} Its content does not have the digest it was saved with: load it as saved."
        )
    return content


def digest(value: Any) -> str:
    """A digest of a state: the same for arrays as for nested lists of the same numbers.

    >>> digest({"sums": np.array([1.0, 2.0])}) == digest({"sums": [1, 2]})
    True
    """
    content = hashlib.sha256()
    _write(value, content.update)
    return content.hexdigest()


def _write(value: Any, write: Callable[[bytes], None]) -> None:
    """Write a value so that different values give different bytes."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim):
        value = value.item()
    if value is None:
        write(b"none;")
    elif isinstance(value, bool):
        write(b"true;" if value else b"false;")
    elif isinstance(value, int) and abs(value) > _EXACT:
        write(f"integer {value};".encode())
    elif isinstance(value, int | float):
        write(b"number" + struct.pack("<d", value))
    elif isinstance(value, str):
        text = value.encode()
        write(f"text {len(text)};".encode() + text)
    elif isinstance(value, dict):
        write(f"entries {len(value)};".encode())
        for name, part in sorted((str(name), part) for name, part in value.items()):
            _write(name, write)
            _write(part, write)
    elif isinstance(value, np.ndarray | list | tuple):
        _write_list(value, write)
    else:
        raise InputError(
            f"Cannot save {type(value).__name__}: a state consists of numbers, text, lists, "
            "dictionaries and arrays."
        )


def _write_list(value: Any, write: Callable[[bytes], None]) -> None:
    """Write a list; one of numbers, however deep, at once as the array it is."""
    if isinstance(value, np.ma.MaskedArray):
        raise InputError("Cannot save a masked array: fill it first.")
    block = value if isinstance(value, np.ndarray) else _block(value)
    if block is None or not block.size or block.dtype.kind not in "biuf":
        if isinstance(value, np.ndarray):
            value = value.tolist()
        write(f"list {len(value)};".encode())
        for part in value:
            _write(part, write)
        return
    shape = " ".join(map(str, block.shape))
    if block.dtype.kind in "iu" and (block.min() < -_EXACT or block.max() > _EXACT):
        write(f"integers {shape};{block.ravel().tolist()};".encode())
    elif block.dtype.kind == "b":
        write(f"booleans {shape};".encode() + np.ascontiguousarray(block).tobytes())
    else:
        write(f"numbers {shape};".encode() + np.ascontiguousarray(block, dtype="<f8").tobytes())


def _block(value: Any) -> np.ndarray | None:
    """A nested list as an array, if it is one of numbers or booleans alone."""
    try:
        block = np.array(value)
    except ValueError:  # ragged
        return None
    mixed = block.dtype.kind != "b" and holds(value, (bool, np.bool_))
    return block if block.dtype.kind in "biuf" and not mixed else None


def _read(reader: Reader, value: Any) -> Any:
    """Read a part; the types of numbers and text take nothing else."""
    return _EXACTLY.get(reader, reader)(value)


def _alike(read: Any, present: Any) -> Any:
    """An array in the precision of the one it replaces, which lists do not keep."""
    if not isinstance(read, np.ndarray) or not isinstance(present, np.ndarray):
        return read
    if read.dtype.kind == present.dtype.kind or not read.size:
        return read.astype(present.dtype)
    return read


def _whole(value: Any) -> int:
    if isinstance(value, bool | str) or int(value) != value:
        raise TypeError(f"{value!r} is not a whole number.")
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool | str):
        raise TypeError(f"{value!r} is not a number.")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{value!r} is not true or false.")
    return bool(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text.")
    return value


_EXACTLY: dict[Reader, Reader] = {int: _whole, float: _number, bool: _flag, str: _text}


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
