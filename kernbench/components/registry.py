"""Finds the class that `impl: "package.module:Class"` names."""

from __future__ import annotations

from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.config.allowed_code import AllowCode, AllowedCode

REMEDY = 'give it as "package.module:Class"'


def find_class(impl: str, where: str = "components", field: str = "impl", allow_code: AllowCode = ()) -> type[Any]:
    """The class that a text names. InputError with `where` and `field` if no such class exists or its code is not allowed."""

    def refused(rule: str, remedy: str = REMEDY) -> InputError:
        return InputError(Problem(where, rule, field, impl, remedy))

    module_name, colon, class_name = impl.partition(":")
    if not (module_name and colon and class_name):
        raise refused("it is not the name of a class")
    found: Any = AllowedCode.of(allow_code).module(module_name, refused)
    for part in class_name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise refused(f"{module_name} has no class {class_name}")
    return found


def load_component(impl: str, where: str = "components", field: str = "impl", *, allow_code: AllowCode = ()) -> type[Any]:
    """The class of a component. InputError with `where` and `field` if no such class exists or its module is not allowed."""
    found = find_class(impl, where, field, allow_code)
    if not callable(getattr(found, "step", None)) or not hasattr(found, "Spec"):
        rule = "it is not a component: it has no step or no Spec"
        raise InputError(Problem(where, rule, field, impl, "derive it from kernbench.Component"))
    return found


def make_component(impl: str, parameters: dict[str, Any], where: str = "components", allow_code: AllowCode = ()) -> Any:
    """A component of the class that `impl` names. InputError also if its Spec does not take the parameters."""
    kind = load_component(impl, where, allow_code=allow_code)
    try:
        return kind(kind.Spec(**parameters))
    except (TypeError, ValueError) as error:
        raise InputError(Problem(where, f"{impl} does not take these parameters: {error}", "spec", parameters)) from error
