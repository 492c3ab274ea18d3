"""Files without an end, or too large: a sentence at once, whatever they were given as."""

import os

import pytest

from iopea import Dynamics, read_problem
from iopea.demand import Empirical
from iopea.errors import InputError
from iopea.plugins import import_plugins

READERS = {
    "past demand": lambda path: Empirical(file=path, column="demand"),
    "a problem": read_problem,
    "a module": lambda path: import_plugins([str(path)]),
    "dynamics": lambda path: Dynamics(file=path),
}


@pytest.mark.parametrize("what", READERS)
def test_a_pipe_is_not_waited_for(tmp_path, what):
    path = tmp_path / "pipe.py"
    os.mkfifo(path)
    with pytest.raises(InputError, match=r"^Cannot read .*pipe.py: it is a device, a pipe"):
        READERS[what](path)


@pytest.mark.parametrize("what", ["past demand", "a problem", "a module"])
def test_a_huge_file_is_not_read(tmp_path, what):
    path = tmp_path / "huge.py"
    with path.open("wb") as file:
        file.truncate(2**26 + 1)  # a hole, which takes no room
    with pytest.raises(InputError, match=r"^Cannot read .*huge.py: it has more than 67,108,864"):
        READERS[what](path)
