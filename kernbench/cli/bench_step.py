"""`kbsim step BENCH`: a bench stopped where one wants to look, with the line of each kernel and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernbench.cli import output
from kernbench.cli.bench_run import prepared, said
from kernbench.cli.tracing import traced
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.runtime_api.bench import Bench
    from kernbench.sim_engine.tracing import TraceOptions


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
        self.machine.keep_commands()  # engines are shown with what the kernels' jobs are
        self.what = {**self.engine.activity.identity(), "strict_wait": strict_wait}

    @contextmanager
    def around(self, start: Path | None, save: Path | None, trace: Path | None, options: TraceOptions | None) -> Iterator[None]:
        """Around the steps: from a checkpoint by running again, into a trace, to a checkpoint."""
        from kernbench.sim_engine.kernel_checkpoint import restore_run, save_run

        if trace is not None and (start is not None or save is not None):
            rule = "a bench is restored by running it again, and a trace cannot be taken up in the middle"
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
        from kernbench.cli.render_kernels import kernel_state

        return kernel_state(self.engine, note)

    def finish(self) -> int:
        """Say what a kernel raised; the exit code."""
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
