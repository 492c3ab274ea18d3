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
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from inspect import isabstract
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, cast

from iopea.errors import InputError, shown, unknown

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
    digest : str. Digest of what the file says; empty if there is none.
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
        before = self.registered.get(name)
        if before is not None and not _same(self._plugins[before], plugin, before, kind):
            raise InputError(
                f"Cannot register {called(kind)}: the {self.what} {name!r} is already that of the "
                f"module {self._plugins[before].module}, so give it another name."
            )
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
        if isinstance(given, type) and issubclass(given, self.base):
            return cast(Kind, given())
        if not isinstance(given, str):
            raise InputError(
                f"A {self.what} is a name, a class or an instance of {self.base.__name__}, not "
                f"{shown(given)}."
            )
        return self.named(given)()

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
        if isabstract(kind):
            lacking = sorted(getattr(kind, "__abstractmethods__", ()))
            return f"it lacks {', '.join(lacking)}, which every {base} has"
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

    def _misnamed(self, kind: Any, name: str) -> str:
        own = self._name(kind)
        return "" if own == name else f"its {self._name_in} is {own!r}, so use that name for it"

    def _taken(self, name: str) -> str:
        return f"iopea itself has a {self.what} {name!r}, so give it another name"

    def _plugin_of(self, kind: type[Kind]) -> Plugin:
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        digest = ""
        try:
            if file is not None:
                file = str(Path(file).resolve())
                digest = digest_of(Path(file).read_bytes())
        except OSError:  # in an archive
            pass
        return Plugin(self.group, self._name(kind), kind.__module__, file, digest)


def digest_of(content: bytes) -> str:
    """A short digest of what a file says."""
    return hashlib.sha256(content).hexdigest()[:_DIGEST]


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


def _same(one: Plugin, other: Plugin, before: type[Any], now: type[Any]) -> bool:
    """Whether two classes are the same one, perhaps defined anew."""
    place = one.module == other.module or (one.file is not None and one.file == other.file)
    return place and before.__qualname__ == now.__qualname__


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
