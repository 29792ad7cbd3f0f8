"""The ranges of memory that a log fills by strided writes, such as a matrix that kernels store in tiles.

A memory store has one array for each write, and a strided write is one array for each row. If a replay knows the ranges before
it begins, the rows of a range go into one array.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kernbench.common.dtypes import nbytes_of
from kernbench.sim_engine.memory.strides import span_of
from kernbench.sim_engine.memory_store import LAST
from kernbench.sim_engine.op_log import OpRow
from kernbench.sim_engine.ops.params import Template

Range = tuple[int, int]  #: first byte, end
Write = tuple[int, int, int]  #: the same, and the number of bytes that are written


def filled_ranges(rows: Iterable[OpRow]) -> dict[str, list[Range]]:
    """By space, the ranges of strided writes, disjoint and in order of address. Writes whose ranges overlap are in one range.
    A range has at least two writes, which write at least half of it.
    """
    writes: dict[str, list[Write]] = {}
    last: Template | None = None
    strides: Any = None
    for row in rows:
        if row.template is not last:
            last = row.template
            strides = last.constants.get("dst_strides") if row.op_kind == "memory" else None
        if strides is not None:
            _add(writes, row, last, strides)
    return {space: _merged(found) for space, found in writes.items()}


def _add(writes: dict[str, list[Write]], row: OpRow, template: Template, strides: tuple[int, ...]) -> None:
    constants, where = template.constants, template.varying.get("dst_addr")
    if not isinstance(where, int) or "shape" not in constants or "dtype" not in constants:
        return
    span = template.plans.get(filled_ranges)
    if span is None:
        shape, dtype = tuple(constants["shape"]), constants["dtype"]
        span = template.plans[filled_ranges] = (*span_of(shape, strides, dtype), nbytes_of(shape, dtype))
    addr = row.values[where]
    if addr is not None and addr + span[0] >= 0 and addr + span[1] <= LAST:
        writes.setdefault(constants.get("dst_space", "tcm"), []).append((addr + span[0], addr + span[1], span[2]))


def _merged(writes: list[Write]) -> list[Range]:
    found: list[Range] = []
    start = end = written = count = 0
    for low, high, nbytes in [*sorted(writes), (LAST + 1, LAST + 1, 0)]:
        if low >= end:
            if count > 1 and 2 * written >= end - start:
                found.append((start, end))
            start, end, written, count = low, high, 0, 0
        end, written, count = max(end, high), written + nbytes, count + 1
    return found
