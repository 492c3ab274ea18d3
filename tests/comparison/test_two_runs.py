"""Two runs in one folder: the second is refused, and a killed one never blocks the next."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from iopea.comparison.store import Store
from iopea.errors import InputError
from iopea.storage import _writer

ABOUT = {"command": "compare"}
COMPARE = ["compare", "examples/newsvendor.toml", "--learners", "order-up-to", "--workers", "1"]
MAIN = [sys.executable, "-c", "from iopea.cli.app import main; main()"]


@pytest.fixture
def started(tmp_path):
    """A comparison that runs for hours, and its folder."""
    process = subprocess.Popen(
        [*MAIN, *COMPARE, "--horizon", "1000000000", "--out", tmp_path / "out"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "out" / "manifest.json").exists() and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.01)
    yield process, tmp_path / "out"
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_second_run_is_told_who_uses_the_folder_until_the_first_is_killed(iopea, started):
    process, out = started
    draft = out / "tasks" / f".some.parquet{_writer(process.pid, 0)}"
    draft.write_bytes(b"half")
    before = (out / "manifest.json").read_bytes()
    short = ["--horizon", "50", "--seeds", "2", "--out", out]
    status, printed, told = iopea(*COMPARE, *short)
    assert (status, printed) == (2, "")
    assert told == (
        f"Error: {out} is in use by process {process.pid}: wait until it ends, or give another "
        "folder with --out.\n"
    )
    for command in (["reproduce", "table-queue"], ["validate", "bounds"]):
        status, _, told = iopea(*command, "--out", out)
        assert status == 2
        assert "in use by process" in told
    # Nothing was touched, and what is finished can be read meanwhile.
    assert draft.exists()
    assert (out / "manifest.json").read_bytes() == before
    assert len(Store(out, ABOUT, alone=False)) <= 1  # the first one may have found the best level
    assert process.poll() is None
    process.kill()
    process.wait()
    status, printed, _ = iopea(*COMPARE, *short)
    assert status == 0
    assert "Written to" in printed
    assert not draft.exists()
    assert len(Store(out, ABOUT)) == 3  # the best level, and the learner under two seeds


def test_of_three_that_start_at_once_one_gets_the_folder(tmp_path):
    code = (
        "import sys; from iopea.comparison.store import Store; sys.stdin.readline()\n"
        "try: store = Store(sys.argv[1], {'command': 'compare'})\n"
        "except Exception as error: print(error, flush=True)\n"
        "else: print('alone', flush=True)\n"
        "sys.stdin.readline()"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, tmp_path / "out"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.stdout.readline().strip() for process in processes]
    for process in processes:
        process.communicate("end\n")
    assert told.count("alone") == 1
    assert sum(f"{tmp_path / 'out'} is in use by " in line for line in told) == 2
    assert (
        json.loads((tmp_path / "out" / "manifest.json").read_text())
        == Store(tmp_path / "out", ABOUT).about
    )


def test_one_process_may_open_a_folder_twice(tmp_path):
    first = Store(tmp_path, ABOUT)
    assert Store(tmp_path, ABOUT).about == first.about


@pytest.mark.parametrize("failure", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_where_files_cannot_be_locked_nothing_is_said(tmp_path, monkeypatch, failure):
    def refuse(*_):
        raise OSError(failure, os.strerror(failure))

    monkeypatch.setattr(fcntl, "flock", refuse)
    handles = set(os.listdir("/proc/self/fd"))
    store = Store(tmp_path, ABOUT)
    assert set(os.listdir("/proc/self/fd")) == handles
    del store
    monkeypatch.setattr("iopea.comparison.store.fcntl", None)
    Store(tmp_path, ABOUT)


def test_a_store_that_is_gone_frees_its_folder(tmp_path):
    store = Store(tmp_path, ABOUT)
    with (tmp_path / ".lock").open() as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        del store
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(InputError, match="is in use by another process"):
            file_named_by_nobody(tmp_path)


def file_named_by_nobody(folder):
    """The lock's file before its process has written who it is."""
    (folder / ".lock").write_text("")
    Store(folder, ABOUT)
