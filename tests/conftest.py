"""Fixtures that tests of several rooms share."""

import sys

import pytest
from hypothesis import settings

from iopea import simulate
from iopea.cli.app import main

# The same examples in every run: what fails once fails again.
settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")


def pytest_addoption(parser):
    parser.addoption("--cases", type=int, default=400, help="Random cases of each fuzz test.")


@pytest.fixture
def cases(request):
    """How many random cases a fuzz test tries."""
    return request.config.getoption("--cases")


@pytest.fixture
def iopea(capsys, monkeypatch):
    """The command line: what it ends with, prints and says on the error stream."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["iopea", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return command


@pytest.fixture(autouse=True)
def _short_evaluation(request, monkeypatch):
    """A shorter search for the best in class in the tests of commands."""
    if request.path.parent.name == "cli":
        best_of = simulate.best_in_class
        monkeypatch.setattr(
            simulate, "best_in_class", lambda system, steps=400_000: best_of(system, steps)
        )
