"""Arbiters of scratchpad banks that are code of the user's own: what `spm.arbiter: "package.module:name"` names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernbench.common.errors import InputError, Problem, error_text
from kernbench.components.placement import impl_of
from kernbench.config import NpuConfig, SystemConfig
from kernbench.config.schema import ARBITERS

FIELD = "spm.arbiter"


def configured_arbiter(config: NpuConfig | SystemConfig) -> Any | None:
    """A new arbiter of the class or function that a machine names; None where it names one of the core's.

    InputError where there is none, its module is not allowed, or it does not give an arbiter.
    """
    field, name = (f"pe.{FIELD}", config.pe.spm.arbiter) if isinstance(config, SystemConfig) else (FIELD, config.spm.arbiter)
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
        raise refused(f"it cannot be called without arguments: {error_text(error)}", "let it give an arbiter") from error


def granted_by_code(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """A scratchpad's table of the core whose banks code of the user's own grants; what has no banks stays as it is."""
    return table if table.get("nowhere") else {**table, "arbiter": -1}


def arbiter_name(arbiter: Any) -> str:
    """As failures and checkpoints name it."""
    return impl_of(arbiter)
