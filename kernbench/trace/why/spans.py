"""A command's time from its readiness to its end, span by span: work or a wait in each, with what was in the way."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from kernbench.trace.why.history import CONTROL, Command, Flow, History, Hold, Job
from kernbench.trace.why.parts import Part, Span, whole
from kernbench.trace.why.queue import queue_spans
from kernbench.trace.why.shares import Share, Shares


class Stories:
    """The spans of any command of a run."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.shares = Shares(history)
        self._last_before: list[int | None] = []  # END: the largest end of all commands before a place
        reached: int | None = 0
        for command in history.commands:
            self._last_before.append(reached)
            reached = None if reached is None or command.end is None else max(reached, command.end)

    def ready(self, command: Command) -> int | None:
        """When everything that it waits for is over; None where that has not come."""
        ends: list[int | None] = [self.history.by_id[dep].end for dep in command.deps if dep in self.history.by_id]
        if command.gate is not None:
            ends.append(command.gate.end)
        if command.opcode == "END":
            ends.append(self._last_before[command.place])
        known = [end for end in ends if end is not None]
        return max([0, *known]) if len(known) == len(ends) else None

    def why_ready(self, command: Command) -> Command | None:
        """The command whose end made it ready; None where it was so from the beginning."""
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
        """From readiness to end; of one that is open, to the end of the run."""
        ready = self.ready(command)
        if ready is None or command.opcode in CONTROL:
            return []
        job = command.job
        issue = self.history.cycles if job is None else job.issue
        spans = [self.history.until_issue(command, ready, issue)] if ready < issue else []
        if job is not None:
            spans += queue_spans(self.history, job)
            spans += self.run_spans(job)
        return spans

    def run_spans(self, job: Job) -> list[Span]:
        """From start to end."""
        if self.history.component.get(job.command.unit) == "DMA":
            return list(self._transfer(job))
        return list(self._service(job))

    def _pad(self, unit: str) -> str:
        """The scratchpad of an engine; one that has none is named itself."""
        return self.history.scratchpad.get(unit, unit)

    def _service(self, job: Job) -> Iterator[Span]:
        """A TE or VE: work, but for the cycles from a denial to the service."""
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
        """A transfer: head latency, then the flow that ends last."""
        joined = min(job.start + job.head, job.end)
        if job.start < joined:
            yield whole(job.start, joined, "head", job.command.unit)
        flow = last_flow(job)
        if flow is not None:
            yield from self._flow(flow)
        elif joined < job.end:  # its flows are not in the file
            yield whole(joined, job.end, "transfer", job.command.unit)

    def _flow(self, flow: Flow) -> Iterator[Span]:
        full, unit = self.shares.full_rate(flow)
        pad = self._pad(flow.job.command.unit)
        left = flow.size / full  # [cycle] at the full rate
        for start, end, hold, reason in pieces(flow):
            if hold is not None:
                cause = "backpressure" if reason == "backpressure" else "bank"
                yield whole(start, end, cause, hold.scratchpad or pad, self.history.command_of(hold.by), hold.bank)
            elif reason:
                yield from self._in_line(flow, start, end)
            else:
                for share in self.shares.of(flow, start, end):
                    parts, left = _parted(share, full, unit, left, pad)
                    yield Span(share.start, share.end, parts)

    def _in_line(self, flow: Flow, start: int, end: int) -> Iterator[Span]:
        """`fifo_v1`: the channel is another's."""
        for a, b, holders in self.shares.holders(flow, start, end):
            by = tuple(other.job.command.id for other in holders)
            yield whole(a, b, "share", flow.route[0], by)


def last_flow(job: Job) -> Flow | None:
    """The flow that ends last. Where several do, jobs take them in turn, so that no channel looks worse than its like."""
    end = max((flow.until for flow in job.flows.values()), default=0)
    last = sorted((flow for flow in job.flows.values() if flow.until == end), key=lambda flow: flow.channel)
    return last[job.number % len(last)] if last else None


def pieces(flow: Flow) -> Iterator[tuple[int, int, Hold | None, str]]:
    """The flow's time cut where it is held or out: start, end, the hold, why it is out.

    A flow takes its share in the cycle of the denial, and none in that of the service: so a hold stands one cycle later
    than its events.
    """
    held = [(min(hold.since + 1, flow.until), min(hold.until + 1, flow.until), hold) for hold in flow.holds]
    marks = {flow.since, flow.until}
    marks.update(mark for start, end, _ in held for mark in (start, end))
    marks.update(min(mark, flow.until) for out in flow.outs for mark in (out.since, out.until))
    cuts = sorted(marks)
    holds, outs = 0, 0  # those that are over
    for a, b in pairwise(cuts):
        while holds < len(held) and held[holds][1] <= a:
            holds += 1
        while outs < len(flow.outs) and flow.outs[outs].until <= a:
            outs += 1
        hold = held[holds][2] if holds < len(held) and held[holds][0] <= a else None
        out = flow.outs[outs] if outs < len(flow.outs) and flow.outs[outs].since <= a else None
        yield a, b, hold, "" if out is None else out.reason


def _parted(share: Share, full: Fraction, unit: str, left: Fraction, pad: str) -> tuple[tuple[Part, ...], Fraction]:
    """The parts of some cycles at one rate, and what is left of the time alone after them."""
    cycles = share.end - share.start
    used = cycles * share.rate / full
    moved = min(used, left)
    parts = [
        Part("transfer", unit, moved),
        Part("granularity", pad, used - moved),
        *_lost(share, cycles - used),
    ]
    return tuple(part for part in parts if part.cycles), left - moved


def _lost(share: Share, cycles: Fraction) -> Iterator[Part]:
    """Cycles that the others took, by command."""
    by: dict[int, Fraction] = {}
    for other, part in share.others:
        command = other.job.command.id
        by[command] = by.get(command, Fraction(0)) + cycles * part
    for command, theirs in by.items():
        yield Part("share", share.limit, theirs, (command,))
