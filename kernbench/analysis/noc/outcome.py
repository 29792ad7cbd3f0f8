"""The result of a replay: cycles compared with those on the chip, and the transfers that waited longest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from kernbench.analysis.noc.device import Device, Tile
from kernbench.analysis.noc.events import OVERHEAD, Trace
from kernbench.analysis.noc.replay import Mode, Replay, replayed
from kernbench.analysis.noc.torus import Torus
from kernbench.analysis.noc.worms import Packet
from kernbench.common.units import ceil_div

MODES: tuple[Mode, ...] = ("recorded", "closed")


@dataclass(frozen=True, slots=True)
class Slow:
    """A transfer and the parts of its time [cycle]; of several packets, the times of the last packet to arrive."""

    what: str  #: `read 4096 B 1,1 -> 1,2 NOC_0`: from which tile to which (x,y)
    issued: int
    cycles: int  #: from its issue to its end
    endpoint: int  #: waiting for other packets of the tile that sends
    links: int  #: waiting for links that other packets hold
    sharing: int  #: slower than alone, because it shares resources

    @property
    def delay(self) -> int:
        """All of its waiting."""
        return self.endpoint + self.links + self.sharing


@dataclass(frozen=True, slots=True)
class Outcome:
    """One replay of a trace."""

    trace: str
    mode: Mode
    transfers: int
    nbytes: int
    measured: int  #: [cycle] last event minus first zone begin, less 20
    estimated: int
    wait_error: float | None  #: error of the ends of all barriers, relative to their times; None without barriers
    slowest: tuple[Slow, ...]
    notes: tuple[str, ...]

    @property
    def error(self) -> float:
        """The signed error relative to the measured cycles."""
        return (self.estimated - self.measured) / self.measured if self.measured > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The outcome as data for JSON."""
        slowest = [asdict(one) | {"delay": one.delay} for one in self.slowest]
        out = {name: getattr(self, name) for name in ("trace", "mode", "transfers", "nbytes", "measured", "estimated", "error")}
        return out | {"wait_error": self.wait_error, "slowest": slowest, "notes": list(self.notes)}


def outcome(trace: Trace, device: Device, mode: Mode, *, slowest: int = 5, slower: Fraction = Fraction(1)) -> Outcome:
    """Replay a trace. `slower`: see `replayed`."""
    replay = replayed(trace, device, mode, slower)
    waits = [wait for clerk in replay.clerks for wait in clerk.waits]
    late = sum(recorded for recorded, _ in waits)
    return Outcome(
        trace=trace.name,
        mode=mode,
        transfers=len(trace.transfers),
        nbytes=sum(transfer.nbytes for transfer in trace.transfers),
        measured=trace.measured,
        estimated=max((clerk.at for clerk in replay.clerks), default=OVERHEAD) - OVERHEAD,
        wait_error=sum(abs(ours - recorded) for recorded, ours in waits) / late if late else None,
        slowest=tuple(_slowest(replay, device, slowest)),
        notes=trace.notes,
    )


def _slowest(replay: Replay, device: Device, count: int) -> Iterable[Slow]:
    capacities = Torus(device).capacities()
    all_of_them = [
        _slow(max(packets, key=lambda packet: packet.arrived_at), replay, capacities)
        for _, packets in sorted(replay.packets.items())
    ]
    return sorted(all_of_them, key=lambda one: -one.delay)[:count]


def _slow(packet: Packet, replay: Replay, capacities: Sequence[Fraction]) -> Slow:
    transfer = packet.transfer
    rate = min(capacities[resource] for route in packet.routes for resource in route)
    alone = max(ceil_div(Fraction(packet.nbytes) / rate, 1), packet.sending)
    kind = "read" if transfer.read else "write"
    targets = _place(transfer.targets[0]) if len(transfer.targets) == 1 else f"{len(transfer.targets)} tiles"
    issued = replay.issued[transfer.index]
    return Slow(
        what=f"{kind} {transfer.nbytes:,} B {_place(transfer.source)} -> {targets} {transfer.noc}",
        issued=issued,
        cycles=replay.ends[transfer.index] - issued,
        endpoint=packet.sent_at - packet.queued_at,
        links=packet.flows_at - packet.sent_at,
        sharing=max(packet.arrived_at - packet.flows_at - alone, 0),
    )


def _place(tile: Tile) -> str:
    return f"{tile[0]},{tile[1]}"


def mean_error(outcomes: Sequence[Outcome]) -> float:
    """Mean of the errors' sizes."""
    return sum(abs(one.error) for one in outcomes) / len(outcomes)
