"""Checks a program against a system: docs/model/endings.md for its PEs, and where entries run and their bytes are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernbench.cmdq.check import npu_problems, place_problem
from kernbench.cmdq.depend import structure_problems
from kernbench.cmdq.entries import DmaEntry, Entry, HostEntry, KvEntry, PairEntry
from kernbench.cmdq.footprint import bytes_of, flat_address, transfer_of
from kernbench.cmdq.parse import entry_problems
from kernbench.cmdq.program import Program
from kernbench.cmdq.read_entry import FieldProblem
from kernbench.cmdq.system.places import Places
from kernbench.common.errors import InputError


def check_on_system(program: Program, places: Places) -> None:
    """Raises InputError naming every problem of `program` on this system; returns when it can be run."""
    problems = structure_problems(program.entries)
    for index, entry in enumerate(program.entries):
        problems += [(index, problem) for problem in _problems(entry, places)]
    if problems:
        names = {index: program.entries[index].where for index, _ in problems}
        raise InputError(entry_problems(problems, names, program.document, program.source))


def _problems(entry: Entry, places: Places) -> Iterator[FieldProblem]:
    where = list(places.problems(entry))
    yield from where
    if isinstance(entry, HostEntry):
        start, end = host_range(entry, places)
        yield from places.memory_problem("dram_addr", entry.dram_addr, start, end)
    elif isinstance(entry, PairEntry):
        yield from _pair_problems(entry, places)
    elif entry.engine not in ("control", "cpu"):
        found = [_of_pe(problem) for problem in npu_problems(entry, places.pe)]
        yield from found
        if not found and isinstance(entry, DmaEntry | KvEntry):
            move = transfer_of(entry, places.pe)
            field = "dram_addr" if isinstance(entry, DmaEntry) else "dram_base_addr"
            yield from places.memory_problem(field, getattr(entry, field), move.dram_start, move.dram_end)


def _of_pe(problem: FieldProblem) -> FieldProblem:
    """What one NPU's rules say, with the keys of a system: those of a PE stand below `pe`."""
    rule = re.sub(r"\((?=(?:dma|te|ve|spm)\b)", "(pe.", problem.rule).replace("the machine has", "a PE has", 1)
    return FieldProblem(problem.path, rule, problem.value, problem.remedy)


def host_range(entry: HostEntry, places: Places) -> tuple[int, int]:
    """The DRAM bytes of a host copy, aligned as a PE's transfers are."""
    align = places.pe.dma.alignment_bytes
    end = entry.dram_addr + bytes_of(entry.num_elements, entry.qbits)
    return entry.dram_addr // align * align, -(-end // align) * align


def _pair_problems(entry: PairEntry, places: Places) -> Iterator[FieldProblem]:
    pe, width = places.pe, places.pe.spm.bank_width_bytes
    if entry.dma_id >= pe.dma.engines:
        yield FieldProblem(("dma_id",), f"a PE has {pe.dma.engines} (pe.dma.engines in {pe.source})", entry.dma_id)
    nbytes = bytes_of(entry.num_elements, entry.qbits)
    for prefix in ("spm", "peer"):
        bank, offset = getattr(entry, f"{prefix}_bank"), getattr(entry, f"{prefix}_offset")
        found = [_of_pe(one) for one in place_problem(entry, prefix, flat_address(bank, offset, pe.spm), nbytes, pe)]
        yield from found
        if not found and offset % width:
            where = f"the offset must be a multiple of {width} (pe.spm.bank_width_bytes)"
            rule = f"a tile between scratchpads begins at a line: {where}"
            yield FieldProblem((f"{prefix}_offset",), rule, offset)
