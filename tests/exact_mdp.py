r"""Finite average-cost MDPs, solved exactly.

Under a deterministic policy with one recurrent class, the gain g and the bias v solve
:math:`g + v(s) = c(s) + \sum_{s'} P(s, s') v(s')` with v = 0 in the first state.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve

from iopea.errors import InputError
from iopea.types import Array, Indices

#: An action must be better by this, as a share of the costs, to be an improvement.
IMPROVEMENT = 1e-10
#: Policy iteration ends after a handful of rounds; this many are a sign of a degenerate model.
_MOST_ROUNDS = 1000


def gain_and_bias(transitions: Array, costs: Array) -> tuple[float, Array]:
    """Gain and bias of a Markov chain, an array (S, S), with one recurrent class.

    >>> gain, bias = gain_and_bias(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([3.0, 0.0]))
    >>> round(gain, 12), bias.round(12)
    (2.0, array([ 0., -2.]))
    """
    # The unknowns are g in the place of v(0), and the other v.
    system = np.eye(len(costs)) - transitions
    system[:, 0] = 1.0
    try:
        with np.errstate(all="raise"):
            solution = np.asarray(solve(system, costs), dtype=np.float64)
    except (np.linalg.LinAlgError, FloatingPointError):
        raise InputError(
            "The chain of a policy has several recurrent classes: its average cost depends on "
            "where it starts."
        ) from None
    bias = solution.copy()
    bias[0] = 0.0
    return float(solution[0]), bias


def stationary(transitions: Array) -> Array:
    """The stationary law of a Markov chain with one recurrent class.

    >>> stationary(np.array([[0.5, 0.5], [1.0, 0.0]])).round(6)
    array([0.666667, 0.333333])
    """
    system = (np.eye(len(transitions)) - transitions).T
    system[0] = 1.0
    right = np.zeros(len(transitions))
    right[0] = 1.0
    try:
        law = np.asarray(solve(system, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise InputError(
            "The chain has several recurrent classes: it has no unique stationary law."
        ) from None
    return np.maximum(law, 0.0)


def policy_iteration(
    transitions: Array, costs: Array, start: Indices | None = None
) -> tuple[Indices, float]:
    """The best deterministic policy and its gain, by Howard's policy iteration.

    Parameters
    ----------
    transitions : array (S, A, S). Probabilities; every policy has one recurrent class.
    costs : array (S, A). Expected cost of a step.
    start : array (S,), optional. The first policy; the cheapest actions if not given.

    Examples
    --------
    >>> stay, move = [[1, 0], [0, 1]], [[0, 1], [1, 0]]
    >>> transitions = 0.1 * np.array([move, move]) + 0.9 * np.array([stay, move])
    >>> transitions = np.swapaxes(transitions, 0, 1)
    >>> policy, gain = policy_iteration(transitions, np.array([[1.0, 1.2], [3.0, 3.1]]))
    >>> policy, round(gain, 6)
    (array([0, 1]), 1.190909)
    """
    states = np.arange(len(costs))
    policy: Indices = np.asarray(costs.argmin(axis=1) if start is None else start, dtype=np.intp)
    tolerance = IMPROVEMENT * max(float(np.abs(costs).max()), 1e-300)
    for _ in range(_MOST_ROUNDS):
        gain, bias = gain_and_bias(transitions[states, policy], costs[states, policy])
        values = costs + transitions @ bias
        better = values.min(axis=1) < values[states, policy] - tolerance
        if not better.any():
            return policy, gain
        policy = np.where(better, values.argmin(axis=1), policy)
    raise InputError(f"Policy iteration found no best policy in {_MOST_ROUNDS} rounds.")
