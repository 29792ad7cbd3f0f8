"""`kbsim whatif`: the time of a run if a resource never limited it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.compare import AnyCase, CaseSettings
from kernbench.cli.options import AllowCode, AnyConfig, Json
from kernbench.cli.target import load_machine
from kernbench.cli.text import BUSY, DIM, IDLE, LIMIT, WAIT, WIDE, WORK, Bar, Justify, duration, percent, status_text, table
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.analysis.whatif import Freed, WhatIf

ALL = "noc,banks,dram,te,ve,dma"


def whatif(
    target: AnyCase,
    config: AnyConfig = None,
    settings: CaseSettings = None,
    allow_code: AllowCode = None,
    free: Annotated[
        str,
        typer.Option(
            "--free", metavar="NAMES", help="Resources, separated by commas. For each of them, one run has no limit on this "
            "resource. The last run has no limit on any of them.",
        ),
    ] = ALL,
    as_json: Json = False,
) -> int:
    """Run a target again without the limit of one resource (DRAM, NoC, ...), and report what to change first."""
    from kernbench.analysis.whatif import what_if
    from kernbench.cli.progress import progress_bar
    from kernbench.cli.target import find_case

    case, rest = find_case(target, settings)
    machine = load_machine(config or case.machine, rest, allow_code=allow_code or ())
    names = [name.strip() for name in free.split(",")]
    with progress_bar(not as_json) as progress:
        found = what_if(case.on(machine), names, progress)
    if as_json:
        output.show_json(found.to_dict())
    else:
        output.show(what_if_table(found, output.console(sys.stdout).width))
    return output.ENDINGS[found.base.status]


#: resource: its state without limit
UNLIMITED = {
    "noc": "no links, no hops",
    "banks": "a port for every requester",
    "dram": "bandwidth for every flow",
    "te": "a body of one cycle",
    "ve": "a pass of one cycle",
    "dma": "a slot for every transfer",
}


def what_if_table(found: WhatIf, width: int) -> Iterator[RenderableType]:
    """The output of `kbsim whatif`."""
    base = found.base
    text = status_text(base.status).append("  ").append(counted(base.cycles, "cycle"), LIMIT)
    freq = float(base.config.freq_ghz)  # type: ignore[attr-defined]  # both kinds have it
    yield text.append(f", {duration(base.t_ns)} at {freq:g} GHz")
    yield widgets.Text(f"{base.work.target} on {base.machine}")
    yield ""
    yield widgets.Text(sentence_of(found), LIMIT)
    wide = width >= WIDE
    columns: list[tuple[str, Justify]] = [("freed", "left"), ("", "left"), ("saved", "right"), ("cycles saved", "right")]
    columns += [("cycles", "right"), ("speed", "right")]
    made = table("What if", [*columns, ("", "left")] if wide else columns, f"{BUSY} saved  {IDLE} left")
    rows = [one for one in found.each if one.changes]
    for one in rows:
        made.add_row(*_cells(one, base.cycles, wide))
    if len(rows) > 1:
        made.add_section()
        made.add_row()
        made.add_row(*_cells(found.all, base.cycles, wide))
    if rows:
        yield ""
        yield made
    yield from _notes(found)


def _cells(one: Freed, cycles: int, wide: bool) -> list[str | widgets.Text | Bar]:
    name = "all" if len(one.resources) > 1 else one.resources[0]
    what = [widgets.Text(UNLIMITED.get(name, "all of these together"), DIM)] if wide else []
    if one.saved is None:
        return [name, "", "", status_text(one.status), f"{one.cycles:,}", "", *what]
    share = one.saved / cycles if cycles else 0.0
    bar = Bar([(max(0.0, share), BUSY, WORK)], 24 if wide else 10)
    speed = f"{cycles / one.cycles:.2f} x" if one.cycles else ""
    saved = widgets.Text(f"{one.saved:,}", WAIT if one.saved < 0 else "")
    share_text = percent(share) if share >= 0 else f"-{percent(-share)}"
    return [name, bar, widgets.Text(share_text, LIMIT), saved, f"{one.cycles:,}", speed, *what]


def _notes(found: WhatIf) -> Iterator[RenderableType]:
    """Notes below the table."""
    absent = [one.resources[0] for one in found.each if not one.changes]
    if absent:
        yield ""
        yield f"no limit in this machine: {', '.join(absent)}"
    slower = [one.resources[0] for one in found.each if one.saved is not None and one.saved < 0]
    if slower:
        yield ""
        yield f"slower without a limit: {', '.join(slower)}: the schedule changed order"


def sentence_of(found: WhatIf) -> str:
    """The resource to change first, as a sentence."""
    text = found.sentence
    return text[:1].upper() + text[1:]
