"""Discovery of benches: the modules of `kernbench.benches`, and files of the user."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import no_file
from kernbench.common.spelling import meant
from kernbench.common.user_modules import Unloadable, execute
from kernbench.config.file_kinds import check_file, kind_named
from kernbench.runtime_api.bench import Bench

PACKAGE = "kernbench.benches"


def installed_benches() -> dict[str, Bench]:
    """Every bench of the package, by name. A module whose name begins with `_` is a helper module without a bench.

    InputError for a module without a bench, and for two benches with the same name.
    """
    package = importlib.import_module(PACKAGE)
    found: dict[str, Bench] = {}
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda one: one.name):
        if not info.name.startswith("_"):
            module = importlib.import_module(f"{PACKAGE}.{info.name}")
            for one in benches_of(module, module.__name__):
                _add(found, one)
    return dict(sorted(found.items()))


def benches_of(module: ModuleType, where: str) -> list[Bench]:
    """The benches that a module defines, in order. InputError if the module does not exist, and if two benches have the same
    name."""
    made = [value for value in vars(module).values() if isinstance(value, Bench) and value.run.__module__ == module.__name__]
    found: dict[str, Bench] = {}
    for one in dict.fromkeys(made):
        _add(found, one)
    if not found:
        remedy = "write @bench(name=..., description=...) above the function run(ctx)"
        raise InputError(Problem(where, "the file contains no bench", remedy=remedy))
    return list(found.values())


def _add(found: dict[str, Bench], one: Bench) -> None:
    if one.name in found:
        files = f"{found[one.name].source} and {one.source}"
        raise InputError(Problem(f"bench {one.name}", f"two benches have this name, in {files}", remedy="rename one of them"))
    found[one.name] = one


def is_bench_target(target: str) -> bool:
    """Whether a TARGET names a Python file, or a bench of the package."""
    return bench_file(target) is not None or target in installed_benches()


def load_bench(target: str) -> Bench:
    """The bench that a TARGET names: a name, `FILE.py`, or `FILE.py:NAME` if the file has several benches."""
    path, name = _split(target)
    if path is None:
        there = installed_benches()
        if target not in there:
            if kind_named(target) or target.lower().endswith((".json", ".yaml", ".yml")):
                check_file(target, "bench")
            rule = f"there is no bench with this name; the benches are {', '.join(there)}"
            raise InputError(Problem(target, rule, remedy=meant(target, there) or "the name of a bench file must end in .py"))
        return there[target]
    found = {one.name: one for one in benches_of(_import_file(path), str(path))}
    if name in found:
        return found[name]
    if not name and len(found) == 1:
        return next(iter(found.values()))
    rule = "the file has no bench with this name; its benches are" if name else "the file has several benches:"
    remedy = f"name one of them, for example {path}:{next(iter(found))}"
    raise InputError(Problem(str(path), f"{rule} {', '.join(found)}", "bench" if name else "", name, remedy))


def bench_file(target: str) -> Path | None:
    """The Python file of a TARGET; None if it is the name of a bench of the package."""
    return _split(target)[0]


def is_script(target: str) -> bool:
    """Whether a TARGET names a Python file that defines no bench, and thus can only launch kernels or workers itself."""
    path = bench_file(target)
    try:
        tree = ast.parse(path.read_bytes()) if path is not None else None
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # `load_bench` says why it cannot be read
    if tree is None:
        return False
    called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    names = (one.id if isinstance(one, ast.Name) else one.attr if isinstance(one, ast.Attribute) else "" for one in called)
    return "bench" not in names


def _split(target: str) -> tuple[Path | None, str]:
    """The Python file of a TARGET and the name after it; the file is None if the TARGET names no file."""
    stem, dot_py, name = target.rpartition(".py")
    if not dot_py or (name and not name.startswith(":")):
        return None, ""
    return Path(f"{stem}.py"), name[1:]


def _import_file(path: Path) -> ModuleType:
    """Import a file as a new module. InputError, with the line, if the file cannot be read, raises an exception or would end
    the process."""
    if not os.path.isfile(path):
        raise InputError(Problem(str(path), no_file(path), remedy="check the path"))
    spec = importlib.util.spec_from_file_location(f"kernbench_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(Problem(str(path), "the file is not a Python module"))
    with folder_first(path.parent):
        try:
            return execute(spec)
        except Unloadable as error:
            place = error.place.replace(str(spec.origin), str(path))
            triton = getattr(error.__cause__, "name", None) == "triton"
            remedy = f"kbsim triton {path} runs a script that imports triton" if triton else ""
            raise InputError(Problem(place, error.rule, remedy=remedy)) from error


@contextmanager
def folder_first(folder: Path) -> Iterator[None]:
    """Make modules beside the file importable, as when Python runs the file."""
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield
    finally:
        sys.path.remove(str(folder.resolve()))
