"""The public names: they load when they are used, and every list of them says the same."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import iopea

ROOT = Path(__file__).parents[1]
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
    "typer",
}


@pytest.mark.parametrize("name", iopea.__all__)
def test_every_public_name_is_there_and_documented(name):
    value = getattr(iopea, name)
    assert value is not None
    assert value is getattr(iopea, name)
    if isinstance(value, type):
        assert value.__doc__
        assert value.__name__ == name


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(iopea.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {each.names[0].asname: each.module for each in block.body}
    assert seen == iopea._HOMES


def test_the_page_of_names_lists_them_all_once():
    page = (ROOT / "docs" / "names.md").read_text()
    listed = re.findall(r"^- `(\w+)`: \S", page, flags=re.MULTILINE)
    assert sorted(listed) == sorted(iopea.__all__)


def test_names_are_offered_and_unknown_ones_refused():
    assert set(iopea.__all__) <= set(dir(iopea))
    assert isinstance(iopea.demand, ModuleType)
    with pytest.raises(AttributeError, match="no attribute 'LostSale'"):
        _ = iopea.LostSale


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, json, iopea; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & HEAVY
    assert [name for name in loaded if name.startswith("iopea")] == ["iopea"]
