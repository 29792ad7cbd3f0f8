"""The activity of the engine over time, in a bounded number of intervals of equal length."""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.workloads.serving.scheduler import StepBatch, Tokens

LIMIT = 1024  #: limit of the intervals; above it, pairs of neighbours are merged
_FIRST_NS = 10_000_000  #: [ns] initial length of an interval


@dataclass(slots=True)
class Interval:
    """Sums over an interval. Fields in `ns` are times, and the others are counts; a field `*_ns` of a number is its integral
    over time."""

    busy_ns: int = 0
    running_ns: int = 0
    waiting_ns: int = 0
    kv_ns: int = 0
    prefill_ns: int = 0  #: of steps with prefill
    steps: int = 0
    prefill_steps: int = 0  #: steps with prefill
    prefill_tokens: int = 0
    chunks: int = 0  #: prefills of all steps, whole or in chunks
    chunk_context: int = 0  #: [token] sum of the earlier tokens of these prefills
    decodes: int = 0  #: decodes of all steps
    decode_context: int = 0  #: [token] sum of the earlier tokens of these decodes
    prefill_decodes: int = 0  #: the same of steps with prefill
    prefill_decode_context: int = 0
    drafts: int = 0  #: [token] drafts that decodes verify in addition to their own tokens
    prefill_drafts: int = 0  #: the same of steps with prefill
    tokens: int = 0
    preempted: int = 0
    arrived: int = 0
    ended: int = 0
    energy_pj: float = 0.0

    def take(self, other: Interval) -> None:
        """Add the sums of another interval."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Timeline:
    """Intervals from time 0 on."""

    def __init__(self) -> None:
        self.length_ns = _FIRST_NS
        self.intervals: list[Interval] = []

    def step(self, batch: StepBatch, tokens: Tokens, start_ns: int, took: int, energy_pj: float = 0.0) -> None:
        """A step has ended. `took`: [ns] its time, divided by the number of steps that can be in progress."""
        now = self.at(start_ns)
        now.steps += 1
        now.busy_ns += took
        now.decodes += batch.decodes
        now.decode_context += batch.decode_context
        now.drafts += batch.drafts
        if batch.chunks:
            now.prefill_ns += took
            now.prefill_steps += 1
            now.prefill_decodes += batch.decodes
            now.prefill_decode_context += batch.decode_context
            now.prefill_drafts += batch.drafts
            now.chunks += len(batch.chunks)
            now.prefill_tokens += batch.prefill_tokens
            now.chunk_context += sum(before for _, _, before in batch.chunks)
        now.tokens += len(tokens.first) + tokens.continued + len(tokens.gaps_ns) + tokens.further
        now.energy_pj += energy_pj
        now.preempted += len(batch.preempted)
        now.running_ns += took * batch.running
        now.waiting_ns += took * batch.waiting
        now.kv_ns += took * batch.kv_blocks

    def at(self, now_ns: int) -> Interval:
        """The interval that contains this time."""
        place = now_ns // self.length_ns
        while place >= LIMIT:
            self.coarsen(2 * self.length_ns)
            place = now_ns // self.length_ns
        while place >= len(self.intervals):
            self.intervals.append(Interval())
        return self.intervals[place]

    def coarsen(self, length_ns: int) -> None:
        """Merge neighbours until an interval has this length; the lengths of different timelines differ by powers of two."""
        while self.length_ns < length_ns:
            halved = self.intervals[::2]
            for one, other in zip(halved, self.intervals[1::2], strict=False):
                one.take(other)
            self.intervals, self.length_ns = halved, 2 * self.length_ns
