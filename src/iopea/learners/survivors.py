"""The surviving policies: a list, or a set that is too large to list."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.random import Generator

from iopea.elimination.critical import Look
from iopea.elimination.rule import Rule
from iopea.errors import InputError
from iopea.problems.base import Evaluator, PlugInEvaluator, Problem, sound_estimates
from iopea.state import Part, Stateful, array, indices, mask, numbers, optional, parts, record
from iopea.types import Array, Estimates, Mask, Policy, cost_ranks


class Pool(Stateful, ABC):
    """The surviving set Θ_k with the evaluator of its policies."""

    saved = parts(means=array, evaluator=Part)
    evaluator: Evaluator

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of policies at the beginning [|Θ_1|]."""

    @property
    @abstractmethod
    def survivors(self) -> int | None:
        """Number of policies that may still be best; None where they can't be counted."""

    @property
    @abstractmethod
    def surviving(self) -> Array:
        """The policies that may still be best, an array (n, d)."""

    @property
    @abstractmethod
    def means(self) -> Array:
        """Their estimated costs at the end of the last epoch; NaN where there is no estimate."""

    @abstractmethod
    def maximal(self, rng: Generator | None = None) -> list[Policy]:
        """The policies to play in the next epoch.

        Among policies that inform each other, the estimated best is chosen; with ``rng``, a random
        one.
        """

    @property
    @abstractmethod
    def width(self) -> int:
        """Most policies that are played in an epoch [w]."""

    @abstractmethod
    def judge(self, rule: Rule, epoch: int, doubted: bool = False) -> float:
        """Eliminate policies by the rule [Θ_{k+1}]; return the threshold.

        Nothing is eliminated if the assumptions are ``doubted``.
        """

    @abstractmethod
    def best(self, now: bool) -> Policy | None:
        """The estimated best policy, from all data (``now``) or as of the end of the last epoch."""

    def holds(self, policy: Policy) -> bool:
        """Whether the listed policy nearest to this one may still be best."""
        return True

    def refined(self, policy: Policy) -> Policy:
        """A better policy near this one, where the list is coarse."""
        return policy

    @abstractmethod
    def survives(self, policy: Policy, rule: Rule, epoch: int) -> bool:
        """Whether a policy may still be best; if the class is not listed, tested on all data."""

    @abstractmethod
    def estimates(self) -> Estimates:
        """Estimates of the surviving policies from the data so far."""


#: Factor by which the net is refined around the estimated best policy of a thinned net, until it
#: has about this many points along its longest side.
_FINER, _FINEST = 4, 1000


#: Survivors up to which the evaluator is asked for more precise means.
_FEW = 64


class Listed(Pool):
    """Surviving policies of a net, stored by index.

    Where the net had to be thinned, ``best`` also searches between its points, as far as the
    evaluator can estimate policies there. Everything else concerns the net alone.
    """

    saved = parts(
        alive=indices,
        look=optional(record(Look, steps=array, probabilities=numbers)),
        starved=bool,
        provisional=optional(mask),
    )

    def __init__(
        self,
        problem: Problem,
        policies: Array,
        evaluator: Evaluator,
        thinned_to: float | None = None,
    ) -> None:
        self.policies = policies
        self._class, self._spacing = problem.policy_class, thinned_to
        self.order = problem.order(policies)
        self.evaluator = evaluator
        self._preference = problem.preference(policies)
        self._alive = np.arange(len(policies), dtype=np.intp)
        self._means = np.full(len(policies), np.nan)
        self._look: Look | None = None
        self._starved = False
        self._provisional: Mask | None = None
        self._found: tuple[Estimates, Policy | None] | None = None

    @property
    def count(self) -> int:
        return len(self.policies)

    @property
    def survivors(self) -> int:
        return len(self._alive)

    @property
    def width(self) -> int:
        return 1 if self.evaluator.sees_beyond else self.order.width()

    @property
    def surviving(self) -> Array:
        return self.policies[self._alive]

    @property
    def means(self) -> Array:
        return self._means

    def maximal(self, rng: Generator | None = None) -> list[Policy]:
        prefer = cost_ranks(self._means)
        unknown = np.isnan(self._means)
        if rng is not None:
            prefer = rng.random(self.survivors)
        elif self._preference is not None and (self._starved or unknown.any()):
            prefer = self._preference[self._alive]
        among = self._may_play(unknown)
        constant = self.evaluator.constant_orders
        if constant is not None and not unknown[among].any():
            # More would nearly fill the shop up.
            among &= constant <= constant[among][np.argmin(prefer[among])]
        chosen = self.order.maximal(self._alive[among], prefer=prefer[among])
        if self.evaluator.sees_beyond and chosen.size > 1:
            # One of them is enough: it tells of those that it does not inform as well.
            ranks = prefer[np.searchsorted(self._alive, chosen)]
            first = int(np.nanargmin(ranks)) if not np.isnan(ranks).all() else chosen.size - 1
            chosen = chosen[[first]]
        return [self._policy(i) for i in chosen]

    def _may_play(self, unknown: Mask) -> Mask:
        """Survivors among which to choose.

        If the evaluator sees beyond what the played policy informs, and there is no preference,
        those without an estimate come first.
        """
        among = np.ones(self.survivors, dtype=np.bool_)
        if self._provisional is not None:
            among = self._provisional.copy()
        stable = self.evaluator.may_play
        if stable is not None and (among & stable).any():
            among = among & stable
        if self.evaluator.sees_beyond and self._preference is None and (among & unknown).any():
            among = among & unknown
        return among

    def judge(self, rule: Rule, epoch: int, doubted: bool = False) -> float:
        estimates = self.estimates()
        if doubted or self.evaluator.contradiction is not None:
            self._means = estimates.mean
            return float("inf")
        order = self.order.restrict(self._alive)
        outcome = rule.test(estimates, self.surviving, epoch, order, self._look)
        self._look = None if outcome.look is None else outcome.look.kept(outcome.keep)
        self._starved = outcome.starved
        self._provisional = outcome.provisional if self.evaluator.sees_beyond else None
        self._means = estimates.mean[outcome.keep]
        self._alive = self._alive[outcome.keep]
        self.evaluator.keep(outcome.keep)
        return float(outcome.threshold)

    def best(self, now: bool) -> Policy | None:
        if not now:
            return self._best_of(self._means)
        estimates = self.estimates()
        # Evaluators that keep their estimates give the same object until there is new data.
        if self._found is None or self._found[0] is not estimates:
            self._found = estimates, self._best_now(estimates.mean)
        return self._found[1]

    def _best_now(self, means: Array) -> Policy | None:
        if self.survivors <= _FEW:
            # Where few are left, their means are estimated with less noise.
            finer = self.evaluator.means_of(self.surviving)
            means = means if finer is None else np.where(np.isnan(means), np.nan, finer)
        best = self._best_of(means)
        return best if best is None else self.refined(best)

    def _best_of(self, means: Array) -> Policy | None:
        if not np.isfinite(means).any():
            return None
        return self._policy(self._alive[np.nanargmin(cost_ranks(means))])

    def _refined(self, best: Policy) -> Policy:
        """The estimated best policy of a finer net between this point and its neighbours."""
        spacing = self._spacing or 0.0
        while spacing > self._class.extent / _FINEST:
            point = np.array([best])
            candidates = np.vstack([point, self._near(point, spacing, spacing / _FINER)])
            means = self.evaluator.means_of(candidates)
            if means is None or not np.isfinite(means).any():
                return best
            best = tuple(map(float, candidates[np.nanargmin(cost_ranks(means))]))
            spacing /= _FINER
        return best

    def holds(self, policy: Policy) -> bool:
        apart = (np.abs(self.policies - np.array(policy)) / self._class.scales).max(axis=1)
        return bool((self._alive == apart.argmin()).any())

    def refined(self, policy: Policy) -> Policy:
        return policy if self._spacing is None else self._refined(policy)

    def _near(self, point: Array, reach: float, radius: float) -> Array:
        """Policies of a finer net that are closer to a point than its neighbours."""
        points = self._class.near(point, reach, radius)
        apart = (np.abs(points - point) / self._class.scales).max(axis=1)
        return np.asarray(points[apart < reach])

    def survives(self, policy: Policy, rule: Rule, epoch: int) -> bool:
        return self.holds(policy)

    def estimates(self) -> Estimates:
        found = self.evaluator.estimates()
        return sound_estimates(self.evaluator, "estimates", found, self.survivors)

    def _policy(self, index: np.intp) -> Policy:
        return tuple(map(float, self.policies[index]))


class Implicit(Pool):
    """A class too large to list, all of whose policies inform each other.

    The estimated best policy is computed, not searched for. A policy survives if the rule would
    keep it when compared with that one. To report progress, the policies that differ from the best
    one in a single parameter are tested after each epoch.
    """

    saved = parts(last=numbers, near=array, eliminated=bool)

    def __init__(self, problem: Problem, evaluator: Evaluator) -> None:
        if not isinstance(evaluator, PlugInEvaluator):
            raise InputError(f"The policies of this {problem.kind} problem are too many to list.")
        self.evaluator: PlugInEvaluator = evaluator
        self._class = problem.policy_class
        self._last = tuple(map(float, problem.restart_policy))
        self._near: Array = np.empty((0, self._class.dimension))
        self._means = np.empty(0)
        self._eliminated = False

    @property
    def count(self) -> int:
        return self._class.count(1.0)

    @property
    def survivors(self) -> int | None:
        """The number of all policies until one is eliminated, then None."""
        return None if self._eliminated else self.count

    @property
    def surviving(self) -> Array:
        """The best policy, and the survivors that differ from it in one parameter."""
        return self._near if len(self._near) else np.array([self._last])

    @property
    def means(self) -> Array:
        return self._means

    @property
    def width(self) -> int:
        return 1

    def maximal(self, rng: Generator | None = None) -> list[Policy]:
        return [self._last]

    def judge(self, rule: Rule, epoch: int, doubted: bool = False) -> float:
        best = self.evaluator.optimum()
        if best is None or doubted:
            return float("inf")
        self._last = best
        candidates = self._class.neighbours(np.array(best))
        estimates = self._estimates_of(candidates)
        outcome = rule.test(estimates, candidates, epoch)
        self._near = candidates[outcome.keep]
        self._means = estimates.mean[outcome.keep]
        self._eliminated |= not outcome.keep.all()
        return float(outcome.threshold)

    def best(self, now: bool) -> Policy | None:
        return self.evaluator.optimum() if now else self._last

    def survives(self, policy: Policy, rule: Rule, epoch: int) -> bool:
        best = self.evaluator.optimum()
        if epoch < 1 or best is None:
            return True
        both = np.array([best, policy], dtype=np.float64)
        outcome = rule.test(self._estimates_of(both), both, epoch)
        return bool(outcome.keep[1])

    def estimates(self) -> Estimates:
        return self._estimates_of(self.surviving)

    def _estimates_of(self, policies: Array) -> Estimates:
        found = self.evaluator.estimates_of(policies)
        return sound_estimates(self.evaluator, "estimates_of", found, len(policies))
