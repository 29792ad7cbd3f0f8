"""A debugging session: one run that moves forward and back, with breakpoints, watch expressions and comparisons."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernbench.api.targets import Target
from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import nearest
from kernbench.debug import expression
from kernbench.debug.difference import Difference, first_difference
from kernbench.debug.events import KINDS, Event, Events, events_of
from kernbench.debug.expression import Expression, Value
from kernbench.debug.state import State
from kernbench.debug.subject import Subject, subject_of
from kernbench.debug.timeline import Timeline
from kernbench.debug.waits import Wait, waits_at

if TYPE_CHECKING:
    from kernbench.config.allowed_code import AllowCode

LIMIT = 100  # breakpoints, and watch expressions
LAST_CYCLE = ("granted", "denied")  # fields that describe the last cycle


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Where `run` stops: after a cycle in which an event happens, or in which an expression becomes true."""

    text: str
    condition: Expression | None = None
    event: Callable[[Event], bool] | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """The cycle at which a run or jump stopped, and the reason."""

    cycle: int
    reason: str
    found: bool  #: False: the end of the run (or cycle 0) came first


class Session:
    """A run that can move to any cycle, forward and back.

    `target`: a target of `kbsim run`, or a collective (`all_reduce`, `all_reduce:ring`). `config`: the machine. `settings`:
    values of the machine and parameters of the target, in the form of `--set`. `strict_wait`, `allow_code`: as in
    `GraphEngine`.

    The position of a session is the number of cycles that have run, which is the number of the next cycle.

    >>> from kernbench.debug import Session
    >>> session = Session("vector_add", settings=["n=8192"])
    >>> session.goto(100).cycle, session.back(40).cycle, session.step().cycle
    (100, 60, 61)
    >>> session.next("end").reason
    'DMA_LOAD_TILE 1 ends on dma0'
    """

    def __init__(
        self,
        target: Target | Subject,
        config: Any = None,
        settings: Sequence[str] = (),
        *,
        strict_wait: bool = False,
        allow_code: AllowCode = (),
    ) -> None:
        if isinstance(target, Subject):
            self.subject = target
        else:
            self.subject = subject_of(target, config, settings, strict_wait=strict_wait, allow_code=allow_code)
        self.timeline = Timeline(self.subject)
        self.breakpoints: list[Breakpoint] = []
        self.watches: list[Expression] = []
        self._events: Events | None = None
        self._state: State | None = None
        self._of: tuple[Any, int, bool, str] | None = None

    @property
    def cycle(self) -> int:
        """[cycle] The number of cycles that have run."""
        return self.timeline.cycle

    @property
    def status(self) -> str:
        """running, done, aborted, deadlock or failed."""
        return self.timeline.live.machine.status

    @property
    def state(self) -> State:
        """The state at the present cycle; it is no longer valid after the session has moved."""
        here = (self.timeline.live, self.cycle, self.timeline.before is not None, self.status)
        if self._state is None or self._of != here:
            self._state, self._of = State(self.timeline), here
        return self._state

    @property
    def events(self) -> Events:
        """All events of the run, by cycle. The first call runs it once, with a trace that is not kept."""
        if self._events is None:
            self._events = events_of(self.subject)
        return self._events

    # Movement ----------------------------------------------------------------------------------------------------------

    def goto(self, cycle: int) -> Stop:
        """Go to the state after `cycle` cycles; to the end if the run is shorter. InputError for a negative number."""
        if cycle < 0:
            raise InputError(Problem("goto", "a cycle must be at least 0", "cycle", cycle))
        self.timeline.seek(cycle)
        self.timeline.check_replay()
        reached = self.cycle == cycle
        return Stop(self.cycle, f"cycle {self.cycle:,}" if reached else f"the run ended ({self.status})", reached)

    def step(self, cycles: int = 1) -> Stop:
        """Run this many cycles."""
        return self.goto(self.cycle + cycles)

    def back(self, cycles: int = 1) -> Stop:
        """Go back by this many cycles, at most to cycle 0."""
        return self.goto(max(0, self.cycle - cycles))

    def end(self) -> Stop:
        """Go to the end of the run, past all breakpoints."""
        self.timeline.seek(1 << 62)
        self.timeline.check_replay()
        return Stop(self.cycle, f"the run ended ({self.status})", True)

    def next(self, kind: str, *, back: bool = False) -> Stop:
        """Go to the next event of a kind (`KINDS`), or with `back` to the previous one; stay if there is none."""
        if kind not in KINDS:
            raise InputError(Problem("next", f"it must be one of {', '.join(KINDS)}", "kind", kind, _meant(kind, KINDS)))
        return self._go(lambda event: event.kind == kind, back, kind)

    def start_of(self, job: int) -> Stop:
        """Go to the start of the job of an entry or command, forward or back."""
        return self._job("start", job)

    def end_of(self, job: int) -> Stop:
        """Go to the end of the job of an entry or command, forward or back."""
        return self._job("end", job)

    def line(self, line: str, pe: str = "", *, back: bool = False) -> Stop:
        """Go to the next command that a kernel issues from a source line (`kernel.py:12`), on one PE or on any PE."""
        fits = self._line(line, pe)
        return self._go(fits, back, f"{line}{f' on {pe}' if pe else ''}")

    def _job(self, kind: str, job: int) -> Stop:
        found = self.events.of_job(kind, job)
        if found is None:
            rule = f"no job with this id {kind}s in the run"
            raise InputError(Problem(f"{kind} of a job", rule, "id", job, "to list the entries, use kbsim program show"))
        self.goto(found.cycle)
        return Stop(self.cycle, found.text, True)

    def _line(self, line: str, pe: str) -> Callable[[Event], bool]:
        there = {event.line for event in self.events.all if event.line}
        if line not in there:
            rule = "no command of the run is issued from this line"
            lines = ", ".join(sorted(there)[:8]) or "the run has no kernels"
            raise InputError(Problem("line", rule, "line", line, _meant(line, there) or f"lines: {lines}"))
        pes = {event.pe or event.unit for event in self.events.all if event.line == line}
        if pe and not any(one == pe or one.endswith(f".{pe}") for one in pes):
            raise InputError(
                Problem("line", "no command is issued from this line there", "PE", pe, f"PEs: {', '.join(sorted(pes)[:8])}")
            )

        def fits(event: Event) -> bool:
            at = event.pe or event.unit
            return event.kind == "line" and event.line == line and (not pe or at == pe or at.endswith(f".{pe}"))

        return fits

    def _go(self, fits: Callable[[Event], bool], back: bool, what: str) -> Stop:
        found = self.events.before(self.cycle, fits) if back else self.events.after(self.cycle, fits)
        if found is None:
            return Stop(self.cycle, f"no {'earlier' if back else 'later'} {what}", False)
        self.goto(found.cycle)
        return Stop(self.cycle, found.text, True)

    # Breakpoints -------------------------------------------------------------------------------------------------------

    def break_on(self, text: str) -> Breakpoint:
        """Add a breakpoint: an expression, a kind of event (`conflict`), `start 12`, `end 12` or `line kernel.py:12 [PE]`.

        InputError for any other text, and for a name that the run does not have.
        """
        if len(self.breakpoints) >= LIMIT:
            raise InputError(Problem("break", f"a session may have at most {LIMIT} breakpoints", remedy="delete some"))
        words = text.split()
        event: Callable[[Event], bool] | None = None
        condition = None
        if len(words) == 1 and words[0] in ("conflict", "denied", "stall", "message"):
            kind = words[0]
            event = lambda one: one.kind == kind  # noqa: E731
        elif len(words) == 2 and words[0] in ("start", "end") and words[1].isascii() and words[1].isdigit():
            kind, job = words[0], int(words[1][:18])
            event = lambda one: one.kind == kind and one.cmd == job  # noqa: E731
        elif len(words) in (2, 3) and words[0] == "line":
            event = self._line(words[1], words[2] if len(words) == 3 else "")
        else:
            condition = expression.read(text)
            condition.value(self.state.value)
        self.breakpoints.append(Breakpoint(text.strip(), condition, event))
        return self.breakpoints[-1]

    def delete(self, number: int) -> Breakpoint:
        """Remove a breakpoint by its number, from 1 on."""
        if not 1 <= number <= len(self.breakpoints):
            raise InputError(
                Problem("delete", f"the breakpoints have the numbers 1 to {len(self.breakpoints)}", "number", number)
            )
        return self.breakpoints.pop(number - 1)

    def run(self, progress: Callable[[int], None] | None = None) -> Stop:
        """Run to the next breakpoint, or to the end. `progress`: called with the cycle from time to time."""
        conditions = [one for one in self.breakpoints if one.condition is not None]
        limit, reason = self._next_event()
        if conditions:
            found = self._scan(conditions, limit, progress)
            if found is not None:
                return Stop(self.cycle, f"breakpoint {found.text}", True)
        if limit is None:
            return Stop(self.end().cycle, f"the run ended ({self.status})", False)
        self.goto(limit)
        return Stop(self.cycle, reason, True)

    def _next_event(self) -> tuple[int | None, str]:
        found = [
            (event.cycle, f"breakpoint {one.text}: {event.text}")
            for one in self.breakpoints
            if one.event is not None and (event := self.events.after(self.cycle, one.event)) is not None
        ]
        return min(found) if found else (None, "")

    def _scan(
        self, conditions: Sequence[Breakpoint], limit: int | None, progress: Callable[[int], None] | None
    ) -> Breakpoint | None:
        """Step until a condition becomes true; None if the limit or the end is reached first."""
        names = [name for one in conditions if one.condition is not None for name in one.condition.names]
        whole = any(part in LAST_CYCLE for name in names for part in name.parts)
        was = [bool(one.condition and one.condition.value(self.state.value)) for one in conditions]
        while limit is None or self.cycle < limit:
            at = self.cycle
            if whole:
                self.timeline.seek(at + 1)
            else:
                self.timeline.step()
            state = State(self.timeline)
            for k, one in enumerate(conditions):
                now = bool(one.condition and one.condition.value(state.value))
                if now and not was[k]:
                    self.timeline.seek(self.cycle if self.cycle > at else at + 1)
                    return one
                was[k] = now
            if self.cycle == at:
                return None
            if progress is not None and self.cycle % 1024 == 0:
                progress(self.cycle)
        return None

    # Inspection --------------------------------------------------------------------------------------------------------

    def value(self, text: str) -> Value:
        """The value of an expression at the present cycle. InputError if the text is not an expression."""
        return expression.read(text).value(self.state.value)

    def watch(self, text: str) -> Expression:
        """Add a watch expression, whose value is shown at every stop."""
        if len(self.watches) >= LIMIT:
            raise InputError(
                Problem("watch", f"a session may have at most {LIMIT} watch expressions", remedy="unwatch some")
            )
        made = expression.read(text)
        made.value(self.state.value)
        self.watches.append(made)
        return made

    def unwatch(self, number: int) -> Expression:
        """Remove a watch expression by its number, from 1 on."""
        if not 1 <= number <= len(self.watches):
            raise InputError(
                Problem("unwatch", f"the watch expressions have the numbers 1 to {len(self.watches)}", "number", number)
            )
        return self.watches.pop(number - 1)

    def watched(self) -> Iterator[tuple[Expression, Value]]:
        """Each watch expression with its value at the present cycle."""
        for one in self.watches:
            yield one, one.value(self.state.value)

    def waits(self) -> list[Wait]:
        """The waits at the present cycle: the waiting object, what it waits for, and since when."""
        return waits_at(self.state)

    def here(self) -> list[Event]:
        """The events of the last cycle."""
        return self.events.at(self.cycle)

    def digest(self) -> str:
        """SHA-256, in hex, of the state: equal for two runs of the same target at the same cycle, whatever movements led
        there."""
        return self.timeline.digest()

    def diff(self, other: Session, progress: Callable[[int], None] | None = None) -> Difference | None:
        """The first cycle after which this run and another one differ, and the differences; both sessions then move to this
        cycle.

        None if they never differ. Only names that both runs have are compared.
        """
        return first_difference(self.timeline, other.timeline, progress)

    # Files -------------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session to a file: target, machine, cycle, breakpoints and watch expressions."""
        from kernbench.debug.file import save_session

        save_session(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], target: Target | None = None, *, allow_code: AllowCode = ()) -> Session:
        """A session from a file. `target`: required if the target is a file with code (.py), because a session never names such
        a file.

        InputError if the file has another version or is damaged, and if its target or machine differs from what was saved.
        """
        from kernbench.debug.file import load_session

        return load_session(path, target, allow_code=allow_code)


def _meant(name: str, there: Any) -> str:
    near = nearest(name, list(there))
    return f"did you mean {near}?" if near else ""
