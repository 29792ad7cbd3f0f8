"""Machines whose transfers move over routers, written from docs/model/flits.md and docs/model/flit_transfers.md alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

from .ref_control import Record
from .ref_geometry import ceil_div
from .ref_machine import completed, exact
from .ref_system import SystemSimulation
from .ref_system_parts import Roads
from .reference import Simulation

ROUTERS: dict[str, Any] = {
    "flit_bytes": None, "packet_flits": 4, "window_packets": 16, "channels": 8, "depth": 8,
    "switch_cycles": 1, "credit_cycles": 2,
}  # fmt: skip
SIDES = 4
Router = Hashable


@dataclass(eq=False)
class Packet:
    flow: Any
    number: int
    nbytes: int
    flits: int
    segment: int = 0
    hop: int = 0


@dataclass(eq=False)
class Buffer:
    flits: list[tuple[Packet, int]] = field(default_factory=list)
    given: tuple[int, int] | None = None
    accept: int = 0


@dataclass(eq=False)
class Ahead:
    credits: int
    taken: bool = False
    grant: int = 0


@dataclass
class Segment:
    """Terminals where packets enter and leave, each (router, port), and what they take at each router."""

    source: tuple[Router, int]
    hops: list[tuple[Router, int, range]]  # router, output, channels


@dataclass
class Wire:
    """A link: clocks to the arrival without the switch, flits per clock, and the input behind it; None: a terminal."""

    link: int
    rate: Fraction
    behind: tuple[Router, int] | None


def first_from(pointer: int, found: list[int], size: int) -> int:
    return min(found, key=lambda one: (one - pointer) % size)


class Net:
    """Routers with any number of terminals. `ports`: of each router; `wires`: the link of each output."""

    def __init__(self, spec: dict[str, Any], ports: dict[Router, int], wires: dict[tuple[Router, int], Wire]) -> None:
        self.spec, self.ports, self.wires, v = spec, ports, wires, spec["channels"]
        self.before = {wire.behind: at for at, wire in wires.items() if wire.behind is not None}
        every = [(r, p) for r, n in ports.items() for p in range(n)]
        self.terminals = [(r, p) for r, p in every if p >= SIDES]
        self.buffer = {(r, p, k): Buffer() for r, p in every for k in range(v)}
        self.ahead: dict[Any, Ahead] = {(r, p, k): Ahead(spec["depth"]) for r, p in every for k in range(v)}
        self.ahead |= {("in", r, p, k): Ahead(spec["depth"]) for r, p in self.terminals for k in range(v)}
        self.by_channel = dict.fromkeys(every, 0)
        self.by_output = dict.fromkeys(every, 0)
        self.by_input = dict.fromkeys(every, 0)
        self.busy = {at: Fraction(0) for at in wires}
        self.queue: dict[tuple[Router, int], list[Packet]] = {at: [] for at in self.terminals}
        self.sent = dict.fromkeys(self.terminals, 0)
        self.last = dict.fromkeys(self.terminals, v - 1)
        self.due: dict[int, list[tuple[Any, ...]]] = {}
        #: Of each output: flits that left, and clocks of flits without a credit, of heads without a channel, and lost.
        self.count = {at: {"flits": 0, "no_credit": 0, "no_channel": 0, "lost": 0} for at in wires}
        self.ended: list[Packet] = []
        self.held = dict.fromkeys(ports, 0)  # flits in the buffers of a router

    def segments(self, packet: Packet) -> Segment:
        found: Segment = packet.flow.segments[packet.segment]
        return found

    def send(self, packet: Packet) -> None:
        packet.hop = 0
        self.queue[self.segments(packet).source].append(packet)

    def later(self, at: int, *what: Any) -> None:
        self.due.setdefault(at, []).append(what)

    def clock(self, now: int) -> list[Packet]:
        """The packets whose tails are ejected in this clock."""
        self.ended = []
        for kind, at, channel, packet, number in self.due.pop(now, []):
            if kind == "credit":
                self.ahead[(*at, channel)].credits += 1
            elif kind == "flit":
                self.buffer[(*at, channel)].flits.append((packet, number))
                self.held[at[0]] += 1
            else:
                self.later(now + 1 + self.spec["credit_cycles"], "credit", at, channel, None, 0)
                if number == packet.flits - 1:
                    self.ended.append(packet)
        self.inject(now)
        routers = [r for r in self.ports if self.held[r]]
        granted = [grant for r in routers for grant in self.switch(r, now)]
        for r in routers:
            self.channels(r)
        for grant in granted:
            self.depart(*grant, now)
        return self.ended

    def inject(self, now: int) -> None:
        v = self.spec["channels"]
        for at in self.terminals:
            if not self.queue[at]:
                continue
            packet = self.queue[at][0]
            if self.sent[at] == 0:
                order = [(self.last[at] + 1 + k) % v for k in range(v)]
                free = [k for k in order if not self.ahead[("in", *at, k)].taken and self.ahead[("in", *at, k)].credits]
                if not free:
                    continue
                self.last[at] = free[0]
                self.ahead[("in", *at, free[0])].taken = True
            ahead = self.ahead[("in", *at, self.last[at])]
            if not ahead.credits:
                continue
            ahead.credits -= 1
            self.later(now + 1, "flit", at, self.last[at], packet, self.sent[at])
            self.sent[at] += 1
            if self.sent[at] == packet.flits:
                ahead.taken = False
                self.sent[at] = 0
                self.queue[at].pop(0)

    def switch(self, r: Router, now: int) -> list[tuple[Router, int, int, int]]:
        v, n = self.spec["channels"], self.ports[r]
        asks: dict[tuple[int, int], int] = {}
        for port in range(n):
            for output in range(n):
                ready = []
                for k in range(v):
                    b = self.buffer[r, port, k]
                    if not b.flits or b.given is None or b.given[0] != output:
                        continue
                    if self.ahead[r, output, b.given[1]].credits == 0:
                        self.count[r, output]["no_credit"] += 1
                        continue
                    self.count[r, output]["lost"] += 1
                    if now >= self.busy[r, output]:
                        ready.append(k)
                if ready:
                    asks[port, output] = first_from(self.by_channel[r, port], ready, v)
        offers: dict[int, list[int]] = {}
        for output in range(n):
            ports = [port for port in range(n) if (port, output) in asks]
            if ports:
                offers.setdefault(first_from(self.by_output[r, output], ports, n), []).append(output)
        granted = []
        for port, outputs in offers.items():
            output = first_from(self.by_input[r, port], outputs, n)
            channel = asks[port, output]
            self.by_output[r, output] = (port + 1) % n
            self.by_input[r, port] = (output + 1) % n
            self.by_channel[r, port] = (channel + 1) % v
            self.count[r, output]["lost"] -= 1
            granted.append((r, port, channel, output))
        return granted

    def channels(self, r: Router) -> None:
        v, n = self.spec["channels"], self.ports[r]
        wants: dict[int, set[int]] = {}
        for port in range(n):
            for k in range(v):
                b = self.buffer[r, port, k]
                if b.flits and b.given is None:
                    packet = b.flits[0][0]
                    _, output, choice = self.segments(packet).hops[packet.hop]
                    wants[port * v + k] = {output * v + c for c in choice if not self.ahead[r, output, c].taken}
        offers: dict[int, list[int]] = {}
        for number in range(n * v):
            asking = [vc for vc, wanted in wants.items() if number in wanted]
            if asking:
                pointer = self.ahead[r, number // v, number % v].grant
                offers.setdefault(first_from(pointer, asking, n * v), []).append(number)
        for vc in wants.keys() - offers.keys():
            packet = self.buffer[r, vc // v, vc % v].flits[0][0]
            self.count[r, self.segments(packet).hops[packet.hop][1]]["no_channel"] += 1
        for vc, numbers in offers.items():
            b = self.buffer[r, vc // v, vc % v]
            number = first_from(b.accept, numbers, n * v)
            b.accept = (number + 1) % (n * v)
            b.given = number // v, number % v
            ahead = self.ahead[r, number // v, number % v]
            ahead.taken, ahead.grant = True, (vc + 1) % (n * v)

    def depart(self, r: Router, port: int, channel: int, output: int, now: int) -> None:
        b = self.buffer[r, port, channel]
        packet, number = b.flits.pop(0)
        self.held[r] -= 1
        assert b.given is not None
        taken, wire = b.given[1], self.wires[r, output]
        self.ahead[r, output, taken].credits -= 1
        since = self.busy[r, output] if self.busy[r, output] > now - 1 else Fraction(now)
        self.busy[r, output] = since + 1 / wire.rate
        self.count[r, output]["flits"] += 1
        if number == 0:
            packet.hop += 1
        if number == packet.flits - 1:
            self.ahead[r, output, taken].taken, b.given = False, None
        at = now + self.spec["switch_cycles"] + wire.link
        if wire.behind is None:
            self.later(at, "eject", (r, output), taken, packet, number)
        else:
            self.later(at, "flit", wire.behind, taken, packet, number)
        if port >= SIDES:
            self.later(now + 1, "credit", ("in", r, port), channel, None, 0)
        else:
            back = self.before[r, port]
            credit = self.wires[back].link + self.spec["credit_cycles"]
            self.later(now + credit, "credit", back, channel, None, 0)


class Routed(Simulation):
    """A simulation in which transfers move over routers: what differs of P4, P5, P7, and P6b."""

    def set_up(self, net: Net, flit: int, names: dict[tuple[Router, int], str]) -> None:
        """`names`: of the links between routers."""
        self.net, self.flit, self.names = net, flit, names
        self.packet = net.spec["packet_flits"] * flit
        self.window = net.spec["window_packets"] * self.packet
        self.going_on: list[Packet] = []
        #: After each cycle: the flits in the buffer of each input by channel, and the packets that wait at each terminal.
        self.depths: list[tuple[dict[Any, list[int]], dict[Any, int]]] = []

    def route(self, flow: Any) -> None:
        """Sets `segments`, and divides `route` into what it is a member of and, as `over`, links between routers."""
        raise NotImplementedError

    def gives(self, flow: Any) -> bool:
        return not flow.job.is_store

    def row_of(self, flow: Any) -> int:
        """Bytes of a row of banks; 0 where there is none."""
        return self.spm.banks * self.spm.width

    def _submit(self, record: Record) -> None:
        known = [job for engine in self.dma for job in engine.pending]
        super()._submit(record)
        for job in (job for engine in self.dma for job in engine.pending):
            if not any(job is other for other in known):
                for flow in job.flows:
                    flow.entered = flow.packed = flow.ejected = flow.requested = 0
                    flow.full = False
                    self.route(flow)

    def _joined(self, cycle: int) -> list[Any]:
        flows = [flow for flow in self._flows() if cycle >= flow.job.start + flow.job.head]
        return [flow for flow in flows if flow.entered < flow.total and not flow.out and not flow.full]

    def _ask(self, cycle: int) -> None:
        for flow in self._flows():
            if flow.request is not None or not flow.left or cycle < flow.job.start + flow.job.head:
                continue
            rate, carry, den = flow.rate, flow.carry, flow.den
            flow.rate = Fraction(0)
            if self.gives(flow):  # T1
                flow.carry, flow.den = flow.ejected - flow.requested, 1
                flow.ask(cycle, 1 << 60)
                flow.requested += flow.request_bytes if flow.request is not None else 0
            elif flow in self.members:  # T2
                carry += rate.numerator
                flow.carry = min(carry, (self.window - (flow.entered - flow.ejected)) * den)
                flow.ask(cycle, 1 << 60)
                carry -= flow.request_bytes * den if flow.request is not None else 0
                carry = min(carry, den * self.row_of(flow)) if self.row_of(flow) else carry
            flow.rate, flow.carry, flow.den = rate, carry, den

    def _count_bytes(self, flow: Any) -> None:
        """They count when they enter the network, and at its links when they are ejected."""

    def _routers(self, cycle: int) -> None:
        for packet in sorted(self.going_on, key=lambda p: (*_order(p.flow), p.number)):  # T6
            self.net.send(packet)
        self.going_on = []
        for flow in sorted(self._flows(), key=_order):
            if cycle >= flow.job.start + flow.job.head:
                self._enter(flow)
        for packet in self.net.clock(cycle):  # T7
            packet.segment += 1
            if packet.segment < len(packet.flow.segments):
                self.going_on.append(packet)
            else:
                self._eject(packet.flow, packet.nbytes)
        for flow in self._flows():  # T3
            under_way = flow.entered - (flow.total - flow.left if self.gives(flow) else flow.ejected)
            flow.full = self.window - under_way < min(self.packet, flow.total - flow.entered)
            flow.on_its_way = not self.gives(flow) and flow.ejected < flow.total
        inputs = [(router, port) for router, ports in self.net.ports.items() for port in range(ports)]
        every = range(self.net.spec["channels"])
        held = {at: [len(self.net.buffer[(*at, k)].flits) for k in every] for at in inputs}
        self.depths.append((held, {at: len(queue) for at, queue in self.net.queue.items()}))

    def _enter(self, flow: Any) -> None:
        """T4 and T5."""
        served, before = flow.total - flow.left, flow.entered
        if not self.gives(flow):
            flow.entered = served
        elif flow in self.members:
            flow.carry += flow.rate.numerator
            more = min(flow.carry // flow.den, self.window - (flow.entered - served), flow.total - flow.entered)
            flow.entered += more
            flow.carry -= more * flow.den
            flow.carry = min(flow.carry, flow.den * self.row_of(flow)) if self.row_of(flow) else flow.carry
        for name in flow.route:
            self.resource[name]["bytes"] += flow.entered - before
        if not flow.segments:
            self._eject(flow, flow.entered - flow.ejected)
            return
        while flow.packed < flow.entered:
            size = min(self.packet, flow.total - flow.packed)
            if flow.entered - flow.packed < size:
                return
            self.net.send(Packet(flow, flow.packed // self.packet, size, ceil_div(size, self.flit)))
            flow.packed += size

    def _eject(self, flow: Any, nbytes: int) -> None:
        flow.ejected += nbytes
        for name in flow.over:
            self.resource[name]["bytes"] += nbytes

    def _ended(self, flow: Any) -> bool:
        return bool(flow.left == 0 and (self.gives(flow) or flow.ejected == flow.total))

    def slow_links(self) -> None:
        """Links between routers take what is left of their capacity (docs/model/perturbed_runs.md)."""
        for at, name in self.names.items():
            wire = self.net.wires[at]
            wire.rate = min(Fraction(1), self.capacity[name] / self.flit)

    def _result(self, status: str, cycles: int) -> dict[str, Any]:
        self.count_links(cycles)
        return super()._result(status, cycles)

    def count_links(self, cycles: int) -> None:
        """The counters of links between routers, at the end."""
        for at, name in self.names.items():
            flits, rate = self.net.count[at]["flits"], self.net.wires[at].rate
            busy = min(cycles, ceil_div(flits * rate.denominator, rate.numerator))
            self.resource[name]["busy"] = self.resource[name]["member_cycles"] = busy
            self.resource[name] |= self.net.count[at]


def _order(flow: Any) -> tuple[int, int, int]:
    return flow.job.engine, flow.job.seq, flow.channel


def _spec(given: dict[str, Any] | None) -> dict[str, Any]:
    return {**ROUTERS, **(given or {})}


def _link_clocks(spec: dict[str, Any], latency: int) -> int:
    return max(1, latency - 1 - int(spec["switch_cycles"]))


def _flit(spec: dict[str, Any], link: Fraction) -> int:
    return int(spec["flit_bytes"] or ceil_div(link.numerator, link.denominator))


class FlitSimulation(Routed):
    """One NPU with a mesh."""

    def __init__(self, machine: dict[str, Any], program: dict[str, Any]) -> None:
        super().__init__(machine, program)
        noc = machine["noc"]
        spec, link = _spec(noc.get("flit")), exact(noc["link_bytes_per_cycle"])
        flit = _flit(spec, link)
        beside: dict[Router, list[str]] = {(r, c): [] for r in range(noc["rows"]) for c in range(noc["cols"])}
        for kind, key in (("dma", "dma_at"), ("dram.ch", "dram_at")):
            for k, (r, c) in enumerate(noc[key]):
                beside[r, c].append(f"{kind}{k}")
        wires: dict[tuple[Router, int], Wire] = {}
        names: dict[tuple[Router, int], str] = {}
        for r, c in beside:  # type: ignore[misc]
            for side, (dr, dc) in enumerate(((0, 1), (0, -1), (1, 0), (-1, 0))):
                there = (r + dr, c + dc)
                if there in beside:
                    wires[(r, c), side] = Wire(
                        _link_clocks(spec, noc["hop_latency_cycles"]), min(Fraction(1), link / flit), (there, side ^ 1)
                    )
                    names[(r, c), side] = f"noc.r{r}c{c}-r{there[0]}c{there[1]}"
        self.port = {name: (at, SIDES + k) for at, found in beside.items() for k, name in enumerate(found)}
        wires |= {at: Wire(1, Fraction(1), None) for at in self.port.values()}
        self.set_up(Net(spec, {at: SIDES + len(found) for at, found in beside.items()}, wires), flit, names)

    def route(self, flow: Any) -> None:
        flow.over = flow.route[1:]
        flow.route = flow.route[:1]
        ends = [self.port[f"dram.ch{flow.channel}"], self.port[f"dma{flow.job.engine}"]]
        source, target = ends[::-1] if flow.job.is_store else ends
        side = {name: at for at, name in self.names.items()}
        every = range(self.net.spec["channels"])
        hops = [(*side[name], every) for name in flow.over]
        flow.segments = [Segment(source, [*hops, (*target, every)])]
        flow.job.head = self.machine["dram"]["t_setup_cycles"]


class FlitSystem(Routed, SystemSimulation):
    """A system. `links`: (router, router, side, latency, bandwidth); `beside`: of each router its terminals in order."""

    def __init__(
        self, system: dict[str, Any], program: dict[str, Any], roads: Roads,
        links: Sequence[tuple[str, str, int, int, Fraction]], beside: dict[str, list[str]],
    ) -> None:  # fmt: skip
        SystemSimulation.__init__(self, system, program, roads)
        mesh = system["cube"]["mesh"]
        spec, link = _spec(mesh.get("flit")), exact(mesh.get("link", {}).get("bytes_per_cycle", 128))
        flit = _flit(spec, link)
        wires: dict[tuple[Router, int], Wire] = {}
        self.names: dict[tuple[Router, int], str] = {}
        for a, b, side, latency, bandwidth in links:
            wires[a, side] = Wire(_link_clocks(spec, latency), min(Fraction(1), bandwidth / flit), (b, side ^ 1))
            self.names[a, side] = f"{a}-{b}"
        self.port = {(at, name): SIDES + k for at, found in beside.items() for k, name in enumerate(found)}
        wires |= {(at, port): Wire(1, Fraction(1), None) for (at, _), port in self.port.items()}
        used = {at: name for at, name in self.names.items() if name in self.resource}
        self.set_up(Net(spec, {at: SIDES + len(found) for at, found in beside.items()}, wires), flit, used)
        self.side = {f"{a}-{b}": (a, side) for a, b, side, _, _ in links}
        self.hops: Sequence[Any] = ()
        limits = self.site.limits

        def kept(hops: Sequence[Any]) -> tuple[str, ...]:
            self.hops = hops
            return limits(hops)

        self.site.limits = kept  # type: ignore[method-assign]

    def gives(self, flow: Any) -> bool:
        return not flow.job.is_store or "peer" in flow.job.entry

    def row_of(self, flow: Any) -> int:
        return 0 if flow.job.entry["opcode"] == "HOST_COPY_TILE" else self.spm.banks * self.spm.width

    def route(self, flow: Any) -> None:
        flow.over = tuple(name for name in flow.route if name in self.side)
        flow.route = tuple(name for name in flow.route if name not in self.side)
        v = self.net.spec["channels"]
        nodes = [hop.name.partition("-")[0] for hop in self.hops] + [self.hops[-1].name.partition("-")[2]]
        flow.segments, path, before = [], [], ""
        for node in nodes:
            if node in self.net.ports:
                path.append(node)
                continue
            if path:
                flow.segments.append(self._segment(before, path, node, v))
            path, before = [], node
        if flow is flow.job.flows[0]:
            flow.job.head -= sum(hop.cycles for hop in self.hops if hop.name in self.side)

    def _segment(self, before: str, path: list[str], behind: str, v: int) -> Segment:
        hops: list[tuple[Router, int, range]] = []
        turned = column = False
        for a, b in pairwise(path):
            at, side = self.side[f"{a}-{b}"]
            turned = turned or (side < 2 and column)
            column = side >= 2
            hops.append((at, side, range(v // 2, v) if turned else range(v // 2)))
        hops.append((path[-1], self.port[path[-1], behind], range(v)))
        return Segment((path[0], self.port[path[0], before]), hops)


def simulate_flits(machine: dict[str, Any], program: dict[str, Any]) -> dict[str, Any]:
    """Run a program on an NPU whose `noc.model` is flit."""
    return FlitSimulation(completed(machine), program).run()
