"""A program under `kbsim step`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernbench.cli import output
from kernbench.cli.machines import load_machine
from kernbench.cli.tracing import traced

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.sim_engine.tracing import TraceOptions


class ProgramStepper:
    """One `kbsim step` of a program."""

    def __init__(
        self, target: str, config: str, overrides: list[str] | None, allow_code: list[str] | None = None
    ) -> None:
        from kernbench.cli.target import load_target
        from kernbench.sim_engine.machine import Machine

        spec = load_machine(config, overrides, allow_code=allow_code or ())
        self.machine = Machine(spec, load_target(target, spec))

    def around(
        self, start: Path | None, save: Path | None, trace: Path | None, options: TraceOptions | None
    ) -> AbstractContextManager[None]:
        """Around the steps: from a checkpoint, into a trace, to a checkpoint."""
        if start is not None:
            self.machine.load(start)
        return traced(self.machine, trace, options, save)

    def show(self, note: str) -> Iterator[RenderableType]:
        """The state for a person."""
        from kernbench.cli.render_state import machine_state

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
