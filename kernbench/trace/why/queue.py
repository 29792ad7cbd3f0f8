"""Why a job that was issued has not started yet: cycle by cycle, from the jobs of its engine and the machine's limits.

A DMA engine admits what it can in every cycle of its period (docs/model/dma.md, P3). So a job that is still pending after
that is kept by a limit that is reached, by a transfer before it that waits for a full queue, or by the order of KV
stores; which of them, follows from who runs and who is pending. Jobs of a channel start in the order in which they were
submitted but for the order of KV stores: so a store that a later one overtakes was kept by that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernbench.trace.why.history import History, Job
from kernbench.trace.why.parts import Span, whole
from kernbench_core.numbers import COMM_CHANNEL

STORE = "KV_STORE_TILE"


@dataclass(frozen=True, slots=True)
class State:
    """Some cycles in which a pending job is kept by the same thing."""

    start: int
    end: int
    cause: str
    by: tuple[Job, ...]


def queue_spans(history: History, job: Job) -> list[Span]:
    """The cycles from issue to start. A stall that the trace names keeps its reason up to the start."""
    spans: list[Span] = []
    since, reason, by = job.stall if job.stall is not None else (job.start, "", None)
    for state in queue_states(history, job):
        if state.start < since:
            blockers = tuple(other.command.id for other in state.by)
            spans.append(whole(state.start, min(state.end, since), state.cause, job.command.unit, blockers))
    if since < job.start:
        spans.append(whole(since, job.start, reason, job.command.unit, history.command_of(by)))
    return spans


def last_state(history: History, job: Job) -> State | None:
    """The last state but for `period`, without a look at those before it; None where there is none."""
    period = history.dma.period
    width = period
    while True:
        since = max(job.issue, (job.start - width) // period * period)
        for state in reversed(queue_states(history, job, since)):
            if state.cause != "period":
                return state
        if since == job.issue:
            return None
        width *= 8


def queue_states(history: History, job: Job, since: int = 0) -> list[State]:
    """What keeps a job from its issue, or from a later admission, to its start, without gap or overlap."""
    begin = max(since, job.issue)
    if begin >= job.start:
        return []
    line = history.on[job.command.unit]
    around = [other for other in line.around(begin, job.start) if other is not job][::-1]
    dma = _DmaQueue(history, job, begin) if history.component.get(job.command.unit) == "DMA" else None
    marks = {begin, job.start}
    ends = [mark for other in around for mark in (other.start, other.end)]
    ends += [other.issue for other in dma.overtakers] if dma is not None else []
    marks.update(mark for mark in ends if begin < mark < job.start)
    cuts = sorted(marks)
    return _joined(_in_line(cuts, around) if dma is None else dma.states(cuts, around))


def _in_line(cuts: Sequence[int], around: Sequence[Job]) -> list[State]:
    """A TE or VE: one job at a time, in order."""
    states = []
    for a, b in pairwise(cuts):
        running = tuple(other for other in around if other.start <= a < other.end)
        states.append(State(a, b, "queue" if running else "period", running))
    return states


def _joined(states: Sequence[State]) -> list[State]:
    joined: list[State] = []
    for state in states:
        if joined and (joined[-1].cause, joined[-1].by) == (state.cause, state.by):
            joined[-1] = State(joined[-1].start, state.end, state.cause, state.by)
        else:
            joined.append(state)
    return joined


class _DmaQueue:
    """A pending transfer among the jobs of its engine."""

    def __init__(self, history: History, job: Job, begin: int) -> None:
        self.job = job
        self.limits = history.dma
        self.channels = tuple(self.limits.channels)
        self.comm = history.comm
        self.line = history.on[job.command.unit]
        self.overtakers = [other for other in self.line.starting(begin, job.start) if self._overtakes(other)]
        self.can_fill = any(self.limits.queue_depth_per_master < c.max_concurrent for c in self.channels)

    def states(self, cuts: Sequence[int], around: Sequence[Job]) -> list[State]:
        """Between two cuts nobody starts or ends."""
        states: list[State] = []
        for a, b in pairwise(cuts):
            active = tuple(other for other in around if other.start <= a < other.end and self._beside(other))
            earlier = [other for other in self.overtakers if other.issue <= a < other.start]
            if earlier:
                states.append(State(a, b, "kv_order", (max(earlier, key=lambda other: (other.start, other.number)),)))
                continue
            if self.job.channel is None:
                states.append(State(a, b, "queue", active))
                continue
            full = self._limit(self.job.channel, active)
            if full:
                states.append(State(a, b, "concurrency", full))
                continue
            tick = min(b, -(-a // self.limits.period) * self.limits.period)
            if a < tick:  # no admission before the tick: what kept it at the last one, else the clock
                states.append(State(a, tick, *self._between_ticks(states, active)))
            if tick < b:
                states.append(State(tick, b, *self._passed_over(tick, active)))
        return states

    def _beside(self, other: Job) -> bool:
        """Transfers of queues between PEs have a limit of their own, and count for no other."""
        return (other.channel == COMM_CHANNEL) == (self.job.channel == COMM_CHANNEL)

    def _overtakes(self, other: Job) -> bool:
        """Whether another store had to start before this one, although it was submitted later: an earlier token's.

        The trace does not say which cache a store is for; one of the same head at a higher address is not before it.
        """
        mine, theirs = self.job.command, other.command
        if (mine.opcode, mine.head_id) != (STORE, theirs.head_id) or theirs.opcode != STORE:
            return False
        return other.number > self.job.number and (not self.job.started or other.address <= self.job.address)

    @staticmethod
    def _between_ticks(states: Sequence[State], active: Sequence[Job]) -> tuple[str, tuple[Job, ...]]:
        """What still keeps it from the last admission on, or else the clock."""
        if states and states[-1].cause == "head_of_line" and all(other in active for other in states[-1].by):
            return states[-1].cause, states[-1].by
        return "period", ()

    def _limit(self, channel: int | None, active: Sequence[Job]) -> tuple[Job, ...]:
        """The transfers that fill the channel, else those that fill the engine."""
        of_channel = tuple(other for other in active if other.channel == channel)
        if channel == COMM_CHANNEL:
            return of_channel if len(of_channel) >= self.comm else ()
        if channel is not None and len(of_channel) >= self.channels[channel].max_concurrent:
            return of_channel
        return tuple(active) if len(active) >= self.limits.max_concurrent_transfers else ()

    def _passed_over(self, cycle: int, active: Sequence[Job]) -> tuple[str, tuple[Job, ...]]:
        """Why it is pending after the admission of `cycle`, although no limit of its own is reached."""
        full = self._before_it_full(cycle, active) if self.can_fill and self.job.channel != COMM_CHANNEL else ()
        if full:
            return "head_of_line", full
        return "queue", tuple(active)  # no trace of this model has this

    def _before_it_full(self, cycle: int, active: Sequence[Job]) -> tuple[Job, ...]:
        """The outstanding transfers of a full queue, where a pending transfer of it has its turn before this job or is it."""
        mine = self._turn(self.job)
        for channel in range(len(self.channels)):
            of_channel = tuple(one for one in active if one.channel == channel)
            if len(of_channel) < self.limits.queue_depth_per_master or self._limit(channel, active):
                continue
            if any(other.channel == channel and self._turn(other) <= mine for other in self.line.pending(cycle)):
                return of_channel
        return ()

    def _turn(self, job: Job) -> tuple[int, int]:
        bonus = self.limits.kv_load_bonus if job.channel == 1 else 0
        return (-self.channels[job.channel or 0].priority - bonus, job.number)
