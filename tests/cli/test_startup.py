"""The command line starts at once: it loads nothing heavy, so its help has words of its own."""

import json
import subprocess
import sys
from typing import get_args

import pytest
from typer.testing import CliRunner

from iopea.cli import check_order
from iopea.cli.app import app
from iopea.elimination import RULES
from iopea.learners import LEARNERS
from iopea.learners.iopea import Restart
from iopea.orders import checking
from iopea.studies.guarantees import STUDIES
from iopea.studies.reproduction.reproduce import TARGETS
from iopea.studies.reproduction.scenarios import METHODS, PROFILES, scenarios

HEAVY = {
    "gymnasium",
    "joblib",
    "matplotlib",
    "numba",
    "numpy",
    "polars",
    "pydantic",
    "rich",
    "scipy",
    "torch",
}
LISTING = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from iopea.cli.app import main
main()
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        *(
            [command.name or command.callback.__name__, "--help"]
            for command in app.registered_commands
        ),
    ],
    ids=" ".join,
)
def test_help_loads_nothing_heavy(arguments):
    done = subprocess.run(
        [sys.executable, "-c", LISTING, *arguments], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stderr))
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("iopea")} <= {
        "iopea",
        "iopea.errors",
        "iopea.cli",
        *(f"iopea.cli.{name}" for name in ("app", "options", "sales")),
        *(command.callback.__module__ for command in app.registered_commands),
    }


def help_of(command):
    return CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "400"}).stdout


def test_what_the_help_says_is_so():
    learn = " ".join(help_of("learn").split())
    assert "paired (default), theorem, published, or your own" in learn
    assert set(RULES) == {"paired", "theorem", "published"}
    assert "none (default), or return" in learn
    assert set(get_args(Restart)) == {"none", "return"}
    assert "[default: iopea]" in learn
    assert "iopea" in LEARNERS
    reproduce = " ".join(help_of("reproduce").split())
    assert f"One of {', '.join(TARGETS)}, paper (without year), or all." in reproduce
    assert f"{', '.join(PROFILES)}, or both." in reproduce
    assert "queue-fixed" in reproduce
    assert "queue-fixed" in scenarios(PROFILES[0])
    assert "such as ppo" in reproduce
    assert "ppo" in METHODS
    validate = " ".join(help_of("validate").split())
    assert f"One or more of {', '.join(STUDIES)}; default: all." in validate
    compare = " ".join(help_of("compare").split())
    assert "[default: iopea,optimal]" in compare
    assert "optimal" in LEARNERS


def test_check_order_has_the_defaults_of_the_library():
    assert check_order._SOME_PAIRS == checking.SOME_PAIRS
    words = " ".join(help_of("check-order").split())
    (path_steps, paths), (law_steps, laws) = (
        checking._DATA[claim] for claim in ("sample-path", "distributional")
    )
    assert f"Steps of each path; {path_steps}, or {law_steps} for distributional claims." in words
    assert f"Paths of each policy; {paths}, or {laws} for distributional claims." in words
