from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from numpy.random import PCG64, Generator

from iopea.errors import InputError
from iopea.learners.base import Learner
from iopea.problems.base import Evaluator, Simulator
from iopea.state import (
    Noise,
    Part,
    Stateful,
    array,
    by_number,
    each,
    indices,
    mask,
    numbers,
    optional,
    parts,
    record,
    shaped,
)
from iopea.storage import load_state, save_state
from iopea.testing.twins import assert_same_state


@dataclass(frozen=True)
class Epoch:
    steps: int
    best: tuple[float, ...]


class Interval(NamedTuple):
    low: float
    high: float


class Sums(Stateful):
    saved = parts(total=array, count=int)

    def __init__(self, width=2):
        self.total, self.count = np.zeros(width), 0

    def add(self, row):
        self.total += row
        self.count += 1


class Base(Stateful):
    saved = parts(
        steps=int,
        level=float,
        open=bool,
        phase=str,
        policy=numbers,
        best=optional(numbers),
        queue=each(numbers),
        epochs=each(record(Epoch, steps=int, best=numbers)),
        interval=record(Interval, low=float, high=float),
        last=lambda values: deque(map(int, values), len(values)),
    )

    def __init__(self):
        self._steps, self._level, self.open, self._phase = 0, 0.0, False, "look"
        self._policy, self._best = (1.0, 2.0), None
        self._queue, self._epochs = [(1.0, 2.0)], []
        self._interval, self._last = Interval(0.0, 8.0), deque([0, 0], 2)


class Everything(Base):
    saved = parts(
        means=array,
        single=array,
        counts=shaped(2, -1),
        alive=indices,
        known=optional(mask),
        sums=Part,
        sources=by_number(Sums),
        rng=Noise,
        bits=Noise,
    )

    def __init__(self, seed=0):
        super().__init__()
        self._means, self._single = np.array([np.nan, -0.0]), np.zeros(3, dtype=np.float32)
        self._counts, self._alive = np.zeros((2, 0), dtype=np.int64), np.arange(4)
        self._known = None
        self._sums, self._sources = Sums(), {}
        self._rng, self._bits = Generator(PCG64(seed)), PCG64(seed + 1)
        self._loads = 0
        self._loaded()

    def _loaded(self):
        self._cache = float(np.nansum(self._means))
        self._loads += 1

    def go_on(self):
        """Change every part, as a run does."""
        draw = self._rng.random()
        self._steps += 1
        self._level += draw
        self.open, self._phase = not self.open, "sample"
        self._policy = self._best = (draw, np.random.Generator(self._bits).random())
        self._queue = [*self._queue, self._policy]
        self._epochs.append(Epoch(self._steps, self._policy))
        self._interval = Interval(self._interval.low + draw, np.inf)
        self._last.append(self._steps)
        self._means = np.append(self._means, draw)
        self._single += np.float32(draw)
        self._counts = np.append(self._counts, [[1], [self._steps]], axis=1)
        self._alive = self._alive[1:]
        self._known = np.array([True, False])
        self._sums.add(draw)
        self._sources.setdefault(10 * self._steps, Sums(3)).add(draw)


def after(steps, seed=0):
    thing = Everything(seed)
    for _ in range(steps):
        thing.go_on()
    return thing


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_stored_state_goes_on_bit_for_bit_in_the_place_of_any_other(steps, tmp_path):
    saved = after(steps)
    save_state(saved.state_dict(), tmp_path / "state")
    for loaded in (Everything(7), after(2, seed=9)):
        loaded.load_state_dict(load_state(tmp_path / "state"))
        assert_same_state(loaded.state_dict(), saved.state_dict())
        twin = after(steps)
        loaded.go_on()
        twin.go_on()
        assert_same_state(loaded.state_dict(), twin.state_dict())
        assert vars(loaded).keys() == vars(twin).keys()
        for name, value in vars(twin).items():
            assert type(vars(loaded)[name]) is type(value), name
        assert loaded._single.dtype == np.float32
        assert loaded._counts.dtype == np.int64
        assert loaded._last.maxlen == 2
        assert loaded._epochs == twin._epochs


def test_parts_are_saved_by_their_names_as_json_values_and_arrays():
    state = after(1).state_dict()
    expected = {"steps": 1, "open": True, "phase": "sample", "last": [0, 1]}
    assert {name: state[name] for name in expected} == expected
    assert state["queue"] == [[1.0, 2.0], state["best"]]
    assert state["epochs"] == [{"steps": 1, "best": state["best"]}]
    assert state["interval"] == {"low": state["level"], "high": np.inf}
    assert state["sources"]["10"]["count"] == state["sums"]["count"] == 1
    assert state["rng"] == after(1)._rng.bit_generator.state
    assert state["bits"] == after(1)._bits.state
    arrays = {"means", "single", "counts", "alive", "known", "sums", "sources"}
    json.dumps({name: part for name, part in state.items() if name not in arrays})


def test_a_subclass_names_what_it_adds():
    names = list(Base().state_dict())
    assert list(Everything().state_dict())[: len(names)] == names
    assert "alive" not in names

    class Finer(Sums):
        saved = parts(count=float, spacing=float)

        def __init__(self):
            super().__init__()
            self._spacing = 0.5

    finer = Finer()
    finer.load_state_dict({"total": [1.0], "count": 2, "spacing": 0.25})
    assert_same_state(finer.state_dict(), {"total": np.ones(1), "count": 2.0, "spacing": 0.25})
    assert isinstance(finer.count, float)


def test_nothing_is_shared_with_a_state():
    thing = after(2)
    state = thing.state_dict()
    before = after(2).state_dict()
    thing.go_on()
    thing._means[:] = 1.0
    assert_same_state(state, before)
    other = Everything()
    other.load_state_dict(state)
    other.go_on()
    other._alive[:] = 0
    other._single[:] = 1.0
    assert_same_state(state, before)


def test_generators_stay_the_same_objects():
    """Others may hold them, too."""
    thing = Everything()
    held = np.random.Generator(thing._bits)
    thing.load_state_dict(after(3).state_dict())
    assert held.random() == np.random.Generator(after(3)._bits).random()


def test_what_follows_from_the_state_is_made_anew():
    thing, saved = Everything(), after(2)
    thing.load_state_dict(saved.state_dict())
    assert thing._cache == float(np.nansum(saved._means))
    assert thing._loads == 2


@pytest.mark.parametrize("name", list(Everything().state_dict()))
def test_a_state_without_a_part_is_refused_and_changes_nothing(name):
    thing, state = after(2), after(4, seed=3).state_dict()
    del state[name]
    with pytest.raises(InputError, match=r"^Cannot load .* missing or damaged\.$"):
        thing.load_state_dict(state)
    assert_same_state(thing.state_dict(), after(2).state_dict())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", "many"),
        ("steps", None),
        ("level", [1.0]),
        ("policy", None),
        ("policy", ["a"]),
        ("best", 3.0),
        ("queue", [1.0]),
        ("epochs", [{"steps": 1}]),
        ("epochs", [{"steps": 1, "best": None}]),
        ("interval", [0.0, 1.0]),
        ("last", 3),
        ("means", "damaged"),
        ("means", None),
        ("means", [[1.0], [1.0, 2.0]]),
        ("single", {"a": 1}),
        ("counts", np.zeros(3)),
        ("alive", ["a"]),
        ("sums", {}),
        ("sums", {"total": np.zeros(2)}),
        ("sums", None),
        ("sources", {"1": {"total": np.zeros(2)}}),
        ("sources", {"one": Sums().state_dict()}),
        ("rng", None),
        ("rng", {}),
        ("rng", np.random.MT19937(0).state),
        ("bits", {"bit_generator": "PCG64"}),
    ],
)
def test_a_damaged_part_is_refused_and_changes_nothing(name, value):
    thing, state = after(2), after(4, seed=3).state_dict()
    with pytest.raises(InputError, match="missing or damaged"):
        thing.load_state_dict({**state, name: value})
    assert_same_state(thing.state_dict(), after(2).state_dict())


@pytest.mark.parametrize("state", [None, 3, [], "state"])
def test_what_is_no_state_is_refused(state):
    thing = after(2)
    with pytest.raises(InputError, match="missing or damaged"):
        thing.load_state_dict(state)
    assert_same_state(thing.state_dict(), after(2).state_dict())


def test_what_fails_after_loading_is_refused_too():
    class Picky(Sums):
        def _loaded(self):
            if self.count > 9:
                raise ValueError("too many")

    picky = Picky()
    with pytest.raises(InputError, match="missing or damaged"):
        picky.load_state_dict({"total": np.ones(2), "count": 10})
    assert_same_state(picky.state_dict(), Sums().state_dict())


def test_a_method_is_no_part():
    class Machine(Stateful):
        saved = parts(state=int)

        def __init__(self):
            self.state = 3

        def _state(self):
            raise NotImplementedError

    assert Machine().state_dict() == {"state": 3}


def test_a_part_may_be_anything_with_a_state():
    class Own:
        at = 0

        def state_dict(self):
            return {"at": self.at}

        def load_state_dict(self, state):
            self.at = state["at"]

    class Holder(Stateful):
        saved = parts(own=Part)

        def __init__(self):
            self.own = Own()

    holder = Holder()
    holder.load_state_dict({"own": {"at": 5}})
    assert holder.own.at == 5
    assert holder.state_dict() == {"own": {"at": 5}}


@pytest.mark.parametrize("kind", [Learner, Evaluator, Simulator])
def test_learners_evaluators_and_simulators_declare_their_state(kind):
    assert issubclass(kind, Stateful)
    assert not {"state_dict", "load_state_dict", "_state", "_load"} & kind.__abstractmethods__
