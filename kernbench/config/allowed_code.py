"""The Python code that a file may name: this module checks every name of code in a machine, an algorithm or a sweep (ADR 37).

Every file may name modules of kernbench and of installed plug-ins (entry points of `PLUGINS`). Any other module must be allowed
by `--allow-code`, `allow_code=` or the user's settings. Otherwise neither the module nor its packages are imported.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, spec_from_file_location
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import no_file
from kernbench.common.user_modules import Unloadable, execute, loading
from kernbench.config.settings import read_settings, settings_file

PLUGINS = "kernbench.plugins"  #: the group of entry points
OWN = "kernbench"
OPTION = "--allow-code"

#: makes an error from a rule and a remedy; the caller adds the file, the field and the value
Refused: TypeAlias = Callable[[str, str], InputError]
AllowCode: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | AllowedCode"

_loading = threading.RLock()


class AllowedCode:
    """Directories and files, from options and settings, whose modules files may name."""

    def __init__(self, paths: Iterable[str | os.PathLike[str]] = (), option: str = OPTION) -> None:
        """InputError, with the name of the option, for a path that does not exist."""
        self.paths = tuple(dict.fromkeys(_real(path, option) for path in paths))
        self._settled: tuple[str, ...] | None = None  # including the paths of the settings, which are read here

    @classmethod
    def of(cls, given: AllowCode) -> AllowedCode:
        """Make the object from an argument of `allow_code=`: a path, several paths, or such an object."""
        if isinstance(given, AllowedCode):
            return given
        return cls((given,) if isinstance(given, (str, os.PathLike)) else given)

    def module(self, name: str, refused: Refused) -> ModuleType:
        """The module of a dotted name. Raises `refused` if it is not allowed, does not exist or cannot be imported."""
        if _is_own(name) or _is_plugin(name):
            return _imported(name, refused)
        with _loading:
            for spec in self._specs(name, refused):
                if spec.name not in sys.modules:
                    _execute(spec, self._roots(), refused)
        return sys.modules[name]

    def file(self, path: Path, name: str, refused: Refused) -> ModuleType:
        """The module of a .py file, loaded anew under this name. Raises `refused` in the same cases as `module`."""
        self.check_file(path, refused)
        spec = spec_from_file_location(name, path)
        assert spec is not None
        with _loading:
            return _execute(spec, (), refused)

    def check_file(self, path: Path, refused: Refused) -> None:
        """Raise `refused` if a .py file does not exist or is not allowed."""
        if not os.path.isfile(path):
            raise refused(no_file(path), "check the path")
        self._check(os.path.abspath(path), refused)

    def origin(self, name: str, refused: Refused) -> str | None:
        """The file of a module that has one, without importing it. Raises `refused` if it is not allowed or does not exist."""
        if _is_own(name) or _is_plugin(name):
            return _origin(name)
        return self._specs(name, refused)[-1].origin

    def _specs(self, name: str, refused: Refused) -> list[ModuleSpec]:
        """The specs of a module and its packages, outermost first, all of them allowed; nothing is imported."""
        if name.partition(".")[0] in sys.stdlib_module_names:
            remedy = f"name a module of your own, and pass {OPTION} PATH"
            raise refused("it is a module of Python itself, which cannot be allowed", remedy)
        found: list[ModuleSpec] = []
        for dotted in accumulate(name.split("."), lambda package, part: f"{package}.{part}"):
            spec = _loaded(dotted) or self._found(dotted, found[-1] if found else None, refused)
            if spec is None:
                raise refused(f"the module {dotted} is not installed, and no path of {OPTION} contains it", _remedy())
            if dotted == name or spec.origin is not None or not spec.submodule_search_locations:
                self._check(spec.origin or f"<{dotted}>", refused)  # for a package without a file, no code is run
            found.append(spec)
        return found

    def _found(self, dotted: str, package: ModuleSpec | None, refused: Refused) -> ModuleSpec | None:
        """The location of a module that is not loaded: first under the allowed paths, then on Python's path."""
        if package is not None:
            return PathFinder.find_spec(dotted, list(package.submodule_search_locations or ()))
        here = self._roots(), [place for place in sys.path if os.path.isabs(place)]
        found = [spec for places in here if (spec := PathFinder.find_spec(dotted, list(places))) is not None]
        real = [spec for spec in found if spec.origin is None or self._covers(spec.origin)]
        return next(iter((*real, *found)), None)

    def _check(self, file: str, refused: Refused) -> None:
        if not self._covers(file):
            file = os.path.realpath(file) if os.path.isabs(file) else file
            whole = file.removesuffix(f"{os.sep}__init__.py")
            raise refused(f"it names code that is not allowed, {file}", f"if you trust it, {_remedy(whole)}")

    def _covers(self, file: str) -> bool:
        if not os.path.isabs(file):  # `<stdin>` has none
            return False
        real = os.path.realpath(file)
        return any(real == path or real.startswith(path.rstrip(os.sep) + os.sep) for path in self._all())

    def _all(self) -> tuple[str, ...]:
        if self._settled is None:
            self._settled = (*self.paths, *read_settings().allow_code)
        return self._settled

    def _roots(self) -> tuple[str, ...]:
        """The directories in which names of allowed modules begin."""
        return tuple(dict.fromkeys(_root(path) for path in self._all()))


def _remedy(path: str = "PATH") -> str:
    there = settings_file()
    listed = "" if there is None else f", or list the path under allow_code in {there}"
    return f"give {OPTION} {path} (allow_code= in Python){listed}"


def _real(path: str | os.PathLike[str], option: str) -> str:
    """A path without links and `..`; InputError if the file or directory does not exist."""
    try:
        if not os.fspath(path):
            raise ValueError("it is empty")
        return str(Path(path).resolve(strict=True))
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, or a cycle of links
        reason = getattr(error, "strerror", None) or str(error)
        rule = f"it must be a directory or a file of Python: {reason}"
        raise InputError(Problem(option, rule, "PATH", os.fspath(path))) from None


def _root(path: str) -> str:
    """The directory in which names of modules begin for a path: the parent of the outermost package that contains the path."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def _is_own(name: str) -> bool:
    return name == OWN or name.startswith(f"{OWN}.")


def _is_plugin(name: str) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in _plugins(tuple(sys.path)))


@cache
def _plugins(path: tuple[str, ...]) -> frozenset[str]:
    """Modules that installed packages provide. The current directory, `""` on Python's path, does not count as an
    installation."""
    from importlib import metadata  # imported here, because importing it takes long

    found = metadata.distributions(path=[place for place in path if os.path.isabs(place)])
    points = (point for one in found for point in one.entry_points if point.group == PLUGINS)
    return frozenset(point.value.partition(":")[0].strip() for point in points)


def _loaded(name: str) -> ModuleSpec | None:
    """The spec of a loaded module, or one with its origin; None if it is not loaded."""
    module = sys.modules.get(name)
    if module is None:
        return None
    spec: ModuleSpec | None = getattr(module, "__spec__", None)
    if spec is not None:
        return spec
    return ModuleSpec(name, None, origin=str(getattr(module, "__file__", None) or f"<{name}>"))


def _imported(name: str, refused: Refused) -> ModuleType:
    """An allowed module, searched for in the same way as Python does."""
    if name in sys.modules:
        return sys.modules[name]
    try:
        with loading(_origin(name) or name):
            return import_module(name)
    except Unloadable as error:
        if isinstance(error.__cause__, ModuleNotFoundError) and f"{name}.".startswith(f"{error.__cause__.name}."):
            raise refused(f"there is no module {error.__cause__.name}", _remedy()) from error
        raise refused(f"{error.rule}, in {error.place}", "") from error


def _origin(name: str) -> str | None:
    """The file of an allowed module; its package is imported for this."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    return None if spec is None else spec.origin


def _execute(spec: ModuleSpec, roots: Sequence[str], refused: Refused) -> ModuleType:
    """Run a module. The module can import modules beside it; installed modules come first."""
    package, _, name = spec.name.rpartition(".")
    try:
        with _at_the_end_of_the_path(roots):
            module = execute(spec)
    except Unloadable as error:
        raise refused(f"{error.rule}, in {error.place}", "") from error
    if package:
        setattr(sys.modules[package], name, module)
    return module


@contextmanager
def _at_the_end_of_the_path(folders: Sequence[str]) -> Iterator[None]:
    added: list[Any] = [folder for folder in folders if folder not in sys.path]
    sys.path += added
    try:
        yield
    finally:
        for folder in added:
            sys.path.remove(folder)
