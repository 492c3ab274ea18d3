"""Saving and loading states: one file of arrays and JSON, written whole or not at all."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from iopea.errors import InputError
from iopea.types import State

_META = "state.json"


def save_state(state: State, path: str | Path) -> None:
    """Write a state; an existing file is replaced in one step, or left as it was."""
    target = Path(path)
    arrays: dict[str, Any] = {}
    text = json.dumps(_split(state, "", arrays))
    arrays[_META] = np.frombuffer(text.encode(), dtype=np.uint8)
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        raise InputError(f"Cannot write {target}: {error.strerror or error}.") from None
    finally:
        draft.unlink(missing_ok=True)


def load_state(path: str | Path) -> State:
    """Read a state that :func:`save_state` wrote."""
    source = Path(path)
    try:
        with np.load(source, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        state: State = _join(json.loads(arrays[_META].tobytes()), arrays)
    except FileNotFoundError:
        raise InputError(f"There is no file {source}: give the path of a saved state.") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise InputError(
            f"{source} is not a whole saved state: give a file that save_state wrote."
        ) from None
    return state


def _split(value: Any, key: str, arrays: dict[str, Any]) -> Any:
    """Move arrays out of a nested state, leaving their names behind."""
    if isinstance(value, np.ndarray):
        arrays[key] = value
        return {"array": key}
    if isinstance(value, dict):
        return {
            name: _split(part, f"{key}.{name}" if key else name, arrays)
            for name, part in value.items()
        }
    return value


def _join(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"array"}:
            return arrays[value["array"]]
        return {name: _join(part, arrays) for name, part in value.items()}
    return value
