"""Lowers a program on a system to the core's tables: they contain only the nodes that its entries name, or the whole system.

Engines are ordered by PE, in the order of the topology: DMA engines, then those of PCIe endpoints; tensor engines; vector
engines; then M_CPUs. There is one scratchpad for each PE, and one without banks for endpoints and M_CPUs.
"""

from __future__ import annotations

from typing import Any

from kernbench.cmdq.columns import Columns, order_groups
from kernbench.cmdq.controller_timing import controllers_of
from kernbench.cmdq.dram_timing import device_table
from kernbench.cmdq.entries import Entry, HostEntry, PairEntry
from kernbench.cmdq.lower import (
    ALLOCATIONS,
    KINDS,
    OVERLAPS,
    compute_table,
    control_tables,
    dma_table,
    mmio_columns,
    resource_tables,
    scratchpad_table,
)
from kernbench.cmdq.plan import Plan
from kernbench.cmdq.program import Program
from kernbench.cmdq.system.check import columns_on_system
from kernbench.cmdq.system.nodes import ELSEWHERE, SystemNodes
from kernbench.cmdq.system.routes import Resources, RouteTable, RuntimeRoutes, launch_cycles, resources_of
from kernbench.common import naming
from kernbench.config import SystemConfig

#: No request is ever denied here: every requester finds a port, and a row is larger than the bytes that any link moves in a
#: cycle.
WITHOUT_BANKS = {
    "banks": 64, "line": 64, "bank_lines": 1, "blocked": False, "split": False, "ports": (1 << 20, 1), "penalty": 1,
    "max_wait": 8, "backpressure": 8, "nowhere": True,
}  # fmt: skip


def lower_system(program: Program, config: SystemConfig, *, whole: bool = False, regular: bool = False) -> Plan:
    """The plan of a program on a system; InputError if it is not valid there. `whole`: with every node of the system.

    `regular`: InternalError if reading cannot produce one of the entries.
    """
    places = SystemNodes(config)
    columns = columns_on_system(program, places)
    if regular:
        columns.check_regular(program.source)
    return _Lowering(columns, places, whole).plan()


class _Lowering:
    """The nodes in use, numbered, and the columns that depend on them."""

    def __init__(self, columns: Columns, places: SystemNodes, whole: bool) -> None:
        self.columns = columns
        self.entries = entries = columns.entries
        self.places = places
        self.route_table = RouteTable(places)
        self.node = [places.node_of(entry) if entry.engine != "control" else "" for entry in entries]
        named = {n for entry, n in zip(entries, self.node, strict=True) if n and entry.opcode not in ELSEWHERE}
        named |= {entry.peer for entry in entries if isinstance(entry, PairEntry)}
        self.pes = places.pes if whole else sorted(places.pe_of(name) for name in named)
        self.whole = whole
        self.number = {pe.name: k for k, pe in enumerate(self.pes)}
        self.endpoints = self._used("HOST_COPY_TILE")
        self.m_cpus = self._used("LAUNCH")
        if whole:
            self.route_table.add_all_memories()
            self.route_table.between()

    def _used(self, opcode: str) -> list[str]:
        if self.whole:
            return [node.id for node in self.places.topology.nodes if node.kind == ELSEWHERE[opcode]]
        used = {node for entry, node in zip(self.entries, self.node, strict=True) if entry.opcode == opcode}
        return sorted(used, key=self.places.order.__getitem__)

    def plan(self) -> Plan:
        for entry in self.entries:
            if entry.engine == "dma":
                self._place_transfer(entry)
            elif entry.engine != "control":
                self._place_compute(entry)
        order_groups(self.columns)
        program = self.columns.tables()
        if self.places.config.control.mmio is not None:
            program["mmio"] = mmio_columns(self.entries)
        resources = resources_of(self.route_table, self.places.topology.edges if self.whole else ())
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
            reach=RuntimeRoutes(self.places, self.pes, self.endpoints, resources.number, self.route_table.mesh)
            if self.whole
            else None,
        )

    def _extra(self, program: dict[str, Any]) -> dict[int, int]:
        jobs = program["job"].tolist()
        routes = program["dma"]["route"].tolist()
        moves = [entry.index for entry in self.entries if entry.engine == "dma"]
        return {index: cycles for index in moves if (cycles := self.route_table.extra[routes[jobs[index]]])}

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
            compute_table(kind, spec, k * spec.engines + i, k)
            for kind, spec in (("te", npu.te), ("ve", npu.ve))
            for k in range(len(self.pes))
            for i in range(spec.engines)
        ]
        compute += [
            {"kind": KINDS["cpu"], "id": k, "spm": nowhere, "period": 1, "traffic": False} for k in range(len(self.m_cpus))
        ]
        first = zip(self.route_table.memories, resources.first, strict=True)
        return {
            "max_cycles": config.max_cycles,
            "allocation": ALLOCATIONS[config.allocation],
            "overlap": OVERLAPS[npu.spm.check_overlap],
            **control_tables(config.control),
            "channels": resources.channels,
            "devices": device_table(config.cube.hbm),
            "controllers": controllers_of(config.cube.hbm),
            "memories": [memory.table | {"first": number} for memory, number in first],
            "caches": resources.caches,
            **resource_tables(resources.capacities),
            **resources.tables,
            "spm": [*(scratchpad_table(npu.spm) for _ in self.pes), WITHOUT_BANKS],
            "dma": dma,
            "compute": compute,
        }

    def _place_transfer(self, entry: Entry) -> None:
        """Set the engine and the route of a transfer. Between scratchpads, the location at the peer is in the columns of
        DRAM."""
        dma, row, node = self.columns.dma, self.columns.job[entry.index], self.node[entry.index]
        engines = self.places.pe.dma.engines
        start, write = self.columns.dram_range(entry.index)[0], bool(dma["write"][row])
        if isinstance(entry, HostEntry):
            engine = len(self.pes) * engines + self.endpoints.index(node)
            memory, route = self.route_table.to_host(node, start, write)
        else:
            pe, engine = self.places.pe_of(node), self.number[node] * engines + entry.engine_id
            if isinstance(entry, PairEntry):
                peer = self.places.pe_of(entry.peer)
                memory, route = self.route_table.to_peer(*((pe, peer) if write else (peer, pe)))
                dma["peer"][row] = self.number[entry.peer]
            else:
                memory, route = self.route_table.to_memory(pe.part(naming.PE_DMA), start, write)
        dma["engine"][row], dma["memory"][row], dma["route"][row] = engine, memory, route

    def _place_compute(self, entry: Entry) -> None:
        """Set the engine of a job, and for a launch its duration."""
        compute, row, node = self.columns.compute, self.columns.job[entry.index], self.node[entry.index]
        npu = self.places.pe
        tensor, vector = (len(self.pes) * count for count in (npu.te.engines, npu.ve.engines))
        if entry.engine == "cpu":
            compute["engine"][row] = tensor + vector + self.m_cpus.index(node)
            compute["init"][row], compute["work"][row] = max(launch_cycles(self.places, node), 1), 1
        elif entry.engine == "te":
            compute["engine"][row] = self.number[node] * npu.te.engines + entry.engine_id
        else:
            compute["engine"][row] = tensor + self.number[node] * npu.ve.engines + entry.engine_id
