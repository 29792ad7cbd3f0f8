"""What an entry touches: the DRAM and scratchpad bytes of a transfer, the operand regions of a TE or VE job.

Everything here assumes an entry that `check_program` accepts for the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd, lcm

import numpy as np

from kernbench.cmdq.entries import DmaEntry, Entry, KvEntry, TeEntry, VeEntry
from kernbench.cmdq.opcodes import VE_REDUCTIONS
from kernbench.cmdq.service import ServiceTime, service_cycles, work_of
from kernbench.common.errors import InternalError
from kernbench.common.units import ceil_div
from kernbench.config.schema import Dram, NpuConfig, Spm

__all__ = [
    "ACT_WEIGHT",
    "KV_LOAD",
    "KV_STORE",
    "MOST_ROWS",
    "KvRows",
    "Region",
    "ServiceTime",
    "Transfer",
    "aligned_bytes",
    "bytes_of",
    "flat_address",
    "kv_rows",
    "regions_of",
    "service_cycles",
    "transfer_of",
    "work_of",
]

MOST_ROWS = 2**24  # of a transfer: the core goes through them one by one
ACT_WEIGHT, KV_LOAD, KV_STORE = 0, 1, 2  # channel numbers of a DMA engine, in the order of dma.channels
READS_SCRATCHPAD = frozenset({"DMA_STORE_TILE", "KV_STORE_TILE"})


@dataclass(frozen=True, slots=True)
class Transfer:
    """One DMA job's bytes. Row `i` is `[dram_addr + i * stride, ... + row_bytes)`, widened by itself to `alignment`."""

    write: bool  #: True: scratchpad to DRAM
    channel: int  #: 0 act_weight, 1 kv_load, 2 kv_store
    kv_bonus: bool  #: kv_load_bonus is added to its priority
    dram_addr: int  #: first byte of the first row, not aligned
    rows: int
    row_bytes: int  #: bytes of a row, not aligned
    stride: int  #: bytes from row to row; row_bytes where a tile has no rows
    alignment: int
    spm_addr: int  #: flat scratchpad address of the first aligned byte
    bytes_aligned: int  #: bytes that travel: all rows at their aligned lengths
    order_key: tuple[int, int, str] | None = None  #: (dram_base_addr, head_id, kv_kind) of a KV_STORE_TILE, else None
    t_start: int = 0  #: its place in the order of the stores with the same key on one engine (docs/model/dma.md)

    @property
    def bytes_total(self) -> int:
        """Bytes asked for, without alignment."""
        return self.rows * self.row_bytes

    @property
    def dram_start(self) -> int:
        """The first DRAM byte that travels."""
        return self.dram_addr // self.alignment * self.alignment

    @property
    def dram_end(self) -> int:
        """One past the last DRAM byte that travels."""
        return self.aligned_row(self.rows - 1)[1]

    def aligned_row(self, i: int) -> tuple[int, int]:
        """The DRAM range `[start, end)` that row `i` moves."""
        start = self.dram_addr + i * self.stride
        end = ceil_div(start + self.row_bytes, self.alignment) * self.alignment
        return start // self.alignment * self.alignment, end


@dataclass(frozen=True, slots=True)
class Region:
    """A scratchpad range that a TE or VE job reads or writes."""

    addr: int  #: flat scratchpad address
    nbytes: int
    write: bool


def flat_address(bank: int, offset: int, spm: Spm) -> int:
    """The flat scratchpad address of `(bank, offset)` (docs/model/banks_and_arbiters.md)."""
    if spm.map == "blocked":
        return bank * spm.bank_size_bytes + offset
    line, byte = divmod(offset, spm.bank_width_bytes)
    return (line * spm.num_banks + bank) * spm.bank_width_bytes + byte


def transfer_of(entry: Entry, config: NpuConfig) -> Transfer:
    """The transfer of a DMA_* or KV_* entry on this machine.

    A KV range over the whole head dimension is contiguous; any other is a 2-D transfer of `t_len` rows.
    """
    if isinstance(entry, DmaEntry):
        return _dma_transfer(entry, config)
    if isinstance(entry, KvEntry):
        return _kv_transfer(entry, config)
    raise InternalError(f"{entry.where} is not a DMA entry")


def regions_of(entry: Entry, config: NpuConfig) -> tuple[Region, ...]:
    """The operand regions of a TE (input, weights, output) or VE (inputs, output) entry, in this order.

    They are the same whether or not `spm_traffic` is on.
    """
    spm = config.spm
    if isinstance(entry, TeEntry):
        act, weight = entry.qbits_activation, entry.qbits_weight
        return (
            Region(flat_address(entry.ifm_bank, entry.ifm_offset, spm), bytes_of(entry.m * entry.k, act), False),
            Region(flat_address(entry.wgt_bank, entry.wgt_offset, spm), bytes_of(entry.k * entry.n, weight), False),
            Region(flat_address(entry.ofm_bank, entry.ofm_offset, spm), bytes_of(entry.m * entry.n, act), True),
        )
    if isinstance(entry, VeEntry):
        act = entry.qbits_activation
        rows = bytes_of(entry.length * entry.batch, act)
        regions = [Region(flat_address(entry.in_bank, entry.in_offset, spm), rows, False)]
        if entry.in2_bank is not None and entry.in2_offset is not None:
            regions.append(Region(flat_address(entry.in2_bank, entry.in2_offset, spm), rows, False))
        written = bytes_of(entry.batch, act) if entry.op in VE_REDUCTIONS else rows
        regions.append(Region(flat_address(entry.out_bank, entry.out_offset, spm), written, True))
        return tuple(regions)
    raise InternalError(f"{entry.where} is neither a TE nor a VE entry")


def bytes_of(elements: int, qbits: int) -> int:
    """Whole bytes that hold `elements` of `qbits` bits each."""
    return (elements * qbits + 7) // 8


def aligned_bytes(dram_addr: int, rows: int, row_bytes: int, stride: int, alignment: int) -> int:
    """Bytes that travel when each row is widened to `alignment` by itself, without walking the rows.

    Row `i` moves `alignment * (floor(last / alignment) - floor(first / alignment) + 1)` bytes, where `first` and
    `last` are its outermost bytes; both floors are summed over an arithmetic progression.
    """
    lasts = _floor_sum(rows, alignment, stride, dram_addr + row_bytes - 1)
    firsts = _floor_sum(rows, alignment, stride, dram_addr)
    return alignment * (lasts - firsts + rows)


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


def _dma_transfer(entry: DmaEntry, config: NpuConfig) -> Transfer:
    if entry.num_elements is not None:
        rows, row_bytes = 1, bytes_of(entry.num_elements, entry.qbits)
        stride = row_bytes
    elif entry.rows is not None and entry.row_elements is not None and entry.stride_bytes is not None:
        rows, row_bytes, stride = entry.rows, bytes_of(entry.row_elements, entry.qbits), entry.stride_bytes
    else:
        raise InternalError(f"{entry.where} has neither num_elements nor rows")
    write = entry.opcode in READS_SCRATCHPAD
    kv_channel = KV_STORE if write else KV_LOAD
    return _transfer(
        entry,
        config,
        write,
        kv_channel if entry.tensor_role == "kv" else ACT_WEIGHT,
        entry.dram_addr,
        rows,
        row_bytes,
        stride,
    )


@dataclass(frozen=True, slots=True)
class KvRows:
    """A KV tile as rows of bits: what its addresses are before anything is known to be whole bytes."""

    first_bit: int  #: DRAM bit address of the first row
    rows: int
    row_elements: int
    stride_bits: int  #: from row to row


def kv_rows(entry: KvEntry, config: NpuConfig) -> KvRows:
    """The rows of a KV tile: one where the range covers the whole head dimension, else one per token."""
    layout = config.kv_layouts[entry.kv_layout_id]
    d_len = layout.head_dim - entry.d_start if entry.d_len is None else entry.d_len
    element = (entry.head_id * layout.t_max + entry.t_start) * layout.head_dim + entry.d_start
    first_bit = entry.dram_base_addr * 8 + element * entry.qbits_kv
    if entry.d_start == 0 and d_len == layout.head_dim:
        elements = entry.t_len * layout.head_dim
        return KvRows(first_bit, 1, elements, elements * entry.qbits_kv)
    return KvRows(first_bit, entry.t_len, d_len, layout.head_dim * entry.qbits_kv)


def _kv_transfer(entry: KvEntry, config: NpuConfig) -> Transfer:
    span = kv_rows(entry, config)
    write = entry.opcode in READS_SCRATCHPAD
    row_bytes = bytes_of(span.row_elements, entry.qbits_kv)
    stride = span.stride_bits // 8 if span.rows > 1 else row_bytes
    channel = KV_STORE if write else KV_LOAD
    order_key = (entry.dram_base_addr, entry.head_id, entry.kv_kind) if write else None
    return _transfer(
        entry,
        config,
        write,
        channel,
        span.first_bit // 8,
        span.rows,
        row_bytes,
        stride,
        order_key,
        entry.t_start if write else 0,
    )


def _transfer(
    entry: DmaEntry | KvEntry,
    config: NpuConfig,
    write: bool,
    channel: int,
    dram_addr: int,
    rows: int,
    row_bytes: int,
    stride: int,
    order_key: tuple[int, int, str] | None = None,
    t_start: int = 0,
) -> Transfer:
    alignment = config.dma.alignment_bytes
    return Transfer(
        write=write,
        channel=channel,
        kv_bonus=channel == KV_LOAD,
        dram_addr=dram_addr,
        rows=rows,
        row_bytes=row_bytes,
        stride=stride,
        alignment=alignment,
        spm_addr=flat_address(entry.spm_bank, entry.spm_offset, config.spm),
        bytes_aligned=aligned_bytes(dram_addr, rows, row_bytes, stride, alignment),
        order_key=order_key,
        t_start=t_start,
    )


MAX_ROWS = 2**18  # rows, or distinct row positions, that are looked at one by one
_FAR = 2**62  # every DRAM address is below it


def channel_bytes(transfer: Transfer, dram: Dram) -> tuple[int, ...]:
    """Bytes of `transfer` on each DRAM channel: `channel = (addr // interleave_bytes) % channels`.

    Rows repeat their position relative to alignment and interleave, so only one period of them is counted. Exact up
    to 2^18 different positions (an alignment that shares no factor with the interleave makes more); beyond, each
    channel has at least what is given.
    """
    period = min(dram.interleave_bytes * dram.channels, _FAR)
    if transfer.rows == 1:
        start, end = transfer.aligned_row(0)
        turns, first = divmod(start, period)
        return _span_bytes(first, end - turns * period, dram.interleave_bytes, dram.channels)
    pattern = lcm(transfer.alignment, period)
    distinct = pattern // gcd(transfer.stride, pattern)
    if min(distinct, transfer.rows) > MAX_ROWS:
        whole = ceil_div(transfer.row_bytes, transfer.alignment) * transfer.alignment // period
        return (transfer.rows * whole * dram.interleave_bytes,) * dram.channels
    if transfer.rows <= distinct:
        return _rows_bytes(transfer, transfer.rows, dram, period)
    times, rest = divmod(transfer.rows, distinct)
    one, last = _rows_bytes(transfer, distinct, dram, period), _rows_bytes(transfer, rest, dram, period)
    return tuple(times * a + b for a, b in zip(one, last, strict=True))


@lru_cache(maxsize=4096)  # where tiles lie in a turn, and how long they are, is often the same
def _span_bytes(first: int, end: int, size: int, channels: int) -> tuple[int, ...]:
    """Bytes of `[first, end)` on each channel: whole turns over all of them, and what the two ends add and take.

    `first` is within the first turn; `size` is that of an interleave chunk.
    """
    turns, last = divmod(end, min(size * channels, _FAR))
    whole = turns * size
    return tuple(
        whole + min(max(last - base, 0), size) - min(max(first - base, 0), size) for base in range(0, channels * size, size)
    )


def _rows_bytes(transfer: Transfer, rows: int, dram: Dram, period: int) -> tuple[int, ...]:
    """Bytes of the first `rows` rows on each channel."""
    first = transfer.dram_addr + np.arange(rows, dtype=np.int64) * transfer.stride
    start = first // transfer.alignment * transfer.alignment
    end = (first + transfer.row_bytes + transfer.alignment - 1) // transfer.alignment * transfer.alignment
    totals = []
    for channel in range(dram.channels):
        base = channel * dram.interleave_bytes
        if base >= transfer.dram_end:
            totals.append(0)  # and base might not fit an int64
            continue
        size = min(dram.interleave_bytes, _FAR)
        turns = int((end // period - start // period).sum()) * size
        parts = np.clip(end % period - base, 0, size) - np.clip(start % period - base, 0, size)
        totals.append(turns + int(parts.sum()))
    return tuple(totals)
