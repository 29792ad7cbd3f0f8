"""Packages that can be called: `kernbench.sweep(...)` runs a sweep, and `kernbench.sweep.spec` is still a package in it."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_FUNCTIONS: dict[str, str] = {}  # by package: the module of the function that has the package's own name


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
    """Calling `package` calls the function of the same name in `module`, which is imported then."""
    _FUNCTIONS[package] = module
    sys.modules[package].__class__ = _Callable
