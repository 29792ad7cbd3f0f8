"""Finds the class that `impl: "package.module:Class"` names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kernbench.common.errors import InputError, Problem

REMEDY = 'give it as "package.module:Class", with the package on the path (PYTHONPATH, or installed)'


def find_class(impl: str, where: str = "components", field: str = "impl") -> type[Any]:
    """The class that a text names. InputError, naming `where` and `field`, where there is none."""

    def refused(rule: str, remedy: str = REMEDY) -> InputError:
        return InputError(Problem(where, rule, field, impl, remedy))

    module_name, colon, class_name = impl.partition(":")
    if not (module_name and colon and class_name):
        raise refused("it is no name of a class")
    try:
        module = import_module(module_name)
    except Exception as error:  # the module is the user's: whatever it raises is told, and what raised it is kept
        raise refused(f"its module cannot be imported: {type(error).__name__}: {error}") from error
    found: Any = module
    for part in class_name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise refused(f"{module_name} has no class {class_name}")
    return found


def load_component(impl: str, where: str = "components", field: str = "impl") -> type[Any]:
    """The class of a component. InputError, naming `where` and `field`, where there is none."""
    found = find_class(impl, where, field)
    if not callable(getattr(found, "step", None)) or not hasattr(found, "Spec"):
        rule = "it is no component: it has no step or no Spec"
        raise InputError(Problem(where, rule, field, impl, "derive it from kernbench.Component"))
    return found


def make_component(impl: str, parameters: dict[str, Any], where: str = "components") -> Any:
    """A component of the class that `impl` names. InputError also where its Spec does not take the parameters."""
    kind = load_component(impl, where)
    try:
        return kind(kind.Spec(**parameters))
    except (TypeError, ValueError) as error:
        raise InputError(Problem(where, f"{impl} does not take these parameters: {error}", "spec", parameters)) from error
