"""Arguments of a wrong kind get a sentence that names them, and nothing odd is taken silently."""

import pickle
import warnings
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import iopea
from iopea import IOPEA, LostSales, Trajectory, best_in_class, evaluate, run
from iopea.demand import Constant, Empirical, Exponential, Normal, Poisson, Uniform
from iopea.errors import InputError

LEVELS = {"low": 0, "high": 20, "step": 1}
SHOP = LostSales(lead_time=2, holding_cost=1, lost_sales_cost=9, levels=LEVELS)
MASKED = np.ma.masked_array([5.0, 1.0, 1.0], [True, False, False])
DATES = np.array(["2020-01-01"], dtype="M8[D]")
SPAN = np.timedelta64(5, "D")


def street():
    return SHOP.simulator(Poisson(mean=3), seed=1)


def told(stock, sales=(3.0,)):
    IOPEA(SHOP).tell(Trajectory(5, stock=stock, sales=sales))


def gaps(choices):
    street_best().relative_gaps(street(), choices)


@cache
def street_best():
    return best_in_class(street(), 64)


def costly(**keys):
    return LostSales(
        **{"lead_time": 2, "holding_cost": 1, "lost_sales_cost": 9, "levels": LEVELS, **keys}
    )


NO_NUMBER = "The column 'stock' of a trajectory holds a value that is not a number"
CASES = {
    "a rollout": (lambda: IOPEA(SHOP).tell(street().play((5.0,), 1)), "tell a Trajectory"),
    "a dictionary": (lambda: IOPEA(SHOP).tell({"stock": [1]}), "tell a Trajectory"),
    "masked stock": (lambda: told(MASKED[:1]), NO_NUMBER),
    "text": (lambda: told(["5"]), NO_NUMBER),
    "dates": (lambda: told(DATES), NO_NUMBER),
    "complex": (lambda: told([5 + 0j]), NO_NUMBER),
    "a truth value": (lambda: told(True), NO_NUMBER),
    "nothing": (lambda: told([None]), NO_NUMBER),
    "beyond double range": (lambda: told([10**400]), NO_NUMBER),
    "ragged": (lambda: told([[1.0], [2.0, 3.0]]), NO_NUMBER),
    "no policy": (lambda: Trajectory(None, stock=[1.0]), "one or more finite numbers, not None"),
    "a table of policies": (lambda: Trajectory([[1.0]], stock=[1.0]), "one or more finite numbers"),
    "rule a list": (lambda: IOPEA(SHOP, rule=[]), "rule"),
    "play a list": (lambda: IOPEA(SHOP, play=[]), "play is a name"),
    "start true": (lambda: IOPEA(SHOP, start=True), "The start is True"),
    "start complex": (lambda: IOPEA(SHOP, start=1j), "The start is 1j"),
    "start text": (lambda: IOPEA(SHOP, start="10"), "The start is '10'"),
    "start a date": (lambda: IOPEA(SHOP, start=DATES), "The start is"),
    "start a table": (lambda: IOPEA(SHOP, start=[[3.0]]), "The start is"),
    "state masked": (lambda: IOPEA(SHOP, state=MASKED), "The state is"),
    "state ragged": (lambda: IOPEA(SHOP, state=[[1], [2, 3]]), "The state is"),
    "problem none": (lambda: IOPEA(None), "The problem is None: give a Problem"),
    "problem text": (lambda: IOPEA("shop"), "The problem is 'shop': give a Problem"),
    "seed negative": (lambda: IOPEA(SHOP, seed=-1), "seed must be a whole number"),
    "seed half": (lambda: SHOP.simulator(Poisson(mean=3), seed=1.5), "seed must be a whole"),
    "delta text": (lambda: IOPEA(SHOP, delta="0.1"), "delta must"),
    "demand none": (lambda: SHOP.simulator(None), "The demand is None: give a law of demand"),
    "demand a number": (lambda: SHOP.simulator(3), "The demand is 3: give a law of demand"),
    "cut off": (lambda: Normal(mean=-100, sd=1), "give a mean of at least -3"),
    "values masked": (lambda: Empirical(values=MASKED), "values"),
    "swapped": (lambda: run(street(), IOPEA(SHOP), 10), "The learner is .* give a Learner"),
    "no simulator": (lambda: run(IOPEA(SHOP), SHOP, 10), "The simulator is .* give a Simulator"),
    "half a step": (lambda: run(IOPEA(SHOP), street(), 1.5), "must be a whole number"),
    "best of nothing": (lambda: best_in_class(None), "The simulator is None"),
    "policies ragged": (lambda: evaluate(street(), [[1.0], [2.0, 3.0]], 100), "The policies are"),
    "policies text": (lambda: evaluate(street(), "ab", 100), "The policies are 'ab'"),
    "policies NaN": (lambda: evaluate(street(), [[np.nan]], 100), "The policies are"),
    "too many parameters": (lambda: evaluate(street(), [[1.0, 2.0]], 100), "have 2 parameters"),
    "play half a step": (lambda: street().play(5, 1.5), "number of steps must be a whole number"),
    "play for ever": (lambda: street().play(5, 10**13), "at most 100000000, several times"),
    "play backwards": (lambda: street().play(5, -1), "number of steps must be a whole number"),
    "play NaN": (lambda: street().play(np.nan, 1), "The policy nan is not a policy of the class"),
    "play below 0": (lambda: street().play(-1, 1), "policy -1 .* level from 0 to 20 in steps of 1"),
    "play beyond": (lambda: street().play(21, 1), "policy 21 is not a policy of the class"),
    "play between": (lambda: street().play(4.5, 1), "policy 4.5 is not a policy of the class"),
    "play a pair": (lambda: street().play((4, 5), 1), "policy 4, 5 is not a policy of the class"),
    "play text": (lambda: street().play("5", 1), "The policy is '5': give the parameters"),
    "play a controller": (lambda: street().play(object(), 1), "give the parameters of a policy"),
    "another shop": (
        lambda: run(IOPEA(SHOP), SHOP.changed(lead_time=3).simulator(Poisson(mean=3)), 10),
        "problem.lead_time is 2 for the learner and 3 for the simulator",
    ),
    "evaluate below 0": (lambda: evaluate(street(), [[-1]], 100), "policy -1 is not a policy of"),
    "evaluate beyond": (lambda: evaluate(street(), [[3], [1e9]], 100), "policy 1000000000 is not"),
    "evaluate between": (lambda: evaluate(street(), [[5.5]], 100), "policy 5.5 is not a policy"),
    "gap of text": (lambda: gaps(["x"]), "The policy is 'x': give the parameters"),
    "gap of nothing": (lambda: gaps([None]), "The policy is None: give the parameters"),
    "gap between": (lambda: gaps([(5.5,)]), "policy 5.5 is not a policy of the class"),
    "gap of a number": (lambda: gaps(5), "The choices are 5: give a list of recommendations"),
    "gap of no system": (lambda: street_best().gaps(SHOP, [(5.0,)]), "The simulator is .* give a"),
    "play a truth value": (lambda: street().play((True,), 3), "The policy is .True,.: give the"),
    "play a masked one": (
        lambda: street().play((MASKED[1:],), 3),
        "give the parameters of a policy",
    ),
    "truth values among numbers": (lambda: told([3, 3], [2, True]), "The column 'sales'"),
    "a span of time": (lambda: Poisson(mean=SPAN), "mean must be a finite number"),
    "lead time a span": (lambda: SHOP.changed(lead_time=SPAN), "lead_time must be a whole number"),
    "level a span": (lambda: costly(levels={"low": 0, "high": SPAN}), "high must be a finite"),
    "seed a span": (lambda: IOPEA(SHOP, seed=SPAN), "seed must be a whole number"),
    "run a span": (lambda: run(IOPEA(SHOP), street(), SPAN), "horizon must be a whole number"),
    "stock a span": (lambda: told([SPAN]), NO_NUMBER),
    "order of a span": (
        lambda: iopea.InformationOrder.full_feedback(SPAN),
        "a whole number of pol",
    ),
    "cost too large": (
        lambda: costly(lost_sales_cost=1e160),
        r"^lost_sales_cost must be at most 1e\+32 in size, not 1e\+160.$",
    ),
    "cost nearly infinite": (lambda: costly(holding_cost=1.7e308), r"at most 1e\+32 in size"),
    "cost of many digits": (lambda: costly(holding_cost=10**400), r"at most 1e\+32 in size"),
    "level too large": (lambda: costly(levels={"low": 0, "high": 1e33}), "high must be at most"),
    "levels too close": (
        lambda: IOPEA(costly(levels={"low": 0, "high": 1e-300})),
        "from 0.0 to 1e-300 is too short to measure: give ends that are equal, or at least 1e-31",
    ),
    "queue of demand": (
        lambda: iopea.ServiceRateQueue.example()[0].simulator(Poisson(mean=4)),
        "The truth is Poisson.*: give a QueueRates",
    ),
    "dynamics of demand": (
        lambda: iopea.FiniteMDP.example()[0].simulator(Poisson(mean=4)),
        "The truth is Poisson.*: give a Dynamics",
    ),
    "hidden arm of demand": (
        lambda: iopea.HardInstance.example()[0].simulator(Poisson(mean=4)),
        "The truth is Poisson.*: give a HiddenArm",
    ),
    "save an object": (lambda: iopea.save_state({"a": object()}, "x"), "Cannot save object"),
    "save a list": (lambda: iopea.save_state([1], "x"), "Cannot save .1.: a state is a dictionary"),
    "load a number": (lambda: iopea.load_state(3), "The path is 3"),
}


@pytest.mark.parametrize("name", CASES)
def test_odd_arguments_are_refused_in_a_sentence(name):
    odd, words = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=words):
            odd()


def test_numbers_of_any_kind_are_taken():
    for stock in ([5], [Fraction(5)], np.array([5], dtype=np.int8), np.array([5], dtype="f4"), 5):
        told(stock)
    assert IOPEA(SHOP, start=np.int64(4)).start == (4.0,)
    assert IOPEA(SHOP, start=np.array([4.0])).start == (4.0,)


@pytest.mark.parametrize(
    ("kind", "policies"),
    [
        (iopea.FiniteMDP, [(1e9,) * 3, (-1.0,) * 3, (0.5,) * 3, (7.0,) * 3]),
        (iopea.ServiceRateQueue, [(4,) * 3, (-1,) * 3, (2.9,) * 3]),
        (iopea.HardInstance, [(1e3,), (-1,), (0.5,)]),
        (iopea.Newsvendor, [(1e9,)]),
        (iopea.DualSourcing, [(1e9,) * 2]),
    ],
)
def test_only_policies_of_the_class_are_evaluated(kind, policies):
    problem, truth = kind.example()
    system = problem.simulator(truth)
    for policy in policies:
        with pytest.raises(InputError, match="is not a policy of the class"):
            evaluate(system, [policy], 1000)
    inside = problem.policy_class.net(problem.policy_class.extent)
    assert len(evaluate(system, inside, 1000).cost) == len(inside)


def test_policies_of_a_list_are_evaluated_as_written():
    problem, _ = iopea.FiniteMDP.example()
    listed = problem.policy_class.points
    assert problem.policy_class.outside(listed) is None
    assert problem.policy_class.outside(listed + 1e-12) is None
    assert problem.policy_class.outside(listed[::-1] + 0.1) == tuple(listed[-1] + 0.1)


def test_no_action_beyond_the_tables_reaches_compiled_code():
    problem, truth = iopea.FiniteMDP.example()
    for action in (-1.0, 2.0, 1e9):
        with pytest.raises(InputError, match="not a whole number from 0 to 1"):
            problem.simulator(truth).costs(np.full((1, 3), action), 1000, 64, 0)


@pytest.mark.parametrize(
    "odd",
    [
        "5", b"5", 5 + 0j, Decimal(5), True, np.nan, 5.5, 1e9, np.ma.masked, None, "abc", 10**400,
        {}, [[1], [2, 3]], [[1]], date(2020, 1, 1), DATES[0], SPAN, (5, 6),
    ],
)  # fmt: skip
def test_only_a_policy_of_the_class_may_survive(odd):
    with pytest.raises(InputError, match="The policy "):
        IOPEA(SHOP).survives(odd)


def test_a_policy_survives_as_written():
    learner = IOPEA(costly(levels={"low": 0, "high": 7, "step": 0.1}))
    assert learner.survives(0.3)
    assert 0.3 not in learner.surviving


@pytest.mark.parametrize("rows", [[[True, 0, 0]], [["1", 0, 0]], np.ones((1, 3), dtype=bool)])
def test_policies_of_a_list_are_whole_numbers(rows):
    known = iopea.FiniteMDP.example()[0].describe()
    known.pop("kind")
    with pytest.raises(InputError, match="policies must be rows of whole numbers"):
        iopea.FiniteMDP(**{**known, "policies": rows})


@pytest.mark.parametrize("cost", [0, 1e-30, 1e32])
@pytest.mark.parametrize("high", [1e-30, 1e32])
@pytest.mark.parametrize("law", [Exponential(mean=1e-9), Constant(value=1e32)])
def test_the_largest_costs_and_levels_are_computed_without_a_warning(cost, high, law):
    shop = costly(holding_cost=cost, lost_sales_cost=1e32, levels={"low": 0, "high": high})
    result = run(IOPEA(shop), shop.simulator(law), 200)
    assert np.isfinite(result.average_cost)


def test_a_negative_zero_is_zero():
    assert SHOP.simulator(Uniform(low=0, high=-0.0)).play((5.0,), 5).costs.size == 5


def test_the_columns_of_a_trajectory_stay_as_they_were_checked():
    learner, path = IOPEA(SHOP), street().play((5.0,), 3).trajectory
    with pytest.raises(TypeError):
        path.columns["sales"] = np.array(["x"])
    with pytest.raises(AttributeError):
        path.columns = None
    with pytest.raises(ValueError, match="read-only"):
        path.columns["sales"][0] = 9.0
    assert dict(path.columns).keys() == {"stock", "sales"}
    copied = pickle.loads(pickle.dumps(path))
    assert copied.policy == path.policy
    assert all((copied[name] == path[name]).all() for name in path.columns)
    learner.tell(Trajectory(learner.ask().policy, stock=[3.0], sales=[1.0]))
    assert learner.steps == 1
