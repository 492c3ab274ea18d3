import errno
import gc
import math
import os
import pickle
import random
import socket
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from iopea.errors import InputError
from iopea.storage import _label, _writer, check_writable, load_state, save_state


def same(one, other):
    """Equal in type and to the last bit; a tuple comes back as a list."""
    if isinstance(one, np.ndarray):
        return (
            isinstance(other, np.ndarray)
            and (one.dtype, one.shape) == (other.dtype, other.shape)
            and one.tobytes() == other.tobytes()
        )
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(
            same(one[name], other[name]) for name in one
        )  # fmt: skip
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return isinstance(other, float) and np.float64(one).tobytes() == np.float64(other).tobytes()
    return type(one) is type(other) and one == other


def round_trip(state):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        save_state(state, path)
        assert [entry.name for entry in Path(folder).iterdir()] == ["state.npz"]
        return load_state(path)


STATE = {
    "schema": 1,
    "name": "iopea — β",
    "none": None,
    "yes": True,
    "no": False,
    "float": 0.1 + 0.2,
    "list": [1, 2.5, "three", None, True, [4, []], {"five": 5}],
    "generator": np.random.PCG64(3).state,
    "means": np.array([1.0, np.nan, -np.inf, -0.0, 5e-324]),
    "empty": {},
    "deep": {
        "one": {"two": {"three": np.arange(6).reshape(2, 3)}},
        "mask": np.array([True, False]),
        "nothing": np.empty((0, 4)),
        "number": np.array(2.5),
    },
}


def test_nested_state_comes_back():
    assert same(STATE, round_trip(STATE))


@pytest.mark.parametrize(
    "dtype",
    ["f8", "f4", "f2", "i8", "i4", "i1", "u8", "u1", "?", "U5", "S3", ">f8"],
)
def test_dtypes(dtype):
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    state = {
        "plain": array,
        "view": array[:, ::2],
        "fortran": np.asfortranarray(array),
        "turned": array.T,
    }
    back = round_trip(state)
    for name, value in state.items():
        assert back[name].dtype == value.dtype
        np.testing.assert_array_equal(back[name], value)


@settings(max_examples=30, deadline=None)
@given(
    st.floats(),
    hnp.arrays(np.float64, hnp.array_shapes(max_dims=3), elements=st.floats()),
    st.integers(-(2**200), 2**200),
)
def test_numbers_come_back_bit_for_bit(number, array, whole):
    back = round_trip({"number": number, "array": {"a": array, "b": [number]}, "whole": whole})
    assert back["number"] == number or (math.isnan(number) and math.isnan(back["number"]))
    assert math.copysign(1, back["number"]) == math.copysign(1, number) or math.isnan(number)
    assert back["array"]["a"].tobytes() == array.tobytes()
    assert back["whole"] == whole


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text('aé—\n\0"', max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text("xyz", min_size=1, max_size=3), json_values, max_size=4))
def test_json_values_come_back(state):
    assert same(state, round_trip(state))


def test_a_generator_goes_on():
    rng = np.random.default_rng(5)
    rng.random(3)
    back = np.random.default_rng()
    back.bit_generator.state = round_trip({"rng": rng.bit_generator.state})["rng"]
    assert back.random(4).tolist() == rng.random(4).tolist()


def test_any_name_of_a_file_will_do(tmp_path):
    for path in (tmp_path / "state", str(tmp_path / "a b.zip"), tmp_path / ".hidden"):
        save_state({"a": np.ones(2)}, path)
        assert load_state(path)["a"].tolist() == [1.0, 1.0]
    assert len(list(tmp_path.iterdir())) == 3


def test_saving_again_replaces(tmp_path):
    path = tmp_path / "state.npz"
    save_state({"a": np.ones(1000)}, path)
    save_state({"b": 2}, path)
    assert load_state(path) == {"b": 2}
    assert list(tmp_path.iterdir()) == [path]


# Files that are not states.


def refused(path):
    with pytest.raises(InputError) as refusal:
        load_state(path)
    assert str(path) in str(refusal.value)
    return str(refusal.value)


def test_missing_file(tmp_path):
    assert "There is no file" in refused(tmp_path / "nowhere.npz")
    assert "There is no file" in refused(tmp_path / "no folder" / "state.npz")


def test_truncated_file(tmp_path):
    path = tmp_path / "state.npz"
    save_state(STATE, path)
    whole = path.read_bytes()
    for size in (0, 1, 3, 4, 100, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert "is not a complete saved state" in refused(path)


def test_damaged_array(tmp_path):
    path = tmp_path / "state.npz"
    array = np.arange(1000.0)
    save_state({"a": array}, path)
    whole = bytearray(path.read_bytes())
    where = bytes(whole).index(array[500:510].tobytes())
    whole[where] ^= 1
    path.write_bytes(whole)
    refused(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"some text\n", b"{}", b"\x80\x04N.", pickle.dumps({"a": 1}), b"PK", b"\0" * 99],
)
def test_another_kind_of_file(tmp_path, content):
    path = tmp_path / "state.npz"
    path.write_bytes(content)
    refused(path)


def test_another_archive(tmp_path):
    path = tmp_path / "state.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    refused(path)
    np.savez(path, a=np.ones(3))
    refused(path)
    for text in (b"not json", b"\xff\xfe", b'{"a": {"array": "missing"}}'):
        np.savez(path, **{"state.json": np.frombuffer(text, dtype=np.uint8)})
        refused(path)


def test_a_folder(tmp_path):
    refused(tmp_path)
    with pytest.raises(InputError, match="Cannot write"):
        save_state({"a": 1}, tmp_path)


def test_a_single_array(tmp_path):
    path = tmp_path / "array.npy"
    np.save(path, np.ones(3))
    refused(path)


def test_another_archive_with_a_state_json(tmp_path):
    path = tmp_path / "state.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("state.json", "{}")
    refused(path)


def test_damaged_archive(tmp_path):
    path = tmp_path / "state.npz"
    save_state({"a": np.ones(3)}, path)
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"PK\x01\x02") + 10] = 77  # the compression method
    path.write_bytes(whole)
    refused(path)


# Writing, whole or not at all.


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def half_written(file, *_, **__):
    file.write(b"half")
    full_disk()


FAILURES = [
    ("numpy.lib.format.write_array", half_written),
    ("os.fsync", full_disk),
    ("pathlib.Path.replace", full_disk),
]


@pytest.mark.parametrize(("name", "failure"), FAILURES)
def test_a_failing_write_leaves_the_old_file(tmp_path, monkeypatch, name, failure):
    path = tmp_path / "state.npz"
    save_state(STATE, path)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(name, failure)
        with pytest.raises(InputError, match=r"Cannot write .*No space left") as refusal:
            save_state({"b": np.ones(5)}, path)
    assert str(path) in str(refusal.value)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("name", "failure"), FAILURES)
def test_a_failing_first_write_leaves_nothing(tmp_path, monkeypatch, name, failure):
    with monkeypatch.context() as patch:
        patch.setattr(name, failure)
        with pytest.raises(InputError):
            save_state({"b": np.ones(5)}, tmp_path / "state.npz")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    save_state({"a": 1}, path)

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            save_state({"a": 2}, path)
    assert load_state(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    save_state({"a": 1}, path)
    seen = []
    sync = os.fsync

    def look(file):
        seen.append(load_state(path))
        sync(file)

    monkeypatch.setattr("os.fsync", look)
    save_state({"a": 2}, path)
    assert seen == [{"a": 1}]
    assert load_state(path) == {"a": 2}


def test_missing_folder(tmp_path):
    path = tmp_path / "no folder" / "state.npz"
    with pytest.raises(InputError, match=r"Cannot write .*No such file or directory") as refusal:
        save_state({"a": 1}, path)
    assert str(path) in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="Cannot write"):
        save_state({"a": 1}, tmp_path / "file" / "state.npz")


def test_what_cannot_be_saved_touches_no_file(tmp_path):
    path = tmp_path / "state.npz"
    save_state({"a": 1}, path)
    before = path.read_bytes()
    with pytest.raises((TypeError, InputError)):
        save_state({"a": object()}, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# Never pickle.


def test_arrays_of_objects_are_refused(tmp_path):
    path = tmp_path / "state.npz"
    with pytest.raises((InputError, TypeError)):
        save_state({"a": np.array([{"b": 1}, None], dtype=object)}, path)
    assert not path.exists()


class Bomb:
    went_off = False

    def __reduce__(self):
        return setattr, (Bomb, "went_off", True)


def test_loading_never_unpickles(tmp_path):
    path = tmp_path / "state.npz"
    text = np.frombuffer(b'{"a": {"array": "a"}}', dtype=np.uint8)
    np.savez(path, **{"state.json": text, "a": np.array([Bomb()], dtype=object)})
    refused(path)
    path.write_bytes(pickle.dumps(Bomb()))
    refused(path)
    assert not Bomb.went_off


# Names that get in each other's way.


@pytest.mark.parametrize(
    "state",
    [
        {"a.b": np.zeros(1), "a": {"b": np.ones(1)}},
        {"a": np.zeros(1), "a.npy": np.ones(1)},
        {"state": {"json": np.ones(1)}},
        {"file": np.ones(1)},
        {"allow_pickle": np.ones(1)},
        {"array": np.ones(1)},
        {"a": {"array": 5}},
        {"a": {"array": "text"}},
    ],
    ids=lambda state: "+".join(state),
)
def test_any_key_will_do(state):
    assert same(state, round_trip(state))


def test_arrays_in_lists_come_back():
    state = {"a": [np.ones(2), {"b": np.zeros(1)}]}
    assert same(state, round_trip(state))


def test_a_refused_file_is_closed(tmp_path):
    path = tmp_path / "state.npz"
    save_state(STATE, path)
    path.write_bytes(path.read_bytes()[:200])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        refused(path)
        gc.collect()
    assert not [warning for warning in seen if warning.category is ResourceWarning]


def test_what_a_killed_save_left_is_gone_after_the_next_one(tmp_path):
    """Of this file and of a process that is dead, and of no other."""
    path = tmp_path / "state.npz"
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    dead = int(ended.stdout)
    left = [
        tmp_path / f".state.npz{_writer(dead, 0)}",
        tmp_path / f".state.npz{_writer(os.getpid(), 10**9)}",  # an earlier one of the same number
        tmp_path / f".state.npz{_writer(dead, 0).replace('-0.part', '.part')}",  # of iopea 1
    ]
    kept = [
        tmp_path / f".other.npz{_writer(dead, 0)}",
        tmp_path / f".state.npz{_writer(os.getppid(), 0)}",
    ]
    for draft in (*left, *kept):
        draft.write_bytes(b"half")
    save_state(STATE, path)
    assert same(STATE, load_state(path))
    assert sorted(tmp_path.iterdir()) == sorted([path, *kept])


def test_threads_may_save_one_file(tmp_path):
    path = tmp_path / "state.npz"

    def save(thread):
        for number in range(40):
            save_state({"thread": thread, "number": number}, path)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(save, range(3)))
    assert load_state(path)["number"] in range(40)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("size", [240, 255])
def test_the_longest_names_of_files(tmp_path, size):
    path = tmp_path / ("é" * 20 + "x" * (size - 40))
    check_writable(path)
    (tmp_path / f".{_label(path.name)}{_writer(os.getpid(), 10**9)}").touch()
    save_state({"a": 1}, path)
    assert load_state(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def bound_socket(path):
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(path))  # the names of sockets are short


@pytest.mark.parametrize("make", [os.mkfifo, bound_socket, os.mkdir])
def test_only_files_are_replaced(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "state.npz"
    make(path)
    before = path.stat()
    link = tmp_path / "link.npz"
    link.symlink_to(path)
    for target in (path, link):
        for write in (lambda target: save_state({"a": 1}, target), check_writable):
            with pytest.raises(InputError, match=r"^Cannot write .*: it is a (device|folder)"):
                write(target)
    assert path.stat().st_ino == before.st_ino
    assert sorted(tmp_path.iterdir()) == [link, path]


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    path, link = tmp_path / "far" / "state.npz", tmp_path / "link.npz"
    link.symlink_to(path)
    for number in (1, 2):
        save_state({"a": number}, link)
        assert link.is_symlink()
        assert not path.is_symlink()
        assert load_state(path) == load_state(link) == {"a": number}
    assert list((tmp_path / "far").iterdir()) == [path]


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for write in (lambda target: save_state({"a": 1}, target), check_writable):
        with pytest.raises(InputError, match="Cannot write"):
            write(tmp_path / "a")


def test_a_private_file_stays_private(tmp_path):
    path = tmp_path / "state.npz"
    for mode in (0o600, 0o640, 0o666):
        path.touch()
        path.chmod(mode)
        save_state({"a": 1}, path)
        assert path.stat().st_mode & 0o777 == mode


SAVES = """
import sys
import numpy as np
from iopea.storage import save_state
for number in range(int(sys.argv[2]), 10**9):
    save_state({"number": number, "values": np.full(50_000, number)}, sys.argv[1])
    print(number, flush=True)
"""


@pytest.mark.slow
def test_killed_at_forty_moments_of_saving_nothing_is_damaged_or_left(tmp_path):
    path, rng, number = tmp_path / "state.npz", random.Random(4), 0
    found = []
    for _ in range(40):
        with subprocess.Popen(
            [sys.executable, "-c", SAVES, path, str(number)], stdout=subprocess.PIPE, text=True
        ) as process:
            said = int(process.stdout.readline())  # this save is complete
            time.sleep(rng.uniform(0, 0.02))
            process.kill()
            said = max([said, *map(int, process.stdout.read().split())])
        state = load_state(path)
        assert state["number"] in (said, said + 1)  # killed before or after it could say so
        assert (state["values"] == state["number"]).all()
        found.append(len(list(tmp_path.iterdir())))
        number = state["number"] + 1
    save_state({"number": number}, path)
    assert list(tmp_path.iterdir()) == [path]
    assert max(found) > 1  # at least one was killed in the middle
