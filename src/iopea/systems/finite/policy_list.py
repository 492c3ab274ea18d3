"""Policies of a finite problem: a list of them, or all maps from states to actions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BeforeValidator

from iopea.errors import InputError, ModelMismatchError, shown
from iopea.information_order import InformationOrder
from iopea.model import holds
from iopea.policies import Box, Finite, PolicyClass
from iopea.problems.base import Constants, Evaluator, PolicyFamily, Problem
from iopea.systems.finite.estimators import CountedModel, OwnCosts
from iopea.systems.finite.outcomes import Outcomes, outcomes_of
from iopea.systems.finite.system import FiniteSystem
from iopea.types import Array, Claim, Mask, Policy, Precision, Trajectory, show_policy

#: Most policies, and most policies whose data is kept separately for a model.
MOST_POLICIES, MOST_APART = 2**16, 2**11


def _rows(value: Any) -> Any:
    """Arrays as nested lists, which is how files write them."""
    rows = value.tolist() if isinstance(value, np.ndarray) else value
    if holds(rows, (bool, np.bool_, str, bytes)):
        raise ValueError(f"must be rows of whole numbers, not {shown(value)}.")
    return rows


class Listing:
    """The numbered policies of a finite problem, and which ones data is informative about."""

    def __init__(self, system: FiniteSystem, policies: PolicyClass) -> None:
        self.states, self.actions = system.states, system.actions
        self._order, self._every = system.information_order, system.sees_every_action
        self._columns = system.columns
        self._policies = policies

    @cached_property
    def _numbers(self) -> dict[Policy, int]:
        """The number of each policy."""
        return {row: n for n, row in enumerate(map(tuple, self._policies.net(1.0).tolist()))}

    def number(self, policy: ArrayLike) -> int:
        """The number of a policy of the class."""
        row = tuple(np.rint(np.atleast_1d(policy)).tolist())
        if row not in self._numbers:
            raise InputError(f"Policy {show_policy(row)} is not one of this problem.")
        return self._numbers[row]

    def source(self, policy: Policy) -> int:
        """The source under which data of this policy is counted; one under full feedback."""
        return 0 if self._every else self.number(policy)

    def policy(self, source: int) -> Policy:
        """The policy whose data is counted under a source, where data is kept apart."""
        return list(self._numbers)[source]

    def informed(self, sources: Sequence[int], policies: Array) -> Mask:
        """Which policies the data of each source is informative about, an array (sources, n)."""
        if self._every:
            return np.ones((len(sources), len(policies)), dtype=np.bool_)
        numbers = np.array([self.number(policy) for policy in policies])
        if self._order == "trivial":
            return np.asarray(np.array(sources)[:, None] == numbers)
        return np.array([self._order[source] for source in sources], dtype=np.bool_)[:, numbers]

    @property
    def claimed(self) -> bool:
        """Whether somebody listed who informs whom."""
        return not isinstance(self._order, str)

    def outcomes(self, trajectory: Trajectory) -> Outcomes:
        """The columns of a trajectory as arrays of states, actions, costs and next states."""
        return outcomes_of(trajectory, self._columns, self.actions if self._every else None)


class PolicyList(PolicyFamily):
    """A list of policies, each an action for every state; all maps if none are listed.

    Parameters
    ----------
    policies : list of lists, optional. The action of each policy in each state; all A^S policies
        if not given.
    estimator : ``"own"`` or ``"model"``; for the trivial order ``"own"`` unless given.
    """

    kind: ClassVar[str] = "list"
    made_for: ClassVar[type[Any]] = FiniteSystem

    policies: Annotated[tuple[tuple[int, ...], ...] | None, BeforeValidator(_rows)] = None
    estimator: Literal["own", "model"] | None = None

    def check_system(self, system: FiniteSystem) -> None:
        """Refuse policies that don't fit the states, and orders that don't fit the policies."""
        self._check_policies(system)
        order, n = system.information_order, self.policy_class(system).count(1.0)
        if not isinstance(order, str) and len(order) != n:
            raise InputError(f"The matrix is one of {len(order)} policies, but there are {n}.")
        if self.estimator == "own" and order != "trivial":
            raise InputError(
                "The estimator 'own' judges a policy by its own costs alone: leave out the "
                "information order, or use 'model'."
            )
        if self.plug_in(system) and order != "full-feedback" and n > MOST_APART:
            raise InputError(
                f"The estimator 'model' keeps the data of at most {MOST_APART} policies apart, "
                f"not of {n}: list fewer policies, or use 'own'."
            )

    def _check_policies(self, system: FiniteSystem) -> None:
        if self.policies is None:
            if system.states * math.log2(system.actions) > math.log2(MOST_POLICIES):
                raise InputError(
                    f"There are {system.actions}^{system.states} policies, more than "
                    f"{MOST_POLICIES}: list some of them as policies."
                )
            return
        if not 0 < len(self.policies) <= MOST_POLICIES:
            raise InputError(
                f"1 to {MOST_POLICIES} policies can be listed, not {len(self.policies)}."
            )
        for number, policy in enumerate(self.policies):
            if len(policy) != system.states:
                raise InputError(
                    f"Policy {number} has {len(policy)} actions, but there are {system.states} "
                    "states."
                )
            if not all(0 <= action < system.actions for action in policy):
                raise InputError(
                    f"Policy {number} is {shown(list(policy))}: actions are 0 to "
                    f"{system.actions - 1}."
                )

    def plays_every_map(self, system: FiniteSystem) -> bool:
        """Whether all maps from states to actions are policies."""
        return self.policies is None

    def policy_class(self, system: FiniteSystem) -> PolicyClass:
        """The policies that were listed, or all."""
        if self.policies is not None:
            return Finite(self.policies)
        high = [float(system.actions - 1)] * system.states
        labels = tuple(f"action in state {state}" for state in range(system.states))
        return Box([0.0] * system.states, high, step=1.0, labels=labels)

    @staticmethod
    def order(state: Any, parameters: Any, signal: Any) -> Any:
        """The action in the state."""
        return parameters[int(state[0])]

    def actions_by_state(self, system: FiniteSystem, policies: Array, states: int) -> Array:
        """The policies themselves."""
        return policies

    def plug_in(self, system: FiniteSystem) -> bool:
        """Whether policies are estimated by a model."""
        return self.estimator == "model" or system.information_order != "trivial"

    def claim(self, system: FiniteSystem) -> Claim:
        """Own costs are observed exactly; those of a model only in distribution."""
        return "distributional" if self.plug_in(system) else "sample-path"

    def constants(self, system: FiniteSystem) -> Constants:
        """H as given or assumed, and L_Θ = 0 for a finite class.

        A transition that was never observed may change the cost of a policy by H times its
        probability, so elimination is valid only if H is.
        """
        low, high = system.cost_bounds
        span = system.span or system.states * (high - low)
        return Constants(
            span=span,
            lipschitz=0.0,
            bound=float(max(system.actions - 1, 1)),
            dimension=system.states,
            cost_low=low,
            cost_high=high,
            sensitivity=np.inf,
            unseen=span,
        )

    def restart(self, system: FiniteSystem) -> Policy:
        """The first policy, until it reaches state 0."""
        return tuple(map(float, self.policy_class(system).net(1.0)[0]))

    def order_on(self, system: FiniteSystem, policies: Array) -> InformationOrder:
        """The order that was given, on these policies."""
        if system.information_order == "trivial":
            return InformationOrder.trivial(len(policies))
        if system.information_order == "full-feedback":
            return InformationOrder.full_feedback(len(policies))
        known = listing(system, self)
        numbers = [known.number(policy) for policy in policies]
        return InformationOrder.from_matrix(system.information_order).restrict(numbers)

    def evaluator(
        self, problem: Problem, policies: Array, threads: int = 1, precision: Precision = "float64"
    ) -> Evaluator:
        """Own costs or an estimated model; neither needs threads or single precision."""
        kind = CountedModel if self.plug_in(problem.system) else OwnCosts
        return kind(listing(problem.system, self), policies)

    def check(self, system: FiniteSystem, trajectory: Trajectory) -> None:
        """Refuse policies that are not listed, and jumps between steps."""
        known = listing(system, self)
        known.number(trajectory.policy)
        system.check(trajectory)
        seen = known.outcomes(trajectory)
        happened = seen.following[np.arange(len(trajectory)), seen.taken]
        jumps = np.flatnonzero(happened[:-1] != seen.states[1:])
        if jumps.size:
            step = int(jumps[0])
            raise ModelMismatchError(
                f"The state is {seen.states[step + 1]} at step {step + 1}, but step {step} has led "
                f"to state {happened[step]}."
            )


@lru_cache(maxsize=64)
def listing(system: FiniteSystem, family: PolicyList) -> Listing:
    """The numbered policies of a family, cached."""
    return Listing(system, family.policy_class(system))
