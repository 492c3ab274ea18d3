"""The command ``warmup``."""

from __future__ import annotations

import time
from typing import get_args

import typer

import iopea

#: Steps of the runs that trigger compilation, and points of the nets per parameter.
_STEPS = 2000
_POINTS = 32


def warmup() -> None:
    """Compile all kernels in advance. Compiled code is cached for later runs."""
    from iopea.learners.iopea import Restart
    from iopea.problems.base import example_of
    from iopea.testing.twins import dual_replay_speed, replay_speed

    start = time.perf_counter()
    for kind in iopea.PROBLEMS.values():
        problem, truth = example_of(kind)
        radius = problem.policy_class.extent / _POINTS or None
        for restart in get_args(Restart):
            learner = iopea.IOPEA(problem, restart=restart, radius=radius)
            iopea.run(learner, problem.simulator(truth), _STEPS)
        iopea.best_in_class(problem.simulator(truth), steps=_STEPS)
    replay_speed(2, "float32", policies=64, periods=200)
    dual_replay_speed((2, 0), "float32", policies=64, periods=200)
    typer.echo(f"Compiled in {time.perf_counter() - start:.1f} s.")
