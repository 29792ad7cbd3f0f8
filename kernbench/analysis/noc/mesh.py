"""Synthetic traffic on a mesh: one-flit packets whose every hop is a flow of the core over that link."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

import msgspec
import numpy as np

from kernbench.cmdq.lower import resource_tables
from kernbench.cmdq.plan import plan_npu
from kernbench.cmdq.program import Program
from kernbench.common.errors import InternalError
from kernbench.common.units import ceil_div
from kernbench.components.base import COMPONENT, FLOW, NEVER, ComponentBase, Job
from kernbench.config import NpuConfig, load_config
from kernbench.noc.routers import OPPOSITE, PORTS, Ints, Routers
from kernbench.sim_engine.machine import Machine

ROUTER = 3  #: [cycle] of a flit in a router: route and channel, switch, crossbar

Pattern = Literal["uniform", "transpose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The traffic of every node, and the measured packets: those created in `[warmup, until)`."""

    pattern: Pattern
    rate: float  #: [flits per node and cycle]
    warmup: int = 1000  #: [cycle]
    until: int = 3000
    tail: int = 500  #: [cycle] of traffic after the measured ones
    seed: int = 1

    def packets(self, side: int) -> tuple[Ints, Ints, Ints]:
        """Birth, source and target of every packet, by birth. A node may send to itself."""
        random = np.random.default_rng(self.seed)
        born, source = np.nonzero(random.random((self.until + self.tail, side * side)) < self.rate)
        if self.pattern == "transpose":
            return born, source, source % side * side + source // side
        return born, source, random.integers(0, side * side, len(born))


class MeshTraffic(ComponentBase):
    """A mesh of `Routers` under a `Load`. A hop takes `router` cycles and one on the link; links are the machine's resources.

    Alone, a packet over H links takes `(router + 1) * (H + 1) + 2` cycles: H + 1 routers, H links, in, out, and its birth.
    """

    no_snapshot = "its queues are not saved"

    def __init__(
        self, load: Load, side: int = 8, channels: int = 8, depth: int = 8, router: int = ROUTER, credit: int = 2
    ) -> None:
        super().__init__()
        self.load, self.side, self.router, self.credit = load, side, router, credit
        self.born, self._source, self._target = load.packets(side)
        self.ends = np.full(len(self.born), -1)
        self.routers = Routers(side, channels, depth)
        self.flows, self.jobs = 4 * PORTS * side * side, 1
        self.links = (PORTS + 1) * side * side  #: after each output of each router, then from each node
        self._waiting: list[deque[int]] = [deque() for _ in range(side * side)]
        self._born_next = 0
        self._left = len(self.born)
        self._crossing: list[tuple[int, int, int, int, int]] = []  # flit, link, and its target: router, input, channel
        self._on_link: dict[int, tuple[int, int, int, int, int]] = {}
        self._arriving: dict[int, list[tuple[int, int, int, int, int]]] = {}
        self._freed: dict[int, list[tuple[Ints, Ints, Ints]]] = {}
        self._job = -1

    def step(self, now: int) -> int:
        """One cycle: flits that crossed a switch before are on the links, others arrive, switches are matched."""
        if now == 0:
            self.submit(COMPONENT, 0)
        for hop in self._crossing:
            self._on_link[self.open_flow(1, (hop[1] + 1,))] = hop
        self._inject(now)
        for router, port, channel in self._freed.pop(now, ()):
            np.subtract.at(self.routers.reserved, (router, port, channel), 1)
        arrived = self._arriving.pop(now, None)
        if arrived:
            flit, _, router, port, channel = np.array(arrived).T
            self.routers.put(flit, self._target[flit], router, port, channel)
        self._cross(now)
        return self._next(now)

    def _inject(self, now: int) -> None:
        """Each node puts its oldest packet on its link, if the router has a place."""
        while self._born_next < len(self.born) and self.born[self._born_next] < now:
            self._waiting[self._source[self._born_next]].append(self._born_next)
            self._born_next += 1
        nodes = np.array([node for node, queue in enumerate(self._waiting) if queue], dtype=np.int64)
        if not len(nodes):
            return
        nodes = nodes[self.routers.room(nodes, np.zeros_like(nodes))]
        channels = self.routers.reserve(nodes, np.zeros_like(nodes))
        for node, channel in zip(nodes.tolist(), channels.tolist(), strict=True):
            link = PORTS * self.side * self.side + node
            hop = (self._waiting[node].popleft(), link, node, 0, channel)
            self._on_link[self.open_flow(1, (link + 1,))] = hop

    def _cross(self, now: int) -> None:
        flit, _, router, port, channel, out = self.routers.match()
        self._freed.setdefault(now + self.credit, []).append((router, port, channel))
        onward = out > 0
        to, into = self.routers.next[router, out], OPPOSITE[out]
        place = np.zeros_like(out)
        place[onward] = self.routers.reserve(to[onward], into[onward])
        rows = np.stack((flit, router * PORTS + out, to, into, place), axis=1)
        self._crossing = [(a, b, c if b % PORTS else -1, d, e) for a, b, c, d, e in rows.tolist()]

    def _next(self, now: int) -> int:
        if self._left:
            return now + 1
        if self._job >= 0:
            self.complete(self._job)
            self._job = -1
        return NEVER

    def accept(self, job: Job, now: int) -> int:
        """The only job, which ends when every packet has arrived."""
        self._job = job.id
        return self._next(now)

    def notify(self, notice: int, number: int, now: int) -> int:
        """A flit has passed its link: it is at its node, or may cross the next switch after the cycles before that."""
        if notice == FLOW:
            hop = self._on_link.pop(number)
            if hop[2] < 0:
                self.ends[hop[0]] = now + 1
                self._left -= 1
            else:
                self._arriving.setdefault(now + self.router, []).append(hop)
        return self._next(now)


class Traffic(Protocol):
    """A component that sends packets: the creation and end [cycle] of each packet, and the number of its resources."""

    born: Ints
    ends: Ints
    links: int


def mean_latency(load: Load, slower: Fraction = Fraction(1)) -> float:
    """[cycle] from a packet's birth to its end, on an 8x8 mesh. `slower`: a factor on the time of a hop, for a test that must
    notice it.
    """
    return run_mesh(MeshTraffic(load, router=ceil_div((ROUTER + 1) * slower, 1) - 1), load)


def run_mesh(traffic: Traffic, load: Load) -> float:
    """The mean latency of the measured packets; a link carries one flit of one byte per cycle."""
    config, program = load_config({"max_cycles": 1 << 40}, kind=NpuConfig), Program(f"{load.pattern} {load.rate}")
    plan = plan_npu(program, config)
    capacities = (Fraction(1),) * (traffic.links + 1)  # the first is the channel that every machine has
    names = ("unused", *(f"link{k}" for k in range(traffic.links)))
    table = plan.machine | resource_tables(capacities)
    plan = msgspec.structs.replace(plan, machine=table, resources=names, capacities=capacities)
    machine = Machine(config, program, {"mesh": traffic}, plan=plan)
    machine.run()
    if machine.status != "done":
        raise InternalError(f"noc mesh: {program.name} ends {machine.status}: {machine.failure()}")
    measured = (traffic.born >= load.warmup) & (traffic.born < load.until)
    return float(np.mean(traffic.ends[measured] - traffic.born[measured]))
