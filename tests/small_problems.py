"""Small problems of the tests, and the files of the paper's settings."""

from pathlib import Path

from iopea.demand import Exponential
from iopea.systems.lost_sales import LostSales
from iopea.systems.newsvendor import Newsvendor

#: Problem files of the paper's settings.
PAPER = Path(__file__).parents[1] / "examples" / "paper"
#: Demand of the paper's small settings.
DEMAND = Exponential(mean=1.0, maximum=3.0, zero_probability=0.3)


def shop(**changes):
    """The paper's small inventory setting, some keys changed."""
    values = {"lead_time": 2, "holding_cost": 1.0, "lost_sales_cost": 10.0}
    return LostSales(**{**values, "levels": {"low": 0.0, "high": 7.0}, **changes})


def stand(**changes):
    """A newsvendor whose best quantity is the 80 % quantile of demand, some keys changed."""
    values = {"overage_cost": 1.0, "underage_cost": 4.0, "levels": {"low": 0.0, "high": 10.0}}
    return Newsvendor(**{**values, **changes})
