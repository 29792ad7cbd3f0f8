"""What a transfer of a system asks, and of whom: HBM, SRAM, another scratchpad, the host (docs/model/systems.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from .ref_banks import Request
from .ref_cache import Cache
from .ref_controller import controller_bursts
from .ref_dma import DmaJob, Flow, missed_runs, pieces_by_source
from .ref_geometry import aligned_rows, byte_count, ceil_div, dram_rows, pieces_by_channel
from .ref_rows import bursts_by_channel
from .ref_system_parts import Hop, Pad, Parts, Roads, node_of, sections, waits

HOST_LINE = 64  # bytes that a host copy moves at once: no scratchpad cuts them


class Part(NamedTuple):
    """Bytes that move together, and the banks they read and write."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    nbytes: int


class SystemFlow(Flow):
    """A flow whose parts may ask banks of two scratchpads, or of none."""

    def __init__(self, job: DmaJob, channel: int, parts: list[Part], route: tuple[str, ...], dram: str | None) -> None:
        super().__init__(job, channel, [(-1, part.nbytes) for part in parts], route)
        self.parts = parts
        self.dram = dram

    def ask(self, cycle: int, row_of_banks: int) -> None:
        """A member cycle without a held request: as on one NPU, but that no bank of either scratchpad has two parts."""
        self.carry += self.rate.numerator
        run: list[Part] = []
        for part in self.parts[self.next :]:
            asked = {bank for one in run for bank in one.reads + one.writes}
            reaches = sum(one.nbytes for one in run) + part.nbytes <= self.carry // self.den
            if not reaches or asked.intersection(part.reads + part.writes):
                break
            run.append(part)
        if run:
            order = (0, self.job.engine, self.job.seq, self.channel)
            reads = [bank for part in run for bank in part.reads]
            self.request = Request(order, reads, [bank for part in run for bank in part.writes], cycle)
            self.request_bytes = sum(part.nbytes for part in run)
            self.next += len(run)
            self.carry -= self.request_bytes * self.den
        if self.parts[0].reads or self.parts[0].writes:  # a host copy has no row of banks
            self.carry = min(self.carry, self.den * row_of_banks)


class Behind(NamedTuple):
    """Where the bytes of a transfer are that goes through a last-level cache."""

    rows: list[tuple[int, int]]
    start: int
    width: int
    memory: str
    first: int  # channel of its slice
    links: tuple[str, ...]
    pad: Pad | None
    hops: int  # [cycle]
    machine: dict[str, Any]


def cache_name(memory: str) -> str:
    """The cache before a stack."""
    return f"{memory.rpartition('.')[0]}.llc"


class Site:
    """A system as jobs see it: its parts, routes and resources."""

    def __init__(self, system: dict[str, Any], program: dict[str, Any], roads: Roads) -> None:
        self.machine = sections(system)
        self.waits = waits(system)
        self.roads = roads
        self.parts = Parts(program, roads.endpoints())
        self.pads = {pe: Pad(self.machine["spm"], i) for i, pe in enumerate(self.parts.pes)}
        self.capacity: dict[str, Fraction] = {}  # of every edge that a transfer of the program takes
        self.slices: set[tuple[str, int]] = set()  # that it touches

    def dma_number(self, entry: dict[str, Any]) -> int:
        """The place of the entry's DMA engine among all: PEs first, then endpoints."""
        node, engines = self.node(entry), self.machine["dma"]["engines"]
        if entry["opcode"] == "HOST_COPY_TILE":
            return len(self.parts.pes) * int(engines) + self.parts.endpoints.index(node)
        return self.parts.pes.index(node) * int(engines) + int(entry.get("dma_id", 0))

    def node(self, entry: dict[str, Any]) -> str:
        """Who runs it."""
        return node_of(entry, self.roads.endpoints())

    def limits(self, hops: Sequence[Hop]) -> tuple[str, ...]:
        """The resources of a route: its edges that have a bandwidth."""
        limiting = [hop for hop in hops if hop.bytes_per_cycle is not None]
        self.capacity.update({hop.name: hop.bytes_per_cycle for hop in limiting})
        return tuple(hop.name for hop in limiting)

    def launch_cycles(self, m_cpu: str) -> int:
        """Cycles of a launch from the host to the end of it in the M_CPU."""
        return max(1, sum(hop.cycles for hop in self.roads.launch(m_cpu)) + sum(self.waits.values()))


class SystemJob(DmaJob):
    """A DMA entry of a system: all that admission and the phases look at is as on one NPU."""

    def __init__(self, entry: dict[str, Any], seq: int, site: Site) -> None:
        dma, opcode = site.machine["dma"], entry["opcode"]
        is_kv = opcode.startswith("KV_") or entry.get("tensor_role") == "kv"
        self.entry = entry
        self.seq = seq
        self.engine = site.dma_number(entry)
        self.is_store = "STORE" in opcode or "SEND" in opcode or entry.get("direction") == "to_device"
        self.channel = "act_weight" if not is_kv else "kv_store" if self.is_store else "kv_load"
        self.score = dma["channels"][self.channel]["priority"]
        if self.channel == "kv_load":
            self.score += dma["kv_load_bonus"]
        self.kv_key = None
        if opcode == "KV_STORE_TILE":
            self.kv_key = (entry["dram_base_addr"], entry["head_id"], entry["kv_kind"])
        self.weight = dma["channels"][self.channel]["weight"]
        self.number = "", 0
        self.stall_reason = None
        self.start = -1
        self.head = 0
        self.flows: list[Flow] = []
        self.cache = ""  # the name of the one before its memory
        self.ratio = Fraction(1)  # systems have no codecs
        if "peer" in entry:
            self._between(site)
        elif opcode == "HOST_COPY_TILE":
            self._copy(site)
        else:
            self._move(site)

    def _between(self, site: Site) -> None:
        entry, node = self.entry, site.node(self.entry)
        own, peer = site.pads[node], site.pads[entry["peer"]]
        nbytes = byte_count(entry["num_elements"], entry["qbits"])
        here, there = own.flat(entry["spm_bank"], entry["spm_offset"]), peer.flat(entry["peer_bank"], entry["peer_offset"])
        ranges = [(here, here + nbytes)], [(there, there + nbytes)]
        self.reads, self.writes = ranges if self.is_store else (ranges[1], ranges[0])
        ends = [f"{node}.pe_dma", f"{entry['peer']}.pe_dma"]
        hops = entry.get("hops")  # of a message through switches
        if hops is None:
            hops = site.roads.between(*(ends if self.is_store else ends[::-1]))
        parts = []
        for i in range(ceil_div(nbytes, own.width)):
            banks = (own.bank_of_line(here // own.width + i),), (peer.bank_of_line(there // own.width + i),)
            reads, writes = banks if self.is_store else (banks[1], banks[0])
            parts.append(Part(reads, writes, min(own.width, nbytes - i * own.width)))
        self.head = entry.get("head", sum(hop.cycles for hop in hops))
        self.flows.append(SystemFlow(self, 0, parts, site.limits(hops), None))

    def _copy(self, site: Site) -> None:
        entry, endpoint = self.entry, site.node(self.entry)
        self.reads, self.writes = [], []
        nbytes = byte_count(entry["num_elements"], entry["qbits"])
        rows = aligned_rows([(entry["dram_addr"], nbytes)], site.machine["dma"]["alignment_bytes"])
        address = rows[0][0]
        if entry["direction"] == "to_device":
            hops = [*site.roads.between("host", endpoint), *site.roads.to_memory(endpoint, address)]
        else:
            hops = [*site.roads.from_memory(endpoint, address), *site.roads.between(endpoint, "host")]
        self.head = site.waits["pcie_ep"]
        self._flows(site, rows, 0, HOST_LINE, hops)

    def _move(self, site: Site) -> None:
        entry, node = self.entry, site.node(self.entry)
        pad = site.pads[node]
        rows = aligned_rows(dram_rows(entry, site.machine["kv_layouts"]), site.machine["dma"]["alignment_bytes"])
        start = pad.flat(entry["spm_bank"], entry["spm_offset"])
        self.range = (start, start + sum(nbytes for _, nbytes in rows))
        self.reads, self.writes = ([self.range], []) if self.is_store else ([], [self.range])
        way = site.roads.to_memory if self.is_store else site.roads.from_memory
        self._flows(site, rows, start, pad.width, way(f"{node}.pe_dma", rows[0][0]), pad)

    def _flows(
        self, site: Site, rows: list[tuple[int, int]], start: int, width: int, hops: Sequence[Hop], pad: Pad | None = None
    ) -> None:
        """The flows between a memory and lines of a scratchpad, or of none."""
        memory, slice_ = site.roads.memory(rows[0][0])
        dram = site.machine["dram"]
        links = site.limits(hops)
        self.head += sum(hop.cycles for hop in hops)
        channels = 1
        if slice_ is not None:
            site.slices.add((memory, slice_))
            channels = dram["channels"]
            self.head += dram["t_setup_cycles"]
            if site.machine["llc"] is not None:  # what its flows are is decided when it starts
                self.cache = cache_name(memory)
                hop = self.head - dram["t_setup_cycles"]
                self.behind = Behind(rows, start, width, memory, slice_ * channels, links, pad, hop, site.machine)
                return
        for channel, pieces in sorted(pieces_by_channel(rows, start, width, channels, dram["interleave_bytes"]).items()):
            parts = [self._part(line, nbytes, pad) for line, nbytes in pieces]
            name = None if slice_ is None else f"{memory}.ch{slice_ * channels + channel}"
            route = links if name is None else (name, *links)
            flow = SystemFlow(self, channel, parts, route, name)
            if name is not None and site.machine["allocation"] == "row_buffer_v1":
                flow.bursts = bursts_by_channel(rows, dram)[channel]
            if name is not None and site.machine["allocation"] == "row_buffer_v2":
                flow.bursts = controller_bursts(rows, dram)[channel]
            self.flows.append(flow)

    def look_up(self, cache: Cache) -> None:
        """P3: its lookups, and the flows that follow."""
        at = self.behind
        dram, heads = at.machine["dram"], []

        def name(address: int) -> str:
            return f"{at.memory}.ch{at.first + address // dram['interleave_bytes'] % dram['channels']}"

        stores = self.is_store or self.entry.get("direction") == "to_device"
        found = cache.look_up(at.rows, stores, name)
        number = dram["channels"]
        for channel, pieces in sorted(pieces_by_source(found, at.start, at.width, dram, number).items()):
            own = None if channel == number else f"{at.memory}.ch{at.first + channel}"
            parts = [self._part(line, nbytes, at.pad) for line, nbytes in pieces]
            route = (cache.name, *at.links) if own is None else (own, cache.name, *at.links)
            heads.append(at.machine["llc"]["latency_cycles"] if own is None else dram["t_setup_cycles"])
            flow = SystemFlow(self, channel, parts, route, own)
            if own is not None and at.machine["allocation"] == "row_buffer_v1":
                flow.bursts = bursts_by_channel(missed_runs(found), dram)[channel]
            if own is not None and at.machine["allocation"] == "row_buffer_v2":
                flow.bursts = controller_bursts(missed_runs(found), dram)[channel]
            self.flows.append(flow)
        self.head = at.hops + max(heads)

    def _part(self, line: int, nbytes: int, pad: Pad | None) -> Part:
        banks = () if pad is None else (pad.bank_of_line(line),)
        return Part(banks, (), nbytes) if self.is_store else Part((), banks, nbytes)


def moves(program: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Entries that a DMA engine runs."""
    return (e for e in program["cmdq"] if e["opcode"].startswith(("DMA_", "KV_")) or e["opcode"] == "HOST_COPY_TILE")
