"""Comparison of learners on given problems: tables, tests, figures and a report."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from iopea.comparison.curves import curves_of, looks
from iopea.comparison.figures import costs_over_time, regret_over_time
from iopea.comparison.statistics import LEVEL, holm, mean_of, welch
from iopea.comparison.store import Store
from iopea.comparison.tables import (
    IMPROVED,
    WORSE,
    Cell,
    Column,
    Entry,
    Figure,
    Line,
    Report,
    Table,
    entry_columns,
    run_facts,
    runs,
)
from iopea.comparison.tasks import Row, Task, best_from, system_text
from iopea.errors import InputError
from iopea.learners import learner_named
from iopea.learners.base import made
from iopea.problems.base import Problem
from iopea.types import Truth

#: The first look at a run is after this many steps: much of the regret comes early.
_FIRST_LOOK = 100
#: The most characters of a label, which is part of file names.
_LONGEST = 60


@dataclass(frozen=True)
class Comparison:
    """Runs of several learners on several systems.

    Attributes
    ----------
    systems : dict. Problem and truth by label.
    learners : tuple of str. The others are tested against the first.
    horizon : int. Steps of each run.
    seeds : range.
    evaluation : int. Steps of the path on which recommendations are evaluated.
    command : str. The command that reproduces the report.
    files : dict. The file of each system by label, where labels don't say it.
    """

    systems: dict[str, tuple[Problem, Truth]]
    learners: tuple[str, ...]
    horizon: int
    seeds: range
    evaluation: int
    command: str
    files: dict[str, str] = field(default_factory=dict)
    absent: dict[tuple[str, str], str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.learners:
            for label, (problem, _) in self.systems.items():
                kind = learner_named(name)
                try:
                    made(kind, problem, horizon=self.horizon, seed=self.seeds.start)
                except InputError as error:
                    self.absent[label, name] = str(error)
            if all((label, name) in self.absent for label in self.systems):
                raise InputError(self.absent[next(iter(self.systems)), name])

    def runs(self, label: str, name: str) -> list[Task]:
        """The runs of a learner on a system; none if it does not fit."""
        if (label, name) in self.absent:
            return []
        system = system_text(*self.systems[label])
        task = Task(
            label,
            system,
            name,
            horizons=looks(self.horizon, _FIRST_LOOK),
            evaluation=self.evaluation,
        )
        return [task.at(seed) for seed in self.seeds]

    def tasks(self) -> list[Task]:
        """All runs."""
        return [
            task
            for label in self.systems
            for name in self.learners
            for task in self.runs(label, name)
        ]

    def report(self, store: Store) -> Report:
        """Tables and figures of the stored runs."""
        figures = [
            figure
            for label in self.systems
            if self._learners_on(label)
            for figure in (self._cost_figure(label, store), self._regret_figure(label, store))
        ]
        about = (
            f"{len(self.learners)} learners on {len(self.systems)} "
            f"problem{'' if len(self.systems) == 1 else 's'}, {len(self.seeds)} runs of "
            f"{self.horizon:,} steps each, with common random numbers."
        )
        return Report(
            title="Comparison of learners",
            lead=(about,),
            parts=(self._costs(store), self._regrets(store), *figures),
            facts=run_facts(self.seeds, self.evaluation, len(store)),
        )

    def _rows(self, label: str, name: str, store: Store) -> list[Row]:
        return [store.rows(task.key)[-1] for task in self.runs(label, name)]

    def _costs(self, store: Store) -> Table:
        base = self.learners[0]
        places = [(name, label) for name in self.learners for label in self.systems]
        p_values = []
        for name, label in places:
            mine = [row["cost"] for row in self._rows(label, name, store)]
            theirs = [row["cost"] for row in self._rows(label, base, store)]
            tested = name != base and mine and theirs
            p_values.append(welch(mine, theirs) if tested else float("nan"))
        adjusted = dict(zip(places, holm(p_values), strict=True))
        lines = []
        for name in self.learners:
            cells: list[Cell] = [name]
            for label in self.systems:
                rows = self._rows(label, name, store)
                if not rows:
                    cells.append(Entry(absent=self.absent[label, name]))
                    continue
                mean = mean_of([row["cost"] for row in rows])
                p_value = adjusted[name, label]
                sign = ""
                if p_value < LEVEL:
                    level = mean_of([row["cost"] for row in self._rows(label, base, store)]).value
                    sign = IMPROVED if mean.value < level else WORSE
                cells.append(
                    Entry(
                        mean.value,
                        mean.half,
                        mean.count,
                        gap=_known(mean_of([row["gap"] for row in rows]).value),
                        sign=sign,
                        p_value=_known(p_value),
                        command=self.command,
                    )
                )
            lines.append(Line(tuple(cells)))
        tests = sum(not math.isnan(p_value) for p_value in p_values)
        notes: tuple[str, ...] = (
            f"Long-run average cost of the policy recommended after {self.horizon:,} steps, "
            f"{runs(len(self.seeds))}; in brackets the gap to the best policy of the class.",
            f"{IMPROVED} significantly better than {base}, {WORSE} worse: Welch's test at "
            f"{100 * LEVEL:g} %, adjusted for all {tests} tests of this table (Holm)."
            if tests
            else "Nothing was tested: a test needs two learners and two runs of each.",
        )
        if self.files:
            notes += (
                "Files: "
                + ", ".join(f"{label} is {file}" for label, file in self.files.items())
                + ".",
            )
        return Table(
            "costs", "Cost of the recommended policies", self._columns, tuple(lines), notes
        )

    @property
    def _columns(self) -> tuple[Column, ...]:
        return entry_columns(tuple(self.systems))

    def _regrets(self, store: Store) -> Table:
        lines = []
        for name in self.learners:
            cells: list[Cell] = [name]
            for label in self.systems:
                regrets = [row["relative_regret"] for row in self._rows(label, name, store)]
                if not regrets:
                    cells.append(Entry(unit="share", absent=self.absent[label, name]))
                    continue
                mean = mean_of(regrets)
                cells.append(
                    Entry(mean.value, mean.half, mean.count, unit="share", command=self.command)
                )
            lines.append(Line(tuple(cells)))
        notes = (
            "Extra cost of the whole run over the best policy of the class on the same noise, as a "
            "share of the best policy's long-run cost.",
        )
        title = "Cost of learning: regret over T g*"
        return Table("regret", title, self._columns, tuple(lines), notes)

    def _learners_on(self, label: str) -> dict[str, list[Task]]:
        """The runs of the learners that fit a system."""
        tasks = {name: self.runs(label, name) for name in self.learners}
        return {name: runs for name, runs in tasks.items() if runs}

    def _cost_figure(self, label: str, store: Store) -> Figure:
        tasks = self._learners_on(label)
        best = best_from(store.rows(next(iter(tasks.values()))[0].best.key)[0])
        return costs_over_time(
            f"costs-{label}",
            f"Costs over time, {label}",
            curves_of(tasks, store, "cost"),
            curves_of(tasks, store, "average"),
            best.cost,
            self.command,
            f"{label}: {runs(len(self.seeds))}. The dotted line is the best policy of the class.",
        )

    def _regret_figure(self, label: str, store: Store) -> Figure:
        return regret_over_time(
            f"regret-{label}",
            f"Regret over time, {label}",
            curves_of(self._learners_on(label), store, "regret"),
            self.command,
            f"{label}: extra cost over the best policy of the class on the same noise, "
            f"{runs(len(self.seeds))}.",
        )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def labels_of(stems: Sequence[str]) -> list[str]:
    """Labels made of file names, all different and valid in file names.

    >>> labels_of(["shop", "my shop", "shop"])
    ['shop', 'my-shop', 'shop-2']
    """
    found: list[str] = []
    for stem in stems:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-")[:_LONGEST] or "problem"
        label, number = plain, 1
        while label in found:
            number += 1
            label = f"{plain}-{number}"
        found.append(label)
    return found
