"""Plug-ins: environments, learners and planners of the user's own, by name.

A name comes to stand for something in one of two ways:

    @conrl.envs.register, @conrl.learners.register, @conrl.planners.register    in a module that somebody imports
    [project.entry-points."conrl.environments"]  pump = "my_lab:pump"           of an installed package; the groups are
                                                                                GROUPS, and the name is looked up there

Built-in names come first and load nothing. An entry point is loaded when its name is asked for, or to be listed: what
is installed is trusted as installed. Any other module is imported only if the user asks for it (`conrl.foreign`). What
stands in a directory of runs loads nothing at all (`installed=False`).

A name means one thing: a plug-in that takes a built-in name, or that of another plug-in, is refused. The same object
may be registered again, as a notebook does that runs a cell twice.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from conrl.errors import SpecError, shown, unknown
from conrl.foreign import MAIN, MODULE, permit, reason, theirs

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints
    from types import FrameType

T = TypeVar("T")
F = TypeVar("F")

GROUPS = {"environment": "conrl.environments", "algorithm": "conrl.learners", "planner": "conrl.planners"}
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
POINT = re.compile(rf"{MODULE.pattern}\s*:\s*{MODULE.pattern}\s*(\[.*\])?")  # of a package: MODULE:NAME [EXTRAS]


@dataclass(frozen=True)
class Source:
    """Where a plug-in comes from."""

    module: str  # that registered it, which need not be the one that it is defined in
    qualname: str
    package: str | None = None  # of its entry point, with its version; None if a decorator registered it

    @property
    def version(self) -> str | None:
        """`__version__` of its module, or of the package that the module is in."""
        own, outer = sys.modules.get(self.module), sys.modules.get(_top(self.module))
        found = getattr(own, "__version__", None) or getattr(outer, "__version__", None)
        return found if isinstance(found, str) else None

    @property
    def identity(self) -> dict[str, str | None]:
        """What tells one version of a plug-in from another, for the settings of a run."""
        return {"module": self.module, "version": self.version}

    def __str__(self) -> str:
        return f"{self.module}.{self.qualname}" + (f" of {self.package}" if self.package else "")


def source_of(thing: Any, package: str | None = None) -> Source:
    """Where an object is from: the module that is registering it now or, of an entry point, where it is defined."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    module = str(named.__module__) if package else _registering() or str(named.__module__)
    return Source(MAIN if module == "__mp_main__" else module, str(named.__qualname__), package)


def _registering() -> str | None:
    """The module that called us, from outside of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if _top(name) != __package__:
            return name or None
        frame = frame.f_back
    return None


@dataclass(frozen=True)
class _Entry(Generic[T]):
    given: Any  # as it was registered
    value: T  # what is made of it
    source: Source


class Registry(Generic[T]):
    """The names of one kind of thing: those built in, those registered, and those of entry points.

    Args:
        kind: "environment", "algorithm" or "planner".
        built_in: by name.
        read: what is kept of an object that is registered under a name; refuses what is no such thing.
    """

    def __init__(self, kind: str, built_in: Mapping[str, T], read: Callable[[str, Any], T]) -> None:
        self.kind, self.built_in, self._read = kind, built_in, read
        self._entries: dict[str, _Entry[T]] = {}

    # -- asking -------------------------------------------------------------------------------------------

    def find(self, name: Any, installed: bool = True, key: tuple[str, ...] = ()) -> T:
        """What a name stands for. `installed`: its entry point may be loaded, if it is not known yet; otherwise only
        one whose module is there, so that nothing is imported."""
        found = self.get(name)
        points = self._points(name) if found is None else []
        if points and (installed or all(source_of_point(point).module in sys.modules for point in points)):
            self._load(points)
            found = self.get(name)
        if found is not None:
            return found
        if points:
            raise SpecError(
                f"{self.kind} {name!r} is a plug-in of {_package(points[0])}, and a file loads none; import "
                f"{(module := source_of_point(points[0]).module)} first (--import {module})",
                key=key,
            )
        raise SpecError(unknown(self.kind, name, self.names()), key=key)

    def get(self, name: Any) -> T | None:
        """What a name stands for without loading anything; None if that is not known."""
        if not isinstance(name, str):
            return None
        entry = self._entries.get(name)
        return self.built_in.get(name, None if entry is None else entry.value)

    def knows(self, name: Any) -> bool:
        """Whether there is such a name; nothing is loaded."""
        return self.get(name) is not None or bool(self._points(name))

    def names(self) -> list[str]:
        """Every name; nothing is loaded."""
        return list(dict.fromkeys((*self.built_in, *self._entries, *(point.name for point in self._points()))))

    def source(self, name: Any) -> Source | None:
        """Where a plug-in that is loaded comes from; None for what is built in or not loaded."""
        entry = self._entries.get(name) if isinstance(name, str) and name not in self.built_in else None
        return None if entry is None else entry.source

    def plugins(self) -> tuple[dict[str, T], list[str]]:
        """All plug-ins, loaded, by name; and a line for each entry point that cannot be."""
        broken = _unreadable()
        for point in self._points():
            if point.name in self.built_in:
                broken.append(f"{self.kind} {point.name!r} of {_package(point)}: the name is built in")
            elif point.name not in self._entries:
                try:
                    self._load([other for other in self._points() if other.name == point.name])
                except SpecError as error:
                    broken.append(str(error))
        return {name: entry.value for name, entry in self._entries.items()}, list(dict.fromkeys(broken))

    # -- registering --------------------------------------------------------------------------------------

    def decorator(self, given: Any) -> Any:
        """`@register`, or `@register("name")`."""
        if isinstance(given, str):
            return lambda thing: self._decorated(thing, given)
        return self._decorated(given, None)

    def _decorated(self, thing: F, name: str | None) -> F:
        self.add(thing, name)
        return thing

    def add(self, thing: Any, name: str | None = None, point: EntryPoint | None = None) -> None:
        """Register an object, by default under its own name: `pump_station` and `PumpStation` are pump-station."""
        package = None if point is None else _package(point)
        with theirs(f"{self.kind} {shown(name)} cannot be registered", SpecError):
            source = source_of(thing, package)
        if point is not None and _top(source.module) != _top(point.module):  # made by or defined in another package
            source = source_of_point(point)
        entry = self._entries.get(name) if isinstance(name, str) else None
        if entry is not None and entry.given is thing and package:  # loading it has registered it
            self._entries[str(name)] = replace(entry, source=replace(entry.source, package=package))
            return
        name = own_name(thing, source) if name is None else name
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise SpecError(
                f"{source} cannot be registered as {shown(name)}; a name is lower-case words of letters and digits, "
                "such as pump-station"
            )
        if name in self.built_in:
            raise SpecError(f"{self.kind} {name!r} is built in; {source} needs another name")
        entry = self._entries.get(name)
        others = [] if entry is None else [entry.source]
        others += [source_of_point(point) for point in self._points(name)]
        for other in others:
            same = (other.module, other.qualname) == (source.module, source.qualname)
            if not same and not (other.package and _top(other.module) == _top(source.module)):
                raise SpecError(f"{self.kind} {name!r} is registered twice, by {other} and by {source}; rename one")
        self._entries[name] = _Entry(thing, self._read(name, thing), source)
        permit(source.module)

    def remove(self, name: str) -> None:
        """Forget a plug-in."""
        self._entries.pop(name, None)

    # -- entry points -------------------------------------------------------------------------------------

    def _points(self, name: Any = None) -> list[EntryPoint]:
        """Those of this kind, or of one name. They are looked up each time: a package may be installed meanwhile."""
        if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
            return []
        return [point for point in _entry_points(self.kind) if name in (None, point.name)]

    def _load(self, points: Sequence[EntryPoint]) -> None:
        """Load the entry point of a name, which must be one alone."""
        point = points[0]
        if len(points) > 1:
            both = " and ".join(f"{each.value} of {_package(each)}" for each in points)
            raise SpecError(f"{self.kind} {point.name!r} is in several packages, {both}; uninstall all but one")
        where = f"{self.kind} {point.name!r} of {_package(point)}"
        try:
            if not POINT.fullmatch(point.value):
                raise ValueError("it must be MODULE:NAME")
            thing = reduce(getattr, point.attr.split("."), importlib.import_module(point.module))
        except (Exception, SystemExit) as error:  # a module that is not ours raises anything
            raise SpecError(f"{where}: {point.value} cannot be loaded: {reason(error)}") from error
        try:
            self.add(thing, point.name, point)
        except SpecError as error:
            raise SpecError(f"{where}: {error}") from error


def _entry_points(kind: str) -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # here: it takes a twentieth of a second to load

    try:
        return entry_points(group=GROUPS[kind])
    except Exception:  # of a package whose list of them is damaged: all others are still there
        return [point for points in _by_package()[0] for point in points.select(group=GROUPS[kind])]


def _by_package() -> tuple[list[EntryPoints], list[str]]:
    """The entry points of each package, and a line for each whose list of them cannot be read."""
    from importlib.metadata import distributions

    found: dict[str, EntryPoints] = {}
    broken = []
    for package in distributions():
        where = f"the package in {shown(str(getattr(package, '_path', package)), 200)}"
        try:
            points = package.entry_points
            found.setdefault(str(package.name), points)  # the first on the path is the one that is imported
        except Exception as error:
            broken.append(f"{where}: its entry points cannot be read: {reason(error)}")
    return list(found.values()), broken


def _unreadable() -> list[str]:
    """A line for each package whose entry points cannot be read."""
    from importlib.metadata import entry_points

    try:
        entry_points()
    except Exception:
        return _by_package()[1]
    return []


def entry_names(kind: str) -> list[str]:
    """The names of the entry points of a kind; nothing is loaded."""
    return [point.name for point in _entry_points(kind)]


def _package(point: EntryPoint) -> str:
    """The package that an entry point belongs to, with its version."""
    if point.dist is None:
        return "an unknown package"
    try:
        return f"{point.dist.name} {point.dist.version}"
    except Exception:  # what describes the package is damaged
        return "a package without a readable description"


def source_of_point(point: EntryPoint) -> Source:
    """Where an entry point leads, by what it says, which may be anything."""
    module, _, name = str(point.value).partition(":")
    return Source(module.strip(), name.partition("[")[0].strip(), _package(point))


def _top(module: str) -> str:
    return module.partition(".")[0]


def own_name(thing: Any, source: Source) -> str:
    """The name that an object gives itself, or else what it is called in Python, in lower-case words."""
    given = _name_in(thing)
    if given is not None:
        return given
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", source.qualname.rpartition(".")[2])
    return words.replace("_", "-").strip("-").lower()


def _name_in(thing: Any) -> str | None:
    """What an object calls itself. What a class inherits is its parent's name, which may be registered too."""
    given = vars(thing).get("name") if inspect.isclass(thing) else getattr(thing, "name", None)
    return given if isinstance(given, str) else None


def named(thing: Any, name: str) -> None:
    """Have a class carry the name that it is registered under."""
    given = _name_in(thing)
    if given is not None:
        if given != name:
            raise SpecError(f"{source_of(thing)} calls itself {given!r} (name) and is registered as {name!r}; use one")
        return
    with theirs(f"{source_of(thing)} cannot be given a name", SpecError):
        thing.name = name


def check_problems(given: Any, whose: str) -> None:
    """Refuse what does not say which kinds of problems a learner or a planner takes."""
    if not (isinstance(given, tuple) and all(isinstance(kind, type) for kind in given)):
        raise SpecError(f"{whose}: problems is {shown(given)}; it must be a tuple such as (conrl.Linear,)")
