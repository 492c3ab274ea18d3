"""Compiled kernels of finite Markov decision processes: play, solve policies, linearise estimates.

Weights n(s, a, s') represent a model: probabilities, or counts of observations. Under a policy θ
only the rows (s, θ(s)) matter, for states reached from state 0. The gain g and the bias v solve
g + v(s) = c(s) + Σ P(s, s') v(s') with v(0) = 0; with the first column of I - P replaced by ones,
the inverse of that matrix gives both, and its first row is the stationary distribution m.

Estimates are linear in the observations, up to terms of second order: a step from s to s' at cost c
changes the gain of a policy that takes the same action by

    m(s)/n(s, a) (c + v(s') - v(s) - g),

where n(s, a) is the number of observations of the action there. Over all steps these sum to 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.sparse.csgraph import connected_components

from iopea.types import Array, Indices, Mask

#: Replaces 0 in a denominator.
_SMALLEST = 1e-300


class Solution(NamedTuple):
    """Policies solved under a model.

    Attributes
    ----------
    known : bool array (n,). Whether all states that a policy reaches have observations, and there
        is one recurrent class. The other values are valid only there.
    gain : array (n,). Average cost [g].
    bias : array (n, S). Zero in state 0 [v].
    law : array (n, S). Stationary probabilities [m].
    """

    known: Mask
    gain: Array
    bias: Array
    law: Array


@njit(cache=True, nogil=True)
def _reached(chain, start):  # type: ignore[no-untyped-def]
    """Which states are reached from ``start``, that one included."""
    states = chain.shape[0]
    reached = np.zeros(states, np.bool_)
    waiting = np.empty(states, np.int64)
    reached[start] = True
    waiting[0] = start
    count = 1
    while count:
        count -= 1
        state = waiting[count]
        for other in range(states):
            if chain[state, other] > 0 and not reached[other]:
                reached[other] = True
                waiting[count] = other
                count += 1
    return reached


@njit(cache=True, nogil=True)
def _one_class(chain, reached):  # type: ignore[no-untyped-def]
    """Whether some state is reached from all of these: there is one recurrent class."""
    common = reached.copy()
    for state in range(chain.shape[0]):
        if reached[state]:
            common &= _reached(chain, state)
    return common.any()


@njit(cache=True, nogil=True)
def _solve(policies, weights, costs, known, gain, bias, law):  # type: ignore[no-untyped-def]
    states = weights.shape[0]
    chain = np.empty((states, states))
    mean = np.empty(states)
    for j in range(policies.shape[0]):
        for s in range(states):
            row = weights[s, policies[j, s]]
            seen = max(row.sum(), _SMALLEST)
            chain[s] = row / seen
            mean[s] = costs[s, policies[j, s]] / seen
        reached = _reached(chain, 0)
        for s in range(states):
            if not reached[s]:
                # Never reached: let it return to state 0 at no cost.
                chain[s] = 0.0
                chain[s, 0] = 1.0
                mean[s] = 0.0
        known[j] = (chain.sum(axis=1) > 0).all() and _one_class(chain, reached)
        if known[j]:
            system = np.eye(states) - chain
            system[:, 0] = 1.0
            inverse = np.linalg.inv(system)
            bias[j] = inverse @ mean
            gain[j] = bias[j, 0]
            bias[j, 0] = 0.0
            law[j] = np.where(reached, np.maximum(inverse[0], 0.0), 0.0)


def solve_policies(policies: Indices, weights: Array, costs: Array) -> Solution:
    """Gain, bias and stationary distribution of policies from state 0 on.

    Parameters
    ----------
    policies : array (n, S). The action of each policy in each state.
    weights : array (S, A, S). Probabilities, or counts, of the next state.
    costs : array (S, A). Costs, added up with the same weights.

    Examples
    --------
    >>> weights = np.array([[[1.0, 1.0]], [[2.0, 0.0]]])
    >>> solve_policies(np.array([[0, 0]]), weights, np.array([[6.0], [0.0]])).gain.round(12)
    array([2.])
    """
    n, states = policies.shape
    solution = Solution(
        np.zeros(n, dtype=np.bool_),
        np.full(n, np.nan),
        np.zeros((n, states)),
        np.zeros((n, states)),
    )
    _solve(policies, np.ascontiguousarray(weights), costs, *solution)
    return solution


@njit(cache=True, nogil=True)
def _linearise(policies, moves, costs, sizes, known, gain, bias, law, sums):  # type: ignore[no-untyped-def]
    batches, states, actions = costs.shape
    seen = np.empty((batches, states, actions))
    for b in range(batches):
        for s in range(states):
            for a in range(actions):
                seen[b, s, a] = moves[b, s, a].sum()
    visits = seen.sum(axis=0)
    steps = sizes.sum()
    for j in range(policies.shape[0]):
        if not known[j]:
            continue
        for s in range(states):
            if law[j, s] > 0:
                a = policies[j, s]
                weight = steps * law[j, s] / visits[s, a]
                expected = gain[j] + bias[j, s]
                for b in range(batches):
                    if seen[b, s, a] > 0:
                        total = costs[b, s, a] - seen[b, s, a] * expected
                        for other in range(states):
                            total += moves[b, s, a, other] * bias[j, other]
                        sums[b, j] += weight * total
        for b in range(batches):
            sums[b, j] += sizes[b] * gain[j]


def linearised_sums(
    policies: Indices, moves: Array, costs: Array, sizes: Array, solution: Solution
) -> Array:
    """Batch sums whose mean is the gain, and whose variance gives its standard error.

    S_b = n_b g + N Σ_s m(s)/n(s, θ(s)) Σ_{t in b} (c + v(s') - v(s) - g), the inner sum over the
    steps of batch b from s under action θ(s).

    Parameters
    ----------
    policies : array (n, S).
    moves, costs : arrays (batches, S, A, S) and (batches, S, A). Transition counts and costs.
    sizes : array (batches,). Steps in each batch.
    solution : of these policies under the model of all batches together.

    Returns
    -------
    array (batches, n) : 0 for policies without an estimate.
    """
    sums = np.zeros((len(sizes), len(policies)))
    _linearise(policies, moves, costs, sizes, *solution, sums)
    return sums


@njit(cache=True, nogil=True)
def _drawn(cumulative, draw):  # type: ignore[no-untyped-def]
    """The first state whose cumulative probability lies above the draw."""
    state = 0
    while draw >= cumulative[state]:
        state += 1
    return state


@njit(cache=True, nogil=True)
def _roll_out(actions, cumulative, draws, state, until_start, states, following):  # type: ignore[no-untyped-def]
    for t in range(draws.shape[0]):
        if until_start and state == 0:
            return t, state
        states[t] = state
        for a in range(cumulative.shape[1]):
            following[t, a] = _drawn(cumulative[state, a], draws[t])
        state = following[t, actions[state]]
    return draws.shape[0], state


def roll_out(
    actions: Indices, cumulative: Array, draws: Array, state: int, until_start: bool = False
) -> tuple[int, Indices, Indices]:
    """Play a policy on the true chain.

    Parameters
    ----------
    actions : array (S,). The policy.
    cumulative : array (S, A, S). Cumulative probabilities of the next state, the last of them 1.
    draws : array (steps,). Uniform on [0, 1).
    state : int. Where to begin.
    until_start : bool. Stop as soon as the state is 0.

    Returns
    -------
    int : the state at the end.
    arrays (played,) and (played, A) : the state of each step, and where each action would have led.
    """
    states = np.empty(draws.size, dtype=np.intp)
    following = np.empty((draws.size, cumulative.shape[1]), dtype=np.intp)
    played, state = _roll_out(actions, cumulative, draws, state, until_start, states, following)
    return int(state), states[:played], following[:played]


def return_time(actions: Indices, transitions: Array) -> float:
    """Expected steps to state 0 under a policy, from the worst state; infinite if never.

    Only states that can be reached from state 0 by some actions count.

    >>> return_time(np.array([0, 0]), np.array([[[0.0, 1.0]], [[0.25, 0.75]]]))
    4.0
    """
    reached = _reached(transitions.max(axis=1), 0)
    chain = transitions[np.arange(len(actions)), actions]
    away = np.flatnonzero(reached)[1:]
    if not all(_reached(chain, state)[0] for state in away):
        return math.inf
    rest = np.eye(away.size) - chain[np.ix_(away, away)]
    return float(np.linalg.solve(rest, np.ones(away.size)).max(initial=0.0))


def returns(counts: Array) -> bool:
    """Whether a chain returned to a state that it had left, from transition counts (S, S).

    >>> returns(np.array([[5, 1], [0, 9]])), returns(np.array([[5, 1], [1, 9]]))
    (False, True)
    """
    _, parts = connected_components(counts > 0, directed=True, connection="strong")
    return bool(np.bincount(parts).max(initial=0) > 1)


def chain_memory(chains: Array) -> Array:
    """Memory of chains in steps, from transition matrices (..., S, S).

    The largest real part of (1 + λ)/(1 - λ) over all eigenvalues λ except 1: the longest integrated
    autocorrelation time of a cost. A periodic chain has no memory in this sense.

    >>> round(float(chain_memory(np.array([[0.97, 0.03], [0.03, 0.97]]))), 6)
    32.333333
    """
    values = np.linalg.eigvals(chains).astype(np.complex128)
    first = np.abs(values - 1).argmin(axis=-1)
    np.put_along_axis(values, first[..., None], -1.0, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        times = ((1 + values) / (1 - values)).real
    return np.asarray(np.nan_to_num(times, nan=np.inf, posinf=np.inf).max(axis=-1).clip(min=0.0))
