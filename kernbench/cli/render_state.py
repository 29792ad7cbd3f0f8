"""What every engine is doing, as `kbsim step` prints it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from kernbench.cli.text import common_place, rational, status_text, without_place
from kernbench.common.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.sim_engine.state import EngineState, FlowState, JobState, MachineState

ACTIVITY_STYLES = {"idle": "dim", "busy": "green", "bank_conflict": "red", "backpressure": "red"}
MOST_JOBS = 16  # transfers of one engine that are listed
MOST_QUEUED = 6
MANY_ENGINES = 16  # of more, idle ones are counted
MOST_MEMBERS = 8


def machine_state(state: MachineState, program: str, machine: str, note: str = "") -> Iterator[RenderableType]:
    """The state of all engines, and which resources are shared by how many flows."""
    text = status_text(state.status).append("  ").append(f"cycle {state.cycle:,}", "bold")
    yield text.append(f", {note}" if note else "")
    yield Text(f"{program or 'a program'} on {machine}")
    yield ""
    place = common_place([engine.name for engine in state.engines])
    if place:
        yield Text(f"names are of {place[:-1]}", "dim")
    yield from engine_states(state, place)


def engine_states(state: MachineState, place: str) -> Iterator[RenderableType]:
    """Each engine, called as inside `place`; of many those that work, then the resources in use."""
    shown = state.engines
    if len(shown) > MANY_ENGINES:
        shown = tuple(engine for engine in shown if engine.activity != "idle" or engine.queue)
    for engine in shown:
        yield from _engine(engine, without_place(engine.name, place))
    if len(shown) < len(state.engines):
        others = len(state.engines) - len(shown)
        yield Text(f"{counted(others, 'more engine')} {'is' if others == 1 else 'are'} idle", "dim")
    shared = [f"{without_place(name, place)} {count}" for name, count in state.members.items() if count]
    if shared:
        more = f", {len(shared) - MOST_MEMBERS} more" if len(shared) > MOST_MEMBERS else ""
        grid = Table.grid()
        grid.add_row(Text("flows ", "bold"), ", ".join(shared[:MOST_MEMBERS]) + more)
        yield grid


def _engine(engine: EngineState, name: str) -> Iterator[RenderableType]:
    head = Text.assemble((f"{name:<5} ", "bold"), (engine.activity, ACTIVITY_STYLES[engine.activity]))
    if engine.next_event is not None:
        head.append(f", next event {engine.next_event:,}", "dim")
    yield head
    if engine.jobs or engine.entry is not None:
        yield _jobs(engine)
    if engine.queue:
        yield _queue(engine)


def _jobs(engine: EngineState) -> Table:
    """An entry by its id, a kernel's command by its line."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(min_width=6, justify="right", no_wrap=True)
    grid.add_column(min_width=17, no_wrap=True)
    grid.add_column(min_width=16, justify="right", no_wrap=True)
    grid.add_column(min_width=12, justify="right", no_wrap=True)
    grid.add_column()
    if engine.entry is not None:
        left = "" if engine.body_left is None else f"{engine.body_left:,} body cycles left"
        waits = "" if engine.held_since is None else f"bank since {engine.held_since:,}"
        grid.add_row(engine.line or _id(engine.entry), engine.opcode, left, f"since {engine.started:,}", Text(waits, "red"))
    for job in engine.jobs[:MOST_JOBS]:
        left = f"{job.bytes_left:,} of {job.bytes:,} B"
        grid.add_row(job.line or _id(job.id), job.opcode, left, f"{rational(job.rate)} B/cycle", _waits(job))
    if len(engine.jobs) > MOST_JOBS:
        grid.add_row("", counted(len(engine.jobs) - MOST_JOBS, "more transfer"))
    return grid


def _id(number: int) -> str:
    """An entry's id; a job that a component submitted has none."""
    return "" if number < 0 else str(number)


def _waits(job: JobState) -> Text:
    """What a transfer waits for and since when; nothing where it moves."""
    if job.joins_at is not None:
        return Text(f"latency to {job.joins_at:,}", "cyan")
    parts = []
    if job.stall is not None:
        parts.append(f"{job.stall} since {job.stalled_since:,}")
    held = [flow for flow in job.flows if flow.waits == "bank"]
    if held:
        parts.append(f"{_some_of(len(held), job)}bank since {min(_since(flow) for flow in held):,}")
    in_line = sum(flow.waits == "line" for flow in job.flows)
    if in_line:
        parts.append(f"{_some_of(in_line, job)}older ones first")
    return Text(", ".join(parts), "red")


def _since(flow: FlowState) -> int:
    """When the request of a held flow was first denied."""
    return 0 if flow.held_since is None else flow.held_since


def _some_of(count: int, job: JobState) -> str:
    """How many of a transfer's flows, where it is not all of them."""
    return "" if count == len(job.flows) else f"{count}/{len(job.flows)} "


def _queue(engine: EngineState) -> Text:
    """The jobs that wait in an engine's queue, with their stalls."""
    text = Text("      queue ", "dim")
    names = []
    for number, stall, since in zip(engine.queue, engine.queue_stalls, engine.queue_since, strict=True):
        name = _id(number) or "a command"
        names.append(name if stall is None else f"{name} ({stall} since {since:,})")
    text.append(", ".join(names[:MOST_QUEUED]))
    if len(names) > MOST_QUEUED:
        text.append(f", {len(names) - MOST_QUEUED} more")
    return text
