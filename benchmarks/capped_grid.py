"""The best capped base-stock policy by ``best_in_class``, beside that of an exhaustive grid.

For the paper's inventory settings in both profiles: all pairs of a grid over the whole box on the
path on which the search works. Run with ``python benchmarks/capped_grid.py [points per axis]``;
about two minutes with 160.
"""

import sys

import numpy as np

import iopea
from iopea.problem_files import problem_from
from iopea.studies.reproduction.scenarios import PROFILES, scenarios

STEPS = 400_000


def main() -> None:
    per_axis = int(sys.argv[1]) if len(sys.argv) > 1 else 160
    seen = set()
    for profile in PROFILES:
        for name, scenario in scenarios(profile).items():
            if not name.startswith("inventory") or scenario.system() in seen:
                continue
            seen.add(scenario.system())
            shop, demand = problem_from(scenario.tables)
            family = iopea.CappedBaseStock.within(shop)
            capped = iopea.LostSales(shop.system, family)
            simulator = capped.simulator(demand)
            found = iopea.best_in_class(simulator, steps=STEPS)
            grid = capped.policy_class.thinned(per_axis, 1e-6)
            costs = iopea.evaluate(simulator, grid, STEPS).cost
            least = int(np.argmin(costs))
            more = found.cost / costs[least] - 1
            print(
                f"{name:28} {profile:13} search {found.policy[0]:7.3f}, {found.policy[1]:6.3f} at "
                f"{found.cost:.4f}; grid {grid[least, 0]:7.3f}, {grid[least, 1]:6.3f} at "
                f"{costs[least]:.4f}: {100 * more:+.4f} %",
                flush=True,
            )


if __name__ == "__main__":
    main()
