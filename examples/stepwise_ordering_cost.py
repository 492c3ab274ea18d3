"""A cost that is not convex: every started pallet of four units costs 6 to deliver.

Methods that need convexity don't apply here; the information order does not care.
"""

import math

import iopea
from iopea.demand import NegativeBinomial


def pallets(stock: float, sales: float, order: float) -> float:
    """Delivery cost of one period's order."""
    return 6.0 * math.ceil(order / 4.0)


shop = iopea.LostSales(
    lead_time=1,
    holding_cost=1.0,
    lost_sales_cost=15.0,
    levels={"low": 0, "high": 40, "step": 1},
    period_cost=pallets,
    cost_bound=60.0,
)
demand = NegativeBinomial(mean=3, size=2)
best = iopea.best_in_class(shop.simulator(demand), steps=1_000_000)
found = iopea.compare_to_best(iopea.IOPEA(shop), shop.simulator(demand, seed=1), 50_000, best)
print(f"Learned {found.recommendation[0]:g}, best in class {best.policy[0]:g}.")
print(f"Regret {100 * found.relative_regret:.2f} % of the best cost.")
