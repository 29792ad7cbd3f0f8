"""Columns as few bytes: differences or values, each byte of the numbers by itself, all of a page in one deflate stream.

A column's description says how to read it: it begins `at` that byte of the unpacked stream; `bytes` of a number are in as many
planes, lowest first; `delta` adds each value to the one before; `base` is added; `nullable` has 0 for NULL. Differences are
zigzag numbers: 0, -1, 1, -2, ...
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench.trace.store.columns import NULL, Column, Ints, Table
from kernbench.trace.store.deflate import deflate

SAFE = 2**53 - 1  #: JavaScript's numbers are exact up to here; larger ones travel as text


class Pack:
    """Collects columns; what describes them goes into the page beside the packed bytes."""

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
        """Take integers below 2**53, some of them NULL perhaps."""
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
        """Where the planes begin, and how many there are."""
        at, width = self._size, max(1, (int(values.max()).bit_length() + 7) // 8)
        raw = values.astype("<u8").view(np.uint8).reshape(-1, 8)
        self._planes += [np.ascontiguousarray(raw[:, i]) for i in range(width)]
        self._size += width * len(values)
        return at, width


def _span(values: Ints) -> tuple[int, int]:
    """Smallest and largest of the numbers that are there."""
    there = values[values != NULL]
    return (int(there.min()), int(there.max())) if len(there) else (0, 0)


def _weight(values: Ints) -> int:
    """About how many bits a column takes: each byte as many as it is rare, in whole numbers, so that all machines agree."""
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
