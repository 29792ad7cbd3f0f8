"""How far a sweep has come, on stderr: points, rate, time left, and the best so far."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kernbench.cli import output

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from kernbench.sweep.best import Best
    from kernbench.sweep.row import Row

BAR = 20  # characters
RATE_SECONDS = 5.0  # the rate is that of about so long a time


class SweepBar:
    """Points that are stored, of those that are missing."""

    def __init__(self, total: int, best: Best, names: Mapping[str, str]) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self.best, self.names = best, names
        self.done, self.failed = 0, 0
        self.seen = [(time.monotonic(), 0)]
        columns = (BarColumn(bar_width=BAR), TextColumn("{task.description}", markup=False))
        self.bar: Progress = Progress(*columns, console=output.console(sys.stderr), transient=True)
        self.task: TaskID = self.bar.add_task(self.text(total), total=total)
        self.total = total
        self.bar.start()

    def __call__(self, rows: Sequence[Row]) -> None:
        """Some are stored."""
        self.done += len(rows)
        self.failed += sum(not row.ended for row in rows)
        self.seen.append((time.monotonic(), self.done))
        while len(self.seen) > 2 and self.seen[-1][0] - self.seen[0][0] > RATE_SECONDS:
            del self.seen[0]
        self.bar.update(self.task, completed=self.done, description=self.text(self.total))

    def text(self, total: int) -> str:
        """What stands beside the bar."""
        from kernbench.cli.render_sweep import left_text, number_text

        (since, before), (now, done) = self.seen[0], self.seen[-1]
        rate = (done - before) / (now - since) if now > since else 0.0
        told = [f"{self.done:,} of {total:,}"]
        if rate:
            told += [f"{rate:,.1f}/s", f"{left_text((total - self.done) / rate)} left"]
        if self.failed:
            told.append(f"{self.failed:,} failed")
        if self.best.row is not None:
            name, value = self.best.goal[0], number_text(self.best.row, self.best.goal[0])
            told.append(f"best {name} {value}: {self.names.get(self.best.row.key, '')}")
        line, room = ", ".join(told), output.console(sys.stderr).width - BAR - 2
        return line if len(line) <= room else line[: room - 3] + "..."


@contextmanager
def listener(
    total: int, best: Best, names: Mapping[str, str], *, bar: bool, lines: bool
) -> Iterator[Callable[[Sequence[Row]], None]]:
    """What is told of results that are stored: a bar on a terminal, and with `lines` a line of JSON for each on stdout."""
    drawn = SweepBar(total, best, names) if bar and total and sys.stderr is not None and sys.stderr.isatty() else None

    def heard(rows: Sequence[Row]) -> None:
        for row in rows:
            best.offer(row)
        if lines:
            told = ({"key": row.key, "status": row.status, "cycles": row.cycles, "error": row.error} for row in rows)
            output.write("".join(json.dumps(one) + "\n" for one in told))
        if drawn is not None:
            drawn(rows)

    try:
        yield heard
    finally:
        if drawn is not None:
            drawn.bar.stop()
