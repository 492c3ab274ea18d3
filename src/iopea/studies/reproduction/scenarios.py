"""The paper's experiments as data: settings in two profiles, rows of its tables, printed values.

``as-stated`` is what the paper's text says. ``as-published`` has the definitions that give the
printed numbers: a normal law of mean M/2 instead of M/3, an expedited cost that is charged to the
tailored base-surge learner alone, a uniformisation constant of 23 instead of 33, and for large dual
sourcing with exponential demand M = 30, levels z_e up to 30 and T = 10^5. The ranges of levels are
not in the paper; both profiles have those that explain its row of random policies.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from iopea.comparison.tasks import Task, as_text, system_text
from iopea.errors import unknown
from iopea.learners import learner_named
from iopea.learners.base import fits
from iopea.problem_files import problem_from
from iopea.problems.base import Problem
from iopea.systems.dual_sourcing.base_surge import BaseSurge
from iopea.systems.dual_sourcing.capped import CappedDualIndex
from iopea.systems.lost_sales.capped import CappedBaseStock

Profile = Literal["as-stated", "as-published"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
LAWS = ("exponential", "normal", "uniform")
#: Columns of table 1, and the arrivals of the table of queues.
BLOCKS = ("inventory-small", "inventory-large", "dual-small", "dual-large")
ARRIVALS = ("decaying", "fixed")
ZERO_DEMAND = 0.3
#: Slow methods are evaluated on this part of the steps.
_SLOW = 4

#: Steps of a run, bound of demand, and highest level by law.
_HORIZON = {"small": 100_000, "large": 300_000, "queue": 300_000}
_BOUND = {"small": 3.0, "large": 40.0}
_HIGH = {
    "inventory-small": {"exponential": 7.0, "normal": 7.0, "uniform": 7.0},
    "inventory-large": {"exponential": 300.0, "normal": 250.0, "uniform": 300.0},
    "dual-small": {"exponential": 6.0, "normal": 6.0, "uniform": 6.0},
    "dual-large": {"exponential": 200.0, "normal": 200.0, "uniform": 200.0},
}


@dataclass(frozen=True)
class Scenario:
    """A setting of the paper in one profile.

    Attributes
    ----------
    name : str. Block and law, such as ``"inventory-small-normal"`` or ``"queue-fixed"``.
    block, law : str. Column and part of a table.
    profile : str. ``"as-stated"`` or ``"as-published"``.
    horizon : int. Steps of a run [T].
    tables : dict. The content of a problem file.
    """

    name: str
    block: str
    law: str
    profile: Profile
    horizon: int
    tables: dict[str, dict[str, Any]] = field(hash=False, compare=False)

    @property
    def problem(self) -> Problem:
        """What the learner knows."""
        return problem_from(self.tables)[0]

    def system(self, **changes: Any) -> str:
        """Problem and truth as text, with some values of the problem changed."""
        problem = {**self.tables["problem"], **changes}
        return system_text(*problem_from({**self.tables, "problem": problem}))


def _demand(law: str, bound: float, profile: Profile) -> dict[str, Any]:
    table: dict[str, Any] = {"distribution": law, "zero_probability": ZERO_DEMAND}
    match law:
        case "exponential":
            table |= {"mean": bound / 3, "maximum": bound}
        case "normal":
            share = 3 if profile == "as-stated" else 2
            table |= {"mean": bound / share, "sd": bound / 6, "maximum": bound}
        case _:
            table |= {"low": 0.0, "high": bound, "maximum": bound}
    return table


def _inventory(size: str, law: str, profile: Profile) -> Scenario:
    block = f"inventory-{size}"
    problem = {
        "kind": "lost-sales",
        "lead_time": 2 if size == "small" else 6,
        "holding_cost": 1.0,
        "lost_sales_cost": 10.0,
        "levels": {"low": 0.0, "high": _HIGH[block][law]},
    }
    tables = {"problem": problem, "demand": _demand(law, _BOUND[size], profile)}
    return Scenario(f"{block}-{law}", block, law, profile, _HORIZON[size], tables)


def _dual(size: str, law: str, profile: Profile) -> Scenario:
    block, published = f"dual-{size}", profile == "as-published"
    bound, horizon, high = _BOUND[size], _HORIZON[size], _HIGH[block][law]
    fast = high
    if published and size == "large" and law == "exponential":
        bound, horizon, fast = 30.0, _HORIZON["small"], 30.0
    problem = {
        "kind": "dual-sourcing",
        "regular_lead_time": 1 if size == "small" else 5,
        "expedited_lead_time": 0,
        "holding_cost": 1.0,
        "lost_sales_cost": 10.0,
        "regular_cost": 0.0,
        "expedited_cost": 0.0 if published else 0.5,
        "expedited_levels": {"low": 0.0, "high": fast},
        "regular_levels": {"low": 0.0, "high": high},
        "zero_demand": ZERO_DEMAND,
    }
    tables = {"problem": problem, "demand": _demand(law, bound, profile)}
    return Scenario(f"{block}-{law}", block, law, profile, horizon, tables)


def _queue(arrivals: str, profile: Profile) -> Scenario:
    problem = {
        "kind": "queue",
        "buffer": 2,
        "max_rate": 3,
        "arrival_rate": 6.0,
        "arrival_rate_bound": 10.0,
        "deadline_rate": 3.0,
        "deadline_rate_bound": 10.0,
        "arrivals": arrivals,
        "miss_penalty": 100.0,
        "power": "square",
        "uniformization": 33.0 if profile == "as-stated" else 23.0,
    }
    name = f"queue-{arrivals}"
    return Scenario(name, "queue", arrivals, profile, _HORIZON["queue"], {"problem": problem})


@cache
def scenarios(profile: Profile) -> dict[str, Scenario]:
    """All settings of the paper in one profile, by name."""
    if profile not in PROFILES:
        raise unknown("profile", str(profile), PROFILES)
    shops = [
        (_inventory if block.startswith("inventory") else _dual)(block.split("-")[1], law, profile)
        for block in BLOCKS
        for law in LAWS
    ]
    return {each.name: each for each in (*shops, *(_queue(each, profile) for each in ARRIVALS))}


@dataclass(frozen=True)
class Method:
    """A row of the tables: a learner for each block, and how it is run.

    Attributes
    ----------
    name : str. In tables and files.
    learners : dict. The learner's name by the beginning of a setting's name.
    settings : dict. Its settings.
    changes : dict. Values of the problem that differ for it, by the beginning of a setting's name.
    printed : str, optional. The row of the printed table it is compared with.
    slow : bool. Whether it is left out of quick runs, and evaluated on a quarter of the steps.
    implementable : bool. Whether it sees only what can be observed.
    learns : bool. Whether its recommendation depends on the seed; otherwise one seed is enough.
    horizon : int, optional. Steps of a run, if not those of the setting.
    families : dict. Another policy family for it, by the beginning of a setting's name; its gap is
        then that to the best policy of this family.
    quick : tuple of str. Beginnings of the names of settings that quick runs include.
    uncharged : bool. Whether it also runs where the others are not charged for expediting.
    """

    name: str
    learners: dict[str, str] = field(hash=False)
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    changes: dict[str, dict[str, Any]] = field(default_factory=dict, hash=False)
    printed: str | None = None
    slow: bool = False
    implementable: bool = True
    learns: bool = True
    horizon: int | None = None
    families: dict[str, type[Any]] = field(default_factory=dict, hash=False)
    quick: tuple[str, ...] = ("",)
    uncharged: bool = True

    def learner(self, scenario: Scenario) -> str | None:
        """The learner for a setting; None where the row has none."""
        if not self.uncharged and scenario.tables["problem"].get("expedited_cost") == 0:
            return None
        found: str | None = _by_beginning(self.learners, scenario.name)
        return found

    def system(self, scenario: Scenario) -> str:
        """Problem and truth as this method has them, as text."""
        family = _by_beginning(self.families, scenario.name)
        if family is None:
            return scenario.system(**(_by_beginning(self.changes, scenario.name) or {}))
        problem, truth = problem_from(scenario.tables)
        return system_text(type(problem)(problem.system, family.within(problem)), truth)

    def charged_otherwise(self, scenario: Scenario) -> bool:
        """Whether it is charged for what others get free, so that costs can't be compared."""
        changes = _by_beginning(self.changes, scenario.name) or {}
        paid = scenario.tables["problem"].get("expedited_cost")
        return bool(changes.get("expedited_cost", paid) != paid)

    def task(self, scenario: Scenario, evaluation: int, horizons: tuple[int, ...] = ()) -> Task:
        """Its run on a setting, with seed 0, to the setting's horizon if none are given."""
        if self.horizon is not None:
            horizons = (self.horizon,)
        own, reference = self.system(scenario), scenario.system()
        alone = own == reference or bool(self.families)
        return Task(
            label=scenario.name,
            system=own,
            learner=self.learner(scenario),
            settings=as_text(self.settings),
            horizons=horizons or (scenario.horizon,),
            evaluation=evaluation // _SLOW if self.slow else evaluation,
            reference=None if alone else reference,
        )


def _by_beginning(table: dict[str, Any], name: str) -> Any:
    return next((value for start, value in table.items() if name.startswith(start)), None)


#: The rows, from oracles to the random policy. The published runs returned to the initial state.
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("optimal", {"": "optimal"}, printed="optimal", implementable=False),
        Method("erm", {"": "erm"}, printed="erm", implementable=False),
        Method("iopea", {"": "iopea"}, printed="iopea"),
        Method(
            "iopea-published",
            {"": "iopea"},
            {"rule": "published", "restart": "return"},
            {"dual": {"estimator": "hitting"}, "queue": {"estimator": "boundary"}},
            printed="iopea",
        ),
        Method(
            "iopea-capped",
            {"inventory": "iopea", "dual": "iopea"},
            families={"inventory": CappedBaseStock, "dual": CappedDualIndex},
            quick=("inventory-small",),
            uncharged=False,
        ),
        Method(
            "iopea-surge",
            {"dual": "iopea"},
            families={"dual": BaseSurge},
            quick=("dual-small",),
            uncharged=False,
        ),
        Method("ppo", {"": "ppo"}, printed="ppo", slow=True),
        Method(
            "feedback-graph",
            {
                "inventory-small": "feedback-graph",
                "dual-small": "feedback-graph",
                "queue": "feedback-graph",
            },
            printed="feedback_graph",
        ),
        Method(
            "problem-specific",
            {"inventory": "convex", "dual": "basa", "queue": "ucrl2"},
            changes={"dual": {"expedited_cost": 0.5}},
            printed="problem_specific",
        ),
        Method("sgd-base-stock", {"inventory": "sgd-base-stock"}),
        Method("order-up-to", {"inventory": "order-up-to"}),
        Method("random", {"": "random"}, printed="random", learns=False, horizon=10_000),
    )
}


def method_named(name: str) -> Method:
    """A row of the tables; any other learner is a row on the settings that it fits."""
    if name in METHODS:
        return METHODS[name]
    kind = learner_named(name)
    fitting = [each for each in scenarios(PROFILES[0]).values() if fits(kind, each.problem)]
    return Method(name, {each.name: name for each in fitting}, implementable=not kind.oracle)


@cache
def printed() -> dict[tuple[str, str], float]:
    """The printed costs, by row of the printed tables and setting."""
    text = files("iopea.studies.reproduction").joinpath("printed.csv").read_text("utf-8")
    return {
        (line["row"], line["setting"]): float(line["cost"])
        for line in csv.DictReader(text.splitlines())
    }
