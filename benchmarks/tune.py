"""Choose the learners' hyperparameters: ``make tune`` or ``python benchmarks/tune.py [NAMES]``.

For each learner the file src/iopea/learners/baselines/tuning/NAME.toml holds the search space, the
paper's settings on which it is searched, by kind of problem, and seeds that no comparison uses.
Every point of the space is run on all of them. The chosen point has the least sum of the largest
gap of any run's recommendation and the mean regret, as shares of the best cost: recommendations
must be good in every run, and learning must not cost much. The choice is written to the file;
nothing else in it changes.
"""

import argparse
import itertools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import iopea
from iopea.learners import LEARNERS, learner_named
from iopea.problem_files import read_problem
from iopea.simulate import compare_runs

ROOT = Path(__file__).parents[1]
TUNING = ROOT / "src" / "iopea" / "learners" / "tuning"
PAPER = ROOT / "examples" / "paper"


def points(space: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*space.values()):
        yield dict(zip(space, values, strict=True))


def score(
    name: str, files: list[str], horizon: int, seeds: list[int], point: dict[str, Any], workers: int
) -> tuple[float, float]:
    """The largest gap of a recommendation, and mean regret, over settings and seeds."""
    gaps, regrets = [], []
    for file in files:
        problem, truth = read_problem(PAPER / f"{file}.toml")
        best = iopea.best_in_class(problem.simulator(truth), steps=2_000_000)

        def once(seed: int, problem: Any = problem, truth: Any = truth) -> iopea.RunResult:
            learner: Any = LEARNERS[name]
            one = learner(problem, horizon=horizon, seed=seed, **point)
            return iopea.run(one, problem.simulator(truth, seed), horizon)

        runs = iopea.run_all(once, seeds, workers)
        fresh = [problem.simulator(truth, seed) for seed in seeds]
        compared = compare_runs(runs, fresh, best)
        gaps.append(max(found.relative_gap for found in compared))
        regrets.append(np.mean([found.relative_regret for found in compared]))
    return float(max(gaps)), float(np.mean(regrets))


def with_choice(text: str, kind: str, point: dict[str, Any]) -> str:
    """The text of a file with a new ``[chosen]`` table for a kind of problem."""
    lines = [f"[chosen.{kind}]", *(f"{key} = {as_toml(value)}" for key, value in point.items())]
    table = "\n".join(lines) + "\n"
    pattern = re.compile(rf"^\[chosen\.{re.escape(kind)}\]\n(?:[^\[\n].*\n?)*", re.MULTILINE)
    if pattern.search(text):
        return pattern.sub(lambda _: table, text)
    return f"{text.rstrip()}\n\n{table}"


def as_toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


def tune(name: str, kinds: list[str], workers: int) -> None:
    path = TUNING / f"{name}.toml"
    content = tomllib.loads(path.read_text("utf-8"))
    for kind, setting in content["settings"].items():
        if kinds and kind not in kinds:
            continue
        space = {**content["space"], **content.get("spaces", {}).get(kind, {})}
        rows = []
        for point in points(space):
            gap, regret = score(
                name, setting["files"], setting["horizon"], content["seeds"], point, workers
            )
            rows.append((gap, regret, point))
            print(
                f"{name} {kind} {point}: gap <= {100 * gap:.3f} %, regret {100 * regret:.2f} %",
                flush=True,
            )
        _, _, chosen = min(rows, key=lambda row: row[0] + row[1])
        print(f"{name} {kind}: chosen {chosen}", flush=True)
        text = with_choice(path.read_text("utf-8"), kind, chosen)
        if kind == next(iter(content["settings"])):  # also the default of other kinds
            text = with_choice(text, "default", {**content["chosen"]["default"], **chosen})
        path.write_text(text, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="learners; all that have a file if none is given")
    parser.add_argument("--kinds", nargs="+", default=[], help="of problems; all if none is given")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    names = options.names or sorted(path.stem for path in TUNING.glob("*.toml"))
    for name in names:
        learner_named(name)
        tune(name, options.kinds, options.workers)


if __name__ == "__main__":
    main()
