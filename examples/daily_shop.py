"""A shop that reports once a day and saves the learner every night.

Half-way through, everything is loaded from disk, as after a restart of the machine.
"""

import tempfile
from pathlib import Path

import iopea
from iopea.demand import Poisson

shop = iopea.LostSales(
    lead_time=2,
    holding_cost=1.0,
    lost_sales_cost=10.0,
    levels={"low": 0, "high": 30, "step": 1},
)
street = shop.simulator(Poisson(mean=4))  # stands in for the shop; no learner sees inside

with tempfile.TemporaryDirectory() as folder:
    saved = Path(folder) / "learner.npz"
    learner = iopea.IOPEA(shop, start=12)  # the level in force today
    for day in range(400):
        if day == 200:
            learner = iopea.IOPEA(shop, start=12)
            learner.load_state_dict(iopea.load_state(saved))
        level = learner.ask().policy
        evening = street.play(level, 1).trajectory  # the day's stock on the shelf, and its sales
        learner.tell(evening)
        iopea.save_state(learner.state_dict(), saved)

low, high = learner.surviving.min(), learner.surviving.max()
print(f"After {learner.steps} days: order up to {learner.recommend()[0]:g};")
print(f"the best level lies between {low:g} and {high:g}.")
