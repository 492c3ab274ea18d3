"""The paper's settings: best policy, gap of the recommendation and regret, of each rule.

Run with ``make settings``; about ten minutes on two cores. ``published`` runs what the published
experiments ran: no expedited cost, the hitting or boundary estimator, their ranges.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import iopea
from iopea.files import read_problem
from iopea.learners.iopea import Restart
from iopea.problems.base import Problem
from iopea.problems.dual_sourcing import Estimator

FOLDER = Path(__file__).parent.parent / "examples" / "paper"


@dataclass(frozen=True)
class Setting:
    """Horizon, best policy and cost by independent computation, cost printed for IOPEA."""

    horizon: int
    policy: tuple[float, ...]
    cost: float
    printed: float


KNOWN = {
    "inventory-small-exponential": Setting(100_000, (3.3,), 2.57, 2.6),
    "inventory-small-normal": Setting(100_000, (4.7,), 2.25, 2.3),
    "inventory-small-uniform": Setting(100_000, (5.0,), 2.98, 3.0),
    "inventory-large-exponential": Setting(300_000, (72,), 40.2, 40.1),
    "inventory-large-normal": Setting(300_000, (116,), 39.7, 40.2),
    "inventory-large-uniform": Setting(300_000, (116,), 49.9, 49.5),
    "dual-small-exponential": Setting(100_000, (1.6, 2.5), 2.16, 2.0),
    "dual-small-normal": Setting(100_000, (1.9, 2.8), 1.65, 1.3),
    "dual-small-uniform": Setting(100_000, (2.4, 2.9), 2.17, 1.7),
    "dual-large-exponential": Setting(300_000, (24, 40), 29.8, 26.0),
    "dual-large-normal": Setting(300_000, (26, 48), 23.2, 17.7),
    "dual-large-uniform": Setting(300_000, (34, 42), 29.8, 23.5),
    "queue-decaying": Setting(300_000, (0, 3, 3), 9.5404, 10.5),
    "queue-fixed": Setting(300_000, (0, 3, 3), 11.6576, 13.1),
}


def published(name: str, problem: Any, truth: Any) -> tuple[Problem, Any, int]:
    """Problem, truth and horizon of the published runs."""
    horizon = KNOWN[name].horizon
    if name.startswith("dual"):
        change: dict[str, Any] = {"expedited_cost": 0.0, "estimator": "hitting"}
        if name == "dual-large-exponential":  # best explained by these values
            change["expedited_levels"] = {"low": 0.0, "high": 30.0}
            truth = type(truth)(mean=10.0, maximum=30.0, zero_probability=0.3)
            horizon = 100_000
        problem = type(problem)(**{**_fields(problem), **change})
    if name.startswith("queue"):
        problem = type(problem)(**{**_fields(problem), "estimator": "boundary"})
    return problem, truth, horizon


def _fields(problem: Any) -> dict[str, Any]:
    return {key: value for key, value in problem.describe().items() if key != "kind"}


def learn(
    problem: Problem, truth: Any, rule: str, horizon: int, seeds: range, workers: int
) -> list[iopea.RunResult]:
    # The published runs returned to the empty shop between epochs.
    restart: Restart = "return" if rule == "published" else "none"

    def once(seed: int) -> iopea.RunResult:
        learner = iopea.IOPEA(problem, rule=rule, horizon=horizon, restart=restart, seed=seed)
        return iopea.run(learner, problem.simulator(truth, seed), horizon)

    return iopea.run_all(once, seeds, workers)


def show(policy: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.4g}" for value in policy)


def report_paired(
    rule: str, problem: Problem, truth: Any, horizon: int, seeds: range, workers: int
) -> None:
    best = iopea.best_in_class(problem.simulator(truth))
    runs = learn(problem, truth, rule, horizon, seeds, workers)
    gaps = best.relative_gaps(problem.simulator(truth), [run.recommendation for run in runs])
    regrets = [iopea.relative_regret(run, best) for run in runs]
    # The same less the noise of demand: what the best policy cost on the same demand.
    excess = [
        (run.costs.mean() - problem.simulator(truth, s).play(best.policy, horizon).costs.mean())
        / best.cost
        for s, run in zip(seeds, runs, strict=True)
    ]
    survivors = [run.survivors for run in runs if run.survivors is not None]
    print(
        f"  {rule:9} gap {100 * gaps.mean() + 0.0:.4f} % (largest {100 * gaps.max() + 0.0:.4f} %), "
        f"regret {100 * np.mean(regrets):.2f} +- {_error(regrets):.2f} %, against the best policy "
        f"on equal noise {100 * np.mean(excess):.2f} +- {_error(excess):.2f} %, survivors "
        f"{np.mean(survivors):.0f}, alpha {np.mean([run.effective_alpha for run in runs]):.3g}",
        flush=True,
    )


def report_published(name: str, problem: Any, truth: Any, seeds: range, workers: int) -> None:
    problem, truth, horizon = published(name, problem, truth)
    runs = learn(problem, truth, "published", horizon, seeds, workers)
    policies = np.array([run.recommendation for run in runs])
    cost = iopea.evaluate(problem.simulator(truth), policies, steps=2_000_000).cost
    printed = KNOWN[name].printed
    print(
        f"  published cost {cost.mean():.3f} +- {cost.std() / len(runs) ** 0.5:.3f} "
        f"(printed {printed}, {100 * (cost.mean() / printed - 1):+.1f} %)",
        flush=True,
    )


def _error(shares: list[float]) -> float:
    return float(100 * np.std(shares) / len(shares) ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of names")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rules", nargs="+", default=["paired", "published"])
    parser.add_argument("--estimators", nargs="+", default=[None], help="of dual sourcing")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for name, known in KNOWN.items():
        if not name.startswith(tuple(options.only)):
            continue
        problem, truth = read_problem(FOLDER / f"{name}.toml")
        best = iopea.best_in_class(problem.simulator(truth))
        print(
            f"{name}: best {show(best.policy)} (known {show(known.policy)}), cost {best.cost:.4g} "
            f"+- {best.standard_error:.2g} (known {known.cost:.5g}, "
            f"{100 * (best.cost / known.cost - 1):+.2f} %)",
            flush=True,
        )
        for rule in options.rules:
            if rule == "published":
                report_published(name, problem, truth, seeds, options.workers)
                continue
            estimators: list[Estimator | None] = options.estimators
            for estimator in estimators if name.startswith("dual") else [None]:
                chosen: Any = problem
                if estimator is not None:
                    print(f"  estimator {estimator}:")
                    chosen = type(chosen)(**{**_fields(problem), "estimator": estimator})
                report_paired(rule, chosen, truth, known.horizon, seeds, options.workers)


if __name__ == "__main__":
    main()
