"""What queues say of a run that is over: who waits for whom where nothing can happen any more, and what nobody received."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernbench.common.pe_commands import IpcqRecvCmd, IpcqSendCmd
from kernbench.components.builtin.flight import Flight
from kernbench.components.builtin.ipcq_ring import Ring
from kernbench.triton_emu.kernel_runner import KernelRunner


def waits_of(runners: Mapping[str, KernelRunner]) -> list[dict[str, Any]]:
    """For each PE that cannot go on, in the order of ranks: what it waits for; `circle` is its place in the first circle."""
    found = [wait for runner in runners.values() if (wait := _wait(runner)) is not None]
    found.sort(key=lambda wait: (wait["rank"] is None, wait["rank"]))
    circle = _circle({wait["rank"]: wait["waits_for"] for wait in found if wait["rank"] is not None})
    place = {rank: number for number, rank in enumerate(circle)}
    for wait in found:
        wait["circle"] = place.get(wait["rank"])
    return found


def unreceived(rings: Sequence[Ring], cycle: int) -> list[dict[str, Any]]:
    """A warning for each queue with messages that nobody received."""
    found = []
    for ring in rings:
        left = [*ring.inbox, *ring.in_flight, *ring.waiting]
        if left:
            lines = ", ".join(dict.fromkeys(message.line for message in left))
            what = "a message" if len(left) == 1 else f"{len(left)} messages"
            found.append(
                {
                    "code": "UNRECEIVED",
                    "cycle": cycle,
                    "rank": ring.source.rank,
                    "to": ring.target.rank,
                    "direction": ring.source.direction,
                    "plane": ring.source.plane,
                    "count": len(left),
                    "line": left[0].line,
                    "message": f"{what} from {ring.source} to {ring.target} ({lines}): nobody received",
                }
            )
    return found


def _wait(runner: KernelRunner) -> dict[str, Any] | None:
    flight = _blocking(runner)
    if flight is None:
        return None
    msg, state = flight.msg, runner.state()
    ring: Ring = msg.ring
    sends = isinstance(msg, IpcqSendCmd)
    mine, other = (ring.source, ring.target) if sends else (ring.target, ring.source)
    return {
        "rank": runner.group.rank,
        "pe": runner.pe.name,
        "launch": state.launch,
        "line": flight.line,
        "waits_for": other.rank,
        "reason": "credit" if sends else "message",
        "direction": mine.direction,
        "plane": mine.plane,
        "used": ring.used,
        "slots": ring.slots,
        "held": ring.waiting.first().line if ring.waiting.count and not sends else "",
        "since": flight.issued,
        "last_send": ring.last_send,
        "last_recv": ring.last_recv,
    }


def _blocking(runner: KernelRunner) -> Flight | None:
    """What the kernel waits for; else the first of its commands that cannot end: of one that waits for any of several, the
    first receive, as sends before it hold no kernel up."""
    wanted = runner.wanted
    open_ones = [one for one in runner.scheduler.open if isinstance(one.msg, IpcqSendCmd | IpcqRecvCmd)]
    if wanted in open_ones:
        return wanted
    if runner.state().waits.startswith("tl.wait_any"):
        open_ones.sort(key=lambda one: isinstance(one.msg, IpcqSendCmd))
    return next(iter(open_ones), None)


def _circle(waits_for: Mapping[int, int]) -> list[int]:
    """The ranks of the circle with the lowest rank, from that one on, each waiting for the next; none: an empty list."""
    circles: list[list[int]] = []
    seen: set[int] = set()
    for start in waits_for:
        path: dict[int, None] = {}  # in order
        at: int | None = start
        while at is not None and at not in seen:
            seen.add(at)
            path[at] = None
            at = waits_for.get(at)
        if at in path:  # else nobody waits in the end, or it leads to where another start has led
            ranks = list(path)
            circles.append(ranks[ranks.index(at) :])
    if not circles:
        return []
    first = min(circles, key=min)
    least = first.index(min(first))
    return first[least:] + first[:least]
