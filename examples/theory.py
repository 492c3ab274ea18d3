"""Orders, widths and the regret bound, without any case study."""

import iopea

# Three shops; a level informs all lower levels of its own shop, and no other shop.
levels = [(shop, level) for shop in range(3) for level in range(4)]
order = iopea.InformationOrder.from_relation(levels, lambda a, b: a[0] == b[0] and b[1] <= a[1])
print(f"width {order.width()}, maximal {[levels[i] for i in order.maximal()]}")

bound = iopea.base_stock_bound(
    1_000_000, lead_time=2, holding_cost=1, lost_sales_cost=10, bound=7, restart_time=10
)
for name, term in bound.terms.items():
    print(f"{name:15} {term:12.4g}")
print(f"{'total':15} {bound.total:12.4g}")
