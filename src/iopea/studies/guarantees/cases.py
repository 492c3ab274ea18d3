"""Cases of the survival study: the systems on which losses of the best policy are counted.

Nets are coarser than a learner's own, so that runs are short and the best policy of the net is
certain. Every kind of problem has at least one case.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from iopea.comparison.tasks import as_text, system_text
from iopea.demand import (
    Demand,
    Empirical,
    Exponential,
    Lognormal,
    NegativeBinomial,
    Poisson,
    Uniform,
)
from iopea.problems.base import Problem
from iopea.studies.guarantees.truths import Persistent
from iopea.studies.reproduction.scenarios import METHODS, PROFILES, scenarios
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.dual_sourcing.base_surge import BaseSurge
from iopea.systems.dual_sourcing.capped import CappedDualIndex
from iopea.systems.finite import FiniteMDP
from iopea.systems.finite.dynamics import Dynamics
from iopea.systems.hard_instance import HardInstance, HiddenArm
from iopea.systems.lost_sales import LostSales
from iopea.systems.lost_sales.base_stock import BaseStock
from iopea.systems.lost_sales.capped import CappedBaseStock
from iopea.systems.lost_sales.constant import ConstantOrder
from iopea.systems.lost_sales.reorder import ReorderUpTo
from iopea.systems.newsvendor import Newsvendor
from iopea.systems.queue import QueueRates, ServiceRateQueue
from iopea.types import Truth

#: Failure probabilities δ, and those for systems whose runs are long.
DELTAS = (0.01, 0.05, 0.2)
_SLOW_DELTAS = (0.05, 0.2)
#: A name, its problem and its truth.
_System = tuple[str, Problem, Truth]

#: Spacing of the nets on the paper's settings, by block.
_SPACING = {
    "inventory-small": 0.1,
    "inventory-large": 3.0,
    "dual-small": 0.5,
    "dual-large": 16.0,
    "queue": 1.0,
}
#: Steps of a run by kind of problem, and for all other kinds.
_STEPS = {"dual-sourcing": 160}
_USUAL_STEPS = 240
#: Steps of runs of rule ``published`` on the paper's settings.
_PUBLISHED_STEPS = 10_000


@dataclass(frozen=True)
class Case:
    """A system, and the settings of the learner on it.

    Attributes
    ----------
    name : str. Valid in a file name.
    section : str. Its group.
    systems : tuple of str. Problem and truth as text; several of them share the runs.
    settings : str. The learner's settings as text.
    horizon : int. Steps of a run.
    rule : str. Of elimination.
    deltas : tuple of float. Failure probabilities δ.
    alike : str. Name of the cases that it is counted with; its kind of problem by default.
    reacting : bool. Whether somebody else plays, a low policy after low demand and a high one after
        high demand, and the learner only gets the records.
    """

    name: str
    section: str
    systems: tuple[str, ...]
    settings: str
    horizon: int
    rule: str = "paired"
    deltas: tuple[float, ...] = DELTAS
    alike: str = ""
    reacting: bool = False

    @property
    def kind(self) -> str:
        """The kind of problem, or of policies."""
        return self.alike or str(json.loads(self.systems[0])["problem"]["kind"])


def _case(
    section: str,
    name: str,
    problem: Problem,
    truth: Truth,
    horizon: int | None = None,
    rule: str = "paired",
    **settings: Any,
) -> Case:
    steps = horizon or _STEPS.get(problem.kind, _USUAL_STEPS)
    systems = (system_text(problem, truth),)
    return Case(name, section, systems, as_text(settings), steps, rule)


def _shop(lead_time: int, penalty: float, high: float, step: float) -> LostSales:
    levels: Any = {"low": 0, "high": high, "step": step}
    return LostSales(lead_time=lead_time, holding_cost=1, lost_sales_cost=penalty, levels=levels)


def _stand(penalty: float, low: float, high: float, step: float) -> Newsvendor:
    levels: Any = {"low": low, "high": high, "step": step}
    return Newsvendor(overage_cost=1, underage_cost=penalty, levels=levels)


def _dual(regular: int, expedited: int, high: float, step: float, **more: Any) -> DualSourcing:
    levels: Any = {"low": 0, "high": high, "step": step}
    return DualSourcing(
        regular_lead_time=regular,
        expedited_lead_time=expedited,
        holding_cost=1,
        lost_sales_cost=more.pop("penalty", 10),
        expedited_cost=0.5,
        expedited_levels=levels,
        regular_levels=levels,
        **more,
    )


def _queue(arrivals: str, penalty: float = 100, buffer: int = 2) -> ServiceRateQueue:
    return ServiceRateQueue(
        buffer=buffer,
        max_rate=3,
        arrival_rate_bound=10,
        deadline_rate_bound=10,
        arrivals=arrivals,
        miss_penalty=penalty,
    )


def _machine(repair_cost: float) -> Dynamics:
    """A machine that wears out from state 0 to 2, and is repaired by action 1."""
    wear, repair = [[0.7, 0.3, 0], [0, 0.6, 0.4], [0, 0, 1]], [[0.9, 0.1, 0]] * 3
    return Dynamics(
        transitions=np.swapaxes([wear, repair], 0, 1),
        costs=[[0, 0.3], [0.2, repair_cost], [0.9, 0.7]],
        bernoulli=True,
    )


def _shared_machine() -> FiniteMDP:
    return FiniteMDP(states=3, actions=2, policies=_REPAIRS, information_order="full-feedback")


def _demand(zero_probability: float) -> Exponential:
    return Exponential(mean=1, maximum=3, zero_probability=zero_probability)


_USUAL = _demand(0.3)
_SLOW = _demand(0.9)
_BUSY = QueueRates(arrival_rate=6, deadline_rate=3)
#: The demand of one period in 200 is 40 times the largest of the others.
_RARE = Empirical(values=(*(0.25 * (number % 5) for number in range(199)), 40.0))
_REPAIRS = ((0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1))


def _paper() -> Iterator[Case]:
    """The paper's settings, half of the runs in each profile where these differ."""
    profiles = [scenarios(profile) for profile in PROFILES]
    for name, scenario in profiles[0].items():
        yield Case(
            name,
            "The paper's settings",
            tuple(dict.fromkeys(profile[name].system() for profile in profiles)),
            as_text({"radius": _SPACING[scenario.block]}),
            _STEPS.get(scenario.tables["problem"]["kind"], _USUAL_STEPS),
        )


def _laws() -> Iterator[Case]:
    """Other demand laws, from heavy tails to almost no demand."""
    section = "Other demand"
    laws: dict[str, tuple[LostSales, Demand]] = {
        "poisson": (_shop(2, 10, 20, 1), Poisson(mean=2)),
        "negative-binomial": (_shop(2, 50, 12, 1), NegativeBinomial(mean=0.3, size=0.3)),
        "heavy-tail": (_shop(2, 10, 20, 0.25), Lognormal(mean=1, sd=3)),
        "rare-large-demand": (_shop(2, 10, 20, 0.25), _RARE),
        "no-demand-0": (_shop(2, 10, 9, 0.1), _demand(0.0)),
        "no-demand-90": (_shop(2, 10, 7, 0.1), _SLOW),
        "no-demand-95-dear": (_shop(2, 100, 7, 0.1), _demand(0.95)),
    }
    for name, (shop, law) in laws.items():
        yield _case(section, f"lost-sales-{name}", shop, law)
    yield _case(section, "lost-sales-long-run", _shop(2, 10, 7, 0.1), _USUAL, horizon=5000)


def _suppliers() -> Iterator[Case]:
    """Two suppliers: lead times, tight ranges of levels, estimators."""
    section = "Two suppliers"
    laws: dict[str, tuple[DualSourcing, Demand]] = {
        "lead-times-4-2": (_dual(4, 2, 12, 1), _USUAL),
        "poisson-tight": (_dual(5, 0, 10, 1), Poisson(mean=4)),
        "level": (_dual(1, 0, 6, 0.5, estimator="level"), _USUAL),
        "hitting": (_dual(1, 0, 6, 0.5, estimator="hitting"), _USUAL),
        "sample-path": (_dual(1, 0, 4, 1, order_by="sample-path"), _USUAL),
    }
    for name, (shop, law) in laws.items():
        yield _case(section, f"dual-sourcing-{name}", shop, law)


def _others() -> Iterator[Case]:
    """Every other kind of problem."""
    section = "Other problems"
    yield _case(section, "newsvendor", *Newsvendor.example())
    rare = QueueRates(arrival_rate=2, deadline_rate=0.05)
    yield _case(section, "queue-rare-misses", _queue("fixed"), rare)
    yield _case(section, "queue-262144-policies", _queue("fixed", buffer=8), _BUSY, 120)
    hard = HardInstance(policies=3, width=3, span=3, reveal=2)
    yield _case(section, "hard-instance", hard, HiddenArm(arm=2, advantage=0.3))


def _ties() -> Iterator[Case]:
    """The two best policies differ by 0.1 % of their cost, or less."""
    section = "Near-ties"
    # Around the best quantity, 2 log 5, such that the next one costs 0.1 % more.
    stand = _stand(4, 0.4869985749, 9.9869985749, 0.5)
    yield _case(section, "tie-newsvendor", stand, Exponential(mean=2))
    yield _case(section, "tie-newsvendor-poisson", _stand(3.64047, 0, 14, 1), Poisson(mean=4))
    yield _case(section, "tie-lost-sales", _shop(2, 10.65, 20, 1), Poisson(mean=2))
    yield _case(section, "tie-queue", _queue("decaying", 1.947), _BUSY)
    listed = FiniteMDP(states=3, actions=2, policies=_REPAIRS)
    yield _case(section, "tie-finite-own-costs", listed, _machine(0.7392))
    yield _case(section, "tie-finite-full-feedback", _shared_machine(), _machine(0.7392))
    full = HardInstance(policies=8)
    # All arms are nearly tied and comparisons independent: the bounds on probabilities are sharp.
    yield _case(section, "tie-hard-instance", full, HiddenArm(arm=3, advantage=0.0005))


def _ways() -> Iterator[Case]:
    """Other settings: short first epochs, and a return to the initial state between policies."""
    section = "Other ways to run"
    shop, dual = _shop(2, 10, 7, 0.1), _dual(1, 0, 6, 0.5)
    short: tuple[_System, ...] = (
        ("lost-sales-slow", shop, _SLOW),
        ("dual-sourcing", dual, _USUAL),
    )
    emptied: tuple[_System, ...] = (
        ("lost-sales", shop, _USUAL),
        ("dual-sourcing", dual, _USUAL),
    )
    for name, problem, truth in short:
        yield _case(section, f"first-epoch-8-{name}", problem, truth, first_epoch=8)
    for name, problem, truth in emptied:
        yield _case(section, f"return-{name}", problem, truth, restart="return")


def _sticky(stay: float, states: int, costs: Any, bernoulli: bool = False) -> Dynamics:
    """A ring of states that are rarely left; only costs depend on the action."""
    ring = stay * np.eye(states) + (1 - stay) * np.roll(np.eye(states), 1, axis=1)
    actions = len(costs[0])
    return Dynamics(
        transitions=np.repeat(ring[:, None], actions, axis=1), costs=costs, bernoulli=bernoulli
    )


def _clusters(costs: Any, leave: float) -> Dynamics:
    """Two pairs of states, fast within and slow between; action 1 stays longer in the second."""

    def moves(first: float, second: float) -> Any:
        return [
            [0.5 - first, 0.5, first, 0],
            [0.5, 0.5, 0, 0],
            [second, 0, 0.5 - second, 0.5],
            [0, 0, 0.5, 0.5],
        ]

    both = [moves(leave, leave), moves(leave, 0.7 * leave)]
    return Dynamics(transitions=np.swapaxes(both, 0, 1), costs=costs)


def _pairs(costs: Any, leave: float) -> Dynamics:
    """Two pairs of states that take turns, and are left rarely: large costs hide a slow change."""

    def moves(back: float) -> Any:
        return [[0, 1, 0, 0], [1 - leave, 0, leave, 0], [0, 0, 0, 1], [back, 0, 1 - back, 0]]

    both = [moves(1.1 * leave), moves(leave)]
    return Dynamics(transitions=np.swapaxes(both, 0, 1), costs=costs)


def _chain(states: int, actions: int, **more: Any) -> FiniteMDP:
    """Policies that take the same action everywhere."""
    same = [[action] * states for action in range(actions)]
    return FiniteMDP(states=states, actions=actions, policies=same, **more)


def _slow() -> Iterator[Case]:
    """Systems with a long memory: lead times, chains, queues, autocorrelated demand."""
    section = "Slow systems"
    found: list[Case] = []

    def add(name: str, problem: Problem, truth: Truth, horizon: int, **settings: Any) -> None:
        found.append(_case(section, name, problem, truth, horizon, **settings))

    for lead_time, horizon in ((30, 1500), (50, 2500), (100, 5000)):
        shop = _shop(lead_time, 10, 8 * (lead_time + 1), 4 if lead_time < 100 else 8)
        add(f"slow-lost-sales-{lead_time}", shop, Poisson(mean=4), horizon)
    add("slow-lost-sales-exponential", _shop(50, 10, 408, 4), Exponential(mean=4), 2500)
    for first in (8, 48):
        shop = _shop(50, 10, 408, 4)
        add(f"slow-first-epoch-{first}", shop, Poisson(mean=4), 2500, first_epoch=first)
    add("slow-return", _shop(30, 10, 248, 4), Poisson(mean=4), 3000, restart="return")
    for correlation in (0.5, 0.8):
        demand = Persistent(mean=1, correlation=correlation)
        for lead_time in (0, 2):
            name = f"dependent-{correlation:g}-lead-time-{lead_time}"
            add(name, _shop(lead_time, 10, 12, 0.1), demand, 240)
    add("dependent-0.8-long", _shop(2, 10, 12, 0.1), Persistent(mean=1, correlation=0.8), 2000)
    add("slow-dual-20-0", _dual(20, 0, 96, 4), Poisson(mean=2), 800)
    add("slow-dual-30-10", _dual(30, 10, 128, 8), Poisson(mean=2), 1200)
    paths = _dual(20, 19, 100, 20, order_by="sample-path")
    add("slow-dual-sample-path", paths, Exponential(mean=2, zero_probability=0.3), 8000)
    for stay in (0.97, 0.99):
        costs = [[0.0, 0.5], [0.9, 0.5]]
        for estimator in ("own", "model"):
            name = f"slow-chain-{estimator}-{1 - stay:.2f}"
            add(name, _chain(2, 2, estimator=estimator), _sticky(stay, 2, costs), 5000)
    far = [[0.0, 0.45, 0.2], [0.3, 0.45, 0.9], [1.0, 0.45, 0.5], [0.4, 0.45, 0.3]]
    for estimator in ("own", "model"):
        problem = _chain(4, 3, estimator=estimator)
        add(f"slow-ring-{estimator}", problem, _sticky(0.97, 4, far), 6000)
        noisy = _sticky(0.97, 2, [[0.2, 0.4], [0.6, 0.42]], bernoulli=True)
        add(f"slow-noise-{estimator}", _chain(2, 2, estimator=estimator), noisy, 5000)
        far_apart = _clusters([[0.1, 0.05], [0.2, 0.15], [0.7, 0.7], [0.8, 0.8]], 0.02)
        add(f"slow-clusters-{estimator}", _chain(4, 2, estimator=estimator), far_apart, 5000)
        hidden = _pairs([[0.0, 0.0], [0.9, 0.9], [0.1, 0.1], [1.0, 1.0]], 0.005)
        add(f"slow-hidden-{estimator}", _chain(4, 2, estimator=estimator), hidden, 6000)
    shared = _chain(4, 3, information_order="full-feedback")
    add("slow-ring-full-feedback", shared, _sticky(0.97, 4, far), 3000)
    full = QueueRates(arrival_rate=2.9, deadline_rate=0.02)
    add("slow-queue-full", _queue("fixed", buffer=4), full, 1000)
    crowded = QueueRates(arrival_rate=9, deadline_rate=0.1)
    add("slow-queue-crowded", _queue("fixed", buffer=8), crowded, 300)
    yield from (replace(case, deltas=_SLOW_DELTAS) for case in found)


def _families() -> Iterator[Case]:
    """Other families than base-stock levels and dual indices, and orders in whole cases."""
    section = "Other policies"
    found: list[Case] = []

    def levels(high: float, step: float, low: float = 0) -> Any:
        return {"low": low, "high": high, "step": step}

    def add(name: str, problem: Problem, truth: Truth, horizon: int = _USUAL_STEPS) -> None:
        found.append(_case(section, name, problem, truth, horizon))

    def shop(lead_time: int, penalty: float, policies: Any, **more: Any) -> LostSales:
        costs: dict[str, Any] = {"holding_cost": 1, "lost_sales_cost": penalty, **more}
        return LostSales(lead_time=lead_time, policies=policies, **costs)

    small = CappedBaseStock(levels=levels(7, 0.5), caps=levels(3, 0.25))
    add("capped-base-stock", shop(2, 10, small), _USUAL)
    slow = CappedBaseStock(levels=levels(50, 2), caps=levels(10, 1))
    add("capped-base-stock-poisson", shop(4, 19, slow), Poisson(mean=5))
    rare = CappedBaseStock(levels=levels(20, 1), caps=levels(6, 0.5))
    add("capped-base-stock-rare-large-demand", shop(2, 10, rare), _RARE)
    add("capped-base-stock-heavy-tail", shop(2, 10, rare), Lognormal(mean=1, sd=3))
    long = CappedBaseStock(levels=levels(160, 8), caps=levels(24, 2))
    add("capped-base-stock-long", shop(20, 10, long), Poisson(mean=5), 800)
    for lead_time, fixed in ((0, 20), (1, 15)):
        pairs = ReorderUpTo(reorder_levels=levels(24, 2), order_up_to_levels=levels(48, 3))
        costly = shop(lead_time, 9, pairs, fixed_order_cost=fixed)
        add(f"s-S-lead-time-{lead_time}", costly, Poisson(mean=5))
    amounts = ConstantOrder(orders=levels(9, 0.1))
    add("constant-order", shop(4, 9, amounts), Poisson(mean=5), 480)
    for size in (6, 12, 24):
        cases: Any = {"order_multiple": size}
        boxes = shop(2, 10, BaseStock(levels=levels(80, 1)), **cases)
        add(f"cases-of-{size}", boxes, Poisson(mean=8))
    least = shop(2, 10, BaseStock(levels=levels(80, 1)), minimum_order=20)
    add("minimum-order", least, Poisson(mean=8))
    dual = _dual(5, 0, 24, 1).system
    capped = CappedDualIndex(
        expedited_levels=levels(16, 2), regular_levels=levels(40, 4), caps=levels(6, 1)
    )
    add("capped-dual-index", DualSourcing(dual, capped), Poisson(mean=4))
    surge = BaseSurge(orders=levels(6, 0.5), levels=levels(16, 1))
    add("base-surge", DualSourcing(dual, surge), Poisson(mean=4))
    later = _dual(4, 1, 24, 1).system
    add("base-surge-lead-times-4-1", DualSourcing(later, surge), Poisson(mean=4))
    stand = _stand(4, 0, 10, 0.5).changed(estimator="product-limit")
    add("newsvendor-product-limit", stand, Exponential(mean=2))
    yield from (replace(case, deltas=_SLOW_DELTAS, alike="other policies") for case in found)


#: Cases that are also run under the paper's way to play, and those in which somebody else plays.
_MAXIMAL = (
    "inventory-small-exponential",
    "inventory-large-normal",
    "dual-small-exponential",
    "lost-sales-poisson",
    "lost-sales-rare-large-demand",
    "newsvendor",
    "tie-newsvendor-poisson",
    "slow-lost-sales-50",
    "dependent-0.8-lead-time-2",
    "capped-base-stock",
    "base-surge",
)
_REACTING = (
    "inventory-small-exponential",
    "dual-small-exponential",
    "lost-sales-poisson",
    "lost-sales-heavy-tail",
    "newsvendor",
    "tie-newsvendor",
    "slow-lost-sales-30",
    "capped-base-stock",
    "s-S-lead-time-1",
    "cases-of-12",
    "capped-dual-index",
    "base-surge",
)


def _other_hands(known: dict[str, Case]) -> Iterator[Case]:
    """Maximal play, and a player who lowers the level after low demand."""
    for name in _MAXIMAL:
        case = known[name]
        settings = as_text({**json.loads(case.settings), "play": "maximal"})
        yield replace(
            case, name=f"maximal-{name}", section="Maximal play", settings=settings,
            deltas=_SLOW_DELTAS, alike="maximal play",
        )  # fmt: skip
    for name in _REACTING:
        yield replace(
            known[name], name=f"reacting-{name}", section="Levels that follow demand",
            deltas=_SLOW_DELTAS, alike="levels that follow demand", reacting=True,
        )  # fmt: skip


def _proved() -> Iterator[Case]:
    """Rule theorem where α is known; on the first two systems it eliminates policies."""
    section = "The theorem's constants"
    few, little = _stand(1, 0, 2, 0.25), Uniform(low=0, high=0.5)
    hard = HardInstance(policies=4)
    systems: tuple[tuple[str, Problem, Truth, int], ...] = (
        ("newsvendor", few, little, 4000),
        ("hard-instance", hard, HiddenArm(arm=2, advantage=0.5), 16_000),
        ("finite", _shared_machine(), _machine(0.5), 1000),
        ("lost-sales", _shop(2, 10, 7, 0.5), _USUAL, 1000),
        ("dual-sourcing", _dual(1, 0, 6, 1, zero_demand=0.3), _USUAL, 1000),
        ("queue", _queue("decaying"), _BUSY, 1000),
    )
    for name, problem, truth, horizon in systems:
        yield _case(section, f"theorem-{name}", problem, truth, horizon, rule="theorem")


@cache
def cases() -> dict[str, Case]:
    """All cases with a promise, by name."""
    groups = (_paper, _laws, _suppliers, _others, _ties, _ways, _slow, _families, _proved)
    known = {case.name: case for group in groups for case in group()}
    return known | {case.name: case for case in _other_hands(known)}


@cache
def published_cases() -> dict[str, Case]:
    """Rule published on the paper's settings: it promises nothing."""
    method = METHODS["iopea-published"]
    others = {name: value for name, value in method.settings.items() if name != "rule"}
    return {
        name: Case(
            f"published-{name}",
            "The published rule",
            (method.system(scenario),),
            as_text(others),
            _PUBLISHED_STEPS,
            "published",
        )
        for name, scenario in scenarios("as-published").items()
    }


#: Cases of the quick study: each kind of problem, and the hardest cases.
QUICK = (
    "inventory-small-exponential",
    "lost-sales-poisson",
    "lost-sales-no-demand-90",
    "dual-sourcing-poisson-tight",
    "queue-rare-misses",
    "newsvendor",
    "slow-lost-sales-50",
    "slow-chain-own-0.03",
    "slow-chain-model-0.03",
    "dependent-0.8-lead-time-2",
    "maximal-inventory-small-exponential",
    "reacting-inventory-small-exponential",
    "tie-newsvendor",
    "tie-newsvendor-poisson",
    "tie-finite-own-costs",
    "tie-finite-full-feedback",
    "tie-hard-instance",
    "theorem-newsvendor",
)
