"""Options shared by several commands, and the reading of numbers: what is wrong gets a sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from iopea.errors import InputError

#: Limits of the library, which are repeated here so that the help loads nothing heavy:
#: ``MOST_STEPS`` and ``MOST_WORKERS`` of :mod:`iopea.simulate`, and ``MOST_COUNTED`` of
#: :mod:`iopea.model`.
MOST_STEPS, MOST_WORKERS, MOST_COUNTED = 10**9, 4096, 10**18
#: Most runs of a learner.
MOST_SEEDS = 10**6


class RefusalError(Exception):
    """A refused value of an option, with the whole sentence.

    It is no ``ValueError``, for which Typer would write a message of its own.
    """

    def format_message(self) -> str:
        """The sentence, as errors of Typer give theirs."""
        return str(self)


def whole(option: str, least: int = 0, most: int = MOST_COUNTED, **more: Any) -> Any:
    """An option that takes a whole number in a range."""

    def check(value: object) -> int:
        from iopea.model import check_count

        return check_count(option, value, least, most)

    return typer.Option(option, parser=_reading(int, check), **more)


def share(option: str, **more: Any) -> Any:
    """An option that takes a number strictly between 0 and 1."""

    def check(value: object) -> float:
        from iopea.model import check_share

        return check_share(option, value)

    return typer.Option(option, parser=_reading(float, check), **more)


def positive(option: str, **more: Any) -> Any:
    """An option that takes a number above 0."""

    def check(value: object) -> float:
        from iopea.model import check_positive

        return check_positive(option, value)

    return typer.Option(option, parser=_reading(float, check), **more)


def path(text: object) -> Path:
    """The path of a file or a folder, as an option or an argument takes it."""
    if text == "":
        raise RefusalError("A path is '', which is empty: give the path of a file or a folder.")
    return Path(str(text))


def _reading(read: Callable[[str], Any], check: Callable[[object], Any]) -> Callable[..., Any]:
    """A parser of text; what cannot be read is left to the check, whose sentence shows it."""

    def number(value: object) -> Any:  # some versions of Typer show this name in the help
        from iopea.model import number_in

        with contextlib.suppress(ValueError):
            value = number_in(value, read) if isinstance(value, str) else value
        try:
            return check(value)
        except InputError as error:
            raise RefusalError(str(error)) from None

    return number


Import = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="A module, or a .py file, that registers classes of yours; may be repeated.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Horizon = Annotated[int, whole("--horizon", 1, MOST_STEPS, help="Steps of each run.")]
Seeds = Annotated[int, whole("--seeds", 1, MOST_SEEDS, help="Number of independent runs.")]
FirstSeed = Annotated[int, whole("--first-seed", help="Seed of the first run.")]
Out = Annotated[
    Path,
    typer.Option(
        parser=path, help="Folder of results and report; an interrupted run continues there."
    ),
]
Workers = Annotated[
    int,
    whole(
        "--workers",
        0,
        MOST_WORKERS,
        help="Number of processes, without effect on results; 0: all cores.",
    ),
]
Cluster = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler, whose workers are used instead.")
]
