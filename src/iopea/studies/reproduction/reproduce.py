"""The paper's tables and figures: which runs they need, and the report that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from iopea.comparison.curves import curves_of
from iopea.comparison.figures import costs_over_time
from iopea.comparison.statistics import LEVEL, welch
from iopea.comparison.store import Store
from iopea.comparison.tables import Figure, Report, Table, percent, run_facts, runs
from iopea.comparison.tasks import Task, best_from
from iopea.studies.reproduction import costs, curves, year
from iopea.studies.reproduction.costs import Choice
from iopea.studies.reproduction.scenarios import Profile, method_named, scenarios
from iopea.studies.reproduction.surface import cost_surface, cost_surface_figure

Target = Literal["table1", "table-queue", "figure1", "figure2", "regret", "year"]
TARGETS: tuple[Target, ...] = get_args(Target)

#: Relative difference of costs that counts.
_NOTICEABLE = 0.01


def tasks_for(choice: Choice, targets: Sequence[Target]) -> list[Task]:
    """All runs that some tables and figures need, each once."""
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
        for runs in curves.hard_tasks(choice).values():
            found += runs
    if "year" in targets:
        found += year.year_tasks(choice)
    return list({task.key: task for task in found}.values())


def report_for(choice: Choice, targets: Sequence[Target], store: Store) -> Report:
    """Tables and figures of the stored runs."""
    parts: list[Table | Figure] = []
    for profile in choice.profiles:
        if "table1" in targets:
            parts.append(costs.table_1(choice, profile, store))
        if "table-queue" in targets:
            parts.append(costs.table_queue(choice, profile, store))
    cost_tables = [part for part in parts if isinstance(part, Table)]
    duels = _Duels()
    for profile in choice.profiles:
        for setting in dict.fromkeys((*costs.TABLE_1, *costs.TABLE_QUEUE)):
            if choice.includes(setting) and cost_tables:
                duels.count(choice, profile, setting, store)
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
            parts.append(curves.regret_figure(panels, command))
    first = ""
    if "year" in targets:
        first = year.year_sentence(choice, store)
        parts += [year.table_year(choice, store), year.table_starts(choice, store)]
        drawn_year = year.year_figure(choice, store)
        parts += [] if drawn_year is None else [drawn_year]
    title = "Information-ordered policies: the paper's experiments, run again"
    lead: tuple[str, ...] = (
        *_lead(choice, first + (_cheapest(choice, store) if cost_tables else "")),
        *_findings(cost_tables),
        *duels.sentences(),
    )
    seeds = choice.seeds
    if tuple(targets) == ("year",):  # not in the paper
        title, lead = "What the first year costs", (first.strip(),) if first else ()
        seeds = choice.year_seeds
    return Report(
        title=title,
        lead=lead,
        parts=tuple(parts),
        facts=run_facts(seeds, choice.size.evaluation, len(store)),
    )


def _figure_1(choice: Choice, profile: Profile, store: Store) -> Figure | None:
    tasks = curves.figure_1_tasks(choice, profile)
    recommended = curves_of(tasks, store, "cost", curves.CONSTANT)
    if not recommended:
        return None
    first = next(iter(tasks.values()))[0]
    if first.best.key not in store:
        return None
    best = best_from(store.rows(first.best.key)[0]).cost
    caption = (
        f"Small dual sourcing, exponential demand, {profile}, {runs(choice.size.seeds)}. The "
        "dotted line is the best dual-index policy. Learners that act outside this class (feedback "
        "graph, PPO, and BASA as the problem-specific one) may end below it."
    )
    if method_named(costs.BASELINE).charged_otherwise(scenarios(profile)[curves.FIGURE_1]):
        caption += " As in the published runs, BASA is charged for expediting, the others are not."
    return costs_over_time(
        f"figure1-{profile}",
        f"Costs over time, small dual sourcing, {profile}",
        recommended,
        curves_of(tasks, store, "average", curves.CONSTANT),
        best,
        choice.command("figure1", profile=profile),
        caption,
    )


def _cheapest(choice: Choice, store: Store) -> str:
    """Which implementable learner is cheapest where, in a sentence; empty if nothing is known."""
    found: dict[str, dict[str, list[str]]] = {}
    for profile in choice.profiles:
        for setting in dict.fromkeys((*costs.TABLE_1, *costs.TABLE_QUEUE)):
            scenario = scenarios(profile)[setting]
            means = {
                name: float(np.mean(finished))
                for name in choice.methods
                if method_named(name).implementable
                and choice.includes(setting)
                and not method_named(name).charged_otherwise(scenario)
                and (finished := costs.finished_costs(choice, scenario, method_named(name), store))
            }
            if len(means) > 1:
                best = min(means, key=lambda name: means[name])
                places = found.setdefault(scenario.block, {}).setdefault(best, [])
                places.append(f"{scenario.law} {profile}")
    said = []
    for block, winners in found.items():
        where = block.replace("-", " ")
        if len(winners) == 1:
            said.append(f"{next(iter(winners))} in {where}")
            continue
        said += [f"{name} in {where} ({', '.join(at)})" for name, at in winners.items()]
    if not said:
        return ""
    return (
        "By the mean cost of what it recommends, the cheapest learner that needs no knowledge of "
        f"the truth is {'; '.join(said)}. "
    )


def _lead(choice: Choice, first: str) -> tuple[str, ...]:
    about = {
        "as-stated": "“As-stated” is what the paper's text says.",
        "as-published": "“As-published” has the definitions that give the printed numbers: a "
        "normal law of mean M/2 instead of M/3; an expedited cost that is charged to the "
        "problem-specific learner alone; a uniformisation constant of 23 instead of 33; and for "
        "large dual sourcing with exponential demand M = 30, z_e up to 30 and T = 100,000.",
    }
    return (
        f"{first}Every number of the paper's experiments, made by one command and set beside "
        "the printed one. The printed tables do not follow from the definitions printed beside "
        "them, so there are two profiles. "
        + " ".join(about[profile] for profile in choice.profiles),
    )


def _findings(tables: Sequence[Table]) -> tuple[str, ...]:
    """The findings of the tables of costs, in sentences."""
    said = []
    for table in tables:
        entries = [entry for _, _, entry in table.entries() if entry.verdict is not None]
        if not entries:
            continue
        number = {
            verdict: sum(entry.verdict == verdict for entry in entries)
            for verdict in ("reproduced", "better", "differs")
        }
        said.append(
            f"{table.title}: of {len(entries)} printed entries {number['reproduced']} are "
            f"reproduced, {number['better']} are better and {number['differs']} differ, each with "
            "its reason below the table."
        )
    gaps = [
        entry.gap
        for table in tables
        for line, _, entry in table.entries()
        if line.name == "iopea" and entry.gap is not None
    ]
    if gaps:
        said.append(
            f"IOPEA recommends a policy within {percent(max(gaps))} of the best of its class in "
            "every entry."
        )
    return tuple(said)


@dataclass
class _Duels:
    """Comparison of IOPEA with the other implementable learners, over all entries."""

    close: int = 0
    cheaper: int = 0
    surely_cheaper: int = 0
    more: dict[str, list[str]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def count(self, choice: Choice, profile: Profile, setting: str, store: Store) -> None:
        """Add the entries of one setting."""
        scenario = scenarios(profile)[setting]
        ours = costs.finished_costs(choice, scenario, method_named("iopea"), store)
        for name in choice.methods:
            method = method_named(name)
            theirs = costs.finished_costs(choice, scenario, method, store)
            if name == "iopea" or not method.implementable or not ours or not theirs:
                continue
            if method.families:  # IOPEA, too
                continue
            if method.charged_otherwise(scenario):
                continue
            key = costs.tasks_of(choice, scenario, method)[0].key
            if key in self._seen:  # the same in both profiles
                continue
            self._seen.add(key)
            change = float(np.mean(theirs) / np.mean(ours) - 1)
            if abs(change) <= _NOTICEABLE:
                self.close += 1
            elif change > 0:
                self.cheaper += 1
                p_value = welch(theirs, ours, exact=not method.learns)
                self.surely_cheaper += p_value < LEVEL
            else:
                place = f"{setting} {profile} ({percent(change)})"
                self.more.setdefault(name, []).append(place)

    def sentences(self) -> list[str]:
        """The result of the comparison."""
        beyond = self.cheaper + sum(map(len, self.more.values()))
        if not beyond + self.close:
            return []
        said = [
            "Compared with the other learners that need no knowledge of the truth, in all entries "
            f"where the same costs are charged: {self.close} times the costs are within "
            f"{percent(_NOTICEABLE)}; {self.cheaper} times IOPEA is cheaper by more than that, "
            f"{self.surely_cheaper} of them significantly (Welch's test at {100 * LEVEL:g} %); "
            f"{beyond - self.cheaper} times it is more expensive by more than that."
        ]
        said += [f"{name} is cheaper than IOPEA in {', '.join(at)}." for name, at in
                 self.more.items()]  # fmt: skip
        if self.more:
            said.append(
                "These learners act outside the class of policies (feedback graph and PPO choose "
                "any order in any state, BASA a constant order and a level), and may be cheaper "
                "than the best policy of the class, which IOPEA finds. The rows iopea-capped and "
                "iopea-surge are IOPEA with richer classes."
            )
        return said
