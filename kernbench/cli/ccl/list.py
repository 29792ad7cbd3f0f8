"""`kbsim ccl list`: the algorithms of each collective."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output
from kernbench.cli.options import Json

if TYPE_CHECKING:
    from kernbench.ccl.registry import Entry

Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--ccl", metavar="FILE", help="A file with additional algorithms, in the format of ccl.yaml. May be repeated.",
            show_default=False
    ),
]


def list_(files: Files = None, as_json: Json = False) -> int:
    """Print the algorithms of each collective, and the default size and memory of the queues between PEs."""
    from kernbench.ccl.registry import read_registry
    from kernbench.cli.ccl.table import algorithm_list

    registry = read_registry(*(files or []))
    if as_json:
        queues = {name: getattr(registry, name) for name in ("slots", "slot_bytes", "tier")}
        output.show_json({"defaults": queues, "algorithms": [_plain(one) for one in registry.entries]})
    else:
        output.show(algorithm_list(registry, output.console(sys.stdout).width))
    return output.OK


def _plain(entry: Entry) -> dict[str, Any]:
    """The description of an algorithm in its file."""
    from dataclasses import fields

    return {field.name: getattr(entry, field.name) for field in fields(entry) if field.compare}
