"""`kbsim tenants`: several programs that share one machine, with quotas, and how much each is slowed down."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import DEFAULT_MACHINE, AllowCode, Config, Json, Overrides, Quiet
from kernbench.cli.target import load_machine
from kernbench.cli.text import LIMIT, WIDE, Justify, size_text, status_text, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.analysis.tenants import Shared

Programs = Annotated[
    list[str],
    typer.Argument(
        metavar="PROGRAM...",
        help="Programs (.json, .yaml), one for each tenant. To give a tenant a quota, write FILE:weight=2,outstanding=4.",
        show_default=False,
    ),
]


def tenants(
    programs: Programs,
    config: Config = DEFAULT_MACHINE,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run several programs at the same time on one machine, with quotas, and report the slowdown of each program."""
    from kernbench.analysis.tenants import read_tenant, share

    machine = load_machine(config, overrides, quiet=quiet, allow_code=allow_code or ())
    found = share([read_tenant(one) for one in programs], machine)
    if as_json:
        import json

        output.write(json.dumps(found.to_dict()) + "\n")
    elif not quiet:
        output.show(tenants_table(found, output.console(sys.stdout).width))
    return output.ENDINGS[found.result.status]


def tenants_table(found: Shared, width: int) -> Iterator[RenderableType]:
    """The output of `kbsim tenants`."""
    yield status_text(found.result.status).append(f"  {found.result.cycles:,} cycles", LIMIT).append(f" on {found.machine}")
    if not found.tenants:
        return
    wide = width >= WIDE
    columns: list[tuple[str, Justify]] = [("tenant", "right"), ("program", "left"), ("weight", "right"), ("cycles", "right")]
    columns += [("alone", "right"), ("slowdown", "right"), ("DRAM", "right")]
    columns += [("outstanding", "right"), ("held at banks", "right")] if wide else []
    made = table("", columns, "")
    for number, one in enumerate(found.tenants):
        slowdown = "n/a" if one.slowdown is None else f"{float(one.slowdown):.2f} x"
        cells: list[str | widgets.Text] = [str(number), one.name, str(one.weight), f"{one.cycles:,}", f"{one.alone:,}"]
        cells += [widgets.Text(slowdown, LIMIT), size_text(one.dram_bytes)]
        made.add_row(*cells, *([str(one.outstanding), f"{one.bank_conflict:,}"] if wide else []))
    yield ""
    yield made
    if found.fairness is not None:
        yield ""
        yield f"throughput {float(found.throughput):.2f} of {len(found.tenants)} machines, fairness {float(found.fairness):.2f}"
