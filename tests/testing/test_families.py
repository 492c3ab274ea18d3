"""The contract of families and rules, on those of a user and on broken ones."""

import numpy as np
import pytest

import iopea
from iopea.errors import InputError
from iopea.testing import ContractError, check_family, check_learner, check_rule

RANGE = {"low": 0, "high": 12, "step": 1}


class Levels(iopea.OrderingFamily):
    """Base-stock levels, as a user would write them."""

    kind = "own-levels"
    parameters = ("level",)
    levels: iopea.Range

    def policy_class(self, system):
        return iopea.box_of(self.levels, labels=("level",))

    @staticmethod
    def order(state, parameters, signal):
        return max(parameters[0] - state.sum(), 0.0)

    def order_on(self, system, policies):
        return iopea.InformationOrder.from_key(policies[:, 0])

    def claim(self, system):
        return "sample-path"


def changed(**methods):
    return type("Own", (Levels,), {"__module__": __name__, **methods})(levels=RANGE)


def test_a_family_of_a_user_keeps_to_the_contract():
    check_family(Levels(levels=RANGE))


def some_order(state, parameters, signal):
    """More than the level while some was sold."""
    more = 5.0 if 0.0 < state[0] < parameters[0] - 1.0 else 0.0
    return max(parameters[0] + more - state.sum(), 0.0)


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        (
            {"parameters": ("one", "two")},
            r"Own.parameters are \('one', 'two'\), but policies have 1",
        ),
        ({"most_stock": lambda self, system: 3.0}, "Own.most_stock is 3, but policy"),
        ({"order": staticmethod(some_order)}, "Own.most_stock is 12, but policy"),
        (
            {"order_on": lambda self, system, policies: iopea.InformationOrder.from_key(-policies)},
            "Rejected: the sample-path claim is false",
        ),
        ({"made_for": int}, "acts in the system of no example. None has a int: see made_for"),
    ],
)
def test_a_broken_family_is_told_what_is_wrong(methods, words):
    with pytest.raises(ContractError, match=words):
        check_family(changed(**methods))


def test_a_family_is_checked_with_its_ranges():
    with pytest.raises(InputError, match="The family is Levels: give an instance with its ranges"):
        check_family(Levels)


class Halves(iopea.Rule):
    """Keep the better half of all policies after every epoch, which doubles."""

    def epoch_length(self, epoch):
        return 50 * 2**epoch

    def eliminate(self, estimates, policies, epoch, order=None, look=None):
        middle = np.nanmedian(estimates.mean)
        return iopea.Elimination(~(estimates.mean > middle), float(middle))


def test_a_rule_of_a_user_keeps_to_the_contract():
    check_rule(Halves)
    check_rule(Halves())


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"eliminate": iopea.Rule.eliminate}, "it lacks eliminate, which every Rule has"),
        (
            {"epoch_length": lambda self, epoch: 5},
            "is 5 for epoch 1 and 5 for epoch 40: epochs must",
        ),
        (
            {"epoch_length": lambda self, epoch: 5 - epoch},
            "epoch_length gives 0: it must give whole",
        ),
        ({"eliminate": lambda self, *given: None}, "must return an Elimination, not None"),
    ],
)
def test_a_broken_rule_is_told_what_is_wrong(methods, words):
    with pytest.raises(ContractError, match=words):
        check_rule(type("Own", (Halves,), methods))


@pytest.mark.parametrize("said", [None, {}])
def test_settings_of_a_learner_are_a_table(said):
    kind = type("Own", (iopea.OrderUpTo,), {"name": "own", "settings": lambda self: said})
    with pytest.raises(ContractError, match=r"Own.settings returns .*: it must return a table of"):
        check_learner(kind, *iopea.LostSales.example())


class Random(iopea.OrderUpTo):
    name = "random-asks"
    asked = 0

    def _ask(self):
        self.asked += 1
        return iopea.Play((float(self.asked % 7),), 5, 1)


def test_a_learner_that_asks_at_random_is_told_so():
    shop, demand = iopea.LostSales.example()
    with pytest.raises(
        InputError, match=r"and then for Play.*_ask must answer the same until the n"
    ):
        iopea.run(Random(shop), shop.simulator(demand), 50)
