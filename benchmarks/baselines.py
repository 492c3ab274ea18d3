"""All learners on the paper's settings: gap of what they recommend, regret, time.

``python benchmarks/baselines.py --learners convex erm --only inventory --seeds 5``
prints one row per setting, learner and horizon. Gaps and regrets are shares of the best cost in
the class. ``--horizons`` gives a curve: one run of the longest, looked at on the way.
"""

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import iopea
from iopea.files import read_problem
from iopea.learners import LEARNERS, learner_named

PAPER = Path(__file__).parents[1] / "examples" / "paper"
#: Steps of the paper's runs: of small settings, and of all others.
SHORT, LONG = 100_000, 300_000


def watched(
    name: str, problem: Any, truth: Any, horizons: list[int], seed: int
) -> tuple[list[Any], list[float], float]:
    """Recommendations and average costs at the horizons of one run, and its seconds."""
    learner: Any = LEARNERS[name]
    one = learner(problem, horizon=horizons[-1], seed=seed)
    system = problem.simulator(truth, seed)
    choices, averages, total, elapsed, done, seconds = [], [], 0.0, 0.0, 0, 0.0
    for horizon in horizons:
        start = time.perf_counter()
        result = iopea.run(one, system, horizon - done)
        seconds += time.perf_counter() - start
        total, elapsed = total + float(result.costs.sum()), elapsed + result.elapsed
        done = horizon
        choices.append(result.recommendation)
        averages.append(total / elapsed)
    return choices, averages, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS))
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of names of settings")
    parser.add_argument("--horizons", type=int, nargs="+", help="ascending; the paper's if absent")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for path in sorted(PAPER.glob("*.toml")):
        if not path.stem.startswith(tuple(options.only)):
            continue
        problem, truth = read_problem(path)
        horizons = options.horizons or [SHORT if "small" in path.stem else LONG]
        best = iopea.best_in_class(problem.simulator(truth))
        print(f"{path.stem}: best in class {best.policy} at {best.cost:.4g}", flush=True)
        for name in options.learners:
            if not learner_named(name).fits(problem):
                continue
            try:
                LEARNERS[name](problem)
            except iopea.InputError as error:
                print(f"  {error}", flush=True)
                continue

            once = partial(watched, name, problem, truth, horizons)
            runs = iopea.run_all(once, seeds, options.workers)
            for row, horizon in enumerate(horizons):
                gaps = best.relative_gaps(
                    problem.simulator(truth), [choices[row] for choices, _, _ in runs]
                )
                regrets = [best.share(averages[row] - best.cost) for _, averages, _ in runs]
                print(
                    f"  {name:14} T {horizon:>8}: gap {100 * gaps.mean():.3f} % (largest "
                    f"{100 * gaps.max():.3f} %), regret {100 * np.mean(regrets):.2f} %",
                    flush=True,
                )
            speed = horizons[-1] * len(runs) / sum(seconds for _, _, seconds in runs)
            print(f"  {name:14} {speed:,.0f} steps per second and run", flush=True)


if __name__ == "__main__":
    main()
