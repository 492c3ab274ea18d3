"""Registries: learners, problems and other classes by their names, with those of plug-ins.

Beside the classes of the package, a registry finds those that :func:`iopea.register` added in this
process, and those that installed packages declare as entry points in the group of the registry::

    [project.entry-points."iopea.learners"]
    my-learner = "my_package.my_learner:MyLearner"

A plug-in is loaded when its name is asked for, or when all classes are listed. So it takes no time
before, and one that is broken concerns only those who use it.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from inspect import isabstract
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from iopea.errors import InputError, IopeaError, shown, shown_path, unknown

Kind = TypeVar("Kind")

#: Names of plug-ins stand in lists separated by commas, and in names of files.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
#: Learner of the rows that hold the best policy of a class.
_RESERVED = "best"
#: Characters of the digest of a file, and most characters of a foreign message.
_DIGEST, _LONGEST = 16, 300


class UnknownNameError(InputError, KeyError):
    """No entry has this name; also a ``KeyError``, as for any mapping."""

    __str__ = Exception.__str__


@dataclass(frozen=True)
class Plugin:
    """Where a class of a plug-in comes from, so that another process can find the same one.

    Attributes
    ----------
    group : str. The group of its registry.
    name : str. Its name there.
    module : str. The module that it is defined in.
    file : str, optional. The file of that module.
    digest : str. Digest of what the files of its package say, or its file if it is in none; empty
        if there is none.
    """

    group: str
    name: str
    module: str
    file: str | None
    digest: str


class Registry(Mapping[str, type[Kind]]):
    """Classes of one kind by name. It lists only those that can be used: see :attr:`refused`.

    Parameters
    ----------
    what : str. What it holds, in the singular.
    group : str. The entry points that plug-ins declare.
    base : type. The base class of all entries.
    built_in : iterable of type. Those of the package, which no plug-in can replace.
    name_in : str. The attribute that holds the name of an entry.
    texts : tuple of str. Further attributes that must be text.
    """

    def __init__(
        self,
        what: str,
        group: str,
        base: Any,
        built_in: Iterable[type[Kind]] = (),
        name_in: str = "name",
        texts: tuple[str, ...] = (),
    ) -> None:
        self.what, self.group, self.base = what, group, base
        self._name: Callable[[Any], Any] = attrgetter(name_in)
        self._name_in, self._texts = name_in, texts
        self.built_in: dict[str, type[Kind]] = {}
        self.registered: dict[str, type[Kind]] = {}
        self._plugins: dict[type[Kind], Plugin] = {}
        self.include(built_in)

    def include(self, built_in: Iterable[type[Kind]]) -> None:
        """Add classes of the package."""
        self.built_in |= {self._name(kind): kind for kind in built_in}

    def register(self, kind: type[Kind]) -> None:
        """Add a class in this process; one that was defined anew replaces what it was before."""
        reason = self._wrong(kind)
        if reason:
            raise InputError(f"Cannot register {called(kind)}: {reason}.")
        name, plugin = self._name(kind), self._plugin_of(kind)
        if self.built_in.get(name) is kind:
            return
        if name in self.built_in:
            raise InputError(f"Cannot register {called(kind)}: {self._taken(name)}.")
        where = f"Cannot register {called(kind)} of {_place(plugin)}"
        for entry in self._declared.get(name, ()):
            if root_of(entry.module) != root_of(plugin.module):
                raise InputError(
                    f"{where}: {_package(entry)} ({entry.value}) has a {self.what} {name!r} "
                    "already, so give it another name, or uninstall the package."
                )
        before = self.registered.get(name)
        if before is not None:
            if not _same(self._plugins[before], plugin, before, kind):
                raise InputError(
                    f"{where}: the {self.what} {name!r} is already that of "
                    f"{_place(self._plugins[before])}, so give it another name."
                )
            _digest_in.cache_clear()  # defined anew, as after a change
            plugin = self._plugin_of(kind)
        self._plugins[kind] = plugin
        self.registered[name] = kind

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self.registered or name in self._declared

    def __getitem__(self, name: str) -> type[Kind]:
        for known in (self.built_in, self.registered):
            if name in known:
                return known[name]
        if name not in self._declared:
            raise UnknownNameError(str(self._unknown(name)))
        return self._load(name, self._declared[name])

    def __iter__(self) -> Iterator[str]:
        for name in self.names:
            if self._can_be_used(name):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<{self.what}: {', '.join(self.names)}>"

    def named(self, name: object) -> type[Kind]:
        """The class of this name; an unknown one is refused with the nearest."""
        if not isinstance(name, str):
            raise self._unknown(name)
        return self[name]

    def made_of(self, given: object) -> Kind:
        """An object from its name, its class, or itself."""
        if isinstance(given, self.base):
            return cast(Kind, given)
        if isinstance(given, str):
            given = self.named(given)
        if not isinstance(given, type) or not issubclass(given, self.base):
            raise InputError(
                f"A {self.what} is a name, a class or an instance of {self.base.__name__}, not "
                f"{shown(given)}."
            )
        lacking = self._lacking(given)
        if lacking:
            raise InputError(f"The {self.what} {called(given)} can't be used: {lacking}.")
        with blaming(
            f"The {self.what} {called(given)} can't be made without arguments",
            "give an instance, or mend its __init__",
        ):
            return cast(Kind, given())

    def _unknown(self, name: object) -> InputError:
        if isinstance(name, str):
            return unknown(self.what, name, self.names)
        names = ", ".join(map(repr, self.names))
        return InputError(f"{self.what} must be one of {names}, not {shown(name)}.")

    @property
    def names(self) -> list[str]:
        """All names, also of plug-ins that turn out to be broken; nothing is loaded."""
        return list(dict.fromkeys([*self.built_in, *self.registered, *self._declared]))

    @property
    def refused(self) -> list[str]:
        """Why plug-ins can't be used, a sentence for each."""
        sentences = []
        for name, entries in self._declared.items():
            if name in self.built_in:
                who = " and ".join(map(_package, entries))
                sentences.append(
                    f"The {self.what} {name!r} of {who} is not used: {self._taken(name)}."
                )
                continue
            try:
                self[name]
            except InputError as error:
                sentences.append(str(error))
        return sentences

    def plugin(self, name: object) -> Plugin | None:
        """Where the class of a plug-in comes from; None for any other name."""
        if not isinstance(name, str) or name in self.built_in or name not in self:
            return None
        return self._plugins[self[name]]

    @property
    def packages(self) -> set[str]:
        """The top-level names of the modules of all plug-ins that were loaded."""
        return {root_of(plugin.module) for plugin in self._plugins.values()}

    def declares(self, module: ModuleType) -> bool:
        """Whether an installed package declares a class that is in this module."""
        return any(
            root_of(entry.module) == root_of(module.__name__) and hasattr(module, entry.attr)
            for entries in self._declared.values()
            for entry in entries
        )

    @property
    def _declared(self) -> dict[str, list[EntryPoint]]:
        """The entry points of installed packages by name."""
        return _declared(self.group, tuple(map(str, sys.path)))

    def _can_be_used(self, name: str) -> bool:
        try:
            self[name]
        except InputError:
            return False
        return True

    def _load(self, name: str, entries: list[EntryPoint]) -> type[Kind]:
        entry = entries[0]
        if len(entries) > 1:
            raise InputError(
                f"The {self.what} {name!r} is that of {' and of '.join(map(_package, entries))}: "
                "uninstall all but one of them."
            )
        who = f"The {self.what} {name!r} of {_package(entry)} ({entry.value})"
        try:
            kind = entry.load()
        except (Exception, SystemExit) as error:  # a plug-in may raise anything
            raise InputError(
                f"{who} can't be loaded, because of {error_text(error)}: mend or uninstall the "
                "package."
            ) from error
        reason = self._wrong(kind) or self._misnamed(kind, name)
        if reason:
            raise InputError(f"{who} can't be used: {reason}.")
        if kind not in self._plugins:
            self._plugins[kind] = self._plugin_of(kind)
        return cast(type[Kind], kind)

    def _wrong(self, kind: Any) -> str:
        """Why a class can't be an entry, as the end of a sentence; empty if it can."""
        base = self.base.__name__
        if not isinstance(kind, type) or not issubclass(kind, self.base):
            return f"{called(kind)} is no subclass of {base}"
        if lacking := self._lacking(kind):
            return lacking
        for attribute in (self._name_in, *self._texts):
            try:
                text = attrgetter(attribute)(kind)
            except AttributeError:
                return f"it has no {attribute}, which every {base} has"
            if not isinstance(text, str):
                return f"its {attribute} is {shown(text)}, which is no text"
        name = self._name(kind)
        if name == _RESERVED or not _NAME.fullmatch(name):
            return (
                f"its {self._name_in} is {shown(name)}, but a name has letters, digits, - and _ "
                f"alone, 60 at most, and is not {_RESERVED!r}"
            )
        return ""

    def _lacking(self, kind: type[Any]) -> str:
        """Which methods a class has not written, as the end of a sentence."""
        if not isabstract(kind):
            return ""
        lacking = ", ".join(sorted(getattr(kind, "__abstractmethods__", ())))
        return f"it lacks {lacking}, which every {self.base.__name__} has"

    def _misnamed(self, kind: Any, name: str) -> str:
        own = self._name(kind)
        return (
            ""
            if own == name
            else f"its {self._name_in} is {own!r}, so rename the entry point to {own}"
        )

    def _taken(self, name: str) -> str:
        return f"iopea itself has a {self.what} {name!r}, so give it another name"

    def _plugin_of(self, kind: type[Kind]) -> Plugin:
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        digest = ""
        try:
            if file is not None:
                file = str(Path(file).resolve())
                folder = _folder_of(kind.__module__, Path(file))
                digest = digest_of(Path(file).read_bytes()) if not folder else _digest_in(folder)
        except OSError:  # in an archive
            pass
        return Plugin(self.group, self._name(kind), kind.__module__, file, digest)


def digest_of(content: bytes) -> str:
    """A short digest of what a file says."""
    return hashlib.sha256(content).hexdigest()[:_DIGEST]


def _folder_of(module: str, file: Path) -> Path | None:
    """The folder of the package that a module is in; None if it is in none, or in iopea.

    Of a namespace package, which others may share, it is the folder of the module.
    """
    names = module.split(".")
    if names[0] == root_of(__name__):
        return None
    for last in range(1, len(names) + 1):
        found = sys.modules.get(".".join(names[:last]))
        path = getattr(found, "__file__", None)
        if path is not None and hasattr(found, "__path__"):
            return Path(path).resolve().parent
    return file.parent if len(names) > 1 else None


@lru_cache(maxsize=64)
def _digest_in(folder: Path) -> str:
    """A short digest of all Python files in a folder, wherever it is; read once per process."""
    whole = hashlib.sha256()
    files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*.py")}
    for name in sorted(files):
        whole.update(f"{name} {digest_of(files[name].read_bytes())}\n".encode())
    return whole.hexdigest()[:_DIGEST]


def root_of(module: str) -> str:
    """The top-level package of a module, by its name."""
    return module.partition(".")[0]


def called(kind: Any) -> str:
    """A class by its name; anything else as it stands in messages.

    >>> called(dict), called(3)
    ('dict', '3')
    """
    return kind.__qualname__ if isinstance(kind, type) else shown(kind)


def error_text(error: BaseException) -> str:
    """An error of somebody else's code on one line.

    >>> error_text(KeyError("a"))
    "KeyError: 'a'"
    """
    text = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".: ")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


@contextmanager
def blaming(what: str, advice: str) -> Iterator[None]:
    """Errors of somebody else's code as a sentence; those of iopea are sentences already.

    >>> with blaming("f fails", "it must return a number"):
    ...     1 / 0
    Traceback (most recent call last):
    iopea.errors.InputError: f fails, because of ZeroDivisionError: division by zero: it must
    return a number.
    """
    try:
        yield
    except IopeaError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{what}, because of {error_text(error)}: {advice}.") from error


def _same(one: Plugin, other: Plugin, before: type[Any], now: type[Any]) -> bool:
    """Whether two classes are the same one, perhaps defined anew."""
    place = one.module == other.module or (one.file is not None and one.file == other.file)
    return place and before.__qualname__ == now.__qualname__


def _place(plugin: Plugin) -> str:
    """Where a class is defined: its file, or its module."""
    return f"the module {plugin.module}" if plugin.file is None else shown_path(plugin.file)


def strangers(groups: Iterable[str]) -> list[str]:
    """Entry points of packages in groups that iopea does not read, a sentence for each."""
    found = (group for group in entry_points().groups if root_of(group) == root_of(__name__))
    return [
        f"{entry.name!r} of {_package(entry)} ({entry.value}) is not used. "
        f"{unknown('group of entry points', group, groups)}"
        for group in sorted({*found} - {*groups})
        for entry in entry_points(group=group)
    ]


def _package(entry: EntryPoint) -> str:
    found = entry.dist
    return "an unknown package" if found is None else f"the package {found.name} {found.version}"


@lru_cache(maxsize=64)
def _declared(group: str, path: tuple[str, ...]) -> dict[str, list[EntryPoint]]:
    """The entry points of a group by name, in the packages on this path."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, []).append(entry)
    return found
