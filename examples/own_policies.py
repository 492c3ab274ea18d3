"""Learn the parameters of an ordering rule of your own, from sales that hide lost demand."""

import iopea


def smoothed(state, level, share):  # type: ignore[no-untyped-def]
    """Order a share of what is missing to the level: large demand is refilled step by step."""
    position = 0.0
    for amount in state:  # stock on hand, then the orders under way
        position += amount
    return share * max(level - position, 0.0)


policies = iopea.OwnPolicies(
    function=smoothed,
    ranges={"level": {"low": 0, "high": 60}, "share": {"low": 0.1, "high": 1}},
    most_held=60,
)
shop = iopea.LostSales(lead_time=3, holding_cost=1, lost_sales_cost=15, policies=policies)
demand = iopea.Poisson(mean=6)
result = iopea.run(iopea.IOPEA(shop, horizon=5_000), shop.simulator(demand, seed=1), 5_000)
best = iopea.best_in_class(shop.simulator(demand), steps=1_000_000)
gap = best.relative_gaps(shop.simulator(demand), [result.recommendation])[0]
level, share = result.recommendation
print(f"Level {level:.1f}, share {share:.2f}: {gap:.2%} above the best.")
