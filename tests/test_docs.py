"""What the documents say runs."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import iopea
from iopea.demand import LAWS
from iopea.problem_files import parse_problem
from own_classes import registered_for_now

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


DOCUMENTS = [
    "README.md",
    *(
        f"docs/{name}.md"
        for name in ("guide", "add-a-problem", "add-a-learner", "learners", "experiments", "sales")
    ),
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_code_and_problem_files_in_documents_run(document, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = (ROOT / document).read_text()
    code = blocks(text, "python")
    assert code
    module = ModuleType("document")  # annotations are looked up in the module of a class
    monkeypatch.setitem(sys.modules, "document", module)
    with registered_for_now():
        for block in code:
            exec(compile(block, document, "exec"), vars(module))
        for file in blocks(text, "toml"):
            problem, truth = parse_problem(file)
            assert problem.describe()["kind"] in iopea.PROBLEMS
            assert iopea.run(iopea.IOPEA(problem), problem.simulator(truth), 50).costs.size == 50


def test_the_readme_names_kinds_that_there_are():
    named = re.findall(r"^\| `([a-z-]+)`[:| ]", README, flags=re.MULTILINE)
    assert len(set(named) & set(iopea.PROBLEMS)) == 6


def test_the_problem_of_the_guide_is_one_file_and_one_line_in_the_package(tmp_path):
    """The page's code, saved in a copy of the package, with its line in the registry."""
    package = tmp_path / "iopea"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "iopea", package, ignore=ignored)
    file = package / "systems" / "reserve_price.py"
    file.write_text(blocks((ROOT / "docs/add-a-problem.md").read_text(), "python")[0])
    registry = package / "systems" / "__init__.py"
    text = registry.read_text()
    assert text.count("        LostSales,\n") == 1
    text = text.replace("        LostSales,\n", "        LostSales,\n        ReservePrice,\n")
    line = "from iopea.systems.reserve_price import ReservePrice\n\n#: Every kind"
    registry.write_text(text.replace("\n#: Every kind", line))
    code = (
        "import iopea; from iopea.testing import check_problem; "
        "check_problem(iopea.PROBLEMS['reserve-price']); print(iopea.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, timeout=300, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout
    ruff = [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml")]
    lint = subprocess.run([*ruff, str(file)], capture_output=True, text=True, check=False)
    assert lint.returncode == 0, lint.stdout


def test_readme_names_every_law_and_both_commands():
    for name in LAWS:
        assert f"`{name}`" in README
    assert not re.search(r"[A-Z]+_[A-Z]+", README)  # no placeholder is left
    assert "make run" in README
    assert "make test" in README


def test_links_lead_somewhere():
    links = [
        (document, target)
        for document in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text())
        if not target.startswith("https://")
    ]
    assert {document.parent for document, _ in links} == {ROOT, ROOT / "docs"}
    assert [(where, to) for where, to in links if not (where.parent / to).exists()] == []


def test_hooks_and_workflow_run_the_commands_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    lint = re.search(r"^lint:.*\n((?:\t.+\n)+)", makefile, flags=re.MULTILINE)[1]
    commands = [line.replace("$(BIN)", ".venv/bin") for line in lint.split("\n\t")]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    entries = re.findall(r"^ +entry: (.+)$", hooks, flags=re.MULTILINE)
    assert entries == [command.strip() for command in commands]
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    steps = re.findall(r"- run: (.+)", workflow)
    assert steps == [f"make PYTHON=python {target}" for target in ("run", "test")]


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
