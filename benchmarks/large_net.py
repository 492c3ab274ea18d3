"""One run of a million steps over 300,001 levels, on one core: time and peak memory.

Run with ``python benchmarks/large_net.py``.
"""

import resource
import time
from pathlib import Path

import iopea
from iopea.problem_files import read_problem

HORIZON = 1_000_000
FOLDER = Path(__file__).parent.parent / "examples" / "paper"


def main() -> None:
    problem, demand = read_problem(FOLDER / "inventory-large-exponential.toml")
    iopea.run(
        iopea.IOPEA(problem, play="maximal", radius=1.0), problem.simulator(demand), 100
    )  # compile
    start = time.perf_counter()
    learner = iopea.IOPEA(problem, play="maximal", horizon=HORIZON, radius=1e-3)
    result = iopea.run(learner, problem.simulator(demand, seed=1), HORIZON)
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{learner.count} levels, {HORIZON} steps: {seconds:.1f} s, peak {memory:.2f} GiB, "
        f"recommended {result.recommendation[0]:.3f}, {result.survivors} survivors"
    )


if __name__ == "__main__":
    main()
