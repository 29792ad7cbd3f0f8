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
    read: bool = True  #: somebody reads stdout

    def row(self, row: Row) -> None:
        """A size is done. The columns come with the first one: what is refused has none."""
        from kernbench.cli.render_ccl import head, line

        first: list[Text] = [] if self.rows else list(head(self.asked))
        self.rows.append(row)
        if not (self.as_json or self.quiet):
            self.read = output.show([*first, line(row)], whole=True)

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
        from kernbench.cli.render_ccl import head, unfinished, verdict

        if not self.rows and stopped is not None:
            output.show(head(self.asked), whole=True)
        output.show(verdict(self.rows), whole=True)
        if self.rows and ending.status != "done":
            output.show([unfinished(ending.status, len(self.rows), len(self.counts))], whole=True)
        if stopped is not None:
            output.show(ended(stopped))
