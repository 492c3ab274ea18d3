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


DOCUMENTS = ["README.md", "docs/guide.md", "docs/add-a-problem.md"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_code_and_problem_files_in_documents_run(document, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = dict(iopea.PROBLEMS)
    text = (ROOT / document).read_text()
    code = blocks(text, "python")
    assert code
    names = {"__name__": "document"}
    try:
        for block in code:
            exec(compile(block, document, "exec"), names)
        for file in blocks(text, "toml"):
            problem, truth = parse_problem(file)
            assert problem.describe()["kind"] in iopea.PROBLEMS
            assert iopea.run(iopea.IOPEA(problem), problem.simulator(truth), 50).costs.size == 50
    finally:
        iopea.PROBLEMS.clear()
        iopea.PROBLEMS.update(before)


def test_readme_names_every_kind_of_problem():
    for kind in iopea.PROBLEMS:
        assert f"`{kind}`" in README


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
