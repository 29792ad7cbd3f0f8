"""`kbsim step`: a bench or a program on a machine, stopped at a chosen cycle or condition."""

from __future__ import annotations

import linecache
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.bench import prepared, said
from kernbench.cli.options import (
    DEFAULT_MACHINE,
    AllowCode,
    AnyConfig,
    AnyOverrides,
    AnyTarget,
    Json,
    StrictWait,
    Threads,
    TraceCycles,
    TraceLevel,
    TraceOnly,
    TraceTo,
    TraceWindow,
    Walk,
)
from kernbench.cli.rows import joined, joined_name
from kernbench.cli.target import load_machine
from kernbench.cli.text import WAIT, WORK, Justify, common_place, rational, status_text, table, without_place
from kernbench.cli.tracing import Traced, traced
from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType
    from rich.table import Table

    from kernbench.runtime_api.bench import Bench
    from kernbench.sim_engine.engine import GraphEngine
    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.recording import TraceOptions
    from kernbench.sim_engine.run.state import EngineState, FlowState, JobState, MachineState


class ProgramStepper:
    """One `kbsim step` of a program."""

    def __init__(self, target: str, config: str, overrides: list[str] | None, allow_code: list[str] | None = None) -> None:
        from kernbench.cli.target import load_target
        from kernbench.sim_engine.machine import Machine

        spec = load_machine(config, overrides, allow_code=allow_code or ())
        self.machine = Machine(spec, load_target(target, spec))

    def around(
        self, start: Path | None, save: Path | None, trace: Path | None, options: TraceOptions | None
    ) -> AbstractContextManager[None]:
        """The context of the steps: restore a checkpoint, write a trace, save a checkpoint."""
        if start is not None:
            self.machine.load(start)
        return traced(self.machine, trace, options, save)

    def show(self, note: str) -> Iterator[RenderableType]:
        """The state for a person."""

        program = self.machine.program
        if program.nothing and self.machine.status == "done":
            note = f"the program has {program.nothing}: nothing ran"
        return machine_state(self.machine.peek(), program.name, self.machine.config.source, note)

    def answer(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {**self.machine.result().to_dict(), "engines": self.machine.peek().to_dict()}

    def finish(self) -> int:
        """The exit code."""
        return output.ENDINGS[self.machine.status]


class BenchStepper:
    """One `kbsim step` of a bench."""

    def __init__(
        self,
        bench: Bench,
        config: str | None,
        overrides: list[str] | None,
        *,
        strict_wait: bool,
        allow_code: list[str] | None = None,
    ) -> None:
        self.engine, self.machine = prepared(
            bench, config, overrides, op_log=True, strict_wait=strict_wait, allow_code=allow_code
        )
        self.machine.keep_commands()  # engines are shown with the descriptions of the jobs of kernels
        self.what = {**self.engine.activity.identity(), "strict_wait": strict_wait}

    @contextmanager
    def around(self, start: Path | None, save: Path | None, trace: Path | None, options: TraceOptions | None) -> Iterator[None]:
        """The context of the steps: repeat the run to a checkpoint, write a trace, save a checkpoint."""
        from kernbench.sim_engine.kernel_checkpoint import restore_run, save_run

        if trace is not None and (start is not None or save is not None):
            rule = "a bench is resumed by running it again from cycle 0, and a trace cannot begin in the middle of a run"
            remedy = "trace the whole run, without --from and --save"
            raise InputError(Problem("kbsim step", rule, "--trace", str(trace), remedy))
        if start is not None:
            restore_run(self.engine, start, self.what)
        with traced(self.machine, trace, options):
            yield
        if save is not None:
            save_run(self.engine, save, self.what)

    def answer(self) -> dict[str, Any]:
        """What `--json` prints."""
        states = [said_of(state) for state in self.engine.activity.system.states()]
        machine = self.machine
        return {
            "bench": self.engine.activity.bench.name,
            "status": machine.status,
            "cycle": machine.cycle,
            "kernels": states,
            "engines": machine.peek().to_dict(),
            "result": machine.result().to_dict(),
        }

    def show(self, note: str) -> Iterator[RenderableType]:
        """The state for a person."""

        return kernel_state(self.engine, note)

    def finish(self) -> int:
        """Report the exception of a kernel; returns the exit code."""
        said(self.engine)
        return output.ENDINGS[self.machine.status]


def said_of(state: Any) -> dict[str, Any]:
    """A PE's kernel as plain JSON."""
    return {
        "pe": state.pe,
        "launch": state.launch or None,
        "program": state.program,
        "line": state.line or None,
        "waits_for": state.waits or None,
        "since": state.since,
        "in_flight": state.in_flight,
        "implicit_waits": state.implicit_waits,
    }


FRAME_SECONDS = 0.1  # shortest time of a frame of --watch on a terminal

Stepper = ProgramStepper | BenchStepper

Cycles = Annotated[
    int | None,
    typer.Option("--cycles", "-n", min=0, metavar="N", help="Simulate N cycles, or stop earlier if the program ends.",
        show_default=False),
]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="COND",
        help="Stop after the cycle in which the condition COND is met. COND is end:ID, start:ID, stall, conflict or cycle:N.",
        show_default=False,
    ),
]
From = Annotated[
    Path | None,
    typer.Option("--from", metavar="CKPT", help="Resume from a checkpoint of this program and machine.", show_default=False),
]
Save = Annotated[Path | None, typer.Option(metavar="CKPT", help="Save a checkpoint when the command stops.",
    show_default=False)]
Watch = Annotated[bool, typer.Option("--watch", help="Show the state every N cycles (--cycles N), until the condition of "
    "--until is met or the run ends.")]


def step(
    target: AnyTarget,
    cycles: Cycles = None,
    until: Until = None,
    config: AnyConfig = None,
    overrides: AnyOverrides = None,
    allow_code: AllowCode = None,
    start: From = None,
    save: Save = None,
    as_json: Json = False,
    watch: Watch = False,
    strict_wait: StrictWait = False,
    walk: Walk = None,
    threads: Threads = None,
    trace: TraceTo = None,
    trace_level: TraceLevel = None,
    trace_window: TraceWindow = None,
    trace_cycles: TraceCycles = None,
    trace_only: TraceOnly = None,
) -> int:
    """Run some cycles and print the state of every engine.

    If both --cycles and --until are given, the run stops at the earlier of the two. With --watch, --cycles is the number
    of cycles from one printed state to the next.
    If both --save and --trace are given, the trace file stays incomplete. To append the rest of the trace, start a later
    run with --from and the same --trace.
    """
    from kernbench.common.files import check_apart

    _check(cycles, until, save, as_json=as_json, watch=watch)
    check_apart((save, trace), (target, config))
    options = Traced(trace_level, trace_window, trace_cycles, trace_only).options("kbsim step", trace)
    stepper = _stepper(target, config, overrides, allow_code, strict_wait)
    machine = stepper.machine
    with stepper.around(start, save, trace, options):
        came = _watch(stepper, cycles or 1, until) if watch else _run(machine, cycles, until, as_json)
    if as_json:
        output.show_json(stepper.answer())
    elif not watch:
        output.show(stepper.show(_note(machine, until, came)))
    return stepper.finish()


def _stepper(
    target: str, config: str | None, overrides: list[str] | None, allow_code: list[str] | None, strict_wait: bool
) -> Stepper:
    from kernbench.cli.target import find_bench, refuse_bench_options

    bench = find_bench(target)
    if bench is not None:
        return BenchStepper(bench, config, overrides, strict_wait=strict_wait, allow_code=allow_code)

    refuse_bench_options(target, strict_wait=strict_wait)
    return ProgramStepper(target, config or DEFAULT_MACHINE, overrides, allow_code)


def _check(cycles: int | None, until: str | None, save: Path | None, *, as_json: bool, watch: bool) -> None:
    if cycles is None and until is None:
        raise InputError(Problem("kbsim step", "give at least one of --cycles and --until"))
    if watch and as_json:
        raise InputError(Problem("kbsim step", "--watch shows many states, but --json shows one: give one of the two"))
    if watch and not cycles:
        raise InputError(Problem("kbsim step", "--watch needs --cycles of at least 1: the cycles between two states"))
    if save is not None:
        from kernbench.common.files import check_writable

        check_writable(save)


def _run(machine: Machine, cycles: int | None, until: str | None, quiet: bool) -> bool:
    from kernbench.cli.progress import progress_bar

    with progress_bar(not quiet) as progress:
        return machine.run(until, cycles=cycles, progress=progress)


def _note(machine: Machine, until: str | None, came: bool) -> str:
    if until is None:
        return ""
    if came:
        return f"{until} has come"
    return f"{until} has not come" + ("" if machine.status == "running" else ", and the run is over")


def _watch(stepper: Stepper, cycles: int, until: str | None) -> bool:
    """Show a frame every `cycles` cycles."""
    came = False
    with _frames() as frame:
        while not came and stepper.machine.status == "running":
            came = stepper.machine.run(until, cycles=cycles)
            frame(list(stepper.show(_note(stepper.machine, until, came) if came else "")))
    return came


@contextmanager
def _frames() -> Iterator[Callable[[list[RenderableType]], object]]:
    """The output of frames: in place on a terminal, else one below the other."""
    if sys.stdout is None or not sys.stdout.isatty():
        yield lambda parts: output.show([*parts, ""])
        return
    from rich.console import Group
    from rich.live import Live

    with Live(console=output.console(sys.stdout), auto_refresh=False) as live:

        def update(parts: list[RenderableType]) -> None:
            live.update(Group(*parts), refresh=True)
            time.sleep(FRAME_SECONDS)

        yield update


ACTIVITY_STYLES = {"idle": "dim", "busy": WORK, "bank_conflict": WAIT, "backpressure": WAIT}
MAX_JOBS = 16  # most transfers of one engine in the list
MAX_QUEUED = 6
MANY_ENGINES = 16  # if there are more engines, idle ones are only counted
MAX_MEMBERS = 8


def machine_state(state: MachineState, program: str, machine: str, note: str = "") -> Iterator[RenderableType]:
    """The state of all engines, and which resources are shared by how many flows."""
    text = status_text(state.status).append("  ").append(f"cycle {state.cycle:,}", "bold")
    yield text.append(f", {note}" if note else "")
    yield widgets.Text(f"{program or 'a program'} on {machine}")
    yield ""
    place = common_place([engine.name for engine in state.engines])
    if place:
        yield widgets.Text(f"names are relative to {place[:-1]}", "dim")
    yield from engine_states(state, place)


def engine_states(state: MachineState, place: str) -> Iterator[RenderableType]:
    """Each engine by its name inside `place`; of many engines only busy ones; then the resources in use."""
    shown = state.engines
    if len(shown) > MANY_ENGINES:
        shown = tuple(engine for engine in shown if engine.activity != "idle" or engine.queue)
    groups = joined(shown, _same)
    for group in groups:
        yield from _engine(group[0], joined_name([without_place(engine.name, place) for engine in group]))
    if len(shown) < len(state.engines):
        others = len(state.engines) - len(shown)
        yield widgets.Text(f"{counted(others, 'more engine')} {'is' if others == 1 else 'are'} idle", "dim")
    shared = [f"{without_place(name, place)} {count}" for name, count in state.members.items() if count]
    if shared:
        more = f", {len(shared) - MAX_MEMBERS} more" if len(shared) > MAX_MEMBERS else ""
        grid = widgets.Table.grid()
        grid.add_row(widgets.Text("flows ", "bold"), ", ".join(shared[:MAX_MEMBERS]) + more)
        yield grid


def _same(engine: EngineState) -> tuple[Any, ...]:
    """What joined engines have in common: the commands of their kernels. Engines without commands of kernels are not joined."""
    lines = [job.line for job in engine.jobs] + ([engine.line] if engine.entry is not None else [])
    if not lines or not all(lines) or engine.queue:
        return (engine.name,)
    jobs = tuple((job.line, job.opcode, job.bytes, job.stall, job.joins_at is None) for job in engine.jobs)
    return (engine.name.rpartition(".")[2], engine.activity, engine.line, engine.opcode, engine.held_since is None, jobs)


def _engine(engine: EngineState, name: str) -> Iterator[RenderableType]:
    head = widgets.Text.assemble((f"{name:<5} ", "bold"), (engine.activity, ACTIVITY_STYLES[engine.activity]))
    if engine.next_event is not None:
        head.append(f", next event {engine.next_event:,}", "dim")
    yield head
    if engine.jobs or engine.entry is not None:
        yield _jobs(engine)
    if engine.queue:
        yield _queue(engine)


def _jobs(engine: EngineState) -> widgets.Table:
    """An entry by its id, a kernel's command by its line."""
    grid = widgets.RecordTable.grid(padding=(0, 2, 0, 0))
    grid.add_column(min_width=6, justify="right", no_wrap=True)
    grid.add_column(min_width=17, no_wrap=True)
    grid.add_column(min_width=16, justify="right", no_wrap=True)
    grid.add_column(min_width=12, justify="right", no_wrap=True)
    grid.add_column()
    if engine.entry is not None:
        left = "" if engine.body_left is None else f"{engine.body_left:,} body cycles left"
        waits = "" if engine.held_since is None else f"bank since {engine.held_since:,}"
        since = f"drains to {engine.next_event:,}" if engine.started is None else f"since {engine.started:,}"
        grid.add_row(engine.line or _id(engine.entry), engine.opcode, left, since, widgets.Text(waits, WAIT))
    for job in engine.jobs[:MAX_JOBS]:
        left = f"{job.bytes_left:,} of {job.bytes:,} B"
        grid.add_row(job.line or _id(job.id), job.opcode, left, f"{rational(job.rate)} B/cycle", _waits(job))
    if len(engine.jobs) > MAX_JOBS:
        grid.add_row("", counted(len(engine.jobs) - MAX_JOBS, "more transfer"))
    return grid


def _id(number: int) -> str:
    """An entry's id; a job that a component submitted has none."""
    return "" if number < 0 else str(number)


def _waits(job: JobState) -> widgets.Text:
    """The reason and the start of the wait of a transfer; empty while it moves."""
    if job.joins_at is not None:
        return widgets.Text(f"latency to {job.joins_at:,}", WORK)
    parts = []
    if job.stall is not None:
        parts.append(f"{job.stall} since {job.stalled_since:,}")
    held = [flow for flow in job.flows if flow.waits == "bank"]
    if held:
        parts.append(f"{_some_of(len(held), job)}bank since {min(_since(flow) for flow in held):,}")
    in_line = sum(flow.waits == "line" for flow in job.flows)
    if in_line:
        parts.append(f"{_some_of(in_line, job)}older ones first")
    return widgets.Text(", ".join(parts), WAIT)


def _since(flow: FlowState) -> int:
    """When the request of a held flow was first denied."""
    return 0 if flow.held_since is None else flow.held_since


def _some_of(count: int, job: JobState) -> str:
    """The number of affected flows of a transfer; None if all flows are affected."""
    return "" if count == len(job.flows) else f"{count}/{len(job.flows)} "


def _queue(engine: EngineState) -> widgets.Text:
    """The jobs that wait in an engine's queue, with their stalls."""
    text = widgets.Text("      queue ", "dim")
    names = []
    for number, stall, since in zip(engine.queue, engine.queue_stalls, engine.queue_since, strict=True):
        name = _id(number) or "a command"
        names.append(name if stall is None else f"{name} ({stall} since {since:,})")
    text.append(", ".join(names[:MAX_QUEUED]))
    if len(names) > MAX_QUEUED:
        text.append(f", {len(names) - MAX_QUEUED} more")
    return text


MAX_PES = 16  # limit of listed PEs; the others are only counted


def kernel_state(engine: GraphEngine, note: str = "") -> Iterator[RenderableType]:
    """Status and cycle, the kernel of each PE with its source line, and every engine."""
    machine, running = engine.machine, engine.activity
    text = status_text(machine.status).append("  ").append(f"cycle {machine.cycle:,}", "bold")
    yield text.append(f", {note}" if note else "")
    yield widgets.Text(f"{running.bench.name} on {machine.config.source}")
    yield ""
    states = running.system.states()
    at_work = [state for state in states if state.launch]
    groups = joined(at_work, lambda state: (state.launch, state.line, state.waits, state.since is None, state.in_flight))
    some = groups[:MAX_PES]
    shown = [state for group in some for state in group]
    place = common_place([f"{state.pe}.x" for state in shown])
    if place and shown:
        yield widgets.Text(f"names are relative to {place[:-1]}", "dim")
    if shown:
        yield kernel_table(some, place)
    more = len(at_work) - len(shown)
    if more:
        yield widgets.Text(f"{counted(more, 'more PE')} run{'s' * (more == 1)} kernels (--json has them)", "dim")
    if not at_work:
        yield widgets.Text("no PE runs a kernel", "dim")
    elif len(at_work) < len(states):
        yield widgets.Text(f"{len(states) - len(at_work):,} of {len(states):,} PEs run none", "dim")
    yield from source_lines(running, at_work)
    yield ""
    others = {state.pe for state in states} - {state.pe for state in shown}
    state = machine.peek()
    near = tuple(one for one in state.engines if naming.parent(one.name) not in others)
    if len(shown) > len(some):
        yield widgets.Text("equal engines are joined; the numbers are of the first", "dim")
    yield from engine_states(replace(state, engines=near), place)


def kernel_table(groups: Sequence[Sequence[Any]], place: str) -> Table:
    """One line for each PE: the line of its kernel, its wait, and the start of the wait. PEs with the same line and wait are
    joined."""
    launches = list(dict.fromkeys(group[0].launch for group in groups))
    notes = [*launches] if len(launches) == 1 else []
    notes += ["equal PEs joined"] if any(len(group) > 1 for group in groups) else []
    columns: list[tuple[str, Justify]] = [("PE", "left"), *([("launch", "left")] if len(launches) > 1 else [])]  # type: ignore[list-item]
    columns += [("program", "right"), ("line", "left"), ("waits for", "left"), ("since", "right"), ("in flight", "right")]
    made = table("Kernels", columns, ", ".join(notes))
    made.columns[-3].no_wrap, made.columns[-3].min_width = False, 16
    for group in groups:
        state = group[0]
        made.add_row(
            widgets.Text(joined_name([without_place(one.pe, place) for one in group]), "bold"),
            *([state.launch] if len(launches) > 1 else []),
            "-" if state.program is None else joined_name([f"{one.program}" for one in group]),
            state.line or "-",
            widgets.Text(state.waits or "-", WORK),
            "-" if state.since is None else _range(one.since for one in group),
            f"{state.in_flight:,}",
        )
    return made


def _range(numbers: Iterable[int]) -> str:
    """The smallest and the largest number: `4,927..4,928`."""
    found = list(numbers)
    low, high = min(found), max(found)
    return f"{low:,}" if low == high else f"{low:,}..{high:,}"


def source_lines(running: Any, states: Sequence[Any]) -> Iterator[widgets.Text]:
    """The text of the current lines of kernels, each once."""
    files = {Path(name).name: name for name in running.kernel_files()}
    lines = sorted({state.line for state in states if state.line})
    for line in lines:
        name, _, number = line.rpartition(":")
        code = linecache.getline(files[name], int(number)).strip() if name in files else ""
        if code:
            yield widgets.Text(f"{line}  ", "dim").append(code, "default")
