"""`kbsim program`: a program before it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.commands import Section
from kernbench.cli.options import DEFAULT_MACHINE, AllowCode, Config, Json, Overrides, Target
from kernbench.cli.target import load_machine
from kernbench.cli.text import BAD, BUSY, WAIT, WIDE, WORK, Bar, Justify, common_place, ids, table, unit, without_place
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.bounds import ProgramSummary
    from kernbench.cmdq.dependencies import Graph


app = Section("Check, show and compile programs, and write workloads as programs.")


class GraphFormat(StrEnum):
    """Text forms of the dependency graph."""

    DOT = "dot"
    MERMAID = "mermaid"


@app.command()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program (.json, .yaml).", show_default=False)],
    config: Annotated[
        str | None,
        typer.Option("--config", "-c", metavar="NAME|FILE", help="Also check the program on this machine.", show_default=False),
    ] = None,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    as_json: Json = False,
) -> int:
    """Check whether a program is valid. With --config, also check whether a machine can run the program."""
    from kernbench.cmdq import check_program, load_program

    program = load_program(file)
    machine = None if config is None else load_machine(config, overrides, allow_code=allow_code or ())
    if machine is not None:
        check_program(program, machine)
    if as_json:
        output.show_json({"status": "valid", "entries": len(program), "machine": None if machine is None else machine.source})
    else:
        where = "by itself; --config checks it against a machine" if machine is None else f"on {machine.source}"
        output.write(f"{file}: {counted(len(program), 'entry')}, valid {where}\n")
        if program.nothing:
            output.write(f"nothing runs: it has {program.nothing}\n")
    return output.OK


@app.command()
def show(
    target: Target,
    config: Config = DEFAULT_MACHINE,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    graph: Annotated[
        GraphFormat | None, typer.Option("--graph", help="Print the dependency graph instead.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> int:
    """Show a program's dependency graph, its work and its lower bounds in cycles, without running the program."""
    from kernbench.bounds import summarise
    from kernbench.cli.target import load_target
    from kernbench.cmdq.dependencies import dependency_graph, dot_text, mermaid_text

    machine = load_machine(config, overrides, allow_code=allow_code or ())
    program = load_target(target, machine)
    summary = summarise(program, machine)
    drawn = dependency_graph(program.entries)
    if graph is not None:
        text = dot_text if graph is GraphFormat.DOT else mermaid_text
        output.write(text(program.entries, drawn))
        return output.OK

    if as_json:
        output.show_json(program_dict(summary, drawn, machine.source))
    else:
        width = output.console(sys.stdout).width
        output.show(program_summary(summary, drawn, machine.source, width, program.nothing))
    return output.OK


@app.command()
def emit(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="The name of a workload.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write: .json or .yaml.", show_default=False)
    ],
    config: Config = DEFAULT_MACHINE,
    overrides: Overrides = None,
) -> int:
    """Write a workload as a program for a machine."""
    from kernbench.api.targets import workload_of
    from kernbench.cmdq import check_program
    from kernbench.common.files import check_writable

    check_writable(out)
    machine = load_machine(config, overrides)
    program = workload_of(workload, machine)
    check_program(program, machine)
    program.save(out)
    output.note(f"{out}: {counted(len(program), 'entry')} for {machine.source}")
    return output.OK


@app.command("compile")
def compile_(
    target: Target,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write: .kbp.", show_default=False)],
    config: Config = DEFAULT_MACHINE,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
) -> int:
    """Check a program, lower the program for a machine, and write a binary file that `kbsim run` loads much faster."""
    from kernbench.cli.target import load_target
    from kernbench.cmdq.compiled import save_compiled
    from kernbench.common.files import check_writable

    check_writable(out)
    machine = load_machine(config, overrides, allow_code=allow_code or ())
    program = load_target(target, machine)
    save_compiled(program, machine, out)
    output.note(f"{out}: {counted(len(program), 'entry')} for {machine.source}, {out.stat().st_size:,} bytes")
    return output.OK


@app.command("list")
def list_workloads(as_json: Json = False) -> int:
    """List the workloads."""
    from kernbench.cli.text import table
    from kernbench.workloads.catalogue import WORKLOADS

    lines = {name: (make.__doc__ or "").split("\n")[0] for name, make in WORKLOADS.items()}
    if as_json:
        output.show_json({"workloads": lines})
        return output.OK
    made = table("Workloads", [("name", "left"), ("what it is", "left")])
    made.columns[-1].no_wrap = False
    for name, line in lines.items():
        made.add_row(name, line)
    output.show([made])
    return output.OK


MAX_CHANNELS = 16  # most resources of each kind that are shown: those with the highest bounds
MAX_LINKS = 5
MAX_ENGINES = 16
BOUND_COLUMNS: list[tuple[str, Justify]] = [("of", "left"), ("", "left"), ("cycles", "right"), ("because of", "left")]
PATH_ENDS = 6  # ids shown at either end of a long critical path


def program_summary(
    summary: ProgramSummary, graph: Graph, machine: str, width: int, nothing: str = ""
) -> Iterator[RenderableType]:
    """Facts about a program on a machine, for a terminal of `width` columns. `nothing`: the reason why the program has no
    jobs."""
    bounds = summary.bounds
    yield widgets.Text.assemble((summary.name or "a program", "bold"), f" on {machine}, {counted(summary.entries, 'entry')}")
    if nothing:
        yield widgets.Text(f"nothing runs: it has {nothing}", f"bold {WAIT}")
        return
    yield widgets.Text.assemble("at least ", (counted(bounds.cycles, "cycle"), "bold"), f", by {bounds.limit}")
    if bounds.stuck:
        yield widgets.Text(f"it ends in a deadlock; never issued: {ids(bounds.stuck)}", BAD)
    yield from ("", _facts(summary, graph))
    yield from ("", _bounds(summary, width))


def report_written(path: Path, entries: int, machine: str, layouts: str = "", *, as_json: bool, quiet: bool) -> None:
    """Report that a command wrote a program instead of running it. `layouts`: the override that its machine needs to run it."""
    if as_json:
        answer = {"status": "written", "program": str(path), "entries": entries, "machine": machine}
        output.show_json(answer | {"set": layouts or None})
    elif not quiet:
        output.note(f"{path}: {counted(entries, 'entry')} for {machine}")
        if layouts:
            output.note(f"run it with --set '{layouts}'")


def _facts(summary: ProgramSummary, graph: Graph) -> widgets.Table:
    implied = sum(edge.implied for edge in graph.edges)
    by_control = f", {implied:,} of them by BARRIER and END" if implied else ""
    read, written = sum(summary.dram_read.values()), sum(summary.dram_written.values())
    padding = summary.moved_bytes - summary.asked_bytes
    grid = widgets.Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    grid.add_row("Opcodes", ", ".join(f"{count:,} {name}" for name, count in summary.opcodes.items()))
    grid.add_row("Graph", f"depth {graph.depth:,}, width {graph.width:,}, {counted(len(graph.edges), 'edge')}{by_control}")
    grid.add_row("Critical path", f"{counted(summary.bounds.critical_path, 'cycle')}: {_path(summary.bounds.path)}")
    elsewhere = f", {unit(summary.elsewhere, 'B')} over no channel" if summary.elsewhere else ""
    moved = f"{unit(read, 'B')} read, {unit(written, 'B')} written{elsewhere}"
    grid.add_row("Bytes", f"{moved}; of these {unit(padding, 'B')} only align")
    grid.add_row("Work", f"{unit(sum(summary.macs.values()), 'MAC')}, {unit(sum(summary.ops.values()), 'op')}")
    return grid


def _path(path: Sequence[int]) -> str:
    """The ids of a path; of a long one its ends."""
    if len(path) <= 2 * PATH_ENDS:
        return " > ".join(map(str, path))
    first, last = path[:PATH_ENDS], path[-PATH_ENDS:]
    return " > ".join([*map(str, first), f"... {len(path) - 2 * PATH_ENDS:,} more ...", *map(str, last)])


def _bounds(summary: ProgramSummary, width: int) -> widgets.Table:
    bounds = summary.bounds
    place = common_place([name for part in (bounds.dram, bounds.links, bounds.engines) for name in part])
    made = table("Lower bounds" + (f" of {place[:-1]}" if place else ""), BOUND_COLUMNS)
    made.columns[-1].no_wrap = False
    path = f"{counted(len(bounds.path), 'entry')} one after the other"
    _bound_row(made, "critical path", bounds.critical_path, path, bounds.cycles, width)
    for part, most, noun in (
        (bounds.dram, MAX_CHANNELS, "more channel"),
        (bounds.links, MAX_LINKS, "more link"),
        (bounds.engines, MAX_ENGINES, "more engine"),
    ):
        shown = sorted(part, key=lambda name: -part[name])[:most]
        for name, cycles in part.items():
            if name in shown:
                _bound_row(made, without_place(name, place), cycles, _reason(summary, name), bounds.cycles, width)
        if len(part) > len(shown):
            made.add_row(widgets.Text(counted(len(part) - len(shown), noun), "dim"))
    return made


def _bound_row(made: widgets.Table, name: str, cycles: int, reason: str, largest: int, width: int) -> None:
    share = cycles / largest if largest else 0.0
    made.add_row(name, Bar([(share, BUSY, WORK)], 24 if width >= WIDE else 10), f"{cycles:,}", widgets.Text(reason, "dim"))


def _reason(summary: ProgramSummary, name: str) -> str:
    if name in summary.dram_read:
        return f"{unit(summary.dram_read[name], 'B')} read, {unit(summary.dram_written[name], 'B')} written"
    return _jobs(summary, name) if name in summary.jobs else ""


def _jobs(summary: ProgramSummary, name: str) -> str:
    text = counted(summary.jobs[name], "job")
    if name in summary.macs:
        return f"{text}, {unit(summary.macs[name], 'MAC')}"
    return f"{text}, {unit(summary.ops[name], 'op')}" if name in summary.ops else text


def program_dict(summary: ProgramSummary, graph: Graph, machine: str) -> dict[str, Any]:
    """The same summary for `--json`, in full."""
    bounds = summary.bounds
    return {
        "status": "valid",
        "program": summary.name,
        "machine": machine,
        "entries": summary.entries,
        "opcodes": summary.opcodes,
        "jobs": summary.jobs,
        "dram_read": summary.dram_read,
        "dram_written": summary.dram_written,
        "elsewhere": summary.elsewhere,
        "asked_bytes": summary.asked_bytes,
        "moved_bytes": summary.moved_bytes,
        "macs": summary.macs,
        "ops": summary.ops,
        "graph": {"depth": graph.depth, "width": graph.width, "edges": len(graph.edges)},
        "critical_path": list(bounds.path),
        "bounds": {
            "cycles": bounds.cycles,
            "limit": bounds.limit,
            "critical_path": bounds.critical_path,
            **bounds.dram,
            **bounds.links,
            **bounds.engines,
        },
        "never_issued": list(bounds.stuck),
    }
