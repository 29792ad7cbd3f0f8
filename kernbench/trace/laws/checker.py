"""One pass over all records of a file, which checks all laws."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench.trace.events import Record
from kernbench.trace.laws.law import Context, Law, Order
from kernbench.trace.laws.line import Line
from kernbench.trace.laws.scan import Scan
from kernbench.trace.schema import EVENTS


class Check:
    """A law that checks an event type, and the index of the type in the law's `events`."""

    def __init__(self, law: Law, event: int) -> None:
        self.law = law
        self.event = event


class Kind:
    """The properties of an event type that the laws need."""

    def __init__(self, phases: dict[str | None, int], checks: list[Check]) -> None:
        #: By unit: the phase of records that break no law of `Order` except, possibly, their order in the file; -1: it varies.
        self.phases = phases
        self.checks = checks


class Checker:
    """Hands each record to the laws of its type, and closes jobs when the cycle in which they ended is over."""

    def __init__(self, context: Context, order: Order, laws: Sequence[Law]) -> None:
        self.events = 0  #: records that were read
        self._context = context
        self._order = order
        self._scan = Scan()
        self._laws = list(laws)
        self._kinds = [Kind({}, []) for _ in range(EVENTS[-1].number + 1)]  # by number of the event type
        for event in EVENTS:
            checks = [Check(law, law.events.index(event.name)) for law in laws if event.name in law.events]
            self._kinds[event.number] = Kind(order.phases[event.name], checks)

    def plain(self, block: bytes, at: int, number: int) -> tuple[int, int]:
        """Read lines from an offset on, up to the first line that kernbench would write in another form; the first line has the
        given number.

        Returns the offset after the last line that was read, and the number of these lines.
        """
        size = len(block)
        first = number
        scan = self._scan
        scan.open(block)
        while at < size:
            after = scan.next(at)
            if after < 0:
                break
            self._look(scan.line, number)
            at = after
            number += 1
        self.events += number - first
        return at, number - first

    def other(self, record: Record, number: int) -> None:
        """Check a line that msgspec has decoded."""
        line = self._scan.line
        line.take(record)
        self._look(line, number)
        self.events += 1

    def _look(self, record: Line, number: int) -> None:
        context, order = self._context, self._order
        kind = self._kinds[record.number]
        context.line = number
        now = record.t_cycle
        if now != context.t_cycle:
            context.t_cycle = now
            if context.closing:
                self.close()
        # Most records have the event and unit of an earlier record, so their phase is known, and come after the previous
        # record.
        known = kind.phases.get(record.unit)
        phase = -1 if known is None else known
        if phase >= 0 and (now > order.t_cycle or (now == order.t_cycle and phase >= order.phase)):
            order.t_cycle = now
            order.phase = phase
        else:
            order.check_order(record)
            if known is None:
                order.check(record)
        for check in kind.checks:
            check.law.check(record, check.event)

    def close(self) -> None:
        """The cycle in which these jobs ended is over: close them."""
        context = self._context
        for job in context.closing:
            for law in self._laws:
                law.close(job)
            context.remove(job)
        context.closing.clear()
