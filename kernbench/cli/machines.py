"""The machine of a command, and what is said of its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernbench.cli import output

if TYPE_CHECKING:
    from kernbench.config import MachineConfig

MOST_WARNINGS = 8


def load_machine(
    source: str, overrides: Sequence[str] | None, *, quiet: bool = False, kind: Any = None, allow_code: Sequence[str] = ()
) -> Any:
    """The machine, and on stderr which values that the user set have no effect on it."""
    from kernbench.config import load_config

    config: MachineConfig = load_config(source, overrides or [], kind=kind, allow_code=allow_code)
    warn_of_values(config, quiet=quiet)
    return config


def warn_of_values(config: MachineConfig, *, quiet: bool) -> None:
    """Say on stderr which values that the user set have no effect."""
    from kernbench.config.effects import told_unused

    if quiet:
        return
    found = told_unused(config)
    for one in found[:MOST_WARNINGS]:
        output.note(f"warning: {one}")
    if len(found) > MOST_WARNINGS:
        output.note(f"warning: {len(found) - MOST_WARNINGS:,} more values have no effect: kbsim config check lists them")
