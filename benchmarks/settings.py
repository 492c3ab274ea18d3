"""The paper's six inventory settings: recommendation, gap and regret of each rule.

Run with ``make settings``; about two minutes on two cores.
"""

import argparse
from pathlib import Path

import numpy as np

import iopea
from iopea.files import read_problem
from iopea.learners.iopea import Restart

FOLDER = Path(__file__).parent.parent / "examples" / "paper"
HORIZON = {"small": 100_000, "large": 300_000}

# Best level and cost by independent simulation, and the cost printed in the paper for IOPEA.
KNOWN = {
    "small-exponential": (3.3, 2.57, 2.6),
    "small-normal": (4.7, 2.25, 2.3),
    "small-uniform": (5.0, 2.98, 3.0),
    "large-exponential": (72, 40.2, 40.1),
    "large-normal": (116, 39.7, 40.2),
    "large-uniform": (116, 49.9, 49.5),
}


def learn(name: str, rule: str, first: int, seeds: int, workers: int) -> list[iopea.RunResult]:
    problem, demand = read_problem(FOLDER / f"inventory-{name}.toml")
    horizon = HORIZON[name.split("-")[0]]
    # The published runs returned to the empty shop between epochs.
    restart: Restart = "return" if rule == "published" else "none"

    def once(seed: int) -> iopea.RunResult:
        learner = iopea.IOPEA(problem, rule=rule, horizon=horizon, restart=restart)
        return iopea.run(learner, problem.simulator(demand, seed), horizon)

    return iopea.run_all(once, range(first, first + seeds), workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=KNOWN, default=list(KNOWN))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rules", nargs="+", default=["paired", "published"])
    options = parser.parse_args()
    for name in options.only:
        level, cost, printed = KNOWN[name]
        problem, demand = read_problem(FOLDER / f"inventory-{name}.toml")
        best = iopea.best_in_class(problem.simulator(demand))
        print(
            f"{name}: best {best.policy[0]:.2f} (known {level}), cost {best.cost:.3f} "
            f"+- {best.standard_error:.3f} (known {cost}, {100 * (best.cost / cost - 1):+.2f} %)"
        )
        for rule in options.rules:
            runs = learn(name, rule, options.first_seed, options.seeds, options.workers)
            gaps = best.relative_gaps(problem.simulator(demand), [r.recommendation for r in runs])
            regrets = [iopea.relative_regret(r, best) for r in runs]
            # The same less the noise of demand: what the best level cost on the same demand.
            seeds = range(options.first_seed, options.first_seed + options.seeds)
            steps = HORIZON[name.split("-")[0]]
            excess = [
                run.costs.mean()
                - problem.simulator(demand, s).play(best.policy, steps).costs.mean()
                for s, run in zip(seeds, runs, strict=True)
            ]
            line = (
                f"  {rule:9} gap {100 * gaps.mean():.4f} %, regret {100 * np.mean(regrets):.2f} "
                f"+- {100 * np.std(regrets) / len(runs) ** 0.5:.2f} %, "
                f"against the best level on equal demand {100 * np.mean(excess) / best.cost:.2f} "
                f"+- {100 * np.std(excess) / best.cost / len(runs) ** 0.5:.2f} %, "
                f"survivors {np.mean([r.survivors for r in runs]):.0f}"
            )
            if rule == "published":
                mean = best.cost * (1 + gaps.mean())
                line += (
                    f", cost {mean:.2f} (printed {printed}, {100 * (mean / printed - 1):+.1f} %)"
                )
            print(line, flush=True)


if __name__ == "__main__":
    main()
