"""IOPEA: information-ordered, epoch-based policy elimination (label ``alg_policy_elimination``).

In epoch k each maximal policy of the surviving set Θ_k is played for N_k useful steps; all
survivors are evaluated on that data; those that are worse than the best by more than the rule
allows are dropped. Systems driven by demand can be evaluated on data of any policy: there, by
default, the best survivor by estimate is played instead (:mod:`iopea.play`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from numbers import Integral
from typing import Literal, get_args

import numpy as np

from iopea.elimination import as_rule
from iopea.elimination.rule import Rule, Setting
from iopea.errors import InputError, shown
from iopea.learners.base import Learner, epoch_records
from iopea.learners.diagnostics import DemandWatch, edge_warnings
from iopea.learners.survivors import Implicit, Listed, Pool
from iopea.model import MOST_COUNTED, check_choice, check_count, check_positive, check_share
from iopea.play import as_player
from iopea.play.player import Player
from iopea.policies import PolicyClass, default_radius
from iopea.problems.base import Problem, returned
from iopea.seeds import seed_for
from iopea.state import Part, each, numbers, parts
from iopea.types import (
    Array,
    Controller,
    EpochRecord,
    Estimates,
    Play,
    Policy,
    Precision,
    Stop,
    Trajectory,
    show_policy,
)

Restart = Literal["none", "return"]

#: Plug-in classes with more policies than this are not listed at all.
MOST_LISTED = 2**16
#: Most policies of several parameters among which one is chosen by estimate, again and again.
MOST_CHOSEN = 2**12
#: Below this share of informative steps, a warning is given.
_FEW_INFORMATIVE = 0.01
#: What follows where estimates assume independent demand with one law.
_DOUBTED = (
    "Lost demand is filled in by the law of all records, which assumes independent demand with one "
    "law, so nothing more is eliminated."
)
#: Why a test may not take place.
_SUSPECTED = (
    "High demand has followed high demand, or low demand, more often than it usually does by "
    "chance: while that lasts, nothing is eliminated."
)
#: What follows where no survivor holds stock.
_BLIND = (
    "Only policies that hold no stock are left: under them nothing is seen any more. If demand may "
    "come back, start a new learner."
)
#: Most threads of an evaluation.
MOST_THREADS = 1024
#: Steps asked for at a time on the way back to the initial state.
RETURN_STEPS = 1024


class IOPEA(Learner):
    """Learn the best policy of an information-ordered class.

    Parameters
    ----------
    problem : Problem. What is known; never the demand law.
    rule : str or Rule. ``"paired"``, ``"theorem"`` or ``"published"``, or a custom rule.
    play : str or Player, optional. ``"maximal"``: the maximal policies of the order, each for an
        epoch. ``"frugal"``: the best survivor by estimate, chosen after every step at first and
        whenever the data has grown by a tenth later; for systems driven by demand, under a rule
        that pools all data, without restarts, and the default there.
    start : policy, optional. The policy in force before the first step, for play ``frugal``: it is
        left only for a gain that is more than noise. By default, or if it holds no stock, play
        begins with the policy at a 16th of each range.
    state : sequence of float, optional. The stock on hand before the first step, then what is on
        order, the oldest order first; by default, the shop is empty.
    horizon : int, optional. Steps of the whole run [T]; only rule ``theorem`` needs it.
    delta : float. Probability with which the guarantee may fail [δ].
    restart : str. ``"none"``: the system runs on between policies. ``"return"``:
        after each policy θ_R is played until the system is back in s_1.
    radius : float, optional. Radius of the net. By default, the longest range of a parameter over
        max{2000, √T} (:func:`~iopea.policies.default_radius`); with several parameters, a larger
        one if that gave more policies than the family allows (``most_listed``), and the
        recommendation is refined between them.
    first_epoch : int, optional. Useful steps of the first epoch of rule ``paired``. By default,
        the first test comes after 48 steps or 20 memories of the system; among policies that
        inform each other, the one to play is revised after an eighth, a quarter and half of that.
    memory : float, optional. Steps after which the system has forgotten its state, if known. Rule
        ``paired`` eliminates nothing before its data spans 20 memories, where the memory is the
        largest of this value, the problem's own (a lead time) and the one estimated from data.
    precision : str. ``"float64"``, or ``"float32"``: the counterfactual evaluation is twice as fast
        in half the memory, accurate to about six digits.
    threads : int. Threads for the counterfactual evaluation; no effect on results.
    seed : int. Seed of the draws among equally informative policies, under rule ``published`` only.

    Examples
    --------
    >>> from iopea.systems.lost_sales import LostSales
    >>> shop = LostSales(lead_time=0, holding_cost=1, lost_sales_cost=9,
    ...                  levels={"low": 0, "high": 10, "step": 1})
    >>> IOPEA(shop, start=4).ask()
    Play(policy=(4.0,), steps=1, epoch=1, until_start=False, copies=1)
    >>> IOPEA(shop, play="maximal").ask()
    Play(policy=(10.0,), steps=6, epoch=1, until_start=False, copies=1)
    """

    name = "iopea"
    needs = "nothing but the information order"
    takes_any = True
    takes_start = True
    saved = parts(
        queue=each(numbers), played=numbers, remaining=int, observed=int, returning=bool,
        records=epoch_records, pool=Part, watch=Part, player=Part, left=int, planned=int,
    )  # fmt: skip

    def __init__(
        self,
        problem: Problem,
        *,
        rule: str | Rule | type[Rule] = "paired",
        play: str | Player | type[Player] | None = None,
        start: Policy | float | None = None,
        state: Sequence[float] | None = None,
        horizon: int | None = None,
        delta: float = 0.05,
        restart: Restart = "none",
        radius: float | None = None,
        first_epoch: int | None = None,
        memory: float | None = None,
        precision: Precision = "float64",
        threads: int = 1,
        seed: int = 0,
    ) -> None:
        check_choice("restart", restart, get_args(Restart))
        check_choice("precision", precision, get_args(Precision))
        delta = check_share("delta", delta)
        super().__init__(problem, horizon, seed)
        radius = None if radius is None else check_positive("radius", radius)
        threads = check_count("threads", threads, most=MOST_THREADS)
        first = (
            None
            if first_epoch is None
            else check_count("first_epoch", first_epoch, most=MOST_COUNTED)
        )
        memory = None if memory is None else _check_memory(memory)
        chosen = as_rule(rule)
        self.restart: Restart = restart
        self._radius, self._memory, self._precision = radius, memory, precision
        restarts = restart == "return"
        chooses = chosen.pooled and not restarts and problem.can_choose
        usual = "frugal" if chooses else "maximal"
        self.player = copy(as_player(usual if play is None else play))
        if self.player.chooses and not chooses:
            raise InputError(_no_choice(self.player, problem, chosen, restarts))
        self._pool = _pool(
            problem, chosen, self.horizon, radius, threads, precision, self.player.chooses
        )
        self.start = self._check_start(start)
        setting = _setting(problem, self._pool, delta, self.horizon, first, memory)
        self.rule = chosen.for_setting(setting)
        self._records: list[EpochRecord] = []
        self._observed = 0
        self._returning = False
        self._watch = DemandWatch()
        self._left = self._planned = 0
        self.state = None if state is None else self._placed(state)
        begins = self._pool.evaluator.begin(self.start)
        if begins is not None:
            self.player.begin(begins, in_force=begins == self.start)
        self._open_epoch()
        self._played = self._queue[0]

    def _check_start(self, start: Policy | float | None) -> Policy | None:
        """The policy in force, where play begins with one."""
        if start is not None and not self.player.chooses:
            raise InputError(
                f"The start is {shown(start)}, but with play = {self.player.name!r} none is taken: "
                "the maximal policies are played first. Leave out the start, or use play = "
                "'frugal', for which demand must drive the system, the rule pool all data and "
                "restart be 'none'."
            )
        return self._start_of(start) if self.player.chooses else None

    def _placed(self, state: Sequence[float]) -> tuple[float, ...]:
        """The state before the first step, which the evaluator takes note of."""
        if self.restart == "return":
            raise InputError("With restart 'return' the shop begins empty: leave out the state.")
        values = self.problem.as_state(state)
        self._pool.evaluator.place(values)
        return tuple(map(float, values))

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        """Any problem."""
        return True

    def settings(self) -> dict[str, object]:
        """The learner's settings as JSON values."""
        return {
            **super().settings(),
            "rule": self.rule.name,
            "play": self.player.name,
            **self.player.settings(),
            "state": None if self.state is None else list(self.state),
            "delta": self.rule.setting.delta,
            "restart": self.restart,
            "radius": self._radius,
            "first_epoch": self.rule.setting.first,
            "memory": self._memory,
            "precision": self._precision,
        }

    @property
    def title(self) -> str:
        """Name, rule and number of policies; large numbers as a power of ten."""
        count = self.count
        many = str(count) if count < 10**9 else f"about 10^{math.log10(count):.0f}"
        return f"IOPEA, rule {self.rule.name}, {many} policies"

    @property
    def epoch(self) -> int:
        """The epoch in progress [k]."""
        return len(self._records) + 1

    @property
    def count(self) -> int:
        """Number of policies in the discretised class [|N_r(Θ)|]."""
        return self._pool.count

    @property
    def survivors(self) -> int | None:
        """Number of policies that may still be best [|Θ_k|]; None where they can't be counted."""
        return self._pool.survivors

    @property
    def surviving(self) -> Array:
        """The policies that may still be best, an array (n, d) [Θ_k].

        If the class is too large to list: the estimated best policy, and the survivors that differ
        from it in one parameter.
        """
        return self._pool.surviving

    def survives(self, policy: Policy | float) -> bool:
        """Whether a policy, or the nearest one of the net, may still be best."""
        point = self.problem.as_policy(policy)
        return self._pool.survives(point, self.rule, len(self._records))

    @property
    def effective_alpha(self) -> float:
        """Share of the evaluated steps that were informative about the estimated best policy."""
        if not self._observed:
            return math.nan
        estimates = self._pool.estimates()
        if not np.isfinite(estimates.mean).any():
            return 0.0
        return float(estimates.steps[estimates.best] / self._observed)

    @property
    def records(self) -> tuple[EpochRecord, ...]:
        """One record per finished epoch."""
        return tuple(self._records)

    @property
    def stop(self) -> Stop:
        """How the run would end now, with advice."""
        if self.survivors == 1:
            return Stop.SINGLE
        return Stop.NOTHING_ELIMINATED if self.survivors == self.count else Stop.UNDECIDED

    @property
    def outlook(self) -> str:
        """How the run would end now and what would change that, with all warnings."""
        return " ".join((self._ending(), *self.warnings))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Assumptions that the data casts doubt on, in sentences.

        If demand is i.i.d., a warning about it appears with a probability of at most 0.001, however
        often one looks. The end of a range is named if it is the estimated best and every policy
        farther from it than a tenth of the range is eliminated: then the best policy lies outside
        that tenth with a probability of at most ``delta``.
        """
        found = (
            self._few_informative(), self._never_back(), self._departed(), self._demand_warning(),
            _BLIND if self._pool.evaluator.blind else None,
        )  # fmt: skip
        best = self._pool.best(now=self.rule.pooled)
        edges = edge_warnings(self.problem, best, self.surviving) if best else ()
        return (*(text for text in found if text), *edges)

    def _demand_warning(self) -> str | None:
        """Warning if demand is not i.i.d., tested on the evaluator's records where it has any."""
        kept = self._pool.evaluator.demand_records
        if kept is None:
            more = f" {_DOUBTED}" if self._doubted else ""
            return self._watch.warning and self._watch.warning + more
        anew = DemandWatch()
        anew.observe(*kept)
        return anew.warning or self._watch.warning

    @property
    def _doubted(self) -> bool:
        """Whether estimates assume independent demand with one law, and records contradict it."""
        return self._pool.evaluator.assumes_law and self._watch.noticed is not None

    def _few_informative(self) -> str | None:
        untested = self._observed < self.rule.needed * self.rule.setting.width
        if untested or not self.effective_alpha < _FEW_INFORMATIVE:
            return None
        return (
            f"Only {100 * self.effective_alpha:.2g} % of the steps were informative about the "
            "estimated best policy."
        )

    def _never_back(self) -> str | None:
        """Warning if, under some policy, no state was visited twice."""
        estimates = self._pool.estimates()
        if estimates.memory is None or self.rule.setting.declared or self.survivors == 1:
            return None
        never = np.isinf(estimates.memory) & (estimates.steps > 0)
        if not never.any():
            return None
        first = show_policy(tuple(map(float, self.surviving[int(never.argmax())])))
        others = int(never.sum()) - 1
        more = f" and {others} other{'s' if others > 1 else ''}" if others else ""
        return (
            f"Under policy {first}{more} the system has never come back to a state that it had "
            "left, so its long-run cost can't be estimated, and it is not eliminated. If you know "
            "after how many steps the system forgets its state, give that number as memory."
        )

    def _ending(self) -> str:
        if self._pool.evaluator.contradiction is not None and self.survivors != 1:
            return (
                "The records contradict the model: more of them will not help, and the "
                "recommendation comes from a model that does not fit them."
            )
        if self.stop is not Stop.NOTHING_ELIMINATED:
            return str(self.stop.value)
        if self.steps and self._pool.evaluator.suspicious:
            return f"{Stop.NOTHING_ELIMINATED.value} {_SUSPECTED}"
        unknown = int(np.isnan(self._pool.estimates().mean).sum()) if self.steps else 0
        if 0 < unknown < (self.survivors or 0):
            return f"{Stop.NOTHING_ELIMINATED.value} {unknown:,} policies have no estimate yet."
        needed = self.rule.needed * self.rule.setting.width
        if self._observed < needed:
            return (
                "No policy has been eliminated yet: the system remembers "
                f"{self.rule.setting.memory:,.6g} steps, and nothing is eliminated before "
                f"{needed:,} steps; so far there are {self._observed:,}."
            )
        spread = self.rule.setting.cost_range
        means = self._pool.means
        if np.isfinite(means).any():
            spread = float(np.nanmax(means) - np.nanmin(means))
        policies = self._class
        return self.rule.outlook(
            spread,
            lambda horizon: math.log(policies.count(default_radius(policies.extent, horizon))),
        )

    def _departed(self) -> str | None:
        evaluator = self._pool.evaluator
        if evaluator.contradiction is not None:
            return evaluator.contradiction
        steps = evaluator.departures
        said = ""
        if steps:
            number = "1 step is" if steps == 1 else f"{steps:,} steps are"
            said = f"{number} inconsistent with the policy that was played."
        return " ".join(text for text in (evaluator.note, said) if text) or None

    def estimates(self) -> Estimates:
        """Estimates of the surviving policies from the data so far."""
        return self._pool.estimates()

    def recommend(self) -> Policy:
        """The survivor with the best estimate; before there is one, the policy being played.

        Rules that don't pool use the estimates of the last finished epoch. Where the net had to be
        thinned, policies between the survivor and its neighbours are searched too, if the data is
        informative about them.
        """
        if self.rule.draws_ties:
            return self._played
        if self.player.recommended is not None:
            return self._pool.refined(self.player.recommended)
        return self._pool.best(now=self.rule.pooled) or self._queue[0]

    def _open_epoch(self) -> None:
        """Queue the policies to play: what the player chooses, or the maximal survivors."""
        if self.player.chooses:
            self._left = self._epoch_length()
            self._choose()
            return
        rng = None
        if self.rule.draws_ties:
            rng = np.random.Generator(np.random.PCG64(seed_for("ties", self.seed, self.epoch)))
        self._queue = self._pool.maximal(rng)
        self._remaining = self._epoch_length()
        if not self.rule.pooled:
            self._pool.evaluator.forget()
            self._observed = 0

    def _choose(self) -> None:
        """Choose what to play until the next review, at most until the end of the epoch."""
        player, evaluator = self.player, self._pool.evaluator
        if self._doubted:
            evaluator.doubt()
        policy = player.choose(evaluator, self._pool.holds)
        if policy is not None and policy == player.recommended != self.start:
            policy = self._pool.refined(policy)
        self._queue = [policy] if policy is not None else self._pool.maximal()
        self._planned = min(self._left, player.review(self._observed) or self._left)
        self._remaining = self._planned

    def _epoch_length(self) -> int:
        """Steps of each policy in this epoch, by the rule."""
        return check_count(
            f"The epoch length of the rule {self.rule.name!r}", self.rule.epoch_length(self.epoch)
        )

    def _ask(self) -> Play:
        if self._returning:
            return Play(self.problem.restart_policy, RETURN_STEPS, self.epoch, until_start=True)
        return Play(self._queue[0], self._remaining, self.epoch)

    def _accept(self, trajectory: Trajectory, play: Play, asked: bool) -> None:
        """Accept data of any policy of the class, of any length.

        With ``restart="return"``, accept only what was asked for.
        """
        if self.restart == "return":
            super()._accept(trajectory, play, asked)
            return
        played = trajectory.played
        if asked or (not isinstance(played, Controller) and self._class.contains(played)):
            return
        what = str(played) if isinstance(played, Controller) else show_policy(played)
        raise InputError(
            f"Cannot tell steps of policy {what}, which is not in the class: play what ask() "
            f"requested, {show_policy(self._queue[0])}, or another policy of the class, or "
            "give the problem a wider range or smaller steps."
        )

    @property
    def _class(self) -> PolicyClass:
        return self.problem.policy_class

    def _tell(self, trajectory: Trajectory) -> None:
        """Learn from a trajectory, cut at the ends of plays.

        Steps count towards the policy that is due if the policy played informs it.
        """
        done = 0
        while done < len(trajectory):
            due = self._returning or trajectory.policy == self._queue[0]
            useful = due or self.player.chooses or self._informs(trajectory.policy, self._queue[0])
            part = trajectory.part(done, done + self._ask().steps if useful else len(trajectory))
            done += len(part)
            if due and not self._returning:
                self._played = self._queue[0]
            self._take(part, useful, self.steps + done)

    def _informs(self, one: Policy, other: Policy) -> bool:
        return self.problem.order(np.array([one, other])).informs(0, 1)

    def _watch_demand(self, trajectory: Trajectory) -> None:
        seen = self.problem.demand_seen(trajectory)
        if seen is not None and self._pool.evaluator.demand_records is None:
            self._watch.observe(*seen)

    def _take(self, trajectory: Trajectory, useful: bool, steps: int) -> None:
        """Evaluate all survivors on some steps; ``steps`` is the length of the run after them."""
        evaluator = self._pool.evaluator
        judging = not self._returning and self.survivors != 1
        counted = evaluator.observe(trajectory, evaluate=judging)
        if not isinstance(counted, Integral):
            returned(evaluator, "observe", counted, int)
        self._watch_demand(trajectory)
        if self._returning:
            self._returning = not evaluator.at_start
            return
        self._observed += len(trajectory) if judging else 0
        if useful:
            self._remaining -= counted if judging else len(trajectory)
        if self._remaining > 0:
            return
        if self.player.chooses:
            self._left -= self._planned
            if self._left > 0:
                self._choose()
            else:
                self._close_epoch(steps)
            return
        self._returning = self.restart == "return" and judging and not evaluator.at_start
        self._queue.pop(0)
        self._remaining = self._epoch_length()
        if not self._queue:
            self._close_epoch(steps)

    def _close_epoch(self, steps: int) -> None:
        """Eliminate policies by the rule [Θ_{k+1}], and open the next epoch."""
        threshold = 0.0
        # Choices don't depend on the provisional results of epochs that end without a test.
        silent = self.player.chooses and self.epoch <= self.rule.silent
        if silent:
            threshold = math.inf
        elif self.survivors != 1:
            doubted = self._doubted or self._pool.evaluator.suspicious
            threshold = self._pool.judge(self.rule, self.epoch, doubted)
        surviving = self.surviving
        self._records.append(
            EpochRecord(
                epoch=self.epoch,
                steps=steps,
                survivors=self.survivors,
                lowest=tuple(map(float, surviving.min(axis=0))),
                highest=tuple(map(float, surviving.max(axis=0))),
                best=(
                    self._pool.best(now=False)
                    or self.player.recommended
                    or tuple(map(float, surviving[0]))
                ),
                threshold=threshold,
            )
        )
        self._open_epoch()


def _no_choice(player: Player, problem: Problem, rule: Rule, restarts: bool) -> str:
    """Why policies can't be chosen by estimate, as a sentence."""
    if problem.can_choose:
        what = "restart 'return'" if restarts else f"rule {rule.name!r}"
        return f"With play = {player.name!r} there is no {what}: use play = 'maximal'."
    return (
        f"With play = {player.name!r} demand is estimated from all records; this {problem.kind} "
        "problem has no such estimator: use play = 'maximal'."
    )


def _check_memory(memory: float) -> float:
    value = check_positive("memory", memory)
    if value < 1:
        raise InputError(
            f"memory is {memory} steps: give at least 1, the number of steps after which the "
            "system has forgotten its state."
        )
    return value


def _pool(
    problem: Problem,
    rule: Rule,
    horizon: int | None,
    radius: float | None,
    threads: int,
    precision: Precision,
    chooses: bool,
) -> Pool:
    """The discretised class Θ_1: a list, or a set that can't be listed."""
    policies = problem.policy_class
    spacing = default_radius(policies.extent, horizon) if radius is None else radius
    if problem.plug_in and policies.count(spacing) > MOST_LISTED:
        nothing = np.empty((0, policies.dimension))
        return Implicit(problem, problem.evaluator(nothing, threads, precision))
    thinned_to = None
    most = problem.family.most_listed
    if chooses:
        most = min(most, MOST_CHOSEN)
    if rule.points_per_axis is not None:
        net = policies.thinned(rule.points_per_axis, spacing)
    elif radius is None and policies.dimension > 1 and policies.count(spacing) > most:
        per_axis = int(most ** (1 / policies.dimension))
        net = policies.thinned(per_axis, spacing)
        thinned_to = policies.extent / (per_axis - 1)
    else:
        net = policies.net(spacing)
    make = problem.choosing_evaluator if chooses else problem.evaluator
    return Listed(problem, net, make(net, threads, precision), thinned_to)


def _setting(
    problem: Problem,
    pool: Pool,
    delta: float,
    horizon: int | None,
    first: int | None,
    memory: float | None,
) -> Setting:
    constants = problem.constants
    return Setting(
        policies=pool.count,
        width=pool.width,
        span=constants.scaled_span,
        cost_range=constants.cost_range,
        lipschitz=constants.lipschitz,
        alpha=constants.alpha,
        data_needed=constants.data_needed(delta),
        settling=constants.settling,
        memory=max(constants.memory, memory or 1.0),
        declared=memory is not None,
        delta=delta,
        horizon=horizon,
        first=first,
        sensitivity=(
            constants.lipschitz if constants.sensitivity is None else constants.sensitivity
        ),
        unseen=constants.unseen,
        listed=isinstance(pool, Listed),
        published_alpha=constants.published_alpha,
        published_factor=constants.published_factor,
    )
