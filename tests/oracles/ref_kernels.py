"""Kernels on one NPU or on a system, cycle by cycle, written from docs/model alone: the engines of `reference.py` and
`ref_system.py`, and a kernel on each PE (docs/model/kernels.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .ref_control import Control, Record
from .ref_flit_transfers import FlitSystem
from .ref_geometry import Range, Scratchpad, ceil_div
from .ref_machine import exact
from .ref_pe import Keys, Pe
from .ref_queues import Protocol, Queue, SwitchQueue, slot_addresses
from .ref_system import SystemSimulation
from .ref_system_parts import Hop, Roads
from .ref_tl import Tl
from .reference import Simulation

Kernel = Callable[[Tl], Any]
Links = Mapping[int, Mapping[tuple[int, str], tuple[int, str]]]  # by rank, plane and direction: rank and direction there

SIMPLE = Protocol()


class Through(NamedTuple):
    """A queue through switches. `kind`: REDUCE or MULTICAST; `root` and `members`: ranks; `op`: which combines messages."""

    plane: int
    kind: str
    root: int
    members: tuple[int, ...]
    op: str


class Kernels(Simulation):
    """A run in which every PE has a kernel."""

    ranks: list[Tl]
    order: list[Tl]  # the same in the order of their PEs
    kernel: Kernel

    def run(self) -> dict[str, Any]:
        """Step cycle by cycle to the end: status, cycles and counters as in the result, and the stages of the op log."""
        self.cycle = 0
        while True:
            for tl in self.order:
                tl.pe.report(self.cycle)
            if all(tl.end is not None for tl in self.ranks):
                return self._said("done")
            if self.cycle >= self.machine["max_cycles"]:
                return self._said("aborted")
            for tl in self.order:
                tl.pe.wake(self.cycle)
                tl.resume(self.kernel)
            if self._is_stuck():
                return self._said("deadlock")
            self._start(self.cycle)
            self._share(self.cycle)
            self._bank(self.cycle)
            self._move(self.cycle)
            self._routers(self.cycle)
            self._complete(self.cycle)
            self.cycle += 1

    def _said(self, status: str) -> dict[str, Any]:
        log = sorted(stage for tl in self.ranks for stage in tl.pe.log)
        return {"status": status, "cycles": self.cycle, "stages": log, "counters": self._counters()}

    def _is_stuck(self) -> bool:
        """Whether nothing will happen any more."""
        begun = all(tl.begins < self.cycle for tl in self.ranks)
        ends = any(tl.end == self.cycle for tl in self.ranks)  # the job of a launch ends one cycle after its commands
        over = all(tl.end is not None for tl in self.ranks)
        return begun and not ends and not over and not self._in_flight() and not any(tl.pe.plans for tl in self.ranks)

    def _record_start(self, cycle: int, record: Record, reads: list[Range], writes: list[Range]) -> None:
        record.start = cycle  # tiles may overlap

    def _submit(self, record: Record) -> None:
        super()._submit(record)
        channel = record.entry.get("channel")
        for job in [job for engine in self.dma for job in engine.pending if job.entry is record.entry and channel is not None]:
            keys = self.machine["dma"]["channels"][channel]
            job.channel, job.weight = channel, keys["weight"]
            job.score = keys["priority"] + (self.machine["dma"]["kv_load_bonus"] if channel == "kv_load" else 0)


class NpuKernels(Kernels):
    """One NPU, whose kernel begins one cycle after its launch. `machine` is complete."""

    def __init__(self, machine: dict[str, Any], kernel: Kernel) -> None:
        super().__init__(machine, {"cmdq": []})
        self.kernel = kernel
        self.ranks = self.order = [Tl(Pe(self, "", self.spm, Keys()), None, 1)]


class SystemKernels(Kernels, SystemSimulation):
    """A system, whose PEs `pes` are the ranks. `memory`: an address in every slice and SRAM that kernels use."""

    def __init__(
        self, system: dict[str, Any], pes: Sequence[str], kernel: Kernel, links: Links, memory: Sequence[int], roads: Roads,
        protocol: Protocol = SIMPLE, through: Sequence[Through] = (),
    ) -> None:  # fmt: skip
        keys = system["pe"]
        self.ends = {pe: roads.home(pe, keys["ipcq"]["tier"]) for pe in pes if keys["ipcq"]["tier"] != "tcm"}
        touched = _touches(pes, [*memory, *(sum(ends) // 2 for ends in self.ends.values())])
        self._build(system, {"cmdq": touched}, roads)
        self.control = Control({"cmdq": []}, 0)
        self.kernel = kernel
        limits = {"max_concurrent": keys["ipcq"]["max_concurrent"], "weight": keys["ipcq"]["weight"], "priority": 0}
        self.machine["dma"]["channels"]["comm"] = limits
        self.ranks = []
        for rank, name in enumerate(pes):
            pe = Pe(self, name, Scratchpad(self.machine["spm"]), _keys(keys))
            self.ranks.append(Tl(pe, rank, self._begin_of(name, keys["cpu"]["cycles"])))
        self.order = sorted(self.ranks, key=lambda tl: self.site.parts.pes.index(tl.pe.name))
        self._install(links, keys["ipcq"], protocol)
        for one in through:
            self._install_through(one, keys["ipcq"], protocol)

    def _build(self, system: dict[str, Any], program: dict[str, Any], roads: Roads) -> None:
        SystemSimulation.__init__(self, system, program, roads)

    def _begin_of(self, pe: str, cycles: int) -> int:
        """The cycle in which the kernel of a PE begins."""
        m_cpu = f"{pe.rpartition('.')[0]}.m_cpu"
        way = self.site.roads.command(m_cpu, f"{pe}.pe_cpu")
        return self.site.launch_cycles(m_cpu) + sum(hop.cycles for hop in way) + max(1, cycles)

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

    def __init__(self, mesh: Sequence[Any], *of_system: Any) -> None:
        self.mesh = mesh
        SystemKernels.__init__(self, *of_system)

    def _build(self, system: dict[str, Any], program: dict[str, Any], roads: Roads) -> None:
        FlitSystem.__init__(self, system, program, roads, *self.mesh)

    def _said(self, status: str) -> dict[str, Any]:
        self.count_links(self.cycle)
        return super()._said(status)


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
    found = []
    for pe in pes:
        for opcode in ("DMA_LOAD_TILE", "DMA_STORE_TILE"):
            found += [{"opcode": opcode, "node": pe, "dram_addr": address, **form} for address in memory]
        for peer in pes:
            if peer != pe:
                found.append({"opcode": "DMA_SEND_TILE", "node": pe, "peer": peer, "peer_bank": 0, "peer_offset": 0, **form})
    return found
