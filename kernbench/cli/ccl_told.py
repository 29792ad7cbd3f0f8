"""What `kbsim ccl run` tells: each size as it is done and, however the sizes end, what is done of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kernbench.cli import output
from kernbench.cli.ccl_plot import draw
from kernbench.cli.endings import Ending

if TYPE_CHECKING:
    from rich.text import Text

    from kernbench.ccl.measure import Asked, Row
    from kernbench.sim_engine.result import Result


@dataclass
class Told:
    """The rows of a run, as they come."""

    asked: Asked
    counts: Sequence[int]  #: of all sizes
    as_json: bool
    quiet: bool
    plot: Path | None
    rows: list[Row] = field(default_factory=list)
    shown: int = 0  #: of the rows
    read: bool = True  #: somebody reads stdout

    def row(self, row: Row) -> None:
        """A size is done."""
        self.rows.append(row)
        if not (self.as_json or self.quiet):
            self._show_rows()

    def _show_rows(self) -> None:
        """Those that have not been shown: one, or two where the last was interrupted. The columns come with the first one, as
        what is refused has none."""
        from kernbench.cli.render_ccl import head, line

        lines: list[Text] = [] if self.shown else list(head(self.asked))
        lines += [line(row) for row in self.rows[self.shown :]]
        self.read = output.show(lines, whole=True) and self.read
        self.shown = len(self.rows)

    def end(self, ending: Ending, stopped: Result | None = None) -> None:
        """What the sizes that are done come to; `stopped`: of the size that did not end."""
        if self.as_json:
            from kernbench.ccl.measure import to_json

            found = to_json(self.asked, self.counts, self.rows, ending.status, ending.message)
            output.show_json(found if stopped is None else {**found, "result": stopped.to_dict()})
        elif not self.quiet:
            self._show_end(ending, stopped)
        if self.plot is not None and self.rows:
            draw(self.asked, self.rows, self.plot)

    def _show_end(self, ending: Ending, stopped: Result | None) -> None:
        from kernbench.cli.render_ccl import ending as ended
        from kernbench.cli.render_ccl import unfinished, verdict

        if self.shown < len(self.rows) or (not self.rows and stopped is not None):
            self._show_rows()
        output.show(verdict(self.rows), whole=True)
        if self.rows and ending.status != "done":
            output.show([unfinished(ending.status, len(self.rows), len(self.counts))], whole=True)
        if stopped is not None:
            output.show(ended(stopped))
