"""Checks a program against one NPU before cycle 0, by all rules of docs/model/endings.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from kernbench.cmdq.columns import Columns
from kernbench.cmdq.entries import Entry
from kernbench.cmdq.opcodes import OPCODES
from kernbench.cmdq.parse import entry_problems
from kernbench.cmdq.program import Program
from kernbench.cmdq.read_entry import FieldProblem
from kernbench.common.errors import InputError
from kernbench.config.schema import NpuConfig

_OF_SYSTEMS = frozenset(name for name, spec in OPCODES.items() if spec.system)


def checked_columns(program: Program, config: NpuConfig) -> Columns:
    """The columns of a valid program; InputError with all problems of any other program."""
    columns = Columns(program, config)
    foreign = list(_system_problems(program.entries, config))
    refuse([*columns.structure, *foreign, *columns.problems], program)
    return columns


def refuse(problems: list[tuple[int, FieldProblem]], program: Program) -> None:
    """Raise InputError if entries have problems, which are given by position."""
    if problems:
        names = {index: program.entries[index].where for index, _ in problems}
        raise InputError(entry_problems(problems, names, program.document, program.source))


def _system_problems(entries: Sequence[Entry], config: NpuConfig) -> Iterator[tuple[int, FieldProblem]]:
    """(position, problem) of entries that only a system can run."""
    opcodes, nodes = (list(map(attrgetter(name), entries)) for name in ("opcode", "node"))
    if nodes.count(None) == len(nodes) and _OF_SYSTEMS.isdisjoint(opcodes):
        return
    for k, (opcode, node) in enumerate(zip(opcodes, nodes, strict=True)):
        if opcode in _OF_SYSTEMS:
            rule = f"{config.source} is one NPU, and only a machine of kernbench/system/1 runs it"
            yield k, FieldProblem(("opcode",), rule, opcode)
        elif node is not None:
            rule = f"{config.source} is one NPU, and only a machine of kernbench/system/1 has nodes"
            yield k, FieldProblem(("node",), rule, node)
