"""Deflate (RFC 1951) whose bytes are the same everywhere: zlib's differ between its versions and forks.

Huffman codes alone, a new one every block, and runs where a whole block is one byte: the columns that go through it are
differences and dictionary numbers, in which a search for longer repetitions finds little.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 17  #: [B] one Huffman code each
LONGEST_CODE = 15  # of literals and lengths
LONGEST_HEAD_CODE = 7  # of the code that the lengths of codes are written in
END_OF_BLOCK = 256
RUN_258 = 285  # the symbol of a repetition of 258 bytes
HEAD_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]


def deflate(parts: Sequence[Bytes]) -> bytes:
    """The raw deflate stream of some byte arrays, one behind the other; no block reaches over the end of one of them."""
    out = _Bits()
    for part in parts:
        for at in range(0, len(part), BLOCK):
            _block(out, part[at : at + BLOCK])
    out.put(1 | 1 << 1, 3)  # a last block, of the fixed code, that holds its end alone
    out.put(0, 7)
    return out.finish()


class _Bits:
    """Bits in the order of RFC 1951: the first is the lowest of the first byte."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._rest = 0  # what does not fill a byte yet
        self._length = 0  # [bit] of it

    def put(self, value: int, length: int) -> None:
        """A few bits."""
        self._rest |= value << self._length
        self._length += length
        whole = self._length // 8
        self._bytes += (self._rest & ((1 << 8 * whole) - 1)).to_bytes(whole, "little")
        self._rest >>= 8 * whole
        self._length -= 8 * whole

    def put_all(self, values: Words, lengths: Words) -> None:
        """Many codes of 1 to 15 bits."""
        ends = np.cumsum(lengths) + np.uint64(self._length)
        offsets = ends - lengths
        words, shifts = offsets >> np.uint64(6), offsets & np.uint64(63)
        total = int(ends[-1])
        packed = np.zeros(total // 64 + 2, np.uint64)
        starts = np.flatnonzero(np.diff(words, prepend=np.uint64(2**64 - 1)))
        packed[words[starts]] = np.bitwise_or.reduceat(values << shifts, starts)
        over = shifts + lengths > np.uint64(64)
        packed[words[over] + np.uint64(1)] |= values[over] >> (np.uint64(64) - shifts[over])
        packed[0] |= np.uint64(self._rest)
        data = packed.astype("<u8").tobytes()
        self._bytes += data[: total // 8]
        self._rest, self._length = data[total // 8] & ((1 << total % 8) - 1), total % 8

    def finish(self) -> bytes:
        """All of it; the last byte is filled with zeros."""
        return bytes(self._bytes) + (bytes([self._rest]) if self._length else b"")


def _block(out: _Bits, data: Bytes) -> None:
    symbols = _symbols(data)
    counts = np.bincount(symbols, minlength=RUN_258 + 1)
    lengths = code_lengths(counts.tolist(), LONGEST_CODE)
    _head(out, lengths)
    codes = np.array(_codes(lengths), np.uint64)[symbols]
    bits = np.array(lengths, np.uint64)[symbols]
    runs = symbols == RUN_258
    bits[runs] += np.uint64(1)  # each is followed by a distance: 1, whose code is one bit, 0
    out.put_all(codes, bits)


def _symbols(data: Bytes) -> NDArray[np.int64]:
    """Literals, or one literal and its repetitions where all are the same; then the end."""
    runs = (len(data) - 1) // 258 if len(data) > 258 and data.min() == data.max() else 0
    rest = len(data) - 258 * runs
    return np.concatenate((data[:rest].astype(np.int64), np.full(runs, RUN_258), np.array([END_OF_BLOCK])))


def _head(out: _Bits, lengths: Sequence[int]) -> None:
    """The beginning of a block: its code, as the lengths of the codes of all symbols and of the one distance."""
    used = max(i for i, length in enumerate(lengths) if length) + 1
    written = [*lengths[:used], 1]
    head = code_lengths([written.count(i) for i in range(19)], LONGEST_HEAD_CODE)
    codes = _codes(head)
    last = max(i for i, symbol in enumerate(HEAD_ORDER) if head[symbol]) + 1
    out.put(0b100, 3)  # not the last block; a code of its own
    out.put(used - 257, 5)
    out.put(0, 5)
    out.put(last - 4, 4)
    for symbol in HEAD_ORDER[:last]:
        out.put(head[symbol], 3)
    for length in written:
        out.put(codes[length], head[length])


def code_lengths(counts: Sequence[int], longest: int) -> list[int]:
    """The length of each symbol's Huffman code, none over `longest`; 0 for what never occurs. At least two symbols occur."""
    weights = [(count, i) for i, count in enumerate(counts) if count]
    while True:
        lengths = _huffman(weights, len(counts))
        if max(lengths) <= longest:
            return lengths
        weights = [((count + 1) // 2, i) for count, i in weights]  # flatter, until no code is too long


def _huffman(weights: Sequence[tuple[int, int]], size: int) -> list[int]:
    lengths = [0] * size
    heap = [(count, i, [i]) for count, i in weights]  # ties: the smaller symbol first
    heapq.heapify(heap)
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        for symbol in (*first[2], *second[2]):
            lengths[symbol] += 1
        heapq.heappush(heap, (first[0] + second[0], first[1], first[2] + second[2]))
    return lengths


def _codes(lengths: Sequence[int]) -> list[int]:
    """The canonical code of each symbol, its first bit lowest."""
    codes = [0] * len(lengths)
    code = 0
    for length in range(1, LONGEST_CODE + 1):
        for symbol, own in enumerate(lengths):
            if own == length:
                codes[symbol] = int(f"{code:0{length}b}"[::-1], 2)
                code += 1
        code <<= 1
    return codes
