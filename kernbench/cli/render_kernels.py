"""Kernels in the middle of a run, as `kbsim step BENCH` prints them."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kernbench.cli.render_state import engine_states
from kernbench.cli.text import Justify, common_place, status_text, table, without_place
from kernbench.common import naming
from kernbench.common.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.sim_engine.engine import GraphEngine

MOST_PES = 16  # that are listed; of more the rest is counted


def kernel_state(engine: GraphEngine, note: str = "") -> Iterator[RenderableType]:
    """Status and cycle, each PE's kernel, the source lines where they stand, and every engine."""
    machine, running = engine.machine, engine.activity
    text = status_text(machine.status).append("  ").append(f"cycle {machine.cycle:,}", "bold")
    yield text.append(f", {note}" if note else "")
    yield Text(f"{running.bench.name} on {machine.config.source}")
    yield ""
    states = running.system.states()
    at_work = [state for state in states if state.launch]
    shown = at_work[:MOST_PES]
    place = common_place([f"{state.pe}.x" for state in shown])
    if place and shown:
        yield Text(f"names are of {place[:-1]}", "dim")
    if shown:
        yield kernel_table(shown, place)
    more = len(at_work) - len(shown)
    if more:
        yield Text(f"{counted(more, 'more PE')} run{'s' * (more == 1)} kernels (--json has them)", "dim")
    if not at_work:
        yield Text("no PE runs a kernel", "dim")
    elif len(at_work) < len(states):
        yield Text(f"{len(states) - len(at_work):,} of {len(states):,} PEs run none", "dim")
    yield from source_lines(running, at_work)
    yield ""
    others = {state.pe for state in states} - {state.pe for state in shown}
    state = machine.peek()
    near = tuple(one for one in state.engines if naming.parent(one.name) not in others)
    yield from engine_states(replace(state, engines=near), place)


def kernel_table(states: Sequence[Any], place: str) -> Table:
    """One line a PE: where its kernel stands, what it waits for, and since when."""
    columns: list[tuple[str, Justify]] = [("PE", "left"), ("launch", "left"), ("program", "right"), ("line", "left")]
    made = table("Kernels", [*columns, ("waits for", "left"), ("since", "right"), ("in flight", "right")])
    for state in states:
        made.add_row(
            Text(without_place(state.pe, place), "bold"),
            state.launch,
            "-" if state.program is None else f"{state.program:,}",
            state.line or "-",
            Text(state.waits or "-", "cyan"),
            "-" if state.since is None else f"{state.since:,}",
            f"{state.in_flight:,}",
        )
    return made


def source_lines(running: Any, states: Sequence[Any]) -> Iterator[Text]:
    """The text of the lines at which kernels stand, each once, of files that hold kernels."""
    files = {Path(name).name: name for name in running.kernel_files()}
    lines = sorted({state.line for state in states if state.line})
    for line in lines:
        name, _, number = line.rpartition(":")
        code = linecache.getline(files[name], int(number)).strip() if name in files else ""
        if code:
            yield Text(f"{line}  ", "dim").append(code, "default")
