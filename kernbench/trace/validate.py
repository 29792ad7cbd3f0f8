"""Does a trace keep its laws? Every event against the schema, and what events say together; in bounded memory."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from kernbench.trace.events import ALL_TYPES, Record, strict_types
from kernbench.trace.files import first_line
from kernbench.trace.laws.counters import Counters
from kernbench.trace.laws.flows import Flows, Waits
from kernbench.trace.laws.jobs import Commands, Jobs
from kernbench.trace.laws.law import LAWS, Context, Law, Order, Violation
from kernbench.trace.laws.samples import Samples
from kernbench.trace.reader import Break, Trace, why

MOST = 20  # violations that are kept


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a check."""

    path: str
    events: int  #: read between the first and the last line
    skipped: int  #: of them, those that only a newer version knows
    violations: tuple[Violation, ...]  #: the first of them
    counts: dict[str, int]  #: violations by law
    broken: Break | None  #: where the file cannot be read any further

    @property
    def total(self) -> int:
        """Violations in all."""
        return sum(self.counts.values())

    @property
    def valid(self) -> bool:
        """Whole, and no law broken."""
        return self.broken is None and not self.counts


def validate(trace: Trace, most: int = MOST) -> Report:
    """Check a trace against the schema and the laws; keep the first `most` violations and count the others.

    Laws of pairs and sums do not hold for what a file leaves out (TRACE_META.filter), nor for one that broke off.
    """
    context = Context(trace, most)
    order = Order(context)
    laws = [Commands(context), Jobs(context), Flows(context), Waits(context), Samples(context), Counters(context)]
    _check_first(trace, context)
    events = _read(trace, context, order, laws)
    _close(context, laws)
    if trace.end is not None:
        context.line = events + 2
        order.finish(trace.end, events)
        for law in laws:
            law.finish(trace.end)
    counts = {law: context.counts[law] for law in LAWS if context.counts[law]}
    return Report(trace.path, events, trace.skipped, tuple(context.violations), counts, trace.broken)


def _check_first(trace: Trace, context: Context) -> None:
    """Check TRACE_META against its own version, and the list of omitted events."""
    if not trace.newer:
        try:
            msgspec.json.decode(first_line(trace.path), type=strict_types())
        except msgspec.ValidationError as error:
            context.say("schema", why(error))
    for name, count in sorted(Counter(str(unit.get("unit")) for unit in trace.meta.units).items()):
        if count > 1:
            context.say("track", f"TRACE_META has {count} tracks of the name {name}")
    left_out = trace.meta.filter or {}
    cycles, only = left_out.get("cycles"), left_out.get("only")
    if cycles is not None and not (isinstance(cycles, list) and len(cycles) == 2 and all(type(c) is int for c in cycles)):
        context.say("schema", "filter.cycles: Expected two cycles, the first and the one after the last")
    if only is not None and not (isinstance(only, list) and all(isinstance(pattern, str) for pattern in only)):
        context.say("schema", "filter.only: Expected a list of patterns")


def _read(trace: Trace, context: Context, order: Order, laws: list[Law]) -> int:
    """All records past all laws; how many lines there were."""
    misfits: deque[tuple[int, str]] = deque()  # of the lines that are read: they are reported between the others
    handlers = _Handlers(laws)
    lines_read = 0
    t_cycle = -1
    types = ALL_TYPES if trace.newer else strict_types()
    look, closing = order.look, context.closing
    for lines, batch in trace.numbered(types, lambda line, why: misfits.append((line, why))):
        lines_read += len(batch) + len(misfits)
        for line, record in zip(lines, batch, strict=True):
            if misfits:
                while misfits and misfits[0][0] < line:
                    _misfit(context, misfits)
            context.line = line
            if record.t_cycle != t_cycle:
                t_cycle = record.t_cycle
                if closing:
                    _close(context, laws)
            look(record)
            for handle in handlers[record.__class__]:
                handle(record)
        while misfits:
            _misfit(context, misfits)
    lines_read += len(misfits)
    while misfits:
        _misfit(context, misfits)
    return lines_read + trace.skipped


def _misfit(context: Context, misfits: deque[tuple[int, str]]) -> None:
    line, why = misfits.popleft()
    context.say("schema", why, line)


def _close(context: Context, laws: Iterable[Law]) -> None:
    """The cycle in which these jobs ended is over."""
    closes = [law.close for law in laws if type(law).close is not Law.close]
    for job in context.closing:
        for close in closes:
            close(job)
        context.jobs.pop(job.number, None)
    context.closing.clear()


class _Handlers(dict[type[Record], list[Callable[[Record], None]]]):
    """What looks at records of a class."""

    def __init__(self, laws: list[Law]) -> None:
        super().__init__()
        self._by_law = [law.handlers() for law in laws]

    def __missing__(self, kind: type[Record]) -> list[Callable[[Record], None]]:
        name = kind.event.name
        self[kind] = [handlers[name] for handlers in self._by_law if name in handlers]
        return self[kind]
