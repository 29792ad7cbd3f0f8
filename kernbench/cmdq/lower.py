"""Lowers a checked program and its machine to the plain tables that the core lays out.

The tables are dicts of ints and int64 arrays; `kernbench.sim_engine.machine` passes them to the core. The order of resources
is: the DRAM channels, the mesh links, the codecs of each DMA engine, the last-level cache. The order of engines is: DMA
engines, tensor engines, vector engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np

from kernbench.cmdq.check import checked_columns
from kernbench.cmdq.columns import Column, column, order_groups
from kernbench.cmdq.controller_timing import controllers_of
from kernbench.cmdq.dram_timing import device_table
from kernbench.cmdq.entries import Entry, VeEntry
from kernbench.cmdq.program import Program
from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.config import NpuConfig
from kernbench.config.cache import Llc, NpuLlc
from kernbench.config.fields import WIDE_LIMIT
from kernbench.config.schema import ARBITERS, DMA_ARBITERS, Control, Dma, Spm, Te, Ve
from kernbench.topology.mesh import mesh_links, mesh_route
from kernbench_core.numbers import Allocation, EngineType, Overlap

ALLOCATIONS = {
    "shared_bw_v1": Allocation.SHARED_BW,
    "max_min_v1": Allocation.MAX_MIN,
    "fifo_v1": Allocation.FIFO,
    "row_buffer_v1": Allocation.ROW_BUFFER,
    "row_buffer_v2": Allocation.CONTROLLER_MODEL,
}
OVERLAPS = {"none": Overlap.OVERLAP_NONE, "warn": Overlap.OVERLAP_WARN, "error": Overlap.OVERLAP_ERROR}
KINDS = {"te": EngineType.TE, "ve": EngineType.VE, "cpu": EngineType.COMPONENT}
ROUTES = ("route_start", "route_path", "route_latency", "network")  #: tables of the routes of a machine
PLUGGED_IN = -1  # the arbiter of a scratchpad is a user-defined object


def resource_names(config: NpuConfig) -> list[str]:
    """The names of the core's resources, in its order."""
    links = [] if config.noc is None else mesh_links(config.noc.rows, config.noc.cols)
    channels = [naming.dram_channel(k) for k in range(config.dram.channels)]
    engines = [naming.engine("dma", k) for k in range(config.dma.engines)]
    codecs = [naming.codec(engine, k) for engine in engines for k in range(len(config.dma.codecs))]
    caches = [] if config.llc is None else [naming.LLC]
    return channels + [naming.mesh_link(*link) for link in links] + codecs + caches


def resource_capacities(config: NpuConfig) -> list[Fraction]:
    """[byte/cycle] of the core's resources, in its order."""
    links = [] if config.noc is None else mesh_links(config.noc.rows, config.noc.cols)
    capacities = [config.dram.capacity] * config.dram.channels
    if config.noc is not None:
        capacities += [config.noc.link_bytes_per_cycle for _ in links]
    capacities += [codec.capacity for _ in range(config.dma.engines) for codec in config.dma.codecs]
    return capacities if config.llc is None else [*capacities, config.llc.bw_bytes_per_cycle]


def lower_machine(config: NpuConfig, alike: dict[str, Any] | None = None) -> dict[str, Any]:
    """The machine as the core's tables (`kernbench_core/state/layout.pyx` reads them).

    The memory behind each codec is the memory of the machine with the ratio of the codec. `alike`: the tables of a machine with
    the same DMA engines, channels, links and caches, whose routes are taken.
    """
    routes = _routes(config) if alike is None else {name: alike[name] for name in ROUTES if name in alike}
    ratios = [codec.ratio for codec in config.dma.codecs]
    return {
        "max_cycles": config.max_cycles,
        "allocation": ALLOCATIONS[config.allocation],
        "overlap": OVERLAPS[config.spm.check_overlap],
        **control_tables(config.control),
        "channels": config.dram.channels,
        "memories": [_memory(config), *(_memory(config) | {"ratio": ratio.as_integer_ratio()} for ratio in ratios)],
        "caches": [] if config.llc is None else [cache_table(config.llc, len(resource_names(config)) - 1)],
        "devices": device_table(config.dram),
        "controllers": controllers_of(config.dram),
        "own_routes": True,
        **resource_tables(resource_capacities(config)),
        **routes,
        "spm": [scratchpad_table(config.spm)],
        "dma": [dma_table(config.dma, 0) for _ in range(config.dma.engines)],
        "compute": [
            compute_table(kind, spec, k, 0)
            for kind, spec in (("te", config.te), ("ve", config.ve))
            for k in range(spec.engines)
        ],
    }


def compute_table(kind: str, spec: Te | Ve, number: int, spm: int) -> dict[str, Any]:
    """A tensor or vector engine in the form of the core."""
    table = {"kind": KINDS[kind], "id": number, "spm": spm, "period": spec.period, "traffic": spec.spm_traffic}
    return {**table, "overlaps": True} if isinstance(spec, Te) and spec.overlaps_jobs else table


def control_tables(control: Control) -> dict[str, Any]:
    """The executor of the command queue, and the host that writes entries, in the form of the core."""
    tables: dict[str, Any] = {"issue_width": control.issue_width}
    if control.mmio is not None:
        mmio = control.mmio
        tables["mmio"] = {"write": mmio.write_cycles, "latency": mmio.latency_cycles, "interrupt": mmio.interrupt_cycles}
    return tables


def mmio_columns(entries: Sequence[Entry]) -> dict[str, Column]:
    """Per entry, whether the host writes the entry, and whether the end of the entry raises an interrupt."""
    return {
        "written": column([entry.meta.get("source") == "MMIO" for entry in entries]),
        "raises": column(["irq_line" in entry.meta for entry in entries]),
    }


def resource_tables(capacities: Sequence[Fraction]) -> dict[str, Column]:
    """Capacities [byte/cycle] in the form of the core."""
    return {
        "resource_num": column([c.numerator for c in capacities]),
        "resource_den": column([c.denominator for c in capacities]),
    }


def _routes(config: NpuConfig) -> dict[str, Any]:
    """For each DMA engine, direction (load, store) and channel: its resources and the latency of its links.

    If flits move, the result includes the routers.

    With a last-level cache, the route that goes only over the cache follows those of the channels.
    """
    channels = config.dram.channels
    if config.llc is not None:
        return _routes_of_cache(config, config.llc)
    flits = config.noc is not None and config.noc.model == "flit"
    if config.dma.codecs:
        return _routes_with_codecs(config)
    if config.noc is None:
        count = 2 * config.dma.engines * channels
        path = np.tile(np.arange(channels), 2 * config.dma.engines)
        return {"route_start": np.arange(count + 1), "route_path": path, "route_latency": np.zeros(count, dtype=np.int64)}
    links = mesh_links(config.noc.rows, config.noc.cols)
    number = {link: channels + k for k, link in enumerate(links)}
    start, route_path, latency = [0], [], []
    through: list[tuple[int, bool, int, list[tuple[int, int]]]] = []
    for dma in range(config.dma.engines):
        for store in (False, True):
            for channel in range(channels):
                ends = (config.noc.dram_at[channel], config.noc.dma_at[dma])
                route = mesh_route(*(ends[::-1] if store else ends))
                latency.append(0 if flits else len(route) * config.noc.hop_latency_cycles)
                route_path += [channel, *(number[link] for link in route)]
                start.append(len(route_path))
                if flits:
                    through.append((dma, store, channel, [ends[1] if store else ends[0], *(link[1] for link in route)]))
    tables: dict[str, Any] = {"route_start": column(start), "route_path": column(route_path), "route_latency": column(latency)}
    if flits:
        from kernbench.noc.machine import npu_network  # imported here, because few machines have routers

        tables["network"] = npu_network(config, through)
    return tables


def _routes_with_codecs(config: NpuConfig) -> dict[str, Column]:
    """The routes of `_routes`, and then for each codec the same routes over the codec of the engine."""
    channels, noc, codecs = config.dram.channels, config.noc, config.dma.codecs
    links = [] if noc is None else mesh_links(noc.rows, noc.cols)
    number = {link: channels + k for k, link in enumerate(links)}
    start, route_path, latency = [0], [], []
    for k in range(-1, len(codecs)):
        for dma, store, channel in product(range(config.dma.engines), (False, True), range(channels)):
            ends = () if noc is None else (noc.dram_at[channel], noc.dma_at[dma])
            route = mesh_route(*(ends[::-1] if store else ends)) if ends else []
            own = [] if k < 0 else [channels + len(links) + dma * len(codecs) + k]
            hops = 0 if noc is None else len(route) * noc.hop_latency_cycles
            latency.append(hops + (codecs[k].latency_cycles if own else 0))
            route_path += [channel, *(number[link] for link in route), *own]
            start.append(len(route_path))
    return {"route_start": column(start), "route_path": column(route_path), "route_latency": column(latency)}


def _routes_of_cache(config: NpuConfig, llc: NpuLlc) -> dict[str, Column]:
    """The routes of a machine with a cache, which is between the channels and the engines."""
    channels, noc = config.dram.channels, config.noc
    links = [] if noc is None else mesh_links(noc.rows, noc.cols)
    number = {link: channels + k for k, link in enumerate(links)}
    cache = channels + len(links)
    start, route_path, latency = [0], [], []
    for dma in range(config.dma.engines):
        for store in (False, True):
            for channel in range(channels + 1):
                stops = [] if noc is None or llc.at is None else [*noc.dram_at[channel : channel + 1], llc.at, noc.dma_at[dma]]
                route = [link for ends in pairwise(stops[::-1] if store else stops) for link in mesh_route(*ends)]
                latency.append(0 if noc is None else len(route) * noc.hop_latency_cycles)
                route_path += [*([channel] if channel < channels else []), cache, *(number[link] for link in route)]
                start.append(len(route_path))
    return {"route_start": column(start), "route_path": column(route_path), "route_latency": column(latency)}


def cache_table(llc: Llc, resource: int) -> dict[str, Any]:
    """A last-level cache in the form of the core; `resource`: the resource of its bandwidth."""
    return {
        "resource": resource,
        "line": llc.line_bytes,
        "ways": llc.set_lines,
        "sets": llc.sets,
        "back": llc.write == "back",
        "allocate": llc.write_allocate,
        "latency": llc.latency_cycles,
    }


def interleave_of(source: str, field: str, interleave: int, channels: int, reach: int) -> int:
    """The interleave of a memory of `reach` bytes in the form of the core, which multiplies it by the number of channels.

    An interleave that is not smaller than the memory puts all of it on the first channel.
    InputError if it is too large.
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
        "cache": -1 if config.llc is None else 0,
    }


def scratchpad_table(spm: Spm) -> dict[str, Any]:
    """A scratchpad in the form of the core."""
    split = spm.ports is None
    return {
        "banks": spm.num_banks,
        "line": spm.bank_width_bytes,
        "bank_lines": spm.bank_size_bytes // spm.bank_width_bytes,
        "blocked": spm.map == "blocked",
        "split": split,
        "ports": (spm.read_ports, spm.write_ports) if split else (spm.ports, 1),
        "penalty": spm.conflict_penalty_cycles,
        "arbiter": list(ARBITERS).index(spm.arbiter) if spm.arbiter in ARBITERS else PLUGGED_IN,
        "max_wait": spm.max_wait_cycles,
        "backpressure": spm.backpressure_cycles,
    }


def dma_table(dma: Dma, spm: int) -> dict[str, Any]:
    """A DMA engine in the form of the core; `spm` is the number of its scratchpad."""
    act, load, store = dma.channels
    bonus = dma.kv_load_bonus  # every job of the channel kv_load is a KV load
    return {
        "spm": spm,
        "arbiter": DMA_ARBITERS.index(dma.arbiter),
        "period": dma.period,
        "max_concurrent": dma.max_concurrent_transfers,
        "queue_depth": dma.queue_depth_per_master,
        "channels": [
            (act.max_concurrent, act.priority, act.weight),
            (load.max_concurrent, load.priority + bonus, load.weight),
            (store.max_concurrent, store.priority, store.weight),
        ],
    }


def route_of(dma: Any, engines: int, flows: int) -> Column:
    """The first route of each transfer, from its engine, direction and memory. `flows`: the largest number of flows of a
    transfer."""
    routes: Column = (2 * (dma["memory"] * engines + dma["engine"]) + dma["write"]) * flows
    return routes


def lower_program(program: Program, config: NpuConfig, *, regular: bool = False) -> dict[str, Any]:
    """The program as the core's tables; InputError if the program is not valid on the machine.

    `regular`: InternalError if reading cannot produce one of the entries.
    """
    columns = checked_columns(program, config)
    if regular:
        columns.check_regular(program.source)
    dma, compute = columns.dma, columns.compute
    dma["route"] = route_of(dma, config.dma.engines, config.dram.channels + (config.llc is not None))
    vectors = columns.job[columns.positions(VeEntry)]
    compute["engine"][vectors] += config.te.engines
    order_groups(columns)
    tables = columns.tables()
    if config.control.mmio is not None:
        tables["mmio"] = mmio_columns(program.entries)
    return tables
