"""BASA compared with the clairvoyant base-surge policy, in both profiles of the paper.

``python benchmarks/base_surge.py --seeds 4 --horizons 10000 100000 1000000`` prints, for every
dual-sourcing setting, the gap of the recommendation to the best base-surge policy, on the same
demand path, and the excess of the run over T times its cost g*, as a share of that. Normal demand
has mean M/2 as published and M/3 as stated; the expedited cost is charged as stated, but not as
published.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import iopea
from iopea.demand import Normal
from iopea.learners.baselines.basa import BASA
from iopea.problem_files import read_problem
from iopea.systems.dual_sourcing import DualSourcing
from iopea.systems.dual_sourcing.base_surge import best_base_surge

PAPER = Path(__file__).parents[1] / "examples" / "paper"


def cases() -> Iterator[tuple[str, DualSourcing, Any]]:
    for path in sorted(PAPER.glob("dual-*.toml")):
        problem, demand = read_problem(path)
        assert isinstance(problem, DualSourcing)
        laws: dict[str, Any] = {path.stem: demand}
        if isinstance(demand, Normal):
            stated = Normal(**{**demand.model_dump(), "mean": demand.maximum / 3})
            laws = {f"{path.stem}, published": demand, f"{path.stem}, stated": stated}
        for name, law in laws.items():
            for cost in (0.5, 0.0):
                yield f"{name}, c_e = {cost}", problem.changed(expedited_cost=cost), law


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of names")
    parser.add_argument("--horizons", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    for name, problem, law in cases():
        if not name.startswith(tuple(options.only)):
            continue
        system = problem.simulator(law)
        best = best_base_surge(system, steps=2_000_000)
        print(f"{name}: best {best.policy} at {best.cost:.4g}", flush=True)

        def once(seed: int, problem: Any = problem, law: Any = law) -> list[tuple[Any, float]]:
            learner = BASA(problem, horizon=options.horizons[-1], seed=seed)
            street = problem.simulator(law, seed)
            found, costs, done = [], 0.0, 0
            for horizon in options.horizons:
                result = iopea.run(learner, street, horizon - done)
                costs, done = costs + float(result.costs.sum()), horizon
                found.append((result.recommendation, costs / horizon))
            return found

        runs = iopea.run_all(once, range(options.seeds), options.workers)
        for row, horizon in enumerate(options.horizons):
            gaps = best.relative_gaps(system, [run[row][0] for run in runs])
            excesses = [run[row][1] / best.cost - 1 for run in runs]
            print(
                f"  T {horizon:>8}: gap {100 * np.mean(gaps):.2f} % (largest "
                f"{100 * np.max(gaps):.2f} %), excess over T g* {100 * np.mean(excesses):.2f} %",
                flush=True,
            )


if __name__ == "__main__":
    main()
