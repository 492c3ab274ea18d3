"""Results on disk: one Parquet file per finished task, in a folder with a manifest.

A file gets its name when it is complete. Whatever ends a run, every finished task is kept, and none
in part. All of them read as one table:
``polars.read_parquet("DIR/tasks/*.parquet")``, or the same in DuckDB.
"""

from __future__ import annotations

import json
import os
import platform
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars as pl

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None  # type: ignore[assignment]

import iopea
from iopea.comparison.tasks import Row
from iopea.errors import ComputationError, InputError, shown_path
from iopea.storage import DRAFT, clear_drafts, writing

#: Columns of the stored rows.
COLUMNS: dict[str, Any] = {
    "task": pl.String,
    "label": pl.String,
    "system": pl.String,
    "learner": pl.String,
    "settings": pl.String,
    "seed": pl.Int64,
    "horizon": pl.Int64,
    "evaluation": pl.Int64,
    "version": pl.String,
    "steps": pl.Int64,
    "cost": pl.Float64,
    "gap": pl.Float64,
    "average": pl.Float64,
    "best_average": pl.Float64,
    "regret": pl.Float64,
    "relative_regret": pl.Float64,
    "policy": pl.List(pl.Float64),
    "parameters": pl.List(pl.String),
    "controller": pl.String,
    "survivors": pl.Float64,
    "standard_error": pl.Float64,
    "seconds": pl.Float64,
}
#: Number of this set of columns, in the manifest of every folder that has them.
LAYOUT = 2
#: Columns that may differ between two runs of the same task.
MEASURED = ("seconds",)
_MANIFEST = "manifest.json"
_LOCK = ".lock"
_TASKS = "tasks"
_SUFFIX = ".parquet"


class Store:
    """The finished tasks of a folder.

    Parameters
    ----------
    directory : path. Created if it does not exist.
    about : dict. What all results of the folder have in common, besides the version.
    warn : callable, optional. Called with a sentence for each damaged file; its task runs again.
    part : bool. Whether a list in ``about`` may be a part of the one in the manifest.
    columns : dict, optional. Columns of the rows, with their types, including ``task`` and
        ``version``.
    alone : bool. Whether to keep other processes out of the folder as long as this store exists;
        not needed to read finished tasks.
    """

    def __init__(
        self,
        directory: str | Path,
        about: dict[str, Any],
        warn: Callable[[str], None] = lambda sentence: None,
        part: bool = False,
        columns: dict[str, Any] | None = None,
        alone: bool = True,
    ) -> None:
        self.directory = Path(directory)
        self._columns = COLUMNS if columns is None else columns
        self._part = part
        self.about: dict[str, Any] = {}
        self._tasks = self.directory / _TASKS
        layout = {"layout": LAYOUT} if columns is None else {}
        self._claim({"version": iopea.__version__, **layout, **about}, alone)
        self._rows: dict[str, list[Row]] = {}
        for path in sorted(self._tasks.glob(f"*{_SUFFIX}")):
            try:
                frame = pl.read_parquet(path, schema=self._columns)
                found = set(frame["task"])
                if found != {path.name.removesuffix(_SUFFIX)}:
                    raise ValueError("it holds another task")
            except Exception as error:  # the reader raises many kinds of errors on damaged files
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                warn(
                    f"{shown_path(path)} is damaged ({reason}): its task is run again, all others "
                    "are kept."
                )
            else:
                self._rows[path.name.removesuffix(_SUFFIX)] = frame.rows(named=True)

    def _claim(self, about: dict[str, Any], alone: bool) -> None:
        """Claim a new folder, or continue in one with the same manifest."""
        manifest = self.directory / _MANIFEST
        try:
            if alone and (manifest.exists() or not self._foreign()):
                self._lock()
            if manifest.exists():
                self.about = json.loads(manifest.read_text("utf-8"))
                self._compare(self.about, about)
            elif self._foreign():
                raise InputError(
                    f"{shown_path(self.directory)} is not empty and holds no results of iopea: "
                    "give another folder with --out."
                )
            self._tasks.mkdir(parents=True, exist_ok=True)
            clear_drafts(self.directory)
            clear_drafts(self._tasks)
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{shown_path(manifest)} is damaged: delete it if the results are of version "
                f"{iopea.__version__}, or give another folder with --out."
            ) from None
        except OSError as error:
            raise InputError(
                f"Cannot use {shown_path(self.directory)} as a folder: {error.strerror or error}."
            ) from None
        if not manifest.exists():
            with writing(manifest) as file:
                file.write(json.dumps(about, indent=2).encode())
            self.about = about

    def _lock(self) -> None:
        """Refuse a folder that another process uses; the system drops the lock of one that ends."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if fcntl is None:
            return
        try:
            handle = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:  # a folder that can only be read
            return
        close = weakref.finalize(self, os.close, handle)
        here = f"process {os.getpid()} of {platform.node()}"
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, here.encode(), 0)
        except BlockingIOError:
            who = os.pread(handle, 1000, 0).decode(errors="replace")
            close()
            if who != here:
                who = who.removesuffix(f" of {platform.node()}") or "another process"
                raise InputError(
                    f"{shown_path(self.directory)} is in use by {who}: wait until it ends, or give "
                    "another folder with --out."
                ) from None
        except OSError:  # a file system without locks
            close()

    def _foreign(self) -> bool:
        """Whether a folder without a manifest holds more than the remains of a killed run."""
        if not self.directory.is_dir():
            return False
        found = [path for path in self.directory.iterdir() if not path.name.endswith(DRAFT)]
        return any(path not in (self._tasks, self.directory / _LOCK) for path in found) or (
            self._tasks.is_dir() and any(self._tasks.glob(f"*{_SUFFIX}"))
        )

    def _compare(self, there: Any, here: dict[str, Any]) -> None:
        if not isinstance(there, dict):
            raise ValueError("not an object")
        for name, value in here.items():
            found = there.get(name)
            within = isinstance(value, list) and isinstance(found, list) and set(value) <= {*found}
            if name == "layout" and found != value:
                raise InputError(
                    f"The results in {shown_path(self.directory)} have the columns of another "
                    "iopea: give another folder with --out, or delete that one."
                )
            if found != value and not (self._part and within):
                raise InputError(
                    f"The results in {shown_path(self.directory)} have {name} {_shown(found)}, not "
                    f"{_shown(value)}: give another folder with --out, or delete that one."
                )

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, key: str) -> list[Row]:
        """The rows of a finished task."""
        return self._rows[key]

    def add(self, key: str, rows: list[Row]) -> None:
        """Store the rows of a task, on disk before this returns."""
        path = self._tasks / f"{key}{_SUFFIX}"
        versions = {row["version"] for row in rows} - {iopea.__version__}
        if versions:
            raise InputError(
                f"Task {key} was run by iopea {versions.pop()}, and this is {iopea.__version__}: "
                "install the same version for all workers."
            )
        try:
            frame = pl.DataFrame(rows, schema=self._columns)
            with writing(path) as file:
                frame.write_parquet(file)
            _settle(self._tasks)
        except (InputError, OSError, pl.exceptions.PolarsError) as error:
            raise ComputationError(
                f"Cannot store the result of task {key}: {str(error).removesuffix('.')}. The "
                f"{len(self)} tasks that were finished before are kept: when there is room, give "
                "the same command again."
            ) from None
        self._rows[key] = frame.rows(named=True)

    def frame(self, keys: Iterable[str]) -> pl.DataFrame:
        """The rows of these tasks, as one table."""
        return pl.DataFrame(
            [row for key in keys if key in self._rows for row in self._rows[key]],
            schema=self._columns,
        )


def _settle(directory: Path) -> None:
    """Flush the entries of a folder to disk, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(directory, os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _shown(value: Any) -> str:
    return "none" if value is None else " and ".join(value) if isinstance(value, list) else value
