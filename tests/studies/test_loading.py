"""Studies load what draws and renders only when they draw and render."""

import json
import subprocess
import sys

CODE = """
import json, sys
import iopea.comparison.compare, iopea.comparison.output
import iopea.studies.guarantees.document, iopea.studies.reproduction.reproduce
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


def test_importing_the_studies_loads_nothing_that_draws_or_renders():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert not set(json.loads(done.stdout)) & {"jinja2", "matplotlib", "rich", "torch"}
