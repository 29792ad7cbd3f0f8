"""What components are told of the jobs of a program: opcode numbers and parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench.cmdq.entries import Entry, TeEntry, VeEntry
from kernbench.cmdq.opcodes import OPCODES
from kernbench.cmdq.plan import Plan
from kernbench.cmdq.program import Program
from kernbench.components.parameters import PARAMETERS

#: Numbers of opcodes: append, never renumber.
NUMBERS = {opcode: number for number, opcode in enumerate(OPCODES)}
WIDTH = 16  # the ABI's KB_PARAMS


def lower_parameters(program: Program, plan: Plan) -> dict[str, Any]:
    """`opcode` [entries] and `params` [entries][WIDTH], for `kernbench_core/plugin/plug_layout.pyx`."""
    opcode = np.array([NUMBERS[entry.opcode] for entry in program.entries], dtype=np.int64)
    params = np.zeros((len(program.entries), WIDTH), dtype=np.int64)
    for entry in program.entries:
        values = parameters_of(entry, plan)
        params[entry.index, : len(values)] = values
    return {"opcode": opcode, "params": params}


def parameters_of(entry: Entry, plan: Plan) -> list[int]:
    """In the order of `PARAMETERS`; none of a control entry."""
    if entry.engine == "control":
        return []
    if entry.engine == "dma":
        move = plan.transfer(entry.index)
        return [move[name] for name in PARAMETERS["dma"]]
    job = plan.service(entry.index)
    values = [job[name] for name in PARAMETERS["cpu"]]
    if isinstance(entry, TeEntry):
        return [*values, entry.m, entry.n, entry.k, entry.qbits_weight, entry.qbits_activation]
    return [*values, entry.length, entry.batch, entry.qbits_activation] if isinstance(entry, VeEntry) else values
