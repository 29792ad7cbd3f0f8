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
from kernbench.components.base import FLOW, NEVER, Job, Typed

Key = tuple[Any, ...]
Shape = tuple[int, list[list[int]], list[int], int, int]  #: endpoint, ways, holds, kept and sending of a packet
_FLOW, _NEVER = FLOW, NEVER


class Packet:
    """One packet of a transfer, and when it came where [cycle]."""

    def __init__(self, transfer: Transfer, nbytes: int, shape: Shape, answer: int) -> None:
        self.transfer = transfer
        self.nbytes = nbytes
        #: the number of its endpoint; the resources of each of its flows; the numbers of the links that it must hold, in order;
        #: [B] that buffers hold for its endpoint; [cycle] that its endpoint needs
        self.endpoint, self.routes, self.holds, self.kept, self.sending = shape
        self.answer = answer  #: [cycle] from its last byte's arrival on an idle network to the end
        self.held = 0
        self.flows = 0  #: not ended
        self.sent = False
        self.blocks = 0  #: number of events for which its endpoint still waits before it is free
        self.queued_at = 0
        self.sent_at = 0  #: its endpoint began with it
        self.flows_at = 0
        self.arrived_at = 0


class Clock:
    """Actions for later cycles; actions of one cycle run in the order in which they were scheduled."""

    def __init__(self) -> None:
        self._cycles: list[int] = []  # a heap
        self._due: dict[int, list[tuple[Callable[..., None], Any]]] = {}  # actions by cycle

    def at(self, time: int, do: Callable[..., None], what: Any) -> None:
        """Call `do(what, time)` then."""
        actions = self._due.get(time)
        if actions is None:
            actions = self._due[time] = []
            heappush(self._cycles, time)
        actions.append((do, what))

    def run(self, now: int) -> None:
        """Run the actions that are due; an action may add further actions for its own cycle and later ones."""
        while self._cycles:
            time = self._cycles[0]
            if time > now:
                return
            for do, what in self._due[time]:
                do(what, time)
            heappop(self._cycles)
            del self._due[time]

    def next(self) -> int:
        """The cycle of the earliest action, or -1."""
        return self._cycles[0] if self._cycles else -1


class Worms(Typed):
    """Every packet in flight, as a component of the core before it has a position in the machine."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device
        self._packet_bytes, self._link_packets = device.packet_bytes, device.link_packets
        self.torus = Torus(device)
        self._known: dict[Key, tuple[int, int, Shape]] = device.kept.setdefault("packets", {})
        #: Numbers of links and endpoints, by their names.
        self._links: dict[Key, int] = device.kept.setdefault("links", {})
        self._endpoints: dict[Key, int] = device.kept.setdefault("endpoints", {})
        self.clock = Clock()
        self.packets: dict[int, list[Packet]] = {}  #: packets of each transfer that have arrived
        self.issued: dict[int, int] = {}  #: [cycle] in which each transfer was sent
        self.ends: dict[int, int] = {}  #: [cycle] in which each transfer ended
        self.left = 0  #: transfers and processors that are not over
        self._job = -1
        self._packets_left: dict[int, int] = {}
        self._queues: list[deque[Packet]] = []  # by endpoint
        self._holders: list[int] = []  # by link
        self._waiting: list[deque[Packet]] = []  # by link
        self._flows: dict[int, tuple[Packet, int, list[int]]] = {}  # packet, bytes of its second part, and resources
        self._on_queue, self._on_sent, self._on_done = self._queue, self._sent, self._arrived

    def begin(self, now: int) -> None:
        """P1 of cycle 0."""
        raise NotImplementedError

    def finished(self, transfer: int, now: int) -> None:
        """All packets of a transfer have arrived."""
        raise NotImplementedError

    def woken(self, now: int) -> int:
        """P1: what is due. Cycle 0 begins with `begin`."""
        if now == 0:
            self.begin(now)
        return self._next(now)

    def told(self, notice: int, number: int, now: int) -> int:
        """P7. A flow has ended: what follows begins in the next cycle."""
        if notice == _FLOW:
            self._ended(number, now + 1)
        return self._next(now)

    def step(self, now: int) -> int:
        return self.woken(now)

    def notify(self, notice: int, number: int, now: int) -> int:
        return self.told(notice, number, now)

    def accept(self, job: Job, now: int) -> int:
        """The one job, which lasts as long as the replay."""
        self._job = job.id
        return self._next(now)

    def _next(self, now: int) -> int:
        self.clock.run(now)
        if not self.left and self._job >= 0:
            self.complete(self._job)
            self._job = -1
        following = self.clock.next()
        if following < 0:
            return _NEVER
        return following if following > now else now + 1

    def send(self, transfer: Transfer, now: int) -> None:
        """Send it as packets; this happens once for each transfer."""
        most, left, count = self._packet_bytes, transfer.nbytes, 0
        route = transfer.noc, transfer.owner, transfer.source, transfer.targets, transfer.read
        while left:
            size = min(left, most)
            kind = route, size
            known = self._known.get(kind)
            if known is None:  # packets of one kind have the same way, which is computed once
                known = self._known[kind] = (*latencies(self.device, self.torus, transfer), self._shape(transfer, size))
            request, answer, shape = known
            self.clock.at(now + request, self._on_queue, Packet(transfer, size, shape, answer))
            left -= size
            count += 1
        index = transfer.index
        self.issued[index] = now
        self._packets_left[index] = count
        while len(self._queues) < len(self._endpoints):
            self._queues.append(deque())
        while len(self._holders) < len(self._links):
            self._holders.append(0)
            self._waiting.append(deque())

    def _shape(self, transfer: Transfer, nbytes: int) -> Shape:
        device, torus = self.device, self.torus
        source, targets, noc = transfer.source, transfer.targets, transfer.noc
        memory = torus.controllers([source, *targets])
        hops = torus.hops(noc, source, targets[0]) if len(targets) == 1 else []
        if len(targets) == 1:
            routes = [[*memory, *[hop.resource for hop in hops], torus.door(noc, targets[0])]]
        else:
            routes = torus.tree(noc, source, targets)
        last = hops[-ceil_div(nbytes, device.hold_bytes) :]
        links, endpoints = self._links, self._endpoints
        holds = [links.setdefault((hop.resource, hop.side, transfer.read), len(links)) for hop in last]
        endpoint = endpoints.setdefault((noc, source, transfer.read), len(endpoints))
        kept = min(nbytes, device.buffer_bytes * len(hops))
        return endpoint, routes, holds, kept, device.injection_cycles(nbytes, source)

    def _queue(self, packet: Packet, now: int) -> None:
        packet.queued_at = now
        queue = self._queues[packet.endpoint]
        queue.append(packet)
        if len(queue) == 1:
            self._start(packet, now)

    def _start(self, packet: Packet, now: int) -> None:
        packet.sent_at = now
        packet.flows = len(packet.routes)
        packet.blocks = 1 + (packet.kept < packet.nbytes)
        self.clock.at(now + packet.sending, self._on_sent, packet)
        self._advance(packet, now)

    def _sent(self, packet: Packet, now: int) -> None:
        packet.sent = True
        self._unblock(packet, now)
        self._leave(packet, now)

    def _unblock(self, packet: Packet, now: int) -> None:
        """One reason for which the endpoint of a packet waits is over. After the last reason, the next packet may start."""
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
            holders = self._holders[link]
            if holders >= self._link_packets:
                self._waiting[link].append(packet)
                return
            self._holders[link] = holders + 1
            packet.held += 1
        packet.flows_at = now
        first = packet.nbytes - packet.kept
        for route in packet.routes:
            self._open(packet, first or packet.kept, packet.kept if first else 0, route)

    def _open(self, packet: Packet, nbytes: int, rest: int, route: list[int]) -> None:
        self._flows[self.open_flow(nbytes, route)] = (packet, rest, route)

    def _ended(self, flow: int, now: int) -> None:
        """A flow's last byte has moved before cycle `now`."""
        packet, rest, route = self._flows.pop(flow)
        if rest:  # the rest is in the buffers
            self._open(packet, rest, 0, route)
            self._unblock(packet, now)
            return
        packet.flows -= 1
        if not packet.flows and not packet.kept:
            self._unblock(packet, now)
        self._leave(packet, now)

    def _leave(self, packet: Packet, now: int) -> None:
        """Give the links of a packet that was sent and whose flows have ended to packets that wait for them."""
        if packet.flows or not packet.sent:
            return
        packet.arrived_at = now
        for link in packet.holds:
            waiting = self._waiting[link]
            if waiting:
                following = waiting.popleft()
                following.held += 1
                self._advance(following, now)
            else:
                self._holders[link] -= 1
        self.clock.at(now + packet.answer, self._on_done, packet)

    def _arrived(self, packet: Packet, now: int) -> None:
        """A packet is complete, and with the last one its transfer."""
        index = packet.transfer.index
        self.packets.setdefault(index, []).append(packet)
        left = self._packets_left[index] - 1
        self._packets_left[index] = left
        if not left:
            self.ends[index] = now
            self.left -= 1
            self.finished(index, now)


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
    near = min(device.read_latency.same_tile, total)  # a device may state that other tiles are nearer
    request = near + (total - near) * there // max(there + back, 1)
    return request + (device.dram_access_cycles if device.kind_of(source) == "dram" else 0), total - request


def read_latency(device: Device, own: Tile, source: Tile) -> int:
    """[cycle] to the first byte."""
    of = device.read_latency
    if own == source:
        return of.same_tile
    return of.same_column if own[0] == source[0] else of.same_row if own[1] == source[1] else of.other
