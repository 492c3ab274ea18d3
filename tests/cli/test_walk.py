"""The walk through a command in CONTRIBUTING.md lists the files that are really entered."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Prints the files of the package in which a function has run, but not those merely imported.
TRACE = """
import inspect, json, sys, threading
from pathlib import Path
import iopea
from iopea.cli.app import main

source = str(Path(iopea.__file__).parent) + "/"
entered = {}

def is_function(code):
    in_comprehension = code.co_name.startswith("<") and code.co_name != "<lambda>"
    return code.co_flags & inspect.CO_NEWLOCALS and not in_comprehension

def importing(frame):
    while frame is not None:
        code = frame.f_code
        if code.co_name == "<module>" and code.co_filename.startswith(source):
            return True
        frame = frame.f_back
    return False

def watch(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(source) and is_function(code):
        if code.co_filename not in entered and not importing(frame):
            entered[code.co_filename] = True

threading.setprofile(watch)
sys.setprofile(watch)
try:
    main()
finally:
    sys.setprofile(None)
    print(json.dumps([path.removeprefix(source) for path in entered]), file=sys.stderr)
"""


def test_the_walk_lists_the_files_that_are_entered():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    command = re.search(r"^`iopea (learn .+?)` enters", text, flags=re.MULTILINE)[1]
    walk = re.findall(r"^\d+\. `(\S+\.py)`: \S", text, flags=re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-c", TRACE, *command.split()],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["horizon"] == 500
    assert walk == json.loads(done.stderr.splitlines()[-1])
