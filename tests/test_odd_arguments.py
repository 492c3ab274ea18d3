"""Arguments of a wrong kind get a sentence that names them, and nothing odd is taken silently."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

import iopea
from iopea import IOPEA, LostSales, Trajectory, best_in_class, evaluate, run
from iopea.demand import Empirical, Normal, Poisson
from iopea.errors import InputError

SHOP = LostSales(
    lead_time=2, holding_cost=1, lost_sales_cost=9, levels={"low": 0, "high": 20, "step": 1}
)
MASKED = np.ma.masked_array([5.0, 1.0, 1.0], [True, False, False])
DATES = np.array(["2020-01-01"], dtype="M8[D]")


def street():
    return SHOP.simulator(Poisson(mean=3), seed=1)


def told(stock, sales=(3.0,)):
    IOPEA(SHOP).tell(Trajectory(5, stock=stock, sales=sales))


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
