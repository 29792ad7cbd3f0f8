"""Modules with a `.pxd` beside them are compiled; what was built of them is taken before the source."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from kernbench_libraries import LibraryFinder
from tests.meta.source import ROOT, files, name, needs_source

pytestmark = needs_source
TYPED = files("kernbench", suffixes=(".pxd",))


def test_types_are_of_a_source_beside_them() -> None:
    assert TYPED and not [name(path) for path in TYPED if not path.with_suffix(".py").exists()]


def test_no_source_is_younger_than_what_was_built_of_it() -> None:
    libraries = LibraryFinder(str(ROOT / "kernbench")).files
    old = []
    for path in TYPED:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        built = Path(libraries.get(module, path.with_name(path.stem + EXTENSION_SUFFIXES[0])))
        sources = (path, path.with_suffix(".py"))
        if built.exists() and built.stat().st_mtime < max(source.stat().st_mtime for source in sources):
            old.append(name(path.with_suffix(".py")))
    assert not old, "build again: make install\n" + "\n".join(old)


SOURCES_FIRST = """
import sys
from importlib import machinery as m
loaders = (m.SourceFileLoader, m.SOURCE_SUFFIXES), (m.ExtensionFileLoader, m.EXTENSION_SUFFIXES)
sys.path_hooks.insert(0, m.FileFinder.path_hook(*loaders))
sys.path_importer_cache.clear()
import kernbench
sys.meta_path.remove(next(finder for finder in sys.meta_path if type(finder).__name__ == "LibraryFinder"))
import kernbench.triton_emu.handle
assert kernbench.triton_emu.handle.__file__.endswith(".py")
"""
COMMAND = "from kernbench.cli.main import main; main()"


@pytest.mark.parametrize("command", ["run tp_mlp --verify", "ccl run all_reduce -a halving_doubling -n 6 -b 1000"])
def test_without_the_compiler_the_sources_do_the_same(command: str) -> None:
    """A compiled class has its fields from the beginning; of a source each must be set before it is read."""
    outputs = []
    for before in ("", SOURCES_FIRST):
        told = [sys.executable, "-c", before + COMMAND, *command.split(), "--json"]
        outputs.append(subprocess.run(told, capture_output=True, text=True, check=False))
    compiled, sources = outputs
    assert compiled.returncode == 0, compiled.stderr
    assert (sources.returncode, sources.stdout) == (0, compiled.stdout), sources.stderr
