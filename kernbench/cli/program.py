"""`kbsim program`: a program before it runs."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kernbench.cli import output
from kernbench.cli.machines import load_machine
from kernbench.cli.options import DEFAULT_MACHINE, AllowCode, Config, Json, Overrides, Target
from kernbench.common.words import counted

app = typer.Typer(help="Look at programs before they run, and write workloads as programs.", no_args_is_help=True)


class GraphFormat(StrEnum):
    """Text forms of the dependency graph."""

    DOT = "dot"
    MERMAID = "mermaid"


@app.command()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program (.json, .yaml).", show_default=False)],
    config: Annotated[
        str | None,
        typer.Option(
            "--config", "-c", metavar="NAME|FILE", help="Check it against this machine too.", show_default=False
        ),
    ] = None,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    as_json: Json = False,
) -> int:
    """Say whether a program is valid: by itself, and with --config on a machine."""
    from kernbench.cmdq import load_program
    from kernbench.cmdq.planning import check_on

    program = load_program(file)
    machine = None if config is None else load_machine(config, overrides, allow_code=allow_code or ())
    if machine is not None:
        check_on(program, machine)
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
    """Show a program's dependency graph, its work and the lower bounds of its cycles, without running it."""
    from kernbench.cli.target import load_target
    from kernbench.cmdq.graph import dependency_graph, dot_text, mermaid_text
    from kernbench.cmdq.planning import summarise_on

    machine = load_machine(config, overrides, allow_code=allow_code or ())
    program = load_target(target, machine)
    summary = summarise_on(program, machine)
    drawn = dependency_graph(program.entries)
    if graph is not None:
        text = dot_text if graph is GraphFormat.DOT else mermaid_text
        output.write(text(program.entries, drawn))
        return output.OK
    from kernbench.cli.render_program import program_dict, program_summary

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
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where to: .json or .yaml.", show_default=False)
    ],
    config: Config = DEFAULT_MACHINE,
    overrides: Overrides = None,
) -> int:
    """Write the program that a workload is on a machine."""
    from kernbench.cli.target import workload_program
    from kernbench.cmdq.planning import check_on
    from kernbench.common.files import check_writable

    check_writable(out)
    machine = load_machine(config, overrides)
    program = workload_program(workload, machine)
    check_on(program, machine)
    program.save(out)
    output.note(f"{out}: {counted(len(program), 'entry')} for {machine.source}")
    return output.OK


@app.command("compile")
def compile_(
    target: Target,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to: .kbp.", show_default=False)],
    config: Config = DEFAULT_MACHINE,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
) -> int:
    """Check and lower a program for a machine, and write it in binary form: `kbsim run` reads that much sooner."""
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
