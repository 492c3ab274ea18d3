"""Plug-ins: classes from outside the package, here and in the processes that do its work.

:func:`register` adds a class by its name. What was imported from a module or a file is found again
in worker processes and on the workers of a cluster: see :func:`prepare`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from iopea.elimination import RULES
from iopea.errors import InputError, IopeaError, shown
from iopea.learners import LEARNERS
from iopea.model import check_file, check_path
from iopea.play import PLAYERS
from iopea.problems.base import FAMILIES
from iopea.registry import Plugin, Registry, called, digest_of, error_text, root_of
from iopea.systems import PROBLEMS

AnyClass = TypeVar("AnyClass", bound=type[Any])

#: Every registry by its group of entry points.
REGISTRIES: dict[str, Registry[Any]] = {
    registry.group: registry for registry in (LEARNERS, PROBLEMS, FAMILIES, RULES, PLAYERS)
}
#: Beginning of the names of modules that are files, which no other module has.
_FILE = "iopea_import_"
_IOPEA = root_of(__name__)


def register(kind: AnyClass) -> AnyClass:
    """Make a class of your own known by its name; also as a decorator, ``@iopea.register``.

    It is a subclass of ``Learner``, ``Problem``, ``PolicyFamily``, ``Rule`` or ``Player``. From
    then on it is found as those of the package are: in problem files, in settings, and by
    ``iopea.learner_named``. If it is defined in a module, other processes find it there.

    Examples
    --------
    >>> register(dict)
    Traceback (most recent call last):
    iopea.errors.InputError: Cannot register dict, a subclass of none of Learner, Problem,
    PolicyFamily, Rule and Player.
    """
    for registry in REGISTRIES.values():
        if isinstance(kind, type) and issubclass(kind, registry.base):
            registry.register(kind)
            return kind
    *most, last = (registry.base.__name__ for registry in REGISTRIES.values())
    raise InputError(
        f"Cannot register {called(kind)}, a subclass of none of {', '.join(most)} and {last}."
    )


def import_plugins(modules: Iterable[str]) -> None:
    """Import modules that register classes; each is a dotted name, or the path of a .py file.

    A dotted name may also be that of a module in the current folder.
    """
    for name in modules:
        before = _registered()
        if name.endswith(".py"):
            module = _of_file(check_path("The module", name))
        else:
            module = _of_name(name, Path.cwd())
        part = f"{module.__name__}."
        known = any(f"{kind.__module__}.".startswith(part) for kind in before)
        declared = any(registry.declares(module) for registry in REGISTRIES.values())
        if _registered() == before and not known and not declared:
            raise InputError(
                f"The module {shown(name)} registers nothing: put @iopea.register before the "
                "classes in it."
            )


def failure(error: BaseException) -> str:
    """An error as the end of a sentence, with the place where it arose.

    That is the innermost line of a plug-in, or else of anything but iopea.
    """
    if isinstance(error, IopeaError):  # a sentence of its own
        return f"{type(error).__name__}: {error}"
    lines, plugins = _lines_of(error), _plugin_roots()
    for ours in (
        [line for line in lines if line[0] in plugins],
        [line for line in lines if line[0] != _IOPEA],
        lines,
    ):
        if ours:
            _, file, number = ours[-1]
            return f"{error_text(error)} ({Path(file).name}, line {number})."
    return f"{error_text(error)}."


def is_of_plugin(error: BaseException) -> bool:
    """Whether an error arose in a plug-in, or in a library that it called, and not in iopea."""
    plugins = _plugin_roots()
    roots = [root for root, _, _ in _lines_of(error) if root in {_IOPEA, *plugins}]
    return bool(roots) and roots[-1] in plugins


def _plugin_roots() -> set[str]:
    return {root for registry in REGISTRIES.values() for root in registry.packages} - {_IOPEA}


def _lines_of(error: BaseException) -> list[tuple[str, str, int]]:
    """Top-level package, file and number of the lines an error passed through, innermost last."""
    return [
        (root_of(str(frame.f_globals.get("__name__", ""))), frame.f_code.co_filename, number)
        for frame, number in traceback.walk_tb(error.__traceback__)
    ]


def plugins_of(
    learner: str | None, settings: Mapping[str, Any], *systems: Mapping[str, Any]
) -> tuple[Plugin, ...]:
    """What a run uses of plug-ins: its learner, its settings, and the tables of its systems."""
    names: list[tuple[Registry[Any], object]] = [
        (LEARNERS, learner),
        (RULES, settings.get("rule")),
        (PLAYERS, settings.get("play")),
    ]
    for tables in systems:
        names.append((PROBLEMS, tables["problem"].get("kind")))
        names.append((FAMILIES, tables.get("policies", {}).get("kind")))
    found = (registry.plugin(name) for registry, name in names)
    return tuple(dict.fromkeys(plugin for plugin in found if plugin is not None))


def prepare(plugins: Iterable[Plugin]) -> None:
    """Make sure that these plug-ins are here, in a process that may be another one."""
    for plugin in plugins:
        registry = REGISTRIES[plugin.group]
        if not _is_here(registry, plugin):
            _fetch(registry, plugin)
        if not _is_here(registry, plugin):
            raise InputError(
                f"The {registry.what} {plugin.name!r} of a worker is another version than the one "
                "here: install the same version for all workers, and restart them."
            )


def _is_here(registry: Registry[Any], plugin: Plugin) -> bool:
    found = registry.plugin(plugin.name)
    return found is not None and found.digest == plugin.digest


def _fetch(registry: Registry[Any], plugin: Plugin) -> None:
    """Import the module of a plug-in, which registers it."""
    what = f"The {registry.what} {plugin.name!r}"
    file = None if plugin.file is None else Path(plugin.file)
    if plugin.module == "__main__":
        raise InputError(
            f"{what} is defined in the program itself, which workers don't import: define it in a "
            "module of its own, or use one worker."
        )
    if plugin.module.startswith(_FILE):
        if file is None or not file.is_file():
            raise InputError(
                f"{what} is in a file that a worker does not have: make its module part of an "
                "installed package, which all workers have."
            )
        _of_file(file)
        return
    folder = None
    if file is not None:
        inner = file.parent if file.stem == "__init__" else file
        above = plugin.module.count(".")
        folder = inner.parents[above] if above < len(inner.parents) else None
    try:
        _of_name(plugin.module, folder)
    except InputError as error:
        raise InputError(
            f"{what} can't be used by a worker: {str(error)[0].lower()}{str(error)[1:-1]}; all "
            "workers need the package that it is in, in the same version."
        ) from None


def _registered() -> set[type[Any]]:
    return {kind for each in REGISTRIES.values() for kind in each.registered.values()}


def _of_name(name: str, folder: Path | None) -> ModuleType:
    """A module by its dotted name: an installed one, or one in this folder."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise InputError(
            "A module is given by its dotted name, such as package.module, or by the path of a .py "
            f"file, not as {shown(name)}."
        )
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))  # last, so that it hides nothing
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # a module may raise anything
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            raise InputError(
                f"There is no module {shown(name)}, neither installed nor in the current folder."
            ) from None
        raise _failed(name, error) from error


def _of_file(path: Path) -> ModuleType:
    """A file as a module, whose name no other module has; its folder is searched for others."""
    try:
        path = path.resolve()
        check_file(path)
        name = f"{_FILE}{re.sub(r'[^A-Za-z0-9]', '_', path.stem)}_{digest_of(path.read_bytes())}"
    except FileNotFoundError:
        raise InputError(f"There is no file {shown(str(path))}.") from None
    except OSError as error:
        raise InputError(f"Cannot read {shown(str(path))}: {error.strerror or error}.") from None
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path):
        return known
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{shown(str(path))} is no module of Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, InputError) or not isinstance(error, Exception | SystemExit):
            raise
        raise _failed(str(path), error) from error
    return module


def _failed(name: str, error: BaseException) -> InputError:
    return InputError(f"Importing {shown(name)} fails, because of {error_text(error)}.")
