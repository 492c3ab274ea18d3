"""Hyperparameters that were chosen once, as data beside the space they were chosen from.

Each learner that has any has a file ``tuning/NAME.toml`` in this folder: ``seeds``, which no
comparison uses, the ``[space]`` that was searched, and what was ``[chosen]`` by kind of problem,
where ``default`` stands for any other kind. ``benchmarks/tune.py`` writes it.
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


def chosen(learner: str, kind: str) -> dict[str, Any]:
    """What was chosen for a learner and a kind of problem."""
    table = _content(learner)["chosen"]
    return {**table["default"], **table.get(kind, {})}
