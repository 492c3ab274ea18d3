"""Saving and loading states: one file of JSON and arrays, written atomically.

The file is a zip archive: ``state.json`` with the nesting, and one ``.npy`` member per array. In
the JSON, a dictionary is written as ``{"dict": {...}}`` and an array as ``{"array": number}``, so
that no key of a state can be mistaken for either. Pickle is never used.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from iopea.errors import InputError, shown
from iopea.model import check_path
from iopea.types import State

_NESTING = "state.json"
#: Suffix of the name of an incomplete file.
DRAFT = ".part"
#: Seconds after which the incomplete file of another machine is taken as abandoned.
_ABANDONED = 60.0


def save_state(state: State, path: str | Path) -> None:
    """Write a state; an existing file is replaced atomically, or left unchanged on an error."""
    target = _as_path(path)
    if not isinstance(state, dict):
        raise InputError(f"Cannot save {shown(state)}: a state is a dictionary.")
    arrays: list[Any] = []
    text = json.dumps(_split(state, arrays))
    clear_drafts(target.parent, target.name)
    with writing(target) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_NESTING, text)
        for number, array in enumerate(arrays):
            with archive.open(_member(number), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing; on success, it replaces ``path`` atomically."""
    target = Path(path)
    if not target.name:
        raise InputError(f"Cannot write {str(path)!r}: give the path of a file.")
    draft = target.with_name(f".{target.name}{_writer(os.getpid())}")
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        raise InputError(f"Cannot write {target}: {error.strerror or error}.") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def clear_drafts(folder: Path, name: str | None = None) -> None:
    """Delete incomplete files of killed processes in a folder, or those of one file there."""
    for draft in folder.glob(f".*{DRAFT}"):
        found = re.fullmatch(r"\.(.*)(\.[^.]*\.([0-9]+)\.part)", draft.name, re.DOTALL)
        if found is None or (name is not None and found[1] != name):
            continue
        with contextlib.suppress(OSError):  # another process was faster
            here = found[2] == _writer(int(found[3]))
            if not _alive(int(found[3])) if here else _age(draft) > _ABANDONED:
                draft.unlink()


def _writer(process: int) -> str:
    """The end of the name of a file that a process of this machine is writing."""
    return f".{re.sub('[^A-Za-z0-9-]', '-', platform.node())}.{process}{DRAFT}"


def _alive(process: int) -> bool:
    """Whether a process of this machine runs, as far as the system tells."""
    if os.name != "posix" or process == os.getpid():
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
    try:
        with source.open("rb") as file, zipfile.ZipFile(file) as archive:
            state = _join(json.loads(archive.read(_NESTING)), archive)
    except FileNotFoundError:
        raise InputError(f"There is no file {source}: give the path of a saved state.") from None
    except Exception:  # a damaged file may raise almost anything
        raise InputError(
            f"{source} is not a complete saved state: give a file that save_state wrote."
        ) from None
    if not isinstance(state, dict):
        raise InputError(f"{source} is not a saved state: give a file that save_state wrote.")
    return state


def _member(number: int) -> str:
    return f"{number}.npy"


def _split(value: Any, arrays: list[Any]) -> Any:
    """The nesting of a state as JSON; arrays are moved to the list ``arrays``."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufSU" or isinstance(value, np.ma.MaskedArray):
            raise InputError(f"Cannot save an array of {value.dtype}: only numbers and text.")
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {"dict": {name: _split(part, arrays) for name, part in value.items()}}
    if isinstance(value, list | tuple):
        return [_split(part, arrays) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(
        f"Cannot save {type(value).__name__}: a state consists of numbers, text, lists, "
        "dictionaries and arrays."
    )


def _as_path(path: Any) -> Path:
    return check_path("The path", path)


def _join(value: Any, archive: zipfile.ZipFile) -> Any:
    if isinstance(value, list):
        return [_join(part, archive) for part in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        with archive.open(_member(value["array"])) as member:
            return np.lib.format.read_array(member, allow_pickle=False)
    return {name: _join(part, archive) for name, part in value["dict"].items()}
