"""Lowers a checked program and its machine to the plain tables that the core lays out.

The tables are dicts of ints and int64 arrays, and nothing of the core is imported here: `kernbench.sim_engine.machine` hands
them over.
Resources stand in this order: the DRAM channels, then the mesh links. Engines: DMA; then tensor, then vector engines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench.cmdq.dram_timing import device_table
from kernbench.cmdq.entries import BarrierEntry, Entry
from kernbench.cmdq.footprint import Region, ServiceTime, Transfer, regions_of, service_cycles, transfer_of, work_of
from kernbench.cmdq.program import Program
from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.config import NpuConfig
from kernbench.config.fields import WIDE_LIMIT
from kernbench.config.schema import ARBITERS, Dma, Spm
from kernbench.topology.mesh import Link, mesh_links, mesh_route

ALLOCATIONS = ("shared_bw_v1", "max_min_v1", "fifo_v1", "row_buffer_v1")  # positions are the core's Allocation
PLUGGED_IN = -1  # the arbiter of a scratchpad is an object of the run's own
OVERLAPS = ("none", "warn", "error")  # the core's Overlap
KINDS = {"te": 1, "ve": 2, "cpu": 6}  # the core's EngineType
DMA_JOB, COMPUTE_JOB, NOP, BARRIER, END = range(5)  # the core's Opkind
MAX_REGIONS = 4
#: Columns of DMA jobs. `route`: that of its memory's first channel, the others follow; `peer`: a scratchpad, or -1.
TRANSFER = (
    "engine", "channel", "group", "write", "t_start", "dram_addr", "row_bytes", "stride", "rows", "spm_addr", "entry", "memory",
    "route", "peer",
)  # fmt: skip

Column = npt.NDArray[np.int64]
Groups = dict[tuple[Any, ...], int]  #: KV stores that keep the order of t_start among themselves


def resource_names(config: NpuConfig) -> list[str]:
    """Names of the core's resources, in its order."""
    links = [] if config.noc is None else mesh_links(config.noc.rows, config.noc.cols)
    return [naming.dram_channel(k) for k in range(config.dram.channels)] + [naming.mesh_link(*link) for link in links]


def resource_capacities(config: NpuConfig) -> list[Fraction]:
    """[byte/cycle] of the core's resources, in its order."""
    links = [] if config.noc is None else mesh_links(config.noc.rows, config.noc.cols)
    channels = [config.dram.capacity] * config.dram.channels
    return channels + [Fraction(config.noc.link_bytes_per_cycle) for _ in links] if config.noc is not None else channels


def lower_machine(config: NpuConfig) -> dict[str, Any]:
    """The machine as the core's tables (`kernbench_core/state/layout.pyx` reads them)."""
    return {
        "max_cycles": config.max_cycles,
        "allocation": ALLOCATIONS.index(config.allocation),
        "overlap": OVERLAPS.index(config.spm.check_overlap),
        "issue_width": config.control.issue_width,
        "channels": config.dram.channels,
        "memories": [_memory(config)],
        "devices": device_table(config.dram),
        "own_routes": True,
        **resource_tables(resource_capacities(config)),
        **_routes(config),
        "spm": [scratchpad_table(config.spm)],
        "dma": [dma_table(config.dma, 0) for _ in range(config.dma.engines)],
        "compute": [
            {"kind": KINDS[kind], "id": k, "spm": 0, "period": spec.period, "traffic": spec.spm_traffic}
            for kind, spec in (("te", config.te), ("ve", config.ve))
            for k in range(spec.engines)
        ],
    }


def resource_tables(capacities: Sequence[Fraction]) -> dict[str, Column]:
    """Capacities [byte/cycle] as the core takes them."""
    return {
        "resource_num": column([c.numerator for c in capacities]),
        "resource_den": column([c.denominator for c in capacities]),
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
    return {"route_start": column(start), "route_path": column(path), "route_latency": column(latency)}


def interleave_of(source: str, field: str, interleave: int, channels: int, reach: int) -> int:
    """The interleave of a memory of `reach` bytes as the core takes it, which multiplies it by channels.

    One that is not below the memory keeps all of it on the first channel, as a smaller one does.
    InputError where it is too large.
    """
    least = min(interleave, 1 << (reach - 1).bit_length())
    if least * channels >= WIDE_LIMIT // 2:
        rule = f"times the {channels} channels it must be below 2^61 in a memory that is as large"
        raise InputError(Problem(source, rule, field, interleave))
    return least


def _memory(config: NpuConfig) -> dict[str, Any]:
    dram = config.dram
    return {
        "first": 0,
        "channels": dram.channels,
        "interleave": interleave_of(
            config.source, "dram.interleave_bytes", dram.interleave_bytes, dram.channels, dram.capacity_bytes
        ),
        "align": config.dma.alignment_bytes,
        "setup": config.dram.t_setup_cycles,
    }


def scratchpad_table(spm: Spm) -> dict[str, Any]:
    """A scratchpad as the core takes it."""
    split = spm.ports is None
    return {
        "banks": spm.num_banks,
        "line": spm.bank_width_bytes,
        "bank_lines": spm.bank_size_bytes // spm.bank_width_bytes,
        "blocked": spm.map == "blocked",
        "split": split,
        "ports": (spm.read_ports, spm.write_ports) if split else (spm.ports, 1),
        "penalty": spm.conflict_penalty_cycles,
        "arbiter": ARBITERS.index(spm.arbiter) if spm.arbiter in ARBITERS else PLUGGED_IN,
        "max_wait": spm.max_wait_cycles,
        "backpressure": spm.backpressure_cycles,
    }


def dma_table(dma: Dma, spm: int) -> dict[str, Any]:
    """A DMA engine as the core takes it; `spm` is the number of its scratchpad."""
    act, load, store = dma.channels
    bonus = dma.kv_load_bonus  # every job of the channel kv_load is a KV load
    return {
        "spm": spm,
        "period": dma.period,
        "max_concurrent": dma.max_concurrent_transfers,
        "queue_depth": dma.queue_depth_per_master,
        "channels": [
            (act.max_concurrent, act.priority, act.weight),
            (load.max_concurrent, load.priority + bonus, load.weight),
            (store.max_concurrent, store.priority, store.weight),
        ],
    }


@dataclass(frozen=True)
class ComputeRow:
    """A job of an engine with a service time."""

    engine: int  #: in the core's order
    time: ServiceTime
    work: int
    regions: Sequence[Region]


def lower_program(program: Program, config: NpuConfig) -> dict[str, Any]:
    """The program as the core's tables; it must have passed `check_program`."""
    groups: Groups = {}

    def transfer(entry: Entry) -> tuple[int, ...]:
        t = transfer_of(entry, config)
        route = (2 * entry.engine_id + t.write) * config.dram.channels
        return transfer_row(entry, t, entry.engine_id, groups, 0, route)

    def compute(entry: Entry) -> ComputeRow:
        return compute_row(entry, config, entry.engine_id + (config.te.engines if entry.engine == "ve" else 0))

    return program_tables(program.entries, transfer, compute)


def program_tables(
    entries: Sequence[Entry], transfer: Callable[[Entry], tuple[int, ...]], compute: Callable[[Entry], ComputeRow]
) -> dict[str, Any]:
    """The core's tables of entries, from the row of each transfer (columns TRANSFER) and of each other job."""
    op, job = [], []
    transfers: list[tuple[int, ...]] = []
    computes: list[tuple[int, ComputeRow]] = []
    for entry in entries:
        if entry.engine == "dma":
            op.append(DMA_JOB)
            job.append(len(transfers))
            transfers.append(transfer(entry))
        elif entry.engine == "control":
            op.append({"NOP": NOP, "BARRIER": BARRIER, "END": END}[entry.opcode])
            job.append(-1)
        else:
            op.append(COMPUTE_JOB)
            job.append(len(computes))
            computes.append((entry.index, compute(entry)))
    return {
        "op": column(op),
        "job": column(job),
        **_dependencies(entries),
        "dma": _columns(TRANSFER, transfers),
        "compute": _computes(computes),
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
        "waits": column(waits),
        "after": start,
        "dependents": column([index for dependents in after for index in sorted(dependents)]),
    }


def transfer_row(entry: Entry, t: Transfer, engine: int, groups: Groups, memory: int, route: int) -> tuple[int, ...]:
    """The columns TRANSFER of a transfer to or from DRAM."""
    group = -1
    if t.order_key is not None:
        group = groups.setdefault((engine, *t.order_key), len(groups))
    place = (t.dram_addr, t.row_bytes, t.stride, t.rows, t.spm_addr)
    return (engine, t.channel, group, t.write, t.t_start, *place, entry.index, memory, route, -1)


def compute_row(entry: Entry, config: NpuConfig, engine: int) -> ComputeRow:
    """The job of a TE or VE entry."""
    return ComputeRow(engine, service_cycles(entry, config), work_of(entry), regions_of(entry, config))


def _computes(jobs: list[tuple[int, ComputeRow]]) -> dict[str, Column]:
    rows = []
    addr, nbytes, write = (np.zeros((len(jobs), MAX_REGIONS), dtype=np.int64) for _ in range(3))
    for k, (index, job) in enumerate(jobs):
        rows.append((job.engine, job.time.init, job.time.body, job.time.finalize, job.work, len(job.regions), index))
        for r, region in enumerate(job.regions):
            addr[k, r], nbytes[k, r], write[k, r] = region.addr, region.nbytes, region.write
    names = ("engine", "init", "body", "finalize", "work", "regions", "entry")
    return {**_columns(names, rows), "region_addr": addr, "region_bytes": nbytes, "region_write": write}


def _columns(names: Sequence[str], rows: Sequence[tuple[int, ...]]) -> dict[str, Column]:
    """Rows of integers as named columns."""
    table = np.array(rows, dtype=np.int64).reshape(len(rows), len(names))
    return {name: np.ascontiguousarray(table[:, k]) for k, name in enumerate(names)}


def column(values: Sequence[int]) -> Column:
    """Integers as the core takes them."""
    return np.array(values, dtype=np.int64)
