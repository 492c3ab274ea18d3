"""Tables from files, Arrow, pandas and Polars, and their cells as text, numbers and dates.

Nothing is guessed from the first rows: a CSV is read as text, and each column is turned into what
it must be. A cell that can't be is reported with its row.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from iopea.errors import InputError, shown, shown_path, unknown
from iopea.model import LARGEST

#: The row of a table, from 1, as people count the rows below the header.
ROW = "_row"
#: What Polars adds to the second name of two columns that have the same one.
_TWICE = "_duplicated_0"
#: What the first bytes of a file in UTF-16 are.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def _read_csv(path: Path) -> pl.DataFrame:
    with path.open("rb") as file:
        header = file.readline()
    if header.startswith(_UTF_16):
        raise ValueError("it is in UTF-16: save it as UTF-8")
    for separator, name in ((b";", "semicolons"), (b"\t", "tabs")):
        if separator in header and b"," not in header:
            raise ValueError(f"its columns are separated by {name}: separate them by commas")
    found = pl.read_csv(path, infer_schema=False, glob=False)
    for name in found.columns:
        if name.removesuffix(_TWICE) != name and name.removesuffix(_TWICE) in found.columns:
            raise ValueError(f"it has two columns {name.removesuffix(_TWICE)!r}: rename one")
    return found


#: How each kind of file is read.
_READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": _read_csv,
    ".parquet": lambda path: pl.read_parquet(path, glob=False),
    ".arrow": lambda path: pl.read_ipc(path.read_bytes()),
    ".feather": lambda path: pl.read_ipc(path.read_bytes()),
}
#: Types of columns that hold names, besides numbers and times.
_NAMES = (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Null)
_TRUE, _FALSE = ("true", "yes"), ("false", "no")


def frame_of(what: str, source: Any) -> pl.DataFrame:
    """A table as a Polars frame, with the number of each row.

    >>> frame_of("history", {"unique_id": ["a"], "sales": [3]}).columns
    ['unique_id', 'sales', '_row']
    """
    frame = _read(what, source)
    if not frame.width or not frame.height:
        raise InputError(f"The {what} has no rows: give at least one.")
    return frame.with_columns(pl.int_range(1, pl.len() + 1).alias(ROW))


def _read(what: str, source: Any) -> pl.DataFrame:
    if isinstance(source, str | Path):
        return _read_file(what, Path(source))
    if isinstance(source, pl.DataFrame):
        return source
    try:
        if isinstance(source, pl.LazyFrame):
            return source.collect()
        if isinstance(source, Mapping):
            return pl.DataFrame(dict(source), strict=False)
        if hasattr(source, "to_numpy") and hasattr(source, "columns"):  # pandas
            return pl.DataFrame([_column(str(name), source[name]) for name in source.columns])
        if hasattr(source, "__arrow_c_stream__"):
            return pl.DataFrame(source)
    except (OSError, TypeError, ValueError, AttributeError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"Cannot read the {what}: {' '.join(str(error).split()) or type(error).__name__}."
        ) from None
    raise InputError(
        f"The {what} is {shown(source)}: give a file (CSV, Parquet or Arrow) or a table of Polars, "
        "Arrow or pandas."
    )


def _column(name: str, values: Any) -> pl.Series:
    """A column of pandas; values of several types become text, and times are those of its clock."""
    if getattr(values.dtype, "tz", None) is not None:
        values = values.dt.tz_localize(None)
    array = values.to_numpy()
    if array.dtype.kind == "M":
        array = array.astype("datetime64[us]")
    if array.dtype != object:
        return pl.Series(name, array)
    missing = values.isna().to_numpy()
    cells = [None if gone else cell for cell, gone in zip(array.tolist(), missing, strict=True)]
    cells = [
        cell.replace(tzinfo=None) if isinstance(cell, datetime.datetime) else cell for cell in cells
    ]
    kinds = {type(cell) for cell in cells} - {type(None)}
    if len(kinds) > 1:
        cells = [None if cell is None else str(cell) for cell in cells]
    return pl.Series(name, cells, strict=False)


def suffix_of(what: str, path: Path) -> str:
    """The ending of the name of a file, which must be that of a table."""
    suffix = path.suffix.lower()
    if suffix not in _READERS:
        raise InputError(
            f"The {what} is {shown_path(path)}: give a file that ends in {', '.join(_READERS)}."
        )
    return suffix


def _read_file(what: str, path: Path) -> pl.DataFrame:
    name = shown_path(path)
    try:
        if path.is_dir():
            raise ValueError("it is a folder: give a file")
        return _READERS[suffix_of(what, path)](path)
    except FileNotFoundError:
        raise InputError(f"There is no file {name}: give the {what}.") from None
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"Cannot read {name}: {reason.split('. ')[0].rstrip('.')}.") from None


def renamed(columns: Mapping[str, str], *frames: pl.DataFrame | None) -> tuple[Any, ...]:
    """Frames whose columns have the names of the convention, given as ``{ours: theirs}``."""
    if not isinstance(columns, Mapping) or not all(
        isinstance(one, str) for one in columns.values()
    ):
        raise InputError(
            f"columns is {shown(columns)}: give names as {{'sales': 'qty'}}, ours and yours."
        )
    there = [name for frame in frames if frame is not None for name in frame.columns]
    for theirs in columns.values():
        if theirs not in there or theirs == ROW:
            raise unknown("column", theirs, [name for name in there if name != ROW])
    found = []
    for frame in frames:
        if frame is not None:
            own = {ours: theirs for ours, theirs in columns.items() if theirs in frame.columns}
            other = [ours for ours in own if ours in frame.columns and ours not in own.values()]
            frame = frame.drop(other).rename({theirs: ours for ours, theirs in own.items()})
        found.append(frame)
    return tuple(found)


def need(what: str, frame: pl.DataFrame, names: tuple[str, ...]) -> None:
    """Refuse a frame that lacks a column, with the nearest one that it has."""
    for name in names:
        if name in frame.columns:
            continue
        there = [column for column in frame.columns if column != ROW]
        alike = {column.strip().lower().replace(" ", "_"): column for column in there}
        hint = f"it has {', '.join(map(repr, there[:12]))}"
        if name in alike:
            hint = f"rename {alike[name]!r}, or name it in columns"
        raise InputError(f"The {what} has no column {name!r}: {hint}.")


def as_text(frame: pl.DataFrame, name: str) -> pl.Expr:
    """A column as text without blanks around it; empty text is missing.

    Whole numbers are written without a decimal point, so that 17 and 17.0 are one item.
    """
    column = pl.col(name)
    kind = frame.schema[name]
    if not (kind.is_numeric() or kind.is_temporal() or kind in _NAMES):
        raise InputError(f"The column {name!r} holds {kind}: give text or numbers.")
    if kind.is_float():
        column = column.fill_nan(None)
        whole = column == column.round()
        column = (
            pl.when(whole)
            .then(column.cast(pl.Int64, strict=False))
            .otherwise(None)
            .cast(pl.String)
            .fill_null(column.cast(pl.String))
        )
    text = column.cast(pl.String, strict=False).str.strip_chars()
    return pl.when(text != "").then(text)


def as_number(frame: pl.DataFrame, name: str) -> tuple[pl.Expr, pl.Expr]:
    """A column as numbers, and whether a cell is no number.

    Empty cells and NaN are missing. Truth values are 0 and 1.
    """
    kind = frame.schema[name]
    column = pl.col(name)
    if kind == pl.Boolean or kind.is_numeric():
        number = column.cast(pl.Float64).fill_nan(None)
        return number, (number.abs() > LARGEST).fill_null(False)
    if kind != pl.String:
        return pl.lit(None, dtype=pl.Float64), column.is_not_null()
    text = column.str.strip_chars()
    low = text.str.to_lowercase()
    empty = text.is_null() | low.is_in(["", "nan", "na", "null", "none"])
    number = (
        pl.when(low.is_in(_TRUE)).then(1.0)
        .when(low.is_in(_FALSE)).then(0.0)
        .otherwise(text.cast(pl.Float64, strict=False))
    )  # fmt: skip
    bad = ~empty & (number.is_null() | number.is_nan() | (number.abs() > LARGEST)).fill_null(True)
    return pl.when(empty).then(None).otherwise(number).fill_nan(None), bad


def as_day(frame: pl.DataFrame, name: str) -> tuple[pl.Expr, pl.Expr]:
    """A column as days, and whether a cell is no day; text must be as 2024-03-28."""
    kind = frame.schema[name]
    column = pl.col(name)
    if kind == pl.Date:
        return column, column.is_null()
    if kind == pl.Datetime:
        clock = column.dt.replace_time_zone(None)
        day = clock.cast(pl.Date)
        right = clock == day.cast(pl.Datetime)
        return pl.when(right).then(day), ~right.fill_null(False)
    if kind == pl.String:
        text = column.str.strip_chars().str.replace(r"[T ]00:00(:00(\.0*)?)?(Z|\+00:00)?$", "")
        day = text.str.to_date("%Y-%m-%d", strict=False, exact=True)
        right = text.str.contains(r"^\d{4}-\d{2}-\d{2}$")
        day = pl.when(right).then(day)
        return day, day.is_null()
    return pl.lit(None, dtype=pl.Date), pl.lit(True)
