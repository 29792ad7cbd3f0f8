"""Checks every event of a trace against the schema, and all events together against the laws, in bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import msgspec

from kernbench.trace.events import ALL_TYPES, strict_types
from kernbench.trace.files import first_line
from kernbench.trace.laws.checker import Checker
from kernbench.trace.laws.counters import Counters
from kernbench.trace.laws.flows import Flows, Waits
from kernbench.trace.laws.jobs import Commands, Jobs
from kernbench.trace.laws.law import LAWS, Context, Order, Violation
from kernbench.trace.laws.samples import Samples
from kernbench.trace.reader import Break, Trace, why

MAX_VIOLATIONS = 20  # that a report lists


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check."""

    path: str
    events: int  #: number of events between the first and the last line
    skipped: int  #: number of events whose type only a newer version of the schema has
    violations: tuple[Violation, ...]  #: the first `most` violations
    counts: dict[str, int]  #: violations by law
    broken: Break | None  #: where the file cannot be read any further

    @property
    def total(self) -> int:
        """The number of all violations."""
        return sum(self.counts.values())

    @property
    def valid(self) -> bool:
        """Whether the file is complete and violates no law."""
        return self.broken is None and not self.counts


def validate(trace: Trace, most: int = MAX_VIOLATIONS) -> Report:
    """Check a trace against the schema and the laws; list the first `most` violations and count the others.

    Laws of pairs and sums are not checked for events that a file omits (TRACE_META.filter), or for an incomplete file.
    """
    context = Context(trace, most)
    order = Order(context)
    laws = [Commands(context), Jobs(context), Flows(context), Waits(context), Samples(context), Counters(context)]
    _check_first(trace, context)
    checker = Checker(context, order, laws)
    misfits = trace.pass_over(checker.plain, checker.other, ALL_TYPES if trace.newer else strict_types(), context.misfit)
    events = checker.events + misfits + trace.skipped
    checker.close()
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
            context.report("schema", why(error))
    for name, count in sorted(Counter(str(unit.get("unit")) for unit in trace.meta.units).items()):
        if count > 1:
            context.report("track", f"TRACE_META has {count} tracks of the name {name}")
    omitted = trace.meta.filter or {}
    cycles, only = omitted.get("cycles"), omitted.get("only")
    if cycles is not None and not (isinstance(cycles, list) and len(cycles) == 2 and all(type(c) is int for c in cycles)):
        context.report("schema", "filter.cycles: Expected two cycles, the first and the one after the last")
    if only is not None and not (isinstance(only, list) and all(isinstance(pattern, str) for pattern in only)):
        context.report("schema", "filter.only: Expected a list of patterns")
