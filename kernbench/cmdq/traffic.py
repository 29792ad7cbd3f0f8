"""Bytes that a transfer moves on each DRAM channel, without walking millions of rows."""

from __future__ import annotations

from functools import lru_cache
from math import gcd, lcm

import numpy as np

from kernbench.cmdq.footprint import Transfer
from kernbench.common.units import ceil_div
from kernbench.config.schema import Dram

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
