import sys

import pytest

import iopea as package
from iopea.cli.app import main


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
def short_evaluation(monkeypatch):
    """A shorter search for the best in class: these tests are about the commands."""
    best_of = package.best_in_class
    monkeypatch.setattr(
        package, "best_in_class", lambda system, steps=400_000: best_of(system, steps)
    )
