"""Lowers a program on a system to the core's tables: only the nodes that its entries name are in them, or the whole system.

Engines stand PE by PE in the order of the topology: DMA engines, behind them those of PCIe endpoints; tensor engines, vector
engines, then M_CPUs. Scratchpads are those of the PEs; one more stands for what has no banks to ask, at endpoints and M_CPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench.cmdq.entries import Entry, HostEntry, PairEntry
from kernbench.cmdq.footprint import KV_LOAD, KV_STORE, ServiceTime, bytes_of, flat_address, transfer_of
from kernbench.cmdq.lower import (
    ALLOCATIONS,
    KINDS,
    OVERLAPS,
    ComputeRow,
    Groups,
    column,
    compute_row,
    dma_table,
    program_tables,
    resource_tables,
    scratchpad_table,
    transfer_row,
)
from kernbench.cmdq.plan import Plan
from kernbench.cmdq.program import Program
from kernbench.cmdq.system.check import check_on_system, host_range
from kernbench.cmdq.system.places import ELSEWHERE, PePlace, Places
from kernbench.cmdq.system.reach import Reach
from kernbench.cmdq.system.routes import Resources, Ways, launch_cycles, resources_of
from kernbench.common import naming
from kernbench.config import SystemConfig

#: Nothing is ever denied here: every lane finds a port, and a row is more than any link moves in a cycle.
WITHOUT_BANKS = {
    "banks": 64, "line": 64, "bank_lines": 1, "blocked": False, "split": False, "ports": (1 << 20, 1), "penalty": 1,
    "max_wait": 8, "backpressure": 8, "nowhere": True,
}  # fmt: skip


def lower_system(program: Program, config: SystemConfig, *, whole: bool = False) -> Plan:
    """The plan of a program on a system; InputError where it is not valid there. `whole`: with every node of the system."""
    places = Places(config)
    check_on_system(program, places)
    return _Lowering(program.entries, places, whole).plan()


class _Lowering:
    """The nodes in use, numbered, and the rows of the entries that use them."""

    def __init__(self, entries: Sequence[Entry], places: Places, whole: bool) -> None:
        self.entries = entries
        self.places = places
        self.ways = Ways(places)
        self.node = [places.node_of(entry) if entry.engine != "control" else "" for entry in entries]
        named = {n for entry, n in zip(entries, self.node, strict=True) if n and entry.opcode not in ELSEWHERE}
        named |= {entry.peer for entry in entries if isinstance(entry, PairEntry)}
        self.pes = places.pes if whole else sorted(places.pe_of(name) for name in named)
        self.whole = whole
        self.number = {pe.name: k for k, pe in enumerate(self.pes)}
        self.endpoints = self._used("HOST_COPY_TILE")
        self.m_cpus = self._used("LAUNCH")
        self.groups: Groups = {}
        if whole:
            self.ways.add_all_memories()
            self.ways.between()

    def _used(self, opcode: str) -> list[str]:
        if self.whole:
            return [node.id for node in self.places.topology.nodes if node.kind == ELSEWHERE[opcode]]
        used = {node for entry, node in zip(self.entries, self.node, strict=True) if entry.opcode == opcode}
        return sorted(used, key=self.places.order.__getitem__)

    def plan(self) -> Plan:
        program = program_tables(self.entries, self._transfer, self._compute)
        resources = resources_of(self.ways, self.places.topology.edges if self.whole else ())
        npu = self.places.pe
        engines = (("te", naming.PE_GEMM, npu.te.engines), ("ve", naming.PE_MATH, npu.ve.engines))
        return Plan(
            pe=npu,
            machine=self._machine(resources),
            program=program,
            dma=(*self._names(naming.PE_DMA, npu.dma.engines), *self.endpoints),
            compute=(*(name for _, part, count in engines for name in self._names(part, count)), *self.m_cpus),
            resources=resources.names,
            capacities=resources.capacities,
            channels=resources.channels,
            scratchpads=tuple(pe.part(naming.PE_TCM) for pe in self.pes),
            extra=self._extra(program),
            reach=Reach(self.places, self.pes, self.endpoints, resources.number) if self.whole else None,
        )

    def _extra(self, program: dict[str, Any]) -> dict[int, int]:
        jobs = program["job"].tolist()
        routes = program["dma"]["route"].tolist()
        moves = [entry.index for entry in self.entries if entry.engine == "dma"]
        return {index: cycles for index in moves if (cycles := self.ways.extra[routes[jobs[index]]])}

    def _names(self, part: str, count: int) -> list[str]:
        return [naming.numbered(pe.part(part), k, count) for pe in self.pes for k in range(count)]

    def _machine(self, resources: Resources) -> dict[str, Any]:
        config, npu = self.places.config, self.places.pe
        nowhere = len(self.pes)
        dma = [dma_table(npu.dma, k) for k in range(len(self.pes)) for _ in range(npu.dma.engines)]
        for engine in dma if self.whole else ():
            engine["channels"].append((config.pe.ipcq.max_concurrent, 0, config.pe.ipcq.weight))  # of queues between PEs
        dma += [dma_table(npu.dma, nowhere) for _ in self.endpoints]
        compute = [
            {"kind": KINDS[kind], "id": k * spec.engines + i, "spm": k, "period": spec.period, "traffic": spec.spm_traffic}
            for kind, spec in (("te", npu.te), ("ve", npu.ve))
            for k in range(len(self.pes))
            for i in range(spec.engines)
        ]
        compute += [
            {"kind": KINDS["cpu"], "id": k, "spm": nowhere, "period": 1, "traffic": False} for k in range(len(self.m_cpus))
        ]
        first = zip(self.ways.memories, resources.first, strict=True)
        return {
            "max_cycles": config.max_cycles,
            "allocation": ALLOCATIONS.index(config.allocation),
            "overlap": OVERLAPS.index(npu.spm.check_overlap),
            "issue_width": config.control.issue_width,
            "channels": resources.channels,
            "memories": [memory.table | {"first": number} for memory, number in first],
            **resource_tables(resources.capacities),
            **{name: column(table) for name, table in resources.tables.items()},
            "spm": [*(scratchpad_table(npu.spm) for _ in self.pes), WITHOUT_BANKS],
            "dma": dma,
            "compute": compute,
        }

    def _transfer(self, entry: Entry) -> tuple[int, ...]:
        node = self.node[entry.index]
        if isinstance(entry, HostEntry):
            return self._host_copy(entry, node)
        pe, npu = self.places.pe_of(node), self.places.pe
        engine = self.number[node] * npu.dma.engines + entry.engine_id
        if isinstance(entry, PairEntry):
            return self._between(entry, pe, engine)
        move = transfer_of(entry, npu)
        memory, route = self.ways.to_memory(pe.part(naming.PE_DMA), move.dram_start, move.write)
        return transfer_row(entry, move, engine, self.groups, memory, route)

    def _between(self, entry: PairEntry, pe: PePlace, engine: int) -> tuple[int, ...]:
        """The peer's scratchpad is where DRAM would be: its address is the row's."""
        spm, peer = self.places.pe.spm, self.places.pe_of(entry.peer)
        send = entry.opcode == "DMA_SEND_TILE"
        memory, route = self.ways.to_peer(*((pe, peer) if send else (peer, pe)))
        nbytes = bytes_of(entry.num_elements, entry.qbits)
        here = flat_address(entry.spm_bank, entry.spm_offset, spm)
        there = flat_address(entry.peer_bank, entry.peer_offset, spm)
        kv = KV_STORE if send else KV_LOAD
        channel = kv if entry.tensor_role == "kv" else 0
        place = (there, nbytes, nbytes, 1, here)
        return (engine, channel, -1, send, 0, *place, entry.index, memory, route, self.number[entry.peer])

    def _host_copy(self, entry: HostEntry, endpoint: str) -> tuple[int, ...]:
        to_device = entry.direction == "to_device"
        start, end = host_range(entry, self.places)
        memory, route = self.ways.to_host(endpoint, start, to_device)
        engine = len(self.pes) * self.places.pe.dma.engines + self.endpoints.index(endpoint)
        return (engine, 0, -1, to_device, 0, start, end - start, end - start, 1, 0, entry.index, memory, route, -1)

    def _compute(self, entry: Entry) -> ComputeRow:
        npu, node = self.places.pe, self.node[entry.index]
        tensor, vector = (len(self.pes) * count for count in (npu.te.engines, npu.ve.engines))
        if entry.engine == "cpu":
            cycles = launch_cycles(self.places, node)
            return ComputeRow(tensor + vector + self.m_cpus.index(node), ServiceTime(max(cycles, 1), 0, 0), 1, ())
        if entry.engine == "te":
            return compute_row(entry, npu, self.number[node] * npu.te.engines + entry.engine_id)
        return compute_row(entry, npu, tensor + self.number[node] * npu.ve.engines + entry.engine_id)
