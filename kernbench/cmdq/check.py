"""Checks a program against one NPU: everything of docs/model/endings.md, before cycle 0."""

from __future__ import annotations

from collections.abc import Iterator

from kernbench.cmdq.columns import Columns
from kernbench.cmdq.entries import Entry
from kernbench.cmdq.opcodes import OPCODES
from kernbench.cmdq.parse import entry_problems
from kernbench.cmdq.program import Program
from kernbench.cmdq.read_entry import FieldProblem
from kernbench.common.errors import InputError
from kernbench.config.schema import NpuConfig


def checked_columns(program: Program, config: NpuConfig) -> Columns:
    """The columns of a program that can be run; InputError naming every problem of one that cannot."""
    columns = Columns(program.entries, config)
    foreign = [(k, one) for k, entry in enumerate(program.entries) for one in _system_problems(entry, config)]
    refuse([*columns.structure, *foreign, *columns.problems], program)
    return columns


def refuse(problems: list[tuple[int, FieldProblem]], program: Program) -> None:
    """InputError if there are problems of entries, by position."""
    if problems:
        names = {index: program.entries[index].where for index, _ in problems}
        raise InputError(entry_problems(problems, names, program.document, program.source))


def _system_problems(entry: Entry, config: NpuConfig) -> Iterator[FieldProblem]:
    if OPCODES[entry.opcode].system:
        rule = f"{config.source} is one NPU, and only a machine of kernbench/system/1 runs it"
        yield FieldProblem(("opcode",), rule, entry.opcode)
    elif entry.node is not None:
        rule = f"{config.source} is one NPU, and only a machine of kernbench/system/1 has nodes"
        yield FieldProblem(("node",), rule, entry.node)
