"""Base classes of a problem: a system and a policy family, with evaluators and simulators.

A :class:`System` defines dynamics, costs and observations. A :class:`PolicyFamily` defines its
parameters, how it acts and its information order. A :class:`Problem` is a pair of the two: what a
manager knows, and all that a learner is given. A :class:`Simulator` holds the truth and never
reaches a learner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np

from iopea.errors import InputError, shown, unknown
from iopea.information_order import InformationOrder
from iopea.model import (
    Model,
    check_choice,
    check_count,
    check_kind,
    check_numbers,
    check_seed,
    real_numbers,
)
from iopea.policies import PolicyClass
from iopea.problems.control import Control
from iopea.problems.tabular import Tabular
from iopea.registry import Registry, blaming, called
from iopea.state import DAMAGED, Stateful, gather, restore, sealed, unsealed
from iopea.types import (
    Array,
    Claim,
    Controller,
    Estimates,
    Mask,
    Play,
    Policy,
    Precision,
    Rollout,
    State,
    Trajectory,
    show_policy,
)

#: Most steps of one play: its records are kept in memory.
MOST_PLAYED = 10**8


def returned(where: object, method: str, found: Any, kind: type[Any]) -> Any:
    """What a method of a class of somebody else returned, if it is of this kind."""
    if not isinstance(found, kind):
        article = "an" if kind.__name__[0].lower() in "aeiou" else "a"
        name = called(where if isinstance(where, type) else type(where))
        raise InputError(
            f"{name}.{method} returns {shown(found)}: it must return {article} {kind.__name__}."
        )
    return found


def sound_estimates(where: object, method: str, found: Any, policies: int) -> Estimates:
    """What a method of somebody else's class returned as estimates of this many policies."""
    estimates: Estimates = returned(where, method, found, Estimates)
    n = estimates.sums.shape[1]
    if n != policies or estimates.sizes_by_policy.shape[1] not in (1, n):
        raise InputError(
            f"{type(where).__name__}.{method} returns sums of shape {estimates.sums.shape} and "
            f"sizes of shape {estimates.sizes.shape} for {policies} policies: sums have a column "
            "for each policy, and sizes one number for each batch, or a column for each policy."
        )
    return estimates


#: How a policy acts: ``order(state, parameters, signal)``.
Rule = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Constants:
    """The constants of the regret theorem (label ``thm:regret_bound``), in cost units.

    Attributes
    ----------
    span : float. Bound on the span of the bias [H].
    lipschitz : float. Change of the average cost per unit of policy [L_Θ].
    bound : float. Largest policy parameter [U].
    dimension : int. Parameters of a policy [d].
    cost_low, cost_high : float. Range of the cost of one step.
    alpha : float. Share of the steps that a counterfactual estimate can use [α].
    settling : int. Steps until a decision affects the cost: the lead time.
    sensitivity : float. Change of the cost of one step per unit of policy; L_Θ by default.
    unseen : float. The most that an unobserved event may change the cost of a policy by, times its
        probability; the range of costs by default.
    published_alpha, published_factor : float. α in the published experiments (``alpha`` by
        default), and their factor of β_k.

    The expected time back to the initial state [D_Θ] depends on the truth: it is a method of
    the simulator, :meth:`Simulator.restart_time`.
    """

    span: float
    lipschitz: float
    bound: float
    dimension: int
    cost_low: float
    cost_high: float
    alpha: float = 1.0
    settling: int = 0
    sensitivity: float | None = None
    unseen: float | None = None
    published_alpha: float | None = None
    published_factor: float = 1.0

    @property
    def memory(self) -> float:
        """Steps that the system is known to remember: those until a decision affects the cost."""
        return float(max(self.settling, 1))

    @property
    def cost_range(self) -> float:
        """Width of the range of the cost of one step."""
        return self.cost_high - self.cost_low

    @property
    def scaled_span(self) -> float:
        """The span H once costs are scaled to [0, 1]."""
        return self.span / self.cost_range

    def data_needed(self, delta: float) -> int:
        """Steps after which the order holds with probability 1 - δ [T_h(δ)]; 1 for sample paths."""
        return 1


@dataclass(frozen=True)
class Choice:
    """What an evaluator says of the policies that may be played next.

    Attributes
    ----------
    best : policy. The estimated best one.
    gain : float. Its estimated saving per step over the policy played now.
    error : float. Standard error of the gain.
    bolder : policy, optional. One that may be better by much, depending on what has not been seen
        yet, and that would show it.
    holds_more : bool. Whether it holds more stock than the policy that it is compared with.
    records : int. Number of steps that this is based on.
    """

    best: Policy
    gain: float = 0.0
    error: float = 0.0
    bolder: Policy | None = None
    holds_more: bool = False
    records: int = 0


class Evaluator(Stateful, ABC):
    """Estimates the cost of all candidate policies from the observed trajectory.

    It is given observations, never the truth. One evaluator serves a whole run; eliminated policies
    are dropped with :meth:`keep`. Its state is declared in ``saved``.
    """

    #: Whether it also estimates policies that the played one does not inform.
    sees_beyond: ClassVar[bool] = False
    #: Whether it assumes that demand is independent with one distribution.
    assumes_law: ClassVar[bool] = False

    @abstractmethod
    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed steps; return how many of them counted as data."""

    @property
    @abstractmethod
    def at_start(self) -> bool:
        """Whether the real system is in its initial state s_1."""

    @property
    def departures(self) -> int:
        """Steps inconsistent with the policy that was played, where that can happen."""
        return 0

    @property
    def contradiction(self) -> str | None:
        """Why these records contradict the model, in a sentence; None if they fit."""
        return None

    @property
    def demand_records(self) -> tuple[Array, Array] | None:
        """Sales and stock of all steps, where the evaluator keeps them; None otherwise."""
        return None

    @property
    def note(self) -> str | None:
        """How records are read, if not as the problem says; None otherwise."""
        return None

    @property
    def blind(self) -> bool:
        """Whether data of none of the policies tells anything."""
        return False

    @property
    def suspicious(self) -> bool:
        """Whether the data may break an assumption of the estimates, so that none is tested now."""
        return False

    @property
    def may_play(self) -> Mask | None:
        """Which of the policies may be played; None if all."""
        return None

    @property
    def constant_orders(self) -> Array | None:
        """What each policy orders in every period whatever the state; None where none does."""
        return None

    @abstractmethod
    def estimates(self) -> Estimates:
        """Batch sums of every remaining policy, the batch in progress included."""

    def means_of(self, policies: Array) -> Array | None:
        """Estimated costs of any policies, an array (n, d); NaN where there is no estimate.

        None if only the candidates can be estimated.
        """
        return None

    def place(self, state: Array) -> None:
        """Take note of the state before the first step: stock on hand and on order."""
        raise InputError("With this estimator the shop begins empty: leave out the state.")

    def begin(self, start: Policy | None) -> Policy | None:
        """Take note of the policy in force before the first step; return the one to begin with."""
        return start

    def choose(self, current: Policy | None = None) -> Choice | None:
        """What to play next, if not a maximal policy.

        The gain is that over the ``current`` policy. None if nothing can be said yet.
        """
        return None

    def doubt(self) -> None:
        """Take note that demand is not independent with one distribution."""
        return

    @abstractmethod
    def forget(self) -> None:
        """Reset the sums but not the states, for a new epoch of a rule that doesn't pool."""

    @abstractmethod
    def keep(self, mask: Mask) -> None:
        """Keep only the policies in the mask."""


class PlugInEvaluator(Evaluator):
    """Estimates a few unknown parameters, from which the cost of any policy follows.

    The policies need not be listed: any of them can be evaluated, and the best one is computed.
    """

    @abstractmethod
    def optimum(self) -> Policy | None:
        """The estimated best policy; None without data."""

    @abstractmethod
    def estimates_of(self, policies: Array) -> Estimates:
        """Linearised batch sums of any policies, an array (n, d), with their ``rank``."""


class System(Model, ABC):
    """The dynamics, costs and observations of a system, without policies or the truth.

    Attributes
    ----------
    kind : str. Its name in problem files.
    tables : tuple of str. Tables of a problem file, beside ``[problem]``, that hold the truth.
    holds_stock : bool. Whether its state is stock on hand and on order.
    truth_type : type. What its simulator must be given as the truth.
    """

    kind: ClassVar[str]
    tables: ClassVar[tuple[str, ...]] = ("demand",)
    holds_stock: ClassVar[bool] = False
    truth_type: ClassVar[type[Any]] = object

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns of a trajectory: the record of each step."""

    @classmethod
    @abstractmethod
    def read_truth(cls, content: Mapping[str, dict[str, Any]], directory: Path | None) -> Any:
        """The truth from the tables of a problem file; data files are in ``directory``."""

    @abstractmethod
    def simulator(self, problem: Problem, truth: Any, seed: int = 0) -> Simulator:
        """The true system under the policies of a problem."""

    @abstractmethod
    def check(self, trajectory: Trajectory) -> None:
        """Refuse records that the system can't have produced."""

    def demand_seen(self, trajectory: Trajectory) -> tuple[Array, Array] | None:
        """Sales and stock of each step; None if nothing is sold.

        Sales are the minimum of demand and stock, and demand is assumed to be i.i.d.
        """
        return None

    def control(self, problem: Problem) -> Control | None:
        """The MDP view, for learners that choose an action in each state; None if there is none."""
        return None

    def tabular(self, problem: Problem, radius: float | None = None) -> Tabular | None:
        """States and actions as a table, for tabular learners; None if there is none.

        Continuous ones are put on a grid of this radius, or of the system's own.
        """
        return None

    def describe(self) -> dict[str, object]:
        """The system as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)


class PolicyFamily(Model, ABC):
    """A parametric family of policies: how they act, and their information order.

    A family is made for a type of system; its methods receive the system. It defines at least its
    parameters (:meth:`policy_class`), its rule (:meth:`order`), its information order
    (:meth:`order_on`) and how that is claimed (:meth:`claim`).

    Attributes
    ----------
    kind : str. Its name in problem files.
    made_for : type of System. The type of system its policies act in.
    parameters : tuple of str. Names of the parameters in results; those of the class if empty.
    optional_columns : tuple of str. Columns a trajectory may have besides those of the system.
    most_listed : int. Most policies to which a class of several parameters is discretised.
    """

    kind: ClassVar[str]
    most_listed: ClassVar[int] = 2**16
    made_for: ClassVar[type[Any]] = System
    parameters: ClassVar[tuple[str, ...]] = ()
    optional_columns: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def policy_class(self, system: Any) -> PolicyClass:
        """All policies that may be played: a box of parameters, or a list."""

    @staticmethod
    def order(state: Any, parameters: Any, signal: Any) -> Any:
        """The action of a policy in a state, as scalar Python, which is compiled.

        Parameters
        ----------
        state : array. The state of the system, as its ``control`` names it.
        parameters : array. The parameters of the policy.
        signal : array. Information on future periods, such as a forecast; empty if there is none.

        Returns
        -------
        The action, a number; with several sources of supply a tuple of orders.
        """
        raise InputError("This family has no rule: write order(state, parameters, signal).")

    def rule(self, system: Any) -> Rule:
        """:meth:`order`, or a version for this system, such as for its lead times."""
        return self.order

    def plays_every_map(self, system: Any) -> bool:
        """Whether the policies are all maps from finitely many states to actions."""
        return False

    def actions_by_state(self, system: Any, policies: Array, states: int) -> Array:
        """Actions of policies, an array (n, d), in each of finitely many states: (n, states)."""
        rule, nothing = self.rule(system), np.zeros(0)
        rows = [
            [rule(np.array([float(state)]), policy, nothing) for state in range(states)]
            for policy in policies
        ]
        return np.array(rows, dtype=np.float64).reshape(len(policies), states)

    @abstractmethod
    def order_on(self, system: Any, policies: Array) -> InformationOrder:
        """The information order on policies, an array (n, d)."""

    @abstractmethod
    def claim(self, system: Any) -> Claim:
        """How the order is claimed to hold: on every sample path, or in distribution."""

    @abstractmethod
    def evaluator(
        self, problem: Any, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """The evaluator of the family, from the initial state on."""

    def path_evaluator(self, problem: Any, policies: Array) -> Evaluator:
        """The evaluator by which a claim of a sample-path order is tested."""
        return self.evaluator(problem, policies)

    def choosing_evaluator(
        self, problem: Any, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """An evaluator that chooses among all policies, whatever was played.

        Its :meth:`Evaluator.choose` is used by play ``frugal``; see :meth:`can_choose`.
        """
        return self.evaluator(problem, policies, threads, precision)

    def can_choose(self, system: Any) -> bool:
        """Whether :meth:`choosing_evaluator` gives an evaluator that chooses among policies."""
        return False

    def plug_in(self, system: Any) -> bool:
        """Whether the evaluator is a :class:`PlugInEvaluator`."""
        return False

    @abstractmethod
    def restart(self, system: Any) -> Policy:
        """A policy that brings the system back to its initial state [θ_R]."""

    @abstractmethod
    def constants(self, system: Any) -> Constants:
        """The constants of the regret theorem; infinite where none are proved."""

    def can_widen(self, axis: int) -> tuple[bool, bool]:
        """Whether the range of a parameter could be extended downwards, and upwards."""
        return False, False

    def preference(self, policies: Array) -> Array | None:
        """Preference among policies that inform each other; the lowest value is played.

        It is used while some survivor has no estimate, or survives only because few steps were
        informative about it. None: play the estimated best.
        """
        return None

    def check_system(self, system: Any) -> None:
        """Refuse a system in which these policies can't act."""
        return

    def check(self, system: Any, trajectory: Trajectory) -> None:
        """Refuse records that the policy played can't have produced."""
        return

    def describe(self) -> dict[str, object]:
        """The family as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)


#: Every policy family by its name in problem files; those of the package come from the systems.
FAMILIES: Registry[PolicyFamily] = Registry(
    "policy family", "iopea.families", PolicyFamily, name_in="kind"
)


class Problem:
    """A system and a policy family: what is known before the first step.

    It holds no demand distribution and no arrival rate. A subclass is a kind of problem in files:
    it names its system and the families for it, and can be created from their keys. The keys of the
    first family, the default, stand beside those of the system; another family is given as
    ``policies``.

    Parameters
    ----------
    system : System.
    family : PolicyFamily. Policies for this system.
    policies : PolicyFamily or mapping. A family, or its table in a problem file, with its kind.
    start : policy, optional. The policy in force today, with which learners begin.
    **keys : keys of the system and of its default family.
    """

    system_type: ClassVar[type[System]]
    #: Families that problem files may name; a new family needs a line here.
    families: ClassVar[tuple[type[PolicyFamily], ...]] = ()

    def __init__(
        self,
        system: System | None = None,
        family: PolicyFamily | None = None,
        /,
        *,
        policies: Any = None,
        start: Policy | float | None = None,
        **keys: Any,
    ) -> None:
        if system is None and family is None:
            system, family = self._made_of(policies, keys)
        elif policies is not None or keys:
            raise InputError(
                "A problem is made of a system and a family, or of keys: leave out "
                f"{next(iter(keys), 'policies')}."
            )
        for name, value, kind in (("system", system, System), ("family", family, PolicyFamily)):
            if not isinstance(value, kind):
                raise InputError(
                    f"The {name} of a problem is a {kind.__name__}, not {shown(value)}."
                )
        self._system, self._family = cast(System, system), cast(PolicyFamily, family)
        expected = getattr(self, "system_type", System)
        if not isinstance(system, expected):
            raise InputError(
                f"The system of a {type(self).__name__} is a {expected.__name__}, not a "
                f"{type(system).__name__}."
            )
        if not isinstance(system, self._family.made_for):
            raise InputError(
                f"{type(family).__name__} policies are made for a "
                f"{self._family.made_for.__name__}, not for a {type(system).__name__}."
            )
        self._family.check_system(system)
        self._start = None if start is None else self.as_start(start)

    def as_start(self, start: Policy | float) -> Policy:
        """A policy in force, which must be one of the class."""
        return self.as_policy(start, "start")

    def as_policy(self, policy: Policy | float, name: str = "policy") -> Policy:
        """A policy of the class, from its parameters."""
        try:
            given = np.atleast_1d(real_numbers(policy))
        except (TypeError, ValueError, OverflowError):
            given = np.empty((0, 0))
        if given.ndim != 1:
            raise InputError(f"The {name} is {shown(policy)}: give the parameters of a policy.")
        point = tuple(given.tolist())
        if not self.policy_class.contains(point):
            raise self._not_in_class(name, point)
        return point

    def check_policies(self, policies: Array) -> None:
        """Refuse policies, an array (n, d), that are not all in the class."""
        outside = self.policy_class.outside(policies)
        if outside is not None:
            raise self._not_in_class("policy", outside)

    def _not_in_class(self, name: str, policy: Policy) -> InputError:
        return InputError(
            f"The {name} {show_policy(policy)} is not a policy of the class: give "
            f"{self.policy_class.described}."
        )

    def as_state(self, state: Any) -> Array:
        """The state of a shop: what is on hand, then what is on order, the oldest order first."""
        control = self.control
        names: tuple[str, ...] = () if control is None else control.states
        if not self._system.holds_stock:
            raise InputError(f"A {self.kind} problem has no stock to begin with.")
        try:
            values = real_numbers(state)
        except (TypeError, ValueError, OverflowError):
            values = np.empty(0)
        if values.shape != (len(names),) or not (np.isfinite(values) & (values >= 0)).all():
            raise InputError(
                f"The state is {shown(state)}: give {len(names)} quantities of at least 0, "
                f"{', '.join(names)}."
            )
        return values

    @property
    def start(self) -> Policy | None:
        """The policy in force today, with which learners begin; None if unknown."""
        return self._start

    @classmethod
    def _made_of(cls, policies: Any, keys: dict[str, Any]) -> tuple[System, PolicyFamily]:
        """System and family from their keys."""
        if not cls.families:
            raise InputError("A problem is a system and a family: give both.")
        system, default = cls.system_type, cls.families[0]
        listed = "policies" in {*system.model_fields, *default.model_fields}
        if listed and policies is not None and not isinstance(policies, PolicyFamily | Mapping):
            keys, policies = {**keys, "policies": policies}, None  # a key of system or family
        if policies is None:
            known = {*system.model_fields, *default.model_fields}
        else:
            known = set(system.model_fields)
        for key in keys:
            if key in known:
                continue
            if key in default.model_fields:
                if isinstance(policies, Mapping) and policies and "kind" not in policies:
                    raise unknown("key in [policies]", next(iter(policies)), ("kind", "start"))
                raise InputError(
                    f"{key} is a key of {default.kind} policies, but a family is given as "
                    "policies: leave one of them out."
                )
            raise unknown(f"key in {cls.__name__}", key, known)
        own = {key: value for key, value in keys.items() if key in system.model_fields}
        rest = {key: value for key, value in keys.items() if key not in own}
        family = default(**rest) if policies is None else cls._as_family(policies)
        return system(**own), family

    @classmethod
    def _as_family(cls, policies: Any) -> PolicyFamily:
        """A family, given as such or as its table."""
        if isinstance(policies, PolicyFamily):
            return policies
        if not isinstance(policies, Mapping):
            raise InputError(f"policies must be a family, or its table, not {shown(policies)}.")
        kind = policies.get("kind")
        if kind is None:
            raise InputError(f"[policies] needs a kind, such as kind = {cls.families[0].kind!r}.")
        family = cls._family_named(kind)
        return family(**{key: value for key, value in policies.items() if key != "kind"})

    @classmethod
    def _family_named(cls, kind: object) -> type[PolicyFamily]:
        """A family of this kind of problem, or one of a plug-in."""
        known = {family.kind: family for family in cls.families}
        if isinstance(kind, str) and kind in known:
            return known[kind]
        found = FAMILIES.plugin(kind)
        if found is not None:
            return FAMILIES[found.name]
        names = [*known, *(name for name in FAMILIES.names if name not in FAMILIES.built_in)]
        return known[check_choice(f"kind of policies for {cls.system_type.kind}", kind, names)]

    @classmethod
    def read(
        cls, content: Mapping[str, dict[str, Any]], directory: Path | None = None
    ) -> tuple[Self, Any]:
        """Problem and truth from the tables of a problem file, without ``kind``.

        Data files are read from ``directory``.
        """
        problem = cls(**_with_policies(content))
        return problem, cls.system_type.read_truth(content, directory)

    @classmethod
    def example(cls) -> tuple[Self, Any]:
        """A small problem and its truth, on which the contract of all problems is tested."""
        raise InputError(f"{cls.__name__} has no example.")

    @classmethod
    def examples(cls) -> tuple[tuple[Self, Any], ...]:
        """:meth:`example`, and one more for each further family."""
        return (cls.example(),)

    def changed(self, **keys: Any) -> Self:
        """The same problem with other values of some keys of its system or family, or of start."""
        start = keys.pop("start", self._start)
        parts: list[Model] = []
        for part in (self._system, self._family):
            own = {key: keys.pop(key) for key in type(part).model_fields if key in keys}
            parts.append(type(part)(**{**dict(part), **own}))
        for key in keys:
            known = {*type(self._system).model_fields, *type(self._family).model_fields, "start"}
            raise unknown(f"key in {type(self).__name__}", key, known)
        return type(self)(*cast(tuple[System, PolicyFamily], parts), start=start)

    @property
    def system(self) -> Any:
        """The system."""
        return self._system

    @property
    def family(self) -> Any:
        """The policy family."""
        return self._family

    @property
    def kind(self) -> str:
        """The name of the system in problem files."""
        return self._system.kind

    @property
    def tables(self) -> tuple[str, ...]:
        """Tables of a problem file that hold the truth."""
        return self._system.tables

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a trajectory."""
        return self._system.columns

    @property
    def optional_columns(self) -> tuple[str, ...]:
        """Columns that a trajectory may have as well."""
        return self._family.optional_columns

    @cached_property
    def policy_class(self) -> PolicyClass:
        """All policies that may be played."""
        return class_of(self._family, self._system)

    @property
    def claim(self) -> Claim:
        """How the information order is claimed: on every sample path, or in distribution."""
        return self._family.claim(self._system)

    def order(self, policies: Array) -> InformationOrder:
        """The information order on policies, an array (n, d)."""
        points, family = as_policies(policies), self._family
        order: InformationOrder = returned(
            family, "order_on", family.order_on(self._system, points), InformationOrder
        )
        if len(order) != len(points):
            raise InputError(
                f"{type(family).__name__}.order_on returns an order of {len(order)} policies for "
                f"{len(points)}: it must order those that it is given."
            )
        return order

    @property
    def constants(self) -> Constants:
        """The constants of the regret theorem."""
        return self._family.constants(self._system)

    @property
    def restart_policy(self) -> Policy:
        """A policy that brings the system back to its initial state [θ_R]."""
        return self._family.restart(self._system)

    def can_widen(self, axis: int) -> tuple[bool, bool]:
        """Whether the range of a parameter could be extended downwards, and upwards."""
        return self._family.can_widen(axis)

    def preference(self, policies: Array) -> Array | None:
        """Preference among policies that inform each other; see :class:`PolicyFamily`."""
        return self._family.preference(as_policies(policies))

    @property
    def plug_in(self) -> bool:
        """Whether the evaluator is a :class:`PlugInEvaluator`."""
        return self._family.plug_in(self._system)

    def choosing_evaluator(
        self, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """An evaluator that chooses among all policies, an array (n, d)."""
        family, points = self._family, as_policies(policies)
        found = family.choosing_evaluator(self, points, threads, precision)
        return cast(Evaluator, returned(family, "choosing_evaluator", found, Evaluator))

    @property
    def can_choose(self) -> bool:
        """Whether policies can be chosen by estimate, whatever was played."""
        return bool(self._family.can_choose(self._system))

    def evaluator(
        self, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """An evaluator of policies, an array (n, d), from the initial state on."""
        found = self._family.evaluator(self, as_policies(policies), threads, precision)
        return cast(Evaluator, returned(self._family, "evaluator", found, Evaluator))

    def path_evaluator(self, policies: Array) -> Evaluator:
        """The evaluator by which a claim of a sample-path order is tested."""
        found = self._family.path_evaluator(self, as_policies(policies))
        return cast(Evaluator, returned(self._family, "path_evaluator", found, Evaluator))

    def simulator(self, truth: Any, seed: int = 0, state: Any = None) -> Any:
        """The true system: this problem with its truth; see :meth:`as_state` for its state."""
        check_kind("The truth", truth, self._system.truth_type)
        made = self._system.simulator(self, truth, seed)
        simulator: Any = returned(self._system, "simulator", made, Simulator)
        if state is not None:
            simulator.place(self.as_state(state))
        return simulator

    def demand_seen(self, trajectory: Trajectory) -> tuple[Array, Array] | None:
        """Sales and stock of each step; see :class:`System`."""
        return self._system.demand_seen(trajectory)

    @property
    def control(self) -> Any:
        """The MDP view, for learners that choose an action in each state; None if there is none."""
        return self._system.control(self)

    def tabular(self, radius: float | None = None) -> Tabular | None:
        """States and actions as a table, for tabular learners; None if there is none."""
        return self._system.tabular(self, radius)

    def describe(self) -> dict[str, object]:
        """The problem as JSON values: the ``[problem]`` table of a problem file.

        A family that is not the default stands in it as ``family``, with its kind; the policy in
        force as ``start``.
        """
        known = {"kind": self.kind, **self._system.describe()}
        if self._start is not None:
            known["start"] = list(self._start)
        if self.families and type(self._family) is self.families[0]:
            return {**known, **self._family.describe()}
        return {**known, "family": {"kind": self._family.kind, **self._family.describe()}}

    def check(self, trajectory: Trajectory) -> None:
        """Refuse a trajectory that can't have been observed."""
        control = self.control if isinstance(trajectory.played, Controller) else None
        expected = self.columns if control is None else control.columns
        possible = self.optional_columns if control is None else ()
        given = set(trajectory.columns)
        if not set(expected) <= given <= {*expected, *possible}:
            more = f" and may have {', '.join(possible)}" if possible else ""
            raise InputError(
                f"A trajectory of a {self.kind} problem{self._other_policies} has the columns "
                f"{', '.join(expected)}{more}, not {', '.join(trajectory.columns) or 'none'}."
            )
        if control is not None:
            control.check_records(trajectory.columns)
        else:
            self._family.check(self._system, trajectory)
        self._system.check(trajectory)

    @property
    def _other_policies(self) -> str:
        """The policies in a few words, where they are not the default."""
        if self.families and type(self._family) is self.families[0]:
            return ""
        return f" with {self._family.kind} policies"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Problem):
            return NotImplemented
        mine, theirs = ((each.system, each.family, each.start) for each in (self, other))
        return mine == theirs

    def __hash__(self) -> int:
        return hash((self.system, self.family))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.system!r}, {self.family!r})"


def _with_policies(content: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The keys of a problem file's ``[problem]``, and its table of policies if there is one."""
    if "policies" not in content:
        return content["problem"]
    if "policies" in content["problem"]:
        raise InputError(
            "The policies are given twice, in [problem] and as [policies]: leave one out."
        )
    policies = dict(content["policies"])
    start = {"start": policies.pop("start")} if "start" in policies else {}
    if start and not policies:  # policies of the default family
        return {**content["problem"], **start}
    return {**content["problem"], "policies": policies, **start}


class PolicyController(Controller):
    """A policy of any family of the same system, as a controller.

    Parameters
    ----------
    problem : Problem. The system, with the family of the policy.
    policy : tuple of float. Its parameters.
    """

    def __init__(self, problem: Problem, policy: Policy) -> None:
        self.problem = check_kind("The problem", problem, Problem)
        self.policy = tuple(np.atleast_1d(check_numbers("The policy", policy)).ravel().tolist())
        kind, names = problem.family.kind, self._names
        if len(self.policy) != len(names):
            raise InputError(
                f"A {kind} policy has {len(names)} parameters, not the {len(self.policy)} of "
                f"({show_policy(self.policy)})."
            )
        for name, value in zip(names, self.policy, strict=True):
            if not np.isfinite(value):
                raise InputError(f"The {name} of a {kind} policy must be finite, not {value}.")

    @property
    def _names(self) -> tuple[str, ...]:
        names: tuple[str, ...] = self.problem.family.parameters
        return names or self.problem.policy_class.names

    def act(self, states: Array) -> Array:
        """The actions of the policy in these states."""
        control = self.problem.control
        if states.shape[1] != len(control.states):
            raise InputError(
                f"A state has {len(control.states)} numbers, which are "
                f"{', '.join(control.states)}, not {states.shape[1]}."
            )
        policies = np.broadcast_to(self.policy, (len(states), len(self.policy)))
        return np.asarray(control.actions_of(policies, states))

    def table(self) -> dict[str, object]:
        """The family and the parameters."""
        kind = self.problem.family.kind
        return {"controller": kind, **dict(zip(self._names, self.policy, strict=True))}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PolicyController):
            return NotImplemented
        return (self.problem, self.policy) == (other.problem, other.policy)

    def __hash__(self) -> int:
        return hash((self.problem, self.policy))

    def __repr__(self) -> str:
        return f"PolicyController({self.problem!r}, {self.policy!r})"

    def __str__(self) -> str:
        return f"{self.problem.family.kind} policy {show_policy(self.policy)}"


class Simulator(Stateful, ABC):
    """The true system: plays policies and knows their true costs.

    A subclass implements how policies are played, and declares its state in ``saved``. Where the
    problem has a ``control``, it is a :class:`~iopea.problems.stepped.SteppedSimulator`.
    """

    problem: Problem

    def __init__(self, problem: Problem, truth: Any, seed: int = 0) -> None:
        self.problem = problem
        self.truth = truth
        self.seed = check_seed(seed)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of a {self.problem.kind} problem, seed {self.seed}>"

    def optimum(self) -> tuple[Policy, float] | None:
        """The best policy and its cost, where they can be computed exactly."""
        return None

    def play(self, policy: Policy | float, steps: int, until_start: bool = False) -> Rollout:
        """Play a policy from the present state on; with ``until_start``, stop early at s_1.

        It must be a policy of the class, or the one that brings the system back to s_1.
        """
        if check_count("The number of steps", steps, least=0) > MOST_PLAYED:
            raise InputError(
                f"Cannot play {shown(steps)} steps at once: play at most {MOST_PLAYED}, several "
                "times."
            )
        exact = isinstance(policy, tuple) and all(isinstance(value, float) for value in policy)
        if not exact or policy != self.problem.restart_policy:
            policy = self.problem.as_policy(policy)
        check_kind("until_start", until_start, bool)
        rollout = self._play(policy, int(steps), until_start)
        return self._sound(rollout, "_play", int(steps))

    @abstractmethod
    def _play(self, policy: Policy, steps: int, until_start: bool = False) -> Rollout:
        """Play any policy, which need not be checked."""

    def carry_out(self, play: Play, most: int) -> Rollout:
        """Play what a learner asks for, for at most ``most`` steps."""
        steps = min(play.steps, most, MOST_PLAYED)
        if isinstance(play.policy, Controller):
            rollout = self.drive(play.policy, steps, play.copies)
            return self._sound(rollout, "drive", steps)
        return self.play(play.policy, steps, play.until_start)

    def drive(self, controller: Controller, steps: int, copies: int = 1) -> Rollout:
        """Let a controller act; for problems with states and actions."""
        raise InputError(
            f"A {self.problem.kind} problem has no states and actions for {controller}."
        )

    def _sound(self, rollout: Any, method: str, steps: int) -> Rollout:
        """A rollout of at most so many steps, with one finite cost for each; refused if not."""
        found: Rollout = rollout
        if not isinstance(rollout, Rollout):
            returned(self, method, rollout, Rollout)
        costs, played = found.costs, len(found.trajectory)
        numbers = isinstance(costs, np.ndarray) and costs.dtype.kind in "fiu"
        if played > steps or not numbers or costs.shape != (played,):
            raise InputError(
                f"{type(self).__name__}.{method} returns a trajectory of {played} steps with "
                f"{np.size(costs)} costs for {steps} steps: it must return at most as many steps "
                "as it is given, and an array with one cost for each step."
            )
        if not np.isfinite(costs).all():
            step = int(np.flatnonzero(~np.isfinite(costs))[0])
            raise InputError(
                f"{type(self).__name__}.{method} gives the cost {costs[step]} at step {step} under "
                f"{_policy_text(found.trajectory)}: each cost must be a finite number."
            )
        return found

    @abstractmethod
    def restart_time(self, seed: int = 0) -> float:
        """Bound on the expected steps back to s_1 under the restart policy [D_Θ]."""

    @abstractmethod
    def costs(self, policies: Array, steps: int, batches: int, seed: int) -> Estimates:
        """Batch sums of the true cost of policies, an array (n, d), on common noise."""

    def hindsight(self, policies: Array, steps: int) -> Array:
        """Average true cost of policies on the noise of this run's first steps."""
        averages = np.empty(len(policies))
        for number, policy in enumerate(policies):
            system = self.problem.simulator(self.truth, self.seed)
            rollout = system._play(tuple(map(float, policy)), steps)
            averages[number] = rollout.costs.sum() / (rollout.elapsed or steps)
        return averages

    def state_dict(self) -> State:
        """The full state, as JSON values and arrays."""
        return sealed({"problem": self.problem.describe(), **self._whole()})

    def load_state_dict(self, state: State) -> None:
        """Resume from a saved state of the same problem; another or a damaged one is refused."""
        state = unsealed(state)
        if state.get("problem") != self.problem.describe():
            raise InputError("Cannot load the state of a simulator of another problem.")
        before = self._whole()
        try:
            self._load_whole(state)
        except Exception:  # a damaged state may raise anything
            self._load_whole(before)
            raise InputError(DAMAGED) from None

    def _whole(self) -> State:
        # Further copies, and costs in hindsight, use the seed; it may have more digits than a
        # number in JSON.
        return {"system": self._state(), "seed": str(self.seed)}

    def _load_whole(self, state: State) -> None:
        self._load(state["system"])
        self.seed = int(state["seed"])

    def _state(self) -> State:
        """The state of the system: all that ``saved`` declares."""
        return gather(self)

    def _load(self, state: State) -> None:
        restore(self, state)


def _policy_text(trajectory: Trajectory) -> str:
    played = trajectory.played
    return str(played) if isinstance(played, Controller) else f"policy {show_policy(played)}"


def class_of(family: PolicyFamily, system: Any) -> PolicyClass:
    """All policies of a family for a system."""
    found = family.policy_class(system)
    return cast(PolicyClass, returned(family, "policy_class", found, PolicyClass))


def example_of(kind: type[Problem]) -> tuple[Problem, Any]:
    """The example of a kind of problem, and its truth."""
    return examples_of(kind, "example")[0]


def examples_of(kind: type[Problem], method: str = "examples") -> tuple[tuple[Problem, Any], ...]:
    """All examples of a kind of problem, each with its truth."""
    with blaming(f"{called(kind)}.{method} fails", f"it returns {_EXAMPLES[method]}"):
        found: Any = getattr(kind, method)()
    pairs = (found,) if method == "example" else found
    if not isinstance(pairs, tuple) or not all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], Problem)
        for pair in pairs
    ):
        raise InputError(
            f"{called(kind)}.{method} returns {shown(found)}: it must return {_EXAMPLES[method]}."
        )
    return pairs


_EXAMPLES = {
    "example": "a problem and its truth",
    "examples": "a tuple of problems, each with its truth",
}


def as_policies(policies: Array) -> Array:
    """Policies as an array (n, d)."""
    try:
        array = real_numbers(policies)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(())
    if array.ndim not in (1, 2) or not np.isfinite(array).all():
        raise InputError(
            f"The policies are {shown(policies)}: give rows of finite numbers, one for each "
            "parameter."
        )
    return array[:, None] if array.ndim == 1 else array
