"""A row of a published table as a case: the measured figure, its roofline, and how the simulator computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kernbench.analysis.chips.cells import (
    Cells,
    at_least_1,
    kv_heads_of,
    measured_in,
    number_in,
    row_name,
    type_of,
    units_per_us,
    whole_in,
)
from kernbench.config import NpuConfig
from kernbench.workloads.ops.operation import Operation, Sequences
from kernbench.workloads.ops.timing import OperationTimer

LLM_HEAD = 128  #: default head width of a table of attention


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a table that can be simulated."""

    label: str
    op: str
    measured: float
    unit: str
    roofline: float | None  #: in the table's unit
    compute_us: float  #: [us] flops over the rated peak; 0 if no rate is known
    memory_us: float  #: [us] bytes over the rated bandwidth of DRAM or of links
    kernels: float  #: number of kernels, each of which costs the time of a launch
    ask: Callable[[OperationTimer], float]  #: computes the figure of the simulator, in the table's unit
    rate: bool = False  #: whether the figure is a rate, so that more is faster
    operation: Operation | None = None  #: if the row is one operation
    traced: bool = False  #: whether the operation is launched from a trace, whatever the profile of the table is

    def causes(self, timer: OperationTimer) -> dict[str, float]:
        """[ns] The parts of the time of an operation; empty for a row of another kind."""
        if self.operation is None:
            return {}
        return (timer.traced() if self.traced else timer).time(self.operation).causes

    @property
    def took(self) -> float:
        """The measured time, or the inverse of the measured rate."""
        return 1 / self.measured if self.rate else self.measured


class Context:
    """The common values of the rows of one table."""

    def __init__(self, machine: NpuConfig, chip: str, rows: list[Cells], table: str) -> None:
        section = machine.chip
        assert section is not None
        self.machine, self.chip, self.rows, self.table = machine, chip, rows, table
        self.section = section
        self.peak = {
            bits: 2e-6 * section.cores * float(section.macs(bits)) * float(section.rated_clock_ghz) * 1e9 for bits in (8, 16)
        }
        self.bandwidth = float(section.rated_memory_gb_s) * 1e3  # [byte/us]
        self.links = section.links * float(section.link_gb_s) * 1e3
        self._heads: dict[tuple[str, ...], tuple[int, int, int]] = {}

    def heads(self, row: Cells) -> tuple[int, int, int]:
        """The number of query heads and KV heads, and the width of a head: as columns say, or else derived from the work and
        traffic of the first decode step, or of the first prefill, of the same model and division."""
        if row.get("heads"):
            heads, kv_heads = at_least_1(row, "heads"), kv_heads_of(row)
            return heads, kv_heads, whole_in(row, "head_dim") or LLM_HEAD
        key = tuple(row.get(name) or "" for name in ("model", "tp", "head_dim"))
        if key not in self._heads:
            same = [one for one in self.rows if tuple(one.get(name) or "" for name in ("model", "tp", "head_dim")) == key]
            width = whole_in(row, "head_dim") or LLM_HEAD
            found = next((one for work in (_decode_work, _prefill_work) for one in map(work, same) if one), None)
            heads, kv_heads = (max(1, round(one / width)) for one in found) if found else (32, 8)
            self._heads[key] = heads, kv_heads, width
        return self._heads[key]


def case_of(row: Cells, context: Context, ask: Callable[[OperationTimer], float], **given: Any) -> Case:
    flops, moved = number_in(row, "flops"), number_in(row, "bytes")
    if not moved and row.get("k") and row.get("class") == "matmul":
        m, n, k = (number_in(row, one) for one in "mnk")
        size = type_of(row)[1] if row.get("fidelity") is None else 2.0
        flops, moved = 2 * m * n * k, size * (m * k + k * n) + max(2.0, size) * m * n
    memory = moved / (context.links if row.get("class") == "collective" else context.bandwidth)
    fields: dict[str, Any] = {
        "label": row_name(row),
        "op": row.get("op") or row.get("model") or row.get("class") or "",
        "measured": measured_in(row),
        "unit": row.get("unit", "us"),
        "roofline": number_in(row, "roofline") or None,
        "compute_us": flops / context.peak[16] if flops else 0.0,
        "memory_us": memory,
        "kernels": 1.0,
        "ask": ask,
        "rate": False,
    }
    return Case(**(fields | given))


def case_of_operation(row: Cells, context: Context, op: Operation, times: int = 1, **given: Any) -> Case:
    """A row with one operation, which is measured a number of times in sequence."""
    per_us = units_per_us(row)
    one = case_of(row, context, lambda timer: times * timer.time(op).ns / 1e3 * per_us, operation=op, **given)
    compute, memory = one.compute_us * per_us, one.memory_us * per_us
    return replace(one, compute_us=compute, memory_us=memory, roofline=one.roofline or max(compute, memory) or None)


def _decode_work(row: Cells) -> tuple[float, float] | None:
    """The width of all query heads and of all KV heads, by the work and traffic of a decode step; None for another row."""
    if row.get("op") != "decode":
        return None
    many = whole_in(row, "n_decode") or whole_in(row, "batch")
    keys = whole_in(row, "kv_decode") or whole_in(row, "kv_cache")
    flops, moved = number_in(row, "flops"), number_in(row, "bytes")
    if not (many and keys and flops):
        return None
    width = flops / (4 * many * keys)
    return width, (moved - 4 * many * width) / (4 * many * keys)


def _prefill_work(row: Cells) -> tuple[float, float] | None:
    """The same for one prefill, whose queries see the keys up to their own."""
    new, before = whole_in(row, "prefill_chunk"), whole_in(row, "kv_prefill") or whole_in(row, "kv_cache")
    flops, moved, many = number_in(row, "flops"), number_in(row, "bytes"), whole_in(row, "batch") or 1
    if not (new and flops) or whole_in(row, "n_decode"):
        return None
    width = flops / (4 * Sequences(many, new, before).pairs)
    return width, (moved - 4 * many * new * width) / (4 * many * (new + before))


def case_by_roofline(row: Cells, context: Context, value: Callable[[OperationTimer], float], *, rate: bool) -> Case:
    """A row without flops and bytes: its roofline is used for both."""
    bound = number_in(row, "roofline")
    time = (1 / bound if rate else bound) if bound else 0.0
    return case_of(row, context, value, compute_us=0.0, memory_us=time, rate=rate)
