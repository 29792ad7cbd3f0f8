"""Kernels on one NPU or on a system, cycle by cycle, written from docs/model alone: the engines of `reference.py` and
`ref_system.py`, and a kernel on each PE (docs/model/kernels.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .ref_control import Control, Record
from .ref_flit_transfers import FlitSystem
from .ref_geometry import Range, Scratchpad, ceil_div
from .ref_machine import exact
from .ref_pe import Keys, Pe
from .ref_queues import Protocol, Queue, SwitchQueue, slot_addresses
from .ref_system import SystemSimulation
from .ref_system_parts import Hop, Roads
from .ref_tl import Launch, Share, Tl
from .reference import Simulation

Links = Mapping[int, Mapping[tuple[int, str], tuple[int, str]]]  # by rank, plane and direction: rank and direction there

SIMPLE = Protocol()
CHANNELS = ("act_weight", "kv_load", "kv_store", "comm")


class Through(NamedTuple):
    """A queue through switches. `kind`: REDUCE or MULTICAST; `root` and `members`: ranks; `op`: which combines messages."""

    plane: int
    kind: str
    root: int
    members: tuple[int, ...]
    op: str


class Host:
    """The host's program: launches, one after the other."""

    def __init__(self, run: Kernels, launches: Sequence[Launch], waits: bool = False) -> None:
        """`waits`: for all launches, after the last one."""
        self.run, self.launches, self.waits = run, launches, waits
        self.returned: int | None = None  # in this cycle
        self.issued: list[int] = []  # cycles
        self.shares: list[list[Share]] = []  # of each launch, in the order of its ranks
        self.passed: list[tuple[Record, list[tuple[Tl, Share]]]] = []  # jobs of M_CPUs, and what follows
        self.due: list[tuple[int, Tl, Share]] = []  # on the way from an M_CPU to a processor

    def is_over(self, number: int) -> bool:
        """Whether the jobs of all PEs of a launch have ended, one cycle after their last commands."""
        return all(share.end is not None and share.end < self.run.cycle for share in self.shares[number])

    @property
    def finished(self) -> bool:
        """Whether it has returned in an earlier cycle, and all launches are over."""
        return self.returned is not None and self.returned < self.run.cycle and self._all_over

    @property
    def _all_over(self) -> bool:
        return all(self.is_over(number) for number in range(len(self.issued)))

    def report(self) -> None:
        """P7 of the cycle before: a launch has ended in an M_CPU, which passes it to PEs."""
        for record, shares in [one for one in self.passed if one[0].end == self.run.cycle]:
            self.passed.remove((record, shares))
            for tl, share in shares:
                number = next(i for i, launch in enumerate(self.shares) if share in launch)
                self.due.append((self.run.arrival(tl, self.run.cycle + self.run.way_to(tl), number), tl, share))

    def resume(self) -> None:
        """P1, before all PEs: launches arrive at processors, and the host's program goes on."""
        cycle = self.run.cycle
        for one in [one for one in self.due if one[0] == cycle]:
            self.due.remove(one)
            one[1].arrived.append(one[2])
            one[1].pe.acted = cycle
        while len(self.issued) < len(self.launches):
            launch = self.launches[len(self.issued)]
            if not all(self.is_over(number) for number in launch.after):
                return
            self.issued.append(cycle)
            self.shares.append([Share(launch) for _ in launch.ranks])
            pairs = [(self.run.ranks[rank], share) for rank, share in zip(launch.ranks, self.shares[-1], strict=True)]
            for m_cpu in dict.fromkeys(self.run.m_cpu_of(tl) for tl, _ in pairs):
                own = [(tl, share) for tl, share in pairs if self.run.m_cpu_of(tl) == m_cpu]
                if not m_cpu:
                    for tl, share in own:
                        tl.arrived.append(share)
                    continue
                record = Record(0, {"opcode": "LAUNCH", "node": m_cpu, "id": 0, "counts": 0})
                self.run.record_of[id(record.entry)] = record
                self.passed.append((record, own))
                self.run._submit(record)
        if self.returned is None and (self._all_over or not self.waits):
            self.returned = cycle

    def times(self) -> list[tuple[int, list[tuple[int | None, int | None]]]]:
        """Of every launch the cycle of its issue, and of its ranks the start and the end."""
        return [(at, [(one.start, one.end) for one in shares]) for at, shares in zip(self.issued, self.shares, strict=True)]


class Kernels(Simulation):
    """A run in which PEs run kernels."""

    ranks: list[Tl]
    order: list[Tl]  # the same in the order of their PEs
    host: Host
    moved: dict[str, int]  # transfers that were submitted, by PE and number of the channel

    def memory_of(self, address: int) -> Any:
        """The memory, or slice of HBM, that holds a byte."""
        return None

    def way_to(self, tl: Tl) -> int:
        """[cycle] From the M_CPU to a processor."""
        return 0

    def arrival(self, tl: Tl, at: int, number: int) -> int:
        """The cycle in which a launch arrives at a processor: perturbed runs delay it."""
        return at

    def m_cpu_of(self, tl: Tl) -> str:
        """What passes launches to a PE; empty for a single NPU."""
        return ""

    def run(self) -> dict[str, Any]:
        """Step cycle by cycle to the end: status, cycles and counters as in the result, the stages of the op log, and the times
        of launches."""
        self.cycle = 0
        while True:
            for tl in self.order:
                tl.pe.report(self.cycle)
            self.host.report()
            if self.host.finished:
                return self._said("done")
            if self.cycle >= self.machine["max_cycles"]:
                return self._said("aborted")
            self.host.resume()
            for tl in self.order:
                tl.pe.wake(self.cycle)
                tl.resume()
            if self._is_stuck():
                return self._said("deadlock")
            for tl in self.order:
                tl.accept()
            self._start(self.cycle)
            self._share(self.cycle)
            self._bank(self.cycle)
            self._move(self.cycle)
            self._routers(self.cycle)
            self._complete(self.cycle)
            self.cycle += 1

    def _said(self, status: str) -> dict[str, Any]:
        log = sorted(stage for tl in self.ranks for stage in tl.pe.log)
        said = {"status": status, "cycles": self.cycle, "stages": log, "counters": self._counters()}
        return said | {"launches": self.host.times()}

    def _is_stuck(self) -> bool:
        """Whether nothing will happen any more."""
        works = bool(self.host.due) or self.host.returned == self.cycle or any(tl.works for tl in self.ranks)
        works |= any(tl.arrived and tl.pe.acted == self.cycle for tl in self.ranks)  # a launch is offered, and refused
        return not works and not self._in_flight() and not any(tl.pe.plans for tl in self.ranks)

    def _record_start(self, cycle: int, record: Record, reads: list[Range], writes: list[Range]) -> None:
        record.start = cycle  # tiles may overlap

    def _submit(self, record: Record) -> None:
        super()._submit(record)
        channel = record.entry.get("channel")
        for job in [job for engine in self.dma for job in engine.pending if job.entry is record.entry and channel is not None]:
            keys = self.machine["dma"]["channels"][channel]
            job.channel, job.weight = channel, keys["weight"]
            job.score = keys["priority"] + (self.machine["dma"]["kv_load_bonus"] if channel == "kv_load" else 0)
            name = f"{record.entry.get('node', 'pe0')} {CHANNELS.index(channel)}"
            job.number = name, self.moved.get(name, 0)
            self.moved[name] = self.moved.get(name, 0) + 1


class NpuKernels(Kernels):
    """One NPU, whose kernels begin one cycle after their launches. `machine` is complete."""

    def __init__(self, machine: dict[str, Any], launches: Sequence[Launch]) -> None:
        super().__init__(machine, {"cmdq": []})
        self.ranks = self.order = [Tl(Pe(self, "", self.spm, Keys()), None, 0)]
        self.host, self.moved = Host(self, launches), {}


class SystemKernels(Kernels, SystemSimulation):
    """A system, whose PEs `pes` are the ranks. `memory`: an address in every slice and SRAM that kernels use."""

    def __init__(
        self, system: dict[str, Any], pes: Sequence[str], launches: Sequence[Launch], links: Links, memory: Sequence[int],
        roads: Roads, protocol: Protocol = SIMPLE, through: Sequence[Through] = (), waits: bool = False,
    ) -> None:  # fmt: skip
        keys = system["pe"]
        self.ends = {pe: roads.home(pe, keys["ipcq"]["tier"]) for pe in pes if keys["ipcq"]["tier"] != "tcm"}
        touched = _touches(pes, [*memory, *(sum(ends) // 2 for ends in self.ends.values())])
        self._build(system, {"cmdq": touched}, roads)
        self.control = Control({"cmdq": []}, 0)
        self.host, self.moved = Host(self, launches, waits), {}
        limits = {"max_concurrent": keys["ipcq"]["max_concurrent"], "weight": keys["ipcq"]["weight"], "priority": 0}
        self.machine["dma"]["channels"]["comm"] = limits
        self.ranks = []
        for rank, name in enumerate(pes):
            pe = Pe(self, name, Scratchpad(self.machine["spm"]), _keys(keys))
            self.ranks.append(Tl(pe, rank, keys["cpu"]["cycles"]))
        self.order = sorted(self.ranks, key=lambda tl: self.site.parts.pes.index(tl.pe.name))
        self._install(links, keys["ipcq"], protocol)
        for one in through:
            self._install_through(one, keys["ipcq"], protocol)

    def _build(self, system: dict[str, Any], program: dict[str, Any], roads: Roads) -> None:
        SystemSimulation.__init__(self, system, program, roads)

    def memory_of(self, address: int) -> Any:
        return self.site.roads.memory(address)

    def m_cpu_of(self, tl: Tl) -> str:
        return _m_cpu(tl.pe.name)

    def way_to(self, tl: Tl) -> int:
        return sum(hop.cycles for hop in self.site.roads.command(_m_cpu(tl.pe.name), f"{tl.pe.name}.pe_cpu"))

    def _install(self, links: Links, keys: dict[str, Any], protocol: Protocol) -> None:
        """Queues in the order of their senders, planes and directions; slots in the order of queues."""
        free = dict(self.ends.values())
        for rank, (plane, way) in sorted((rank, port) for rank, ports in links.items() for port in ports):
            other, there = links[rank][plane, way]
            sender, receiver = self.ranks[rank].pe, self.ranks[other].pe
            nbytes = protocol.travel(keys["slot_bytes"])
            if keys["tier"] == "tcm":
                slots = _slots_in(receiver, keys, nbytes)
            else:
                start, align = self.ends[receiver.name][0], self.machine["dma"]["alignment_bytes"]
                nbytes = ceil_div(nbytes, align) * align
                free[start] = free[start] // align * align - nbytes * keys["slots"]
                slots = slot_addresses(free[start], keys["slots"], nbytes)
            credit = self._credit(keys, receiver, [sender])
            queue = Queue(sender, receiver, keys["tier"], slots, credit, protocol)
            self.ranks[rank].queues_out[plane, way] = queue.send
            self.ranks[other].queues_in[plane, there] = queue.inbox

    def _way(self, source: Pe, target: Pe) -> list[Hop]:
        return list(self.site.roads.between(f"{source.name}.pe_dma", f"{target.name}.pe_dma"))

    def _credit(self, keys: dict[str, Any], receiver: Pe, senders: Sequence[Pe]) -> int:
        """Cycles that a credit takes; several senders: over the longest route."""
        return max(1, keys["credit_cycles"] + max(sum(hop.cycles for hop in self._way(receiver, one)) for one in senders))

    def _install_through(self, form: Through, keys: dict[str, Any], protocol: Protocol) -> None:
        """A queue through switches; its slots follow those of other queues."""
        members, root = [self.ranks[rank].pe for rank in form.members], self.ranks[form.root].pe
        others = [pe for pe in members if pe is not root]
        reduces = form.kind == "REDUCE"
        nbytes = protocol.travel(keys["slot_bytes"])
        slots = {pe.name: _slots_in(pe, keys, nbytes) for pe in ([root] if reduces else others)}
        if reduces:
            backs = {root.name: self._credit(keys, root, others)}
            ways = [self._way(pe, root) for pe in others]
            own = self._way(root, others[0])
            passed = [{hop.name.partition("-")[2] for hop in way} for way in ways]
            ends = [hop.name.partition("-")[2] for hop in own]
            first = next(i for i, end in enumerate(ends) if end.startswith("switch") and all(end in way for way in passed))
            ways.append(own[: first + 1])
        else:
            backs = {pe.name: self._credit(keys, pe, [root]) for pe in others}
            ways = [self._way(root, pe) for pe in others]
        hops = list({hop.name: hop for way in ways for hop in way}.values())
        head = max(sum(hop.cycles for hop in way) for way in ways)
        queue = SwitchQueue(form.kind, members, root, slots, backs, hops, head, form.op, protocol)
        for rank in form.members if reduces else (form.root,):
            self.ranks[rank].queues_out[form.plane, form.kind] = queue.send_of(self.ranks[rank].pe)
        for tl in self.ranks:
            if tl.pe.name in queue.inboxes:
                tl.queues_in[form.plane, form.kind] = queue.inboxes[tl.pe.name]


class FlitKernels(SystemKernels, FlitSystem):
    """The same on a mesh of routers. `mesh`: its links and terminals, as for `FlitSystem`."""

    def __init__(self, mesh: Sequence[Any], **of_system: Any) -> None:
        self.mesh = mesh
        SystemKernels.__init__(self, **of_system)

    def _build(self, system: dict[str, Any], program: dict[str, Any], roads: Roads) -> None:
        FlitSystem.__init__(self, system, program, roads, *self.mesh)

    def _said(self, status: str) -> dict[str, Any]:
        self.count_links(self.cycle)
        return super()._said(status)


def _m_cpu(pe: str) -> str:
    return f"{pe.rpartition('.')[0]}.m_cpu"


def _slots_in(receiver: Pe, keys: dict[str, Any], nbytes: int) -> list[int]:
    """Slots of whole lines in the scratchpad of a receiver."""
    nbytes = ceil_div(nbytes, receiver.spm.width) * receiver.spm.width
    return slot_addresses(receiver.allocate(nbytes * keys["slots"]), keys["slots"], nbytes)


def _keys(pe: dict[str, Any]) -> Keys:
    rate = pe["fetch_store"].get("bytes_per_cycle")
    return Keys(
        pe["scheduler"]["cycles"], pe["scheduler"]["queue_depth"], pe["fetch_store"]["cycles"],
        None if rate is None else exact(rate), pe["ipcq"]["cycles"],
    )  # fmt: skip


def _touches(pes: Sequence[str], memory: Sequence[int]) -> list[dict[str, Any]]:
    """An entry for each route that transfers of kernels may take."""
    form = {"tensor_role": "weight", "qbits": 8, "num_elements": 1, "spm_bank": 0, "spm_offset": 0}
    found: list[dict[str, Any]] = [{"opcode": "LAUNCH", "node": _m_cpu(pe)} for pe in pes]
    for pe in pes:
        for opcode in ("DMA_LOAD_TILE", "DMA_STORE_TILE"):
            found += [{"opcode": opcode, "node": pe, "dram_addr": address, **form} for address in memory]
        for peer in pes:
            if peer != pe:
                found.append({"opcode": "DMA_SEND_TILE", "node": pe, "peer": peer, "peer_bank": 0, "peer_offset": 0, **form})
    return found
