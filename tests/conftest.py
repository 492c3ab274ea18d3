"""Fixtures that tests of several rooms share."""

import sys

import pytest

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
