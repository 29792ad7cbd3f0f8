"""`kbsim run BENCH`: a bench on a machine, and its numbers against its reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernbench.cli import output
from kernbench.cli.machines import load_machine

if TYPE_CHECKING:
    from kernbench.cli.asked import Asked
    from kernbench.runtime_api.bench import Bench
    from kernbench.sim_engine.engine import GraphEngine
    from kernbench.sim_engine.machine import Machine


def prepared(
    bench: Bench,
    config: str | None,
    overrides: list[str] | None,
    *,
    op_log: bool,
    strict_wait: bool,
    allow_code: list[str] | None = None,
    quiet: bool = False,
) -> tuple[GraphEngine, Machine]:
    """An engine with the bench at cycle 0. `overrides` are values of parameters and of the machine."""
    from kernbench.runtime_api.parameters import split_settings
    from kernbench.sim_engine.engine import GraphEngine

    params, keys = split_settings(bench.where, bench.params, overrides or [])
    machine = load_machine(config or bench.machine, keys, quiet=quiet, allow_code=allow_code or ())
    engine = GraphEngine(machine, op_log=op_log, strict_wait=strict_wait)
    return engine, engine.prepare(bench, **params)


def run_bench(
    bench: Bench,
    config: str | None,
    overrides: list[str] | None,
    asked: Asked,
    *,
    verify: bool,
    strict_wait: bool,
    allow_code: list[str] | None = None,
) -> int:
    """Run it and say what it took; the exit code."""
    import json

    from kernbench.cli.render_bench import bench_summary
    from kernbench.runtime_api.report import report

    engine, machine = prepared(
        bench, config, overrides, op_log=verify, strict_wait=strict_wait, allow_code=allow_code, quiet=asked.quiet
    )
    asked.run(machine)
    failed = said_later(engine)
    found = report(engine, verify=verify)
    asked.tell(json.dumps(found.to_dict()), lambda width: bench_summary(found, width))
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

