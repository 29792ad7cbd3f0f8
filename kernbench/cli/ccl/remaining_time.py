"""The remaining time of `kbsim ccl run`: a note if it is long, and a progress bar of messages."""

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

    from kernbench.ccl.measure import CclRequest, Forecast
    from kernbench.ccl.registry import Registry
    from kernbench.sim_engine.machine import Machine



LONG = 60.0  # [s] shorter times are not reported


class RemainingTime:
    """Reports the remaining time if it is long, and again if the estimate doubles."""

    def __init__(self, request: CclRequest, counts: Sequence[int], registry: Registry, *, quiet: bool) -> None:
        from kernbench.ccl.measure import Forecast, messages

        self.forecast = Forecast(request, counts)
        self._asked, self._counts, self._registry, self._quiet = request, counts, registry, quiet
        self._least = "" if messages(request, counts[0])[1] else "at least "
        self._reported = LONG / 2  # [s]

    @contextmanager
    def size(self) -> Iterator[Callable[[Machine], None] | None]:
        """Context of the next size: reports the remaining work before it, and the progress on a terminal."""
        if self.forecast.seconds > 2 * self._reported and not self._quiet:
            self._reported = self.forecast.seconds
            output.note(self._text())
        begin = time.monotonic()
        with message_bar(not self._quiet, self.forecast) as progress:
            yield progress
        self.forecast.took(time.monotonic() - begin)

    def _text(self) -> str:
        from kernbench.ccl.measure import bytes_of, memory

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
        """Another algorithm of the collective that needs at most half as many messages."""
        from kernbench.ccl.measure import messages, queues_of

        request, left = self._asked, self._counts[self.forecast.done :]
        found = []
        for entry in self._registry.entries:
            if entry.collective == request.entry.collective and not entry.unfit(request.config, request.group):
                own = queues_of(self._registry, entry, config=request.config, group=request.group)
                other = replace(request, entry=entry, queues=own)
                each = [messages(other, count) for count in left]
                if all(exact for _, exact in each):
                    found.append((sum(number for number, _ in each), entry.name))
        best = min(found, default=(0, ""))
        if not best[1] or 2 * best[0] > self.forecast.left:
            return ""
        return f", --algo {best[1]} has {best[0]:,} messages"


def about(seconds: float) -> str:
    """A rounded time: `80 s`, `12 min`, `5 h`."""
    if seconds < 90:
        return f"{round(seconds, -1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.0f} h"


@contextmanager
def message_bar(wanted: bool, forecast: Forecast) -> Iterator[Callable[[Machine], None] | None]:
    """A progress bar over messages, or None if it is not wanted or stderr is not a terminal."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    bar = _MessageBar(forecast.messages[forecast.done])
    try:
        yield bar
    finally:
        bar.close()


class _MessageBar(ProgressBar):
    """The number of messages sent, out of those of this size."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._total = total

    def __call__(self, machine: Machine) -> None:
        queues: Any = machine.queues
        sent = 0 if queues is None else sum(ring.sent for ring in queues.rings)
        self.counted(sent, max(sent, self._total), "messages")
