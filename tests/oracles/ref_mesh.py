"""A mesh of routers, one flit and one cycle at a time, in plain Python: slow and obvious."""

from __future__ import annotations

from collections import deque

STEPS = {1: (1, 0), 2: (-1, 0), 3: (0, 1), 4: (0, -1)}
OPPOSITE = {0: 0, 1: 2, 2: 1, 3: 4, 4: 3}


def ends(
    side: int, packets: list[tuple[int, int, int]], *, channels: int, depth: int, router: int = 3, credit: int = 2
) -> list[int]:
    """The cycle in which each packet (birth, source, target), given by birth, has arrived."""
    mesh = _Mesh(side, packets, channels, depth, router, credit)
    while mesh.left:
        mesh.cycle()
    return mesh.ends


class _Mesh:
    def __init__(self, side: int, packets: list[tuple[int, int, int]], channels: int, depth: int, router: int, credit: int) -> None:
        self.side, self.packets, self.channels, self.depth = side, packets, channels, depth
        self.router, self.credit, self.now = router, credit, 0
        self.ends, self.left = [-1] * len(packets), len(packets)
        self.sources: list[deque[int]] = [deque() for _ in range(side * side)]
        keys = [(r, p, v) for r in range(side * side) for p in range(5) for v in range(channels)]
        self.queue: dict[tuple[int, int, int], deque[int]] = {key: deque() for key in keys}
        self.taken = dict.fromkeys(keys, 0)
        self.grant = {(r, p): 0 for r in range(side * side) for p in range(5)}
        self.accept, self.turn = dict(self.grant), dict(self.grant)
        self.later: list[tuple[int, str, tuple[int, ...]]] = []

    def output(self, at: int, target: int) -> int:
        (y, x), (ty, tx) = divmod(at, self.side), divmod(target, self.side)
        return 1 if tx > x else 2 if tx < x else 3 if ty > y else 4 if ty < y else 0

    def beyond(self, at: int, out: int) -> int:
        y, x = divmod(at, self.side)
        return (y + STEPS[out][1]) * self.side + x + STEPS[out][0]

    def emptiest(self, router: int, port: int) -> int | None:
        """The channel with the fewest places taken, the first of several; None where all are full."""
        best = min(range(self.channels), key=lambda v: self.taken[router, port, v])
        return best if self.taken[router, port, best] < self.depth else None

    def cycle(self) -> None:
        for k, (born, source, _) in enumerate(self.packets):
            if born == self.now - 1:
                self.sources[source].append(k)
        for node, waiting in enumerate(self.sources):
            channel = self.emptiest(node, 0) if waiting else None
            if channel is not None:
                self.taken[node, 0, channel] += 1  # one cycle on the link, then the router's first cycles
                self.later.append((self.now + self.router, "arrive", (waiting.popleft(), node, 0, channel)))
        for time, what, at in self.later:
            if time == self.now and what == "free":
                self.taken[at[0], at[1], at[2]] -= 1
        for time, what, at in self.later:
            if time == self.now and what == "arrive":
                self.queue[at[1], at[2], at[3]].append(at[0])
        self.later = [item for item in self.later if item[0] > self.now]
        winners = [winner for router in range(self.side**2) for winner in self.matched(router)]
        for router, port, channel, out in winners:
            self.cross(router, port, channel, out)
        self.now += 1

    def matched(self, router: int) -> list[tuple[int, int, int, int]]:
        asks: dict[tuple[int, int], int] = {}  # (input, output): channel
        for port in range(5):
            for k in range(self.channels):
                channel = (self.turn[router, port] + k) % self.channels
                flits = self.queue[router, port, channel]
                if flits:
                    out = self.output(router, self.packets[flits[0]][2])
                    if out == 0 or self.emptiest(self.beyond(router, out), OPPOSITE[out]) is not None:
                        asks.setdefault((port, out), channel)
        granted: dict[int, list[int]] = {}
        for out in range(5):
            ports = [port for port, wanted in asks if wanted == out]
            if ports:
                best = min(ports, key=lambda port: (port - self.grant[router, out]) % 5)
                granted.setdefault(best, []).append(out)
        won = []
        for port, outs in sorted(granted.items()):
            out = min(outs, key=lambda o: (o - self.accept[router, port]) % 5)
            won.append((router, port, asks[port, out], out))
        return won

    def cross(self, router: int, port: int, channel: int, out: int) -> None:
        self.grant[router, out] = (port + 1) % 5
        self.accept[router, port] = (out + 1) % 5
        self.turn[router, port] = (channel + 1) % self.channels
        flit = self.queue[router, port, channel].popleft()
        self.later.append((self.now + self.credit, "free", (router, port, channel)))
        if out == 0:
            self.ends[flit] = self.now + 2
            self.left -= 1
            return
        to, into = self.beyond(router, out), OPPOSITE[out]
        place = self.emptiest(to, into)
        assert place is not None
        self.taken[to, into, place] += 1
        self.later.append((self.now + 1 + self.router, "arrive", (flit, to, into, place)))
