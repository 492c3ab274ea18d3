"""The bounds of the paper's theorems with each term by name, and the excess that they bound.

The theorem is stated up to constants. The bound here is the one of its proof
(label ``app:regret_bound_proof``), with the constants that the proof gives and
costs scaled to [0, 1]:

    Regret(T) <= Σ_k 7 w N_k β_k + K w D_Θ + T L_Θ r.

The proof takes a net of radius r = T^(-1/2). Here r is the radius of the net that IOPEA uses, a
share of the range of the policies (:func:`iopea.policies.default_radius`), so that the bound does
not depend on units and applies to actual runs.

The proof counts finished epochs. Here the rest of the horizon is charged at the rate of the
unfinished epoch, 7 β_{K+1} per step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iopea.elimination.rule import Setting
from iopea.elimination.theorem import (
    theorem_epoch_length,
    theorem_epochs,
    theorem_half_width,
)
from iopea.errors import InputError
from iopea.model import (
    MOST_COUNTED,
    check_count,
    check_nonnegative,
    check_number,
    check_numbers,
    check_positive,
    check_share,
)
from iopea.policies import default_radius
from iopea.systems.dual_sourcing.zero_runs import data_needed
from iopea.systems.lost_sales.base_stock import SPAN_FACTOR
from iopea.types import Array

#: Least probability of an empty pipeline.
_LEAST_RUN = 1e-100
#: Each epoch costs at most 7 w N_k β_k (label ``lem_a.5`` and what follows it).
_PER_EPOCH = 7


def excess_cost(costs: Array, optimal_cost: float) -> float:
    """Excess over T g*: Σ C_t - T g*, the noise of the run included.

    The theorems bound it; the regret that is measured, :attr:`iopea.ComparedRun.regret`, is against
    the best policy on the same noise.

    >>> excess_cost([2.0, 3.0], 1.5)
    2.0
    """
    values = check_numbers("costs", costs)
    return float(values.sum() - values.size * check_number("optimal_cost", optimal_cost))


@dataclass(frozen=True)
class Bound:
    """A bound as the sum of its named terms, in units of cost.

    Attributes
    ----------
    terms : dict. The terms by name.
    inputs : dict. The inputs of the computation by name.
    """

    terms: dict[str, float]
    inputs: dict[str, float]

    @property
    def total(self) -> float:
        """The sum of all terms."""
        return math.fsum(self.terms.values())


def regret_bound(
    horizon: int,
    *,
    span: float,
    bound: float,
    dimension: int,
    lipschitz: float,
    restart_time: float,
    width: int = 1,
    alpha: float = 1.0,
    data_needed: int = 1,
    delta: float = 0.05,
    cost_range: float = 1.0,
    policies: int | None = None,
    extent: float | None = None,
) -> Bound:
    """The upper bound of the regret theorem, which holds with probability 1 - 3δ.

    Parameters
    ----------
    horizon : int. Steps of the run [T].
    span : float. Span of the bias, in cost units [H].
    bound : float. Largest policy parameter [U].
    dimension : int. Parameters of a policy [d].
    lipschitz : float. In cost units [L_Θ].
    restart_time : float. Expected steps back to the initial state [D_Θ].
    width, alpha, data_needed, delta : the order's width w, α, T_h(δ) and δ.
    cost_range : float. Width of the range of the cost of one step.
    policies : int, optional. Size of a finite class; otherwise that of the net, (extent/r + 1)^d.
    extent : float, optional. The longest range of a parameter; U if not given. The radius r of the
        net is extent/max{2000, √T}.

    Examples
    --------
    >>> bound = regret_bound(10**6, span=2, bound=1, dimension=1, lipschitz=1,
    ...                      restart_time=3)
    >>> sorted(bound.terms)
    ['bias', 'confidence', 'discretisation', 'restart', 'unfinished epoch']
    >>> bound.terms["discretisation"]
    500.0
    """
    check_count("horizon", horizon, most=MOST_COUNTED)
    check_count("width", width, most=MOST_COUNTED)
    check_count("dimension", dimension, most=MOST_COUNTED)
    check_count("data_needed", data_needed, most=MOST_COUNTED)
    if policies is not None:
        check_count("policies", policies, most=MOST_COUNTED)
    check_share("delta", delta)
    extent = bound if extent is None else extent
    for name, value in (
        ("bound", bound), ("extent", extent), ("alpha", alpha), ("cost_range", cost_range)
    ):  # fmt: skip
        check_positive(name, value)
    for name, value in (("span", span), ("lipschitz", lipschitz), ("restart_time", restart_time)):
        check_nonnegative(name, value)
    bound, extent, alpha, cost_range = map(float, (bound, extent, alpha, cost_range))
    scaled_span = span / cost_range
    if horizon < 4 * width * data_needed / alpha:
        raise InputError(
            f"The theorem needs a horizon of at least 4 w T_h/α = "
            f"{4 * width * data_needed / alpha:.6g}, not {horizon}."
        )
    if policies is None:
        radius = default_radius(extent, horizon)
        log_policies = dimension * math.log(extent / radius + 1)
    else:
        radius, log_policies = 0.0, math.log(policies)
    setting = Setting(
        policies=1,
        width=width,
        span=scaled_span,
        cost_range=cost_range,
        lipschitz=lipschitz,
        alpha=alpha,
        data_needed=data_needed,
        delta=delta,
        horizon=horizon,
    )
    epochs = theorem_epochs(setting, horizon)
    logarithm = math.log(4 * epochs / delta) + log_policies
    roots = math.fsum(
        math.sqrt(theorem_epoch_length(setting, horizon, k)) for k in range(1, epochs + 1)
    )
    confidence = _PER_EPOCH * width * (scaled_span + 2) * math.sqrt(2 * logarithm / alpha) * roots
    used = sum(width * theorem_epoch_length(setting, horizon, k) for k in range(1, epochs + 1))
    half_width = theorem_half_width(setting, horizon, epochs + 1, log_policies)
    unfinished = _PER_EPOCH * max(horizon - used, 0) * half_width
    return Bound(
        terms={
            "confidence": cost_range * confidence,
            "unfinished epoch": cost_range * unfinished,
            "bias": cost_range * _PER_EPOCH * width * epochs * scaled_span / alpha,
            "restart": cost_range * width * epochs * restart_time,
            "discretisation": horizon * lipschitz * radius,
        },
        inputs={
            "horizon": horizon,
            "span": span,
            "cost_range": cost_range,
            "width": width,
            "alpha": alpha,
            "data_needed": data_needed,
            "delta": delta,
            "epochs": epochs,
            "log_policies": log_policies,
            "restart_time": restart_time,
            "lipschitz": lipschitz,
            "radius": radius,
        },
    )


def base_stock_bound(
    horizon: int,
    *,
    lead_time: int,
    holding_cost: float,
    lost_sales_cost: float,
    bound: float,
    restart_time: float,
    delta: float = 0.05,
) -> Bound:
    """Lost-sales inventory (label ``cor:base_stock_regret``): w = α = T_h = d = 1.

    H = 36 max{h, p} L U, L_Θ = max{h, p}, and the pseudo-cost lies in [-pU, hU].
    """
    check_count("lead_time", lead_time, least=0, most=MOST_COUNTED)
    check_positive("bound", bound)
    largest = max(
        check_nonnegative("holding_cost", holding_cost),
        check_positive("lost_sales_cost", lost_sales_cost),
    )
    return regret_bound(
        horizon,
        span=SPAN_FACTOR * largest * max(lead_time, 1) * bound,
        bound=bound,
        dimension=1,
        lipschitz=largest,
        restart_time=restart_time,
        delta=delta,
        cost_range=(holding_cost + lost_sales_cost) * bound,
    )


def dual_index_bound(
    horizon: int,
    *,
    zero_probability: float,
    regular_lead_time: int,
    bound: float,
    lipschitz: float,
    restart_time: float,
    delta: float = 0.05,
) -> Bound:
    """Dual sourcing (label ``cor:dual_index_regret``), costs in [0, 1].

    α = (1-γ)/2 γ^L_r, H = 1/((1-γ) γ^L_r), d = 2, w = 1, and T_h(δ) as in the proof, of
    order log(1/δ) / ((1-γ)^4 γ^(2 L_r)).
    """
    check_share("zero_probability", zero_probability)
    check_count("regular_lead_time", regular_lead_time, most=MOST_COUNTED)
    check_share("delta", delta)
    rest = 1 - zero_probability
    run = zero_probability**regular_lead_time
    if not rest * run > _LEAST_RUN:
        raise InputError(
            f"No demand for {regular_lead_time} periods has a probability of {run:.3g}: the bound "
            "needs a larger zero_probability, or a shorter lead time."
        )
    return regret_bound(
        horizon,
        span=1 / (rest * run),
        bound=bound,
        dimension=2,
        lipschitz=lipschitz,
        restart_time=restart_time,
        alpha=rest * run / 2,
        data_needed=data_needed(zero_probability, regular_lead_time, delta),
        delta=delta,
    )


def queue_bound(horizon: int, *, buffer: int, max_rate: int) -> Bound:
    """M/M/1/L queue (label ``cor:queuing_regret``): L³ sqrt((L+1) log(A_max) T), constant 1.

    The corollary omits constants and logarithms; this is its leading term, with
    log|Θ| = (L + 1) log A_max for the class of all deterministic policies.
    """
    check_count("horizon", horizon, most=MOST_COUNTED)
    check_count("buffer", buffer, most=MOST_COUNTED)
    check_count("max_rate", max_rate, most=MOST_COUNTED)
    log_policies = (buffer + 1) * math.log(max_rate)
    leading = buffer**3 * math.sqrt(log_policies * horizon)
    return Bound(
        terms={"leading": leading},
        inputs={
            "horizon": horizon,
            "buffer": buffer,
            "max_rate": max_rate,
            "log_policies": log_policies,
        },
    )
