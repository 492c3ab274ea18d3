"""What the simulators share whose only chance is demand."""

from __future__ import annotations

from abc import abstractmethod

from iopea.demand import Demand, DemandStream
from iopea.problems.base import Problem, Simulator
from iopea.seeds import seed_for
from iopea.types import Array, Estimates

#: Periods of a path held in memory at a time in long evaluations.
PATH = 2**17


class DemandSimulator(Simulator):
    """A true system that knows the demand law and the demand that was not met."""

    truth: Demand

    def __init__(self, problem: Problem, demand: Demand, seed: int = 0) -> None:
        super().__init__(problem, demand, seed)
        self._stream: DemandStream = demand.stream(seed_for("demand", seed))

    def costs(self, policies: Array, steps: int, batches: int, seed: int) -> Estimates:
        """Batch sums of the true cost of policies on one path of demand, from the start."""
        stream = self.truth.stream(seed_for("evaluation", seed))
        return self._costs_on(stream, policies, steps, batches)

    def hindsight(self, policies: Array, steps: int) -> Array:
        """Average true cost of policies on the demand of this run."""
        stream = self.truth.stream(seed_for("demand", self.seed))
        return self._costs_on(stream, policies, steps, 1).mean

    @abstractmethod
    def _costs_on(
        self, stream: DemandStream, policies: Array, steps: int, batches: int
    ) -> Estimates:
        """Batch sums of the true cost of policies on a path of demand, from the start."""
