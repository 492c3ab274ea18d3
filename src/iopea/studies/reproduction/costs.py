"""The paper's tables of costs beside the printed values, and tables of regret.

An entry is the long-run average cost of the policy that a learner recommends at the horizon, as a
mean over seeds; in brackets the gap to the best policy of the class. Welch's test compares with the
problem-specific learner, as in the paper. A table of regrets shows the extra cost of the whole run
over the best policy on the same noise.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from iopea.comparison.statistics import LEVEL, mean_of, welch
from iopea.comparison.store import Store
from iopea.comparison.tables import (
    IMPROVED,
    WORSE,
    Entry,
    Line,
    Table,
    Verdict,
    entry_columns,
    runs,
)
from iopea.comparison.tasks import Row, Task
from iopea.learners.baselines.feedback_graph import FeedbackGraph
from iopea.problem_files import problem_from
from iopea.studies.reproduction.scenarios import (
    ARRIVALS,
    BLOCKS,
    LAWS,
    METHODS,
    PROFILES,
    Method,
    Profile,
    Scenario,
    method_named,
    printed,
    scenarios,
)

#: The method that the paper tests against.
BASELINE = "problem-specific"
#: Relative difference to the printed value that counts as reproduced, elsewhere and in queues, and
#: half of the last printed digit.
TOLERANCE, QUEUE_TOLERANCE, ROUNDING = 0.03, 0.05, 0.05
_CHARGED = (
    "In dual sourcing the problem-specific learner is charged for expediting, and the others are "
    "not, as in the published runs: their costs can't be compared."
)
#: Methods for which a lower cost is not an improvement.
_YARDSTICKS = ("optimal", "erm", "iopea-published", "random")


@dataclass(frozen=True)
class Size:
    """Amount of work of a reproduction.

    Attributes
    ----------
    name : str. ``"quick"`` or ``"full"``.
    seeds : int. Runs of each learner on each setting.
    evaluation : int. Steps of the path on which recommendations are evaluated.
    curve : int. Steps of the runs behind curves over time.
    slow : bool. Whether slow learners take part.
    year : int. Steps of the runs behind the costs of the first year.
    year_seeds : int. Those runs of each learner on each setting, from each start.
    """

    name: str
    seeds: int
    evaluation: int
    curve: int
    slow: bool
    year: int
    year_seeds: int

    def of(self, seeds: int) -> Size:
        """The same with another number of seeds."""
        return replace(self, seeds=seeds, year_seeds=seeds)


SIZES = {
    size.name: size
    for size in (
        Size(
            "quick",
            seeds=3,
            evaluation=1_000_000,
            curve=100_000,
            slow=False,
            year=1000,
            year_seeds=3,
        ),
        Size(
            "full",
            seeds=20,
            evaluation=8_000_000,
            curve=1_000_000,
            slow=True,
            year=10_000,
            year_seeds=40,
        ),
    )
}


@dataclass(frozen=True)
class Choice:
    """Which experiments to run.

    Attributes
    ----------
    size : Size.
    profiles : tuple of str.
    methods : tuple of str. Rows of the tables.
    settings : tuple of str. Names of settings; all if empty.
    tested : bool. Whether entries are tested against the problem-specific learner.
    first_seed : int. The first of the consecutive seeds.
    """

    size: Size
    profiles: tuple[Profile, ...] = PROFILES
    methods: tuple[str, ...] = tuple(METHODS)
    settings: tuple[str, ...] = ()
    tested: bool = True
    first_seed: int = 0

    @property
    def seeds(self) -> range:
        """The seeds."""
        return range(self.first_seed, self.first_seed + self.size.seeds)

    @property
    def year_seeds(self) -> range:
        """The seeds of the runs behind the costs of the first year."""
        return range(self.first_seed, self.first_seed + self.size.year_seeds)

    def includes(self, setting: str) -> bool:
        """Whether a setting is wanted."""
        return not self.settings or setting in self.settings

    def command(self, target: str, **narrower: str) -> str:
        """The command that reproduces a table, a figure or an entry."""
        words = ["iopea reproduce", target, f"--{self.size.name}"]
        if self.size not in SIZES.values():
            words.append(f"--seeds {self.size.seeds}")
        if self.first_seed:
            words.append(f"--first-seed {self.first_seed}")
        if "rows" not in narrower:
            usual = (name for name, method in METHODS.items() if self.size.slow or not method.slow)
            words += [f"--without {name}" for name in usual if name not in self.methods]
        elif not self.tested:
            words.append(f"--without {BASELINE}")
        return " ".join(words + [f"--{name} {value}" for name, value in narrower.items()])


def tasks_of(choice: Choice, scenario: Scenario, method: Method) -> list[Task]:
    """The runs behind one entry; none if the method does not apply."""
    if method.learner(scenario) is None:
        return []
    if not choice.size.slow and not scenario.name.startswith(method.quick):
        return []
    task = method.task(scenario, choice.size.evaluation)
    return [task.at(seed) for seed in (choice.seeds if method.learns else (0,))]


def cost_tasks(choice: Choice, settings: Iterable[str]) -> list[Task]:
    """All runs behind the tables of some settings, and those that entries are tested against."""
    return [
        task
        for profile in choice.profiles
        for name in settings
        if choice.includes(name)
        for method in dict.fromkeys((*choice.methods, *[BASELINE] * choice.tested))
        for task in tasks_of(choice, scenarios(profile)[name], method_named(method))
    ]


#: Settings of the two printed tables.
TABLE_1 = (*(f"{block}-{law}" for law in LAWS for block in BLOCKS), "queue-decaying")
TABLE_QUEUE = tuple(f"queue-{arrivals}" for arrivals in ARRIVALS)
_COLUMNS_1 = ("inventory small", "inventory large", "dual small", "dual large", "queue")


def table_1(choice: Choice, profile: Profile, store: Store) -> Table:
    """All algorithms on all settings of one profile, in the paper's layout."""
    lines = []
    for law in LAWS:
        # The queue stands in the first section alone, as in the paper.
        queue = "queue-decaying" if law == LAWS[0] else ""
        settings = (*(f"{block}-{law}" for block in BLOCKS), queue)
        for name in choice.methods:
            cells = (_entry("table1", choice, profile, each, name, store) for each in settings)
            lines.append(Line((name, *cells), law.capitalize()))
    return _finished(f"table1-{profile}", "Table 1", _COLUMNS_1, lines, choice, profile)


def table_queue(choice: Choice, profile: Profile, store: Store) -> Table:
    """The queue under decaying and fixed arrivals."""
    lines = [
        Line(
            (
                name,
                *(
                    _entry("table-queue", choice, profile, setting, name, store)
                    for setting in TABLE_QUEUE
                ),
            )
        )
        for name in choice.methods
    ]
    columns = ("decaying arrivals", "fixed arrivals")
    title = "The queue under decaying and fixed arrivals"
    return _finished(f"table-queue-{profile}", title, columns, lines, choice, profile)


def _finished(
    name: str,
    title: str,
    columns: tuple[str, ...],
    lines: Sequence[Line],
    choice: Choice,
    profile: Profile,
) -> Table:
    fewer = {
        line.name: max(entry.seeds for entry in line.entries)
        for line in lines
        if method_named(line.name).learns
        and any(0 < entry.seeds < choice.size.seeds for entry in line.entries)
    }
    shown = tuple(line for line in lines if any(entry.command for entry in line.entries))
    notes = (
        f"Long-run average cost of the recommended policy, {runs(choice.size.seeds)}; in brackets "
        "the gap to the best policy of the class, for iopea-capped and iopea-surge to the best of "
        "theirs. The random policy does not learn: one number.",
        f"{IMPROVED} significantly better than the problem-specific learner, {WORSE} worse "
        f"(Welch's test at {100 * LEVEL:g} %, each entry by itself, as in the paper).",
        f"Reproduced: within {100 * TOLERANCE:g} % of the printed value (queue "
        f"{100 * QUEUE_TOLERANCE:g} %), or within {ROUNDING:g}, half of its last digit.",
        *[_CHARGED] * (profile == "as-published" and "dual small" in columns),
        *(f"{name}: at most {number} runs are finished." for name, number in fewer.items()),
    )
    return Table(name, f"{title}, {profile}", entry_columns(columns), shown, notes)


def _rows(tasks: Sequence[Task], store: Store) -> list[Row]:
    """The last rows of the finished tasks."""
    return [store.rows(task.key)[-1] for task in tasks if task.key in store]


def finished_costs(choice: Choice, scenario: Scenario, method: Method, store: Store) -> list[float]:
    """Costs of a method's recommendations in the finished runs."""
    return [row["cost"] for row in _rows(tasks_of(choice, scenario, method), store)]


def _entry(
    target: str, choice: Choice, profile: Profile, setting: str, name: str, store: Store
) -> Entry:
    """One entry of a table of costs."""
    if not setting or not choice.includes(setting):
        return Entry()
    scenario, method = scenarios(profile)[setting], method_named(name)
    value = None if method.printed is None else printed().get((method.printed, setting))
    if method.learner(scenario) is None:
        # The paper has no value here, either.
        return Entry(absent=_absent(name, scenario))
    tasks = tasks_of(choice, scenario, method)
    if not tasks:
        return Entry(absent="Left out of quick runs.")
    rows = _rows(tasks, store)
    command = choice.command(target, profile=profile, only=setting, rows=name)
    if not rows:
        return Entry(printed=value, command=command, absent="No run is finished.")
    mean = mean_of([row["cost"] for row in rows])
    sign, p_value = _tested(choice, scenario, name, rows, store)
    verdict = None if value is None else _verdict(mean.value, value, scenario, method)
    reason = "" if verdict in (None, "reproduced") else reason_for(profile, setting, name)
    return Entry(
        mean=mean.value,
        half=mean.half,
        seeds=mean.count,
        gap=mean_of([row["gap"] for row in rows]).value,
        sign=sign,
        p_value=p_value,
        printed=value,
        verdict=verdict,
        reason=reason,
        command=command,
    )


def _absent(name: str, scenario: Scenario) -> str:
    """Why a method has no entry for a setting."""
    method = method_named(name)
    if method.families:
        if scenario.name.startswith(tuple(method.learners)):
            return "The others are not charged for expediting here."
        return f"{name} has no policies for this system."
    if name != FeedbackGraph.name:
        return f"{name} needs base-stock policies."
    problem, _ = problem_from(scenario.tables)
    kind = "inventory" if scenario.block.startswith("inventory") else "dual sourcing"
    size = FeedbackGraph.lacks(problem).removeprefix(", and ")
    return f"Large {kind} is too large to plan in a table: {size}."


def _tested(
    choice: Choice, scenario: Scenario, name: str, rows: list[Row], store: Store
) -> tuple[str, float | None]:
    """The sign of a significant difference to the problem-specific learner, and its p-value."""
    others = finished_costs(choice, scenario, method_named(BASELINE), store)
    if name == BASELINE or not others or not choice.tested:
        return "", None
    costs = [row["cost"] for row in rows]
    p_value = welch(costs, others, exact=not method_named(name).learns)
    if math.isnan(p_value):
        return "", None
    if p_value >= LEVEL:
        return "", p_value
    return IMPROVED if np.mean(costs) < np.mean(others) else WORSE, p_value


def _verdict(mean: float, value: float, scenario: Scenario, method: Method) -> Verdict:
    tolerance = QUEUE_TOLERANCE if scenario.block == "queue" else TOLERANCE
    if abs(mean - value) <= max(tolerance * value, ROUNDING):
        return "reproduced"
    published = scenarios("as-published")[scenario.name]
    defined_alike = method.system(scenario) == method.system(published)
    if mean < value and defined_alike and method.name not in _YARDSTICKS:
        return "better"
    return "differs"


@cache
def _reasons() -> list[dict[str, Any]]:
    text = files("iopea.studies.reproduction").joinpath("reasons.toml").read_text("utf-8")
    reasons: list[dict[str, Any]] = tomllib.loads(text)["reason"]
    return reasons


def reason_for(profile: Profile, setting: str, method: str) -> str:
    """The known reasons why an entry differs from the printed value, in full sentences."""
    found = [
        reason["says"]
        for reason in _reasons()
        if reason.get("profile", profile) == profile
        and setting.startswith(tuple(reason.get("settings", [""])))
        and method in reason.get("rows", [method])
    ]
    return " ".join(found) or "No reason is known."


def table_regret(choice: Choice, profile: Profile, store: Store) -> Table:
    """Regret over T g*."""
    columns = tuple(
        name
        for name in choice.methods
        if method_named(name).learns and name != "optimal" and not method_named(name).families
    )
    lines = [
        Line(
            (
                setting,
                *(_regret_entry(choice, profile, setting, name, store) for name in columns),
            )
        )
        for setting in (*sorted(TABLE_1[:-1], key=_by_block), *TABLE_QUEUE)
        if choice.includes(setting)
    ]
    notes = (
        "Extra cost of the whole run over the best policy of the class on the same noise, as a "
        f"share of the best policy's long-run cost; {runs(choice.size.seeds)}.",
        *[_CHARGED] * (profile == "as-published"),
    )
    title = f"Cost of learning: regret over T g*, {profile}"
    return Table(f"regret-{profile}", title, entry_columns(columns), tuple(lines), notes)


def _by_block(setting: str) -> tuple[int, int]:
    block, law = setting.rsplit("-", 1)
    return BLOCKS.index(block), LAWS.index(law)


def _regret_entry(choice: Choice, profile: Profile, setting: str, name: str, store: Store) -> Entry:
    scenario, method = scenarios(profile)[setting], method_named(name)
    if method.learner(scenario) is None:
        return Entry(unit="share", absent=_absent(name, scenario))
    rows = _rows(tasks_of(choice, scenario, method), store)
    regrets = [row["relative_regret"] for row in rows]
    command = choice.command("table1", profile=profile, only=setting, rows=name)
    if not regrets:
        return Entry(unit="share", command=command, absent="No run is finished.")
    mean = mean_of(regrets)
    return Entry(mean.value, mean.half, mean.count, unit="share", command=command)
