"""What `kbsim ccl run` says on stderr of sizes that will take long: before they run, and while they do."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernbench.cli import output
from kernbench.cli.progress import ProgressBar

if TYPE_CHECKING:
    from kernbench.ccl.measure import Asked
    from kernbench.ccl.registry import Registry
    from kernbench.ccl.work import Forecast
    from kernbench.sim_engine.machine import Machine

LONG = 60.0  # [s] what takes less is not told


class Outlook:
    """Tells what is left to run where that is long, and again where it turns out to be twice as long."""

    def __init__(self, asked: Asked, counts: Sequence[int], registry: Registry, *, quiet: bool) -> None:
        from kernbench.ccl.work import Forecast, messages

        self.forecast = Forecast(asked, counts)
        self._asked, self._counts, self._registry, self._quiet = asked, counts, registry, quiet
        self._least = "" if messages(asked, counts[0])[1] else "at least "
        self._told = LONG / 2  # [s]

    @contextmanager
    def size(self) -> Iterator[Callable[[Machine], None] | None]:
        """The next size runs in here: what is left is told before it, and a terminal sees how far it is."""
        if self.forecast.seconds > 2 * self._told and not self._quiet:
            self._told = self.forecast.seconds
            output.note(self._text())
        begin = time.monotonic()
        with message_bar(not self._quiet, self.forecast) as progress:
            yield progress
        self.forecast.took(time.monotonic() - begin)

    def _text(self) -> str:
        from kernbench.ccl.measure import bytes_of
        from kernbench.ccl.work import memory

        done, counts = self.forecast.done, self._counts
        sizes = f"{bytes_of(self._asked, counts[-1]):,} B" if len(counts) - done == 1 else f"{len(counts) - done} sizes"
        work = f"{self._least}{self.forecast.left:,} messages between {self._asked.group.size:,} ranks"
        gib = memory(self._asked, max(counts)) / (1 << 30)
        room = f" and {gib:.1f} GiB of memory" if gib >= 1 else ""
        return (
            f"note: {sizes}: {work}, about {about(self.forecast.seconds)}{room}; "
            f"fewer ranks or a smaller size take less{self._better()}; Ctrl-C leaves the sizes that are done"
        )

    def _better(self) -> str:
        """Another algorithm of the collective that takes at most half as many messages."""
        from kernbench.ccl.measure import queues_of
        from kernbench.ccl.work import messages

        asked, left = self._asked, self._counts[self.forecast.done :]
        found = []
        for entry in self._registry.entries:
            if entry.collective == asked.entry.collective and asked.group.kind_name in entry.topologies:
                other = replace(asked, entry=entry, queues=queues_of(self._registry, entry))
                each = [messages(other, count) for count in left]
                if all(exact for _, exact in each):
                    found.append((sum(number for number, _ in each), entry.name))
        best = min(found, default=(0, ""))
        if not best[1] or 2 * best[0] > self.forecast.left:
            return ""
        return f", --algo {best[1]} has {best[0]:,} messages"


def about(seconds: float) -> str:
    """A time as one says it: `80 s`, `12 min`, `5 h`."""
    if seconds < 90:
        return f"{round(seconds, -1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.0f} h"


@contextmanager
def message_bar(wanted: bool, forecast: Forecast) -> Iterator[Callable[[Machine], None] | None]:
    """What to give to a run: a bar of messages where it is wanted and stderr is a terminal."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    bar = _MessageBar(forecast.messages[forecast.done])
    try:
        yield bar
    finally:
        bar.close()


class _MessageBar(ProgressBar):
    """Messages that are sent, of those of the size."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._total = total

    def __call__(self, machine: Machine) -> None:
        queues: Any = machine.queues
        sent = 0 if queues is None else sum(ring.sent for ring in queues.rings)
        self.counted(sent, max(sent, self._total), "messages")
