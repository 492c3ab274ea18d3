"""What the first year costs: regret of learners as a share of what the best policy costs.

Both are charged on the same demand, from an empty shop. A learner that takes a start is given four,
a quarter, a half, one and two times the best policy: in practice some policy is in force, and how
good it is decides much of the first year. The others play where they like, once for each seed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from iopea.comparison.figures import Curve, drawing, finished, style_of
from iopea.comparison.statistics import mean_of
from iopea.comparison.store import Store
from iopea.comparison.tables import Entry, Figure, Line, Table, entry_columns, percent
from iopea.comparison.tasks import Row, Task, as_text, best_from, perform, system_text
from iopea.learners import learner_named
from iopea.learners.base import fits
from iopea.policies import Box, PolicyClass
from iopea.problem_files import problem_from
from iopea.studies.reproduction.costs import Choice
from iopea.studies.reproduction.scenarios import Profile, scenarios
from iopea.types import Array, Policy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Steps after which runs are looked at; those of the tables, and a year of days.
LOOKS = (30, 100, 365, 1000, 3000, 10_000)
TABLED = (100, 365, 1000, 10_000)
YEAR_STEPS = 365
#: Starts as multiples of the best policy, and their names.
STARTS = {0.25: "a quarter", 0.5: "a half", 1.0: "one", 2.0: "two times"}
#: Marks learners that take no start.
NO_START = "*"
#: The learners of the first sentence.
DEFAULT, USUAL = "iopea", "order-up-to"
#: The path on which policies are evaluated has this part of the usual steps: only the best policy
#: matters here, and another one of nearly the same cost would do.
_SHORTER = 4
#: Longest run in seconds of a learner that takes part.
_LONGEST = 20
#: Estimated seconds of a run of frugal play: its reviews grow with the logarithm of its steps.
_FRUGAL = 2.0


@dataclass(frozen=True)
class Setting:
    """A system of this study.

    Attributes
    ----------
    name : str. Valid in a file name.
    title : str. Of its column.
    about : str. What it is, in words.
    tables : dict. The content of a problem file.
    quick : bool. Whether quick runs include it.
    """

    name: str
    title: str
    about: str
    tables: dict[str, dict[str, Any]] = field(hash=False, compare=False)
    quick: bool = True

    @property
    def system(self) -> str:
        """Problem and truth as text."""
        return system_text(*problem_from(self.tables))


def _of_the_paper(name: str, profile: Profile, title: str) -> Setting:
    about = f"{name.replace('-', ' ')}, {profile}"
    # Classes without steps take longer.
    return Setting(f"{name}-{profile}", title, about, scenarios(profile)[name].tables, quick=False)


def _shop(
    name: str,
    title: str,
    demand: str,
    law: dict[str, Any],
    lead: int,
    penalty: float,
    high: float,
    quick: bool = True,
) -> Setting:
    problem = {
        "kind": "lost-sales",
        "lead_time": lead,
        "holding_cost": 1.0,
        "lost_sales_cost": penalty,
        "levels": {"low": 0.0, "high": high, "step": 1.0},
    }
    about = f"{demand}, lead time {lead}, lost-sales cost {penalty:g}, levels to {high:g}"
    return Setting(name, title, about, {"problem": problem, "demand": law}, quick)


#: Rare large demand: 60 units in 3 % of the periods, else 0 to 4.
_RARE = [0.0, 1.0, 2.0, 3.0, 4.0] * 97 + [60.0] * 15


def _negative_binomial(mean: float, size: float) -> dict[str, Any]:
    return {"distribution": "negative-binomial", "mean": mean, "size": size}


@cache
def year_settings() -> tuple[Setting, ...]:
    """The systems, by their place in tables."""
    stand = {
        "kind": "newsvendor",
        "overage_cost": 1.0,
        "underage_cost": 4.0,
        "levels": {"low": 0.0, "high": 40.0, "step": 1.0},
    }
    rare = {"distribution": "empirical", "values": _RARE}
    return (
        _of_the_paper("inventory-small-exponential", "as-stated", "small exponential"),
        _of_the_paper("inventory-small-normal", "as-published", "small normal"),
        _of_the_paper("inventory-large-exponential", "as-stated", "large exponential"),
        _of_the_paper("inventory-large-normal", "as-published", "large normal"),
        _shop(
            "poisson", "Poisson", "Poisson demand, mean 5",
            {"distribution": "poisson", "mean": 5.0}, 4, 19.0, 60.0,
        ),
        _shop(
            "slow-mover", "slow mover", "negative binomial demand, mean 0.5 and size 0.5",
            _negative_binomial(0.5, 0.5), 7, 50.0, 40.0,
        ),
        _shop(
            "fast-mover", "fast mover", "negative binomial demand, mean 20 and size 3",
            _negative_binomial(20.0, 3.0), 2, 10.0, 200.0, quick=False,
        ),
        _shop(
            "rare-large", "rare large", "demand of 60 in 3 % of the periods, else 0 to 4",
            rare, 0, 100.0, 200.0,
        ),
        _of_the_paper("dual-small-exponential", "as-stated", "dual sourcing"),
        Setting(
            "newsvendor",
            "newsvendor",
            "the newsvendor of examples/newsvendor.toml",
            {"problem": stand, "demand": _negative_binomial(12.0, 4.0)},
            quick=False,
        ),
    )  # fmt: skip


@dataclass(frozen=True)
class Player:
    """A learner of this study.

    Attributes
    ----------
    name : str. Of its row.
    learner : str. In the registry.
    method : str. The row of the other tables with which it is left out.
    settings : dict. Its settings, without a start.
    quick : bool. Whether quick runs include it.
    slow : tuple of str. Settings where a run takes too long.
    """

    name: str
    learner: str
    method: str
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    quick: bool = True
    slow: tuple[str, ...] = ()

    @property
    def takes_start(self) -> bool:
        """Whether it begins with the policy in force."""
        return learner_named(self.learner).takes_start and self.settings.get("play") != "maximal"

    @property
    def title(self) -> str:
        """Its name, marked if it takes no start."""
        return self.name if self.takes_start else f"{self.name} {NO_START}"

    def lacks(self, setting: Setting) -> str:
        """Why it does not run on a system, as a sentence; empty if it does."""
        kind = learner_named(self.learner)
        if not fits(kind, problem_from(setting.tables)[0]):
            return f"{self.name} needs {kind.needs}."
        if setting.name in self.slow:
            return f"A run of {LOOKS[-1]:,} steps takes more than {_LONGEST} s."
        return ""


PLAYERS: dict[str, Player] = {
    player.name: player
    for player in (
        Player("iopea", "iopea", "iopea", {"play": "frugal"}),
        Player("iopea-maximal", "iopea", "iopea", {"play": "maximal"}),
        Player(
            "iopea-published", "iopea", "iopea-published", {"rule": "published", "play": "maximal"}
        ),
        Player("erm", "erm", "erm"),
        Player("sgd-base-stock", "sgd-base-stock", "sgd-base-stock"),
        Player("order-up-to", "order-up-to", "order-up-to"),
        Player("convex", "convex", "problem-specific"),
        Player("feedback-graph", "feedback-graph", "feedback-graph", quick=False),
        Player("ucrl2", "ucrl2", "problem-specific", quick=False, slow=("rare-large",)),
        Player("ppo", "ppo", "ppo", quick=False),
        Player("random", "random", "random", quick=False),
    )
}


def start_at(policies: PolicyClass, best: Policy, factor: float) -> Policy:
    """The policy of a class at a multiple of the best one.

    Each parameter is clipped to its range, and rounded to a step, at least the first above the
    lowest.

    >>> levels = Box(0, 60, step=1)
    >>> [start_at(levels, (26.0,), factor) for factor in (0.25, 0.01, 3.0)]
    [(6.0,), (1.0,), (60.0,)]
    """
    steps = policies.step if isinstance(policies, Box) else None
    point = []
    for axis, value in enumerate(best):
        low, high = policies.ends(axis)
        near = factor * value
        if steps is not None:
            near = low + steps[axis] * max(1, round((near - low) / steps[axis]))
        point.append(min(max(near, low), high))
    return tuple(point)


@dataclass(frozen=True)
class StartedTask(Task):
    """A run that begins with a multiple of the best policy, which is known when it runs.

    Attributes
    ----------
    start : float. The multiple.
    """

    start: float = 1.0

    @property
    def effort(self) -> float:
        """Estimated run time in seconds."""
        return _FRUGAL if "frugal" in self.settings else super().effort

    def perform(self, found: Sequence[list[Row]]) -> list[Row]:
        """Run the task; its rows have the start in the settings."""
        best = best_from(found[0][0])
        problem, _ = problem_from(json.loads(self.system))
        start = start_at(problem.policy_class, best.policy, self.start)
        settings = as_text({**json.loads(self.settings), "start": start})
        rows = perform(replace(self, settings=settings), best)
        return [row | {"task": self.key} for row in rows]


def year_looks(choice: Choice) -> tuple[int, ...]:
    """Steps after which the runs of a size are looked at."""
    return tuple(steps for steps in LOOKS if steps <= choice.size.year)


def chosen_settings(choice: Choice) -> tuple[Setting, ...]:
    """The systems of a size."""
    return tuple(each for each in year_settings() if choice.size.slow or each.quick)


def chosen_players(choice: Choice) -> tuple[Player, ...]:
    """The learners of a size that are not left out."""
    return tuple(
        each
        for each in PLAYERS.values()
        if each.method in choice.methods and (choice.size.slow or each.quick)
    )


def runs_of(choice: Choice, setting: Setting, player: Player) -> dict[int, tuple[Task, ...]]:
    """Runs of a learner by seed: one for each start, or a single one; none if it does not fit."""
    if player.lacks(setting):
        return {}
    values: dict[str, Any] = {
        "label": setting.name,
        "system": setting.system,
        "learner": player.learner,
        "settings": as_text(player.settings),
        "horizons": year_looks(choice),
        "evaluation": choice.size.evaluation // _SHORTER,
    }
    runs: tuple[Task, ...] = (Task(**values),)
    if player.takes_start:
        runs = tuple(StartedTask(**values, start=factor) for factor in STARTS)
    return {seed: tuple(task.at(seed) for task in runs) for seed in choice.year_seeds}


def year_tasks(choice: Choice) -> list[Task]:
    """All runs of this study."""
    found: list[Task] = []
    for setting in chosen_settings(choice):
        for player in chosen_players(choice):
            for runs in runs_of(choice, setting, player).values():
                found += runs
    return found


def shares(choice: Choice, setting: Setting, player: Player, store: Store) -> Array:
    """Regret over the cost of the best policy on the same demand, an array (seeds, starts, looks).

    Only seeds for which all runs are finished are in it.
    """
    found = []
    for runs in runs_of(choice, setting, player).values():
        if all(task.key in store for task in runs):
            mine, its = (_values(runs, name, store) for name in ("average", "best_average"))
            found.append((mine - its) / np.where(its == 0, math.nan, abs(its)))
    return np.array(found) if found else np.empty((0, 1, len(year_looks(choice))))


def _values(runs: Sequence[Task], column: str, store: Store) -> Array:
    return np.array([[row[column] for row in store.rows(task.key)] for task in runs])


def _entry(choice: Choice, values: Array, absent: str) -> Entry:
    """The mean over seeds, of one value for each."""
    command = "" if absent else choice.command("year")
    if absent or not values.size:
        absent = absent or "No run is finished."
        return Entry(unit="share", command=command, absent=absent)
    mean = mean_of(values)
    return Entry(mean.value, mean.half, mean.count, unit="share", command=command)


def table_year(choice: Choice, store: Store) -> Table:
    """Regret of all learners, by number of steps and system."""
    settings = chosen_settings(choice)
    found = {
        (player, setting): shares(choice, setting, player, store).mean(axis=1)
        for player in chosen_players(choice)
        for setting in settings
    }
    lines = []
    for look, steps in enumerate(year_looks(choice)):
        if steps not in TABLED:
            continue
        for player in chosen_players(choice):
            cells = [
                _entry(choice, found[player, setting][:, look], player.lacks(setting))
                for setting in settings
            ]
            if any(cell.command for cell in cells):
                lines.append(Line((player.title, *cells), f"After {steps:,} periods"))
    notes = (
        "Cost of the learner minus cost of the best policy of the class, on the same demand and "
        "both from an empty shop, as a share of the latter; mean and 95 % interval over "
        f"{choice.size.year_seeds} seeds.",
        f"Learners are started at {_starts()} times the best policy: mean over these. {NO_START} "
        "takes no start: it plays where it likes, once for each seed.",
        "erm sees lost demand, too: it is not a method, but shows what censoring costs.",
        "Below 0, the learner was cheaper than the policy that is best in the long run: little "
        "stock is cheap until much is asked for.",
        "; ".join(f"{each.title.capitalize()}: {each.about}" for each in settings) + ".",
        *_left_out(choice),
    )
    titles = tuple(each.title for each in settings)
    title = "What the first year costs: regret over the cost of the best policy"
    return Table("year", title, entry_columns(titles), tuple(lines), notes)


def _starts() -> str:
    *some, last = (f"{factor:g}" for factor in STARTS)
    return f"{', '.join(some)} and {last}"


def _left_out(choice: Choice) -> list[str]:
    """What a size leaves out, in a sentence."""
    settings = [each.title for each in year_settings() if each not in chosen_settings(choice)]
    players = [name for name, each in PLAYERS.items() if not each.quick and not choice.size.slow]
    if not settings + players:
        return []
    return [f"Left out of quick runs: {', '.join(settings + players)}."]


def table_starts(choice: Choice, store: Store) -> Table:
    """Regret of the default learner by system, start and number of steps."""
    looks = year_looks(choice)
    tabled = [place for place, steps in enumerate(looks) if steps in TABLED]
    lines = []
    for setting in chosen_settings(choice):
        found = shares(choice, setting, PLAYERS[DEFAULT], store)
        absent = PLAYERS[DEFAULT].lacks(setting)
        columns = {name: found[:, place : place + 1] for place, name in enumerate(STARTS.values())}
        for name, values in {**columns, "mean": found}.items():
            each = values.mean(axis=1) if values.size else values.reshape(-1, len(looks))
            cells = (_entry(choice, each[:, look], absent) for look in tabled)
            lines.append(Line((name, *cells), setting.title))
    notes = (
        "The same for iopea, by the level in force before the first period, as a multiple of the "
        "best one; for dual sourcing, of both levels. On a grid it is rounded to a level, at least "
        "one step, and it is at most the highest level.",
    )
    titles = tuple(f"T = {looks[look]:,}" for look in tabled)
    title = "What the first year costs with iopea, by start"
    return Table("year-starts", title, entry_columns(titles), tuple(lines), notes)


def year_sentence(choice: Choice, store: Store) -> str:
    """What a year costs with the default learner and with the usual rule; empty if not known."""
    looks = year_looks(choice)
    if YEAR_STEPS not in looks or not {DEFAULT, USUAL} <= {
        player.name for player in chosen_players(choice)
    }:
        return ""
    look = looks.index(YEAR_STEPS)
    ours, theirs = [], []
    for setting in chosen_settings(choice):
        both = [
            shares(choice, setting, PLAYERS[name], store).mean(axis=1)[:, look]
            for name in (DEFAULT, USUAL)
        ]
        if all(values.size for values in both):
            ours.append(float(both[0].mean()))
            theirs.append(float(both[1].mean()))
    if not ours:
        return ""
    return (
        f"In its first {YEAR_STEPS} periods, {DEFAULT} costs {_middle(ours)} more than the best "
        f"policy of the class on the same demand, and {USUAL}, the textbook rule, "
        f"{_middle(theirs)}; medians of {len(ours)} settings, each from four starts. "
    )


def _middle(values: Sequence[float]) -> str:
    """The median of some shares, with their range."""
    middle = percent(float(np.median(values)))
    return f"{middle} ({percent(min(values))} to {percent(max(values))})"


def year_figure(choice: Choice, store: Store) -> Figure | None:
    """Regret over the cost of the best policy against the number of steps, a panel per system."""
    steps = np.array(year_looks(choice), dtype=np.float64)
    panels: list[tuple[str, list[Curve]]] = []
    for setting in chosen_settings(choice):
        found = []
        for player in chosen_players(choice):
            values = shares(choice, setting, player, store)
            if values.size:
                found.append(Curve(player.name, steps, 100 * values.mean(axis=1)))
        if found:
            panels.append((setting.title, found))
    if not panels:
        return None
    rows = (len(panels) + 1) // 2
    names = [player.name for player in chosen_players(choice)]
    with drawing(7.4, 2.4 * rows + 0.8) as canvas:
        cells = canvas.subplots(rows, 2, squeeze=False).flat
        for axes, (title, found) in zip(cells, panels, strict=False):
            _draw(axes, title, found, names)
        for axes in canvas.axes[len(panels) :]:
            axes.set_visible(False)
        lines = {
            label: line
            for axes in canvas.axes
            for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        shown = [name for name in names if name in lines]
        canvas.legend([lines[name] for name in shown], shown, loc="outside lower center", ncols=4)
        caption = (
            "Extra cost over the best policy on the same demand, in percent of what that costs; "
            f"mean over {choice.size.year_seeds} seeds and, for learners that take one, four "
            "starts. Points at or below 0 are not drawn. The dotted line is a year."
        )
        title = "What the first year costs: regret in percent against T"
        return finished(canvas, "year", title, caption, choice.command("year"))


def _draw(axes: Axes, title: str, found: Sequence[Curve], names: Sequence[str]) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    for curve in found:
        colour, marker, dash = style_of(curve.name, names)
        mean = np.where(curve.mean > 0, curve.mean, math.nan)
        axes.plot(curve.steps, mean, color=colour, marker=marker, linestyle=dash, label=curve.name)
    axes.axvline(YEAR_STEPS, color="#222222", linewidth=0.8, linestyle=(0, (1, 2)))
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = [steps for steps in TABLED if steps <= found[0].steps[-1]]
    axes.set_xticks(ticks, [f"{steps:,}" for steps in ticks])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("periods T")
    axes.set_ylabel("regret, %")
    axes.set_title(title, loc="left", fontsize=9)
