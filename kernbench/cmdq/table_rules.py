"""Checks whether the tables of a program fit their machine.

The core does not check its tables. Tables from lowering are right; tables from a file are compared with the declarations in
this file: first each column by itself (COLUMNS: shape and range), then the relations between columns. A rule is evaluated only
if all rules before it hold, so no table can make a rule request too much memory, divide by zero or exceed 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from kernbench.cmdq.columns import MAX_REGIONS
from kernbench.cmdq.footprint import MAX_TRANSFER_ROWS, aligned_bytes
from kernbench.cmdq.lower import route_of
from kernbench.cmdq.plan import Plan
from kernbench.components.service import PARTS
from kernbench.config.fields import WIDE_LIMIT
from kernbench.config.schema import NpuConfig
from kernbench_core.numbers import Opkind

WORDS = 2**31  # limit of entries, jobs and dependencies, which are numbered in 32 bits
MAX_OPERAND = 2**58  # [B] the core counts the lines of sixteen body cycles together


@dataclass(frozen=True)
class Sizes:
    """The sizes that determine ranges and shapes of columns."""

    plan: Plan  #: of the entries on the machine
    entries: int
    dependencies: int
    transfers: int
    jobs: int

    def rows(self, kind: str) -> tuple[int, ...]:
        """The shape of a column with one row for each item of a kind."""
        shapes = {
            "entry": (self.entries,),
            "entry, and one": (self.entries + 1,),
            "dependency": (self.dependencies,),
            "transfer": (self.transfers,),
            "job": (self.jobs,),
            "operand": (self.jobs, MAX_REGIONS),
            "part": (self.jobs, len(PARTS) if self.plan.pe.te.overlaps_jobs else 0),
        }
        return shapes[kind]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: int64, with one row for each item of kind `of`, and values from `low` to below `limit`."""

    name: str
    of: str
    low: int
    limit: Callable[[Sizes], int]
    meaning: str

    def of_tables(self, tables: dict[str, Any]) -> Any:
        section, _, name = self.name.rpartition(".")
        return (tables[section] if section else tables)[name]


def _dram(s: Sizes) -> int:
    return s.plan.pe.dram.capacity_bytes


def _spm(s: Sizes) -> int:
    return s.plan.pe.spm.size_bytes


def _cycles(s: Sizes) -> int:
    return WIDE_LIMIT


def _operand(s: Sizes) -> int:
    return min(_spm(s), MAX_OPERAND) + 1


COLUMNS: tuple[Column, ...] = (
    Column("op", "entry", 0, lambda s: Opkind.OP_END + 1, "what the entry is: a transfer, a job, NOP, BARRIER or END"),
    Column("job", "entry", -1, lambda s: max(s.transfers, s.jobs, 0), "its row among transfers or jobs; -1: it has none"),
    Column("waits", "entry", 0, lambda s: s.entries + 1, "how many entries it waits for; END one more: all before it"),
    Column("after", "entry, and one", 0, lambda s: s.dependencies + 1, "where the list of those that wait for it begins"),
    Column("dependents", "dependency", 0, lambda s: s.entries, "who waits: a list for each entry, one after the other"),
    Column("dma.engine", "transfer", 0, lambda s: len(s.plan.dma), "DMA engine"),
    Column("dma.channel", "transfer", 0, lambda s: 3, "channel of that engine"),
    Column("dma.group", "transfer", -1, lambda s: s.transfers, "KV stores that keep the order of t_start; -1: none"),
    Column("dma.write", "transfer", 0, lambda s: 2, "1: towards DRAM"),
    Column("dma.t_start", "transfer", 0, _cycles, "place in the order of its group"),
    Column("dma.dram_addr", "transfer", 0, _dram, "first DRAM byte"),
    Column("dma.row_bytes", "transfer", 1, lambda s: _dram(s) + 1, "[B] of a row"),
    Column("dma.stride", "transfer", 1, _cycles, "[B] from row to row"),
    Column("dma.rows", "transfer", 1, lambda s: MAX_TRANSFER_ROWS + 1, "rows"),
    Column("dma.spm_addr", "transfer", 0, _spm, "scratchpad address of the first aligned byte"),
    Column("dma.nbytes", "transfer", 1, _cycles, "[B] at the scratchpad: all rows at their aligned lengths"),
    Column("dma.entry", "transfer", 0, lambda s: s.entries, "its entry"),
    Column("dma.memory", "transfer", 0, lambda s: len(s.plan.machine["memories"]), "memory; an NPU has one, and one a codec"),
    Column("dma.route", "transfer", 0, lambda s: len(s.plan.machine["route_start"]) - 1, "route to the memory's first channel"),
    Column("dma.peer", "transfer", -1, lambda s: len(s.plan.machine["spm"]) - 1, "scratchpad at the other end; -1: DRAM"),
    Column("compute.engine", "job", 0, lambda s: len(s.plan.compute), "tensor engine, behind these vector engine, then M_CPU"),
    Column("compute.init", "job", 0, _cycles, "[cycle] before the body"),
    Column("compute.body", "job", 0, _cycles, "[cycle] over which operands stream"),
    Column("compute.finalize", "job", 0, _cycles, "[cycle] behind the body"),
    Column("compute.work", "job", 1, lambda s: 2**63, "MACs or operations"),
    Column("compute.regions", "job", 0, lambda s: MAX_REGIONS + 1, "operands"),
    Column("compute.entry", "job", 0, lambda s: s.entries, "its entry"),
    Column("compute.parts", "part", 0, _cycles, "[cycle] load, port, last, spare, drain; no columns if jobs do not overlap"),
    Column("compute.region_addr", "operand", 0, _spm, "scratchpad address; 0: there is none"),
    Column("compute.region_bytes", "operand", 0, _operand, "[B]; 0: there is none"),
    Column("compute.region_write", "operand", 0, lambda s: 2, "1: it is written"),
)
TABLES = tuple(sorted(column.name for column in COLUMNS))  #: the tables in files

Rule = tuple[str, Any]  #: a table, and whether each of its rows obeys the rule


def broken_rule(tables: dict[str, Any], entries: int, plan: Plan) -> str | None:
    """The first column that a program with this plan cannot have, in the words of errors; None if all fit."""
    sections = {name: set(tables[name]) for name in ("dma", "compute") if isinstance(tables.get(name), dict)}
    top = {name for name in tables if name not in sections}
    if {*top, *(f"{section}.{name}" for section, names in sections.items() for name in names)} != set(TABLES):
        return "tables"
    lengths = [_length(tables["dependents"]), _length(tables["dma"]["entry"]), _length(tables["compute"]["entry"])]
    if max(entries, *lengths) >= WORDS:
        return "more than 2^31 rows"
    sizes = Sizes(plan, entries, *lengths)
    wrong = next(filter(None, (_out_of_range(column, column.of_tables(tables), sizes) for column in COLUMNS)), None)
    return wrong or next((name for name, fits in _relations(tables, sizes) if not np.all(fits)), None)


def _length(table: Any) -> int:
    return len(table) if isinstance(table, np.ndarray) and table.ndim else 0


def _out_of_range(column: Column, table: Any, sizes: Sizes) -> str | None:
    """The problem with a single column."""
    if not isinstance(table, np.ndarray) or table.dtype != np.int64 or table.shape != sizes.rows(column.of):
        return f"{column.name} has another shape"
    limit = column.limit(sizes)
    wrong = np.argwhere((table < column.low) | (table > limit - 1))
    if not len(wrong):
        return None
    row = wrong[0].tolist()
    return f"{column.name}{row} = {table[tuple(row)]}, and it must be from {column.low} to {limit - 1}"


def _relations(tables: dict[str, Any], sizes: Sizes) -> Iterator[Rule]:
    """The rules between columns that are in their ranges."""
    yield from _control(tables, sizes)
    yield from _transfers(tables["dma"], sizes.plan)
    yield from _computes(tables["compute"], sizes.plan)


def _control(tables: dict[str, Any], sizes: Sizes) -> Iterator[Rule]:
    op, after, dependents = tables["op"], tables["after"], tables["dependents"]
    yield "op", np.flatnonzero(op == Opkind.OP_END) == sizes.entries - 1
    job = np.full(sizes.entries, -1)
    for kind, number in (("dma", Opkind.OP_DMA), ("compute", Opkind.OP_COMPUTE)):
        rows = np.flatnonzero(op == number)
        yield f"{kind}.entry", np.array_equal(tables[kind]["entry"], rows)
        job[rows] = np.arange(len(rows))
    yield "job", tables["job"] == job
    yield "after", [after[0] == 0, after[-1] == sizes.dependencies]
    yield "after", np.diff(after) >= 0
    who = np.repeat(np.arange(sizes.entries), np.diff(after))
    yield "dependents", dependents != who
    yield "dependents", (np.diff(dependents) > 0) | (np.diff(who) > 0)
    yield "waits", tables["waits"] == np.bincount(dependents, minlength=sizes.entries) + (op == Opkind.OP_END)


def _transfers(t: dict[str, Any], plan: Plan) -> Iterator[Rule]:
    config = plan.pe
    if plan.machine.get("own_routes"):
        yield "dma.route", t["route"] == route_of(t, len(plan.dma), plan.channels + len(plan.caches))
        yield "dma.memory", (t["memory"] == 0) | (t["rows"] == 1)
    yield "dma.stride", (t["stride"] >= t["row_bytes"]) | (t["rows"] == 1)
    extents = zip(*(t[name].tolist() for name in ("memory", "dram_addr", "rows", "row_bytes", "stride", "nbytes")), strict=True)
    ratios = [Fraction(*memory.get("ratio", (1, 1))) for memory in plan.machine["memories"]]
    yield "dma.nbytes", [_travels(config, ratios[memory], *extent) for memory, *extent in set(extents)]
    yield "dma.spm_addr", (t["engine"] >= plan.with_scratchpad) | (t["nbytes"] <= config.spm.size_bytes - t["spm_addr"])


def _travels(config: NpuConfig, ratio: Fraction, addr: int, rows: int, row_bytes: int, stride: int, nbytes: int) -> bool:
    """Whether the DRAM has room for the bytes; computed in Python integers, which do not overflow."""
    align = config.dma.alignment_bytes
    end = -(-(addr + (rows - 1) * stride + row_bytes) // align) * align
    return end <= config.dram.capacity_bytes and nbytes == ratio * aligned_bytes(addr, rows, row_bytes, stride, align)


def _computes(c: dict[str, Any], plan: Plan) -> Iterator[Rule]:
    config = plan.pe
    period = np.array([engine["period"] for engine in plan.machine["compute"]] or [1])[c["engine"]]
    left = WIDE_LIMIT // period  # [tick] limit of the service time of its engine, which is busy for fewer than 2^62 cycles
    for name in ("init", "body", "finalize"):
        yield f"compute.{name}", c[name] < left
        left = left - c[name]
    yield "compute.init", (c["init"] > 0) | (c["body"] > 0) | (c["finalize"] > 0)
    if c["parts"].size:
        load, port, last, spare, drain = c["parts"].T
        loading = np.maximum(load, port)
        yield "compute.parts", (spare <= last) & (drain <= c["body"]) & (loading <= c["body"] - drain)
        yield "compute.parts", (last <= c["body"] - drain - loading) & (c["init"] + c["body"] > drain)
    used = np.arange(MAX_REGIONS) < c["regions"][:, None]
    addr, nbytes, write = (c[f"region_{name}"] for name in ("addr", "bytes", "write"))
    yield "compute.region_bytes", (nbytes > 0) == used
    yield "compute.region_bytes", nbytes <= config.spm.size_bytes - addr
    yield "compute.region_addr", used | (addr == 0)
    yield "compute.region_write", used | (write == 0)


def differing(tables: dict[str, Any], others: dict[str, Any]) -> str | None:
    """The first value that differs in `others`, as text for an error; None if all are equal."""
    for column in COLUMNS:
        table, other = column.of_tables(tables), column.of_tables(others)
        if table.shape != other.shape:
            return f"{column.name} has the shape {table.shape} instead of {other.shape}"
        if not np.array_equal(table, other):
            row: list[int] = np.argwhere(np.atleast_1d(table != other))[0].tolist()
            return f"{column.name}{row} = {table[tuple(row)]} instead of {other[tuple(row)]}"
    return None
