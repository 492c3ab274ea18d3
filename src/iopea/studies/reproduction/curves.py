"""What is shown over time: costs on the way to the horizon, and regret against the bounds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy import stats

from iopea.comparison.statistics import CONFIDENCE
from iopea.comparison.store import Store
from iopea.comparison.tasks import Task, system_text
from iopea.errors import InputError
from iopea.problem_files import problem_from
from iopea.studies.reproduction.costs import Choice
from iopea.studies.reproduction.scenarios import METHODS, Method, Profile, Scenario, scenarios
from iopea.systems.hard_instance import HardInstance
from iopea.theory import Bound, regret_bound
from iopea.types import Array

#: The setting of the paper's figure of costs over time.
FIGURE_1 = "dual-small-exponential"
#: Settings and methods whose regret is drawn, and the instance of the lower bound.
REGRET = ("inventory-small-exponential", "dual-small-exponential", "queue-decaying")
REGRET_METHODS = ("iopea", "iopea-published")
HARD = HardInstance(policies=64, width=1, span=4)
#: Confidence of the theorem's bound that is drawn.
_DELTA = 0.05
#: The first look at a run: after so many steps, or of short ones after this part.
_FIRST_LOOK, _SHORT = 1000, 10


def looks(last: int) -> tuple[int, ...]:
    """Steps at which a run is looked at: 1, 2 and 5 times powers of ten, and its end.

    >>> looks(10_000)
    (1000, 2000, 5000, 10000)
    >>> looks(300)
    (50, 100, 200, 300)
    """
    first = min(_FIRST_LOOK, last // _SHORT)
    steps = [digit * 10**power for power in range(len(str(last))) for digit in (1, 2, 5)]
    return (*(each for each in steps if first <= each < last), last)


@dataclass(frozen=True)
class Curve:
    """A quantity over time in several runs.

    Attributes
    ----------
    name : str. Of the method.
    steps : array (n,).
    values : array (runs, n).
    constant : bool. Whether it is the same at all times, and known at one.
    """

    name: str
    steps: Array
    values: Array
    constant: bool = False

    @property
    def mean(self) -> Array:
        """Mean over the runs."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def half(self) -> Array:
        """Half the width of the 95 % interval of the mean; 0 of a single run."""
        runs = len(self.values)
        if runs < 2:
            return np.zeros_like(self.steps)
        error = self.values.std(axis=0, ddof=1) / np.sqrt(runs)
        return np.asarray(stats.t.ppf((1 + CONFIDENCE) / 2, runs - 1) * error)


def curve_tasks(choice: Choice, scenario: Scenario, names: Iterable[str]) -> dict[str, list[Task]]:
    """Runs that are looked at on the way, by method."""
    found: dict[str, list[Task]] = {}
    for name in names:
        method: Method = METHODS[name]
        if method.learner(scenario) is None:
            continue
        task = method.task(scenario, choice.size.evaluation, looks(choice.size.curve))
        found[name] = [task.at(seed) for seed in (choice.seeds if method.learns else (0,))]
    return found


def figure_1_tasks(choice: Choice, profile: Profile) -> dict[str, list[Task]]:
    """The runs of the figure of costs over time."""
    return curve_tasks(choice, scenarios(profile)[FIGURE_1], choice.methods)


def curves(tasks: dict[str, list[Task]], store: Store, column: str) -> list[Curve]:
    """A column of what those runs left that are finished."""
    found = []
    for name, runs in tasks.items():
        rows = [store.rows(task.key) for task in runs if task.key in store]
        if rows:
            steps = np.array([row["steps"] for row in rows[0]], dtype=np.float64)
            values = np.array([[row[column] for row in run] for run in rows])
            constant = name in METHODS and not METHODS[name].learns and steps.size == 1
            found.append(Curve(name, steps, values, constant))
    return found


@dataclass(frozen=True)
class RegretPanel:
    """Regret over time on one system, with the bounds.

    Attributes
    ----------
    title : str.
    curves : list of Curve. Cost beyond that of the best policy on the same chance.
    upper : array (2, n). Steps and the theorem's bound.
    lower : array (2, n), optional. Steps and the lower bound, where it is about this system.
    """

    title: str
    curves: list[Curve]
    upper: Array
    lower: Array | None = None


def regret_tasks(choice: Choice, profile: Profile) -> dict[str, dict[str, list[Task]]]:
    """The runs of the figure of regret, by setting and method."""
    names = [name for name in REGRET_METHODS if name in choice.methods]
    return {
        setting: curve_tasks(choice, scenarios(profile)[setting], [*names, "optimal"])
        for setting in REGRET
        if choice.includes(setting)
    }


def hard_tasks(choice: Choice) -> dict[int, dict[str, list[Task]]]:
    """Runs on the instance of the lower bound, which is another one at each horizon."""
    found = {}
    for horizon in looks(choice.size.curve):
        # Whichever arm is hidden, the others look alike: a seed is as good as another arm.
        hidden = HARD.hardest(horizon, arm=HARD.policies - 1)
        task = Task(
            label="hard-instance",
            system=system_text(HARD, hidden),
            learner="iopea",
            horizons=(horizon,),
            evaluation=choice.size.evaluation,
        )
        found[horizon] = {
            name: [replace(task, learner=name).at(seed) for seed in choice.seeds]
            for name in ("iopea", "optimal")
        }
    return found


def regret_panels(choice: Choice, profile: Profile, store: Store) -> list[RegretPanel]:
    """All panels of the figure of regret for which there is a finished run."""
    panels = [
        _panel(choice, profile, setting, tasks, store)
        for setting, tasks in regret_tasks(choice, profile).items()
    ]
    return [panel for panel in (*panels, _hard_panel(choice, store)) if panel.curves]


def _panel(
    choice: Choice, profile: Profile, setting: str, tasks: dict[str, list[Task]], store: Store
) -> RegretPanel:
    best = {task.seed: task for task in tasks["optimal"] if task.key in store}
    found = []
    for name in tasks:
        runs = [task for task in tasks[name] if task.key in store and task.seed in best]
        if name == "optimal" or not runs:
            continue
        steps = np.array(looks(choice.size.curve), dtype=np.float64)
        values = [
            [
                mine["average"] - its["average"]
                for mine, its in zip(
                    store.rows(task.key), store.rows(best[task.seed].key), strict=True
                )
            ]
            for task in runs
        ]
        found.append(Curve(name, steps, np.array(values) * steps))
    system = scenarios(profile)[setting].system()
    return RegretPanel(f"{setting}, {profile}", found, _upper(system, choice.size.curve))


@cache
def upper_bound(system: str, horizon: int) -> Bound | None:
    """The theorem's bound; None for short horizons, and where its constants are not known."""
    problem, truth = problem_from(json.loads(system))
    constants, net = problem.constants, problem.policy_class
    finite = constants.lipschitz == 0
    try:
        return regret_bound(
            horizon,
            span=constants.span,
            bound=constants.bound,
            dimension=constants.dimension,
            lipschitz=constants.lipschitz,
            restart_time=problem.simulator(truth).restart_time(),
            # Continuous classes have orders of width 1.
            width=problem.order(net.net(1.0)).width() if finite else 1,
            alpha=constants.alpha,
            data_needed=constants.data_needed(_DELTA),
            delta=_DELTA,
            cost_range=constants.cost_range,
            policies=net.count(1.0) if finite else None,
            extent=net.extent or None,
        )
    except InputError:
        return None


def _upper(system: str, last: int) -> Array:
    """The theorem's bound at the steps for which it says something."""
    bounds = [(horizon, upper_bound(system, horizon)) for horizon in looks(last)]
    points = [(horizon, bound.total) for horizon, bound in bounds if bound is not None]
    return np.array(points, dtype=np.float64).reshape(-1, 2).T


def _hard_panel(choice: Choice, store: Store) -> RegretPanel:
    """Regret on the instances of the lower bound, one horizon each."""
    steps, values, lower = [], [], []
    for horizon, tasks in hard_tasks(choice).items():
        both = list(zip(tasks["iopea"], tasks["optimal"], strict=True))
        if any(task.key not in store for pair in both for task in pair):
            continue
        averages = [[store.rows(task.key)[-1]["average"] for task in pair] for pair in both]
        steps.append(float(horizon))
        values.append([(mine - best) * horizon for mine, best in averages])
        lower.append((float(horizon), HARD.lower_bound(horizon)))
    upper = _upper(system_text(HARD, HARD.hardest(choice.size.curve)), choice.size.curve)
    title = f"hard instance, {HARD.policies} arms"
    if not steps:
        return RegretPanel(title, [], upper)
    curve = Curve("iopea", np.array(steps), np.array(values).T)
    return RegretPanel(title, [curve], upper, np.array(lower).T)
