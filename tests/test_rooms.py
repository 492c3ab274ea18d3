"""The rooms of the package: no circles of imports, a small root, and no name twice."""

import ast
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import iopea

ROOT = Path(__file__).parents[1]
SOURCE = Path(iopea.__file__).parent
#: The one module that may import for type checkers alone: it lists the public names.
PUBLIC = "iopea"
#: Modules in the root, at most; a table of contents, not a drawer.
MOST_IN_THE_ROOT = 16


def name_of(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text("utf-8")) for name, path in PATHS.items()}
PACKAGES = sorted(name for name, path in PATHS.items() if path.name == "__init__.py")


def statements(body):
    """Every statement that runs on import, and those under TYPE_CHECKING; no function bodies."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from statements(getattr(node, part, []))


def mentions_type_checking(tree):
    return any(
        "TYPE_CHECKING" in (getattr(node, "id", None), getattr(node, "attr", None))
        or (isinstance(node, ast.alias) and node.name == "TYPE_CHECKING")
        for node in ast.walk(tree)
    )


def imported(name, tree, modules):
    """Modules of the package that a module imports at its top level, in any kind of block."""
    package = name.split(".") if name in PACKAGES else name.split(".")[:-1]
    found = set()
    for node in statements(tree.body):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *(node.module or "").split(".")]).strip(".")
            # What is imported from a package is a module of it, or a name in its __init__.
            within = [f"{base}.{alias.name}" for alias in node.names]
            named = [each if each in modules else base for each in within]
        else:
            continue
        found |= {each for each in named if each in modules}
    return found - {name}


def circle_in(trees):
    """A circle of imports as a list of modules, the first also the last; None if there is none."""
    graph = {name: imported(name, tree, trees) for name, tree in trees.items()}
    assert any(graph.values())
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return None


def test_the_package_was_found():
    assert {"iopea", "iopea.types", "iopea.systems.lost_sales.system"} <= PATHS.keys()
    assert {"iopea", "iopea.systems", "iopea.systems.lost_sales"} <= set(PACKAGES)


def test_imports_have_no_circle():
    trees = {name: tree for name, tree in TREES.items() if name != PUBLIC}
    circle = circle_in(trees)
    assert circle is None, f"A circle of imports: {' imports '.join(circle)}."


@pytest.mark.parametrize(
    "text",
    [
        "import b",
        "from b import name",
        "if TYPE_CHECKING:\n    from b import name",
        "try:\n    import b\nexcept ImportError:\n    pass",
        "class A:\n    from b import name",
    ],
)
def test_a_circle_would_be_found(text):
    trees = {"a": ast.parse(text), "b": ast.parse("import c"), "c": ast.parse("import a")}
    circle = circle_in(trees)
    assert set(circle) == {"a", "b", "c"}
    assert circle[(circle.index("a") + 1) % 3] == "b"


def test_imports_in_functions_are_not_counted():
    trees = {"a": ast.parse("def f():\n    import b"), "b": ast.parse("import a")}
    assert circle_in(trees) is None


def test_every_room_has_its_layer():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (each["layers"] for each in settings["contracts"] if each["type"] == "layers")
    listed = [room.strip() for layer in layers for room in layer.split("|")]
    rooms = {".".join(name.split(".")[:2]) for name in PATHS} - {PUBLIC}
    assert sorted(listed) == sorted(rooms)


def test_the_root_is_small():
    modules = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py"}
    assert 0 < len(modules) <= MOST_IN_THE_ROOT, sorted(modules)


def imported_for_type_checkers(name, tree):
    """Modules of the package that a module imports under TYPE_CHECKING alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and mentions_type_checking(node.test):
            yield from imported(name, ast.Module(node.body, []), TREES)


def test_type_checkers_alone_import_heavy_libraries_and_what_needs_them():
    assert set(imported_for_type_checkers(PUBLIC, TREES[PUBLIC]))
    found = {
        (name, other)
        for name, tree in TREES.items()
        if name != PUBLIC
        for other in imported_for_type_checkers(name, tree)
    }
    baselines = "iopea.learners.baselines"
    assert found == {(f"{baselines}.ppo", f"{baselines}.ppo_network")}  # which imports torch


def test_every_module_has_a_docstring():
    assert [name for name, tree in TREES.items() if not ast.get_docstring(tree)] == []


def names_bound_in(tree):
    for node in statements(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (
                each.id
                for target in targets
                for each in ast.walk(target)
                if isinstance(each, ast.Name)
            )


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_hides_a_module(package):
    inside = {name.rpartition(".")[2] for name in PATHS if name.rpartition(".")[0] == package}
    assert inside
    assert not inside & set(names_bound_in(TREES[package]))
