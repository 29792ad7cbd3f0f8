"""Programs of decoder layers for the tests of `kernbench.workloads`: models, machines, and what can be read off a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from kernbench.cmdq import Program
from kernbench.cmdq.dependencies import predecessors
from kernbench.cmdq.entries import DmaEntry, Entry, KvEntry
from kernbench.cmdq.footprint import regions_of, transfer_of
from kernbench.config import NpuConfig, load_config
from kernbench.workloads import LLAMA_2_7B, decoder_layer
from kernbench.workloads.models import ModelShape

Phase = Literal["decode", "prefill"]
KIB = 1 << 10

#: Machines that hold a whole layer of Llama-2-7B. `one_mib` has blocked banks and spills in prefill; `odd` has no power of two.
MACHINES: dict[str, Any] = {
    "npu_mobile": "npu_mobile",
    "npu_server": "npu_server",
    "one_mib": {"spm": {"map": "blocked"}},
    "odd": {
        "dma": {"engines": 3, "alignment_bytes": 48},
        "dram": {"channels": 3, "interleave_bytes": 96},
        "spm": {"num_banks": 7, "bank_size_bytes": 480 * KIB, "bank_width_bytes": 24},
        "te": {"engines": 3},
        "ve": {"engines": 5},
        "kv_layouts": [{"t_max": 2048, "head_dim": 64}, {"t_max": 1030, "head_dim": 128}, {"t_max": 4096, "head_dim": 128}],
    },
}
PRESETS = ("npu_mobile", "npu_server")

#: A Llama-like layer small enough for slow checks, and one whose query heads share key and value heads and are
#: together wider than the residual stream.
TINY = ModelShape(name="tiny", layers=1, hidden=256, heads=2, kv_heads=2, head_dim=128, ffn=512)
TINY_GROUPED = ModelShape(name="tiny_grouped", layers=1, hidden=192, heads=4, kv_heads=2, head_dim=128, ffn=320)
_TINY_BASE: dict[str, Any] = {
    "dma": {"engines": 2},
    "dram": {"channels": 2, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": 64},
    "kv_layouts": [{"t_max": 300, "head_dim": 128}],
}


def tiny_machine(kib: int, **more: Any) -> dict[str, Any]:
    """A machine with `kib` KiB of scratchpad that fails where jobs in flight overlap; `more`: sections to change."""
    machine = {**_TINY_BASE, "spm": {"bank_size_bytes": kib * KIB // 16, "check_overlap": "error"}}
    for section, values in more.items():
        machine[section] = {**machine.get(section, {}), **values} if isinstance(values, dict) else values
    return machine


@dataclass(frozen=True)
class Case:
    """A layer on a machine."""

    model: ModelShape
    machine: Any
    context: int
    tokens: int

    @property
    def config(self) -> NpuConfig:
        return load_config(self.machine)

    def program(self) -> Program:
        return decoder_layer(self.model, self.config, "decode", self.context, self.tokens)


#: Resident and spilled, one block and many, one KV tile and many, head groups, and transfers that alignment widens.
TINY_CASES: dict[str, Case] = {
    "decode": Case(TINY, tiny_machine(128), 130, 1),
    "decode_small": Case(TINY, tiny_machine(20), 200, 1),
    "decode_grouped": Case(TINY_GROUPED, tiny_machine(64), 100, 1),
    "prefill": Case(TINY, tiny_machine(128), 0, 24),
    "prefill_spilled": Case(TINY, tiny_machine(22), 0, 24),
    "chunk_grouped": Case(TINY_GROUPED, tiny_machine(40), 150, 20),
    "wide_alignment": Case(TINY, tiny_machine(80, dma={"engines": 3, "alignment_bytes": 192}), 65, 9),
}


@cache
def machine(name: str) -> NpuConfig:
    """One of MACHINES."""
    return load_config(MACHINES[name])


@cache
def llama(name: str, phase: Phase) -> Program:
    """The shipped layer on one of MACHINES."""
    return decoder_layer(LLAMA_2_7B, machine(name), phase)


def scratchpad_accesses(entry: Entry, config: NpuConfig) -> list[tuple[int, int, bool]]:
    """`(start, end, written)` of each scratchpad range of a job; none for control entries."""
    if isinstance(entry, DmaEntry | KvEntry):
        transfer = transfer_of(entry, config)
        return [(transfer.spm_addr, transfer.spm_addr + transfer.bytes_aligned, not transfer.write)]
    if entry.engine == "control":
        return []
    return [(region.addr, region.addr + region.nbytes, region.write) for region in regions_of(entry, config)]


def dram_accesses(entry: Entry, config: NpuConfig) -> list[tuple[int, int, bool]]:
    """The same of DRAM, a range per row."""
    if not isinstance(entry, DmaEntry | KvEntry):
        return []
    transfer = transfer_of(entry, config)
    return [(*transfer.aligned_row(i), transfer.write) for i in range(transfer.rows)]


def moves(program: Program, config: NpuConfig, opcode: str, **fields: Any) -> Iterator[tuple[Any, int]]:
    """Each transfer of an opcode whose fields have these values, with its bytes before alignment."""
    for entry in program.entries:
        if entry.opcode == opcode and all(getattr(entry, name) == value for name, value in fields.items()):
            yield entry, transfer_of(entry, config).bytes_total


Accesses = list[tuple[int, int, int, bool]]  # job, start, end, written


def unordered(program: Program, accesses: Accesses) -> list[tuple[int, int]]:
    """Pairs of jobs that touch the same bytes, one of them writing, and may run at the same time."""
    before = [0] * len(program)  # bit i: entry i is complete before this one is issued
    for i, waits in enumerate(predecessors(program.entries)):
        for other in waits:
            before[i] |= before[other] | 1 << other
    job, start, end, written = (np.array(column) for column in zip(*accesses, strict=True))
    found = []
    for a in range(len(accesses)):
        clash = (start < end[a]) & (end > start[a]) & (written | written[a]) & (job < job[a])
        found += [(int(job[b]), int(job[a])) for b in np.flatnonzero(clash) if not before[job[a]] >> int(job[b]) & 1]
    return found


def accesses_of(program: Program, config: NpuConfig, of: Any) -> Accesses:
    """What `of` says of every entry."""
    return [(entry.index, *access) for entry in program.entries for access in of(entry, config)]
