"""Classes from outside the package: those of the pages of the documents, for the time of a test."""

import re
from contextlib import contextmanager
from pathlib import Path

from iopea.plugins import REGISTRIES

DOCS = Path(__file__).parents[1] / "docs"
#: What a package of its own declares, by group.
ENTRIES = {
    "iopea.learners": 'follow-the-leader = "own.learner:FollowTheLeader"',
    "iopea.problems": 'reserve-price = "own.problem:ReservePrice"',
    "iopea.families": 'capped = "own.family:Capped"',
    "iopea.rules": 'rarer = "own.rule:Rarer"',
}


@contextmanager
def registered_for_now():
    """What is registered inside is forgotten afterwards."""
    before = {group: dict(registry.registered) for group, registry in REGISTRIES.items()}
    try:
        yield
    finally:
        for group, registry in REGISTRIES.items():
            registry.registered.clear()
            registry.registered.update(before[group])


def _block(page, language, word):
    """The block of a page that has a word."""
    text = (DOCS / f"{page}.md").read_text()
    found = re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)
    (block,) = (each for each in found if word in each)
    return block


PROBLEM_FILES = {
    "auction": _block("add-a-problem", "toml", 'kind = "reserve-price"'),
    "shop": _block("add-a-problem", "toml", 'kind = "capped"'),
}


def write_package(folder, installed):
    """The classes of the two pages as a package; as pip leaves it, or to be installed by it."""
    package = folder / "own"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for file, page, word in (
        ("learner", "add-a-learner", "class FollowTheLeader"),
        ("problem", "add-a-problem", "class ReservePrice"),
        ("family", "add-a-problem", "class Capped"),
        ("rule", "add-a-learner", "class Rarer"),
    ):
        code = _block(page, "python", word).replace("@iopea.register\n", "")
        code = code.split("\n\n\nresult = ")[0]
        (package / f"{file}.py").write_text(f"import iopea\n{code}" if file == "rule" else code)
    if installed:
        info = folder / "own-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
        lines = [f"[{group}]\n{entry}\n" for group, entry in ENTRIES.items()]
        (info / "entry_points.txt").write_text("".join(lines).replace('"', ""))
    else:
        tables = [
            f'[project.entry-points."{group}"]\n{entry}\n' for group, entry in ENTRIES.items()
        ]
        (folder / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
            '[project]\nname = "own"\nversion = "1.0"\ndependencies = ["iopea"]\n'
            + "".join(tables)
            + '[tool.hatch.build.targets.wheel]\npackages = ["own"]\n'
        )
    return folder
