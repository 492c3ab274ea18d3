"""A shop that does not do what the model says: cases, lead times, lost days, evening stock."""

import math
from dataclasses import dataclass

import numpy as np

from iopea import Trajectory


@dataclass
class ShopFloor:
    """Plays base-stock levels for a learner and writes down what a careless clerk would.

    Attributes
    ----------
    lead_time : int. The true one.
    multiple, rounding : what orders are multiples of, and how they are rounded to that.
    skipped : float. Probability that a period has no record.
    short : float. Probability that a delivery is a fifth short.
    evening : bool. Whether the stock is written down after sales.
    told : bool. Whether orders, arrivals and gaps are written down as well.
    """

    mean: float = 8.0
    lead_time: int = 2
    multiple: float = 0.0
    rounding: str = "down"
    skipped: float = 0.0
    short: float = 0.0
    evening: bool = False
    told: bool = False
    seed: int = 0

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)
        self.on_hand, self.gap = 0.0, 0
        self.pipeline = [0.0] * self.lead_time

    def order(self, level):
        wanted = max(level - self.on_hand - sum(self.pipeline), 0.0)
        if not self.multiple:
            return wanted
        number = wanted / self.multiple
        whole = {
            "down": math.floor(number + 1e-9),
            "up": math.ceil(number - 1e-9),
            "nearest": math.floor(number + 0.5),
        }
        return self.multiple * whole[self.rounding]

    def period(self, level):
        """One period: stock, sales, order and arrival."""
        order = self.order(level)
        self.pipeline.append(order)
        arrived = self.pipeline.pop(0)
        if self.short and self.rng.random() < self.short:
            arrived = math.floor(0.8 * arrived)
        stock = self.on_hand + arrived
        sales = min(stock, float(self.rng.poisson(self.mean)))
        self.on_hand = stock - sales
        return stock, sales, order, arrived

    def play(self, level, periods):
        """The records of so many periods, fewer where some were skipped."""
        rows = []
        for _ in range(periods):
            stock, sales, order, arrived = self.period(level)
            if self.skipped and self.rng.random() < self.skipped:
                self.gap += 1
                continue
            rows.append((self.on_hand if self.evening else stock, sales, order, arrived, self.gap))
            self.gap = 0
        stock, sales, ordered, received, gap = np.array(rows, dtype=float).reshape(-1, 5).T
        columns = {"stock": stock, "sales": sales}
        if self.told:
            columns |= {"ordered": ordered, "received": received, "gap": gap}
        return Trajectory(level, **columns)

    def teach(self, learner, periods):
        done = 0
        while done < periods:
            play = learner.ask()
            steps = min(play.steps, periods - done)
            learner.tell(self.play(play.policy[0], steps))
            done += steps
        return learner
