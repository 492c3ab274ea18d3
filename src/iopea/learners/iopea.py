"""IOPEA: information-ordered, epoch-based policy elimination (label ``alg_policy_elimination``).

In epoch k each maximal policy of the surviving set Θ_k is played for N_k
useful steps; all survivors are evaluated on that data; those that are worse
than the best by more than the rule allows are dropped.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np

from iopea.confidence import Rule, Setting, rule_named
from iopea.errors import unknown
from iopea.learners.base import Learner
from iopea.model import check_count, check_positive, check_share
from iopea.policies import default_radius
from iopea.problems.base import Problem
from iopea.types import (
    Array,
    EpochRecord,
    Estimates,
    Play,
    Policy,
    Precision,
    State,
    Stop,
    Trajectory,
)

Restart = Literal["none", "return"]

#: Points per parameter of the net when neither a radius nor a horizon is given.
DEFAULT_POINTS = 2000
#: Steps asked for at a time on the way back to the initial state.
RETURN_STEPS = 1024


class IOPEA(Learner):
    """Learn the best policy of an information-ordered class.

    Parameters
    ----------
    problem : Problem. What is known; never the demand law.
    rule : str. ``"paired"``, ``"theorem"`` or ``"published"``.
    horizon : int, optional. Steps of the whole run [T]. Sets the radius of the
        net to T^(-1/2); needed by rule ``theorem`` alone.
    delta : float. Probability with which the guarantee may fail [δ].
    restart : str. ``"none"``: the system runs on between policies. ``"return"``:
        after each policy θ_R is played until the system is back in s_1.
    radius : float, optional. Radius of the net; overrides the horizon's.
    precision : str. ``"float64"``, or ``"float32"`` for twice the speed and half the memory of
        the counterfactual evaluation, at about six digits.
    threads : int. Threads for the counterfactual evaluation; no effect on results.

    Examples
    --------
    >>> from iopea.problems.lost_sales import LostSales
    >>> shop = LostSales(lead_time=0, holding_cost=1, lost_sales_cost=9,
    ...                  levels={"low": 0, "high": 10, "step": 1})
    >>> learner = IOPEA(shop)
    >>> learner.ask()
    Play(policy=(10.0,), steps=64, epoch=1, until_start=False)
    """

    name = "iopea"

    def __init__(
        self,
        problem: Problem,
        *,
        rule: str = "paired",
        horizon: int | None = None,
        delta: float = 0.05,
        restart: Restart = "none",
        radius: float | None = None,
        precision: Precision = "float64",
        threads: int = 1,
    ) -> None:
        if restart not in get_args(Restart):
            raise unknown("restart", str(restart), get_args(Restart))
        if precision not in get_args(Precision):
            raise unknown("precision", str(precision), get_args(Precision))
        delta = check_share("delta", delta)
        horizon = None if horizon is None else check_count("horizon", horizon)
        radius = None if radius is None else check_positive("radius", radius)
        threads = check_count("threads", threads)
        kind = rule_named(rule)
        self.problem = problem
        self.restart: Restart = restart
        self.policies = _net(problem, kind, horizon, radius)
        self._order = problem.order(self.policies)
        self.rule = kind(_setting(problem, self.policies, self._order.width(), delta, horizon))
        self._radius, self._precision = radius, precision
        self._evaluator = problem.evaluator(self.policies, threads, precision)
        self._alive = np.arange(len(self.policies), dtype=np.intp)
        self._means = np.full(len(self.policies), np.nan)
        self._records: list[EpochRecord] = []
        self._returning = False
        self._open_epoch()

    def settings(self) -> dict[str, object]:
        """The learner's settings as JSON values."""
        return {
            "rule": self.rule.name,
            "horizon": self.rule.setting.horizon,
            "delta": self.rule.setting.delta,
            "restart": self.restart,
            "radius": self._radius,
            "precision": self._precision,
        }

    @property
    def epoch(self) -> int:
        """The epoch in progress [k]."""
        return len(self._records) + 1

    @property
    def survivors(self) -> int:
        """How many policies may still be best [|Θ_k|]."""
        return len(self._alive)

    @property
    def surviving(self) -> Array:
        """The policies that may still be best, an array (n, d) [Θ_k]."""
        return self.policies[self._alive]

    @property
    def records(self) -> tuple[EpochRecord, ...]:
        """What each finished epoch left behind."""
        return tuple(self._records)

    @property
    def stop(self) -> Stop:
        """How the run would end now, with advice."""
        if self.survivors == 1:
            return Stop.SINGLE
        return Stop.NOTHING_ELIMINATED if self.survivors == len(self.policies) else Stop.UNDECIDED

    @property
    def outlook(self) -> str:
        """In words: how the run would end now and what would change that."""
        return self._ending() + self._departed()

    def _ending(self) -> str:
        if self.stop is not Stop.NOTHING_ELIMINATED:
            return str(self.stop.value)
        spread = self.rule.setting.cost_range
        if self._known():
            spread = float(np.nanmax(self._means) - np.nanmin(self._means))
        policies = self.problem.policy_class
        return self.rule.outlook(
            spread, lambda horizon: math.log(policies.count(default_radius(horizon)))
        )

    def _departed(self) -> str:
        steps = self._evaluator.departures
        if not steps:
            return ""
        return (
            f" In {steps} of {self.steps} steps the records were not what the policy explains: "
            "of these the most informative policies are known less well."
        )

    def estimates(self) -> Estimates:
        """What the data says of the survivors now."""
        return self._evaluator.estimates()

    def recommend(self) -> Policy:
        """The survivor with the best estimate; what is being played while nothing is known.

        Rules that don't pool speak by their last finished epoch.
        """
        means = self._evaluator.estimates().mean if self.rule.pooled else self._means
        if not np.isfinite(means).any():
            return self._policy(self._queue[0])
        return self._policy(self._alive[np.nanargmin(means)])

    def _policy(self, index: np.intp | int) -> Policy:
        return tuple(map(float, self.policies[index]))

    def _open_epoch(self) -> None:
        """Line up the maximal policies; ties go to the best estimate."""
        self._queue = [int(i) for i in self._order.maximal(self._alive, prefer=self._means)]
        self._remaining = self.rule.epoch_length(self.epoch)
        if not self.rule.pooled:
            self._evaluator.forget()

    def _ask(self) -> Play:
        if self._returning:
            return Play(self.problem.restart_policy, RETURN_STEPS, self.epoch, until_start=True)
        return Play(self._policy(self._queue[0]), self._remaining, self.epoch)

    def _tell(self, trajectory: Trajectory) -> None:
        decided = self.survivors == 1
        counted = self._evaluator.observe(trajectory, evaluate=not self._returning and not decided)
        if self._returning:
            self._returning = not self._evaluator.at_start
            return
        self._remaining -= len(trajectory) if decided else counted
        if self._remaining > 0:
            return
        self._returning = self.restart == "return" and not decided and not self._evaluator.at_start
        self._queue.pop(0)
        self._remaining = self.rule.epoch_length(self.epoch)
        if not self._queue:
            self._close_epoch(len(trajectory))

    def _close_epoch(self, told: int) -> None:
        """Drop what is provably worse [Θ_{k+1}], and open the next epoch."""
        threshold = 0.0
        if self.survivors > 1:
            estimates = self._evaluator.estimates()
            outcome = self.rule.eliminate(estimates, self.surviving, self.epoch)
            threshold = outcome.threshold
            self._means = estimates.mean[outcome.keep]
            self._alive = self._alive[outcome.keep]
            self._evaluator.keep(outcome.keep)
        surviving = self.surviving
        best = self._alive[np.nanargmin(self._means)] if self._known() else self._alive[0]
        self._records.append(
            EpochRecord(
                epoch=self.epoch,
                steps=self.steps + told,
                survivors=self.survivors,
                lowest=tuple(map(float, surviving.min(axis=0))),
                highest=tuple(map(float, surviving.max(axis=0))),
                best=self._policy(best),
                threshold=float(threshold),
            )
        )
        self._open_epoch()

    def _known(self) -> bool:
        return bool(np.isfinite(self._means).any())

    def _state(self) -> State:
        return {
            "alive": self._alive.copy(),
            "means": self._means.copy(),
            "queue": list(self._queue),
            "remaining": self._remaining,
            "returning": self._returning,
            "records": [vars(record).copy() for record in self._records],
            "evaluator": self._evaluator.state_dict(),
        }

    def _load(self, state: State) -> None:
        self._alive = np.array(state["alive"], dtype=np.intp)
        self._means = np.array(state["means"])
        self._queue = [int(i) for i in state["queue"]]
        self._remaining = int(state["remaining"])
        self._returning = bool(state["returning"])
        self._records = [_record(record) for record in state["records"]]
        self._evaluator.load_state_dict(state["evaluator"])


def _record(saved: dict[str, Any]) -> EpochRecord:
    """A record from its saved form, in which tuples have become lists."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in saved.items()
    }
    return EpochRecord(**values)


def _net(problem: Problem, rule: type[Rule], horizon: int | None, radius: float | None) -> Array:
    """The discretised class Θ_1, within the rule's limit of points per parameter."""
    policies = problem.policy_class
    if radius is None:
        radius = default_radius(horizon) if horizon else policies.extent / DEFAULT_POINTS or 1.0
    most = rule.points_per_axis
    if most is None:
        return policies.net(radius)
    net = policies.net(max(radius, policies.extent / (most - 1)))
    # A class in whole steps is its own net, at any radius: take some of its points.
    taken = np.ones(len(net), dtype=np.bool_)
    for axis in net.T:
        values = np.unique(axis)
        some = np.linspace(0, values.size - 1, min(most, values.size)).round().astype(int)
        taken &= np.isin(axis, values[some])
    return np.asarray(net[taken])


def _setting(
    problem: Problem, policies: Array, width: int, delta: float, horizon: int | None
) -> Setting:
    constants = problem.constants
    return Setting(
        policies=len(policies),
        width=width,
        span=constants.scaled_span,
        cost_range=constants.cost_range,
        lipschitz=constants.lipschitz,
        alpha=constants.alpha,
        data_needed=constants.data_needed(delta),
        settling=constants.settling,
        delta=delta,
        horizon=horizon,
    )
