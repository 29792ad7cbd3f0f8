"""The first stage: a system's file read, and what no schema can see checked."""

from __future__ import annotations

import inspect
import os
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

from kernbench.common.errors import InputError, Problem
from kernbench.config.allowed_code import AllowCode
from kernbench.config.load import load_config
from kernbench.config.system import SystemConfig
from kernbench.config.system.parts import BUILTIN

if TYPE_CHECKING:
    from collections.abc import Iterator


def read_system(source: str | os.PathLike[str], *, allow_code: AllowCode = ()) -> SystemConfig:
    """The system of a preset or file, its components found. Raises InputError for what is wrong, and for one NPU.

    `allow_code`: as of `load_config`.
    """
    config = load_config(source, kind=SystemConfig, allow_code=allow_code)
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

        def refused(rule: str, remedy: str, field: str = f"components.{kind}.impl", impl: str = component.impl) -> InputError:
            return InputError(Problem(config.where(field), rule, field, impl, remedy))

        module_name, _, name = component.impl.partition(":")
        try:
            module = config.allowed_code.module(module_name, refused)
            found: Any = reduce(lambda at, part: getattr(at, part, None), name.split("."), cast(Any, module))
            if found is None:
                raise refused(f"{module_name} has no {name}", "name a class")
            if inspect.ismodule(found) or not callable(found):
                raise refused(f"it is a {type(found).__name__}", "name a class")
        except InputError as error:
            yield from error.problems
