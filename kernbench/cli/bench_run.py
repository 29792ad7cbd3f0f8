"""`kbsim run BENCH`: a bench on a machine, and its numbers against its reference."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kernbench.cli import output
from kernbench.cli.tracing import reported

if TYPE_CHECKING:
    from kernbench.runtime_api.bench import Bench
    from kernbench.runtime_api.report import BenchReport
    from kernbench.sim_engine.engine import GraphEngine
    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.tracing import TraceOptions


def prepared(
    bench: Bench, config: str | None, overrides: list[str] | None, *, op_log: bool, strict_wait: bool
) -> tuple[GraphEngine, Machine]:
    """An engine with the bench at cycle 0. `overrides` are values of parameters and of the machine."""
    from kernbench.config import load_config
    from kernbench.runtime_api.parameters import split_settings
    from kernbench.sim_engine.engine import GraphEngine

    params, keys = split_settings(bench.where, bench.params, overrides or [])
    engine = GraphEngine(load_config(config or bench.machine, keys), op_log=op_log, strict_wait=strict_wait)
    return engine, engine.prepare(bench, **params)


def run_bench(
    bench: Bench,
    config: str | None,
    overrides: list[str] | None,
    *,
    verify: bool,
    strict_wait: bool,
    skip: bool,
    trace: Path | None,
    page: Path | None,
    options: TraceOptions,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run it and say what it took; the exit code."""
    import json

    from kernbench.cli.progress import progress_bar
    from kernbench.common.files import write_whole
    from kernbench.runtime_api.report import report

    engine, machine = prepared(bench, config, overrides, op_log=verify, strict_wait=strict_wait)
    with reported(machine, trace, page, options), progress_bar(not quiet) as progress:
        machine.run(skip=skip, progress=progress)
    failed = said_later(engine)
    found = report(engine, verify=verify)
    if out is not None:
        write_whole(out, (json.dumps(found.to_dict()) + "\n").encode())
    if as_json:
        output.show_json(found.to_dict())
    elif not quiet:
        _show(found)
    if failed:
        output.note(failed)
    return output.ENDINGS[found.result.status] or found.exit_code


def said_later(engine: GraphEngine) -> str:
    """The traceback of what a kernel raised; empty where none did. InputError as it is."""
    from kernbench.sim_engine.engine import KernelFailed

    try:
        engine.check()
    except KernelFailed as error:
        return error.traceback.rstrip("\n")
    return ""


def said(engine: GraphEngine) -> None:
    """Say what a kernel raised, on stderr."""
    text = said_later(engine)
    if text:
        output.note(text)


def _show(found: BenchReport) -> None:
    from kernbench.cli.render_bench import bench_summary

    output.show(bench_summary(found, output.console(sys.stdout).width))
