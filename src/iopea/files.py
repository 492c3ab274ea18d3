"""Problem files: TOML with a table ``[problem]`` and those that hold the truth for simulation.

Which these are, depends on the kind of the problem: ``[demand]`` for inventory. A table
``[order]`` may hold a claim to test; see :mod:`iopea.checking`.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from iopea.errors import InputError, unknown
from iopea.problems import PROBLEMS
from iopea.problems.base import Problem
from iopea.types import Truth

#: The table of a claim to test, which any problem file may have.
ORDER = "order"


def read_problem(path: str | Path) -> tuple[Problem, Truth]:
    """Read a problem file; every fault is a sentence that names the file and the value."""
    source = Path(path)
    try:
        text = source.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"There is no file {source}: give the path of a problem file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read {source}: {error}.") from None
    try:
        return parse_problem(text, source.parent)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def default_problem() -> tuple[Problem, Truth]:
    """The small inventory setting of the paper with exponential demand."""
    return parse_problem(resources.files("iopea").joinpath("data/lost-sales.toml").read_text())


def parse_problem(text: str, directory: Path | None = None) -> tuple[Problem, Truth]:
    """Parse the text of a problem file; data files are looked for in ``directory``.

    >>> problem, demand = parse_problem('''
    ... [problem]
    ... kind = "lost-sales"
    ... lead_time = 2
    ... holding_cost = 1.0
    ... lost_sales_cost = 10.0
    ... levels = { low = 0.0, high = 7.0 }
    ... [demand]
    ... distribution = "poisson"
    ... mean = 1.5
    ... ''')
    >>> problem.lead_time, demand.mean
    (2, 1.5)
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"This is not TOML: {error}.") from None
    known_tables = {"problem", ORDER}.union(*(known.tables for known in PROBLEMS.values()))
    for name in content:
        if name not in known_tables:
            raise unknown("table", name, sorted(known_tables))
    problem = dict(_table(content, "problem"))
    kind = problem.pop("kind", None)
    if kind is None:
        raise InputError(f"[problem] needs a kind, such as kind = {next(iter(PROBLEMS))!r}.")
    if str(kind) not in PROBLEMS:
        raise unknown("kind of problem", str(kind), PROBLEMS)
    known = PROBLEMS[str(kind)]
    for name in content:
        if name not in ("problem", ORDER, *known.tables):
            raise InputError(f"A problem of kind {kind!r} has no use for a table [{name}].")
    tables = {name: _table(content, name) for name in known.tables}
    return known.read({"problem": problem, **tables}, directory)


def _table(content: dict[str, Any], name: str) -> dict[str, Any]:
    table = content.get(name)
    if not isinstance(table, dict):
        raise InputError(f"A problem file needs a table [{name}].")
    return table
