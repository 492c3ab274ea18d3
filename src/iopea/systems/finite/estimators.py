"""Evaluators of finite problems: by a policy's own costs, or by an estimated model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from iopea.problems.base import Evaluator, PlugInEvaluator
from iopea.problems.batches import Batches, GroupedBatches
from iopea.state import Part, Stateful, array, by_number, indices, parts
from iopea.systems.finite import kernel as kernels
from iopea.systems.finite.outcomes import Outcomes
from iopea.types import Array, Estimates, Indices, Mask, Policy, Trajectory, show_policy

#: Most batches of counts, over all sources, and least number of batches of each source.
MOST_ROWS, FEWEST_ROWS = 256, 8
#: Memories for which a chain must stay in a state it entered once, to count as absorbed there.
PATIENCE = 400
#: Policies whose chains are analysed together.
_AT_A_TIME = 1024


class SeenChain(Stateful):
    """Transition counts of a policy in its own steps.

    Between two stretches of its own steps other policies were played. These count as one
    transition, so that all transitions together are one path.
    """

    saved = parts(moves=array, jumps=array, first=int, last=int)

    def __init__(self, states: int) -> None:
        self._moves = np.zeros((states, states))
        self._jumps = np.zeros((states, states))
        self._first = self._last = -1

    def add(self, states: Indices, following: Indices) -> None:
        """Add consecutive steps."""
        if self._first < 0:
            self._first = int(states[0])
        elif self._last != states[0]:
            self._jumps[self._last, states[0]] += 1
        np.add.at(self._moves, (states, following), 1)
        self._last = int(following[-1])

    @property
    def seen(self) -> Mask:
        """States that were visited."""
        return np.asarray(self._moves.any(axis=0) | self._moves.any(axis=1))

    @property
    def memory(self) -> float:
        """Estimated memory of the chain in steps; infinite if it never returned to a state."""
        if self._first < 0 or self.seen.sum() < 2:
            return math.inf
        counts = self._moves + self._jumps
        # If other policies brought it back, several of its own paths were observed.
        returned = kernels.returns(counts)
        counts[self._last, self._first] += 1  # closes the path
        seen = np.flatnonzero(counts.sum(axis=1))
        chain = counts[np.ix_(seen, seen)]
        memory = float(kernels.chain_memory(chain / chain.sum(axis=1, keepdims=True)))
        return memory if returned or self._moves.sum() >= PATIENCE * memory else math.inf


def _long_batches(estimates: Estimates, memory: Array) -> Estimates:
    """The same with neighbouring batches of each policy joined until they are as long as it
    remembers: shorter ones depend on each other.
    """
    sums = estimates.sums.copy()
    sizes = np.array(np.broadcast_to(estimates.sizes_by_policy, sums.shape))
    for j in np.flatnonzero(np.isfinite(memory)):
        length = sizes[:, j].max(initial=1.0)
        number = math.ceil(memory[j] / max(length, 1.0))
        if number > 1:
            first = np.arange(0, len(sums), number)
            for values in (sums, sizes):
                joined = np.add.reduceat(values[:, j], first)
                values[:, j] = 0.0
                values[: joined.size, j] = joined
    return replace(estimates, sums=sums, sizes=sizes)


class Policies(Protocol):
    """The evaluators' view of a finite problem: its size, and policies by number."""

    states: int
    actions: int

    def outcomes(self, trajectory: Trajectory) -> Outcomes:
        """The outcomes that a trajectory reveals, as arrays."""

    def source(self, policy: Policy) -> int:
        """The source under which data of this policy is counted."""

    def policy(self, source: int) -> Policy:
        """The policy whose data is counted under a source."""

    def informed(self, sources: Sequence[int], policies: Array) -> Mask:
        """Which policies the data of each source is informative about, an array (sources, n)."""

    def number(self, policy: ArrayLike) -> int:
        """The number of a policy."""

    @property
    def claimed(self) -> bool:
        """Whether somebody listed who informs whom."""


class OwnCosts(Evaluator):
    """Estimates each policy only from the costs observed while it was played."""

    saved = parts(state=int, batches=Part, alive=indices, chains=by_number(lambda: SeenChain(0)))

    def __init__(self, problem: Policies, policies: Array) -> None:
        self._problem = problem
        self._columns = {row: number for number, row in enumerate(map(tuple, policies.tolist()))}
        self._batches = GroupedBatches(np.arange(len(policies)), len(policies))
        self._alive = np.arange(len(policies))
        self._chains: dict[int, SeenChain] = {}
        self._state = 0

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed steps, all of which count."""
        seen = self._problem.outcomes(trajectory)
        self._state = seen.last(self._state)
        column = self._columns.get(tuple(np.rint(trajectory.policy).tolist()))
        if not evaluate or column is None:
            return 0
        if len(trajectory):
            chain = self._chains.setdefault(column, SeenChain(self._problem.states))
            chain.add(seen.states, seen.following[:, 0])
        self._batches.add(column, seen.costs)
        return len(trajectory)

    @property
    def at_start(self) -> bool:
        """Whether the system is in state 0."""
        return self._state == 0

    @property
    def note(self) -> str | None:
        """That some states were never seen."""
        seen = np.zeros(self._problem.states, dtype=np.bool_)
        for chain in self._chains.values():
            seen |= chain.seen
        return _unseen(seen)

    def estimates(self) -> Estimates:
        """Costs by batch; each policy has its own batches."""
        estimates = self._batches.estimates()
        if self._problem.states == 1:
            return estimates
        memories = {column: chain.memory for column, chain in self._chains.items()}
        memory = np.array([memories.get(int(column), math.inf) for column in self._alive])
        return _long_batches(replace(estimates, memory=memory), memory)

    def forget(self) -> None:
        """Drop all sums."""
        self._batches.clear()
        self._chains = {}

    def keep(self, mask: Mask) -> None:
        """Keep only these policies."""
        self._batches.keep(mask)
        self._alive = self._alive[mask]
        alive = set(self._alive.tolist())
        self._chains = {key: chain for key, chain in self._chains.items() if key in alive}


class CountedModel(PlugInEvaluator):
    """Estimates a model of costs and transitions, and solves policies under it.

    For each source of data there are batches of counts. A source is a policy that was played;
    under full feedback there is one source. A policy is estimated from the sources that inform it.
    """

    saved = parts(state=int, policies=array, sources=by_number(lambda: Batches(0)))

    def __init__(self, problem: Policies, policies: Array) -> None:
        self._problem = problem
        self._policies = np.array(policies, dtype=np.float64)
        self._sources: dict[int, Batches] = {}
        self._state = 0

    @property
    def _moves(self) -> int:
        """Number of transition counts (S, A, S); the costs (S, A) follow them."""
        return self._problem.states * self._problem.actions * self._problem.states

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed steps, all of which count."""
        seen = self._problem.outcomes(trajectory)
        self._state = seen.last(self._state)
        if not evaluate or not len(trajectory):
            return 0
        pairs = seen.states[:, None] * self._problem.actions + seen.actions
        cells = np.hstack([pairs * self._problem.states + seen.following, self._moves + pairs])
        amounts = np.hstack([np.ones(seen.costs.shape), seen.costs])
        source = self._problem.source(trajectory.policy)
        if source not in self._sources:
            width = self._moves + self._problem.states * self._problem.actions
            self._sources[source] = Batches(width)
        _count(self._sources[source], cells, amounts)
        return len(trajectory)

    @property
    def at_start(self) -> bool:
        """Whether the system is in state 0."""
        return self._state == 0

    @property
    def note(self) -> str | None:
        """That some states were never seen."""
        if not self._sources:
            return None
        moves = self._seen()[0]
        return _unseen(np.asarray(moves.any(axis=(0, 2, 3)) | moves.any(axis=(0, 1, 2))))

    @property
    def contradiction(self) -> str | None:
        """That the data of a policy can never give the cost of one that it is claimed to inform."""
        if not self._problem.claimed or not self._sources:
            return None
        moves, _, _, source = self._seen()
        told = np.zeros((len(self._sources), *moves.shape[1:]))
        np.add.at(told, source, moves)
        informed = self._problem.informed(list(self._sources), self._policies)
        for policy, judging in zip(self._policies, informed.T, strict=True):
            seen = told[judging]
            missing = _never_taken(seen.sum(axis=0), np.rint(policy).astype(np.intp))
            if missing is None:
                continue
            state, action = missing
            judge = int(np.flatnonzero(judging)[seen[:, state].any(axis=(1, 2)).argmax()])
            played = self._problem.policy(list(self._sources)[judge])
            return (
                f"Policy ({show_policy(played)}) is claimed to inform policy "
                f"({show_policy(tuple(policy))}), but never takes its action {action} in state "
                f"{state}, which that one reaches: the information order is false. "
                "`iopea check-order` tests an order."
            )
        return None

    def estimates(self) -> Estimates:
        """Linearised costs by batch, including those in progress."""
        return self.estimates_of(self._policies)

    def optimum(self) -> Policy | None:
        """The estimated best of the remaining policies."""
        means = self.estimates().mean
        if not np.isfinite(means).any():
            return None
        return tuple(map(float, self._policies[np.nanargmin(means)]))

    def estimates_of(self, policies: Array) -> Estimates:
        """Linearised costs of any policies of the class, an array (n, S)."""
        if not self._sources:
            return Estimates(np.empty((0, len(policies))), np.empty(0))
        actions: Indices = np.rint(policies).astype(np.intp)
        moves, costs, sizes, source = self._seen()
        sums, told = np.zeros((2, len(sizes), len(actions)))
        effective, memory = np.zeros((2, len(actions)))
        # Policies that are estimated from the same data share a model.
        informed = self._problem.informed(list(self._sources), policies)
        patterns, pattern = np.unique(informed, axis=1, return_inverse=True)
        for number, judging in enumerate(patterns.T):
            rows, columns = np.flatnonzero(judging[source]), np.flatnonzero(pattern == number)
            data, some = (moves[rows], costs[rows]), actions[columns]
            model = kernels.solve_policies(some, *(each.sum(axis=0) for each in data))
            cells = np.ix_(rows, columns)
            sums[cells] = kernels.linearised_sums(some, *data, sizes[rows], model)
            told[cells] = sizes[rows, None] * model.known
            seen = moves[rows].sum(axis=0)
            effective[columns] = _effective_steps(some, seen.sum(axis=2), model.law)
            memory[columns] = _memory(some, seen, model) if self._problem.states > 1 else 0.0
        if len(self._sources) > 1 or not told.all():
            effective = np.minimum(effective, told.sum(axis=0))
            return Estimates(sums, told, effective_steps=effective, memory=memory)
        unknowns = np.count_nonzero(moves.any(axis=0)) + np.count_nonzero(moves.any(axis=(0, 3)))
        effective = np.minimum(effective, sizes.sum())
        return Estimates(sums, sizes, rank=int(unknowns), effective_steps=effective, memory=memory)

    def _seen(self) -> tuple[Array, Array, Array, Indices]:
        """Moves (rows, S, A, S), costs (rows, S, A), steps and source of each batch."""
        states, actions = self._problem.states, self._problem.actions
        counts, sizes = [], []
        most = max(FEWEST_ROWS, MOST_ROWS // len(self._sources))
        for batches in self._sources.values():
            rows, steps = batches.costs, np.full(len(batches.costs), float(batches.size))
            if batches.filled:
                rows, steps = np.vstack([rows, batches.running]), np.append(steps, batches.filled)
            first = np.arange(0, len(rows), -(-len(rows) // most))
            counts.append(np.add.reduceat(rows, first))
            sizes.append(np.add.reduceat(steps, first))
        source = np.repeat(np.arange(len(self._sources)), [len(each) for each in sizes])
        moves, costs = np.split(np.concatenate(counts), [self._moves], axis=1)
        return (
            moves.reshape(-1, states, actions, states),
            costs.reshape(-1, states, actions),
            np.concatenate(sizes),
            source,
        )

    def forget(self) -> None:
        """Drop all sums."""
        self._sources = {}

    def keep(self, mask: Mask) -> None:
        """Keep only these policies; the data stays."""
        self._policies = self._policies[mask]


def _never_taken(moves: Array, actions: Indices) -> tuple[int, int] | None:
    """A state that a policy reaches, and its action there, where only others were taken.

    From transition counts (S, A, S) of steps of policies that are claimed to inform it.
    """
    known = moves[np.arange(len(actions)), actions] > 0
    reached = np.zeros(len(actions), dtype=np.bool_)
    reached[0] = True
    while (more := reached | known[reached].any(axis=0)).sum() > reached.sum():
        reached = more
    found = np.flatnonzero(reached & moves.any(axis=(1, 2)) & ~known.any(axis=1))
    return (int(found[0]), int(actions[found[0]])) if found.size else None


def _unseen(seen: Mask) -> str | None:
    """Warning if some states were never visited, once others were."""
    never = int((~seen).sum())
    if not never or not seen.any():
        return None
    return (
        f"{never:,} of {seen.size:,} states were never seen. If they are reached after longer than "
        "the data spans, nothing here allows for it: declare a memory that does."
    )


def _effective_steps(actions: Indices, seen: Array, law: Array) -> Array:
    """Effective sample size of each policy.

    In n steps of its own a policy takes its action in state s about n m(s) times. So it is the
    least ratio of the observed count of that action to m(s), over all states.
    """
    visits = seen[np.arange(actions.shape[1]), actions]
    needed = np.full(law.shape, np.inf)
    np.divide(visits, law, out=needed, where=law > 0)
    return np.asarray(needed.min(axis=1))


def _memory(actions: Indices, moves: Array, model: kernels.Solution) -> Array:
    """Memory of the system under each policy in the estimated model; infinite where unknown.

    As :func:`iopea.systems.finite.kernel.chain_memory`, on all visited states: a chain may not have
    returned to some of them yet because that takes long.
    """
    memory = np.full(len(actions), math.inf)
    known = np.flatnonzero(model.known)
    for first in range(0, known.size, _AT_A_TIME):
        some = known[first : first + _AT_A_TIME]
        moved = moves[np.arange(actions.shape[1]), actions[some]]
        memory[some] = _memory_of(moved, model.law[some] > 0)
    return memory


def _memory_of(moved: Array, recurrent: Mask) -> Array:
    """Memory from transition counts (n, S, S), and the states (n, S) that chains return to."""
    policies, states = recurrent.shape
    visits = moved.sum(axis=2)
    # From a state without observations it goes to state 0 at once.
    chains = np.where(visits[:, :, None] > 0, moved, np.eye(states)[0])
    memory = kernels.chain_memory(chains / np.maximum(visits, 1.0)[:, :, None])
    # A chain that stays in one state must have entered it twice, or have stayed for long.
    row, stays = np.arange(policies), recurrent.argmax(axis=1)
    entered = moved[row, :, stays].sum(axis=1) - moved[row, stays, stays]
    returned = (recurrent.sum(axis=1) > 1) | (entered > 1)
    settled = (entered > 0) & (visits[row, stays] >= PATIENCE * memory)
    return np.where(returned | settled, memory, math.inf)


def _count(batches: Batches, cells: Indices, amounts: Array) -> None:
    """Add steps, an array (steps, cells) each, to the batches."""
    while len(cells):
        room = batches.size - batches.filled
        # Added one by one, so that rounding does not depend on how the steps were split.
        np.add.at(batches.running, cells[:room], amounts[:room])
        full = len(cells) >= room
        batches.add(
            min(room, len(cells)), batches.running[None].copy() if full else np.empty((0, 0))
        )
        if full:
            batches.running[:] = 0.0
        cells, amounts = cells[room:], amounts[room:]
