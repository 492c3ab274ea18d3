"""Replay of any family along the records of a policy that informs others on every sample path.

Where the stock of a candidate is not above the real one, its sales follow from the real ones,
whether demand was censored or not. A policy that informs a candidate on every sample path, and is
played from the beginning, always has at least as much stock.

Hand-over. When another policy takes over, the real shop is in the state that the last one left, and
may hold less than the candidates, which have their own states from the beginning. A candidate with
more stock than the real shop waits until the real stock is at least its own. Whether it waits
depends only on the past, and demand is independent from period to period, so the demand of the
periods that count has the distribution of all demand: waiting causes no bias.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iopea.problems.batches import Batches
from iopea.state import Part, array, parts
from iopea.systems.shop.tracker import Tracked
from iopea.types import Array, Estimates, Mask, Policy, Trajectory


class PathReplay(Tracked):
    """Advances candidates along the sales of policies that inform them on every sample path.

    With ``claimed`` all candidates are treated as informed, to test a claim that they are.
    """

    saved = parts(policies=array, states=array, batches=Part)

    def __init__(
        self, problem: Any, policies: Array, threads: int = 1, claimed: bool = False
    ) -> None:
        self._problem, self._policies = problem, np.array(policies, dtype=np.float64)
        self._rule = problem.system.compiled(problem.family)
        self._threads, self._claimed = threads, claimed
        self._real = problem.family.tracker(problem)
        self._states = np.zeros((len(policies), self._rule.wide))
        self._latest: tuple[Policy, Mask] | None = None  # played, and those it informs
        self._batches = Batches(2 * len(policies))  # costs of all policies, then their steps

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed periods, which count for the candidates that they inform."""
        stock, sales = trajectory["stock"], trajectory["sales"]
        self._real.add(trajectory)
        if not evaluate:
            return 0
        informed = self._informed(trajectory.policy)
        done = 0
        while done < len(trajectory):
            last = done + self._batches.size - self._batches.filled
            self._advance(sales[done:last], stock[done:last] + self._real.near, informed)
            done = last
        return len(trajectory)

    def _informed(self, played: Policy) -> Mask:
        if self._claimed:
            return np.ones(len(self._policies), dtype=np.bool_)
        if self._latest is None or self._latest[0] != played:
            self._latest = played, self._informed_by(played)
        return self._latest[1]

    def _informed_by(self, played: Policy) -> Mask:
        """Whom a policy informs: by the order on the candidates, where it is one of them."""
        itself = (self._policies == np.array(played)).all(axis=1)
        if itself.any():
            return np.asarray(self._problem.order(self._policies).informed_by(int(itself.argmax())))
        last = len(self._policies)
        order = self._problem.order(np.vstack([self._policies, played]))
        return np.asarray(order.informed_by(last)[:last])

    def _advance(self, sales: Array, most: Array, informed: Mask) -> None:
        """Add periods of the batch in progress, each informative up to the stock ``most``."""
        batches = self._batches
        running = batches.running.reshape(2, -1)
        states, totals = self._states[informed], running[:, informed]
        # Costs are added one by one, so that rounding does not depend on how periods are split.
        self._rule.replay(
            sales, self._policies[informed], states, totals,
            np.full(sales.size, np.inf) if self._claimed else most, self._threads,
        )  # fmt: skip
        self._states[informed], running[:, informed] = states, totals
        full = batches.filled + sales.size == batches.size
        batches.add(sales.size, batches.running[None].copy() if full else batches.costs[:0])
        if full:
            batches.running[:] = 0.0

    def estimates(self) -> Estimates:
        """Costs by batch, including the one in progress."""
        costs = self._batches.costs
        if self._batches.filled:
            costs = np.vstack([costs, self._batches.running])
        sums, sizes = np.split(costs, 2, axis=1)
        return Estimates(sums, sizes)

    def forget(self) -> None:
        """Drop all sums, but keep the states."""
        self._batches.clear()

    def keep(self, mask: Mask) -> None:
        """Keep only these policies."""
        self._latest = None
        self._policies, self._states = self._policies[mask], self._states[mask]
        self._batches.keep(np.tile(mask, 2))

    def _loaded(self) -> None:
        self._latest = None
