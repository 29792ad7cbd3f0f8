"""The components of engines.c, built out of tree with the system's C compiler against the installed header."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType

import kernbench_core

SOURCE = Path(__file__).with_name("engines.c")


def compiler() -> str | None:
    """A C compiler, or None."""
    named = (sysconfig.get_config_var("CC") or "").split(" ")[0]
    return next((found for name in (named, "cc", "gcc", "clang") if name and (found := shutil.which(name))), None)


@cache
def engines() -> ModuleType | None:
    """The module, or None where there is no compiler."""
    return built(SOURCE)


def built(source: Path, header: str | None = None) -> ModuleType | None:
    """The module of a C file, or None where there is no compiler. `header`: the folder of its first abi.h."""
    cc = compiler()
    if cc is None or not sys.platform.startswith("linux"):
        return None
    folder = Path(tempfile.mkdtemp(prefix="kernbench-abi-"))
    target = folder / f"{source.stem}{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = (f"-I{sysconfig.get_path('include')}", f"-I{header or kernbench_core.get_include()}")
    flags = ["-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    flags += ["-Wno-unused-parameter", "-Wno-missing-field-initializers"]
    flags += ["-DFIRST_HEADER"] if header else []
    made = subprocess.run(
        [cc, *flags, *include, "-o", str(target), str(source)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    spec = importlib.util.spec_from_file_location(source.stem, target)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shutil.rmtree(folder)
    return module
