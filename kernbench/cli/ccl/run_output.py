"""The output of `kbsim ccl run`: rows as they arrive, and at the end the notes, files and pictures."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernbench.cli import output
from kernbench.cli.ccl.plot import draw
from kernbench.cli.ccl.table import (
    average,
    chosen,
    ended,
    head,
    line,
    notes,
    protocol_name,
    slot_advice,
    unfinished,
)
from kernbench.cli.endings import Ending
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from kernbench.ccl.measure import CclRequest, Row
    from kernbench.common.look.palette import Theme
    from kernbench.sim_engine.result import Result



@dataclass
class Batch:
    """The sizes of one algorithm, element type and root."""

    request: CclRequest
    counts: list[int]
    rows: list[Row] = field(default_factory=list)

    @property
    def left(self) -> bool:
        """Whether sizes are not done."""
        return len(self.rows) < len(self.counts)


@dataclass
class RunOutput:
    """Prints the rows of a run as they arrive."""

    batches: list[Batch]
    as_json: bool
    quiet: bool  #: no text on stdout
    plot: Path | None
    csv: Path | None = None
    page: Path | None = None  #: of curves
    chakra: Path | None = None  #: directory of an execution trace
    trace_page: Path | None = None  #: of the trace of the only size
    trace_pages: list[bytes] = field(default_factory=list)  #: its content, when the run is done
    theme: Theme = "light"  #: of the plot
    shown: int = 0  #: of the rows
    headed: CclRequest | None = None  #: parameters of the last header
    read: bool = True  #: whether the reader of stdout still exists

    @property
    def rows(self) -> list[tuple[CclRequest, Row]]:
        """All rows so far."""
        return [(batch.request, row) for batch in self.batches for row in batch.rows]

    def row(self, batch: Batch, row: Row) -> None:
        """Handle a finished size."""
        batch.rows.append(row)
        if not (self.as_json or self.quiet):
            self._show_rows()

    def _show_rows(self) -> None:
        """Results that are not yet printed: one, or two if the last was interrupted. The header is printed with the first
        result, because a refused run has none, and again where the algorithm changes.
        """
        width = output.console(sys.stdout).width
        lines: list[Text] = [] if self.rows else list(head(self.batches[0].request, width))
        for request, row in self.rows[self.shown :]:
            new = self.headed is None or (self.headed.entry, self.headed.queues) != (request.entry, request.queues)
            if new or (request.in_place and self.headed is not request):
                lines += head(request, width)
            self.headed = request
            lines.append(line(row, request, width))
        self.read = output.show(lines, whole=True) and self.read
        self.shown = len(self.rows)

    def end(self, ending: Ending, stopped: Result | None = None) -> None:
        """The summary of the finished sizes, and then the files. `stopped`: the result of the size that did not finish."""
        from kernbench.common.files import write_whole

        if self.as_json:
            output.show_json(self._json(ending, stopped))
        elif not self.quiet:
            self._show_end(ending, stopped)
        if self.csv is not None:
            self._write_csv(self.csv)
        if self.plot is not None and self.rows:
            done = [batch for batch in self.batches if batch.rows]
            lines: dict[str, Sequence[Row]] = {_label(batch.request, self.batches): batch.rows for batch in done}
            draw(lines, self.title, self.plot, self.theme)
        if self.page is not None and self.rows:
            from kernbench.cli.ccl.curves import page_bytes

            series = [(_label(batch.request, self.batches), batch.request, batch.rows) for batch in self.batches if batch.rows]
            write_whole(self.page, page_bytes(self.title, series))
        for page in self.trace_pages:
            assert self.trace_page is not None
            write_whole(self.trace_page, page)
        if self.chakra is not None and self.rows:
            from kernbench.ccl.recording import record

            record(self.chakra, self.rows)

    @property
    def title(self) -> str:
        """The title of a run, on one line."""
        request = self.batches[0].request
        algorithms = {batch.request.entry.full_name for batch in self.batches}
        one = len(algorithms) == 1 and request.entry.registry is None
        name = request.entry.full_name if one else request.entry.collective
        dtypes = ", ".join(dict.fromkeys(batch.request.dtype for batch in self.batches))
        return f"{name}, {counted(request.group.size, 'rank')} of {request.config.source}, {dtypes}"

    def _json(self, ending: Ending, stopped: Result | None) -> dict[str, Any]:
        """One object for one batch, or a list of them; batches that did not start have the status with which the run ended."""
        from kernbench.ccl.measure import to_json

        found, over = [], False
        for batch in self.batches:
            last = not over and batch.left
            status = ending.status if last or over else "done"
            made = to_json(batch.request, batch.counts, batch.rows, status, ending.message if last else "")
            found.append({**made, "result": stopped.to_dict()} if last and stopped is not None else made)
            over = over or last
        return found[0] if len(found) == 1 else {"status": ending.status, "runs": found}

    def _write_csv(self, place: Path) -> None:
        from kernbench.ccl.measure import csv_text
        from kernbench.common.files import write_whole

        text = csv_text(self.rows)
        if place == Path("-"):
            output.write(text)
        else:
            write_whole(place, text.encode())

    def _show_end(self, ending: Ending, stopped: Result | None) -> None:
        rows = [row for _, row in self.rows]
        if self.shown < len(rows) or (not rows and stopped is not None):
            self._show_rows()
        each = groupby(self.rows, lambda one: (one[0].entry, one[0].queues.protocol))
        several = len({request.queues.protocol for request, _ in self.rows}) > 1
        by_algorithm = [
            (f"{entry.name}, {protocol_name(protocol)}" if several else entry.name, list(found))
            for (entry, protocol), found in each
        ]
        for name, found in by_algorithm:
            output.show(notes([row for _, row in found], name if len(by_algorithm) > 1 else ""), whole=True)
        output.show(_chosen(self.batches), whole=True)
        output.show(average(rows), whole=True)
        output.show([one for batch in self.batches for one in slot_advice(batch.request, batch.rows)], whole=True)
        if rows and ending.status != "done":
            output.show([unfinished(ending.status, len(rows), sum(len(batch.counts) for batch in self.batches))], whole=True)
        if stopped is not None:
            output.show(ended(stopped))


def _chosen(batches: Sequence[Batch]) -> Iterator[RenderableType]:
    """The tuner's choice for each batch; one line if the choice is the same for all batches."""
    tuned = [batch for batch in batches if batch.rows]
    each = [list(chosen(batch.request, batch.rows)) for batch in tuned]
    if all(one == each[0] for one in each):
        tuned = tuned[:1]
    for batch in tuned:
        label = _label(batch.request, batches).partition(", ")[2] if len(tuned) > 1 else ""
        yield from chosen(batch.request, batch.rows, label)


def _label(request: CclRequest, batches: Sequence[Batch]) -> str:
    """The properties in which a batch differs from the others: its algorithm, its element type, its root."""
    parts = [request.entry.name]
    if len({batch.request.queues.protocol for batch in batches}) > 1:
        parts.append(protocol_name(request.queues.protocol))
    if len({batch.request.dtype for batch in batches}) > 1:
        parts.append(request.dtype)
    if len({batch.request.redop for batch in batches}) > 1:
        parts.append(request.redop)
    if len({batch.request.root for batch in batches}) > 1:
        parts.append(f"root {request.root}")
    return ", ".join(parts)
