r"""Runs of periods without demand, from which the constants of dual sourcing follow.

Let Y be the first time that L_r consecutive periods had no demand, each with probability γ. Then
(label ``lem_consecutive_zero``)

    E[Y] = (1 - γ^L_r) / ((1-γ) γ^L_r),
    E[z^Y] = (γz)^L_r (1 - γz) / (1 - z + (1-γ) γ^L_r z^(L_r+1)).

Two policies whose levels differ by δ differ by at most W(t) δ in state after t periods, with
W(1) = 1 and W(t) = 4 W(t-1) + 3, which is 2·4^(t-1) - 1. The paper's Lipschitz constant
(label ``dip_lem1``) needs Σ P(Y = t) W(t) = E[4^Y]/2 - 1, which is finite if and only if
(1-γ) γ^L_r 4^(L_r+1) < 3 for a γ that lies above the maximum of the left side.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from iopea.model import check_count, check_share

#: Factor by which the distance between the states of two policies may grow in a period.
GROWTH = 4


def expected_run_time(zero_probability: float, length: int) -> float:
    """Expected periods until ``length`` consecutive ones had no demand [E Y_1].

    >>> expected_run_time(0.5, 2)
    6.0
    """
    gamma = check_share("zero_probability", zero_probability)
    run = gamma ** check_count("length", length)
    return float((1 - run) / ((1 - gamma) * run))


#: Longest lead time for which the equation is solved.
_LONGEST = 10**6


def c_gamma(regular_lead_time: int) -> float:
    """The probability of no demand above which the Lipschitz constant is finite [c_γ].

    The paper notes that 0.96 is enough for L_r = 2; the exact distribution of runs gives less.

    >>> round(c_gamma(2), 4)
    0.9478
    """
    length = check_count("regular_lead_time", regular_lead_time, most=_LONGEST)
    peak = length / (length + 1)  # where (1-γ) γ^L_r is largest
    return float(brentq(lambda gamma: _excess(gamma, length), peak, 1.0, xtol=1e-14))


def _excess(gamma: float, length: int) -> float:
    """Positive where E[4^Y] is infinite, for γ above L_r/(L_r + 1)."""
    return float((1 - gamma) * gamma**length * GROWTH ** (length + 1) - (GROWTH - 1))


def lipschitz(zero_probability: float, regular_lead_time: int, unit_costs: float) -> float:
    """L_Θ = (h + p + c_r + c_e) Σ P(Y = t) W(t) / E[Y]; infinite unless γ > c_γ(L_r).

    >>> lipschitz(0.3, 2, 11.5)
    inf
    >>> round(lipschitz(0.99, 2, 11.5), 2)
    49.74
    """
    gamma = check_share("zero_probability", zero_probability)
    if gamma <= c_gamma(regular_lead_time):
        return math.inf
    run = (gamma * GROWTH) ** regular_lead_time * (1 - gamma * GROWTH)
    below = 1 - GROWTH + (1 - gamma) * gamma**regular_lead_time * GROWTH ** (regular_lead_time + 1)
    mean = expected_run_time(gamma, regular_lead_time)
    return float(unit_costs * (run / below / 2 - 1) / mean)


def data_needed(zero_probability: float, regular_lead_time: int, delta: float) -> int:
    """Steps after which stock equal to z_r is frequent enough with probability 1 - δ [T_h(δ)].

    sqrt(T_h) = (2 sqrt(2 log(2/δ)) + 2) / ((1-γ)² γ^L_r), as in the proof (``dip_th_bound``).

    >>> data_needed(0.5, 2, 0.05)
    14142
    """
    gamma = check_share("zero_probability", zero_probability)
    rest = (1 - gamma) ** 2 * gamma ** check_count("regular_lead_time", regular_lead_time)
    root = (2 * math.sqrt(2 * math.log(2 / check_share("delta", delta))) + 2) / rest
    return math.ceil(root**2)
