"""The paper's tables and figures: which runs they need, and the report that is made of them."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Literal, get_args

import iopea
from iopea.experiments import costs, curves
from iopea.experiments.costs import Choice
from iopea.experiments.figures import cost_surface_figure, costs_over_time, regret_figure
from iopea.experiments.scenarios import METHODS, Profile
from iopea.experiments.statistics import LEVEL
from iopea.experiments.store import Store
from iopea.experiments.surface import cost_surface
from iopea.experiments.tables import Cell, Figure, Report, Table, percent
from iopea.experiments.tasks import Task, best_from

Target = Literal["table1", "table-queue", "figure1", "figure2", "regret"]
TARGETS: tuple[Target, ...] = get_args(Target)

#: Share of the cost by which a lower one counts as better.
_NOTICEABLE = 0.001
_PACKAGES = ("numpy", "scipy", "numba", "polars", "joblib")


def tasks_for(choice: Choice, targets: Sequence[Target]) -> list[Task]:
    """All runs that these parts of the paper need, each once."""
    found: list[Task] = []
    if "table1" in targets:
        found += costs.cost_tasks(choice, costs.TABLE_1)
    if "table-queue" in targets:
        found += costs.cost_tasks(choice, costs.TABLE_QUEUE)
    if "figure1" in targets:
        for profile in choice.profiles:
            for runs in curves.figure_1_tasks(choice, profile).values():
                found += runs
    if "regret" in targets:
        for methods in curves.regret_tasks(choice, choice.profiles[0]).values():
            for runs in methods.values():
                found += runs
        for methods in curves.hard_tasks(choice).values():
            for runs in methods.values():
                found += runs
    return list({task.key: task for task in found}.values())


def report_for(choice: Choice, targets: Sequence[Target], store: Store) -> Report:
    """Tables and figures from what is stored."""
    parts: list[Table | Figure] = []
    for profile in choice.profiles:
        if "table1" in targets:
            parts.append(costs.table_1(choice, profile, store))
        if "table-queue" in targets:
            parts.append(costs.table_queue(choice, profile, store))
    cost_tables = [part for part in parts if isinstance(part, Table)]
    if "table1" in targets:
        parts += [costs.table_regret(choice, profile, store) for profile in choice.profiles]
    if "figure1" in targets:
        drawn = (_figure_1(choice, profile, store) for profile in choice.profiles)
        parts += [figure for figure in drawn if figure is not None]
    if "figure2" in targets:
        parts.append(cost_surface_figure(cost_surface(), choice.command("figure2")))
    if "regret" in targets:
        panels = curves.regret_panels(choice, choice.profiles[0], store)
        if panels:
            command = choice.command("regret", profile=choice.profiles[0])
            parts.append(regret_figure(panels, command))
    return Report(
        title="Information-ordered policies: the paper's experiments, run again",
        lead=(*_lead(choice), *_findings(cost_tables)),
        parts=tuple(parts),
        facts=facts(choice.seeds, choice.size.evaluation, store),
    )


def _figure_1(choice: Choice, profile: Profile, store: Store) -> Figure | None:
    tasks = curves.figure_1_tasks(choice, profile)
    recommended = curves.curves(tasks, store, "cost")
    if not recommended:
        return None
    first = next(iter(tasks.values()))[0]
    best = best_from(store.rows(first.best.key)[0]).cost
    caption = (
        f"Small dual sourcing, exponential demand, {profile}, mean of {choice.size.seeds} runs "
        "with its 95 % interval. The dotted line is the best dual-index policy. Learners that act "
        "outside this class (feedback graph, PPO, and BASA as the problem-specific one) may end "
        "below it."
    )
    return costs_over_time(
        f"figure1-{profile}",
        f"Costs over time, small dual sourcing, {profile}",
        recommended,
        curves.curves(tasks, store, "average"),
        best,
        choice.command("figure1", profile=profile),
        caption,
    )


def _lead(choice: Choice) -> tuple[str, ...]:
    about = {
        "as-stated": "“As-stated” is what the paper's text says.",
        "as-published": "“As-published” has the definitions that give the printed numbers: a "
        "normal law of mean M/2 instead of M/3; an expedited cost that is charged to the "
        "problem-specific learner alone; a uniformisation constant of 23 instead of 33; and for "
        "large dual sourcing with exponential demand M = 30, z_e up to 30 and T = 100,000.",
    }
    return (
        "Every number of the paper's experiments, made by one command and set beside the printed "
        "one. The printed tables do not follow from the definitions printed beside them, so there "
        "are two profiles. " + " ".join(about[profile] for profile in choice.profiles),
    )


def _findings(tables: Sequence[Table]) -> tuple[str, ...]:
    """What the tables of costs say, in sentences."""
    said = []
    for table in tables:
        cells = [cell for line in table.lines for cell in line.cells if cell.verdict is not None]
        if not cells:
            continue
        number = {
            verdict: sum(cell.verdict == verdict for cell in cells)
            for verdict in ("reproduced", "better", "differs")
        }
        said.append(
            f"{table.title}: of {len(cells)} printed entries {number['reproduced']} are "
            f"reproduced, {number['better']} are better and {number['differs']} differ, each with "
            "its reason below the table."
        )
    gaps = [
        cell.gap
        for table in tables
        for line in table.lines
        if line.name == "iopea"
        for cell in line.cells
        if cell.gap is not None
    ]
    if gaps:
        said.append(
            f"IOPEA recommends a policy within {percent(max(gaps))} of the best of its class in "
            "every entry."
        )
    said += _ahead(tables)
    return tuple(said)


def _ahead(tables: Sequence[Table]) -> list[str]:
    """Which learners that could be used end below IOPEA, and where."""
    found: dict[str, list[str]] = {}
    for table in tables:
        ours = {
            (line.section, place): cell
            for line in table.lines
            if line.name == "iopea"
            for place, cell in enumerate(line.cells)
        }
        for line in table.lines:
            if not METHODS[line.name].implementable or line.name == "iopea":
                continue
            for place, cell in enumerate(line.cells):
                mine = ours.get((line.section, place), Cell())
                if cell.seeds and mine.seeds and cell.mean < mine.mean * (1 - _NOTICEABLE):
                    share = percent(cell.mean / mine.mean - 1)
                    where = ", ".join(filter(None, (table.columns[place], line.section.lower())))
                    found.setdefault(line.name, []).append(
                        f"{where}, {table.title.rsplit(', ', 1)[1]} ({share})"
                    )
    sentences = [
        f"{name} ends below IOPEA in {'; '.join(dict.fromkeys(places))}."
        for name, places in found.items()
    ]
    if sentences:
        sentences.append(
            "All of these act outside the class of policies in which IOPEA looks for the best "
            "one; within the class none is cheaper."
            if "sgd-base-stock" not in found and "order-up-to" not in found
            else "Where a learner acts outside the class, it may be cheaper than its best policy."
        )
    return sentences


def facts(seeds: range, evaluation: int, store: Store) -> tuple[tuple[str, str], ...]:
    """Versions and seeds, for the foot of a report."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        ("iopea", iopea.__version__),
        ("Python", platform.python_version()),
        ("packages", packages),
        ("seeds", f"{seeds[0]} to {seeds[-1]}, the same chance for all learners of a setting"),
        ("evaluation", f"{evaluation:,} steps, the same for all policies of a setting"),
        ("tests", f"Welch's, two-sided, at {100 * LEVEL:g} %"),
        ("finished tasks in the folder", str(len(store))),
    )
