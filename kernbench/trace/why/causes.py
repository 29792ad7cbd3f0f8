"""The table of causes: how each cycle of a job was spent.

`docs/reference/why.md` defines each cause with its formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

#: The description of each cause. The first three causes are work, and all others are waits; `idle` is the only cause without a
#: job.
CAUSES: dict[str, str] = {
    "work": "the engine computes: init, body, finalize, and the cycles between the ticks of its period",
    "transfer": "the bytes of the flow that ends last, alone at the full rate of its route",
    "granularity": "bandwidth beyond those bytes: it moves whole lines, and at most one row of banks a cycle",
    "interrupt": "the interrupt of a dependency is on its way to the host",
    "enqueue": "the host writes other entries, or the entry is on its way into the command queue",
    "issue": "other jobs fill the issue width",
    "ipcq": "PE_IPCQ: its own cycles, the order of its queue, a credit on its way back",
    "flag": "the bytes of a message are in its slot, and its flag is on its way to the receiver",
    "queue": "its engine runs another job; of a transfer only where the run ends before it starts",
    "concurrency": "its DMA channel or engine runs as many transfers as it may",
    "queue_full": "its DMA channel has as many outstanding transfers as its queue is deep",
    "head_of_line": "a transfer that waits for a full queue stands before it",
    "priority_deferred": "a transfer that was submitted later started before it",
    "kv_order": "a KV store of the same head and an earlier token is still pending",
    "period": "its engine starts jobs in multiples of its period",
    "head": "head latency: set-up of the DRAM and hops of the route",
    "hops": "packets on their way through routers, with nothing in the way",
    "congestion": "packets that wait in routers for a buffer, a channel or another packet",
    "share": "a channel or link is shared with other flows",
    "write_back": "a channel or cache is shared with what the cache writes back to DRAM",
    "bank": "a scratchpad bank denied its request",
    "backpressure": "held by a bank for so long that it left its channel and links",
    "idle": "no command is in flight",
}
WORK = ("work", "transfer", "granularity")


@dataclass(frozen=True, slots=True)
class CauseShare:
    """The cycles of one cause. The number may be a fraction, because a shared channel gives a flow only a part of every
    cycle."""

    cause: str
    resource: str  #: the unit to which the cause belongs: engine, channel, link, scratchpad or control
    cycles: Fraction
    by: tuple[int, ...] = ()  #: ids of the commands that caused the wait
    bank: int | None = None  #: the bank of a bank conflict


@dataclass(frozen=True, slots=True)
class Span:
    """Some cycles of a command: the parts add up to `end - start`."""

    start: int
    end: int
    parts: tuple[CauseShare, ...]

    @property
    def cycles(self) -> int:
        """The length of the span."""
        return self.end - self.start

    def upto(self, end: int) -> Span:
        """The span without the cycles from `end` on."""
        kept = Fraction(end - self.start, self.cycles)
        return Span(self.start, end, tuple(replace(part, cycles=part.cycles * kept) for part in self.parts))


def whole(start: int, end: int, cause: str, resource: str, by: tuple[int, ...] = (), bank: int | None = None) -> Span:
    """A span that has only one cause."""
    return Span(start, end, (CauseShare(cause, resource, Fraction(end - start), by, bank),))


def until(end: int, spans: Sequence[Span]) -> list[Span]:
    """The spans up to a cycle. A job that drains after it has left an array has more, beside the next job."""
    return [span if span.end <= end else span.upto(end) for span in spans if span.start < end]


def totals(spans: Iterable[Span]) -> dict[tuple[str, str], Fraction]:
    """Cycles by cause and resource, the causes in the order of the table."""
    found: dict[tuple[str, str], Fraction] = {}
    for span in spans:
        for part in span.parts:
            key = (part.cause, part.resource)
            found[key] = found.get(key, Fraction(0)) + part.cycles
    order = list(CAUSES)
    return {key: found[key] for key in sorted(found, key=lambda key: (order.index(key[0]), key[1]))}
