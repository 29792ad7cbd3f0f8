"""The time of a command from readiness to end as spans: each span is work or a wait, with what caused the wait.

A DMA engine admits as many transfers as it can in every cycle of its period (docs/model/dma.md, P3). A job stays pending
because of a limit, an earlier transfer that waits for a full queue, or the order of KV stores. The running and pending jobs
show which of these is the reason. Jobs of a channel start in the order of submission, except for the order of KV stores.
Therefore, if a later store starts before a pending store, the order of KV stores held the pending store back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from kernbench.config.schema import DMA_ARBITERS
from kernbench.trace.why.causes import CauseShare, Span, until, whole
from kernbench.trace.why.history import CONTROL, Command, Flow, History, Hold, Job, WriteBack
from kernbench.trace.why.shares import Share, Shares
from kernbench_core.numbers import COMM_CHANNEL

STORE = "KV_STORE_TILE"


@dataclass(frozen=True, slots=True)
class State:
    """A span in which a job is pending for one reason."""

    start: int
    end: int
    cause: str
    by: tuple[Job, ...]


def queue_spans(history: History, job: Job, begin: int = 0) -> list[Span]:
    """The cycles from issue, or from the later cycle `begin`, to start. If the trace names the reason of a stall, this reason
    holds up to the start.
    """
    spans: list[Span] = []
    since, reason, by = job.stall if job.stall is not None else (job.start, "", None)
    for state in queue_states(history, job, begin):
        if state.start < since:
            blockers = tuple(other.command.id for other in state.by)
            spans.append(whole(state.start, min(state.end, since), state.cause, job.command.unit, blockers))
    if since < job.start:
        spans.append(whole(since, job.start, reason, job.command.unit, history.command_of(by)))
    return spans


def last_state(history: History, job: Job) -> State | None:
    """The last state whose cause is not `period`, or None."""
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
    """The reasons why a job is pending from its issue, or a later admission, to its start, without gap or overlap."""
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
    return _joined(_in_line(cuts, around, history.overlaps(job)) if dma is None else dma.states(cuts, around))


def _in_line(cuts: Sequence[int], around: Sequence[Job], overlaps: bool) -> list[State]:
    """A TE or VE: one job at a time, in order; if jobs overlap, only the last one that started holds the array."""
    states = []
    for a, b in pairwise(cuts):
        running = tuple(other for other in around if other.start <= a < other.end)
        if overlaps:
            running = running[-1:]
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
    """The queue of a DMA engine, as a pending transfer sees it."""

    def __init__(self, history: History, job: Job, begin: int) -> None:
        self.job = job
        self.limits = history.dma
        self.channels = tuple(self.limits.channels)
        self.comm = history.comm
        self.line = history.on[job.command.unit]
        self.overtakers = [other for other in self.line.starting(begin, job.start) if self._overtakes(other)]
        self.can_fill = any(self.limits.queue_depth_per_master < c.max_concurrent for c in self.channels)

    def states(self, cuts: Sequence[int], around: Sequence[Job]) -> list[State]:
        """No job starts or ends between two cuts."""
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
            # no admission before the tick: the reason at the last admission still holds, or else the clock is the reason
            if a < tick:
                states.append(State(a, tick, *self._between_ticks(states, active)))
            if tick < b:
                states.append(State(tick, b, *self._passed_over(tick, active)))
        return states

    def _beside(self, other: Job) -> bool:
        """Transfers of queues between PEs have their own limit, and do not count towards other limits."""
        return (other.channel == COMM_CHANNEL) == (self.job.channel == COMM_CHANNEL)

    def _overtakes(self, other: Job) -> bool:
        """Whether another store had to start before this store, although it was submitted later, because it is of an earlier
        token.

        The trace does not name the cache of a store. A store of the same head at a higher address does not have to start
        earlier. Aligned addresses of different tokens can be equal.
        """
        mine, theirs = self.job.command, other.command
        if (mine.opcode, mine.head_id) != (STORE, theirs.head_id) or theirs.opcode != STORE:
            return False
        if other.number < self.job.number:
            return False
        return not self.job.started or (other.turn < self.job.turn and other.address <= self.job.address)

    @staticmethod
    def _between_ticks(states: Sequence[State], active: Sequence[Job]) -> tuple[str, tuple[Job, ...]]:
        """The reason why the job is still pending after the last admission, or else the clock."""
        if states and states[-1].cause == "head_of_line" and all(other in active for other in states[-1].by):
            return states[-1].cause, states[-1].by
        return "period", ()

    def _limit(self, channel: int | None, active: Sequence[Job]) -> tuple[Job, ...]:
        """The transfers that fill the channel or, if the channel is not full, the engine."""
        of_channel = tuple(other for other in active if other.channel == channel)
        if channel == COMM_CHANNEL:
            return of_channel if len(of_channel) >= self.comm else ()
        if channel is not None and len(of_channel) >= self.channels[channel].max_concurrent:
            return of_channel
        return tuple(active) if len(active) >= self.limits.max_concurrent_transfers else ()

    def _passed_over(self, cycle: int, active: Sequence[Job]) -> tuple[str, tuple[Job, ...]]:
        """The reason why the job is pending after the admission of `cycle`, although none of its own limits is reached."""
        full = self._before_it_full(cycle, active) if self.can_fill and self.job.channel != COMM_CHANNEL else ()
        if full:
            return "head_of_line", full
        return "queue", tuple(active)  # this does not occur in traces of this model

    def _before_it_full(self, cycle: int, active: Sequence[Job]) -> tuple[Job, ...]:
        """The outstanding transfers of a full queue, if a pending transfer for this queue is this job or comes before it. With
        an arbiter that does not look at scores, any pending transfer may come before it."""
        mine = self._turn(self.job)
        by_score = self.limits.arbiter == DMA_ARBITERS[0]
        for channel in range(len(self.channels)):
            of_channel = tuple(one for one in active if one.channel == channel)
            if len(of_channel) < self.limits.queue_depth_per_master or self._limit(channel, active):
                continue
            waiting = (other for other in self.line.pending(cycle) if other.channel == channel)
            if any(not by_score or self._turn(other) <= mine for other in waiting):
                return of_channel
        return ()

    def _turn(self, job: Job) -> tuple[int, int]:
        bonus = self.limits.kv_load_bonus if job.channel == 1 else 0
        return (-self.channels[job.channel or 0].priority - bonus, job.number)


class Stories:
    """The spans of any command of a run."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.shares = Shares(history)
        self._last_before: list[int | None] = []  # by position: the largest end of all earlier commands, for END
        reached: int | None = 0
        for command in history.commands:
            self._last_before.append(reached)
            reached = None if reached is None or command.end is None else max(reached, command.end)

    def ready(self, command: Command) -> int | None:
        """The cycle in which all its dependencies are complete, or None."""
        by_id = self.history.by_id
        ends: list[int | None] = [by_id[dep].end for dep in command.deps if dep in by_id]
        if self.history.mmio is not None and len(ends) < len(command.deps):
            return None  # the host has not written the dependencies
        if command.gate is not None:
            ends.append(command.gate.end)
        if command.opcode == "END":
            ends.append(self._last_before[command.place])
        known = [end for end in ends if end is not None]
        return max([0, *known]) if len(known) == len(ends) else None

    def why_ready(self, command: Command) -> Command | None:
        """The command whose end made it ready; None if it was ready from the beginning."""
        ready = self.ready(command)
        if not ready:
            return None
        before = [self.history.by_id[dep] for dep in command.deps if dep in self.history.by_id]
        before += [command.gate] if command.gate is not None else []
        before += self.history.commands[: command.place] if command.opcode == "END" else []
        last = [other for other in before if other.end == ready]
        jobs = [other for other in last if other.opcode not in CONTROL]
        return max(jobs or last, key=lambda other: other.place, default=None)

    def spans(self, command: Command) -> list[Span]:
        """The spans from readiness to end; for a command that has not ended, to the end of the run."""
        ready = self.ready(command)
        if ready is None or command.opcode in CONTROL:
            return []
        issue = command.jobs[0].issue if command.jobs else self.history.cycles
        spans, at = self.until_issue(command, ready, issue), issue
        for job in command.jobs:
            if job.start < at:  # the previous job of the command has left the array and drains
                spans, at = until(job.start, spans), job.start
            if at < job.issue:  # the issue width delays the command
                spans.append(self.history.until_issue(command, at, job.issue))
            spans += queue_spans(self.history, job, at)
            spans += self.run_spans(job)
            at = job.end
        return spans

    def until_issue(self, command: Command, ready: int, issue: int) -> list[Span]:
        """The spans from a cycle in which all dependencies are complete to the issue. The first span lasts until the host has
        written the command, or until the message that the command waited for can be used.
        """
        spans = self.history.until_arrival(command, ready)
        here = max(ready, command.arrival)
        seen = min(command.visible, issue)
        if here < seen:
            spans.append(whole(here, seen, "flag", command.unit))
            here = seen
        return [*spans, self.history.until_issue(command, here, issue)] if here < issue else spans

    def run_spans(self, job: Job) -> list[Span]:
        """The spans from start to end."""
        if self.history.component.get(job.command.unit) == "DMA":
            return list(self._transfer(job))
        return list(self._service(job))

    def _pad(self, unit: str) -> str:
        """The scratchpad of an engine; for an engine without a scratchpad, the engine itself."""
        return self.history.scratchpad.get(unit, unit)

    def _service(self, job: Job) -> Iterator[Span]:
        """A TE or VE job: work, except for the cycles in which a request is denied until it is served."""
        at, unit = job.start, job.command.unit
        for hold in job.holds:
            if at < hold.since:
                yield whole(at, hold.since, "work", unit)
            if hold.since < hold.until:
                yield whole(hold.since, hold.until, "bank", self._pad(unit), self.history.command_of(hold.by), hold.bank)
            at = hold.until
        if at < job.end:
            yield whole(at, job.end, "work", unit)

    def _transfer(self, job: Job) -> Iterator[Span]:
        """A transfer: its head latency, then the flow that ends last."""
        joined = min(job.start + job.head, job.end)
        if job.start < joined:
            yield whole(job.start, joined, "head", job.command.unit)
        flow = last_flow(job)
        if flow is not None:
            yield from self._flow(flow)
        elif joined < job.end:  # the flows are not in the file
            yield whole(joined, job.end, "transfer", job.command.unit)

    def _flow(self, flow: Flow) -> Iterator[Span]:
        full, unit = self.shares.full_rate(flow)
        pad = self._pad(flow.job.command.unit)
        left = flow.size / full  # [cycle] remaining time at the full rate
        for start, end, hold, reason in pieces(flow):
            if hold is not None:
                cause = "backpressure" if reason == "backpressure" else "bank"
                yield whole(start, end, cause, hold.scratchpad or pad, self.history.command_of(hold.by), hold.bank)
            elif reason == "flits":
                parts = _over_routers(flow, Fraction(end - start))
                yield Span(start, end, parts)
            elif reason:
                yield from self._in_line(flow, start, end)
            else:
                for share in self.shares.of(flow, start, end):
                    parts, left = _parted(flow, share, full, unit, left, pad)
                    yield Span(share.start, share.end, parts)

    def _in_line(self, flow: Flow, start: int, end: int) -> Iterator[Span]:
        """Under `fifo_v1`, the cycles in which another flow has the channel. If none has it on a machine with routers, the flow
        would have it, but its window is full."""
        for a, b, holders in self.shares.holders(flow, start, end):
            if not holders and flow.congested is not None:
                yield Span(a, b, _over_routers(flow, Fraction(b - a)))
                continue
            by = tuple(other.job.command.id for other in holders if isinstance(other, Flow))
            cause = "write_back" if any(isinstance(other, WriteBack) for other in holders) else "share"
            yield whole(a, b, cause, flow.route[0], by)


def last_flow(job: Job) -> Flow | None:
    """The flow that ends last. If several flows end last, jobs choose among them in turn, so that equal channels get equal
    shares of the blame.
    """
    end = max((flow.until for flow in job.flows.values()), default=0)
    last = sorted((flow for flow in job.flows.values() if flow.until == end), key=lambda flow: flow.channel)
    return last[job.number % len(last)] if last else None


def pieces(flow: Flow) -> Iterator[tuple[int, int, Hold | None, str]]:
    """The time of the flow, divided at holds and suspensions into (start, end, hold, reason of the suspension).

    A flow gets its share in the cycle of a denial, but not in the cycle of the service. Therefore each hold is one cycle later
    than its events.
    """
    held = [(min(hold.since + 1, flow.until), min(hold.until + 1, flow.until), hold) for hold in flow.holds]
    marks = {flow.since, flow.until}
    marks.update(mark for start, end, _ in held for mark in (start, end))
    marks.update(min(mark, flow.until) for out in flow.outs for mark in (out.since, out.until))
    cuts = sorted(marks)
    holds, outs = 0, 0  # the number of holds and suspensions that are over
    for a, b in pairwise(cuts):
        while holds < len(held) and held[holds][1] <= a:
            holds += 1
        while outs < len(flow.outs) and flow.outs[outs].until <= a:
            outs += 1
        hold = held[holds][2] if holds < len(held) and held[holds][0] <= a else None
        out = flow.outs[outs] if outs < len(flow.outs) and flow.outs[outs].since <= a else None
        yield a, b, hold, "" if out is None else out.reason


def _over_routers(flow: Flow, cycles: Fraction) -> tuple[CauseShare, ...]:
    """The cycles that bytes take through routers, divided in the same proportions as the time of the packets."""
    waited = cycles * (flow.congested or 0)
    unit = flow.job.command.unit
    parts = CauseShare("hops", unit, cycles - waited), CauseShare("congestion", unit, waited)
    return tuple(part for part in parts if part.cycles)


def _parted(
    flow: Flow, share: Share, full: Fraction, unit: str, left: Fraction, pad: str
) -> tuple[tuple[CauseShare, ...], Fraction]:
    """The parts of some cycles at one rate, and the remaining time at the full rate after these cycles."""
    cycles = share.end - share.start
    used = cycles * share.rate / full
    moved = min(used, left)
    rest = (CauseShare("granularity", pad, used - moved),) if flow.congested is None else _over_routers(flow, used - moved)
    parts = [CauseShare("transfer", unit, moved), *rest, *_lost(share, cycles - used)]
    return tuple(part for part in parts if part.cycles), left - moved


def _lost(share: Share, cycles: Fraction) -> Iterator[CauseShare]:
    """The cycles lost to other flows, by command, and the cycles lost to write-backs of a cache."""
    by: dict[int, int] = {}  # sums of weights: integers add up faster than fractions
    for other, weight in share.others:
        if isinstance(other, WriteBack):
            yield CauseShare("write_back", share.limit, cycles * Fraction(weight, share.weight))
            continue
        command = other.job.command.id
        by[command] = by.get(command, 0) + weight
    # computed once for each weight, because most weights are equal
    taken = {weight: cycles * Fraction(weight, share.weight) for weight in set(by.values())}
    for command, weight in by.items():
        yield CauseShare("share", share.limit, taken[weight], (command,))
