"""Runs behind curves over time, and the figure of regret with its bounds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from iopea.comparison.curves import curves_of, looks
from iopea.comparison.figures import Curve, draw_regret, drawing, finished
from iopea.comparison.statistics import fit_power
from iopea.comparison.store import Store
from iopea.comparison.tables import Figure
from iopea.comparison.tasks import Task, system_text
from iopea.errors import InputError
from iopea.problem_files import problem_from
from iopea.studies.reproduction.costs import Choice
from iopea.studies.reproduction.scenarios import (
    METHODS,
    Method,
    Profile,
    Scenario,
    method_named,
    scenarios,
)
from iopea.systems.hard_instance import HardInstance
from iopea.theory import Bound, regret_bound
from iopea.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The setting of the paper's figure of costs over time.
FIGURE_1 = "dual-small-exponential"
#: Settings and methods of the figure of regret, and the instance of the lower bound.
REGRET = ("inventory-small-exponential", "dual-small-exponential", "queue-decaying")
REGRET_METHODS = ("iopea", "iopea-published")
HARD = HardInstance(policies=64, width=1, span=4)
#: Methods that do not learn: their cost is the same at all times.
CONSTANT = tuple(name for name, method in METHODS.items() if not method.learns)
#: Confidence of the theorem's bound that is drawn.
_DELTA = 0.05


def curve_tasks(choice: Choice, scenario: Scenario, names: Iterable[str]) -> dict[str, list[Task]]:
    """Runs with looks on the way, by method."""
    found: dict[str, list[Task]] = {}
    for name in names:
        method: Method = method_named(name)
        if method.learner(scenario) is None:
            continue
        task = method.task(scenario, choice.size.evaluation, looks(choice.size.curve))
        found[name] = [task.at(seed) for seed in (choice.seeds if method.learns else (0,))]
    return found


def figure_1_tasks(choice: Choice, profile: Profile) -> dict[str, list[Task]]:
    """The runs of the figure of costs over time."""
    methods = tuple(name for name in choice.methods if not method_named(name).families)
    return curve_tasks(choice, scenarios(profile)[FIGURE_1], methods)


@dataclass(frozen=True)
class RegretPanel:
    """Regret over time on one system, with the bounds.

    Attributes
    ----------
    title : str.
    curves : list of Curve.
    upper : array (2, n). Steps and the theorem's bound.
    lower : array (2, n), optional. Steps and the lower bound, if there is one for this system.
    """

    title: str
    curves: list[Curve]
    upper: Array
    lower: Array | None = None


def regret_tasks(choice: Choice, profile: Profile) -> dict[str, dict[str, list[Task]]]:
    """The runs of the figure of regret, by setting and method."""
    names = [name for name in REGRET_METHODS if name in choice.methods]
    return {
        setting: curve_tasks(choice, scenarios(profile)[setting], names)
        for setting in REGRET
        if choice.includes(setting)
    }


def hard_tasks(choice: Choice) -> dict[int, list[Task]]:
    """Runs on the instances of the lower bound, which differ by horizon."""
    found = {}
    for horizon in looks(choice.size.curve):
        # By symmetry the arm does not matter: other seeds are as good as other arms.
        hidden = HARD.system.hardest(horizon, arm=HARD.system.policies - 1)
        task = Task(
            label="hard-instance",
            system=system_text(HARD, hidden),
            learner="iopea",
            horizons=(horizon,),
            evaluation=choice.size.evaluation,
        )
        found[horizon] = [task.at(seed) for seed in choice.seeds]
    return found


def regret_panels(choice: Choice, profile: Profile, store: Store) -> list[RegretPanel]:
    """The panels of the figure of regret with finished runs."""
    panels = [
        _panel(choice, profile, setting, tasks, store)
        for setting, tasks in regret_tasks(choice, profile).items()
    ]
    return [panel for panel in (*panels, _hard_panel(choice, store)) if panel.curves]


def _panel(
    choice: Choice, profile: Profile, setting: str, tasks: dict[str, list[Task]], store: Store
) -> RegretPanel:
    found = curves_of(tasks, store, "regret")
    system = scenarios(profile)[setting].system()
    return RegretPanel(f"{setting}, {profile}", found, _upper(system, choice.size.curve))


@cache
def upper_bound(system: str, horizon: int) -> Bound | None:
    """The theorem's bound; None for short horizons or if its constants are not known."""
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
    """The theorem's bound at the steps where it applies."""
    bounds = [(horizon, upper_bound(system, horizon)) for horizon in looks(last)]
    points = [(horizon, bound.total) for horizon, bound in bounds if bound is not None]
    return np.array(points, dtype=np.float64).reshape(-1, 2).T


def _hard_panel(choice: Choice, store: Store) -> RegretPanel:
    """Regret on the instances of the lower bound, one per horizon."""
    steps, values, lower = [], [], []
    for horizon, tasks in hard_tasks(choice).items():
        if any(task.key not in store for task in tasks):
            continue
        steps.append(float(horizon))
        values.append([store.rows(task.key)[-1]["regret"] for task in tasks])
        lower.append((float(horizon), HARD.system.lower_bound(horizon)))
    upper = _upper(system_text(HARD, HARD.system.hardest(choice.size.curve)), choice.size.curve)
    title = f"hard instance, {HARD.system.policies} arms"
    if not steps:
        return RegretPanel(title, [], upper)
    curve = Curve("iopea", np.array(steps), np.array(values).T)
    return RegretPanel(title, [curve], upper, np.array(lower).T)


def regret_figure(panels: Sequence[RegretPanel], command: str) -> Figure:
    """Regret on log axes, with fitted exponents and bounds."""
    rows = (len(panels) + 1) // 2
    with drawing(7.4, 3.4 * rows) as canvas:
        for axes, panel in zip(canvas.subplots(rows, 2, squeeze=False).flat, panels, strict=False):
            _draw_regret(axes, panel)
        for axes in canvas.axes[len(panels) :]:
            axes.set_visible(False)
        caption = (
            "Extra cost over the best policy on the same noise, mean of the runs with its "
            "95 % interval, which goes on below the axis where it reaches its bottom, and the "
            "fitted exponent of T with its standard error. Upper bounds are the theorem's with "
            "the constants of its proof, which hold for rule “theorem” with probability 85 %; "
            "where none is drawn, the assumptions of the theorem fail or it needs a longer "
            "horizon. The lower bound is for the worst arm of the hard instance, which differs "
            "for each T: no learner stays below it on all arms."
        )
        return finished(canvas, "regret", "Regret against the horizon", caption, command)


def _draw_regret(axes: Axes, panel: RegretPanel) -> None:
    from iopea.comparison.axes import label_ticks

    draw_regret(axes, panel.curves, _exponent)
    if panel.upper.size:
        axes.plot(*panel.upper, color="#222222", linestyle="--", label="upper bound")
    if panel.lower is not None:
        axes.plot(*panel.lower, color="#222222", linestyle=":", label="lower bound")
    axes.set_yscale("log")
    label_ticks(axes.yaxis)
    axes.set_title(panel.title, loc="left", fontsize=9)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.2), fontsize=8)


def _exponent(curve: Curve) -> str:
    """The fitted exponent of T, for the label of a curve."""
    fit = fit_power(curve.steps, curve.values)
    if fit is None:
        return ""
    error = "" if np.isnan(fit.error) else f" ± {fit.error:.2f}"
    return f": $T^{{{fit.exponent:.2f}}}${error}"
