"""Packages that can be called: `kernbench.sweep(...)` runs a sweep, and `kernbench.sweep.spec` is still a module of the
package."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_FUNCTIONS: dict[str, str] = {}  # for each package, the module that has the function with the package's name


class _Callable(ModuleType):
    """A package that can be called like a function."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.__wrapped__(*arguments, **named)

    @property
    def __wrapped__(self) -> Any:
        return getattr(import_module(_FUNCTIONS[self.__name__]), self.__name__.rpartition(".")[2])

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.__wrapped__)


def call_as(package: str, module: str) -> None:
    """Make a package callable: a call of `package` imports `module`, and calls its function with the package's name."""
    _FUNCTIONS[package] = module
    sys.modules[package].__class__ = _Callable
