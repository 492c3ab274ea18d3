"""Problem files: TOML with a table ``[problem]``, and tables with the truth for simulation.

The truth depends on the kind of problem: inventory has a table ``[demand]``. A table ``[policies]``
holds a policy family, with its kind and its ranges; without it, ``[problem]`` has the keys of the
default family, such as ``levels`` for base-stock. Its key ``start`` is the policy in force today. A
table ``[order]`` may hold a claim to test; see
:class:`OrderTable` and :mod:`iopea.orders.checking`.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np

from iopea.errors import InputError, shown, shown_path, unknown
from iopea.information_order import InformationOrder
from iopea.model import check_choice, check_file, check_path
from iopea.problems.base import Problem
from iopea.systems import PROBLEMS
from iopea.types import Array, Claim, Truth

Content = TypeVar("Content")

#: Most parts of a key.
_MOST_PARTS = 100
_KEY = re.compile(r"[^\n=\[\]{},#]+")

#: The table of a policy family other than the default of the problem.
POLICIES = "policies"
#: The table of a claim to test, which any problem file may have.
ORDER = "order"


def read_problem(path: str | Path) -> tuple[Problem, Truth]:
    """Read a problem file; an error message names the file and the value."""
    source = check_path("The problem file", path)
    return _read(source, lambda text: parse_problem(text, source.parent))


def read_order(path: str | Path) -> OrderTable:
    """Read the optional table ``[order]`` of a problem file."""
    return _read(check_path("The problem file", path), parse_order)


def _read(source: Path, parse: Callable[[str], Content]) -> Content:
    name = shown_path(source)
    try:
        check_file(source)
        text = source.read_bytes().decode().replace("\r\n", "\n")
    except FileNotFoundError:
        raise InputError(f"There is no file {name}: give the path of a problem file.") from None
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise InputError(f"Cannot read {name}: it is not text in UTF-8 ({error.reason}).") from None
    except OSError as error:
        raise InputError(f"Cannot read {name}: {error.strerror or error}.") from None
    try:
        return parse(text)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def default_problem() -> tuple[Problem, Truth]:
    """The small inventory setting of the paper with exponential demand."""
    return parse_problem(resources.files("iopea").joinpath("data/lost-sales.toml").read_text())


def parse_problem(text: str, directory: Path | None = None) -> tuple[Problem, Truth]:
    """Parse the text of a problem file; paths of data files refer to ``directory``.

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
    >>> problem.system.lead_time, demand.mean
    (2, 1.5)
    """
    return problem_from(_content(text), directory)


def problem_from(
    content: Mapping[str, Any], directory: Path | None = None
) -> tuple[Problem, Truth]:
    """Problem and truth from the tables of a problem file; see :func:`tables_of`."""
    given = content.get("problem")
    kinds: list[type[Problem]] = list(PROBLEMS.built_in.values())
    found = PROBLEMS.plugin(given.get("kind")) if isinstance(given, dict) else None
    if found is not None:
        kinds.append(PROBLEMS[found.name])
    known_tables = {"problem", POLICIES, ORDER}.union(*(each.system_type.tables for each in kinds))
    for name in content:
        if name not in known_tables:
            raise unknown("table", name, sorted(known_tables))
    problem = dict(_table(content, "problem"))
    kind = problem.pop("kind", None)
    if kind is None:
        example = next(iter(PROBLEMS.built_in))
        raise InputError(f"[problem] needs a kind, such as kind = {example!r}.")
    known = PROBLEMS.named(kind)
    for name in content:
        if name not in ("problem", POLICIES, ORDER, *known.system_type.tables):
            raise InputError(f"A problem of kind {kind!r} has no use for a table [{name}].")
    tables = {name: _table(content, name) for name in known.system_type.tables}
    if POLICIES in content:
        tables[POLICIES] = _table(content, POLICIES)
    return known.read({"problem": problem, **tables}, directory)


def tables_of(problem: Problem, truth: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The tables of a problem file; a truth that has no table of its own is in ``[problem]``.

    >>> problem, demand = default_problem()
    >>> tables_of(problem, demand.table())["demand"]["distribution"]
    'exponential'
    """
    known = problem.describe()
    policies = dict(known.pop("family", {}))  # type: ignore[call-overload]
    if "start" in known:
        policies["start"] = known.pop("start")
    tables: dict[str, Any] = {"problem": known}
    if policies:
        tables[POLICIES] = policies
    match problem.tables:
        case ():
            tables["problem"] = {**known, **truth}
        case (name,):
            tables[name] = dict(truth)
        case _:
            tables |= truth
    return tables


def _content(text: str) -> dict[str, Any]:
    if text.startswith("\ufeff"):
        raise InputError("The file begins with a byte-order mark: save it as UTF-8 without one.")
    if any(key[0].count(".") > _MOST_PARTS for key in _KEY.finditer(text)):
        raise InputError(f"This is not a problem file: a key has more than {_MOST_PARTS} parts.")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"This is not TOML: {error}.") from None
    except RecursionError:
        raise InputError("This is not a problem file: its values are nested too deeply.") from None
    except ValueError:  # Python reads no numbers of very many digits
        raise InputError("This is not a problem file: a number has too many digits.") from None


def _table(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = content.get(name)
    if not isinstance(table, dict):
        raise InputError(f"A problem file needs a table [{name}].")
    return table


@dataclass(frozen=True)
class OrderTable:
    """The table ``[order]``: a claim about policies, which replaces the problem's own.

    Attributes
    ----------
    claim : str, optional. ``"sample-path"`` or ``"distributional"``.
    policies : array (n, d), optional. The policies to test.
    keys : array (m, d), optional. Rows of weights, one for each parameter: i informs j if every
        weighted sum of j's parameters is at most that of i's.
    matrix : array (n, n), optional. Whether i informs j, for the ``policies``.
    """

    claim: Claim | None = None
    policies: Array | None = None
    keys: Array | None = None
    matrix: Array | None = None

    def order_on(self, policies: Array) -> InformationOrder | None:
        """The order on policies, an array (n, d); None for the problem's own.

        >>> OrderTable(keys=np.array([[-1.0]])).order_on(np.array([[1.0], [2.0]])).informs(0, 1)
        True
        """
        if self.matrix is not None:
            return InformationOrder.from_matrix(self.matrix)
        if self.keys is None:
            return None
        weights, parameters = self.keys.shape[1], policies.shape[1]
        if weights != parameters:
            raise InputError(
                f"A row of keys in [{ORDER}] has {weights} weights, but a policy has "
                f"{parameters} parameters: give one weight for each."
            )
        sums = policies @ self.keys.T
        # Sums that are equal up to rounding are ties.
        return InformationOrder.from_key(np.round(sums / (np.abs(sums).max() or 1.0), 12))


def parse_order(text: str) -> OrderTable:
    """Parse the table ``[order]`` of the text of a problem file.

    >>> parse_order("order = { claim = 'sample-path', keys = [[-1.0]] }").keys
    array([[-1.]])
    """
    table = _content(text).get(ORDER, {})
    if not isinstance(table, dict):
        raise InputError(f"{ORDER} must be a table [{ORDER}], not {shown(table)}.")
    known = OrderTable.__dataclass_fields__
    for key in table:
        if key not in known:
            raise unknown(f"key in [{ORDER}]", key, known)
    claim = table.get("claim")
    if claim is not None:
        check_choice("claim", claim, get_args(Claim))
    rows = {key: _rows(key, table[key]) for key in ("policies", "keys", "matrix") if key in table}
    if "matrix" in rows:
        if "keys" in rows:
            raise InputError(f"[{ORDER}] has keys and a matrix: give one of them.")
        if "policies" not in rows:
            raise InputError(f"[{ORDER}] has a matrix: also give the policies of its rows.")
        order, policies = InformationOrder.from_matrix(rows["matrix"]), rows["policies"]
        if len(order) != len(policies):
            raise InputError(
                f"The matrix in [{ORDER}] has {len(order)} rows, but there are "
                f"{len(policies)} policies: give one row for each."
            )
    return OrderTable(claim, **rows)


def _rows(name: str, value: Any) -> Array:
    """Rows of equal length; for policies with one parameter, also a list of numbers."""
    kinds = (bool, int, float) if name == "matrix" else (int, float)
    rows: list[Any] = value if isinstance(value, list) else [None]
    if name == "policies":
        rows = [row if isinstance(row, list) else [row] for row in rows]
    right = all(
        isinstance(row, list)
        and len(row) == len(rows[0]) > 0
        and all(type(entry) in kinds and math.isfinite(entry) for entry in row)
        for row in rows
    )
    if not rows or not right:
        raise InputError(
            f"{name} in [{ORDER}] must be rows of finite numbers, all of the same length, "
            f"such as [[0.0, 1.0]], not {shown(value)}."
        )
    return np.array(rows, dtype=np.float64)
