"""Output that can't be shown or written as it is: nothing is lost, and no traceback is seen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")


def command(*arguments, **more):
    environment = {**os.environ, **more.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "iopea", *arguments], stderr=subprocess.PIPE, env=environment, **more
    )


def test_characters_that_the_output_lacks_are_replaced():
    env = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}
    said = command("learn", "--help", stdout=subprocess.PIPE, env=env)
    assert (said.returncode, said.stderr) == (0, b"")
    assert "range/max(2000, ?T)" in " ".join(said.stdout.decode("latin-1").split())


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_named_in_a_sentence(unbuffered):
    with FULL.open("w") as full:
        said = command("--version", stdout=full, env={"PYTHONUNBUFFERED": unbuffered})
    assert said.returncode == 2
    assert said.stderr == b"Error: Cannot write the output: No space left on device.\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_quiet(unbuffered):
    read, write = os.pipe()
    os.close(read)
    said = command("--version", stdout=write, env={"PYTHONUNBUFFERED": unbuffered})
    os.close(write)
    assert (said.returncode, said.stderr) == (1, b"")


@pytest.mark.parametrize("width", ["0", "000", "-5", "²", "x", "", "9" * 30])
def test_a_width_that_no_terminal_has_is_that_of_none(iopea, monkeypatch, width):
    monkeypatch.delenv("COLUMNS", raising=False)
    usual = iopea("learners")
    monkeypatch.setenv("COLUMNS", width)
    assert iopea("learners") == usual
    assert len(usual[1].splitlines()) > 10
