"""What `kbsim run` is asked for beside a target: where its trace, page and result go, and how it is told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernbench.cli import output
from kernbench.cli.tracing import reported

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.tracing import TraceOptions


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of one `kbsim run`."""

    out: Path | None  #: the result as JSON goes there too
    as_json: bool
    quiet: bool
    skip: bool
    trace: Path | None
    page: Path | None
    options: TraceOptions | None  #: of the trace, where some were given
    checks: bool = True  #: hold the run against the laws when it ends

    def run(self, machine: Machine) -> None:
        """To the end, traced and with progress as asked for."""
        from kernbench.cli.progress import progress_bar

        machine.checks = self.checks
        with reported(machine, self.trace, self.page, self.options), progress_bar(not self.quiet) as progress:
            machine.run(skip=self.skip, progress=progress)

    def tell(self, result: str, show: Callable[[int], Iterable[RenderableType]]) -> None:
        """Write the result's JSON, or show it for a terminal of so many columns, as asked for."""
        from kernbench.common.files import write_whole

        if self.out is not None:
            write_whole(self.out, (result + "\n").encode())
        if self.as_json:
            output.write(result + "\n")
        elif not self.quiet:
            output.show(show(output.console(sys.stdout).width))
