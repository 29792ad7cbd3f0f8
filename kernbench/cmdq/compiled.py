"""Compiled programs: a `.kbp` file that a user makes, and the tables that a program carries with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kernbench.cmdq.binary import Packed, Unreadable, pack, unpack
from kernbench.cmdq.check import check_program
from kernbench.cmdq.lower import lower_program
from kernbench.cmdq.parse import load_program
from kernbench.cmdq.program import Lowered, Program
from kernbench.cmdq.table_rules import broken_rule
from kernbench.common.errors import InputError, Problem
from kernbench.common.files import write_whole
from kernbench.config import NpuConfig
from kernbench.config.machine import MachineConfig

SUFFIX = ".kbp"
REMEDY = "make it anew with `kbsim program compile`"


def lowered_on(program: Program, config: MachineConfig) -> None:
    """Let the program carry its tables for an NPU; InputError where it is not valid there. Systems have no such tables."""
    if isinstance(config, NpuConfig):
        check_program(program, config)
        program.lowered = Lowered(config.digest(), list(program.entries), lower_program(program, config))


def packed(program: Program) -> bytes:
    """The program and the tables that it carries in binary form; ValueError where its metadata have none."""
    lowered = program.lowered
    if lowered is None:
        return pack(program.name, program.entries, None, None)
    return pack(program.name, program.entries, lowered.machine, lowered.tables)


def unpacked(data: bytes, source: str, config: MachineConfig | None) -> tuple[Packed, Program]:
    """The program in binary form, with its tables where they are for this machine and fit it; Unreadable where they do not."""
    found = unpack(data)
    program = Program(found.name, (), source)
    program.entries = found.entries
    if found.tables is not None and isinstance(config, NpuConfig) and found.machine == config.digest():
        broken = broken_rule(found.tables, len(found.entries), config)
        if broken is not None:
            raise Unreadable(f"its tables do not fit the machine: {broken}")
        program.lowered = Lowered(found.machine, list(found.entries), found.tables)
    return found, program


def save_compiled(program: Program, config: MachineConfig, path: str | os.PathLike[str]) -> None:
    """Write a program and its tables for a machine to a `.kbp` file, whole or not at all.

    InputError where the program is not valid on the machine, the name ends otherwise, or the file cannot be written.
    """
    target = os.fspath(path)
    if Path(target).suffix.lower() != SUFFIX:
        raise InputError(Problem(target, f"its name must end in {SUFFIX}"))
    lowered_on(program, config)
    try:
        data = packed(program)
    except ValueError as error:
        raise InputError(Problem(program.source, f"it has no binary form: {error}", remedy="keep it as JSON")) from None
    write_whole(target, data)


def load_compiled(path: str | os.PathLike[str], config: MachineConfig | None = None) -> Program:
    """The program in a `.kbp` file. On the machine it was compiled for, its tables are taken from there.

    For any other machine its entries are read as if they were JSON, with every check. InputError where the file cannot be
    read, is damaged, or is of another version.
    """
    source = os.fspath(path)
    try:
        data = Path(source).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(Problem(source, f"it cannot be read: {reason}")) from None
    try:
        _, program = unpacked(data, source, config)
    except Unreadable as error:
        raise InputError(Problem(source, str(error), remedy=REMEDY)) from None
    return program if program.lowered is not None else _as_if_read(program)


def _as_if_read(program: Program) -> Program:
    plain: dict[str, Any] = program.to_dict()
    read = load_program(plain)
    read.source = program.source
    return read
