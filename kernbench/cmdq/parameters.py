"""What components are told of the jobs of a program: opcode numbers and parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench.cmdq.entries import Entry, TeEntry, VeEntry
from kernbench.cmdq.footprint import service_cycles, transfer_of, work_of
from kernbench.cmdq.opcodes import OPCODES
from kernbench.cmdq.program import Program
from kernbench.components.parameters import PARAMETERS
from kernbench.config import NpuConfig

#: Numbers of opcodes: append, never renumber.
NUMBERS = {opcode: number for number, opcode in enumerate(OPCODES)}
WIDTH = 16  # the ABI's KB_PARAMS


def lower_parameters(program: Program, config: NpuConfig) -> dict[str, Any]:
    """`opcode` [entries] and `params` [entries][WIDTH], for `kernbench_core/plug_layout.pyx`."""
    opcode = np.array([NUMBERS[entry.opcode] for entry in program.entries], dtype=np.int64)
    params = np.zeros((len(program.entries), WIDTH), dtype=np.int64)
    for entry in program.entries:
        values = parameters_of(entry, config)
        params[entry.index, : len(values)] = values
    return {"opcode": opcode, "params": params}


def parameters_of(entry: Entry, config: NpuConfig) -> list[int]:
    """In the order of `PARAMETERS`; none of a control entry."""
    if entry.engine == "control":
        return []
    if entry.engine == "dma":
        move = transfer_of(entry, config)
        return [int(getattr(move, name)) for name in PARAMETERS["dma"]]
    time = service_cycles(entry, config)
    values = [time.init, time.body, time.finalize, work_of(entry)]
    if isinstance(entry, TeEntry):
        return [*values, entry.m, entry.n, entry.k, entry.qbits_weight, entry.qbits_activation]
    assert isinstance(entry, VeEntry)
    return [*values, entry.length, entry.batch, entry.qbits_activation]
