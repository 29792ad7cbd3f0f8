"""Components and arbiters of users that replace engines and bank arbiters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kernbench.common import naming
from kernbench.common.errors import InputError, Problem, error_text
from kernbench.components.registry import make_component
from kernbench.config import NpuConfig, SystemConfig
from kernbench.config.schema import ARBITERS
from kernbench.config.system.parts import BUILTIN

_ENGINE = r"(?:dma|te|ve)[0-9]+"


def replaced_engines(engines: Sequence[str], components: Sequence[str]) -> list[int]:
    """For each engine, in the core's order, the position of the component that has its name, or -1.

    A component with any other name is added to the machine. InputError for the name of an engine that is not there.
    """
    for name in components:
        if re.fullmatch(_ENGINE, name) and name not in engines:
            rule = f"the machine has no such engine: it has {', '.join(engines)}"
            raise InputError(
                Problem("components", rule, "name", name, "name an engine such as te0, or a part other than dma, te and ve")
            )
    return [components.index(name) if name in components else -1 for name in engines]


def configured(config: NpuConfig | SystemConfig, engines: Sequence[str]) -> dict[str, Any]:
    """The components with which a machine's file replaces engines, by the engines' names; each is a separate object.

    InputError for a kind of node that cannot be replaced. Passive components are not included; they belong to routes.
    """
    out: dict[str, Any] = {}
    for kind, spec in sorted(config.components.items()):
        if spec.impl == BUILTIN:
            continue
        from kernbench.components.parts import passive_class  # imported here, because few machines replace components

        if passive_class(config, kind) is not None:
            continue
        where = f"{config.where(f'components.{kind}.impl', 'components')}: components.{kind}"
        for name in engines:
            if naming.kind_of_engine(name) == kind:
                out[name] = make_component(spec.impl, spec.spec, where, config.allowed_code)
    return out


def impl_of(component: Any) -> str:
    """The name of a component in traces and checkpoints: `package.module:Class`, or `capsule`."""
    kind = type(component)
    return "capsule" if kind.__name__ == "PyCapsule" else f"{kind.__module__}:{kind.__qualname__}"


FIELD = "spm.arbiter"


def configured_arbiter(config: NpuConfig | SystemConfig) -> Any | None:
    """A new arbiter of the class or function that a machine names; None for an arbiter of the core.

    InputError if it does not exist, its module is not allowed, or it does not return an arbiter.
    """
    field, name = f"{config.pe_path}{FIELD}", config.pe.spm.arbiter
    if name in ARBITERS:
        return None
    where = config.where(field)

    def refused(rule: str, remedy: str = "give it as \"package.module:name\"") -> InputError:
        return InputError(Problem(where, rule, field, name, remedy))

    module, _, path = name.partition(":")
    found: Any = config.allowed_code.module(module, refused)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise refused(f"{module} has no class or function {path}")
    try:
        return found()
    except (TypeError, ValueError) as error:
        raise refused(f"the call without arguments fails: {error_text(error)}", "return an arbiter") from error


def granted_by_code(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The core's table of a scratchpad whose banks user-defined code grants; a table without banks is unchanged."""
    return table if table.get("nowhere") else {**table, "arbiter": -1}


def arbiter_name(arbiter: Any) -> str:
    """The name of an arbiter in failures and checkpoints."""
    return impl_of(arbiter)
