"""Whether the tables of a program fit the machine they are said to be for.

The core takes its tables as they are. Those that `lower_program` makes are right; those of a file are held against these rules
first, all entries at once, so that no file leads the core outside its tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kernbench.cmdq.footprint import aligned_bytes
from kernbench.cmdq.lower import COMPUTE_JOB, DMA_JOB, END, MAX_REGIONS, TRANSFER
from kernbench.config import NpuConfig
from kernbench.config.fields import WIDE_LIMIT

COMPUTE = ("engine", "init", "body", "finalize", "work", "regions", "entry")
REGIONS = ("region_addr", "region_bytes", "region_write")
TOP = ("op", "job", "waits", "after", "dependents")

Rule = tuple[str, Any]  #: a table, and whether each of its rows is as it must be


def broken_rule(tables: dict[str, Any], entries: int, config: NpuConfig) -> str | None:
    """The first table that a program of so many entries on this machine cannot have; None where all fit."""
    try:
        rules = (*_shapes(tables, entries), *_control(tables, entries), *_transfers(tables, config), *_computes(tables, config))
        return next((name for name, fits in rules if not np.all(fits)), None)
    except (KeyError, ValueError, IndexError) as error:
        return str(error)


def _shapes(tables: dict[str, Any], entries: int) -> Iterator[Rule]:
    dma, compute = tables["dma"], tables["compute"]
    yield "tables", tables.keys() == {*TOP, "dma", "compute"}
    yield "dma", dma.keys() == {*TRANSFER} and {dma[name].shape for name in TRANSFER} == {dma["entry"].shape}
    rows = compute["entry"].shape
    yield "compute", compute.keys() == {*COMPUTE, *REGIONS} and {compute[name].shape for name in COMPUTE} == {rows}
    yield "regions", {compute[name].shape for name in REGIONS} == {(*rows, MAX_REGIONS)}
    yield "op", tables["op"].shape == tables["job"].shape == tables["waits"].shape == (entries,)
    yield "after", tables["after"].shape == (entries + 1,) and tables["dependents"].ndim == 1


def _control(tables: dict[str, Any], entries: int) -> Iterator[Rule]:
    op, after, dependents = tables["op"], tables["after"], tables["dependents"]
    yield "op", (op >= DMA_JOB) & (op <= END)
    yield "op", np.flatnonzero(op == END) == entries - 1
    job = np.full(entries, -1)
    for kind, number in (("dma", DMA_JOB), ("compute", COMPUTE_JOB)):
        rows = np.flatnonzero(op == number)
        yield f"{kind}.entry", np.array_equal(tables[kind]["entry"], rows)
        job[rows] = np.arange(len(rows))
    yield "job", tables["job"] == job
    yield "after", np.concatenate(([after[0] == 0, after[-1] == len(dependents)], np.diff(after) >= 0))
    yield "dependents", (dependents >= 0) & (dependents < entries)
    yield "waits", tables["waits"] == np.bincount(dependents, minlength=entries) + (op == END)


def _transfers(tables: dict[str, Any], config: NpuConfig) -> Iterator[Rule]:
    t = tables["dma"]
    room = config.dram.capacity_bytes
    yield "dma.engine", (t["engine"] >= 0) & (t["engine"] < config.dma.engines)
    yield "dma.channel", (t["channel"] >= 0) & (t["channel"] <= 2)
    yield "dma.group", (t["group"] >= -1) & (t["group"] < len(t["group"]))
    yield "dma.write", (t["write"] >= 0) & (t["write"] <= 1)
    yield "dma.t_start", (t["t_start"] >= 0) & (t["t_start"] < WIDE_LIMIT)
    yield "dma.memory", t["memory"] == 0
    yield "dma.peer", t["peer"] == -1
    yield "dma.route", t["route"] == (2 * t["engine"] + t["write"]) * config.dram.channels
    yield "dma.dram_addr", (t["dram_addr"] >= 0) & (t["dram_addr"] < room)
    yield "dma.row_bytes", (t["row_bytes"] > 0) & (t["row_bytes"] <= room)
    yield "dma.rows", t["rows"] > 0
    yield "dma.stride", (t["stride"] >= t["row_bytes"]) | (t["rows"] == 1)
    places = zip(*(t[name].tolist() for name in ("dram_addr", "rows", "row_bytes", "stride", "spm_addr")), strict=True)
    yield "dma.spm_addr", [_inside(config, *place) for place in set(places)]


def _inside(config: NpuConfig, addr: int, rows: int, row_bytes: int, stride: int, spm_addr: int) -> bool:
    """Whether the bytes of a transfer are in the DRAM and in the scratchpad; in Python's integers, which have no end."""
    align = config.dma.alignment_bytes
    end = -(-(addr + (rows - 1) * stride + row_bytes) // align) * align
    room = config.spm.size_bytes - aligned_bytes(addr, rows, row_bytes, stride, align)
    return end <= config.dram.capacity_bytes and 0 <= spm_addr <= room


def _computes(tables: dict[str, Any], config: NpuConfig) -> Iterator[Rule]:
    c = tables["compute"]
    tensor = c["engine"] < config.te.engines
    yield "compute.engine", (c["engine"] >= 0) & (c["engine"] < config.te.engines + config.ve.engines)
    most = np.where(tensor, WIDE_LIMIT // config.te.period, WIDE_LIMIT // config.ve.period)
    for name in ("init", "body", "finalize", "work"):
        yield f"compute.{name}", (c[name] >= 0) & ((c[name] < most) if name != "work" else True)
    total = c["init"].astype(float) + c["body"] + c["finalize"]
    yield "compute.body", total < most.astype(float)
    yield "compute.regions", (c["regions"] >= 0) & (c["regions"] <= MAX_REGIONS)
    used = np.arange(MAX_REGIONS) < c["regions"][:, None]
    addr, nbytes, write = (c[name] for name in REGIONS)
    size = config.spm.size_bytes
    yield "compute.region_addr", ~used | ((addr >= 0) & (addr <= size))
    yield "compute.region_bytes", ~used | ((nbytes >= 0) & (nbytes <= size - np.clip(addr, 0, size)))
    yield "compute.region_write", ~used | ((write >= 0) & (write <= 1))
