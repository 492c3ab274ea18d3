r"""Compiled planning in tables of states and actions, for average costs.

A table lists state-action pairs, grouped by state. The outcomes of a pair j are numbered; outcome o
leads to the state ``following[j, o]``, or is impossible where that is -1. Under a model with costs
c and probabilities p, relative value iteration repeats

.. math:: (T v)(s) = \min_{j \in s} \Big( c_j + \sum_o p_j(o)\, v(s'_{j,o}) \Big),

and for any v the least average cost, if it is the same from every state, lies between the smallest
and the largest difference :math:`(T v)(s) - v(s)`. Only a share of the difference is added to v,
which makes every chain aperiodic and changes neither policy nor cost (Puterman 1994, section
8.5.4).

*Extended* value iteration (Jaksch, Ortner and Auer 2010) also minimises over all probabilities q
with :math:`\sum_o |q(o) - p_j(o)| \le d_j`: the outcome with the least v gains :math:`d_j / 2`,
and the ones with the largest v lose it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from iopea.types import Array, Indices

#: Share of each difference that is added to the values.
_SHARE = 0.9
#: Most iterations.
_MOST_ROUNDS = 20_000
#: Iteration also ends if in this many rounds the gap between the bounds did not shrink to this
#: share: in a multichain model with different average costs the bounds never meet.
_LOOKED_AT, _NO_NEARER = 50, 0.999
#: Policy iteration, where value iteration does not converge: most states, most improvements, least
#: relative improvement, and largest values relative to the costs.
_MOST_SOLVED, _MOST_IMPROVEMENTS, _SAME_WORTH, _TOO_LARGE = 1500, 100, 1e-12, 1e9
#: Stands for infinitely many steps.
FAR = 2**62


class Plan(NamedTuple):
    """The result of planning.

    Attributes
    ----------
    choice : array (S,). The best pair of each state.
    low, high : float. Bounds on the least average cost of the model.
    values : array (S,). The bias, up to a constant [v].
    """

    choice: Indices
    low: float
    high: float
    values: Array


@njit(cache=True, nogil=True)
def _optimistic(values, leads, likely, distance):  # type: ignore[no-untyped-def]
    """The least expected value of a pair within an L1 distance of its probabilities.

    Sorts the next states and their probabilities by value, in place, by insertion: from one
    iteration to the next they are nearly sorted.
    """
    mean = 0.0
    for outcome in range(leads.size):
        lead, probability = leads[outcome], likely[outcome]
        mean += probability * values[lead]
        place = outcome
        while place > 0 and values[leads[place - 1]] > values[lead]:
            leads[place], likely[place] = leads[place - 1], likely[place - 1]
            place -= 1
        leads[place], likely[place] = lead, probability
    excess = min(distance / 2, 1 - likely[0])
    mean += excess * values[leads[0]]
    for place in range(leads.size - 1, 0, -1):
        moved = min(excess, likely[place])
        mean -= moved * values[leads[place]]
        excess -= moved
        if excess <= 0:
            break
    return mean


@njit(cache=True, nogil=True)
def _compact(probabilities, distances, following):  # type: ignore[no-untyped-def]
    """Next states and probabilities of all outcomes, by pair, and where each pair begins.

    Only outcomes with a positive probability; all possible ones for pairs with a distance.
    """
    pairs, outcomes = following.shape
    begin = np.zeros(pairs + 1, np.int64)
    leads, likely = np.empty(following.size, np.int64), np.empty(following.size)
    last = 0
    for pair in range(pairs):
        for outcome in range(outcomes):
            probability = probabilities[pair, outcome]
            if following[pair, outcome] >= 0 and (probability != 0 or distances[pair] > 0):
                leads[last], likely[last] = following[pair, outcome], probability
                last += 1
        begin[pair + 1] = last
    return begin, leads, likely


@njit(cache=True, nogil=True)
def _plan(costs, probabilities, distances, first, following, tolerance, rounds):  # type: ignore[no-untyped-def]
    states = first.size - 1
    begin, leads, likely = _compact(probabilities, distances, following)
    values, changes = np.zeros(states), np.zeros(states)
    choice = np.zeros(states, np.int64)
    low = high = 0.0
    distance = np.inf
    for number_of_round in range(rounds):
        low, high = np.inf, -np.inf
        for state in range(states):
            least = np.inf
            for pair in range(first[state], first[state + 1]):
                value = costs[pair]
                if distances[pair] > 0:
                    own = slice(begin[pair], begin[pair + 1])
                    value += _optimistic(values, leads[own], likely[own], distances[pair])
                else:
                    for place in range(begin[pair], begin[pair + 1]):
                        value += likely[place] * values[leads[place]]
                if value < least:
                    least = value
                    choice[state] = pair
            changes[state] = least - values[state]
            low, high = min(low, changes[state]), max(high, changes[state])
        if high - low <= tolerance:
            break
        # Costs up to S steps ahead affect the values only after S rounds.
        if number_of_round >= states and number_of_round % _LOOKED_AT == 0:
            if high - low > _NO_NEARER * distance:
                break
            distance = high - low
        values += _SHARE * changes
        values -= values[0]
    return choice, low, high, values


def plan(
    costs: Array,
    probabilities: Array,
    first: Indices,
    following: Indices,
    tolerance: float,
    distances: Array | None = None,
    rounds: int = _MOST_ROUNDS,
) -> Plan:
    """Relative value iteration; extended, where distances are given.

    Parameters
    ----------
    costs : array (P,). Expected cost of each pair.
    probabilities : array (P, M). Probabilities of its outcomes, 0 where impossible.
    first : array (S + 1,). Where the pairs of each state begin, and their number.
    following : array (P, M). The state that each outcome leads to; -1 where impossible.
    tolerance : float. Gap between the bounds on the average cost at which planning ends.
    distances : array (P,), optional. L1 radius of the set of probabilities of each pair [d].

    Examples
    --------
    Waiting in state 0 costs 1 and moving 3; a step back from state 1 costs nothing.

    >>> first, following = np.array([0, 2, 3]), np.array([[0, 1], [0, 1], [0, 1]])
    >>> probabilities = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> found = plan(np.array([1.0, 3.0, 0.0]), probabilities, first, following, 1e-9)
    >>> found.choice, round(found.low, 6)
    (array([0, 2]), 1.0)
    >>> plan(np.array([2.0, 3.0, 0.0]), probabilities, first, following, 1e-9).choice
    array([1, 2])
    """
    none = np.zeros(len(costs)) if distances is None else distances
    found = Plan(*_plan(costs, probabilities, none, first, following, tolerance, rounds))
    if found.high - found.low > tolerance and first.size <= _MOST_SOLVED and not none.any():
        return _iterate(costs, probabilities, first, following, found)
    return found


def _iterate(
    costs: Array, probabilities: Array, first: Indices, following: Indices, found: Plan
) -> Plan:
    """Policy iteration from a plan, for chains on which value iteration is too slow.

    A multichain model has no single average cost: then the plan is returned unchanged.
    """
    states = first.size - 1
    here, choice = np.arange(states), found.choice
    leads = np.maximum(following, 0)
    for _ in range(_MOST_IMPROVEMENTS):
        system = np.zeros((states + 1, states + 1))
        system[here, here] = 1.0
        rows = np.repeat(here, following.shape[1])
        np.subtract.at(system, (rows, leads[choice].ravel()), probabilities[choice].ravel())
        system[:states, -1], system[-1, 0] = 1.0, 1.0
        try:
            *values, gain = np.linalg.solve(system, np.append(costs[choice], 0.0))
        except np.linalg.LinAlgError:
            return found
        bias = np.array(values)
        scale = np.abs(bias).max() + np.abs(costs).max()
        if not scale < _TOO_LARGE * (np.abs(costs).max() or 1.0):
            return found
        worth = costs + (probabilities * bias[leads]).sum(axis=1)
        least = np.minimum.reduceat(worth, first[:-1])
        better = least < worth[choice] - _SAME_WORTH * scale
        if not better.any():
            return Plan(choice, float(gain), float(gain), bias)
        best = first[:-1] + [
            int(worth[first[state] : first[state + 1]].argmin()) for state in range(states)
        ]
        choice = np.where(better, best, choice)
    return found


@njit(cache=True, nogil=True)
def _free_steps(start, choice, kinds, following, missing, reached, waiting):  # type: ignore[no-untyped-def]
    reached[:] = FAR
    reached[start] = 0
    waiting[0] = start
    least, head, tail = FAR, 0, 1
    while head < tail:
        state = waiting[head]
        head += 1
        if reached[state] + 1 >= least:
            break
        pair = choice[state]
        least = min(least, max(missing[kinds[pair]], reached[state] + 1))
        for outcome in range(following.shape[1]):
            other = following[pair, outcome]
            if other >= 0 and reached[other] == FAR:
                reached[other] = reached[state] + 1
                waiting[tail] = other
                tail += 1
    return least


def free_steps(
    start: int, choice: Indices, kinds: Indices, following: Indices, missing: Indices
) -> int:
    """Least number of steps after which some kind of pair may have been seen often enough.

    Parameters
    ----------
    start : int. The present state.
    choice : array (S,). The pair that is played in each state.
    kinds : array (P,). The kind of each pair; a step reveals each kind at most once.
    following : array (P, M). The state that each outcome leads to; -1 where impossible.
    missing : array (kinds,). How many more times each kind must be seen.

    Examples
    --------
    From state 0 it takes at least two steps to visit the pair of state 1.

    >>> free_steps(0, np.array([0, 1]), np.array([0, 1]), np.array([[0, 1], [0, 1]]),
    ...            np.array([9, 1]))
    2
    """
    states = choice.size
    reached, waiting = np.empty(states, np.int64), np.empty(states, np.int64)
    return int(_free_steps(start, choice, kinds, following, missing, reached, waiting))
