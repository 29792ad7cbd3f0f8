"""`kbsim whatif`: what a program would take if a resource never limited it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import DEFAULT_MACHINE, AllowCode, Config, Json, Overrides, Target
from kernbench.cli.target import load_machine
from kernbench.cli.text import BUSY, IDLE, WIDE, Bar, Justify, duration, percent, status_text, table
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.analysis.whatif import Freed, WhatIf
    from kernbench.config import NpuConfig, SystemConfig


ALL = "noc,banks,dram,te,ve,dma"


def whatif(
    target: Target,
    config: Config = DEFAULT_MACHINE,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    free: Annotated[str, typer.Option("--free", metavar="NAMES", help="What to free, one at a time and then together.")] = ALL,
    as_json: Json = False,
) -> int:
    """Run a program again with one resource unlimited at a time, and say how many cycles that saves."""
    from kernbench.analysis.whatif import what_if
    from kernbench.cli.progress import progress_bar
    from kernbench.cli.target import load_target

    machine = load_machine(config, overrides, allow_code=allow_code or ())
    program = load_target(target, machine)
    names = [name.strip() for name in free.split(",")]
    with progress_bar(not as_json) as progress:
        found = what_if(program, machine, names, progress)
    if as_json:
        output.show_json(what_if_dict(found))
    else:
        output.show(what_if_table(found, machine, output.console(sys.stdout).width))
    return output.ENDINGS[found.result.status]


#: resource: what it is when it is freed
UNLIMITED = {
    "noc": "no links, no hops",
    "banks": "a port for every requester",
    "dram": "bandwidth for every flow",
    "te": "a body of one cycle",
    "ve": "a pass of one cycle",
    "dma": "a slot for every transfer",
}


def what_if_table(found: WhatIf, config: NpuConfig | SystemConfig, width: int) -> Iterator[RenderableType]:
    """What `kbsim whatif` prints."""
    result = found.result
    text = status_text(result.status).append("  ").append(counted(result.cycles, "cycle"), "bold")
    yield text.append(f", {duration(result.t_ns)} at {float(config.freq_ghz):g} GHz")
    yield widgets.Text(f"{result.program or 'a program'} on {config.source}, {counted(len(result.entries), 'entry')}")
    wide = width >= WIDE
    columns: list[tuple[str, Justify]] = [("freed", "left"), ("", "left"), ("saved", "right"), ("cycles saved", "right")]
    columns += [("cycles", "right"), ("speed", "right")]
    made = table("What if", [*columns, ("", "left")] if wide else columns, f"{BUSY} saved  {IDLE} left")
    rows = [one for one in found.each if one.changes]
    for one in [*rows, found.all] if len(rows) > 1 else rows:
        made.add_row(*_cells(one, result.cycles, wide))
    if rows:
        yield ""
        yield made
    yield from _notes(found)


def _cells(one: Freed, cycles: int, wide: bool) -> list[str | widgets.Text | Bar]:
    name = "all" if len(one.resources) > 1 else one.resources[0]
    what = [widgets.Text(UNLIMITED.get(name, "all of these together"), "dim")] if wide else []
    if one.saved is None:
        return [name, "", "", status_text(one.status), f"{one.cycles:,}", "", *what]
    share = one.saved / cycles if cycles else 0.0
    bar = Bar([(max(0.0, share), BUSY, "green")], 24 if wide else 10)
    speed = f"{cycles / one.cycles:.2f} x" if one.cycles else ""
    saved = widgets.Text(f"{one.saved:,}", "red" if one.saved < 0 else "")
    share_text = percent(share) if share >= 0 else f"-{percent(-share)}"
    return [name, bar, widgets.Text(share_text, "bold"), saved, f"{one.cycles:,}", speed, *what]


def _notes(found: WhatIf) -> Iterator[RenderableType]:
    """What the table does not say."""
    absent = [one.resources[0] for one in found.each if not one.changes]
    if absent:
        yield ""
        yield f"no limit in this machine: {', '.join(absent)}"
    if found.result.status != "done":
        yield ""
        yield f"the run as it is ends as {found.result.status}: there is nothing to compare with"
        return
    slower = [one.resources[0] for one in found.each if one.saved is not None and one.saved < 0]
    if slower:
        yield ""
        yield f"slower without a limit: {', '.join(slower)}. Jobs meet in another order then, and that is worse"


def what_if_dict(found: WhatIf) -> dict[str, Any]:
    """The same as plain JSON."""
    result = found.result
    return {
        "program": result.program,
        "machine": result.machine,
        "status": result.status,
        "cycles": result.cycles,
        "t_ns": result.t_ns,
        "freed": [_plain(one, result.cycles) for one in found.each],
        "all": _plain(found.all, result.cycles),
    }


def _plain(one: Freed, cycles: int) -> dict[str, Any]:
    share = None if one.saved is None else one.saved / cycles if cycles else 0.0
    head = {"resources": list(one.resources), "status": one.status, "cycles": one.cycles, "saved": one.saved}
    return {**head, "share": share, "changes": one.changes}
