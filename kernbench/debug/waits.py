"""The waits at a cycle: the waiting object, what it waits for, and since when. Objects are entries of a queue, engines,
kernels, and PEs at their queues."""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.debug.state import State
from kernbench.sim_engine.run.waits import InFlight, wait_lines, who_waits
from kernbench.triton_emu.queues import waits_of

CIRCLE = "they wait in a circle"


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait."""

    who: str  #: an entry (`12 TE_GEMM_TILE`) or a PE
    reason: str
    since: int | None  #: [cycle]
    waits_for: tuple[str, ...] = ()  #: entries or ranks
    line: str = ""  #: source line of a kernel
    circle: bool = False  #: whether it is part of a wait-for cycle, which is a deadlock

    @property
    def text(self) -> str:
        """The wait in one line."""
        parts = [f"{self.who} waits for {self.reason}"]
        if self.waits_for:
            parts.append(f" ({', '.join(self.waits_for)})")
        if self.since is not None:
            parts.append(f" since cycle {self.since:,}")
        if self.line:
            parts.append(f", at {self.line}")
        return "".join(parts) + (", in a circle" if self.circle else "")


def waits_at(state: State) -> list[Wait]:
    """Every wait in this state: first issued work, then entries that are not issued, then kernels."""
    return [*_of_entries(state), *_of_kernels(state)]


def _of_entries(state: State) -> list[Wait]:
    machine = state.machine
    if not machine.rows.entries or state.status == "done":
        return []
    times = machine._times()
    in_flight = InFlight(machine.plan, state.peeked, list(machine.components))
    gate = machine._core.waiting()[1]
    started = {one.id for one in times if one.start is not None}
    issued = {one.id for one in times if one.issue is not None}
    opcodes = {entry.command_id: entry.opcode for entry in machine.rows.entries}
    held: list[Wait] = []
    later: list[Wait] = []
    for one in who_waits(machine.rows, times, gate, in_flight, absent=machine.absent_entries()):
        reason = one["reason"]
        if one["id"] in started and reason not in ("scratchpad banks",) and not reason.startswith("the bus"):
            continue  # it is working
        names = tuple(f"{other} {opcodes.get(other, '')}".strip() for other in one["waits_for"])
        wait = Wait(f"{one['id']} {one['opcode']}", reason, one["since"], names)
        (held if one["id"] in issued else later).append(wait)
    return [*held, *later]


def _of_kernels(state: State) -> list[Wait]:
    engine = state._live.engine
    if engine is None:
        return []
    found = []
    at_queues = {one["pe"]: one for one in waits_of(engine.activity.system.runners)}
    for kernel in state.kernels:
        one = at_queues.get(kernel.pe)
        stuck = one is not None and (one["used"] >= one["slots"] if one["reason"] == "credit" else bool(kernel.waits))
        if one is not None and stuck:
            what = "a message" if one["reason"] == "message" else "a free slot"
            other = f"{what} of rank {one['waits_for']}, {one['direction']}"
            who = f"rank {one['rank']} ({one['pe']})"
            found.append(Wait(who, other, one["since"], (f"rank {one['waits_for']}",), one["line"], one["circle"] is not None))
        elif kernel.waits:
            found.append(Wait(kernel.pe, kernel.waits, kernel.since, (), kernel.line))
    return found


def circle_of(state: State) -> str:
    """The wait-for cycle of PEs as a sentence; empty if there is none."""
    engine = state._live.engine
    if engine is None:
        return ""
    lines = wait_lines(waits_of(engine.activity.system.runners))
    return lines[0] if lines and lines[0].startswith(CIRCLE) else ""
