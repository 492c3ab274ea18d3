"""Regret of frugal play as a share of what the best policy costs, from 100 to 10^5 periods.

The settings of the first year (``iopea reproduce year``), on other seeds and for longer: from a
quarter, a half, one and two times the best policy, both from an empty shop, on the same demand.
Prints the mean over seeds and starts with its standard error, and what a start at the best policy
costs over that mean. Other learners that take a start are set beside it if they are named.

    python benchmarks/shares.py --horizon 100000 --seeds 40 --learners iopea,erm,order-up-to
"""

import argparse

import numpy as np
from joblib import Parallel, delayed

import iopea
from iopea.learners import learner_named
from iopea.problem_files import problem_from
from iopea.studies.reproduction.year import STARTS, start_at, year_settings

LOOKS = (100, 365, 1000, 10_000, 100_000)


def share(tables, name, start, best, seed, looks):
    """Regret over the cost of the best policy, after each number of steps."""
    problem, truth = problem_from(tables)
    learner = learner_named(name)(problem, start=start, seed=seed)
    costs = iopea.run(learner, problem.simulator(truth, seed), looks[-1]).costs
    least = problem.simulator(truth, seed).play(best, looks[-1]).costs
    costs, least = (np.cumsum(each)[np.array(looks) - 1] for each in (costs, least))
    return (costs - least) / least


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--horizon", type=int, default=1000)
    options.add_argument("--seeds", type=int, default=40)
    options.add_argument("--first-seed", type=int, default=8000)
    options.add_argument("--learners", default="iopea")
    options.add_argument("--only", default="", help="part of the name of a setting")
    options.add_argument("--workers", type=int, default=2)
    chosen = options.parse_args()
    looks = [steps for steps in LOOKS if steps <= chosen.horizon]
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    for setting in year_settings():
        if chosen.only not in setting.name:
            continue
        problem, truth = problem_from(setting.tables)
        best = iopea.best_in_class(problem.simulator(truth), steps=2_000_000).policy
        starts = [start_at(problem.policy_class, best, factor) for factor in STARTS]
        for name in chosen.learners.split(","):
            if not learner_named(name).fits(problem):
                continue
            found = Parallel(chosen.workers)(
                delayed(share)(setting.tables, name, start, best, seed, looks)
                for seed in seeds
                for start in starts
            )
            values = 100 * np.array(found).reshape(len(seeds), len(starts), -1)
            mean, at_best = values.mean(axis=(0, 1)), values[:, 2].mean(axis=0)
            error = values.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(len(seeds))
            cells = (
                f"{steps:,}: {mean[k]:.3g} ± {error[k]:.1g} % ({at_best[k] / mean[k]:.2f})"
                for k, steps in enumerate(looks)
            )
            print(f"{setting.name:38} {name:12} " + "; ".join(cells), flush=True)


if __name__ == "__main__":
    main()
