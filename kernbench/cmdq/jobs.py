"""Commands that a micro-scheduler divides into jobs: tiles of products, and chunks of vector ops (docs/model/jobs.md).

The jobs of a program form another program, whose entries the core runs. The last job of a command has the id of the command, so
entries that wait for the command wait for its last job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import msgspec

from kernbench.cmdq.entries import Entry, TeEntry, VeEntry
from kernbench.cmdq.footprint import flat_address, result_bits
from kernbench.cmdq.opcodes import VE_BINARY_OPS, VE_REDUCTIONS
from kernbench.cmdq.program import Program
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config.schema import MicroScheduler, Spm

T = TypeVar("T")
#: Vector ops that need all elements of a row.
BY_ROWS = frozenset({*VE_REDUCTIONS, "layernorm", "rmsnorm", "softmax"})
MAX_JOBS = 1 << 18  #: limit of the jobs of a program: more would take gigabytes
#: Metadata of a command that belong to its end.
OF_END = ("token", "irq_line", "marker")


@dataclass(frozen=True)
class Jobs:
    """The jobs of a program, in the order in which they are issued."""

    program: Program
    command: tuple[int, ...]  #: for each job, the position of its command
    first: tuple[int, ...]  #: for each command, the position of its first job
    last: tuple[int, ...]  #: and of its last job
    partial: frozenset[int]  #: positions of jobs whose results stay in the accumulators of the tensor engine

    def span(self, command: int) -> range:
        """The positions of a command's jobs."""
        return range(self.first[command], self.last[command] + 1)

    def of_commands(self, per_job: list[T]) -> list[T]:
        """Select from values for each job those of the first job of each command."""
        return [per_job[job] for job in self.first]


@dataclass(frozen=True)
class _Job:
    """The fields of an entry that differ from those of its command."""

    fields: dict[str, Any]
    partial: bool = False


def jobs_of(program: Program, spm: Spm, scheduler: MicroScheduler) -> Jobs:
    """The jobs of a program that is valid on PEs with this scratchpad. InputError if there would be more than MAX_JOBS."""
    _check_count(program, scheduler)
    made = [list(_jobs(entry, spm, scheduler)) for entry in program.entries]
    fresh = max((entry.id for entry in program.entries), default=-1) + 1
    ids: dict[int, list[int]] = {}
    for entry, jobs in zip(program.entries, made, strict=True):
        ids[entry.id] = [*range(fresh, fresh + len(jobs) - 1), entry.id]
        fresh += len(jobs) - 1
    out = Program(program.name, source=program.source)
    command: list[int] = []
    first: list[int] = []
    partial: set[int] = set()
    for entry, jobs in zip(program.entries, made, strict=True):
        first.append(len(out.entries))
        waiting = tuple(one for other in entry.deps_after for one in ids[other])
        for number, job in enumerate(jobs):
            is_last = number == len(jobs) - 1
            index = len(out.entries)
            meta = {name: value for name, value in entry.meta.items() if is_last or name not in OF_END}
            if len(jobs) > 1 or entry.engine in ("te", "ve"):
                meta |= {"tile_id": number}
            meta |= {"command_id": entry.id, "command_index": entry.index, "job": number, "jobs": len(jobs)}
            changes: dict[str, Any] = {"index": index, "id": ids[entry.id][number], "meta": meta, **job.fields}
            out.entries.append(msgspec.structs.replace(entry, **changes, deps_after=waiting if is_last else ()))
            command.append(entry.index)
            if job.partial:
                partial.add(index)
    last = (*(at - 1 for at in first[1:]), len(out.entries) - 1) if first else ()
    return Jobs(out, tuple(command), tuple(first), last, frozenset(partial))


def _check_count(program: Program, scheduler: MicroScheduler) -> None:
    counts = [_count(entry, scheduler) for entry in program.entries]
    if sum(counts) > MAX_JOBS:
        most = max(range(len(counts)), key=counts.__getitem__)
        entry = program.entries[most]
        rule = f"the commands of a program may have at most {MAX_JOBS} jobs together, and these have {sum(counts)}"
        rule += f"; command {entry.id} ({entry.opcode}) alone has {counts[most]}"
        raise InputError(Problem(program.source, rule, "control.micro_scheduler", remedy="choose larger tiles and chunks"))


def _count(entry: Entry, scheduler: MicroScheduler) -> int:
    """The number of jobs of a command; the jobs are not made, because there may be very many."""
    if isinstance(entry, TeEntry):
        sizes = ((entry.m, scheduler.tile_m), (entry.n, scheduler.tile_n), (entry.k, scheduler.tile_k))
        return prod(ceil_div(size, most or size) for size, most in sizes)
    if not isinstance(entry, VeEntry):
        return 1
    most, elements = scheduler.chunk_elements, entry.length * entry.batch
    if most is None or elements <= most:
        return 1
    return ceil_div(entry.batch, max(1, most // entry.length)) if entry.op in BY_ROWS else ceil_div(elements, most)


def _jobs(entry: Entry, spm: Spm, scheduler: MicroScheduler) -> Iterator[_Job]:
    if isinstance(entry, TeEntry):
        yield from _tiles(entry, spm, scheduler)
    elif isinstance(entry, VeEntry):
        yield from _chunks(entry, spm, scheduler)
    else:
        yield _Job({})


def _cuts(length: int, most: int | None) -> list[tuple[int, int]]:
    """Ranges (start, length) of at most `most` elements."""
    step = most or length
    return [(at, min(step, length - at)) for at in range(0, length, step)]


def _tiles(entry: TeEntry, spm: Spm, scheduler: MicroScheduler) -> Iterator[_Job]:
    """Tiles of a product: m outermost, then n, then k. Each operand is stored tile after tile in the scratchpad."""
    m, n, k = entry.m, entry.n, entry.k
    depths = _cuts(k, scheduler.tile_k)
    for row, rows in _cuts(m, scheduler.tile_m):
        for column, columns in _cuts(n, scheduler.tile_n):
            for at, depth in depths:
                fields = {"m": rows, "n": columns, "k": depth}
                fields |= _moved(entry, "ifm", row * k + rows * at, entry.qbits_activation, spm)
                fields |= _moved(entry, "wgt", column * k + columns * at, entry.qbits_weight, spm)
                fields |= _moved(entry, "ofm", row * n + rows * column, result_bits(entry), spm)
                yield _Job(fields, partial=at + depth < k)


def _chunks(entry: VeEntry, spm: Spm, scheduler: MicroScheduler) -> Iterator[_Job]:
    """Chunks of a vector op: groups of elements if each element is computed by itself, else whole rows."""
    length, batch, bits = entry.length, entry.batch, entry.qbits_activation
    most = scheduler.chunk_elements
    whole = entry.op in BY_ROWS
    if most is None or length * batch <= most:
        yield _Job({})
        return
    for start, count in _cuts(batch if whole else length * batch, max(1, most // length) if whole else most):
        shape = {"batch": count} if whole else {"length": count, "batch": 1}
        read = start * length if whole else start
        fields = shape | _moved(entry, "in", read, bits, spm)
        if entry.op in VE_BINARY_OPS:
            fields |= _moved(entry, "in2", read, bits, spm)
        yield _Job(fields | _moved(entry, "out", start if entry.op in VE_REDUCTIONS else read, result_bits(entry), spm))


def _moved(entry: Entry, prefix: str, elements: int, bits: int, spm: Spm) -> dict[str, int]:
    """The bank and the offset of an operand that begins a number of elements after that of the command, at a whole byte."""
    addr = flat_address(getattr(entry, f"{prefix}_bank"), getattr(entry, f"{prefix}_offset"), spm) + elements * bits // 8
    if spm.map == "blocked":
        bank, offset = divmod(addr, spm.bank_size_bytes)
    else:
        line, byte = divmod(addr, spm.bank_width_bytes)
        bank, offset = line % spm.num_banks, line // spm.num_banks * spm.bank_width_bytes + byte
    return {f"{prefix}_bank": bank, f"{prefix}_offset": offset}
