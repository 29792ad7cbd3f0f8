"""The tables that only the summary of a trace has: phases, layers, waits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kernbench.cli import widgets
from kernbench.cli.text import (
    BUSY,
    IDLE,
    STALLED,
    WAIT,
    WIDE,
    WORK,
    Bar,
    Justify,
    common_place,
    percent,
    short,
    table,
    unit,
    without_place,
)

if TYPE_CHECKING:
    from rich.table import Table

    from kernbench.trace.metric.figures import StageMetrics, Stall

MAX_PARTS = 16
MAX_STALLS = 12


def safe(text: str, most: int) -> str:
    """A name from the file, safe for a terminal: control characters escaped, length limited."""
    text = text[: most + 1]
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return text if len(text) <= most else text[: most - 3] + "..."


_NODES = re.compile(r"[a-z0-9_.\[\]-]{1,80}")


def track(unit: str) -> str:
    """The name of a track: names of nodes and links are complete, other names are shortened by `safe`."""
    return unit if _NODES.fullmatch(unit) else safe(unit, 24)


def place_of(units: Iterable[str]) -> str:
    """The common SIP and cube of the units that are in one, with a dot; empty if there is none."""
    inside = {unit for unit in units if unit.startswith("sip")}
    return common_place(sorted(inside)) if len(inside) > 1 else ""


def near(unit: str, place: str = "", most: int = 34) -> str:
    """The same in one cell, without the prefix `place`; the second end of a link is shown without their common prefix."""
    first, dash, second = without_place(track(unit), place).partition("-")
    if dash and first.startswith(("sip", "host")):
        second = without_place(second, common_place([first, second]))
    return safe(first + dash + second, most)


def stage_table(title: str, parts: Sequence[StageMetrics], width: int) -> Table:
    """Latency of phases or layers, and the busy share of TE, VE and DMA. If there are many, only the longest, in order."""
    wide = width >= WIDE
    started = [part for part in parts if part.latency is not None and (part.name is not None or part.latency)]
    shown = sorted(started, key=lambda part: -part.active)[:MAX_PARTS]
    note = "cycles with work for it, of its latency"
    note = f"the longest {MAX_PARTS} of {len(started)}; {note}" if len(started) > len(shown) else note
    columns: list[tuple[str, Justify]] = [(title[:-1].lower(), "left"), ("latency", "right"), ("active", "right")]
    columns += [("", "left")] if wide else []
    columns += [("TE", "right"), ("VE", "right"), ("DMA", "right"), ("MACs", "right"), ("bytes", "right")]
    columns += [("commands", "right"), ("longest", "right")] if wide else []
    made = table(title, [*columns, ("stalled", "right")], note)
    made.columns[0].no_wrap, made.columns[0].overflow = False, "fold"  # with long numbers, names are wrapped
    for part in started:
        if part in shown:
            made.add_row(*_part_cells(part, wide))
    return made


def _part_cells(part: StageMetrics, wide: bool) -> list[str | widgets.Text | Bar]:
    latency = part.latency or 0
    name = "(none)" if part.name is None else safe(str(part.name), 28 if wide else 17)
    cells: list[str | widgets.Text | Bar] = [name, widgets.Text(short(latency), "bold"), short(part.active)]
    if wide:
        cells.append(Bar([(_of(part.active, latency), BUSY, WORK)], 12))
    cells += [_share(cycles, latency) for cycles in (part.te, part.ve, part.dma)]
    cells += [short(part.macs), unit(part.bytes, "B")]
    if wide:
        cells += [short(part.commands), short(part.longest)]
    stalled = sum(part.stalls.values())
    cells.append(widgets.Text(short(stalled), "" if stalled else "dim"))
    return cells


def _of(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _share(part: int, whole: int) -> widgets.Text:
    return widgets.Text(percent(_of(part, whole)), "" if part else "dim")


def stall_table(stalls: Sequence[Stall], width: int) -> Table:
    """Waits of jobs by engine and reason, the longest first."""
    total = sum(stall.cycles for stall in stalls)
    shown = sorted(stalls, key=lambda stall: -stall.cycles)[:MAX_STALLS]
    note = f"the longest {MAX_STALLS} of {len(stalls)}" if len(stalls) > len(shown) else f"{STALLED} share of all  {IDLE} rest"
    columns: list[tuple[str, Justify]] = [("engine", "left"), ("reason", "left"), ("", "left"), ("share", "right")]
    columns += [("job-cycles", "right"), ("waits", "right"), ("mean", "right"), ("open", "right")]
    made = table("Stalls", columns, note)
    for stall in shown:
        made.add_row(
            safe(stall.unit, 24),
            safe(stall.reason, 20),
            Bar([(_of(stall.cycles, total), STALLED, WAIT)], 24 if width >= WIDE else 10),
            widgets.Text(percent(_of(stall.cycles, total)), "bold"),
            short(stall.cycles),
            short(stall.episodes),
            short(_of(stall.cycles, stall.episodes)),
            widgets.Text(short(stall.open), "" if stall.open else "dim"),
        )
    return made
