"""The events of a run, by cycle: the cycles to which a debugger can go. They are read from a full trace that is not stored."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from kernbench.common import naming
from kernbench.debug.subject import Live, Subject, quiet
from kernbench.sim_engine.recording.options import TraceOptions
from kernbench.sim_engine.run.commands import Command

#: Kinds of events, with their descriptions in `help`.
KINDS = {
    "start": "a job starts on its engine",
    "end": "a job ends",
    "conflict": "a scratchpad bank denies requests",
    "denied": "a job begins to wait for a bank",
    "stall": "a job begins to wait for anything else: a full queue, a channel of higher priority, backpressure",
    "message": "a message to another PE starts",
    "line": "a kernel issues a command from another source line",
}
MESSAGES = ("IPCQ_SEND", "IPCQ_RECV")
_HEAD = len(b'{"event_type":"')
# the first letters of all names
_WANTED = {name[:7] for name in (b"CMD_START", b"CMD_END", b"JOB_ISSUE", b"STALL_EVENT", b"SRAM_CONFLICT")}
_LAUNCHES = ("KERNEL", "LAUNCH")  # commands whose marker is the name of a launch, and not a line
_JSON = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `cycle`: the number of cycles after which its effect is first visible, which is where `goto` stops."""

    cycle: int
    kind: str
    unit: str
    cmd: int | None  #: id of the entry or command
    text: str
    line: str = ""  #: source line of the kernel that issued the command
    pe: str = ""


class Events:
    """All events of a run in the order of their cycles."""

    def __init__(self, found: list[Event], cycles: int, status: str) -> None:
        self.all = sorted(found, key=lambda event: event.cycle)
        self.cycles, self.status = cycles, status
        self._cycle = [event.cycle for event in self.all]

    def after(self, cycle: int, fits: Callable[[Event], bool]) -> Event | None:
        """The first matching event after a cycle; None if there is none."""
        return next((one for one in self.all[bisect_right(self._cycle, cycle) :] if fits(one)), None)

    def before(self, cycle: int, fits: Callable[[Event], bool]) -> Event | None:
        """The last matching event before a cycle; None if there is none."""
        return next((one for one in reversed(self.all[: bisect_left(self._cycle, cycle)]) if fits(one)), None)

    def at(self, cycle: int) -> list[Event]:
        """The events whose effect is first visible after this number of cycles."""
        return self.all[bisect_left(self._cycle, cycle) : bisect_right(self._cycle, cycle)]

    def of_job(self, kind: str, cmd: int) -> Event | None:
        """The start or end of the job of an entry or command."""
        return next((one for one in self.all if one.kind == kind and one.cmd == cmd), None)


class _Sink:
    """Receives lines of the trace, and stores those that become events."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def write(self, text: bytes, /) -> None:
        self.kept += [_JSON.decode(line) for line in text.splitlines() if line[_HEAD : _HEAD + 7] in _WANTED]


def events_of(subject: Subject) -> Events:
    """Run the subject to its end, and list its events."""
    with quiet():
        live = subject.begin()
        sink = _Sink()
        tracing = live.machine.trace(sink, TraceOptions(level="full"))
        live.machine.run()
        tracing.close()
    return Events(list(_events(live, sink.kept)), live.machine.cycle, live.machine.status)


def _events(live: Live, kept: list[dict[str, Any]]) -> Iterator[Event]:
    commands = _commands(live)
    config = live.machine.config
    alone = config.pe_names[0] if config.pes == 1 else ""  # a name without a PE belongs to the only PE

    def pe_of(unit: str) -> str:
        return naming.parent(unit) or alone

    stood: dict[str, str] = {}  # by PE: the line of its last command
    for raw in kept:
        kind, at, unit = raw["event_type"], raw["t_cycle"], raw["unit"]
        cmd = raw.get("cmd_id")
        command = commands.get(cmd)
        opcode = "" if command is None else command.opcode
        line = "" if command is None or opcode in _LAUNCHES else command.meta.get("marker") or ""
        name = f"{opcode} {cmd}" if opcode else f"{cmd}"
        if kind == "CMD_START":
            pe = pe_of(unit)
            yield Event(at + 1, "start", unit, cmd, f"{name} starts on {unit}", line, pe)
            if opcode in MESSAGES:
                yield Event(at + 1, "message", unit, cmd, f"{name} on {unit}", line, pe)
        elif kind == "CMD_END" and raw["status"] == "OK":
            yield Event(at + (unit == naming.CONTROL), "end", unit, cmd, f"{name} ends on {unit}", line, pe_of(unit))
        elif kind == "JOB_ISSUE" and line and opcode not in _LAUNCHES:
            pe = pe_of(unit)
            if stood.get(pe) != line:
                stood[pe] = line
                yield Event(at + 1, "line", unit, cmd, f"{line} issues {name}", line, pe)
        elif kind == "STALL_EVENT":
            yield _stall(raw, at + 1, (unit, pe_of(unit)), cmd, name, line)
        elif kind == "SRAM_CONFLICT":
            yield _conflict(raw, at + 1, (unit, pe_of(unit)), cmd, name, line)


def _commands(live: Live) -> dict[int | None, Any]:
    """Entries and commands of the run by id."""
    found: dict[int | None, Any] = {entry.id: entry for entry in live.machine.rows.entries}
    added: list[Command] = [] if live.machine.commands is None else live.machine.commands.added
    return {**found, **{command.id: command for command in added}}


def _stall(raw: dict[str, Any], cycle: int, place: tuple[str, str], cmd: int | None, name: str, line: str) -> Event:
    unit, pe = place
    if raw["reason"] != "bank_conflict":
        text = f"{name} on {unit} waits: {raw['reason']}"
        return Event(cycle, "stall", unit, cmd, text, line, pe)
    bank = f"bank {raw['bank_id']}" if "bank_id" in raw else "a bank"
    by = f", which job {raw['by_job']} has" if "by_job" in raw else ""
    return Event(cycle, "denied", unit, cmd, f"{name} on {unit} waits for {bank}{by}", line, pe)


def _conflict(raw: dict[str, Any], cycle: int, place: tuple[str, str], cmd: int | None, name: str, line: str) -> Event:
    unit, pe = place
    what = f"{raw['num_requests']} {raw['access_type'].lower()} requests for {raw['allowed']} "
    what += "port" if raw["allowed"] == 1 else "ports"
    text = f"bank {raw['bank_id']} of {unit}: {what}, denied: {', '.join(raw['stalled_clients'])} (first: {name})"
    return Event(cycle, "conflict", unit, cmd, text, line, pe)
