"""Every argument of the public calls, with every odd value."""

import inspect

import numpy as np
import pytest

import iopea
from fuzzing import (
    ANY,
    HORIZON,
    NONNEGATIVE,
    ODD,
    POSITIVE,
    PROBABILITY,
    SEED,
    SHARE,
    among,
    check_case,
    nothing,
    on_grid,
    optional,
    real,
    whole,
)
from iopea import demand, theory
from iopea.errors import InputError
from iopea.learners import LEARNERS
from iopea.model import LARGEST, LEAST

LEVELS = {"low": 0, "high": 20, "step": 1}
LAW = demand.Poisson(mean=3)
SHOP = iopea.LostSales(lead_time=2, holding_cost=1, lost_sales_cost=9, levels=LEVELS)
LEVEL = on_grid(0, 20, 1)
RUN = whole(1, 50)
SIZE = real(1e-9, 1e9)


def street():
    return SHOP.simulator(LAW, seed=1)


def few(value):
    """Numbers of steps that would take long are not tried."""
    if whole(10**5)(value):
        raise InputError("This many steps are not tried: they are right, but take long.")
    return value


#: Calls by name, each with what is right in it.
CASES = {}


def keys(name, make, values):
    """One case for each argument; each has a right value and what else is right."""
    usual = {key: value for key, (value, _) in values.items()}
    for key, (_, right) in values.items():
        CASES[f"{name} {key}"] = (lambda odd, key=key: make(**{**usual, key: odd}), right)


def cost(value=1):
    return (value, NONNEGATIVE)


keys(
    "LostSales",
    iopea.LostSales,
    {
        "lead_time": (2, whole(0, 100)),
        "holding_cost": cost(),
        "lost_sales_cost": cost(9),
        "fixed_order_cost": cost(),
        "order_multiple": (1, optional(POSITIVE)),
        "minimum_order": (1, optional(POSITIVE)),
        "levels": (LEVELS, nothing),
        "start": (3, optional(LEVEL)),
    },
)
keys(
    "Levels",
    iopea.Levels,
    {
        "low": (0, lambda value: on_grid(0, 20, 1)(value) and value != 20),
        "high": (20, lambda value: whole(0, LARGEST)(value)),
        "step": (
            1,
            optional(lambda value: POSITIVE(value) and value <= 20 and abs(20 / value % 1) < 1e-9),
        ),
    },
)
keys(
    "DualSourcing",
    iopea.DualSourcing,
    {
        "regular_lead_time": (3, whole(1, 100)),
        "expedited_lead_time": (0, whole(0, 2)),
        "holding_cost": cost(),
        "lost_sales_cost": cost(10),
        "regular_cost": cost(0),
        "expedited_cost": cost(0.5),
        "expedited_levels": (LEVELS, nothing),
        "regular_levels": (LEVELS, nothing),
        "estimator": ("level", optional(nothing)),
        "zero_demand": (0.3, optional(PROBABILITY)),
    },
)
keys(
    "Newsvendor",
    iopea.Newsvendor,
    {"overage_cost": cost(), "underage_cost": cost(5), "levels": (LEVELS, nothing)},
)
keys(
    "ServiceRateQueue",
    iopea.ServiceRateQueue,
    {
        "buffer": (2, whole(1, 1000)),
        "max_rate": (3, whole(1, 1000)),
        "arrival_rate_bound": (10, POSITIVE),
        "deadline_rate_bound": (10, POSITIVE),
        "miss_penalty": cost(100),
        "power": ("square", nothing),
        "arrivals": ("decaying", nothing),
    },
)
keys(
    "QueueRates", iopea.QueueRates, {"arrival_rate": (6, POSITIVE), "deadline_rate": (3, POSITIVE)}
)
keys(
    "HiddenArm",
    iopea.HiddenArm,
    {"arm": (1, whole(0, 10**18)), "advantage": (0.1, real(LEAST, 0.5))},
)
for law, sizes in {
    "Exponential": {"mean": (1, SIZE)},
    "Poisson": {"mean": (1, SIZE)},
    "Geometric": {"mean": (1, SIZE)},
    "Normal": {"mean": (1, real(-3, 1e9)), "sd": (1, SIZE)},
    "Lognormal": {"mean": (1, SIZE), "sd": (1, SIZE)},
    "Uniform": {"low": (0, real(0, 1)), "high": (1, real(0, LARGEST))},
    "Gamma": {"mean": (1, SIZE), "shape": (1, SIZE)},
    "NegativeBinomial": {"mean": (1, SIZE), "size": (1, SIZE)},
    "Constant": {"value": (1, NONNEGATIVE)},
    "Empirical": {"values": ([1, 2], among((1, 2), range(3), {1}))},
}.items():
    more = {"maximum": (10, optional(NONNEGATIVE)), "zero_probability": (0.3, PROBABILITY)}
    keys(law, getattr(demand, law), {**sizes, **more})
keys(
    "IOPEA",
    lambda **settings: iopea.IOPEA(SHOP, **settings),
    {
        "rule": ("paired", nothing),
        "play": ("frugal", optional(nothing)),
        "start": (3, optional(LEVEL)),
        "state": ([0, 0, 0], optional(among(range(3)))),
        "horizon": (100, optional(HORIZON)),
        "delta": (0.05, SHARE),
        "restart": ("none", nothing),
        "radius": (1.0, optional(POSITIVE)),
        "first_epoch": (8, optional(HORIZON)),
        "memory": (2.0, optional(POSITIVE)),
        "precision": ("float64", nothing),
        "threads": (1, whole(1, 1024)),
        "seed": (1, SEED),
    },
)
OF_LEARNERS = {
    "horizon": optional(HORIZON),
    "seed": SEED,
    "start": optional(LEVEL),
    "confidence": optional(POSITIVE),
    "step": optional(POSITIVE),
    "cycle": optional(whole(1)),
    "review": whole(2),
    "bonus": optional(NONNEGATIVE),
    "delta": SHARE,
    "radius": optional(POSITIVE),
}
for name in ("convex", "sgd-base-stock", "order-up-to", "erm", "optimal", "random"):
    learner = LEARNERS[name]
    for key in sorted(set(inspect.signature(learner).parameters) - {"problem"}):
        CASES[f"{name} {key}"] = (
            lambda odd, learner=learner, key=key: learner(SHOP, **{key: odd}),
            OF_LEARNERS[key],
        )
for name in ("feedback-graph", "ucrl2"):
    for key in ("horizon", "seed", "bonus", "delta"):
        CASES[f"{name} {key}"] = (
            lambda odd, name=name, key=key: LEARNERS[name](SHOP, **{key: odd}),
            OF_LEARNERS[key],
        )
keys("Frugal", iopea.Frugal, {"inertia": (1.15, POSITIVE)})
keys(
    "base_stock_bound",
    theory.base_stock_bound,
    {
        "horizon": (10**6, whole(4, 10**18)),
        "lead_time": (2, whole(0, 10**18)),
        "holding_cost": (1.0, NONNEGATIVE),
        "lost_sales_cost": (9.0, POSITIVE),
        "bound": (20.0, POSITIVE),
        "restart_time": (9.0, NONNEGATIVE),
        "delta": (0.05, SHARE),
    },
)
keys(
    "queue_bound",
    theory.queue_bound,
    {
        "horizon": (10**6, whole(1, 10**18)),
        "buffer": (2, whole(1, 10**18)),
        "max_rate": (3, whole(1, 10**18)),
    },
)
CASES |= {
    "simulator truth": (SHOP.simulator, nothing),
    "simulator seed": (lambda odd: SHOP.simulator(LAW, odd), SEED),
    "simulator state": (lambda odd: SHOP.simulator(LAW, 1, odd), optional(among(range(3)))),
    "play policy": (lambda odd: street().play(odd, 1), LEVEL),
    "play steps": (lambda odd: street().play(3, odd), whole(0, 10)),
    "play until_start": (lambda odd: street().play(3, 1, odd), among(True)),
    "run learner": (lambda odd: iopea.run(odd, street(), 3), nothing),
    "run simulator": (lambda odd: iopea.run(iopea.IOPEA(SHOP), odd, 3), nothing),
    "run steps": (lambda odd: iopea.run(iopea.IOPEA(SHOP), street(), few(odd)), RUN),
    "run best": (
        lambda odd: iopea.run(iopea.Optimal(SHOP), street(), 3, best=5.0 if odd is None else odd),
        optional(LEVEL),
    ),
    "evaluate simulator": (lambda odd: iopea.evaluate(odd, [[3.0]], 100), nothing),
    "evaluate policies": (
        lambda odd: iopea.evaluate(street(), odd, 100),
        among((1, 2), range(3)),
    ),
    "evaluate steps": (lambda odd: iopea.evaluate(street(), [[3.0]], few(odd)), nothing),
    "evaluate seed": (lambda odd: iopea.evaluate(street(), [[3.0]], 100, odd), SEED),
    "best_in_class simulator": (iopea.best_in_class, nothing),
    "best_in_class seed": (lambda odd: iopea.best_in_class(street(), 64, odd), SEED),
    "best_in_class steps": (lambda odd: iopea.best_in_class(street(), few(odd)), nothing),
    "tell": (lambda odd: iopea.IOPEA(SHOP).tell(odd), nothing),
    "load_state_dict": (lambda odd: iopea.IOPEA(SHOP).load_state_dict(odd), nothing),
    "simulator load_state_dict": (lambda odd: street().load_state_dict(odd), nothing),
    "told policy": (
        lambda odd: iopea.IOPEA(SHOP).tell(iopea.Trajectory(odd, stock=[3.0], sales=[1.0])),
        LEVEL,
    ),
    "told stock": (
        lambda odd: iopea.IOPEA(SHOP).tell(iopea.Trajectory(3, stock=odd, sales=[0.0])),
        real(0, 1e308),
    ),
    "told sales": (
        lambda odd: iopea.IOPEA(SHOP).tell(iopea.Trajectory(3, stock=[3.0], sales=odd)),
        real(0, 3),
    ),
    "Trajectory policy": (
        lambda odd: iopea.Trajectory(odd, stock=[1.0]),
        lambda odd: real(high=1e308)(odd) or isinstance(odd, range | tuple),
    ),
    "Box low": (
        lambda odd: iopea.Box(odd, 2**80),
        lambda odd: real(high=2**80)(odd) or vector(odd),
    ),
    "Box high": (
        lambda odd: iopea.Box(-1, odd),
        lambda odd: real(-1, 1e308)(odd) or vector(odd),
    ),
    "Box net": (lambda odd: iopea.Box(0, 6).net(odd), real(1e-6)),
    "Box contains": (
        lambda odd: iopea.Box(0, 6).contains(odd),
        numbers := lambda odd: (
            ANY(odd)
            or vector(odd)
            or (isinstance(odd, np.ndarray) and odd.shape == (2, 2))
            or (isinstance(odd, list) and not odd)
        ),
    ),
    "Finite": (iopea.Finite, lambda odd: vector(odd)),
    "InformationOrder.from_key": (
        iopea.InformationOrder.from_key,
        lambda odd: vector(odd) or square(odd),
    ),
    "InformationOrder.from_matrix": (iopea.InformationOrder.from_matrix, lambda odd: square(odd)),
    "InformationOrder.full_feedback": (
        lambda odd: iopea.InformationOrder.full_feedback(odd),
        whole(1, 10**6),
    ),
    "changed": (lambda odd: SHOP.changed(lead_time=odd), whole(0, 100)),
    "save_state": (lambda odd: iopea.save_state(odd, "nowhere/else"), nothing),
    "load_state": (iopea.load_state, nothing),
    "read_problem": (iopea.read_problem, nothing),
    "run_all workers": (lambda odd: iopea.run_all(str, [1], odd), whole(1, 4096)),
    "c_gamma": (iopea.c_gamma, whole(1, 10**6)),
    "check_order problem": (lambda odd: iopea.check_order(odd, LAW), nothing),
    "check_order truth": (lambda odd: iopea.check_order(SHOP, odd), nothing),
    "check_order error_rate": (
        lambda odd: iopea.check_order(SHOP, LAW, error_rate=odd, steps=50, replications=2),
        SHARE,
    ),
    "excess_cost costs": (
        lambda odd: iopea.excess_cost(odd, 1.0),
        numbers,
    ),
    "excess_cost optimal_cost": (lambda odd: iopea.excess_cost([1.0], odd), ANY),
    "PolicyController": (
        lambda odd: iopea.PolicyController(SHOP, odd),
        ANY,
    ),
    "OwnPolicies": (
        lambda odd: iopea.OwnPolicies(function=odd, parameters={"a": {"low": 0, "high": 1}}),
        nothing,
    ),
    "Estimates": (
        lambda odd: iopea.Estimates(odd, np.ones(2)),
        lambda odd: square(odd),
    ),
}


def vector(odd):
    return isinstance(odd, range | tuple)


def square(odd):
    return isinstance(odd, np.ndarray) and odd.shape == (2, 2)


@pytest.mark.parametrize("name", CASES)
def test_an_odd_argument_is_refused_in_a_sentence(name):
    call, right = CASES[name]
    for what, value in ODD.items():
        check_case(call, right, value, f"{name}: {what}")


def test_there_are_many_cases():
    assert len(CASES) * len(ODD) > 5000
