"""Saving and loading states: one file of JSON and arrays, written atomically.

The file is a zip archive: ``state.json`` with the nesting, and one ``.npy`` member per array. In
the JSON, a dictionary is written as ``{"dict": {...}}`` and an array as ``{"array": number}``, so
that no key of a state can be mistaken for either. Pickle is never used.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import platform
import re
import stat
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from iopea.errors import InputError, shown, shown_path
from iopea.model import check_path
from iopea.types import State

_NESTING = "state.json"
#: Kinds of arrays: flags, numbers and text; and how the header of an array is read, by version.
_KINDS = "biufSU"
_HEADERS: dict[Any, Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
#: Whole numbers below this size can be written and read; Python limits their digits.
_LARGEST = 10**4000
#: Most rows of an array without values.
_MOST_EMPTY = 10**6
#: Suffix of the name of an incomplete file.
DRAFT = ".part"
#: Seconds after which the incomplete file of another machine is taken as abandoned.
_ABANDONED = 60.0
#: Most bytes of the name of a file, and of a machine, in the name of an incomplete file.
_LONGEST_LABEL, _LONGEST_MACHINE = 100, 64
#: Numbers of the incomplete files of this process, and the names of those being written.
_NUMBERS, _WRITTEN = itertools.count(), set[str]()


def save_state(state: State, path: str | Path) -> None:
    """Write a state; an existing file is replaced atomically, or left unchanged on an error."""
    target = _as_path(path)
    _mode(target)
    if not isinstance(state, dict):
        raise InputError(f"Cannot save {shown(state)}: a state is a dictionary.")
    arrays: list[Any] = []
    try:
        text = json.dumps(_split(state, arrays))
    except RecursionError:
        raise InputError(
            "Cannot save this state: it is nested too deeply, or contains itself."
        ) from None
    clear_drafts_of(target)
    with writing(target) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_NESTING, text)
        for number, array in enumerate(arrays):
            with archive.open(_member(number), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing; on success, it replaces ``path`` atomically.

    A link stays, and what it leads to is replaced. The new file has the mode of the old one.
    """
    target = Path(path)
    mode, place = _mode(target), _place(target)
    draft = _draft(place)
    _WRITTEN.add(draft.name)
    try:
        with draft.open("wb") as file:
            if mode is not None:
                with contextlib.suppress(OSError):  # some file systems have no modes
                    draft.chmod(mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(place)
    except OSError as error:
        raise InputError(f"Cannot write {shown_path(target)}: {error.strerror or error}.") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        _WRITTEN.discard(draft.name)


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done; nothing is created."""
    name = shown_path(path)
    try:
        _mode(path)
        folder = _place(path).parent
        while not folder.exists():
            folder = folder.parent
    except OSError as error:
        raise InputError(f"Cannot write {name}: {error.strerror or error}.") from None
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"Cannot write {name}: {shown_path(folder)} can't be written to.")


def make_folder_of(path: Path) -> None:
    """Make the folder of a file, if it is not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        folder = shown_path(path.parent)
        raise InputError(f"Cannot make {folder}: {error.strerror or error}.") from None


def clear_drafts(folder: Path, name: str | None = None) -> None:
    """Delete incomplete files of killed processes in a folder, or those of one file there."""
    for draft in folder.glob(f".*{DRAFT}"):
        found = re.fullmatch(r"\.(.*)(\.[^.]*)\.([0-9]+)(-[0-9]+)?\.part", draft.name, re.DOTALL)
        if found is None or (name is not None and found[1] != _label(name)):
            continue
        with contextlib.suppress(OSError):  # another process was faster
            here = found[2] == f".{_machine()}"
            if not _alive(int(found[3]), draft.name) if here else _age(draft) > _ABANDONED:
                draft.unlink()


def clear_drafts_of(path: Path) -> None:
    """Delete what killed processes left of a file."""
    place = _place(path)
    clear_drafts(place.parent, place.name)


def _mode(path: Path) -> int | None:
    """The mode of the file that is to be replaced, if there is one; it must be a regular file."""
    name = shown_path(path)
    if not path.name:
        raise InputError(f"Cannot write {name!r}: give the path of a file.")
    try:
        found = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"Cannot write {name}: {error.strerror or error}.") from None
    if stat.S_ISDIR(found):
        raise InputError(f"Cannot write {name}: it is a folder.")
    if not stat.S_ISREG(found):
        raise InputError(f"Cannot write {name}: it is a device, a pipe or a socket, not a file.")
    return stat.S_IMODE(found)


def _place(path: Path) -> Path:
    """Where a file is, if the path is a link to it."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _draft(path: Path) -> Path:
    """A path beside a file, which no other call has."""
    return path.with_name(f".{_label(path.name)}{_writer(os.getpid(), next(_NUMBERS))}")


def _label(name: str) -> str:
    """The name of a file in that of a draft, which must not be longer than names may be."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= _LONGEST_LABEL else hashlib.sha256(encoded).hexdigest()


def _writer(process: int, number: int) -> str:
    """The end of the name of a file that a process of this machine is writing."""
    return f".{_machine()}.{process}-{number}{DRAFT}"


def _machine() -> str:
    return re.sub("[^A-Za-z0-9-]", "-", platform.node())[:_LONGEST_MACHINE]


def _alive(process: int, draft: str) -> bool:
    """Whether a process of this machine still writes a draft, as far as the system tells."""
    if process == os.getpid():  # or another one that had the same number
        return draft in _WRITTEN
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user
        return True
    return True


def _age(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def load_state(path: str | Path) -> State:
    """Read a state that :func:`save_state` wrote."""
    source = _as_path(path)
    name = shown_path(source)
    try:
        if not source.is_file() and source.exists():
            raise ValueError("not a file")
        with source.open("rb") as file, zipfile.ZipFile(file) as archive:
            _check_members(archive, source.stat().st_size)
            return _checked_state(_join(json.loads(archive.read(_NESTING)), archive))
    except FileNotFoundError:
        raise InputError(f"There is no file {name}: give the path of a saved state.") from None
    except Exception:  # a damaged file may raise almost anything
        raise InputError(
            f"{name} is not a complete saved state: give a file that save_state wrote."
        ) from None


def _check_members(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse members that save_state did not write, so that a state is no larger than its file."""
    members = archive.infolist()
    names = [_NESTING, *map(_member, range(len(members) - 1))]
    if [member.filename for member in members] != names:
        raise ValueError("other members")
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("compressed")
    if sum(member.file_size for member in members) > size:
        raise ValueError("members that overlap")


def _checked_state(state: Any) -> State:
    if not isinstance(state, dict):
        raise ValueError("not a dictionary")
    return state


def read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """An array of numbers or text of an archive; its header must fit the size of its member."""
    size = archive.getinfo(name).file_size
    with archive.open(name) as member:
        version = np.lib.format.read_magic(member)
        shape, _, dtype = _HEADERS[version](member)
        fits = math.prod(shape) * dtype.itemsize == size - member.tell()
        if dtype.kind not in _KINDS or not dtype.itemsize or not fits or _is_vast(shape):
            raise ValueError("not the array of its header")
        member.seek(0)
        read: np.ndarray = np.lib.format.read_array(member, allow_pickle=False)
        return read


def _member(number: int) -> str:
    return f"{number}.npy"


def _split(value: Any, arrays: list[Any]) -> Any:
    """The nesting of a state as JSON; arrays are moved to the list ``arrays``."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _KINDS or isinstance(value, np.ma.MaskedArray):
            raise InputError(f"Cannot save an array of {value.dtype}: only numbers and text.")
        if _is_vast(value.shape):
            raise InputError(f"Cannot save an array of shape {value.shape}: it is empty, but vast.")
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise InputError(
                    f"Cannot save the key {shown(name)}: the keys of a state are text."
                )
        return {"dict": {name: _split(part, arrays) for name, part in value.items()}}
    if isinstance(value, list | tuple):
        return [_split(part, arrays) for part in value]
    if isinstance(value, int) and abs(value) >= _LARGEST:
        raise InputError(f"Cannot save {shown(value)}: numbers of a state have fewer digits.")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(
        f"Cannot save {type(value).__name__}: a state consists of numbers, text, lists, "
        "dictionaries and arrays."
    )


def _as_path(path: Any) -> Path:
    return check_path("The path", path)


def _is_vast(shape: tuple[int, ...]) -> bool:
    """Whether an array has no values, but very many rows; as lists, it would fill the memory."""
    return 0 in shape and math.prod(filter(None, shape)) > _MOST_EMPTY


def _join(value: Any, archive: zipfile.ZipFile) -> Any:
    if isinstance(value, list):
        return [_join(part, archive) for part in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return read_array(archive, _member(value["array"]))
    return {name: _join(part, archive) for name, part in value["dict"].items()}
