"""A network of routers, clock by clock, written from docs/model/flits.md alone."""

from __future__ import annotations

from dataclasses import dataclass, field

EAST, WEST, SOUTH, NORTH, LOCAL = range(5)
STEP = {EAST: (1, 0), WEST: (-1, 0), SOUTH: (0, 1), NORTH: (0, -1)}
BACK = {EAST: WEST, WEST: EAST, SOUTH: NORTH, NORTH: SOUTH}


@dataclass
class Packet:
    source: int
    target: int
    flits: int
    born: int
    end: int = -1


@dataclass
class Shape:
    """A mesh or torus."""

    columns: int
    rows: int
    torus: bool
    adaptive: bool
    channels: int
    depth: int
    switch: int
    link: int
    credit: int

    def behind(self, router: int, port: int) -> int | None:
        x, y = router % self.columns + STEP[port][0], router // self.columns + STEP[port][1]
        if self.torus:
            x, y = x % self.columns, y % self.rows
        return y * self.columns + x if 0 <= x < self.columns and 0 <= y < self.rows else None

    def along(self, at: int, to: int, size: int) -> int | None:
        """+1 or -1 on a line or ring, None where it is there."""
        if at == to:
            return None
        if not self.torus:
            return 1 if to > at else -1
        there, back = (to - at) % size, (at - to) % size
        if there == back:
            return 1 if at % 2 == 0 else -1
        return 1 if there < back else -1

    def seam(self, at: int, to: int, way: int) -> bool:
        """The seam is ahead of what goes this way."""
        return self.torus and (to < at if way > 0 else to > at)

    def places(self, router: int, target: int) -> list[tuple[int, int, int, int, int]]:
        """Of the row, then of the column: where it is, where it goes, the size, and the ports of both ways."""
        c = self.columns
        return [(router % c, target % c, c, EAST, WEST), (router // c, target // c, self.rows, SOUTH, NORTH)]

    def choices(self, router: int, packet: Packet, came: int, channel: int) -> list[tuple[int, int]]:
        """(output, channel) that a head may take; `came`: the input that it is at."""
        every = range(self.channels)
        if router == packet.target:
            return [(LOCAL, v) for v in every]
        found = []
        for at, to, size, plus, minus in self.places(router, packet.target):
            way = self.along(at, to, size)
            if way is None:
                continue
            if not self.adaptive and came in (plus, minus):
                way = 1 if came == minus else -1
            found.append((plus if way > 0 else minus, self.seam(at, to, way)))
        port, seam = found[0]
        if not self.adaptive:
            if not self.torus:
                return [(port, v) for v in every]
            half = self.channels // 2
            return [(port, v) for v in every if (v >= half) == seam]
        escapes = 2 if self.torus else 1
        out = [(port, 1 if seam else 0)]
        if came != LOCAL and channel < escapes:
            return out
        return out + [(one, v) for one, _ in found for v in range(escapes, self.channels)]


@dataclass
class Buffer:
    """A virtual channel of an input."""

    flits: list[tuple[Packet, int]] = field(default_factory=list)
    given: tuple[int, int] | None = None
    accept: int = 0


@dataclass
class Ahead:
    """What an output knows of a channel behind its link."""

    credits: int
    taken: bool = False
    grant: int = 0


def first_from(pointer: int, found: list[int], size: int) -> int:
    return min(found, key=lambda one: (one - pointer) % size)


class Flits:
    """`run(packets)` sets the end of each packet."""

    def __init__(self, shape: Shape) -> None:
        self.shape, n, v = shape, shape.columns * shape.rows, shape.channels
        self.nodes = range(n)
        self.buffer = {(r, p, k): Buffer() for r in self.nodes for p in range(5) for k in range(v)}
        # 5: the link of the terminal
        self.ahead = {(r, p, k): Ahead(shape.depth) for r in self.nodes for p in range(6) for k in range(v)}
        self.by_channel = {(r, p): 0 for r in self.nodes for p in range(5)}
        self.by_output = {(r, p): 0 for r in self.nodes for p in range(5)}
        self.by_input = {(r, p): 0 for r in self.nodes for p in range(5)}
        self.queue: dict[int, list[Packet]] = {r: [] for r in self.nodes}
        self.sent = dict.fromkeys(self.nodes, 0)
        self.last = dict.fromkeys(self.nodes, -1)
        #: By router and output (5: the link of the terminal): flits that left, no credit, no channel, lost.
        self.waits = {(r, p): [0, 0, 0, 0] for r in self.nodes for p in range(6)}
        #: By router and input: flits at the ends of clocks, and the most after arrivals.
        self.held = {(r, p): [0, 0] for r in self.nodes for p in range(5)}
        self.due: dict[int, list[tuple[str, int, int, int, Packet | None, int]]] = {}

    def later(self, at: int, *what: object) -> None:
        self.due.setdefault(at, []).append(what)  # type: ignore[arg-type]

    def run(self, packets: list[Packet]) -> int:
        """The number of clocks until all have ended."""
        now = 0
        while any(packet.end < 0 for packet in packets):
            for packet in packets:
                if packet.born == now:
                    self.queue[packet.source].append(packet)
            self.clock(now)
            now += 1
            assert now < 100_000, "they never end"
        return now

    def clock(self, now: int) -> None:
        self.arrivals(now)
        for at, counts in self.held.items():
            counts[1] = max(counts[1], self.flits_at(at))
        self.terminals(now)
        granted = [one for r in self.nodes for one in self.switch(r)]
        for r in self.nodes:
            self.channels(r)
        for r, port, channel, output in granted:
            self.depart(r, port, channel, output, now)
        for at, counts in self.held.items():
            counts[0] += self.flits_at(at)

    def flits_at(self, at: tuple[int, int]) -> int:
        return sum(len(self.buffer[(*at, k)].flits) for k in range(self.shape.channels))

    def arrivals(self, now: int) -> None:
        s = self.shape
        for kind, r, port, channel, packet, number in self.due.pop(now, []):
            if kind == "credit":
                self.ahead[r, port, channel].credits += 1
            elif kind == "flit":
                assert packet is not None
                self.buffer[r, port, channel].flits.append((packet, number))
                assert len(self.buffer[r, port, channel].flits) <= s.depth
            else:
                assert packet is not None and packet.target == r
                self.later(now + s.link + s.credit, "credit", r, LOCAL, channel, None, 0)
                if number == packet.flits - 1:
                    packet.end = now

    def terminals(self, now: int) -> None:
        s = self.shape
        for r in self.nodes:
            if not self.queue[r]:
                continue
            packet = self.queue[r][0]
            if self.sent[r] == 0:
                order = [(self.last[r] + 1 + k) % s.channels for k in range(s.channels)]
                free = [v for v in order if not self.ahead[r, 5, v].taken and self.ahead[r, 5, v].credits]
                if not free:
                    self.waits[r, 5][2] += 1
                    continue
                self.last[r] = free[0]
                self.ahead[r, 5, free[0]].taken = True
            ahead = self.ahead[r, 5, self.last[r]]
            if not ahead.credits:
                self.waits[r, 5][1] += 1
                continue
            ahead.credits -= 1
            self.waits[r, 5][0] += 1
            self.later(now + s.link, "flit", r, LOCAL, self.last[r], packet, self.sent[r])
            self.sent[r] += 1
            if self.sent[r] == packet.flits:
                ahead.taken = False
                self.sent[r] = 0
                self.queue[r].pop(0)

    def switch(self, r: int) -> list[tuple[int, int, int, int]]:
        v = self.shape.channels
        asks: dict[tuple[int, int], int] = {}
        for port in range(5):
            for output in range(5):
                ready = []
                for k in range(v):
                    b = self.buffer[r, port, k]
                    if b.flits and b.given and b.given[0] == output:
                        if self.ahead[r, output, b.given[1]].credits:
                            ready.append(k)
                            self.waits[r, output][3] += 1
                        else:
                            self.waits[r, output][1] += 1
                if ready:
                    asks[port, output] = first_from(self.by_channel[r, port], ready, v)
        offers: dict[int, list[int]] = {}
        for output in range(5):
            ports = [port for port in range(5) if (port, output) in asks]
            if ports:
                offers.setdefault(first_from(self.by_output[r, output], ports, 5), []).append(output)
        granted = []
        for port, outputs in offers.items():
            output = first_from(self.by_input[r, port], outputs, 5)
            channel = asks[port, output]
            self.by_output[r, output] = (port + 1) % 5
            self.by_input[r, port] = (output + 1) % 5
            self.by_channel[r, port] = (channel + 1) % v
            self.waits[r, output][0] += 1
            self.waits[r, output][3] -= 1
            granted.append((r, port, channel, output))
        return granted

    def channels(self, r: int) -> None:
        v = self.shape.channels
        wants: dict[int, set[int]] = {}
        first: dict[int, int] = {}
        for port in range(5):
            for k in range(v):
                b = self.buffer[r, port, k]
                if b.flits and b.given is None:
                    packet, number = b.flits[0]
                    assert number == 0
                    choices = self.shape.choices(r, packet, port, k)
                    first[port * v + k] = choices[0][0]
                    wants[port * v + k] = {o * v + c for o, c in choices if not self.ahead[r, o, c].taken}
        offers: dict[int, list[int]] = {}
        for number in range(5 * v):
            asking = [vc for vc, wanted in wants.items() if number in wanted]
            if asking:
                pointer = self.ahead[r, number // v, number % v].grant
                offers.setdefault(first_from(pointer, asking, 5 * v), []).append(number)
        for vc in wants.keys() - offers.keys():
            self.waits[r, first[vc]][2] += 1
        for vc, numbers in offers.items():
            b = self.buffer[r, vc // v, vc % v]
            number = first_from(b.accept, numbers, 5 * v)
            b.accept = (number + 1) % (5 * v)
            b.given = number // v, number % v
            ahead = self.ahead[r, number // v, number % v]
            ahead.taken, ahead.grant = True, (vc + 1) % (5 * v)

    def depart(self, r: int, port: int, channel: int, output: int, now: int) -> None:
        s, b = self.shape, self.buffer[r, port, channel]
        packet, number = b.flits.pop(0)
        assert b.given is not None
        taken = b.given[1]
        ahead = self.ahead[r, output, taken]
        ahead.credits -= 1
        if number == packet.flits - 1:
            ahead.taken, b.given = False, None
        at = now + s.switch + s.link
        if output == LOCAL:
            self.later(at, "eject", r, LOCAL, taken, packet, number)
        else:
            there = s.behind(r, output)
            assert there is not None
            self.later(at, "flit", there, BACK[output], taken, packet, number)
        if port == LOCAL:
            self.later(now + s.link, "credit", r, 5, channel, None, 0)
        else:
            before = s.behind(r, port)
            assert before is not None
            self.later(now + s.link + s.credit, "credit", before, BACK[port], channel, None, 0)
