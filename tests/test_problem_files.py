"""Problem files with a table of policies: read, described, and read back."""

import pytest

from iopea import InputError
from iopea.problem_files import parse_problem, tables_of
from iopea.systems.dual_sourcing.base_surge import BaseSurge
from iopea.systems.dual_sourcing.dual_index import DualIndex
from iopea.systems.lost_sales.base_stock import BaseStock
from iopea.systems.shop.base import Levels
from iopea.testing.tools import as_toml

DEMAND = """
[demand]
distribution = "poisson"
mean = 1.5
"""
LOST_SALES = """
[problem]
kind = "lost-sales"
lead_time = 2
holding_cost = 1.0
lost_sales_cost = 10.0
"""
DUAL_SOURCING = """
[problem]
kind = "dual-sourcing"
regular_lead_time = 3
expedited_lead_time = 1
holding_cost = 1.0
lost_sales_cost = 10.0
expedited_cost = 0.5
"""
BASE_STOCK = """
[policies]
kind = "base-stock"
levels = { low = 0.0, high = 7.0, step = 0.5 }
"""
DUAL_INDEX = """
[policies]
kind = "dual-index"
expedited_levels = { low = 0.0, high = 6.0 }
regular_levels = { low = 1.0, high = 8.0 }
zero_demand = 0.3
"""
BASE_SURGE = """
[policies]
kind = "base-surge"
orders = { low = 0.0, high = 1.0, step = 0.25 }
levels = { low = 0.0, high = 6.0, step = 1.0 }
"""
FAMILIES = {
    "base-stock": (LOST_SALES, BASE_STOCK, BaseStock(levels=Levels(low=0, high=7, step=0.5))),
    "dual-index": (
        DUAL_SOURCING,
        DUAL_INDEX,
        DualIndex(
            expedited_levels=Levels(low=0, high=6),
            regular_levels=Levels(low=1, high=8),
            zero_demand=0.3,
        ),
    ),
    "base-surge": (
        DUAL_SOURCING,
        BASE_SURGE,
        BaseSurge(orders=Levels(low=0, high=1, step=0.25), levels=Levels(low=0, high=6, step=1)),
    ),
}


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_table_of_policies_is_read_described_and_read_back(kind):
    problem_table, policies, family = FAMILIES[kind]
    problem, demand = parse_problem(problem_table + policies + DEMAND)
    assert problem.family == family
    assert problem.family.kind == kind
    assert problem.system.holding_cost == 1.0
    assert demand.mean == 1.5
    tables = tables_of(problem, demand.table())
    again, same = parse_problem(as_toml(tables))
    assert (again, same) == (problem, demand)
    assert type(again) is type(problem)
    assert again.describe() == problem.describe()
    # The default family stands in [problem], any other in a table of its own.
    assert ("policies" in tables) == (kind == "base-surge")


def test_the_default_family_may_stand_in_either_place():
    levels = "levels = { low = 0.0, high = 7.0, step = 0.5 }\n"
    one, _ = parse_problem(LOST_SALES + levels + DEMAND)
    other, _ = parse_problem(LOST_SALES + BASE_STOCK + DEMAND)
    assert one == other
    assert one.describe() == other.describe()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            DUAL_SOURCING + BASE_SURGE.replace("base-surge", "base-surg"),
            "Unknown kind of policies for dual-sourcing 'base-surg': did you mean 'base-surge'?",
        ),
        (
            LOST_SALES + BASE_SURGE,
            "Unknown kind of policies for lost-sales 'base-surge': did you mean 'base-stock'?",
        ),
        (
            LOST_SALES + BASE_STOCK.replace('kind = "base-stock"\n', ""),
            r"\[policies\] needs a kind, such as kind = 'base-stock'",
        ),
        (
            LOST_SALES + "levels = { low = 0.0, high = 5.0 }\n" + BASE_STOCK,
            "levels is a key of base-stock policies, but a family is given as policies: leave",
        ),
        (
            DUAL_SOURCING + "zero_demand = 0.3\n" + BASE_SURGE,
            "zero_demand is a key of dual-index policies, but a family is given as policies",
        ),
        (
            DUAL_SOURCING + BASE_SURGE.replace("orders", "order"),
            "Unknown key in BaseSurge 'order': did you mean 'orders'?",
        ),
        (
            DUAL_SOURCING + BASE_SURGE.replace("levels", "level"),
            "Unknown key in BaseSurge 'level': did you mean 'levels'?",
        ),
        (LOST_SALES + 'policies = "base-stock"\n', "policies must be a family, or its table"),
        (LOST_SALES + "policies = { kind = 'base-stock' }\n" + BASE_STOCK, "are given twice"),
        ("policies = 3\n" + LOST_SALES, r"A problem file needs a table \[policies\]"),
        (LOST_SALES, "needs 'levels', which is missing"),
    ],
)
def test_tables_of_policies_that_are_wrong_are_refused_in_a_sentence(text, words):
    with pytest.raises(InputError, match=words):
        parse_problem(text + DEMAND)
