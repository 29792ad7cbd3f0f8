"""Compiled modules come from the library of their room; in builds without these libraries, from where Python finds them."""

from __future__ import annotations

import importlib.util
import inspect
import pickle
import subprocess
import sys
from collections import Counter
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import kernbench
import kernbench_core
from kernbench_libraries import LibraryFinder

FINDERS = [LibraryFinder(str(Path(package.__file__ or "").parent)) for package in (kernbench, kernbench_core)]
FILES = {module: Path(file) for finder in FINDERS for module, file in finder.files.items()}
needs_libraries = pytest.mark.skipif(not FILES, reason="each module of this build is a library by itself")


def ran(code: str) -> str:
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


@needs_libraries
def test_a_room_is_one_library_and_no_other_is_beside_it() -> None:
    rooms = set(FILES.values())
    assert len(FILES) > 100 and len(FILES) > 5 * len(rooms)
    folders = [Path(package.__file__ or "").parent for package in (kernbench, kernbench_core)]
    assert {path for folder in folders for path in folder.rglob(f"*{EXTENSION_SUFFIXES[0]}")} == rooms
    assert max(Counter((file, module.rpartition(".")[2]) for module, file in FILES.items()).values()) == 1


@needs_libraries
def test_every_module_is_loaded_from_its_library() -> None:
    code = f"""
from importlib import import_module
for module in {sorted(FILES)}:
    made = import_module(module)
    assert made.__name__ == module == made.__spec__.name, made
    print(made.__file__)
"""
    assert ran(code).splitlines() == [str(FILES[module]) for module in sorted(FILES)]


@needs_libraries
@pytest.mark.parametrize(
    "module",
    ["kernbench_core.model.loop", "kernbench_core.fast.loop", "kernbench_core.model.share.rules", "kernbench.common.handles"],
)
def test_a_module_can_be_imported_first(module: str) -> None:
    """Nothing of its package but what importing it needs was imported before."""
    assert ran(f"import {module}; print({module}.__file__)") == str(FILES[module])
    assert ran(f"import importlib.util as u; print(u.find_spec({module!r}).origin)") == str(FILES[module])


def test_classes_of_libraries_have_modules_and_files() -> None:
    core = kernbench_core.Core
    assert core.__module__ == "kernbench_core.core"
    assert inspect.getfile(core).endswith(EXTENSION_SUFFIXES[0])
    assert pickle.loads(pickle.dumps(core)) is core
    assert pickle.loads(pickle.dumps(kernbench_core.Status.DONE)) is kernbench_core.Status.DONE


def test_modules_that_no_list_names_are_left_to_python() -> None:
    assert [finder.find_spec("json") for finder in FINDERS] == [None, None]
    assert [finder.find_spec("kernbench_core.no_such") for finder in FINDERS] == [None, None]
    assert importlib.util.find_spec("kernbench_core.no_such") is None


def test_without_its_library_a_module_is_left_to_python(tmp_path: Path) -> None:
    """As in a checkout that holds the list of another build."""
    package = tmp_path / "packed"
    package.mkdir()
    assert LibraryFinder(str(package)).files == {}
    lines = "packed.room.one packed.room._compiled\npacked.two packed._compiled\n"
    (package / "compiled.txt").write_text(lines, encoding="ascii")
    (package / f"_compiled{EXTENSION_SUFFIXES[0]}").touch()
    finder = LibraryFinder(str(package))
    assert finder.files == {"packed.two": str(package / f"_compiled{EXTENSION_SUFFIXES[0]}")}
    assert finder.find_spec("packed.room.one") is None
    found = finder.find_spec("packed.two")
    assert found is not None and found.origin == finder.files["packed.two"]
