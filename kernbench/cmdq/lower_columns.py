"""Lowers entries of an NPU by columns: the tables of `lower_program` in a tenth of its time, for entries that are surely valid.

What is not surely valid, or has numbers that 64 bits may not hold on the way, gives None, and `check_program` says what it is.
So this file may be too careful, and must never give tables of a program that is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kernbench.cmdq.entries import BarrierEntry, DmaEntry, Entry, KvEntry, TeEntry, VeEntry
from kernbench.cmdq.footprint import (
    ACT_WEIGHT,
    KV_LOAD,
    KV_STORE,
    MOST_ROWS,
    READS_SCRATCHPAD,
    aligned_bytes,
    bytes_of,
    flat_address,
    service_cycles,
)
from kernbench.cmdq.lower import BARRIER, COMPUTE_JOB, DMA_JOB, END, MAX_REGIONS, NOP, TRANSFER
from kernbench.cmdq.opcodes import OPCODES, VE_BINARY_OPS, VE_REDUCTIONS
from kernbench.config import NpuConfig
from kernbench.config.fields import WIDE_LIMIT

PLAIN = 2**40  # numbers of entries are below it: times 64 bits they are still far from 2^63
ABSENT = -1  # of an optional number
_OP = {"NOP": NOP, "BARRIER": BARRIER, "END": END}
_KIND = {
    name: _OP.get(name, DMA_JOB if spec.engine == "dma" else COMPUTE_JOB) for name, spec in OPCODES.items() if not spec.system
}

Column = npt.NDArray[np.int64]
Some = TypeVar("Some", bound=Entry)


class _Unsure(Exception):
    """Whether the entries are valid is for `check_program` to say."""


def tables_by_columns(entries: Sequence[Entry], config: NpuConfig) -> dict[str, Any] | None:
    """The core's tables of these entries; None where they may not be valid on the machine."""
    try:
        return _tables(entries, config)
    except _Unsure:
        return None


def _sure(*conditions: Any) -> None:
    for condition in conditions:
        if not np.all(condition):
            raise _Unsure


def _tables(entries: Sequence[Entry], config: NpuConfig) -> dict[str, Any]:
    opcodes = list(map(attrgetter("opcode"), entries))
    _sure(_KIND.keys() >= set(opcodes), list(map(attrgetter("node"), entries)).count(None) == len(entries))
    op = np.fromiter(map(_KIND.__getitem__, opcodes), np.int64, len(entries))
    _sure(np.flatnonzero(op == END) == len(entries) - 1)
    job = np.full(len(entries), -1)
    for kind in (DMA_JOB, COMPUTE_JOB):
        rows = np.flatnonzero(op == kind)
        job[rows] = np.arange(len(rows))
    return {
        "op": op,
        "job": job,
        **_dependencies(entries, op),
        "dma": _transfers(entries, op, job, config),
        "compute": _computes(entries, op, job, config),
    }


def _numbers(group: Sequence[Any], name: str) -> Column:
    """A field of some entries; ABSENT where it is None."""
    values: list[Any] = list(map(attrgetter(name), group))
    absent = values.count(None)
    if absent == len(values):
        return np.full(len(values), ABSENT)
    found = np.array([ABSENT if value is None else value for value in values] if absent else values, dtype=np.int64)
    _sure(found < PLAIN)
    return found


def _of(entries: Sequence[Entry], kind: type[Some]) -> tuple[list[Some], Column]:
    """Those of a class, and their positions."""
    found = [entry for entry in entries if type(entry) is kind]
    return found, np.array(list(map(attrgetter("index"), found)), dtype=np.int64)


def _dependencies(entries: Sequence[Entry], op: Column) -> dict[str, Column]:
    """`waits`, `after` and `dependents`, where no entry waits for a later one: then there is no circle."""
    count = len(entries)
    ids = np.array(list(map(attrgetter("id"), entries)), dtype=np.int64)
    order = np.argsort(ids, kind="stable")
    ranked = ids[order]
    _sure(ranked[1:] > ranked[:-1])

    def named(lists: list[tuple[int, ...]]) -> tuple[Column, Column]:
        """Who names (as positions in `lists`), and the position in the file of what is named."""
        sizes = np.fromiter(map(len, lists), np.int64, len(lists))
        flat = np.fromiter(chain.from_iterable(lists), np.int64, int(sizes.sum()))
        place = np.minimum(np.searchsorted(ranked, flat), max(count - 1, 0))
        _sure(len(flat) == 0 or count > 0, ranked[place] == flat)
        return np.repeat(np.arange(len(lists)), sizes), order[place]

    by, of = named(list(map(attrgetter("deps_before"), entries)))
    first, then = named(list(map(attrgetter("deps_after"), entries)))
    barriers, where = _of(entries, BarrierEntry)
    gate, waited = named(list(map(attrgetter("wait_for"), barriers)))
    source, target = np.concatenate((of, first, waited)), np.concatenate((by, then, where[gate]))
    _sure(source < target)
    edges = np.sort(source * count + target)
    if (edges[1:] == edges[:-1]).any():  # said twice
        edges = np.unique(edges)
    source, target = edges // max(count, 1), edges % max(count, 1)
    after = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(source, minlength=count), out=after[1:])
    return {"waits": np.bincount(target, minlength=count) + (op == END), "after": after, "dependents": target}


def _below(values: Column, count: int) -> None:
    _sure(values >= 0, values < count)


def _product(*factors: Any) -> Any:
    """Of numbers that are not negative; sure to be below WIDE_LIMIT."""
    about: Any = 1.0
    exact: Any = 1
    for factor in factors:
        about = about * np.asarray(factor, dtype=np.float64)
        _sure(about < WIDE_LIMIT / 2)
        exact = exact * factor
    return exact


def _place(entries: Sequence[Any], prefix: str, config: NpuConfig) -> Column:
    """Flat scratchpad addresses."""
    bank, offset = _numbers(entries, f"{prefix}_bank"), _numbers(entries, f"{prefix}_offset")
    _below(bank, config.spm.num_banks)
    return flat_address(bank, offset, config.spm)  # type: ignore[arg-type, return-value]  # arrays as numbers


def _transfers(entries: Sequence[Entry], op: Column, job: Column, config: NpuConfig) -> dict[str, Column]:
    positions = np.flatnonzero(op == DMA_JOB)
    table = {name: np.zeros(len(positions), dtype=np.int64) for name in TRANSFER}
    table["group"][:] = table["peer"][:] = -1
    table["entry"][:] = positions
    for kind, fill in ((DmaEntry, _tiles), (KvEntry, _kv_tiles)):
        moves, where = _of(entries, kind)
        at = job[where]
        table["engine"][at] = _numbers(moves, "dma_id")
        table["spm_addr"][at] = _place(moves, "spm", config)
        table["write"][at] = [entry.opcode in READS_SCRATCHPAD for entry in moves]
        fill(table, moves, at, config)
    _below(table["engine"], config.dma.engines)
    table["route"][:] = (2 * table["engine"] + table["write"]) * config.dram.channels
    _check_extents(table, config)
    return table


def _tiles(table: dict[str, Column], tiles: Sequence[Any], at: Column, config: NpuConfig) -> None:
    bits, flat = _numbers(tiles, "qbits"), _numbers(tiles, "num_elements")
    rows, width, stride = (_numbers(tiles, name) for name in ("rows", "row_elements", "stride_bytes"))
    whole = flat != ABSENT
    several = (rows != ABSENT) & (width != ABSENT) & (stride != ABSENT)
    none = (rows == ABSENT) & (width == ABSENT) & (stride == ABSENT)
    _sure(np.where(whole, none, several))
    row_bytes: Any = bytes_of(np.where(whole, flat, width), bits)  # type: ignore[arg-type]
    _sure(whole | (stride >= row_bytes))
    table["row_bytes"][at] = row_bytes
    table["rows"][at] = np.where(whole, 1, rows)
    table["stride"][at] = np.where(whole, row_bytes, stride)
    table["dram_addr"][at] = _numbers(tiles, "dram_addr")
    kv = np.array([entry.tensor_role == "kv" for entry in tiles], dtype=np.bool_)
    table["channel"][at] = np.where(kv, np.where(table["write"][at] == 1, KV_STORE, KV_LOAD), ACT_WEIGHT)


def _kv_tiles(table: dict[str, Column], tiles: Sequence[Any], at: Column, config: NpuConfig) -> None:
    _sure(not any("head_id" in entry.meta for entry in tiles))  # it is a field of these, and no metadata
    layout = _numbers(tiles, "kv_layout_id")
    _below(layout, len(config.kv_layouts))
    shapes = np.array([(one.t_max, one.head_dim) for one in config.kv_layouts], dtype=np.int64).reshape(-1, 2)
    t_max, head_dim = shapes[layout, 0], shapes[layout, 1]
    names = ("dram_base_addr", "qbits_kv", "head_id", "t_start", "t_len", "d_start", "d_len")
    base, bits, head, t_start, t_len, d_start, given = (_numbers(tiles, name) for name in names)
    d_len = np.where(given == ABSENT, head_dim - d_start, given)
    _sure(t_start + t_len <= t_max, d_start < head_dim, d_start + d_len <= head_dim)
    elements = _product(head, t_max) + t_start
    _product(elements, head_dim, bits)
    first = base * 8 + (elements * head_dim + d_start) * bits
    whole = (d_start == 0) & (d_len == head_dim)
    _product(t_len, head_dim, bits)
    row_bytes: Any = bytes_of(np.where(whole, t_len * head_dim, d_len), bits)  # type: ignore[arg-type]
    rows = np.where(whole, 1, t_len)
    _sure(first % 8 == 0, (rows == 1) | (head_dim * bits % 8 == 0))
    write = table["write"][at] == 1
    table["row_bytes"][at], table["rows"][at] = row_bytes, rows
    table["stride"][at] = np.where(rows > 1, head_dim * bits // 8, row_bytes)
    table["dram_addr"][at] = first // 8
    table["channel"][at] = np.where(write, KV_STORE, KV_LOAD)
    table["t_start"][at] = np.where(write, t_start, 0)
    groups: dict[tuple[Any, ...], int] = {}
    for k in np.flatnonzero(write).tolist():
        tile = tiles[k]
        key = (tile.dma_id, tile.dram_base_addr, tile.head_id, tile.kv_kind)
        table["group"][at[k]] = groups.setdefault(key, len(groups))


def _check_extents(table: dict[str, Column], config: NpuConfig) -> None:
    """What moves is inside the DRAM and inside the scratchpad."""
    align = config.dma.alignment_bytes
    _sure(table["rows"] <= MOST_ROWS)
    addr, rows, row_bytes, stride, spm = (table[name] for name in ("dram_addr", "rows", "row_bytes", "stride", "spm_addr"))
    end = addr + _product(rows - 1, stride) + row_bytes
    _sure(-(-end // align) * align <= config.dram.capacity_bytes)
    flat = rows == 1
    last, first = (addr + row_bytes - 1) // align, addr // align
    moved = np.where(flat, (last - first + 1) * align, 0)
    rest = np.flatnonzero(~flat)
    if len(rest):
        shapes = np.stack((addr[rest] % align, rows[rest], row_bytes[rest], stride[rest]), axis=1)
        distinct, which = np.unique(shapes, axis=0, return_inverse=True)
        sizes = [aligned_bytes(*shape, align) for shape in distinct.tolist()]  # type: ignore[call-arg]  # four numbers
        _sure(max(sizes) < WIDE_LIMIT)
        moved[rest] = np.array(sizes, dtype=np.int64)[which.reshape(-1)]
    _sure(spm <= config.spm.size_bytes, moved <= config.spm.size_bytes - spm)


def _computes(entries: Sequence[Entry], op: Column, job: Column, config: NpuConfig) -> dict[str, Column]:
    positions = np.flatnonzero(op == COMPUTE_JOB)
    names = ("engine", "init", "body", "finalize", "work", "regions", "entry")
    table = {name: np.zeros(len(positions), dtype=np.int64) for name in names}
    table |= {f"region_{name}": np.zeros((len(positions), MAX_REGIONS), dtype=np.int64) for name in ("addr", "bytes", "write")}
    table["entry"][:] = positions
    products, at = _of(entries, TeEntry)
    _products(table, products, job[at], config)
    vectors, at = _of(entries, VeEntry)
    _vectors(table, vectors, job[at], config)
    used = np.arange(MAX_REGIONS) < table["regions"][:, None]
    size = config.spm.size_bytes
    addr, nbytes = table["region_addr"], table["region_bytes"]
    _sure(~used | (addr <= size), ~used | (nbytes <= size - np.minimum(addr, size)))
    return table


def _products(table: dict[str, Column], tiles: Sequence[TeEntry], at: Column, config: NpuConfig) -> None:
    engine = _numbers(tiles, "te_id")
    _below(engine, config.te.engines)
    m, n, k, weight, act = (_numbers(tiles, name) for name in ("m", "n", "k", "qbits_weight", "qbits_activation"))
    table["engine"][at] = engine
    table["work"][at] = _product(m, n, k)
    table["regions"][at] = 3
    regions = (("ifm", m, k, act), ("wgt", k, n, weight), ("ofm", m, n, act))
    for region, (prefix, rows, cols, bits) in enumerate(regions):
        _product(rows, cols, bits)
        table["region_addr"][at, region] = _place(tiles, prefix, config)
        table["region_bytes"][at, region] = bytes_of(rows * cols, bits)  # type: ignore[arg-type]
    table["region_write"][at, 2] = 1
    _service(table, tiles, at, np.stack((m, n, k, weight, act), axis=1), config, config.te.period)


def _vectors(table: dict[str, Column], tiles: Sequence[VeEntry], at: Column, config: NpuConfig) -> None:
    engine = _numbers(tiles, "ve_id")
    _below(engine, config.ve.engines)
    length, batch, bits = (_numbers(tiles, name) for name in ("length", "batch", "qbits_activation"))
    op = [OPCODES[entry.opcode].op for entry in tiles]
    number = {name: k for k, name in enumerate(dict.fromkeys(op))}
    binary, reduces = (np.array([name in names for name in op], dtype=np.bool_) for names in (VE_BINARY_OPS, VE_REDUCTIONS))
    bank, offset = _numbers(tiles, "in2_bank"), _numbers(tiles, "in2_offset")
    _sure(np.where(binary, (bank != ABSENT) & (offset != ABSENT), (bank == ABSENT) & (offset == ABSENT)))
    work = _product(length, batch)
    _product(work, bits)
    nbytes: Any = bytes_of(work, bits)  # type: ignore[arg-type]
    table["engine"][at] = engine + config.te.engines
    table["work"][at] = work
    table["regions"][at] = np.where(binary, 3, 2)
    table["region_addr"][at, 0], table["region_bytes"][at, 0] = _place(tiles, "in", config), nbytes
    two = np.flatnonzero(binary)
    table["region_addr"][at[two], 1] = _place([tiles[k] for k in two.tolist()], "in2", config)
    table["region_bytes"][at[two], 1] = nbytes[two]
    last = np.where(binary, 2, 1)
    table["region_addr"][at, last] = _place(tiles, "out", config)
    table["region_bytes"][at, last] = np.where(reduces, bytes_of(batch, bits), nbytes)  # type: ignore[arg-type]
    table["region_write"][at, last] = 1
    ops = np.array([number[name] for name in op], dtype=np.int64)
    _service(table, tiles, at, np.stack((ops, length, batch, bits), axis=1), config, config.ve.period)


def _service(
    table: dict[str, Column], tiles: Sequence[Entry], at: Column, shapes: Column, config: NpuConfig, period: int
) -> None:
    """Service times: of each shape, as all entries of it have the same."""
    if not len(tiles):
        return
    _, first, which = np.unique(shapes, axis=0, return_index=True, return_inverse=True)
    times = [service_cycles(tiles[k], config) for k in first.tolist()]
    _sure(max(time.total for time in times) * period < WIDE_LIMIT)
    for name in ("init", "body", "finalize"):
        table[name][at] = np.array([getattr(time, name) for time in times], dtype=np.int64)[which.reshape(-1)]
