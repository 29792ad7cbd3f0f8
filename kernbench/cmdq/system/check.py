"""Checks a program against a system: docs/model/endings.md for its PEs, the nodes of entries, and the locations of their
bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernbench.cmdq.check import refuse
from kernbench.cmdq.columns import Columns, place_problem
from kernbench.cmdq.entries import DmaEntry, Entry, HostEntry, KvEntry, PairEntry
from kernbench.cmdq.program import Program
from kernbench.cmdq.read_entry import FieldProblem
from kernbench.cmdq.system.nodes import SystemNodes


def columns_on_system(program: Program, places: SystemNodes) -> Columns:
    """The columns of a valid program; InputError with all problems of any other program."""
    columns = Columns(program, places.pe)
    problems = columns.structure
    wrong: dict[int, list[FieldProblem]] = {}
    for index, problem in columns.problems:
        wrong.setdefault(index, []).append(_of_pe(problem))
    for index, entry in enumerate(program.entries):
        where = list(places.problems(entry))
        found = wrong.get(index) or list(_elsewhere(entry, index, columns, places))
        problems += [(index, problem) for problem in (*where, *found)]
    refuse(problems, program)
    return columns


def _elsewhere(entry: Entry, index: int, columns: Columns, places: SystemNodes) -> Iterator[FieldProblem]:
    """The problems with the location of the bytes of a transfer outside of its PE."""
    if isinstance(entry, PairEntry):
        yield from _pair_problems(entry, int(columns.dma["nbytes"][columns.job[index]]), places)
    elif isinstance(entry, DmaEntry | KvEntry | HostEntry):
        field = "dram_base_addr" if isinstance(entry, KvEntry) else "dram_addr"
        yield from places.memory_problem(field, getattr(entry, field), *columns.dram_range(index))


def _of_pe(problem: FieldProblem) -> FieldProblem:
    """The rules of one NPU with the keys of a system, in which the keys of a PE begin with `pe`."""
    rule = re.sub(r"\((?=(?:dma|te|ve|spm)\b)", "(pe.", problem.rule).replace("the machine has", "a PE has", 1)
    return FieldProblem(problem.path, rule, problem.value, problem.remedy)


def _pair_problems(entry: PairEntry, nbytes: int, places: SystemNodes) -> Iterator[FieldProblem]:
    pe, width = places.pe, places.pe.spm.bank_width_bytes
    if entry.dma_id >= pe.dma.engines:
        yield FieldProblem(("dma_id",), f"a PE has {pe.dma.engines} (pe.dma.engines in {pe.source})", entry.dma_id)
    for prefix in ("spm", "peer"):
        offset: int = getattr(entry, f"{prefix}_offset")
        found = [_of_pe(one) for one in place_problem(entry, prefix, nbytes, pe)]
        yield from found
        if not found and offset % width:
            where = f"the offset must be a multiple of {width} (pe.spm.bank_width_bytes)"
            rule = f"a tile between scratchpads begins at a line: {where}"
            yield FieldProblem((f"{prefix}_offset",), rule, offset)
