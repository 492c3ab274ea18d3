r"""The M/M/1/L queue as a birth-death chain: distribution, average cost, best rates and paths.

With s jobs in the system, jobs enter at rate :math:`\lambda f_s`, where f is the profile of
arrivals with :math:`f_L = 0`, and leave at rate :math:`\theta_s + s \mu`. The stationary
distribution is

.. math:: m(s) \propto \prod_{i=1}^{s} \frac{\lambda f_{i-1}}{\theta_i + i \mu},

computed from logarithms, so that no buffer is too long. In state s a unit of time costs
:math:`c_s = w(\theta_s) + C s \mu`, on average :math:`g = \sum_s m(s) c_s`. The bias v grows by
:math:`D_s = v(s+1) - v(s)` per job, and

.. math:: m(s) \lambda f_s D_s = \sum_{j \le s} m(j) (g - c_j) = -\sum_{j > s} m(j) (g - c_j).

All costs here are per unit of time.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from iopea.errors import ComputationError
from iopea.types import Array, Indices

#: How a step may end.
NOTHING, ARRIVAL, SERVICE, MISS = 0, 1, 2, 3
#: Number of sums over each batch of steps: events that estimate the arrival rate, and the time
#: during which they could happen; the same for the deadline rate; and the number of the latter
#: events observed.
STATISTICS = 5
#: Estimated rates are at least this share of their bounds, so that no state is absorbing.
LEAST_SHARE = 1e-9
#: Standard errors up to which rates are considered possible.
REACH = 4.0
#: Number of directions in which such rates are evaluated; more batches than that are needed.
DIRECTIONS = 8
_AROUND = [(math.cos(turn), math.sin(turn)) for turn in np.arange(DIRECTIONS) * math.pi / 4]
#: Largest difference of log rates.
_FAR = 50.0
#: Least relative improvement in policy iteration.
IMPROVEMENT = 1e-10
#: Most rounds of policy iteration, which usually takes a handful.
_MOST_ROUNDS = 1000
#: The shortest stay in a state, in units of its mean: a draw of exactly 0 becomes this.
_LEAST_STAY = 2.0**-54


def stationary(policies: Array, rates: Array, profile: Array) -> Array:
    """The stationary distribution of each policy, an array (n, L + 1); ``rates`` are λ and μ.

    >>> stationary(np.array([[0.0, 1.0]]), np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    array([[0.75, 0.25]])
    """
    deaths = policies[:, 1:] + rates[1] * np.arange(1, profile.size)
    with np.errstate(divide="ignore"):
        ratios = np.log(rates[0] * profile[:-1]) - np.log(deaths)
    logs = np.cumsum(np.insert(ratios, 0, 0.0, axis=1), axis=1)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _state_costs(policies: Array, rates: Array, power: Array, penalty: float) -> Array:
    misses = penalty * rates[1] * np.arange(policies.shape[1])
    return np.asarray(power[policies.astype(np.intp)] + misses)


def average_costs(
    policies: Array, rates: Array, profile: Array, power: Array, penalty: float
) -> Array:
    """Cost per unit of time of policies, an array (n, L + 1)."""
    law = stationary(policies, rates, profile)
    return np.asarray((law * _state_costs(policies, rates, power, penalty)).sum(axis=1))


def slopes(
    policies: Array, rates: Array, profile: Array, power: Array, penalty: float
) -> tuple[Array, Array, Array]:
    """Costs of policies per unit of time, and their derivatives with respect to λ and μ.

    By the equation above, ∂g/∂λ = Σ m(s) f_s D_s and ∂g/∂μ = Σ m(s) s (C - D_{s-1}) follow
    from the partial sums of m (g - c).
    """
    law = stationary(policies, rates, profile)
    costs = _state_costs(policies, rates, power, penalty)
    gain = (law * costs).sum(axis=1)
    flows = np.cumsum(law * (gain[:, None] - costs), axis=1)[:, :-1]
    jobs = np.arange(profile.size)
    shares = jobs[1:] / (policies[:, 1:] + rates[1] * jobs[1:])
    by_deadline = penalty * (law @ jobs) - (flows * shares).sum(axis=1)
    return gain, flows.sum(axis=1) / rates[0], by_deadline


def within(rates: Array, bounds: Array) -> Array:
    """Rates, clipped to their bounds and to slightly above 0."""
    return np.asarray(np.clip(rates, LEAST_SHARE * bounds, bounds))


def linearised(
    policies: Array,
    statistics: Array,
    sizes: Array,
    rates: Array,
    bounds: Array,
    profile: Array,
    power: Array,
    penalty: float,
) -> Array:
    """Batch sums of the costs of policies per unit of time; in total they are N g.

    Parameters
    ----------
    policies : array (n, L + 1).
    statistics, sizes : arrays (batches, 5) and (batches,). Sums and number of steps of each batch;
        one batch, or more than :data:`DIRECTIONS`.
    rates, bounds : arrays (2,). The estimates of λ and μ, and their upper bounds.

    Returns
    -------
    array (batches, n) : n_b g + N (∂g/∂λ (a_b - λ A_b)/ΣA + ∂g/∂μ (m_b - μ E_b)/ΣE), plus, for
    each of several pairs of rates at the limit of the possible, the difference between g there and
    its tangent, in an orthogonal direction of its own.
    """
    costs, *tangents = slopes(policies, rates, profile, power, penalty)
    sums = sizes[:, None] * costs
    if len(sizes) == 1:
        return sums
    totals, steps = statistics.sum(axis=0), sizes.sum()
    for column, slope in zip((0, 2), tangents, strict=True):
        events, at_risk = statistics[:, column], statistics[:, column + 1]
        excess = events - totals[column] / totals[column + 1] * at_risk
        sums += np.outer(excess, slope * (steps / totals[column + 1]))
    errors = np.sqrt(totals[[0, 4]]) / totals[[1, 3]] / rates
    bends = np.empty((DIRECTIONS, len(policies)))
    for bend, direction in zip(bends, _AROUND, strict=True):
        there = within(rates * np.exp(np.minimum(REACH * errors, _FAR) * direction), bounds)
        bend[:] = average_costs(policies, there, profile, power, penalty) - costs
        bend -= (there - rates) @ np.array(tangents)
    return np.asarray(sums + (steps / REACH) * _waves(len(sizes)) @ bends)


def _waves(batches: int) -> Array:
    """Orthonormal directions of batch sums, each of which adds up to 0."""
    turns = np.outer(np.arange(batches) + 0.5, np.arange(1, DIRECTIONS + 1)) / batches
    return np.asarray(np.cos(np.pi * turns) * math.sqrt(2 / batches))


def best_rates(rates: Array, profile: Array, power: Array, penalty: float) -> tuple[Indices, float]:
    """The best service rate by state and its cost per unit of time, by policy iteration.

    The chain is solved by recursions from either end, so that policies under which it is hardly
    ever empty, or hardly ever full, cause no numerical problems.

    >>> known = np.array([1.0, 0.5, 0.0]), np.arange(4.0) ** 2, 100.0
    >>> best, cost = best_rates(np.array([6.0, 3.0]), *known)
    >>> best, round(cost / 23, 4)
    (array([0, 3, 3]), 9.5404)
    """
    choices, states = np.arange(power.size), np.arange(profile.size)
    best: Indices = np.full(profile.size, power.argmin(), dtype=np.intp)
    for _ in range(_MOST_ROUNDS):
        policy = best[None].astype(np.float64)
        law = stationary(policy, rates, profile)[0]
        costs = _state_costs(policy, rates, power, penalty)[0]
        gain = float(law @ costs)
        steps = _bias_steps(rates[0] * profile, policy[0] + rates[1] * states, costs, law, gain)
        # At rate a, jobs leave a times per unit of time; each saves D_{s-1}.
        worth = np.insert(steps, 0, 0.0)[:, None]
        values = power - choices * worth
        tolerance = IMPROVEMENT * (np.abs(power).max() + choices[-1] * np.abs(worth[:, 0]))
        better = values.min(axis=1) < values[states, best] - tolerance
        if not better.any():
            return best, gain
        best = np.where(better, values.argmin(axis=1), best)
    raise ComputationError(f"Policy iteration found no best rates in {_MOST_ROUNDS} rounds.")


@njit(cache=True, nogil=True, error_model="numpy")
def _bias_steps(births, deaths, costs, law, gain):  # type: ignore[no-untyped-def]
    """D_0, ..., D_{L-1}, from the empty end up to half of the distribution, else from the full one.

    Both ends obey g - c_s = λ f_s D_s - (θ_s + s μ) D_{s-1}.
    """
    last = births.shape[0] - 1
    steps = np.zeros(last)
    below, before = 0.0, 0.0
    for s in range(last):
        below += law[s]
        if below > 0.5:
            break
        before = (gain - costs[s] + deaths[s] * before) / births[s]
        steps[s] = before
    above, after = 0.0, 0.0
    for s in range(last, 0, -1):
        above += law[s]
        if above > 0.75:  # overlaps, so that the two meet despite rounding
            break
        after = (costs[s] - gain + births[s] * after) / deaths[s]
        steps[s - 1] = after
    return steps


def time_to_empty(policy: Array, rates: Array, profile: Array) -> float:
    """Expected time from the full to the empty queue.

    >>> policy, profile = np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 0.0])
    >>> time_to_empty(policy, np.array([1.0, 1.0]), profile)
    0.875
    """
    total = down = 0.0
    for s in range(profile.size - 1, 0, -1):
        down = (1 + rates[0] * profile[s] * down) / (policy[s] + rates[1] * s)  # to s - 1
        total += down
    return float(total)


@njit(cache=True, inline="always")
def next_event(mark, arrival, service, deadline):  # type: ignore[no-untyped-def]
    """The transition: how a step ends, given a mark between 0 and the total rate."""
    if mark < arrival:
        return ARRIVAL
    if mark < arrival + service:
        return SERVICE
    if mark < arrival + service + deadline:
        return MISS
    return NOTHING


@njit(cache=True, inline="always")
def next_step(jobs, rate, mark, tail, continuous, births, deadline_rate, uniform_rate):  # type: ignore[no-untyped-def]
    """How a step ends and how long it takes, given a uniform number for each."""
    service = rate if jobs > 0 else 0.0
    total = births[jobs] + service + jobs * deadline_rate if continuous else uniform_rate
    stay = max(-math.log1p(-tail), _LEAST_STAY) if continuous else 1.0
    event = next_event(mark * total, births[jobs], service, jobs * deadline_rate)
    if continuous and event == NOTHING:
        event = MISS if jobs > 0 else ARRIVAL  # rounding at the end of the range
    return event, stay / total


@njit(cache=True, nogil=True, error_model="numpy")
def _roll_out(  # type: ignore[no-untyped-def]
    policy, draws, births, deadline_rate, uniform_rate, jobs, stop_when_empty, states, times, events
):
    continuous = draws.shape[1] == 2
    for t in range(draws.shape[0]):
        if stop_when_empty and jobs == 0:
            return t, jobs
        event, time = next_step(
            jobs, policy[jobs], draws[t, 0], draws[t, -1], continuous, births, deadline_rate,
            uniform_rate,
        )  # fmt: skip
        states[t], times[t], events[t] = jobs, time, event
        if event == ARRIVAL:
            jobs += 1
        elif event != NOTHING:
            jobs -= 1
    return draws.shape[0], jobs


def roll_out(
    policy: Array,
    draws: Array,
    rates: Array,
    profile: Array,
    uniform_rate: float,
    jobs: int,
    stop_when_empty: bool = False,
) -> tuple[int, Indices, Array, Indices]:
    """Play a policy on the real queue, from a given number of jobs on.

    Parameters
    ----------
    draws : array (steps, 1) or (steps, 2). Uniform numbers: what happens in each step of the
        uniformised chain; in continuous time, that and how long the queue stays.

    Returns
    -------
    int, arrays (played,) : jobs at the end; jobs, time and event of each step played.
    """
    states, events = np.zeros((2, len(draws)), dtype=np.intp)
    times = np.zeros(len(draws))
    played, jobs = _roll_out(
        policy, draws, rates[0] * profile, rates[1], uniform_rate, jobs, stop_when_empty,
        states, times, events,
    )  # fmt: skip
    return int(jobs), states[:played], times[:played], events[:played]


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_up(  # type: ignore[no-untyped-def]
    states, times, arrivals, services, misses, profile, last_rate, boundary,
    running, filled, size, batches,
):  # fmt: skip
    full = profile.shape[0] - 1
    row = 0
    for t in range(states.shape[0]):
        jobs = int(states[t])
        if not boundary:
            running[0] += arrivals[t]
            running[1] += times[t] * profile[jobs]
            running[2] += misses[t]
            running[3] += times[t] * jobs
            running[4] += misses[t]
        elif jobs == 0:
            running[0] += arrivals[t]
            running[1] += times[t] * profile[0]
        elif jobs == full:
            exits = services[t] + misses[t]
            running[2] += exits - last_rate * times[t]
            running[3] += times[t] * full
            running[4] += exits
        filled += 1
        if filled == size:
            for i in range(running.shape[0]):
                batches[row, i] = running[i]
                running[i] = 0.0
            row += 1
            filled = 0


def sum_up(
    columns: list[Array],
    profile: Array,
    last_rate: float,
    boundary: bool,
    running: Array,
    filled: int,
    size: int,
) -> Array:
    """Add observed steps, one by one, to the sums of the batch in progress.

    Parameters
    ----------
    columns : states, times, arrivals, services and misses of the steps.
    last_rate : float. Service rate of the full queue [θ_L].
    boundary : bool. Whether only the stays in states 0 and L are used, as in the paper.
    running : array (5,). Sums of the batch in progress, changed in place.
    filled, size : int. Steps already in that batch, and its full size.

    Returns
    -------
    array (finished batches, 5).
    """
    batches = np.empty(((filled + columns[0].size) // size, STATISTICS))
    states, times, arrivals, services, misses = columns
    _sum_up(
        states, times, arrivals, services, misses, profile, last_rate, boundary,
        running, filled, size, batches,
    )  # fmt: skip
    return batches


@njit(cache=True, nogil=True, error_model="numpy")
def _pass_events(states, rates, draws, births, deadline_rate, uniform_rate, records):  # type: ignore[no-untyped-def]
    continuous = draws.shape[1] == 2
    for i in range(states.shape[0]):
        jobs = int(states[i, 0])
        event, time = next_step(
            jobs, rates[i, 0], draws[i, 0], draws[i, -1], continuous, births, deadline_rate,
            uniform_rate,
        )  # fmt: skip
        records[i, 0], records[i, 1] = jobs, time
        records[i, 2] = event == ARRIVAL
        records[i, 3] = event == SERVICE
        records[i, 4] = event == MISS
        if event == ARRIVAL:
            states[i, 0] += 1
        elif event != NOTHING:
            states[i, 0] -= 1


def pass_events(
    states: Array,
    rates: Array,
    draws: Array,
    births: Array,
    deadline_rate: float,
    uniform_rate: float,
) -> Array:
    """Advance queues by a step, ``states`` changed in place.

    Parameters
    ----------
    states, rates : arrays (n, 1). Jobs in each queue, and the service rate chosen there.
    draws : array (n, 1) or (n, 2). Uniform numbers, as in :func:`roll_out`.
    births : array (L + 1,). Arrival rate by state.

    Returns
    -------
    array (n, 5) : jobs, time, and whether there was an arrival, a service or a miss.
    """
    records = np.empty((len(states), 5))
    _pass_events(states, rates, draws, births, deadline_rate, uniform_rate, records)
    return records
