"""Helpers of the checks: refusals, comparison bit for bit or up to noise, files, and data."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from iopea.errors import InputError, IopeaError
from iopea.problem_files import parse_problem, tables_of
from iopea.problems.base import Problem
from iopea.seeds import seed_for
from iopea.storage import load_state, save_state
from iopea.testing.twins import assert_same_state
from iopea.types import Array, Estimates, Policy, State, Trajectory, Truth, show_policy

Check = Callable[[Problem, Any], None]
#: Trajectories, and whether each is to be evaluated.
Story = list[tuple[Trajectory, bool]]

#: Standard errors by which averages may differ.
ERRORS = 6.0
#: Relative tolerance for rounding.
SAME = 1e-9
#: Number and length of the batches by which true costs are compared.
BATCHES, BATCH_STEPS = 40, 1000
#: Steps that an evaluator observes, enough for batches to be merged, and the longest play.
STORY, LONGEST_PLAY = 3000, 400
#: Share of the plays that are evaluated, and of those followed by a return to the initial state.
COUNTED, RETURNED = 0.8, 0.4
#: Most policies of a net that is checked.
MOST_NET = 5000


class ContractError(AssertionError):
    """A broken contract, described in a sentence."""


def require(holds: object, sentence: str) -> None:
    """Raise a :class:`ContractError` with this sentence unless the condition holds."""
    if not holds:
        raise ContractError(sentence)


def require_same(one: State, other: State, sentence: str) -> None:
    """Refuse states that are not the same bit for bit, and say where they differ."""
    mine, others = dict(_leaves(one)), dict(_leaves(other))
    for name in mine | others:
        try:
            assert_same_state({name: mine.get(name)}, {name: others.get(name)})
        except AssertionError:
            raise ContractError(f"{sentence}; but they differ in {name}.") from None


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield name, value
        return
    for key, part in value.items():
        yield from _leaves(part, f"{name}.{key}" if name else str(key))


def require_inside(problem: Problem, points: Array, what: str) -> None:
    """Refuse policies outside the class, as far as its nets and ranges show."""
    known = problem.policy_class
    require(
        points.ndim == 2 and points.shape[1] == known.dimension and len(points),
        f"{what} must have {known.dimension} parameters for each policy, not {points.shape}.",
    )
    ends = np.array([known.ends(axis) for axis in range(known.dimension)]).T
    outside = ((points < ends[0]) | (points > ends[1])).any(axis=1)
    radius = known.extent or 1.0
    if known.count(radius) == known.count(radius / 8) <= MOST_NET:  # all policies are listed
        listed = set(map(as_policy, known.net(radius)))
        outside |= [as_policy(point) not in listed for point in points]
    require(
        not outside.any(),
        f"{what} holds {name_of(points[outside.argmax()])}, which is not in the class.",
    )


def near(one: Array, other: Array, scale: float) -> bool:
    """Whether two samples may have the same mean, up to noise and rounding relative to a scale."""
    variance = sum(float(sample.var(ddof=1)) / sample.size for sample in (one, other))
    gap = abs(float(one.mean() - other.mean()))
    return gap <= ERRORS * math.sqrt(variance) + SAME * scale


def refusal(action: Callable[[], object]) -> str:
    """The message with which an action is refused; empty if it is not refused properly."""
    try:
        action()
    except IopeaError as error:
        return str(error)
    except Exception:  # unchecked values may raise anything
        return ""
    return ""


def random(use: str) -> np.random.Generator:
    """A generator with a fixed seed for each use."""
    return np.random.default_rng(seed_for("contract", use))


def as_policy(point: Array) -> Policy:
    """A row of an array as a policy."""
    return tuple(map(float, point))


def name_of(point: Array) -> str:
    """A policy in a sentence."""
    return f"policy ({show_policy(as_policy(point), 6)})"


def true_costs(problem: Problem, truth: Truth, points: Array) -> Array:
    """True costs per step, an array (batches, n), on common noise."""
    costs = problem.simulator(truth).costs(points, BATCHES * BATCH_STEPS, BATCHES, seed=1)
    return np.asarray(costs.sums / costs.sizes[:, None])


def says_nothing(estimates: Estimates) -> bool:
    """Whether there is no estimate of any policy."""
    return bool(np.isnan(estimates.mean).all())


# Problem files and saved states.


def as_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables of JSON values as the text of a file.

    >>> print(as_toml({"problem": {"kind": "queue", "rates": [1, {"low": 0.5}], "fast": True}}))
    [problem]
    "kind" = "queue"
    "rates" = [1, {"low" = 0.5}]
    "fast" = true
    """
    lines = []
    for name, table in tables.items():
        lines.append(f"[{name}]")
        lines += [f"{json.dumps(key)} = {_as_toml(value)}" for key, value in table.items()]
    return "\n".join(lines)


def _as_toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {_as_toml(part)}" for key, part in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_toml, value))}]"
    require(value is not None, "A problem file can't hold None: leave such keys out.")
    return json.dumps(value, ensure_ascii=False)


def read_again(problem: Problem, truth: Truth) -> tuple[Problem, Truth]:
    """A problem and its truth, read back from the file that they describe."""
    text = as_toml(tables_of(problem, truth.table()))
    try:
        return parse_problem(text)
    except Exception as error:  # a faulty reader may raise anything
        raise ContractError(
            f"describe() and table() make a problem file that can't be read: {error!r}"
        ) from error


def stored(state: State) -> State:
    """A state, saved to a file and read back."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "state.npz"
        try:
            save_state(state, path)
        except (TypeError, InputError) as error:
            raise ContractError(f"A state can't be saved: {error}") from None
        return load_state(path)


# Data.


def tell_story(problem: Problem, truth: Truth, points: Array, steps: int = STORY) -> Story:
    """Random plays of these policies, some not evaluated, with returns to the initial state."""
    system, rng = problem.simulator(truth, seed=2), random("story")
    story: Story = []
    while steps > 0:
        length = int(rng.integers(1, LONGEST_PLAY))
        policy = as_policy(points[rng.integers(len(points))])
        story.append((system.play(policy, length).trajectory, bool(rng.random() < COUNTED)))
        if rng.random() < RETURNED:
            back = system.play(problem.restart_policy, LONGEST_PLAY, until_start=True)
            story.append((back.trajectory, False))
        steps -= length
    return story


def cut(story: Story, lengths: Iterator[int]) -> Story:
    """The same plays in pieces of these lengths, which may be 0."""
    pieces: Story = []
    for trajectory, evaluate in story:
        first = 0
        while first < len(trajectory):
            last = first + next(lengths)
            rows = {name: values[first:last] for name, values in trajectory.columns.items()}
            pieces.append((Trajectory(trajectory.policy, **rows), evaluate))
            first = last
    return pieces
