"""After `import kernbench.triton.patch`, `import triton` imports this package, so files that import Triton run unchanged."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from kernbench.triton.dtypes import TritonError

_OWN = "kernbench.triton"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `triton` and its modules in this package."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if name != "triton" and not name.startswith("triton."):
            return None
        own = _OWN + name.removeprefix("triton")
        if importlib.util.find_spec(own) is None:
            return None
        return ModuleSpec(name, self, is_package=hasattr(importlib.import_module(own), "__path__"))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_OWN + spec.name.removeprefix("triton"))
        self._kept = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._kept  # that of the module under its own name


def install() -> None:
    """Make `import triton` import this package. If Triton itself has been imported already, raise TritonError."""
    known = sys.modules.get("triton")
    if known is not None and known.__name__ != _OWN:
        raise TritonError("triton has been imported already; import kernbench.triton.patch before it")
    if not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


install()
