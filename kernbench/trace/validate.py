"""Does a trace keep its laws? Every event against the schema, and what events say together; in bounded memory."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
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
    kinds = _Kinds(order, laws)
    lines_read = 0
    types = ALL_TYPES if trace.newer else strict_types()
    for lines, batch in trace.numbered(types, lambda line, why: misfits.append((line, why))):
        lines_read += len(batch) + len(misfits)
        if misfits:
            for line, record in zip(lines, batch, strict=True):
                while misfits and misfits[0][0] < line:
                    _misfit(context, misfits)
                _look((line,), (record,), context, order, laws, kinds)
        else:
            _look(lines, batch, context, order, laws, kinds)
        while misfits:
            _misfit(context, misfits)
    lines_read += len(misfits)
    while misfits:
        _misfit(context, misfits)
    return lines_read + trace.skipped


def _look(
    lines: Sequence[int], batch: Sequence[Record], context: Context, order: Order, laws: list[Law], kinds: _Kinds
) -> None:
    """Records past all laws."""
    closing, t_cycle = context.closing, context.t_cycle
    for line, record in zip(lines, batch, strict=True):
        kind = kinds[record.__class__]
        context.line = line
        now = record.t_cycle
        if now != t_cycle:
            context.t_cycle = t_cycle = now
            if closing:
                _close(context, laws)
        # Most records have a class and unit of earlier ones, whose phase is known, and follow the record before them.
        phase = kind.phases.get(record.unit if kind.has_unit else None)
        if phase is not None and (now > order.t_cycle or (now == order.t_cycle and phase >= order.phase)):
            order.t_cycle, order.phase = now, phase
        else:
            order.look(record)
        for handle in kind.handlers:
            handle(record)


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


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is known of the records of a class."""

    has_unit: bool
    phases: dict[str | None, int]  #: by unit: the phase of records that keep the laws of `Order` but for their place
    handlers: list[Callable[[Record], None]]


class _Kinds(dict[type[Record], _Kind]):
    """Classes of records that were read."""

    def __init__(self, order: Order, laws: list[Law]) -> None:
        super().__init__()
        self._order = order
        self._by_law = [law.handlers() for law in laws]

    def __missing__(self, kind: type[Record]) -> _Kind:
        name = kind.event.name
        handlers = [handlers[name] for handlers in self._by_law if name in handlers]
        self[kind] = _Kind("unit" in kind.__struct_fields__, self._order.phases[kind], handlers)
        return self[kind]
