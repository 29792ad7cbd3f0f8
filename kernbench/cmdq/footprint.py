"""The footprint of an entry: the DRAM and scratchpad bytes of a transfer, or the operand regions of a TE or VE job.

Each formula is defined once, for numbers or columns: `columns.py` calls it for a whole program, and `transfer_of` and
`regions_of` call it for one entry, for planners that place entries one after another.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm
from typing import Any, overload

import msgspec
import numpy as np

from kernbench.cmdq.entries import DmaEntry, Entry, KvEntry, TeEntry, VeEntry
from kernbench.cmdq.opcodes import VE_REDUCTIONS
from kernbench.common.errors import InternalError
from kernbench.common.units import ceil_div
from kernbench.components.service import ServiceTime, Tiling, te_service, ve_service
from kernbench.config.codecs import Codec
from kernbench.config.fields import WIDE_LIMIT
from kernbench.config.schema import NpuConfig, Spm
from kernbench_core.numbers import Channel

MAX_TRANSFER_ROWS = 2**24  # limit of the rows of a transfer, because the core visits them one by one
READS_SCRATCHPAD = frozenset({"DMA_STORE_TILE", "KV_STORE_TILE"})
_ACT_WEIGHT, _KV_LOAD, _KV_STORE = (int(channel) for channel in Channel)
ABSENT = -1  # value of an optional field that is not given

#: An integer or a column of integers: int64, or Python integers (dtype object) if 64 bits may not be enough.
Numbers = Any


def select(condition: Any, yes: Numbers, no: Numbers) -> Numbers:
    """`yes` if the condition holds, else `no`."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, yes, no)
    return yes if condition else no


def times(a: Numbers, b: Numbers) -> Numbers:
    """The exact product of numbers that are not negative: in Python's integers if 64 bits may not be sufficient."""
    if type(a) is int and type(b) is int:
        return a * b
    wide = [one.astype(object) if isinstance(one, np.ndarray) else one for one in (a, b)] if _is_wide(a, b) else (a, b)
    return wide[0] * wide[1]


def _is_wide(a: Numbers, b: Numbers) -> bool:
    """Whether a product can exceed 62 bits. No value is negative except ABSENT, whose product is not used."""
    most = [int(np.maximum.reduce(one, initial=0)) if isinstance(one, np.ndarray) else int(one) for one in (a, b)]
    return most[0] * most[1] >= WIDE_LIMIT


@overload
def bytes_of(elements: int, qbits: int) -> int: ...
@overload
def bytes_of(elements: Numbers, qbits: Numbers) -> Numbers: ...
def bytes_of(elements: Numbers, qbits: Numbers) -> Numbers:
    """The number of whole bytes for `elements` of `qbits` bits each."""
    if type(elements) is int and type(qbits) is int:
        return (elements * qbits + 7) // 8
    return (times(elements, qbits) + 7) // 8


def compressed_bytes(nbytes: int, codec: Codec) -> int:
    """The DRAM bytes of a tile that a codec compresses."""
    return -(-nbytes * codec.ratio.denominator // codec.ratio.numerator)


def unpacked_bits(qbits: int) -> int:
    """The width at which engines read elements of the KV cache: the next larger width that engines support."""
    return {3: 4, 5: 8, 6: 8}.get(qbits, qbits)


def flat_address(bank: Numbers, offset: Numbers, spm: Spm) -> Numbers:
    """The flat scratchpad address of `(bank, offset)` (docs/model/banks_and_arbiters.md)."""
    if spm.map == "blocked":
        return times(bank, spm.bank_size_bytes) + offset
    width = spm.bank_width_bytes
    line, byte = offset // width, offset % width
    if spm.num_banks * width < 2**20:  # times a number below 2^40, or times Python integers, no product is too large
        return (line * spm.num_banks + bank) * width + byte
    return times(times(line, spm.num_banks) + bank, width) + byte


def tile_rows(
    num_elements: Numbers, rows: Numbers, row_elements: Numbers, stride_bytes: Numbers, qbits: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """(rows, bytes of a row, bytes from row to row) of a DMA_* tile: one row if it is contiguous."""
    whole = num_elements != ABSENT
    row_bytes = bytes_of(select(whole, num_elements, row_elements), qbits)
    return select(whole, 1, rows), row_bytes, select(whole, row_bytes, stride_bytes)


def kv_rows(
    base: Numbers, head: Numbers, t_start: Numbers, t_len: Numbers, d_start: Numbers, d_len: Numbers, qbits: Numbers,
    t_max: Numbers, head_dim: Numbers,
) -> tuple[Numbers, Numbers, Numbers, Numbers, Numbers]:  # fmt: skip
    """(first bit, rows, bytes of a row, bytes from row to row, bits from row to row) of a KV range in a layout.

    A range that covers the whole head dimension is contiguous; any other has one row for each token.
    """
    d_len = select(d_len == ABSENT, head_dim - d_start, d_len)
    first_bit = base * 8 + times(times(times(head, t_max) + t_start, head_dim) + d_start, qbits)
    whole = (d_start == 0) & (d_len == head_dim)
    rows, row_bytes = select(whole, 1, t_len), bytes_of(select(whole, times(t_len, head_dim), d_len), qbits)
    step = times(head_dim, qbits)
    return first_bit, rows, row_bytes, select(rows > 1, step // 8, row_bytes), step


def te_bytes(
    m: Numbers, n: Numbers, k: Numbers, qbits_weight: Numbers, qbits_activation: Numbers, qbits_result: Numbers
) -> tuple[Numbers, ...]:
    """Bytes of input, weights and output of a product."""
    return bytes_of(times(m, k), qbits_activation), bytes_of(times(k, n), qbits_weight), bytes_of(times(m, n), qbits_result)


def ve_bytes(length: Numbers, batch: Numbers, qbits: Numbers, qbits_result: Numbers, reduces: Any) -> tuple[Numbers, Numbers]:
    """The bytes of each input and of the output of a vector op; `reduces`: the op has one result for each row."""
    elements = times(length, batch)
    return bytes_of(elements, qbits), bytes_of(select(reduces, batch, elements), qbits_result)


def result_bits(entry: TeEntry | VeEntry) -> int:
    """[bit] of an element of the output."""
    return entry.qbits_activation if entry.qbits_result is None else entry.qbits_result


def lane_bits(qbits: Numbers, qbits_result: Numbers, reduces: Any) -> Numbers:
    """[bit] of an element in the lanes of a vector engine: the wider of input and output, in a reduction those of the input."""
    return select((qbits >= qbits_result) | reduces, qbits, qbits_result)


def tiling_of(tile_m: int | None, tile_n: int | None, split_k: int | None) -> Tiling | None:
    """The division of an entry with these fields into blocks; None if the machine decides."""
    return None if tile_m is None or tile_n is None else Tiling(tile_m, tile_n, split_k or 1)


def service_cycles(entry: Entry, config: NpuConfig) -> ServiceTime:
    """The service time of a TE or VE entry; a job without any cycles gets one cycle without requests (`init`)."""
    if isinstance(entry, TeEntry):
        tiling = tiling_of(entry.tile_m, entry.tile_n, entry.split_k)
        return te_service(config.te, entry.m, entry.n, entry.k, entry.qbits_weight, entry.qbits_activation, tiling)
    if isinstance(entry, VeEntry):
        bits = lane_bits(entry.qbits_activation, result_bits(entry), entry.op in VE_REDUCTIONS)
        return ve_service(config.ve, entry.op, entry.length, entry.batch, bits)
    raise InternalError(f"{entry.where} is neither a TE nor a VE entry")


def work_of(entry: Entry) -> int:
    """The work that a job adds to counters when it completes: MACs of a TE entry, ops (`length * batch`) of a VE entry."""
    if isinstance(entry, TeEntry):
        return entry.m * entry.n * entry.k
    if isinstance(entry, VeEntry):
        return entry.length * entry.batch
    raise InternalError(f"{entry.where} is neither a TE nor a VE entry")


class Transfer(msgspec.Struct, frozen=True):
    """One entry's transfer. Row `i` is `[dram_addr + i * stride, ... + row_bytes)`, and each row is widened separately to
    `alignment`."""

    write: bool  #: True: scratchpad to DRAM
    channel: int  #: the channel of the DMA engine
    dram_addr: int  #: first byte of the first row, not aligned
    rows: int
    row_bytes: int  #: bytes of a row, not aligned
    stride: int  #: bytes from row to row; row_bytes for a tile without rows
    alignment: int
    spm_addr: int  #: flat scratchpad address of the first aligned byte
    bytes_aligned: int  #: bytes at the scratchpad: all rows at their aligned lengths, after expansion by a codec

    @property
    def bytes_total(self) -> int:
        """The requested bytes, without alignment."""
        return self.rows * self.row_bytes

    @property
    def dram_start(self) -> int:
        """The first DRAM byte that is transferred."""
        return self.dram_addr // self.alignment * self.alignment

    @property
    def dram_end(self) -> int:
        """The first DRAM address after the transferred bytes."""
        return self.aligned_row(self.rows - 1)[1]

    def aligned_row(self, i: int) -> tuple[int, int]:
        """The DRAM range `[start, end)` that row `i` moves."""
        start = self.dram_addr + i * self.stride
        end = ceil_div(start + self.row_bytes, self.alignment) * self.alignment
        return start // self.alignment * self.alignment, end


class Region(msgspec.Struct, frozen=True):
    """A scratchpad range that a TE or VE job reads or writes."""

    addr: int  #: flat scratchpad address
    nbytes: int
    write: bool


def channel_of(kv: Any, write: Any) -> Numbers:
    """The DMA engine channel of a transfer; `kv`: whether it is a transfer of the KV cache."""
    return select(kv, select(write, _KV_STORE, _KV_LOAD), _ACT_WEIGHT)


def transfer_of(entry: Entry, config: NpuConfig) -> Transfer:
    """The transfer of a DMA_* or KV_* entry that `check_program` accepts for this machine."""
    write = entry.opcode in READS_SCRATCHPAD
    ratio: Fraction | None = None
    if isinstance(entry, DmaEntry):
        given = (entry.num_elements, entry.rows, entry.row_elements, entry.stride_bytes)
        flat, count, width, step = (ABSENT if one is None else one for one in given)
        if flat == ABSENT and ABSENT in (count, width, step):
            raise InternalError(f"{entry.where} has neither num_elements nor rows")
        addr, kv = entry.dram_addr, entry.tensor_role == "kv"
        rows, row_bytes, stride = tile_rows(flat, count, width, step, entry.qbits)
        if entry.codec is not None:
            ratio = config.dma.codecs[entry.codec].ratio
            row_bytes = stride = compressed_bytes(row_bytes, config.dma.codecs[entry.codec])
    elif isinstance(entry, KvEntry):
        layout, kv = config.kv_layouts[entry.kv_layout_id], True
        d_len = ABSENT if entry.d_len is None else entry.d_len
        first_bit, rows, row_bytes, stride, _ = kv_rows(
            entry.dram_base_addr, entry.head_id, entry.t_start, entry.t_len, entry.d_start, d_len, entry.qbits_kv,
            layout.t_max, layout.head_dim,
        )  # fmt: skip
        addr = first_bit // 8
    else:
        raise InternalError(f"{entry.where} is not a DMA entry")
    align = config.dma.alignment_bytes
    spm_addr = flat_address(entry.spm_bank, entry.spm_offset, config.spm)
    moved = aligned_bytes(addr, rows, row_bytes, stride, align)
    if ratio is not None:
        moved = int(ratio * moved)
    return Transfer(write, channel_of(kv, write), addr, rows, row_bytes, stride, align, spm_addr, moved)


def regions_of(entry: Entry, config: NpuConfig) -> tuple[Region, ...]:
    """The operand regions of a TE (input, weights, output) or VE (inputs, output) entry, in this order.

    They are the same whether or not `spm_traffic` is on.
    """
    spm = config.spm
    if isinstance(entry, TeEntry):
        sizes = te_bytes(entry.m, entry.n, entry.k, entry.qbits_weight, entry.qbits_activation, result_bits(entry))
        return (
            Region(flat_address(entry.ifm_bank, entry.ifm_offset, spm), sizes[0], False),
            Region(flat_address(entry.wgt_bank, entry.wgt_offset, spm), sizes[1], False),
            Region(flat_address(entry.ofm_bank, entry.ofm_offset, spm), sizes[2], True),
        )
    if isinstance(entry, VeEntry):
        bits, reduces = (entry.qbits_activation, result_bits(entry)), entry.op in VE_REDUCTIONS
        read, written = ve_bytes(entry.length, entry.batch, *bits, reduces)
        regions = [Region(flat_address(entry.in_bank, entry.in_offset, spm), read, False)]
        if entry.in2_bank is not None and entry.in2_offset is not None:
            regions.append(Region(flat_address(entry.in2_bank, entry.in2_offset, spm), read, False))
        return (*regions, Region(flat_address(entry.out_bank, entry.out_offset, spm), written, True))
    raise InternalError(f"{entry.where} is neither a TE nor a VE entry")


def aligned_bytes(dram_addr: int, rows: int, row_bytes: int, stride: int, alignment: int) -> int:
    """The bytes that are transferred if each row is widened separately to `alignment`, without iterating over the rows.

    Row `i` moves `alignment * (floor(last / alignment) - floor(first / alignment) + 1)` bytes, where `first` and
    `last` are its outermost bytes; both floors are summed over an arithmetic progression.
    """
    if rows == 1:
        return alignment * ((dram_addr + row_bytes - 1) // alignment - dram_addr // alignment + 1)
    lasts = _floor_sum(rows, alignment, stride, dram_addr + row_bytes - 1)
    firsts = _floor_sum(rows, alignment, stride, dram_addr)
    return alignment * (lasts - firsts + rows)


def moved_bytes(dram_addr: Numbers, rows: Numbers, row_bytes: Numbers, stride: Numbers, alignment: int) -> Numbers:
    """`aligned_bytes` of columns."""
    moved = ((dram_addr + row_bytes - 1) // alignment - dram_addr // alignment + 1) * alignment
    several = np.flatnonzero(rows != 1).tolist()
    if not several:
        return moved
    known: dict[tuple[int, ...], int] = {}
    sizes = []
    for shape in zip(*(column[several].tolist() for column in (dram_addr, rows, row_bytes, stride)), strict=True):
        key = (shape[0] % alignment, *shape[1:])
        if key not in known:
            known[key] = aligned_bytes(*key, alignment)  # type: ignore[call-arg]  # four numbers
        sizes.append(known[key])
    if max(sizes) >= WIDE_LIMIT:
        moved = moved.astype(object)
    moved[several] = sizes
    return moved


def _floor_sum(count: int, modulus: int, step: int, start: int) -> int:
    """sum of floor((step * i + start) / modulus) for i in [0, count), in as many steps as Euclid's algorithm takes."""
    total = 0
    while True:
        total += (step // modulus) * (count * (count - 1) // 2) + (start // modulus) * count
        step, start = step % modulus, start % modulus
        top = step * count + start
        if top < modulus:
            return total
        count, start = divmod(top, modulus)
        modulus, step = step, modulus


MAX_ROWS = 2**18  # rows, or distinct row positions, that are handled one by one


def bytes_on_channels(
    dram_addr: Numbers, rows: Numbers, row_bytes: Numbers, stride: Numbers, align: int, interleave: int, channels: int
) -> Numbers:
    """[transfer][channel] bytes that each of some transfers moves on each DRAM channel: `(addr // interleave) % channels`.

    Columns in, a table out. The result is exact if a transfer has up to 2^18 different positions of its rows relative to
    alignment and interleave (an alignment that shares no factor with the interleave makes more). Beyond this limit, each result
    is a lower bound.
    """
    start = dram_addr // align * align
    out = _span_bytes(start, -(-(dram_addr + row_bytes) // align) * align, interleave, channels)
    several = np.flatnonzero(rows != 1).tolist()
    pattern = lcm(align, interleave * channels)
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    for k, addr, *shape in zip(several, *(c[several].tolist() for c in (dram_addr, rows, row_bytes, stride)), strict=True):
        key = (addr % pattern, *shape)  # positions of rows repeat, so only one period is counted
        if key not in known:
            known[key] = _of_rows(*key, align, interleave, channels)  # type: ignore[call-arg]  # four numbers
        out[k] = known[key]
    return out


def _span_bytes(start: Numbers, end: Numbers, interleave: int, channels: int) -> Numbers:
    """Bytes of `[start, end)` on each channel: complete rounds over all channels, corrected at both ends."""
    period = interleave * channels
    base = np.arange(channels, dtype=np.int64) * interleave
    first, last = (np.clip((at % period)[:, None] - base, 0, interleave) for at in (start, end))
    whole = (end // period - start // period) * interleave
    spans: Numbers = whole[:, None] + last - first
    return spans


def _of_rows(
    dram_addr: int, rows: int, row_bytes: int, stride: int, align: int, interleave: int, channels: int
) -> tuple[int, ...]:
    """Bytes of one transfer of several rows on each channel."""
    period = interleave * channels
    pattern = lcm(align, period)
    distinct = pattern // gcd(stride, pattern)
    if min(distinct, rows) > MAX_ROWS:
        return (rows * (ceil_div(row_bytes, align) * align // period) * interleave,) * channels

    def first_rows(count: int) -> tuple[int, ...]:
        first = dram_addr + np.arange(count, dtype=np.int64) * stride
        start, end = first // align * align, (first + row_bytes + align - 1) // align * align
        return tuple(_span_bytes(start, end, interleave, channels).sum(axis=0).tolist())

    if rows <= distinct:
        return first_rows(rows)
    turns, rest = divmod(rows, distinct)
    return tuple(turns * a + b for a, b in zip(first_rows(distinct), first_rows(rest), strict=True))
