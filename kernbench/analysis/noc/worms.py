"""Packets that hold the links of their route while they pass: when a packet advances, and when its bytes flow.

Endpoint: each tile sends one packet at a time into a network, requests and answers apart; it is free for the next once it has
put the last byte out. The bytes of a blocked packet that a hop can hold (`buffer_bytes`) leave the link before the packet
arrives. Links: a packet holds the links of its last hops if it does not fit into their buffers; at most `link_packets` packets
hold a link. Flows: while a packet holds its links, its bytes flow over the whole route, and share resources by the allocation
rule of the machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from kernbench.analysis.noc.device import Device, Tile
from kernbench.analysis.noc.events import Transfer
from kernbench.analysis.noc.torus import Torus
from kernbench.common.units import ceil_div

Key = tuple[Any, ...]
Opener = Callable[[int, list[int]], int]
Shape = tuple[Key, list[list[int]], list[Key], int, int]  #: endpoint, ways, holds, kept and sending of a packet


class Packet:
    """One packet of a transfer, and when it came where [cycle]."""

    def __init__(self, transfer: Transfer, nbytes: int, shape: Shape, answer: int) -> None:
        self.transfer = transfer
        self.nbytes = nbytes
        #: its endpoint; the resources of each of its flows; the links that it must hold, in order; [B] that buffers hold for
        #: its endpoint; [cycle] that its endpoint needs
        self.endpoint, self.ways, self.holds, self.kept, self.sending = shape
        self.answer = answer  #: [cycle] from its last byte's arrival on an idle network to the end
        self.held = 0
        self.flows = 0  #: not ended
        self.sent = False
        self.blocks = 0  #: what its endpoint still waits for before it is free
        self.queued_at = 0
        self.sent_at = 0  #: its endpoint began with it
        self.flows_at = 0
        self.arrived_at = 0


class Clock:
    """Actions for later cycles; actions of one cycle run in the order in which they were scheduled."""

    def __init__(self) -> None:
        self.due: list[tuple[int, int, Callable[..., None], Any]] = []
        self.asked = 0

    def at(self, time: int, do: Callable[..., None], what: Any) -> None:
        """Call `do(what, time)` then."""
        heappush(self.due, (time, self.asked, do, what))
        self.asked += 1

    def run(self, now: int) -> None:
        """Run the actions that are due."""
        while self.due and self.due[0][0] <= now:
            time, _, do, what = heappop(self.due)
            do(what, time)

    def next(self) -> int:
        """The cycle of the earliest action, or -1."""
        return self.due[0][0] if self.due else -1


class Worms:
    """Every packet in flight.

    `open_flow(bytes, resources)` returns the number of a flow, whose end the caller reports to `ended`; `done(packet, cycle)`
    is called last.
    """

    def __init__(self, device: Device, clock: Clock, open_flow: Opener, done: Callable[[Packet, int], None]) -> None:
        self.device = device
        self._packet_bytes, self._link_packets = device.packet_bytes, device.link_packets
        self.torus = Torus(device)
        self._known: dict[Key, tuple[int, int, Shape]] = device.kept.setdefault("packets", {})
        self.clock = clock
        self._open_flow = open_flow
        self._done = done
        self._queues: dict[Key, deque[Packet]] = {}
        self._holders: dict[Key, int] = {}
        self._waiting: dict[Key, deque[Packet]] = {}
        self._flows: dict[int, tuple[Packet, int, list[int]]] = {}  # packet, bytes of its second part, and resources

    def send(self, transfer: Transfer, now: int) -> int:
        """Send it as packets: how many."""
        most, left, count = self._packet_bytes, transfer.nbytes, 0
        way = transfer.noc, transfer.owner, transfer.source, transfer.targets, transfer.read
        while left:
            size = min(left, most)
            kind = way, size
            known = self._known.get(kind)
            if known is None:  # packets of one kind have the same way, which is computed once
                known = self._known[kind] = (*latencies(self.device, self.torus, transfer), self._shape(transfer, size))
            request, answer, shape = known
            self.clock.at(now + request, self._queue, Packet(transfer, size, shape, answer))
            left -= size
            count += 1
        return count

    def _shape(self, transfer: Transfer, nbytes: int) -> Shape:
        device, torus = self.device, self.torus
        source, targets, noc = transfer.source, transfer.targets, transfer.noc
        memory = torus.controllers([source, *targets])
        hops = torus.hops(noc, source, targets[0]) if len(targets) == 1 else []
        if len(targets) == 1:
            ways = [[*memory, *[hop.resource for hop in hops], torus.door(noc, targets[0])]]
        else:
            ways = torus.tree(noc, source, targets)
        last = hops[-ceil_div(nbytes, device.hold_bytes) :]
        holds = [(hop.resource, hop.side, transfer.read) for hop in last]
        kept = min(nbytes, device.buffer_bytes * len(hops))
        return (noc, source, transfer.read), ways, holds, kept, device.injection_cycles(nbytes, source)

    def _queue(self, packet: Packet, now: int) -> None:
        packet.queued_at = now
        queue = self._queues.setdefault(packet.endpoint, deque())
        queue.append(packet)
        if len(queue) == 1:
            self._start(packet, now)

    def _start(self, packet: Packet, now: int) -> None:
        packet.sent_at = now
        packet.flows = len(packet.ways)
        packet.blocks = 1 + (packet.kept < packet.nbytes)
        self.clock.at(now + packet.sending, self._sent, packet)
        self._advance(packet, now)

    def _sent(self, packet: Packet, now: int) -> None:
        packet.sent = True
        self._unblock(packet, now)
        self._arrive(packet, now)

    def _unblock(self, packet: Packet, now: int) -> None:
        """Its endpoint waits for one thing less: at the last, the next packet's turn comes."""
        packet.blocks -= 1
        if packet.blocks:
            return
        queue = self._queues[packet.endpoint]
        queue.popleft()
        if queue:
            self._start(queue[0], now)

    def _advance(self, packet: Packet, now: int) -> None:
        """Take the links that are free; with the last its bytes flow."""
        while packet.held < len(packet.holds):
            link = packet.holds[packet.held]
            if self._holders.get(link, 0) >= self._link_packets:
                self._waiting.setdefault(link, deque()).append(packet)
                return
            self._holders[link] = self._holders.get(link, 0) + 1
            packet.held += 1
        packet.flows_at = now
        first = packet.nbytes - packet.kept
        for way in packet.ways:
            self._open(packet, first or packet.kept, packet.kept if first else 0, way)

    def _open(self, packet: Packet, nbytes: int, rest: int, way: list[int]) -> None:
        self._flows[self._open_flow(nbytes, way)] = (packet, rest, way)

    def ended(self, flow: int, now: int) -> None:
        """A flow's last byte has moved before cycle `now`."""
        packet, rest, way = self._flows.pop(flow)
        if rest:  # the rest is in the buffers
            self._open(packet, rest, 0, way)
            self._unblock(packet, now)
            return
        packet.flows -= 1
        if not packet.flows and not packet.kept:
            self._unblock(packet, now)
        self._arrive(packet, now)

    def _arrive(self, packet: Packet, now: int) -> None:
        if packet.flows or not packet.sent:
            return
        packet.arrived_at = now
        for link in packet.holds:
            self._holders[link] -= 1
            if self._waiting.get(link):
                following = self._waiting[link].popleft()
                self._holders[link] += 1
                following.held += 1
                self._advance(following, now)
        self.clock.at(now + packet.answer, self._done, packet)


def latencies(device: Device, torus: Torus, transfer: Transfer) -> tuple[int, int]:
    """[cycle] on an idle network from the issue to the endpoint that sends, and from the last byte to the end."""
    own, noc = transfer.owner, transfer.noc
    if not transfer.read:
        hops = max([len(torus.hops(noc, own, target)) for target in transfer.targets])
        back = max([len(torus.hops(noc, target, own)) for target in transfer.targets])  # of what acknowledges it
        return 0, device.write_latency.start + device.write_latency.hop * (hops + back)
    source = transfer.source
    there, back = len(torus.hops(noc, own, source)), len(torus.hops(noc, source, own))
    total = read_latency(device, own, source)
    near = device.read_latency.same_tile
    request = near + (total - near) * there // max(there + back, 1)
    return request + (device.dram_access_cycles if device.kind_of(source) == "dram" else 0), total - request


def read_latency(device: Device, own: Tile, source: Tile) -> int:
    """[cycle] to the first byte."""
    of = device.read_latency
    if own == source:
        return of.same_tile
    return of.same_column if own[0] == source[0] else of.same_row if own[1] == source[1] else of.other
