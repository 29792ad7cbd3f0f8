"""Progress of a long run on stderr, shown only on a terminal and after one second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kernbench.cli import output

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from kernbench.sim_engine.machine import Machine

AFTER_SECONDS = 1.0  # a run that ends sooner needs no bar
EVERY_SECONDS = 0.2  # [s] shortest time over which the rate is measured


class ProgressBar:
    """Cycles beside the lower bound, and simulated cycles per second."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        self.seen = (self.begin, 0)  #: time and cycle when the rate was last taken
        self.rate = 0.0

    def __call__(self, machine: Machine) -> None:
        """Called by the machine about twenty times a second."""
        from kernbench.cli.text import percent, short

        now = time.monotonic()
        if now - self.begin < AFTER_SECONDS:
            self.seen = (now, machine.cycle)
            return
        if now - self.seen[0] >= EVERY_SECONDS:
            self.rate = (machine.cycle - self.seen[1]) / (now - self.seen[0])
            self.seen = (now, machine.cycle)
        bound = max(machine.bounds.cycles, 1)
        text = f"{short(machine.cycle)} cycles, {percent(machine.cycle / bound)} of the lower bound"
        self.show(min(machine.cycle, bound), bound, f"{text}, {short(round(self.rate))} cycles/s")

    def counted(self, done: int, total: int, noun: str) -> None:
        """Show how many parts are done, after the first second."""
        if time.monotonic() - self.begin >= AFTER_SECONDS:
            self.show(done, total, f"{done:,} of {total:,} {noun}")

    def show(self, done: int, total: int, text: str) -> None:
        """Show which share is done."""
        if self.bar is None:
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

            columns = (SpinnerColumn(), BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
            self.bar = Progress(*columns, console=output.console(sys.stderr), transient=True)
            self.task = self.bar.add_task(text, total=total)
            self.bar.start()
        if self.task is not None:
            self.bar.update(self.task, completed=done, description=text)

    def close(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.stop()


@contextmanager
def progress_bar(wanted: bool) -> Iterator[Callable[[Machine], None] | None]:
    """The `progress` argument of `Machine.run`: a bar, if it is wanted and stderr is a terminal."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    bar = ProgressBar()
    try:
        yield bar
    finally:
        bar.close()


@contextmanager
def counting_bar(wanted: bool, noun: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar for work with a known number of steps; it is called with the number of finished steps and of all steps."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    bar = ProgressBar()
    try:
        yield lambda done, total: bar.counted(done, total, noun)
    finally:
        bar.close()
