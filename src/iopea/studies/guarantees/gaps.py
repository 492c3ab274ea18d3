"""Regret on the instances of the lower bound, at the advantage that is hardest for the learner.

An advantage is a multiple of the least one that can be found in the given time. At small multiples
nobody finds the best arm and little is lost, at large ones it is found at once: the worst regret
lies between, and that is what the theorem bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from iopea.studies.guarantees.fits import at_most
from iopea.studies.guarantees.regrets import regret_of_arms
from iopea.studies.guarantees.study import Check, Part, Values
from iopea.systems.hard_instance import HardInstance
from iopea.types import Array

#: The largest advantage; at 1/2 the best arm would leave nothing to chance.
_MOST = 0.45


@dataclass(frozen=True)
class ArmsPart(Part):
    """Runs on one instance with one advantage.

    Attributes
    ----------
    policies, width, span, reveal : int. Of the instance.
    advantage : float. Of the hidden arm [Δ].
    looks : tuple of int. Steps after which regret is read; the last ends the run.
    rule : str. Of elimination.
    """

    policies: int
    width: int
    span: int
    reveal: int
    advantage: float
    looks: tuple[int, ...]
    rule: str = "paired"

    @property
    def instance(self) -> HardInstance:
        """What is played on."""
        return HardInstance(
            policies=self.policies, width=self.width, span=self.span, reveal=self.reveal
        )

    def measure(self) -> Values:
        """Regret of each run at each look, the hidden arm being drawn at random."""
        settings = {"rule": self.rule}
        if self.rule == "theorem":
            settings |= {"horizon": self.looks[-1]}  # type: ignore[dict-item]
        return {
            "regret": [
                regret_of_arms(self.instance, self.advantage, seed, self.looks, settings)
                for seed in self.seeds
            ]
        }


def advantage_at(instance: HardInstance, horizon: int, multiple: float) -> float:
    """Δ = c sqrt(w/T'), under full feedback c sqrt(log |Θ|/T'), with T' episodes; at most 0.45.

    >>> advantage_at(HardInstance(policies=8, width=4), 10_000, 2.0)
    0.04
    """
    squared = math.log(instance.system.policies) if instance.system.full_feedback else instance.system.width
    return min(multiple * math.sqrt(squared / instance.system.episodes(horizon)), _MOST)


def final_regrets(parts: Sequence[ArmsPart], values: Mapping[str, Values]) -> Array:
    """Regret at the end of each run, an array (runs, parts)."""
    return np.array([[run[-1] for run in values[part.key]["regret"]] for part in parts]).T


def has_learned(what: str, part: ArmsPart, regrets: Array, alarm: float) -> Check:
    """Check that the regret is less than half of what blocks drawn at random cost.

    A rule that eliminates nothing plays all blocks alike, and fails.
    """
    blind = part.advantage * part.looks[-1] * (1 - 1 / part.width)
    claim = f"{what}: regret is at most half of what it costs to learn nothing"
    return at_most(claim, regrets, np.full_like(regrets, blind), 0.5, alarm)
