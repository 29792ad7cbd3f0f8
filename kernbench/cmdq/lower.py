"""Lowers a checked program and its machine to the plain tables that the core lays out.

The tables are dicts of ints and int64 arrays, and nothing of the core is imported here: `kernbench.sim_engine.machine` hands
them over.
Resources stand in this order: the DRAM channels, then the mesh links. Engines: DMA; then tensor, then vector engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench.cmdq.entries import BarrierEntry, Entry
from kernbench.cmdq.footprint import regions_of, service_cycles, transfer_of, work_of
from kernbench.cmdq.program import Program
from kernbench.common import naming
from kernbench.config import NpuConfig
from kernbench.topology.mesh import Link, mesh_links, mesh_route

ALLOCATIONS = ("shared_bw_v1", "max_min_v1", "fifo_v1")  # positions are the core's Allocation
OVERLAPS = ("none", "warn", "error")  # the core's Overlap
KINDS = {"te": 1, "ve": 2}  # the core's EngineType
DMA_JOB, COMPUTE_JOB, NOP, BARRIER, END = range(5)  # the core's Opkind
MAX_REGIONS = 4
#: Columns of DMA jobs. `route`: that of its memory's first channel, the others follow; `peer`: a scratchpad instead of DRAM, or -1.
TRANSFER = (
    "engine", "channel", "group", "write", "t_start", "dram_addr", "row_bytes", "stride", "rows", "spm_addr", "entry", "memory",
    "route", "peer",
)  # fmt: skip

Column = npt.NDArray[np.int64]


def resource_names(config: NpuConfig) -> list[str]:
    """Names of the core's resources, in its order."""
    links = [] if config.noc is None else mesh_links(config.noc.rows, config.noc.cols)
    return [naming.dram_channel(k) for k in range(config.dram.channels)] + [naming.mesh_link(*link) for link in links]


def lower_machine(config: NpuConfig) -> dict[str, Any]:
    """The machine as the core's tables (`kernbench_core/layout.pyx` reads them)."""
    capacities = [config.dram.capacity] * config.dram.channels
    if config.noc is not None:
        links = mesh_links(config.noc.rows, config.noc.cols)
        capacities += [Fraction(config.noc.link_bytes_per_cycle)] * len(links)
    return {
        "max_cycles": config.max_cycles,
        "allocation": ALLOCATIONS.index(config.allocation),
        "overlap": OVERLAPS.index(config.spm.check_overlap),
        "issue_width": config.control.issue_width,
        "channels": config.dram.channels,
        "memories": [_memory(config)],
        "resource_num": _column([c.numerator for c in capacities]),
        "resource_den": _column([c.denominator for c in capacities]),
        **_routes(config),
        "spm": [_scratchpad(config)],
        "dma": [_dma_engine(config) for _ in range(config.dma.engines)],
        "compute": _compute_engines(config),
    }


def _routes(config: NpuConfig) -> dict[str, Column]:
    """For each DMA engine, direction (load, store) and channel: its resources and the latency of its links."""
    number: dict[Link, int] = {}
    if config.noc is not None:
        links = mesh_links(config.noc.rows, config.noc.cols)
        number = {link: config.dram.channels + k for k, link in enumerate(links)}
    start, path, latency = [0], [], []
    for dma in range(config.dma.engines):
        for store in (False, True):
            for channel in range(config.dram.channels):
                route: list[Link] = []
                if config.noc is not None:
                    ends = (config.noc.dram_at[channel], config.noc.dma_at[dma])
                    route = mesh_route(*(ends[::-1] if store else ends))
                    latency.append(len(route) * config.noc.hop_latency_cycles)
                else:
                    latency.append(0)
                path += [channel, *(number[link] for link in route)]
                start.append(len(path))
    return {"route_start": _column(start), "route_path": _column(path), "route_latency": _column(latency)}


def _memory(config: NpuConfig) -> dict[str, Any]:
    return {
        "first": 0,
        "channels": config.dram.channels,
        "interleave": config.dram.interleave_bytes,
        "align": config.dma.alignment_bytes,
        "setup": config.dram.t_setup_cycles,
    }


def _scratchpad(config: NpuConfig) -> dict[str, Any]:
    spm = config.spm
    split = spm.ports is None
    return {
        "banks": spm.num_banks,
        "line": spm.bank_width_bytes,
        "bank_lines": spm.bank_size_bytes // spm.bank_width_bytes,
        "blocked": spm.map == "blocked",
        "split": split,
        "ports": (spm.read_ports, spm.write_ports) if split else (spm.ports, 1),
        "penalty": spm.conflict_penalty_cycles,
        "max_wait": spm.max_wait_cycles,
        "backpressure": spm.backpressure_cycles,
    }


def _dma_engine(config: NpuConfig) -> dict[str, Any]:
    act, load, store = config.dma.channels
    bonus = config.dma.kv_load_bonus  # every job of the channel kv_load is a KV load
    return {
        "spm": 0,
        "period": config.dma.period,
        "max_concurrent": config.dma.max_concurrent_transfers,
        "queue_depth": config.dma.queue_depth_per_master,
        "channels": [
            (act.max_concurrent, act.priority, act.weight),
            (load.max_concurrent, load.priority + bonus, load.weight),
            (store.max_concurrent, store.priority, store.weight),
        ],
    }


def _compute_engines(config: NpuConfig) -> list[dict[str, Any]]:
    return [
        {"kind": KINDS[kind], "id": k, "spm": 0, "period": spec.period, "traffic": spec.spm_traffic}
        for kind, spec in (("te", config.te), ("ve", config.ve))
        for k in range(spec.engines)
    ]


def lower_program(program: Program, config: NpuConfig) -> dict[str, Any]:
    """The program as the core's tables; it must have passed `check_program`."""
    op, job = [], []
    transfers: list[tuple[Entry, int]] = []
    computes: list[tuple[Entry, int]] = []
    for entry in program.entries:
        if entry.engine == "dma":
            op.append(DMA_JOB)
            job.append(len(transfers))
            transfers.append((entry, entry.engine_id))
        elif entry.engine == "control":
            op.append({"NOP": NOP, "BARRIER": BARRIER, "END": END}[entry.opcode])
            job.append(-1)
        else:
            op.append(COMPUTE_JOB)
            job.append(len(computes))
            computes.append((entry, entry.engine_id + (config.te.engines if entry.engine == "ve" else 0)))
    return {
        "op": _column(op),
        "job": _column(job),
        **_dependencies(program.entries),
        "dma": _transfers(transfers, config),
        "compute": _computes(computes, config),
    }


def _dependencies(entries: Sequence[Entry]) -> dict[str, Column]:
    """How many things each entry waits for, and who waits for it, as compressed rows."""
    position = {entry.id: entry.index for entry in entries}
    after: list[set[int]] = [set() for _ in entries]
    for entry in entries:
        waits_for = entry.deps_before + (entry.wait_for if isinstance(entry, BarrierEntry) else ())
        for other in waits_for:
            after[position[other]].add(entry.index)
        for other in entry.deps_after:
            after[entry.index].add(position[other])
    waits = [int(entry.opcode == "END") for entry in entries]  # END also waits for "everything before it"
    for dependents in after:
        for index in dependents:
            waits[index] += 1
    start = np.zeros(len(entries) + 1, dtype=np.int64)
    np.cumsum([len(dependents) for dependents in after], out=start[1:])
    return {
        "waits": _column(waits),
        "after": start,
        "dependents": _column([index for dependents in after for index in sorted(dependents)]),
    }


def _transfers(jobs: list[tuple[Entry, int]], config: NpuConfig) -> dict[str, Column]:
    groups: dict[tuple[Any, ...], int] = {}  # KV stores that keep the order of t_start among themselves
    rows = []
    for entry, engine in jobs:
        t = transfer_of(entry, config)
        group = -1
        if t.order_key is not None:
            group = groups.setdefault((engine, *t.order_key), len(groups))
        place = (t.dram_addr, t.row_bytes, t.stride, t.rows, t.spm_addr)
        route = (2 * engine + t.write) * config.dram.channels
        rows.append((engine, t.channel, group, t.write, t.t_start, *place, entry.index, 0, route, -1))
    return _columns(TRANSFER, rows)


def _computes(jobs: list[tuple[Entry, int]], config: NpuConfig) -> dict[str, Column]:
    rows = []
    addr, nbytes, write = (np.zeros((len(jobs), MAX_REGIONS), dtype=np.int64) for _ in range(3))
    for k, (entry, engine) in enumerate(jobs):
        time = service_cycles(entry, config)
        regions = regions_of(entry, config)
        rows.append((engine, time.init, time.body, time.finalize, work_of(entry), len(regions), entry.index))
        for r, region in enumerate(regions):
            addr[k, r], nbytes[k, r], write[k, r] = region.addr, region.nbytes, region.write
    names = ("engine", "init", "body", "finalize", "work", "regions", "entry")
    return {**_columns(names, rows), "region_addr": addr, "region_bytes": nbytes, "region_write": write}


def _columns(names: Sequence[str], rows: Sequence[tuple[int, ...]]) -> dict[str, Column]:
    table = np.array(rows, dtype=np.int64).reshape(len(rows), len(names))
    return {name: np.ascontiguousarray(table[:, k]) for k, name in enumerate(names)}


def _column(values: Sequence[int]) -> Column:
    return np.array(values, dtype=np.int64)
