"""The kinds of machine files by the short names that commands take."""

from __future__ import annotations

from kernbench.common.errors import InputError, Problem
from kernbench.config.load import KINDS
from kernbench.config.machine import MachineConfig


def short_name(schema: str) -> str:
    """The kind in a schema's name: `npu` of `kernbench/npu/1`."""
    return schema.split("/")[1]


def machine_kinds(kind: str | None = None) -> dict[str, type[MachineConfig]]:
    """The kinds by the `schema` of their files, all or the one of this short name; InputError for any other name."""
    names = [short_name(schema) for schema in KINDS]
    if kind is not None and kind not in names:
        raise InputError(Problem("kbsim config", f"it must be one of {', '.join(names)}", "--kind", kind))
    return {schema: model for schema, model in KINDS.items() if kind in (None, short_name(schema))}
