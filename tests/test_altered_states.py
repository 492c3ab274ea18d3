"""A saved state that was altered anywhere is refused, and the object goes on as before."""

import copy
import json
import math

import numpy as np
import pytest

from iopea import LostSales, Newsvendor, ServiceRateQueue, run
from iopea.errors import InputError
from iopea.learners import LEARNERS
from iopea.systems.dual_sourcing import DualSourcing
from iopea.testing.twins import assert_same_state

#: Alterations of a leaf: a neighbouring value, one of another kind, nothing, and one beyond reason.
ALTERATIONS = {
    "another value": lambda leaf: (not leaf) if isinstance(leaf, bool) else _next(leaf),
    "another kind": lambda leaf: [leaf] if isinstance(leaf, str) else str(leaf),
    "nothing": lambda leaf: 0 if leaf is None else None,
    "a list around it": lambda leaf: [leaf],
    "far too much": lambda leaf: math.inf if leaf != math.inf else -1e300,
}


def _next(leaf):
    if leaf is None:
        return 1
    if isinstance(leaf, str):
        return f"{leaf} "
    if isinstance(leaf, float):
        return math.nextafter(leaf, math.inf) if math.isfinite(leaf) else 0.0
    return [*leaf, 0] if isinstance(leaf, list) else {"more": 0} if leaf == {} else leaf + 1


def leaves(value, path=()):
    """The places of all values in a nesting; of a long list, its first, middle and last."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from leaves(part, (*path, name))
    elif isinstance(value, list) and value:
        for number in sorted({0, len(value) // 2, len(value) - 1}):
            yield from leaves(value[number], (*path, number))
    else:
        yield path


def altered(state, path, change):
    """A copy with another leaf; what lies beside the path is shared."""
    if not path:
        return change(state)
    other = copy.copy(state)
    other[path[0]] = altered(state[path[0]], path[1:], change)
    return other


def plain(value):
    """Arrays as lists, as after a round trip through JSON."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


PROBLEMS = {
    "lost-sales": LostSales,
    "dual-sourcing": DualSourcing,
    "newsvendor": Newsvendor,
    "queue": ServiceRateQueue,
}


def learned(name):
    """A learner and a simulator after a while, and new ones of the same kind."""
    system, _, kind = name.partition(" ")
    problem, truth = PROBLEMS[system].example()
    settings = {"seed": 3, "horizon": 200}
    if kind == "maximal":
        kind, settings = "iopea", settings | {"play": "maximal"}
    learner, fresh = (LEARNERS[kind](problem, **settings) for _ in range(2))
    simulator = problem.simulator(truth, seed=3)
    run(learner, simulator, 150)
    return (learner, fresh), (simulator, problem.simulator(truth))


NAMES = [
    "lost-sales iopea",
    "lost-sales maximal",
    "lost-sales sgd-base-stock",
    "lost-sales convex",
    "lost-sales order-up-to",
    "dual-sourcing iopea",
    "dual-sourcing basa",
    "newsvendor iopea",
    "queue iopea",
    "queue ucrl2",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_leaf_altered_in_five_ways_is_refused(name):
    for saved, fresh in learned(name):
        state = plain(saved.state_dict())
        before = fresh.state_dict()
        found = list(leaves(state))
        assert len(found) > 5
        for path in found:
            for what, change in ALTERATIONS.items():
                with pytest.raises(InputError) as refusal:
                    fresh.load_state_dict(altered(state, path, change))
                assert len(str(refusal.value)) > 30, (path, what)
        assert_same_state(fresh.state_dict(), before)
        fresh.load_state_dict(json.loads(json.dumps(state)))
        assert_same_state(plain(fresh.state_dict()), state)


def test_a_state_without_some_part_or_of_another_schema_is_refused():
    (saved, fresh), _ = learned(NAMES[0])
    state = saved.state_dict()
    for key in state:
        with pytest.raises(InputError):
            fresh.load_state_dict({other: part for other, part in state.items() if other != key})
    with pytest.raises(InputError, match="schema is 8: this version of iopea reads schema"):
        fresh.load_state_dict({**state, "schema": 8})
    for odd in (10**5000, np.array([]), np.arange(9), None, 9.5, "9", True, {}, np.timedelta64(9)):
        with pytest.raises(InputError, match="a state whose schema is") as refusal:
            fresh.load_state_dict({**state, "schema": odd})
        assert len(str(refusal.value)) < 250
    for odd in (None, [], 3, "state", np.arange(3)):
        with pytest.raises(InputError, match="a state is a dictionary"):
            fresh.load_state_dict(odd)
