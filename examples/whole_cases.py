"""A shop that orders in whole cases of 12, and records what was really ordered and received.

Without these two columns the records contradict the model, nothing is eliminated, and the learner
says why. With them the cases are taken into account, and the range narrows to the best level.
"""

import numpy as np

import iopea

shop = iopea.LostSales(
    lead_time=2,
    holding_cost=1.0,
    lost_sales_cost=10.0,
    levels={"low": 0, "high": 80, "step": 1},
)

for told in (False, True):
    rng = np.random.default_rng(1)
    learner = iopea.IOPEA(shop)
    on_hand, under_way = 0.0, [0.0, 0.0]
    for _ in range(700):
        (level,) = learner.ask().policy
        wanted = max(level - on_hand - sum(under_way), 0.0)
        ordered = 12.0 * (wanted // 12.0)
        under_way.append(ordered)
        received = under_way.pop(0)
        stock = on_hand + received
        sales = min(stock, float(rng.poisson(8)))
        on_hand = stock - sales
        more = {"ordered": [ordered], "received": [received]} if told else {}
        learner.tell(iopea.Trajectory(level, stock=[stock], sales=[sales], **more))
    low, high = learner.surviving.min(), learner.surviving.max()
    print(f"{'With' if told else 'Without'} the columns: levels {low:g} to {high:g}.")
    print(*learner.warnings)
