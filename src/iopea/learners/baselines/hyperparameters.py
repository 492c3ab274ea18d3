"""Tuned hyperparameters, stored with the space that was searched.

Each learner with hyperparameters has a file ``tuning/NAME.toml`` in this folder: ``seeds``, which
no comparison uses, the ``[space]`` that was searched, and the values ``[chosen]`` for each kind of
problem, with ``default`` for any other kind. ``benchmarks/tune.py`` writes it.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _content(learner: str) -> dict[str, Any]:
    folder = files("iopea.learners.baselines") / "tuning"
    return tomllib.loads((folder / f"{learner}.toml").read_text("utf-8"))


def chosen(learner: str, kind: str, **given: Any) -> dict[str, Any]:
    """The tuned hyperparameters of a learner for a kind of problem, except those that are given."""
    table = _content(learner)["chosen"]
    own = {name: value for name, value in given.items() if value is not None}
    return {**table["default"], **table.get(kind, {}), **own}
