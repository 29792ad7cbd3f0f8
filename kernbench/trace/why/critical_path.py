"""Computes the critical path: starting at the last end of a run, it follows each command back to the event that it waited for,
down to cycle 0.

Each stretch of the path has some cycles of one command. The stretches have no gaps or overlaps and cover all cycles of the run.
If a job waited for the end or start of another job, the path continues with this other job. The path then has the time of the
other job instead of the wait. The stretch of a control command has no cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernbench.trace.why.causes import Span, until, whole
from kernbench.trace.why.history import CONTROL, KERNEL, Command, Job
from kernbench.trace.why.spans import Stories, last_state, queue_states


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some cycles of the path."""

    command: Command | None  #: None: no command was in flight
    after: str  #: how the command depends on the earlier stretch
    start: int
    end: int
    spans: tuple[Span, ...]  #: without gaps, from `start` to `end`


Next = tuple[Command | None, Job | None, bool]  #: a command, one of its jobs, and whether the path continues at the job's start


class UnlawfulError(Exception):
    """The waits of a trace contradict each other, so the trace cannot come from a run."""


def critical_path(stories: Stories) -> list[Stretch]:
    """The stretches from cycle 0 to the end of the run. UnlawfulError if the waits of the trace form a cycle."""
    path = _Walk(stories)
    path.go()
    return path.found[::-1]


class _Walk:
    """The walk back in time; `at` falls from the end of the run to 0."""

    def __init__(self, stories: Stories) -> None:
        self.stories = stories
        self.history = stories.history
        self.at = self.history.cycles
        self.found: list[Stretch] = []
        self._stores: set[int] = set()  # jobs that the path reached at their start; the path may do so only once for each job

    def go(self) -> None:
        """Walk from the end of the run to cycle 0."""
        command = self._last()
        job: Job | None = None  # a job of `command`; None for its last job
        started = False  # whether the path continues at the job's start instead of its end
        while command is not None:
            if len(self.found) > 2 * (len(self.history.commands) + len(self.history.jobs)):
                raise UnlawfulError(f"the dependencies of command {command.id} form a cycle")
            if command.opcode in CONTROL:
                command, job, started = self._control(command)
            else:
                command, job, started = self._job(command, job or command.job, started)
        if self.at > 0:
            self._add(None, "start", 0, (whole(0, self.at, "idle", "control"),))

    def _add(self, command: Command | None, after: str, start: int, spans: Sequence[Span]) -> None:
        if (spans[0].start if spans else self.at, spans[-1].end if spans else start) != (start, self.at):
            raise UnlawfulError(f"command {command.id if command is not None else 0} is in flight before it is ready")
        self.found.append(Stretch(command, after, start, self.at, tuple(spans)))
        self.at = start

    def _last(self) -> Command | None:
        """The command that ends last; in a run that was cut off, the command that has run longest at the end."""
        commands, cycles = [c for c in self.history.commands if c.opcode != KERNEL], self.history.cycles
        ended = max((c for c in commands if c.end is not None), key=lambda c: (c.end, c.place), default=None)
        if ended is not None and ended.end == cycles:
            return ended
        running = [c for c in commands if c.job is not None and c.job.started and not c.job.ended]
        if running:
            return min(running, key=lambda c: (c.job.start if c.job is not None else 0, c.place))
        if ended is None or ended.end is None:
            return None
        if ended.end < cycles:
            self._add(None, "idle", ended.end, (whole(ended.end, cycles, "idle", "control"),))
        return ended

    def _control(self, command: Command) -> Next:
        return self._from_queue(command, [])

    def _before(self, command: Command) -> tuple[Command | None, str]:
        """The event that made a command ready."""
        before = self.stories.why_ready(command)
        if before is None:
            return None, "start"
        return before, "barrier" if before is command.gate else "dependency"

    def _job(self, command: Command, job: Job | None, started: bool) -> Next:
        """Walk back from the end of a job, or from its start only, to the event that let the job start."""
        if job is None:
            raise UnlawfulError(f"command {command.id} ends without a job")
        spans = [] if started else until(self.at, self.stories.run_spans(job))
        freed = self._freed(job)
        if freed is not None:
            if freed.at < job.start:
                spans.insert(0, whole(freed.at, job.start, freed.gap, command.unit))
            self._add(command, freed.after, freed.at, spans)
            return freed.by.command, freed.by, freed.after == "kv_order"
        if job.issue < job.start:
            states = queue_states(self.history, job)
            spans[:0] = [whole(state.start, state.end, state.cause, command.unit) for state in states]
        return self._from_queue(command, spans, job.issue)

    def _from_queue(self, command: Command, spans: list[Span], issue: int | None = None) -> Next:
        """Go back from the issue of a command to the event that allowed it: the end of its last dependency, or the write by
        the host."""
        issue = self.at if issue is None else issue
        ready = self.stories.ready(command)
        ready = issue if ready is None else ready
        before, after = self._before(command)
        if ready < command.arrival <= issue:
            _, before = self.history.interrupted(command)
            ready, after = (0, "start") if before is None else (before.end or 0, "interrupt")
        spans[:0] = self.stories.until_issue(command, ready, issue)
        self._add(command, after, ready, spans)
        return before, None, False

    def _freed(self, job: Job) -> _Freed | None:
        """The job of the same engine that had to end or start before this job could start; None if the job waited for no other
        job."""
        last = last_state(self.history, job)
        if last is None:
            return None
        if last.cause == "kv_order":
            for other in last.by:
                if other.start == last.end and other.number not in self._stores:
                    self._stores.add(other.number)
                    return _Freed(other, last.end, "kv_order", "period")
        if self.history.overlaps(job) and last.cause == "queue":
            return _Freed(last.by[0], last.end, "engine", "period")
        for some in (last.by, self.history.on[job.command.unit].around(last.start, last.end)):
            ended = [other for other in some if other.end == last.end and other.ended]
            if ended:
                return _Freed(ended[0], last.end, "engine" if last.cause == "queue" else "slot", "period")
        return None


@dataclass(frozen=True, slots=True)
class _Freed:
    """The event that allowed a job to start."""

    by: Job
    at: int  #: when
    after: str  #: as in `Stretch`
    gap: str  #: cause of the cycles between this event and the start of the job
