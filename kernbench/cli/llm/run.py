"""A run of `kbsim llm`, and the files that it writes: programs, traces and maps of buffers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kernbench.cli import output
from kernbench.cli.llm.options import LlmOptions, print_notes
from kernbench.cli.llm.plans import check_planned, first_stage
from kernbench.cli.target import note_chips, note_machine
from kernbench.cli.tracing import Traced

if TYPE_CHECKING:
    from kernbench.cli.tracing import Traced
    from kernbench.common.look.palette import Theme
    from kernbench.sim_engine.recording import TraceOptions
    from kernbench.workloads.llm.report import LlmReport
    from kernbench.workloads.llm.steps import LlmPrograms
    from kernbench.workloads.parallel.programs import ParallelPrograms


def run_job(
    options: LlmOptions, files: dict[str, Path | None], traced: Traced, theme: Theme, *, reuse: bool, as_json: bool, quiet: bool
) -> LlmReport | None:
    """Run the job and write the requested `files`; None if a program was requested instead of a run.

    `traced`: the trace options.
    """
    programs = options.programs()
    print_notes(options, quiet)
    note_machine(programs.target, quiet=quiet)
    note_chips([programs.target], quiet=quiet)
    if files["live_map"] is not None:
        _draw_live_map(programs, files["live_map"], theme, quiet=quiet or as_json)
    if files["emit"] is not None:
        write_program(programs, files["emit"], as_json=as_json, quiet=quiet)
        return None
    if files["trace"] is not None:
        write_trace(programs, files["trace"], traced.options("kbsim llm", files["trace"]), quiet=quiet or as_json)
    return run_one(programs, reuse=reuse, quiet=quiet or as_json)


def run_one(programs: LlmPrograms | ParallelPrograms, *, reuse: bool, quiet: bool) -> LlmReport:
    """Run the job, with a progress bar on a terminal."""
    from kernbench.cli.progress import counting_bar
    from kernbench.workloads.llm.report import report_of
    from kernbench.workloads.parallel.run import run_model

    with counting_bar(not quiet, "segments") as progress:
        return report_of(run_model(programs, reuse=reuse, progress=progress))


def write_program(programs: LlmPrograms | ParallelPrograms, path: Path, *, as_json: bool, quiet: bool) -> None:
    """Write the whole run as one program."""
    from kernbench.cli.program import report_written
    from kernbench.cmdq import check_program

    program = programs.whole_program()
    check_program(program, programs.target)
    program.save(path)
    layouts = ""
    if programs.added is not None:
        tables = ", ".join(f"{{t_max: {kv.t_max}, head_dim: {kv.head_dim}}}" for kv in programs.machine.kv_layouts)
        layouts = f"kv_layouts=[{tables}]"
    report_written(path, len(program), programs.machine.source, layouts, as_json=as_json, quiet=quiet)


def write_trace(programs: LlmPrograms | ParallelPrograms, path: Path, options: TraceOptions | None, *, quiet: bool) -> None:
    """Run everything as one program, to trace it."""
    from kernbench.cli.progress import progress_bar
    from kernbench.cli.tracing import traced
    from kernbench.sim_engine.machine import Machine

    machine = Machine(programs.target, programs.whole_program())
    with traced(machine, path, options), progress_bar(not quiet) as progress:
        machine.run(progress=progress)


def _draw_live_map(programs: LlmPrograms | ParallelPrograms, path: Path, theme: Theme, *, quiet: bool) -> None:
    from kernbench.common.files import write_whole
    from kernbench.workloads.layer.live_map import live_map_svg

    programs = first_stage(programs)
    check_planned(programs, "--live-map")
    step = programs.steps[-1]
    write_whole(path, live_map_svg(programs.plan(programs.shapes[0], step).scratchpad, theme=theme).encode())
    if not quiet:
        output.note(f"{path}: the buffers of a layer in {step.phase}")
