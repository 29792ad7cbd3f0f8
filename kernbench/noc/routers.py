"""Routers of a mesh, simulated flit by flit: virtual channels with credits, and a switch that is matched in every cycle.

All state is in arrays over routers, so a cycle costs the same for any number of waiting flits. A packet is one flit.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

PORTS = 5  #: local, east, west, south, north
OPPOSITE = np.array([0, 2, 1, 4, 3])  #: input that receives the flits of an output
_TURNS = 64  # larger than any turn


class Routers:
    """A `side` x `side` mesh with dimension-order routing, `channels` virtual channels of `depth` flits at each input.

    In every cycle each router matches inputs and outputs once: an output grants the first requesting input from its pointer on,
    an input accepts the first granting output from its pointer on, and the pointers advance past the matched ports.
    """

    def __init__(self, side: int, channels: int, depth: int) -> None:
        n = side * side
        self.n, self.channels, self.depth = n, channels, depth
        self.next = neighbours(side)  #: [router, port]: the neighbouring router, -1 at the edge
        self._way = directions(side)  # [router, target]: the port
        shape = (n, PORTS, channels)
        self._flit = np.zeros((*shape, depth), dtype=np.int64)
        self._target = np.zeros((*shape, depth), dtype=np.int64)
        self._head = np.zeros(shape, dtype=np.int64)
        self._count = np.zeros(shape, dtype=np.int64)
        self.reserved = np.zeros(shape, dtype=np.int64)  #: slots of each channel that are occupied or reserved
        self._grant = np.zeros((n, PORTS), dtype=np.int64)
        self._accept = np.zeros((n, PORTS), dtype=np.int64)
        self._turn = np.zeros((n, PORTS), dtype=np.int64)  # channel of an input with priority

    def reserve(self, router: Ints, port: Ints) -> Ints:
        """Reserve a place at each of these inputs, in the emptiest channel, and return the number of the channel. There must be
        a free place."""
        channel: Ints = np.argmin(self.reserved[router, port], axis=1)
        self.reserved[router, port, channel] += 1
        return channel

    def room(self, router: Ints, port: Ints) -> Bools:
        """Whether an input has a free slot."""
        has: Bools = self.reserved[router, port].min(axis=-1) < self.depth
        return has

    def put(self, flit: Ints, target: Ints, router: Ints, port: Ints, channel: Ints) -> None:
        """Flits have arrived in the reserved places."""
        at = router, port, channel
        place = (self._head[at] + self._count[at]) % self.depth
        self._flit[(*at, place)] = flit
        self._target[(*at, place)] = target
        self._count[at] += 1

    def match(self) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        """The flits that cross switches in this cycle, with their targets, routers, inputs, channels and outputs."""
        router, port, out, channel = self._requests()
        turn = (port - self._grant[router, out]) % PORTS
        k = _first(router * PORTS + out, turn)  # each output grants one
        turn = (out[k] - self._accept[router[k], port[k]]) % PORTS
        k = k[_first(router[k] * PORTS + port[k], turn)]  # each input accepts one flit
        router, port, out, channel = router[k], port[k], out[k], channel[k]
        self._grant[router, out] = (port + 1) % PORTS
        self._accept[router, port] = (out + 1) % PORTS
        return self._take(router, port, channel, out)

    def _requests(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Router, input, output and channel of each requesting head flit: for each input, one for each output with room."""
        router, port, channel = np.nonzero(self._count)
        out = self._way[router, self._target[router, port, channel, self._head[router, port, channel]]]
        to = self.next[router, out]
        k = np.flatnonzero((out == 0) | self.room(to, OPPOSITE[out]))
        router, port, channel, out = router[k], port[k], channel[k], out[k]
        turn = (channel - self._turn[router, port]) % self.channels
        k = _first((router * PORTS + port) * PORTS + out, turn)
        return router[k], port[k], out[k], channel[k]

    def _take(self, router: Ints, port: Ints, channel: Ints, out: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        at = router, port, channel
        flit, target = (table[(*at, self._head[at])] for table in (self._flit, self._target))
        self._head[at] = (self._head[at] + 1) % self.depth
        self._count[at] -= 1
        self._turn[router, port] = (channel + 1) % self.channels
        return flit, target, router, port, channel, out


def _first(group: Ints, turn: Ints) -> Ints:
    """For each group, the position of the member with the smallest turn. No two members of a group have the same turn."""
    order = np.argsort(group * _TURNS + turn)
    ordered = group[order]
    return order[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(order) else order


@cache
def neighbours(side: int) -> Ints:
    """[router, port]: the neighbouring router, -1 at the edge; port 0 leads to the router itself."""
    y, x = np.divmod(np.arange(side * side), side)
    out: Any = np.full((side * side, PORTS), -1)
    for port, (dx, dy) in enumerate(((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))):
        inside = (x + dx >= 0) & (x + dx < side) & (y + dy >= 0) & (y + dy < side)
        out[inside, port] = ((y + dy) * side + x + dx)[inside]
    return np.asarray(out, dtype=np.int64)


@cache
def directions(side: int) -> Ints:
    """[router, target]: the port; routes go first along the row, then along the column."""
    y, x = np.divmod(np.arange(side * side), side)
    dx, dy = x[None, :] - x[:, None], y[None, :] - y[:, None]
    return np.select([dx > 0, dx < 0, dy > 0, dy < 0], [1, 2, 3, 4], 0).astype(np.int64)
