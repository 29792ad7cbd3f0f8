"""`kbsim probe`: latency and bandwidth of a system's links, by pattern."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import AllowCode, Json, Overrides, Quiet, SystemArgument, SystemConfigOption, system_asked
from kernbench.cli.target import load_machine
from kernbench.cli.text import WIDE, Justify, percent, share_text, size_text, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.analysis.probe import ProbeRow


def probe(
    system: SystemArgument = None,
    config: SystemConfigOption = None,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="LIST", help="Transfer sizes, separated by commas: 4KiB, 8k, 1M.")
    ] = "4KiB,16KiB,64KiB,256KiB,1MiB",
    only: Annotated[
        str, typer.Option("--only", metavar="LIST", help="Patterns to run, separated by commas.", show_default="all")
    ] = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Measure the links of a system with host copies, loads from near and far memories, sends, and simultaneous
    loads of all PEs.
    """
    from kernbench.analysis.probe import probe as run_probe
    from kernbench.analysis.probe import probe_names, probe_sizes
    from kernbench.config import SystemConfig

    asked = system_asked("probe", config, system)
    machine = load_machine(asked, overrides, quiet=quiet, kind=SystemConfig, allow_code=allow_code or ())
    rows = list(run_probe(machine, probe_sizes(sizes), probe_names(machine, only)))
    if as_json:
        import json

        output.write(json.dumps({"machine": machine.source, "rows": [row.to_dict() for row in rows]}) + "\n")
    elif not quiet:
        output.show(probe_table(rows, machine.source, output.console(sys.stdout).width))
    return 0


def probe_table(rows: Sequence[ProbeRow], machine: str, width: int) -> Iterator[RenderableType]:
    """The output of `kbsim probe`: latency and its components, bandwidth and its limit."""
    yield widgets.Text(f"{machine}: each pattern alone; cycles of the slowest transfer = setup + links + transfer")
    if not rows:
        yield "no size fits into a scratchpad and a slice of HBM"
        return
    wide = width >= WIDE
    columns: list[tuple[str, Justify]] = [("pattern", "left"), ("size", "right"), ("cycles", "right"), ("setup", "right")]
    columns += [("links", "right"), ("transfer", "right"), ("B/cycle", "right"), ("use", "right")]
    columns += [("limited by", "left")] if wide else []
    made = table("", columns, "")
    said = ""
    for row in rows:
        name = row.pattern if row.pattern != said else ""
        said = row.pattern
        count = f" x {row.transfers}" if row.transfers > 1 and name else ""
        cells: list[str | widgets.Text] = [
            name + count,
            size_text(row.bytes),
            f"{row.cycles:,}",
            f"{row.setup:,}",
            f"{row.links:,}",
        ]
        cells += [f"{row.transfer:,}", share_text(float(row.bandwidth)), widgets.Text(percent(float(row.utilisation)), "bold")]
        if wide:
            cells.append(row.bottleneck)
        made.add_row(*cells)
    yield ""
    yield made
    if not wide:
        yield ""
        limits = dict.fromkeys((row.pattern, row.bottleneck) for row in rows)
        for pattern, bottleneck in limits:
            yield widgets.Text.assemble((f"{pattern} is limited by ", "dim"), bottleneck)
