"""The first stage: a system's file read, and what no schema can see checked."""

from __future__ import annotations

import importlib
import inspect
import os
from functools import reduce
from typing import TYPE_CHECKING, Any

from kernbench.common.errors import InputError, Problem
from kernbench.config.load import load_config
from kernbench.config.system import SystemConfig
from kernbench.config.system_parts import BUILTIN

if TYPE_CHECKING:
    from collections.abc import Iterator


def read_system(source: str | os.PathLike[str]) -> SystemConfig:
    """The system of a preset or file, its components found. Raises InputError for what is wrong, and for one NPU."""
    config = load_config(source, kind=SystemConfig)
    check_components(config)
    return config


def check_components(config: SystemConfig) -> None:
    """Import what `components` names; InputError says which cannot be, and why."""
    problems = list(_component_problems(config))
    if problems:
        raise InputError(problems)


def _component_problems(config: SystemConfig) -> Iterator[Problem]:
    for kind, component in config.components.items():
        if component.impl == BUILTIN:
            continue
        field = f"components.{kind}.impl"
        try:
            found = find_implementation(component.impl)
        except Exception as error:  # whatever the user's module raises while it is imported
            rule = f"it cannot be imported: {type(error).__name__}: {error}"
            remedy = "install the module, or put its folder into PYTHONPATH"
        else:
            if inspect.isclass(found) or (not inspect.ismodule(found) and callable(found)):
                continue
            rule = f"it is a {type(found).__name__}"
            remedy = "name a class"
        yield Problem(config.where(field), rule, field, component.impl, remedy)


def find_implementation(impl: str) -> Any:
    """The object that `package.module:Class` names; raises what importing it raises."""
    module, _, name = impl.partition(":")
    return reduce(getattr, name.split("."), importlib.import_module(module))
