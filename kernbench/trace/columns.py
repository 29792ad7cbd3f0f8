"""Fields of many records as numpy columns: integers, `NULL` if a record lacks the field, and texts as indices into a list.

Tables of events are joined by their ids, which map the rows of one table to the rows of another.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench.trace.schema import Field

Ints = NDArray[np.int64]
NULL = -(2**63)  #: the value in a column for a record without this field
BATCH = 1 << 15  # [row] kept as Python objects before they become columns


@dataclass(frozen=True)
class Column:
    """One field of all rows of a table."""

    values: Ints
    texts: list[str] | None = None  #: of a text field: the table into which the values other than NULL are indices
    items: Ints | None = None  #: of a list of integers: the items of all rows; `values` has the number of items of each row

    def __len__(self) -> int:
        return len(self.values)

    def take(self, order: Ints) -> Column:
        """Some rows, in some order; an index below 0 gives a row without the field."""
        if self.items is None:
            if len(self.values) == 0:
                return Column(np.full(len(order), NULL), self.texts)
            return Column(np.where(order < 0, NULL, self.values[np.maximum(order, 0)]), self.texts)
        counts = np.maximum(self.values, 0)
        starts = np.cumsum(counts) - counts
        taken = counts[order]
        within = np.arange(int(taken.sum())) - np.repeat(np.cumsum(taken) - taken, taken)
        return Column(self.values[order], None, self.items[np.repeat(starts[order], taken) + within])

    def __getitem__(self, row: int) -> int | str | list[int] | None:
        """The value of one row as it was in the record."""
        value = int(self.values[row])
        if value == NULL:
            return None
        if self.items is not None:
            start = int(np.maximum(self.values[:row], 0).sum())
            return [int(item) for item in self.items[start : start + value]]
        return value if self.texts is None else self.texts[value]


def empty(count: int) -> Column:
    """A column of rows that all lack the field."""
    return Column(np.full(count, NULL))


class Table:
    """Columns of one length, by name."""

    def __init__(self, columns: Mapping[str, Column], count: int | None = None) -> None:
        self.columns = dict(columns)
        self.count = len(next(iter(self.columns.values()))) if count is None else count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, name: str) -> Ints:
        """The values of a column; all NULL if the table has no column of this name."""
        column = self.columns.get(name)
        return np.full(self.count, NULL) if column is None else column.values

    def filled(self, name: str) -> Ints:
        """The values of a column of quantities; 0 for a missing value."""
        values = self[name]
        return np.where(values == NULL, 0, values)

    def take(self, order: Ints) -> Table:
        """Some rows, in some order; an index below 0 gives a row without any field."""
        return Table({name: column.take(order) for name, column in self.columns.items()}, len(order))

    def row(self, index: int) -> dict[str, Any]:
        """One row as a record; missing fields are left out."""
        return {name: value for name, column in self.columns.items() if (value := column[index]) is not None}


class _Codes(dict[Any, int]):
    """Numbers of texts, in the order of their first use."""

    def __init__(self) -> None:
        super().__init__({None: NULL})
        self.texts: dict[str, int] = {}

    def __missing__(self, value: Any) -> int:
        self[value] = code = self.texts.setdefault(str(value), len(self.texts))
        return code


@dataclass
class Collector:
    """Collects the fields of records into a table."""

    fields: Sequence[Field]
    _rows: list[Any] = field(default_factory=list)
    _parts: list[list[Ints]] = field(default_factory=list)
    _texts: dict[str, _Codes] = field(default_factory=dict)
    _items: dict[str, list[Ints]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._get = attrgetter(*(one.name for one in self.fields))

    def add(self, record: Any) -> None:
        """The fields of a record."""
        self._rows.append(self._get(record))
        if len(self._rows) == BATCH:
            self._flush()

    def table(self) -> Table:
        """All fields as a table."""
        self._flush()
        columns = {}
        for i, one in enumerate(self.fields):
            values = np.concatenate([part[i] for part in self._parts]) if self._parts else np.zeros(0, np.int64)
            items = self._items.get(one.name)
            texts = list(self._texts[one.name].texts if one.name in self._texts else ()) if _is_text(one) else None
            joined = None if one.kind != "ints" else np.concatenate(items) if items else np.zeros(0, np.int64)
            columns[one.name] = Column(values, texts, joined)
        return Table(columns)

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True) if len(self.fields) > 1 else [tuple(self._rows)]
            self._parts.append([self._column(one, values) for one, values in zip(self.fields, columns, strict=True)])
            self._rows.clear()

    def _column(self, one: Field, values: tuple[Any, ...]) -> Ints:
        if one.kind == "ints":
            items = self._items.setdefault(one.name, [])
            items.extend(np.array([clamped(item) for item in value], np.int64) for value in values if value)
            return np.array([NULL if value is None else len(value) for value in values], np.int64)
        if _is_text(one):
            codes = self._texts.setdefault(one.name, _Codes())
            plain = map(_joined, values) if one.kind in ("texts", "object", "objects") else values
            return np.array([codes[value] for value in plain], np.int64)
        return _ints(values)


def _is_text(one: Field) -> bool:
    return one.kind not in ("int", "flag", "ints")


def _joined(value: Any) -> str | None:
    """A list of names as one text."""
    return None if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def clamped(value: int) -> int:
    """An integer that a column can hold: values beyond 64 bits become the largest or smallest 64-bit integer."""
    return min(max(value, NULL + 1), -(NULL + 1))


def _ints(values: Iterable[Any]) -> Ints:
    try:
        return np.array([NULL if value is None else value for value in values], np.int64)
    except OverflowError:
        return np.array([NULL if value is None else clamped(int(value)) for value in values], np.int64)


BLOCK = 1 << 17  #: [B] one Huffman code each
LONGEST_CODE = 15  # most bits of a code of literals and lengths
LONGEST_HEAD_CODE = 7  # most bits of the code in which the lengths of codes are written
END_OF_BLOCK = 256
RUN_258 = 285  # the symbol of a repetition of 258 bytes
HEAD_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]


def deflate(parts: Sequence[Bytes]) -> bytes:
    """The raw deflate stream of some byte arrays, concatenated; no block crosses the end of an array."""
    out = _Bits()
    for part in parts:
        for at in range(0, len(part), BLOCK):
            _block(out, part[at : at + BLOCK])
    out.put(1 | 1 << 1, 3)  # a last block with the fixed code, which contains only the end symbol
    out.put(0, 7)
    return out.finish()


class _Bits:
    """Bits in the order of RFC 1951: the first is the lowest of the first byte."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._rest = 0  # bits that do not fill a byte yet
        self._length = 0  # number of these bits

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
        """All bytes; the last byte is filled with zeros."""
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
    """Literals, or one literal and its repetitions if all bytes are equal; then the end symbol."""
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
    """The length of each symbol's Huffman code, at most `longest`; 0 for a symbol that does not occur. At least two symbols
    occur."""
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


SAFE = 2**53 - 1  #: JavaScript's numbers are exact up to this value; larger ones are stored as text


class Pack:
    """Collects columns. The description of the columns is written into the page beside the packed bytes."""

    def __init__(self) -> None:
        self._planes: list[NDArray[np.uint8]] = []
        self._size = 0  # [B] of them

    def table(self, table: Table) -> dict[str, Any]:
        """Take all columns of a table; their description."""
        found = {name: self.column(column) for name, column in table.columns.items() if (column.values != NULL).any()}
        return {"count": len(table), "columns": found}

    def column(self, column: Column) -> dict[str, Any]:
        """Take one column."""
        values, texts = column.values, column.texts
        if texts is None and column.items is None and len(values) and _span(values)[1] > SAFE:
            values, texts = _as_texts(values)
        made = self.ints(values)
        if texts is not None:
            made["texts"] = texts
        if column.items is not None:
            made["items"] = self.ints(np.minimum(column.items, SAFE))
        return made

    def ints(self, values: Ints) -> dict[str, Any]:
        """Add integers below 2**53; NULL is allowed."""
        missing = values == NULL
        low, high = _span(values)
        if len(values) == 0 or missing.all() or (low == high and not missing.any()):
            return {"count": len(values), "constant": None if missing.all() else low}
        nullable = bool(missing.any())
        plain = np.where(missing, 0, values - low + 1) if nullable else values - low
        steps = np.diff(plain, prepend=0)
        zigzag = (steps << 1) ^ (steps >> 63)
        delta = _weight(zigzag) < _weight(plain)
        at, width = self._add(zigzag if delta else plain)
        base = low - 1 if nullable else low
        return {"count": len(values), "at": at, "bytes": width, "base": base, "delta": delta, "nullable": nullable}

    def finish(self) -> bytes:
        """The stream."""
        return deflate(self._planes)

    def _add(self, values: Ints) -> tuple[int, int]:
        """The offset of the planes, and their number."""
        at, width = self._size, max(1, (int(values.max()).bit_length() + 7) // 8)
        raw = values.astype("<u8").view(np.uint8).reshape(-1, 8)
        self._planes += [np.ascontiguousarray(raw[:, i]) for i in range(width)]
        self._size += width * len(values)
        return at, width


def _span(values: Ints) -> tuple[int, int]:
    """The smallest and the largest existing number."""
    there = values[values != NULL]
    return (int(there.min()), int(there.max())) if len(there) else (0, 0)


def _weight(values: Ints) -> int:
    """The approximate number of bits of a column: a byte counts more the rarer it is, in whole numbers, so that all machines
    give the same result."""
    total = 0
    for shift in range(0, 56, 8):
        counts = np.bincount((values >> shift) & 255, minlength=256)
        total += sum(
            count * (16 * len(values) // count).bit_length() for count in counts.tolist() if count < len(values) and count
        )
    return total


def _as_texts(values: Ints) -> tuple[Ints, list[str]]:
    distinct, codes = np.unique(values, return_inverse=True)
    first = 1 if len(distinct) and distinct[0] == NULL else 0
    return np.where(values == NULL, NULL, codes - first), [str(int(value)) for value in distinct[first:]]


def pick(ids: Ints, wanted: Ints) -> Ints:
    """The first row of `ids` with each wanted id, or -1."""
    if len(ids) == 0:
        return np.full(len(wanted), -1)
    order = np.argsort(ids, kind="stable")
    places = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
    rows = order[places]
    return np.where((ids[rows] == wanted) & (wanted != NULL), rows, -1)


def paired(starts: Sequence[Ints], ends: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Starts and ends with equal keys: the n-th start of a key with its n-th end, in file order.

    Two arrays of rows, -1 where one of the two is missing: first all starts in file order, then the ends without one.
    """
    one, other = _keys(starts, ends)
    end = pick(other, one)
    lonely = np.ones(len(other), bool)
    lonely[end[end >= 0]] = False
    rest = np.flatnonzero(lonely)
    return np.concatenate((np.arange(len(one)), np.full(len(rest), -1))), np.concatenate((end, rest))


def _keys(starts: Sequence[Ints], ends: Sequence[Ints]) -> tuple[Ints, Ints]:
    """One number for the keys of each row and the number of their earlier occurrences; equal in both if all are equal."""
    count = len(starts[0])
    code = np.zeros(count + len(ends[0]), np.int64)
    for column in (np.concatenate(both) for both in zip(starts, ends, strict=True)):
        _, numbers = np.unique(column, return_inverse=True)
        _, code = np.unique(code * (int(numbers.max(initial=0)) + 1) + numbers, return_inverse=True)
    one, other = code[:count], code[count:]
    nth = (_occurrence(one), _occurrence(other))
    most = max(int(nth[0].max(initial=0)), int(nth[1].max(initial=0))) + 1
    return one * most + nth[0], other * most + nth[1]


def _occurrence(codes: Ints) -> Ints:
    """The number of earlier rows with the same value."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
    lengths = np.diff(np.append(firsts, len(codes)))
    made = np.empty(len(codes), np.int64)
    made[order] = np.arange(len(codes)) - np.repeat(firsts, lengths)
    return made


def rows_of(spans: Table) -> Ints:
    """The row of each span in its track, so that no two spans of a row overlap: each span takes the first free row.

    The spans must be in order of track and start.
    """
    unit, start, end = spans["unit"], spans["start"], spans["end"]
    rows = np.zeros(len(spans), np.int64)
    bounds = np.flatnonzero(np.diff(unit, prepend=-2, append=-2))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        reached = np.maximum.accumulate(end[low:high])
        if (start[low + 1 : high] < reached[:-1]).any():
            rows[low:high] = _stacked(start[low:high].tolist(), end[low:high].tolist())
    return rows


def _stacked(starts: list[int], ends: list[int]) -> list[int]:
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    made = []
    used = 0
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row, used = used, used + 1
        heapq.heappush(busy, (end, row))
        made.append(row)
    return made


_LIMIT = 1 << 24  # limit of the ids in the array, which then has at most 64 MiB


class IdMap:
    """Map ids to numbers from 0 on; None for a missing id."""

    def __init__(self, expected: int) -> None:
        self._dense = array("i")  # by id: 1 + number, 0 for none
        self._sparse: dict[int, int] = {}
        self._limit = min(4 * max(expected, 0) + 4096, _LIMIT)

    def __setitem__(self, key: int, number: int) -> None:
        if not 0 <= key < self._limit:
            self._sparse[key] = number
            return
        if key >= len(self._dense):
            self._dense.extend([0] * (key + 1 - len(self._dense)))
        self._dense[key] = number + 1

    def get(self, key: int) -> int | None:
        """The number of an id."""
        if 0 <= key < len(self._dense):
            found = self._dense[key]
            return found - 1 if found else None
        return self._sparse.get(key)

    def items(self) -> Iterator[tuple[int, int]]:
        """Ids and their numbers, small ids first."""
        yield from ((key, number - 1) for key, number in enumerate(self._dense) if number)
        yield from sorted(self._sparse.items())
