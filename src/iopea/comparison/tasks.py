"""One task of an experiment: a learner on a system with a seed, and the rows that it gives.

A task holds everything that its result depends on, as text and numbers, and its key is a digest of
that. A task that two tables need runs once, and its result does not depend on the machine.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

import iopea
from iopea.errors import InputError
from iopea.learners import learner_named
from iopea.learners.base import Learner, made
from iopea.plugins import plugins_of, prepare
from iopea.problem_files import problem_from, tables_of
from iopea.problems.base import Problem
from iopea.registry import Plugin
from iopea.simulate import BestInClass, best_in_class, compare_at, evaluate_any
from iopea.types import Recommendation, Truth

#: The result of a task: one row for each of its horizons.
Row = dict[str, Any]

#: Characters of the digest in a key, enough to be unique.
_DIGEST = 16
#: Estimated seconds per million steps, by learner, and by learner and kind of problem.
_SECONDS = {
    "basa": 8.0,
    "erm": 1.0,
    "erm dual-sourcing": 4.0,
    "erm queue": 6.0,
    "feedback-graph": 8.0,
    "iopea": 2.0,
    "iopea dual-sourcing": 8.0,
    "iopea lost-sales": 4.0,
    "order-up-to": 4.0,
    "ppo": 130.0,
    "random": 50.0,
    "sgd-base-stock": 12.0,
    "ucrl2": 3.0,
}
_OTHERS = 0.5


def as_text(value: Any) -> str:
    """JSON values as canonical text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def system_text(problem: Problem, truth: Truth) -> str:
    """A problem and its truth as text, which :func:`problem_from` reads back."""
    return as_text(tables_of(problem, truth.table()))


@dataclass(frozen=True)
class Task:
    """A run of a learner, or the search for the best policy.

    Attributes
    ----------
    label : str. Name of the system, for people.
    system : str. Problem and truth, as :func:`system_text` has them.
    learner : str, optional. By name; without one, the best policy of the class is searched for.
    settings : str. The learner's settings as text.
    seed : int. Of the simulator and the learner.
    horizons : tuple of int. Steps after which to look; the last of them ends the run [T].
    evaluation : int. Steps of the path on which recommendations are evaluated.
    reference : str, optional. The system whose best policy is the reference, if another one: gap
        and regret are then against that policy in that system.
    plugins : tuple of Plugin. What it uses of plug-ins, which a worker finds by this. The key
        depends on what their files say, not on where they are.
    """

    label: str
    system: str
    learner: str | None
    settings: str = "{}"
    seed: int = 0
    horizons: tuple[int, ...] = ()
    evaluation: int = 8_000_000
    reference: str | None = None
    plugins: tuple[Plugin, ...] = field(init=False)

    def __post_init__(self) -> None:
        systems = [json.loads(each) for each in (self.system, self.reference) if each is not None]
        found = plugins_of(self.learner, json.loads(self.settings), *systems)
        object.__setattr__(self, "plugins", found)

    @property
    def key(self) -> str:
        """A unique name, valid in a file name."""
        known = asdict(self)
        known["plugins"] = [[each.group, each.name, each.digest] for each in self.plugins]
        if not self.plugins:
            del known["plugins"]
        digest = hashlib.sha256(as_text(known).encode()).hexdigest()[:_DIGEST]
        return f"{self.label}.{self.learner or 'best'}.{self.seed}.{digest}"

    @property
    def best(self) -> Task:
        """The task of finding the best policy, which this one needs."""
        system = self.reference or self.system
        return Task(self.label, system, None, evaluation=self.evaluation)

    @property
    def before(self) -> tuple[Task, ...]:
        """The search for the best policy, unless this is the search."""
        return () if self.learner is None else (self.best,)

    def perform(self, found: Sequence[list[Row]]) -> list[Row]:
        """Run the task, given the row of the search for the best policy."""
        return perform(self, best_from(found[0][0]) if found else None)

    @property
    def effort(self) -> float:
        """Estimated run time in seconds, to run long tasks first and to estimate the time left."""
        if self.learner is None:
            return 3.0
        kind = json.loads(self.system)["problem"]["kind"]
        rate = _SECONDS.get(f"{self.learner} {kind}", _SECONDS.get(self.learner, _OTHERS))
        return 0.3 + rate * self.horizons[-1] / 1e6

    def at(self, seed: int) -> Task:
        """The same with another seed."""
        return replace(self, seed=seed)


def perform(task: Task, best: BestInClass | None = None) -> list[Row]:
    """Run a task; all but the search for the best policy need its result."""
    prepare(task.plugins)
    problem, truth = problem_from(json.loads(task.system))
    start = time.perf_counter()
    if task.learner is None:
        found = best_in_class(problem.simulator(truth), task.evaluation)
        return [
            _row(
                task,
                steps=0,
                cost=found.cost,
                gap=0.0,
                average=found.cost,
                best_average=found.cost,
                regret=0.0,
                relative_regret=0.0,
                **_columns_of(found.policy, problem),
                survivors=None,
                standard_error=found.standard_error,
                seconds=time.perf_counter() - start,
            )
        ]
    if best is None:
        raise InputError(f"Task {task.key} needs the result of task {task.best.key}.")
    settings = {"horizon": task.horizons[-1], "seed": task.seed, **json.loads(task.settings)}
    learner = made(learner_named(task.learner), problem, **settings)
    level, twin = best, None
    if task.reference not in (None, task.system):
        # In this system, the best policy of the reference has another cost.
        point, simulator = np.array([best.policy]), problem.simulator(truth)
        here = evaluate_any(simulator, point, best.steps, best.seed)
        level = replace(best, cost=float(here.cost[0]))
        other, its_truth = problem_from(json.loads(task.best.system))
        twin = other.simulator(its_truth, task.seed)
    times: dict[int, float] = {}

    def watch(_: Learner, steps: int) -> None:
        times[steps] = time.perf_counter() - start

    system = problem.simulator(truth, task.seed)
    return [
        _row(
            task,
            steps=look.steps,
            cost=look.cost,
            gap=best.share(look.cost - best.cost),
            average=look.average_cost,
            best_average=look.best_average_cost,
            regret=look.regret,
            relative_regret=best.share(look.average_cost - look.best_average_cost),
            **_columns_of(look.recommendation, problem),
            survivors=None if look.survivors is None else float(look.survivors),
            standard_error=None,
            seconds=times[look.steps],
        )
        for look in compare_at(learner, system, task.horizons, level, watch, twin)
    ]


def _columns_of(choice: Recommendation, problem: Problem) -> Row:
    """A recommendation as columns: numbers with their names, or text where it is no policy."""
    if not isinstance(choice, tuple):
        return {"policy": None, "parameters": None, "controller": str(choice)}
    names = list(problem.policy_class.names)
    return {"policy": list(choice), "parameters": names, "controller": None}


def _row(task: Task, **values: Any) -> Row:
    about = {
        "task": task.key,
        "label": task.label,
        "system": task.system,
        "learner": task.learner or "best",
        "settings": task.settings,
        "seed": task.seed,
        "horizon": task.horizons[-1] if task.horizons else 0,
        "evaluation": task.evaluation,
        "version": iopea.__version__,
    }
    return about | values


def best_from(row: Row) -> BestInClass:
    """The result of the search for the best policy, from its row."""
    return BestInClass(
        policy=tuple(row["policy"]),
        cost=row["cost"],
        standard_error=row["standard_error"],
        steps=row["evaluation"],
        seed=0,
    )
