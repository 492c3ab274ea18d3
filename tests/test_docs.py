"""What the documents say runs."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import iopea
from iopea.demand import LAWS
from iopea.files import parse_problem

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize("document", ["README.md", "docs/guide.md"])
def test_python_in_documents_runs(document, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = blocks((ROOT / document).read_text(), "python")
    assert code
    names = {}
    for block in code:
        exec(compile(block, document, "exec"), names)


def test_problem_file_in_the_readme_is_valid():
    (text,) = blocks(README, "toml")
    problem, demand = parse_problem(text)
    assert problem.lead_time == 2
    assert demand.maximum == 3.0


def test_readme_names_every_law_and_both_commands():
    for name in LAWS:
        assert f"`{name}`" in README
    assert not re.search(r"[A-Z]+_[A-Z]+", README)  # no placeholder is left
    assert "make run" in README
    assert "make test" in README


def test_links_lead_somewhere():
    for document in ROOT.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            assert target.startswith("https://") or (ROOT / target).exists(), target
    for document in (ROOT / "docs").glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            assert target.startswith("https://") or (document.parent / target).exists(), target


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_every_example_runs(path):
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == iopea.__version__
    assert f"version: {iopea.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {iopea.__version__}" in (ROOT / "CHANGELOG.md").read_text()
