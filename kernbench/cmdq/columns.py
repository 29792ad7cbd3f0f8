"""Entries of a program as columns: what each entry moves, reads, writes and occupies on a PE, computed and checked once.

The derived values of an entry are one row of these columns. Checks, bounds, traces and the core use these columns;
`table_rules.py` defines each of them. `docs/walks.md` follows an entry from its file to its trace.

Columns are int64. Columns whose intermediate values could exceed 64 bits have Python integers, so that errors show the right
value; accepted values fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import astuple

from kernbench.cmdq.dependencies import edges_of, structure_problems
from kernbench.cmdq.entries import DmaEntry, Entry, HostEntry, KvEntry, PairEntry, TeEntry, VeEntry
from kernbench.cmdq.footprint import (
    ABSENT,
    MAX_TRANSFER_ROWS,
    READS_SCRATCHPAD,
    bytes_of,
    channel_of,
    compressed_bytes,
    flat_address,
    kv_rows,
    lane_bits,
    moved_bytes,
    select,
    te_bytes,
    tile_rows,
    tiling_of,
    times,
    ve_bytes,
)
from kernbench.cmdq.opcodes import OPCODES, VE_BINARY_OPS, VE_REDUCTIONS
from kernbench.cmdq.program import Program
from kernbench.cmdq.read_entry import FieldProblem
from kernbench.common.errors import InternalError
from kernbench.components.service import PARTS, ServiceTime, Tiling, te_service, ve_service
from kernbench.config import NpuConfig
from kernbench.config.fields import WIDE_LIMIT
from kernbench_core.numbers import Opkind

#: Columns of transfers. `route`: the route of the first channel of its memory; the routes of the other channels follow. `peer`:
#: a scratchpad, or -1.
TRANSFER = (
    "engine", "channel", "group", "write", "t_start", "dram_addr", "row_bytes", "stride", "rows", "spm_addr", "nbytes", "entry",
    "memory", "route", "peer",
)  # fmt: skip
#: Columns of the jobs of other engines, and of their operands.
COMPUTE = ("engine", "init", "body", "finalize", "work", "regions", "entry")
OPERAND = ("region_addr", "region_bytes", "region_write")
MAX_REGIONS = 4
PLAIN = 2**40  # limit below which numbers of entries are treated as int64: sums of them stay far below 2^63

_CONTROL = {"NOP": Opkind.OP_NOP, "BARRIER": Opkind.OP_BARRIER, "END": Opkind.OP_END}
_BY_ENGINE = {"dma": Opkind.OP_DMA, "te": Opkind.OP_COMPUTE, "ve": Opkind.OP_COMPUTE, "cpu": Opkind.OP_COMPUTE}
_OP = {name: int(_CONTROL[name] if name in _CONTROL else _BY_ENGINE[spec.engine]) for name, spec in OPCODES.items()}
_SHORT = {name: spec.op for name, spec in OPCODES.items()}
_MOVE, _WORK, _END = int(Opkind.OP_DMA), int(Opkind.OP_COMPUTE), int(Opkind.OP_END)  # numpy is slow with enums
_NAMES = {"dma": "DMA engine", "te": "tensor engine", "ve": "vector engine"}

Column = npt.NDArray[np.int64]
Say = Callable[[int], FieldProblem]  #: problems of an entry, by its position among entries of its class


class Columns:
    """The columns of entries on a PE, and their problems by position: problems on this machine (`problems`) and on any machine
    (`structure`).

    `engine` is numbered among the engines of its kind in one PE; memory, route, peer and group depend on the machine. Ids,
    dependencies and END are checked here if the program was built in Python instead of being parsed.
    """

    def __init__(self, program: Program, pe: NpuConfig) -> None:
        entries = program.entries
        self.entries: Sequence[Entry] = entries
        self.pe = pe
        known = program.known_edges
        self.edges = edges_of(entries) if known is None else known
        self.structure = structure_problems(entries, self.edges) if known is None else []
        self.problems: list[tuple[int, FieldProblem]] = []
        self.regular = True  #: whether each entry is one that reading can produce; entries of a binary file may not be
        opcodes = list(map(attrgetter("opcode"), entries))
        self.op: Column = np.fromiter(map(_OP.__getitem__, opcodes), np.int64, len(entries))
        self.job: Column = np.full(len(entries), -1)
        kinds = list(map(type, entries))
        self._kinds = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
        self._kind: Column = np.fromiter(map(self._kinds.__getitem__, kinds), np.int64, len(kinds))
        moves, works = (np.flatnonzero(self.op == kind) for kind in (_MOVE, _WORK))
        self.dma, self.compute = _table(TRANSFER, moves), _table(COMPUTE, works)
        for name in OPERAND:
            self.compute[name] = np.zeros((len(works), MAX_REGIONS), dtype=np.int64)
        self.compute["parts"] = np.zeros((len(works), len(PARTS) if pe.te.overlaps_jobs else 0), dtype=np.int64)
        for name in ("group", "peer"):
            self.dma[name][:] = -1
        for rows in (moves, works):
            self.job[rows] = np.arange(len(rows))
        there = self._kinds
        filled = sum(_Group(self, kind).fill() for kind in _FILL if kind in there)
        launches = opcodes.count("LAUNCH")  # the system determines their possible sizes
        if filled + launches != len(moves) + len(works):
            raise InternalError("an entry has the fields of another opcode")

    def check_regular(self, source: str) -> None:
        """InternalError for an entry that reading cannot produce."""
        if not self.regular:
            raise InternalError(f"{source}: an entry is not as reading makes it")

    def positions(self, kind: type[Entry]) -> list[int]:
        """The columns of the entries of a class, as positions."""
        found: list[int] = np.flatnonzero(self._kind == self._kinds.get(kind, -1)).tolist()
        return found

    def dram_range(self, index: int) -> tuple[int, int]:
        """The aligned DRAM bytes `[start, end)` of a transfer, including the bytes between its rows."""
        row, align = self.job[index], self.pe.dma.alignment_bytes
        first, rows, row_bytes, stride = (int(self.dma[name][row]) for name in ("dram_addr", "rows", "row_bytes", "stride"))
        return first // align * align, -(-(first + (rows - 1) * stride + row_bytes) // align) * align

    def tables(self) -> dict[str, Any]:
        """The columns in the form of the core's tables. Only for entries without problems."""
        return {
            "op": self.op,
            "job": self.job,
            **self._dependencies(),
            "dma": {name: _narrow(column) for name, column in self.dma.items()},
            "compute": {name: _narrow(column) for name, column in self.compute.items()},
        }

    def _dependencies(self) -> dict[str, Column]:
        """The number of dependencies of each entry, and its dependents, as compressed rows."""
        if self.edges is None:
            raise InternalError("ids or dependencies were not checked")
        source, target = self.edges
        count = len(self.entries)
        after = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(np.bincount(source, minlength=count), out=after[1:])
        waits = np.bincount(target, minlength=count) + (self.op == _END)  # END also waits for all before it
        return {"waits": waits, "after": after, "dependents": target}


def order_groups(columns: Columns) -> None:
    """Number the groups of KV stores that keep the order of t_start: one for each engine, base, head, and K or V."""
    groups: dict[tuple[Any, ...], int] = {}
    for k in columns.positions(KvEntry):
        entry: Any = columns.entries[k]
        row = columns.job[k]
        if columns.dma["write"][row]:
            key = (int(columns.dma["engine"][row]), entry.dram_base_addr, entry.head_id, entry.kv_kind)
            columns.dma["group"][row] = groups.setdefault(key, len(groups))


def column(values: Sequence[int]) -> Column:
    """Integers in the form that the core requires."""
    return np.array(values, dtype=np.int64)


def _table(names: Sequence[str], entries: Column) -> dict[str, Column]:
    table = {name: np.zeros(len(entries), dtype=np.int64) for name in names}
    table["entry"][:] = entries
    return table


def _widen(table: dict[str, Any], name: str, values: Any) -> None:
    """Convert a column to Python integers, if it needs them."""
    if isinstance(values, np.ndarray) and values.dtype.hasobject:
        table[name] = table[name].astype(object)


def _narrow(values: Column) -> Column:
    return values if values.dtype == np.int64 else values.astype(np.int64)


class _Group:
    """The entries of one class, their rows, and their fields as columns, which are made on first use."""

    def __init__(self, columns: Columns, kind: type[Entry]) -> None:
        self.columns, self.pe = columns, columns.pe
        self.kind = kind
        self.at = columns.positions(kind)
        self.entries: list[Any] = list(map(columns.entries.__getitem__, self.at))
        self.rows: Any = columns.job[self.at]
        #: whether an entry has no problem that makes its other values meaningless
        self.sound = np.ones(len(self.at), dtype=np.bool_)
        self._known: dict[str, Any] = {}

    def fill(self) -> int:
        """Fill their rows, and return their number."""
        _FILL[self.kind](self)
        return len(self.at)

    def numbers(self, name: str) -> Any:
        """A field as a column; ABSENT if it is None."""
        if name not in self._known:
            self._known[name] = self._numbers(name)
        return self._known[name]

    def _numbers(self, name: str) -> Any:
        get, count = attrgetter(name), len(self.entries)
        try:
            column = np.fromiter(map(get, self.entries), np.int64, count)
        except TypeError:  # some are None
            values = list(map(get, self.entries))
            if values.count(None) == count:
                return np.full(count, ABSENT)
            column = np.array([ABSENT if value is None else value for value in values], dtype=np.int64)
        return column if column.max() < PLAIN else column.astype(object)

    def flags(self, name: str, wanted: Collection[str]) -> npt.NDArray[np.bool_]:
        """Whether a field of each entry has one of the values."""
        return np.array([value in wanted for value in map(attrgetter(name), self.entries)], dtype=np.bool_)

    def put(self, table: dict[str, Any], **values: Any) -> None:
        """Write columns of their rows."""
        for name, column in values.items():
            _widen(table, name, column)
            table[name][self.rows] = column

    def refuse(self, wrong: Any, say: Say) -> None:
        """Add a problem to the entries for which the condition holds, unless they already have one."""
        if wrong.any():
            found = np.flatnonzero(wrong & self.sound).tolist()
            self.columns.problems += [(self.at[k], say(k)) for k in found]

    def check_engine(self, kind: str) -> Any:
        """The number of the engine, checked against the number of engines of a PE."""
        engine = self.numbers(f"{kind}_id")
        count: int = getattr(self.pe, kind).engines
        there = f"the machine has {count} {_NAMES[kind]}{'s' if count > 1 else ''} ({kind}.engines in {self.pe.source})"
        self.refuse(engine >= count, lambda k: FieldProblem((f"{kind}_id",), there, int(engine[k])))
        return engine

    def place(self, prefix: str) -> Any:
        """The flat address of `<prefix>_bank` and `<prefix>_offset`."""
        return flat_address(self.numbers(f"{prefix}_bank"), self.numbers(f"{prefix}_offset"), self.pe.spm)

    def check_place(self, prefix: str, addr: Any, nbytes: Any, among: Any = True) -> None:
        """Check that the bank exists, and that the bytes are inside the scratchpad."""
        beyond = (self.numbers(f"{prefix}_bank") >= self.pe.spm.num_banks) | (addr + nbytes > self.pe.spm.size_bytes)
        for k in np.flatnonzero(among & self.sound & beyond).tolist() if beyond.any() else ():
            problem = place_problem(self.entries[k], prefix, int(nbytes[k]), self.pe)
            self.columns.problems += [(self.at[k], one) for one in problem]


def place_problem(entry: Any, prefix: str, nbytes: int, pe: NpuConfig) -> Iterator[FieldProblem]:
    """The problem with a range of bytes in the scratchpad."""
    spm = pe.spm
    bank, offset = getattr(entry, f"{prefix}_bank"), getattr(entry, f"{prefix}_offset")
    addr = flat_address(bank, offset, spm)
    if bank >= spm.num_banks:
        rule = f"the scratchpad has {spm.num_banks} banks (spm.num_banks in {pe.source})"
        yield FieldProblem((f"{prefix}_bank",), rule, bank)
    elif addr + nbytes > spm.size_bytes:
        rule = (
            f"its {nbytes} bytes would be at [{addr}, {addr + nbytes}) of the scratchpad, which has {spm.size_bytes} "
            f"(spm in {pe.source})"
        )
        yield FieldProblem((f"{prefix}_offset",), rule, offset)


def _fill_tiles(group: _Group) -> None:
    engine = group.check_engine("dma")
    flat, bits = group.numbers("num_elements"), group.numbers("qbits")
    shape = [group.numbers(name) for name in ("rows", "row_elements", "stride_bytes")]
    whole, given = flat != ABSENT, np.stack([one != ABSENT for one in shape])
    if not (whole | given.all(axis=0)).all():
        raise InternalError("a tile has neither num_elements nor rows")
    rows, row_bytes, stride = tile_rows(flat, shape[0], shape[1], shape[2], bits)
    if (group.numbers("codec") != ABSENT).any():
        row_bytes, stride = _compress(group, rows, row_bytes, stride)
    group.columns.regular &= not (whole & given.any(axis=0)).any() and bool((stride >= row_bytes).all())
    write, kv = group.flags("opcode", READS_SCRATCHPAD), group.flags("tensor_role", ("kv",))
    _fill_moves(group, engine, write, kv, group.numbers("dram_addr"), rows, row_bytes, stride)


def _compress(group: _Group, rows: Any, row_bytes: Any, stride: Any) -> tuple[Any, Any]:
    """The bytes of a row in DRAM, and from row to row, for tiles of which some are compressed."""
    codec, codecs = group.numbers("codec"), group.pe.dma.codecs
    there = f"the machine has {len(codecs)} (dma.codecs in {group.pe.source})"
    unknown = codec >= len(codecs)
    group.refuse(unknown, lambda k: FieldProblem(("codec",), there, int(codec[k])))
    in_rows = ~unknown & (codec != ABSENT) & (group.numbers("num_elements") == ABSENT)
    rule = "it goes with num_elements: a compressed tile has no rows"
    group.refuse(in_rows, lambda k: FieldProblem(("codec",), rule, int(codec[k])))
    group.sound &= ~(unknown | in_rows)
    row_bytes, stride = row_bytes.copy(), stride.copy()
    for k in np.flatnonzero(group.sound & (codec != ABSENT)).tolist():
        row_bytes[k] = stride[k] = compressed_bytes(int(row_bytes[k]), codecs[int(codec[k])])
    return row_bytes, stride


def _fill_kv(group: _Group) -> None:
    # a field of these entries, and not metadata
    group.columns.regular &= not any("head_id" in entry.meta for entry in group.entries)
    engine = group.check_engine("dma")
    layouts, source = group.pe.kv_layouts, group.pe.source
    layout = group.numbers("kv_layout_id")
    there = f"the machine has {len(layouts)} (kv_layouts in {source})"
    group.refuse(layout >= len(layouts), lambda k: FieldProblem(("kv_layout_id",), there, int(layout[k])))
    group.sound &= layout < len(layouts)
    # the last one belongs to the problems
    shapes = np.array([*((one.t_max, one.head_dim) for one in layouts), (1, 1)], dtype=object)
    t_max, head_dim = (_plain(shapes[np.minimum(layout, len(layouts)).astype(np.int64), k]) for k in (0, 1))
    names = ("dram_base_addr", "head_id", "t_start", "t_len", "d_start", "d_len", "qbits_kv")
    base, head, t_start, t_len, d_start, d_len, bits = (group.numbers(name) for name in names)

    def nest(k: int, field: str) -> tuple[str, ...]:
        return ("kv_range", field) if group.entries[k].opcode == "KV_LOAD_TILE" else (field,)

    def too_late(k: int) -> FieldProblem:
        end = int(t_start[k]) + int(t_len[k])
        rule = f"t_start + t_len = {end} must not be above t_max = {t_max[k]} of the KV layout"
        return FieldProblem(nest(k, "t_len"), rule, int(t_len[k]))

    def outside(k: int) -> FieldProblem:
        rule = f"it must be below head_dim = {head_dim[k]} of the KV layout"
        return FieldProblem(nest(k, "d_start"), rule, int(d_start[k]))

    def too_long(k: int) -> FieldProblem:
        end = int(d_start[k]) + int(d_len[k])
        rule = f"d_start + d_len = {end} must not be above head_dim = {head_dim[k]} of the KV layout"
        return FieldProblem(nest(k, "d_len"), rule, int(d_len[k]))

    late, out = t_start + t_len > t_max, d_start >= head_dim
    long = ~out & (d_len != ABSENT) & (d_start + d_len > head_dim)
    for wrong, say in ((late, too_late), (out, outside), (long, too_long)):
        group.refuse(wrong, say)
    group.sound &= ~(late | out | long)
    first_bit, rows, row_bytes, stride, step = kv_rows(base, head, t_start, t_len, d_start, d_len, bits, t_max, head_dim)

    def crooked(k: int) -> FieldProblem:
        row = int(not first_bit[k] % 8)
        bit = int(first_bit[k] + row * step[k]) % 8
        rule = f"row {row} of the transfer would start at bit {bit} of a byte, with {int(bits[k])} bits per element"
        return FieldProblem(nest(k, "d_start"), rule, int(d_start[k]), "rows must start at a whole byte")

    inside = (first_bit % 8 != 0) | ((rows > 1) & (step % 8 != 0))  # every row begins at a whole byte if the first two do
    group.refuse(inside, crooked)
    group.sound &= ~inside
    write = group.flags("opcode", READS_SCRATCHPAD)
    group.put(group.columns.dma, t_start=np.where(write, t_start, 0))
    _fill_moves(group, engine, write, np.ones_like(write), first_bit // 8, rows, row_bytes, stride)


def _plain(values: Any) -> Any:
    """Python's integers as int64, if all are below PLAIN."""
    return values.astype(np.int64) if not len(values) or max(values) < PLAIN else values


def _fill_moves(group: _Group, engine: Any, write: Any, kv: Any, addr: Any, rows: Any, row_bytes: Any, stride: Any) -> None:
    """Fill the columns of transfers between DRAM and the scratchpad."""
    pe = group.pe
    align, capacity = pe.dma.alignment_bytes, pe.dram.capacity_bytes
    is_kv = group.kind is KvEntry
    many = rows > MAX_TRANSFER_ROWS

    def too_many(k: int) -> FieldProblem:
        rule = f"the transfer would have {int(rows[k])} rows, and one has at most {MAX_TRANSFER_ROWS}"
        nest = ("kv_range",) if group.entries[k].opcode == "KV_LOAD_TILE" else ()
        return FieldProblem((*nest, "t_len") if is_kv else ("rows",), rule, int(rows[k]))

    group.refuse(many, too_many)
    group.sound &= ~many
    rows = np.where(group.sound, rows, 1)
    end = -(-(addr + times(rows - 1, stride) + row_bytes) // align) * align

    def beyond(k: int) -> FieldProblem:
        field = "dram_base_addr" if is_kv else "dram_addr"
        rule = (
            f"the transfer's bytes, aligned to {align}, are [{addr[k] // align * align}, {end[k]}), "
            f"and the DRAM has {capacity} (dram.capacity_bytes in {pe.source})"
        )
        return FieldProblem((field,), rule, getattr(group.entries[k], field))

    group.refuse(end > capacity, beyond)
    spm, moved = group.place("spm"), moved_bytes(addr, rows, row_bytes, stride, align)
    memory = np.zeros(len(group.at), dtype=np.int64)
    if pe.dma.codecs and group.kind is DmaEntry:
        memory = np.where(group.sound, group.numbers("codec") + 1, 0)  # 0: ABSENT
        moved = times(moved, np.array([1, *(codec.ratio.numerator for codec in pe.dma.codecs)], dtype=object)[memory])
        moved //= np.array([1, *(codec.ratio.denominator for codec in pe.dma.codecs)], dtype=object)[memory]
        moved = _plain(moved)
    group.check_place("spm", spm, moved)
    where = {"dram_addr": addr, "rows": rows, "row_bytes": row_bytes, "stride": stride, "spm_addr": spm, "nbytes": moved}
    where |= {"memory": memory}
    group.put(group.columns.dma, engine=engine, write=write, channel=channel_of(kv, write), **where)


def _fill_pairs(group: _Group) -> None:
    """Fill the columns of transfers between scratchpads: the location at the peer is in the columns of DRAM. The system reports
    the problems."""
    nbytes = bytes_of(group.numbers("num_elements"), group.numbers("qbits"))
    write = group.flags("opcode", ("DMA_SEND_TILE",))
    kv = group.flags("tensor_role", ("kv",))
    where = {"dram_addr": group.place("peer"), "spm_addr": group.place("spm")}
    sizes = dict.fromkeys(("row_bytes", "stride", "nbytes"), nbytes)
    group.put(
        group.columns.dma, engine=group.numbers("dma_id"), write=write, channel=channel_of(kv, write), rows=1, **where, **sizes
    )


def _fill_host_copies(group: _Group) -> None:
    """Fill the columns of transfers by an endpoint, without a scratchpad: all aligned bytes. The system reports the
    problems."""
    align = group.pe.dma.alignment_bytes
    first = group.numbers("dram_addr")
    start = first // align * align
    nbytes = -(-(first + bytes_of(group.numbers("num_elements"), group.numbers("qbits"))) // align) * align - start
    write = group.flags("direction", ("to_device",))
    group.put(group.columns.dma, write=write, dram_addr=start, rows=1, row_bytes=nbytes, stride=nbytes, nbytes=nbytes)


def _fill_products(group: _Group) -> None:
    engine = group.check_engine("te")
    m, n, k, weight, act = (group.numbers(name) for name in ("m", "n", "k", "qbits_weight", "qbits_activation"))
    sizes = te_bytes(m, n, k, weight, act, _result_bits(group, act))
    places = [group.place(prefix) for prefix in ("ifm", "wgt", "ofm")]
    for prefix, addr, nbytes in zip(("ifm", "wgt", "ofm"), places, sizes, strict=True):
        group.check_place(prefix, addr, nbytes)
    te = group.pe.te
    tilings = _tilings(group)
    shapes = list(zip(*(one.tolist() for one in (m, n, k, weight, act)), tilings, strict=True))
    _fill_service(group, shapes, lambda shape: te_service(te, *shape), times(times(m, n), k), "m", te.period)
    group.put(group.columns.compute, engine=engine, regions=3)
    _put_regions(group, places, sizes, (False, False, True))


def _result_bits(group: _Group, bits: Any) -> Any:
    """[bit] of an element of each output; `bits`: of the input, which those have that state no other."""
    stated = group.numbers("qbits_result")
    return select(stated == ABSENT, bits, stated)


def _half_a_tiling(group: _Group, name: str, k: int) -> FieldProblem:
    return FieldProblem((name,), "tile_m and tile_n go together, and split_k needs both", getattr(group.entries[k], name))


def _tilings(group: _Group) -> list[Tiling | None]:
    """The division of each product into blocks, if the entry gives it; only engines with timing mma use it."""
    tile = [group.numbers(name) for name in ("tile_m", "tile_n", "split_k")]
    given = [one != ABSENT for one in tile]
    if not any(one.any() for one in given):
        return [None] * len(group.at)
    whole = given[0] & given[1]
    for name, there in zip(("tile_m", "tile_n", "split_k"), given, strict=True):
        group.refuse(there & ~whole, partial(_half_a_tiling, group, name))
    return [tiling_of(entry.tile_m, entry.tile_n, entry.split_k) for entry in group.entries]


def _fill_vectors(group: _Group) -> None:
    engine = group.check_engine("ve")
    length, batch, bits = (group.numbers(name) for name in ("length", "batch", "qbits_activation"))
    ops = [_SHORT[opcode] for opcode in map(attrgetter("opcode"), group.entries)]
    reduces = np.array([op in VE_REDUCTIONS for op in ops], dtype=np.bool_)
    two = np.array([op in VE_BINARY_OPS for op in ops], dtype=np.bool_)
    for name in ("in2_bank", "in2_offset"):
        group.columns.regular &= bool(((group.numbers(name) != ABSENT) == two).all())
    result = _result_bits(group, bits)
    read, written = ve_bytes(length, batch, bits, result, reduces)
    source, second, out = (group.place(prefix) for prefix in ("in", "in2", "out"))
    group.check_place("in", source, read)
    group.check_place("in2", second, read, two)
    group.check_place("out", out, written)
    ve = group.pe.ve
    shapes = list(zip(ops, *(one.tolist() for one in (length, batch, lane_bits(bits, result, reduces))), strict=True))
    _fill_service(group, shapes, lambda shape: ve_service(ve, *shape), times(length, batch), "length", ve.period)
    group.put(group.columns.compute, engine=engine, regions=np.where(two, 3, 2))
    places = [source, np.where(two, second, out), np.where(two, out, 0)]
    sizes = [read, np.where(two, read, written), np.where(two, written, 0)]
    _put_regions(group, places, sizes, (False, ~two, two))


def _put_regions(group: _Group, places: Sequence[Any], sizes: Sequence[Any], writes: Sequence[Any]) -> None:
    table: Any = group.columns.compute
    for name, columns in (("region_addr", places), ("region_bytes", sizes), ("region_write", writes)):
        for k, values in enumerate(columns):
            _widen(table, name, values)
            table[name][group.rows, k] = values


def _fill_service(
    group: _Group, shapes: Sequence[Any], service: Callable[[Any], ServiceTime], work: Any, field: str, period: int
) -> None:
    """Fill the service times; each is computed once for all jobs of the same shape."""
    numbers = {shape: number for number, shape in enumerate(dict.fromkeys(shapes))}
    known = {shape: service(shape) for shape in numbers}
    longest = max(time.total for time in known.values()) * period
    if max(longest, int(work.max())) >= WIDE_LIMIT:
        cycles = np.array([known[shape].total * period for shape in shapes], dtype=object)

        def too_much(k: int) -> FieldProblem:
            rule = f"the job would take {cycles[k]} cycles, and a run has fewer than 2^62"
            if cycles[k] < WIDE_LIMIT:
                rule = f"the job would do {work[k]} operations, and one has fewer than 2^62"
            return FieldProblem((field,), rule, getattr(group.entries[k], field))

        group.refuse((cycles >= WIDE_LIMIT) | (work >= WIDE_LIMIT), too_much)
    wide = object if longest >= WIDE_LIMIT else np.int64
    table = np.array([(one.init, one.body, one.finalize) for one in known.values()], dtype=wide)
    which = np.fromiter(map(numbers.__getitem__, shapes), np.int64, len(shapes))
    parts = table[which]
    group.put(group.columns.compute, init=parts[:, 0], body=parts[:, 1], finalize=parts[:, 2], work=work)
    bodies = [astuple(one.parts) for one in known.values() if one.parts is not None]
    if bodies:
        divided = np.array(bodies, dtype=wide)[which]
        _widen(group.columns.compute, "parts", divided)
        group.columns.compute["parts"][group.rows] = divided


_FILL: dict[type[Entry], Callable[[_Group], None]] = {
    DmaEntry: _fill_tiles,
    KvEntry: _fill_kv,
    PairEntry: _fill_pairs,
    HostEntry: _fill_host_copies,
    TeEntry: _fill_products,
    VeEntry: _fill_vectors,
}
