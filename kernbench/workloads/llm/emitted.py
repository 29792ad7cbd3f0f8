"""Programs of segments that several machines share, and the values of a machine on which a run of such a program depends.

A program of a segment depends on the shape of its layer, on the plan, on addresses, and on a few values of the machine. It does
not depend on the bandwidth of the DRAM, for example. A sweep emits and lowers the program once for all machines with equal
values. The program is simulated again for every machine on which its cycles can differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from functools import cached_property
from math import lcm
from threading import Lock
from typing import Any

import numpy as np

from kernbench.cmdq.entries import TeEntry
from kernbench.cmdq.plan import Plan, ids_of
from kernbench.cmdq.program import Program
from kernbench.cmdq.shared_plans import Plans, unread_size
from kernbench.common.kept_results import kept_result
from kernbench.config.schema import NpuConfig
from kernbench.config.section_texts import texts_of
from kernbench.workloads.llm.known import Known
from kernbench.workloads.planner import LayerPlan


def run_content(config: NpuConfig) -> Hashable:
    """The values of an NPU on which cycles and counters of a program depend, beside those in the program's tables.

    The size of a bank of an interleaved scratchpad only decides whether the program is valid, and the layouts of KV caches only
    decide addresses.
    """
    return texts_of(config, [name for name in type(config).model_fields if name != "kv_layouts"], unread_size(config))


def choice_of(plan: LayerPlan) -> Hashable:
    """The values of a plan on which a program depends: all except the estimates by which the plan was chosen."""
    return (
        plan.tokens, plan.context, plan.batch, tuple(sorted(plan.resident)), plan.block_tokens, plan.granule,
        tuple(plan.tile_cols.items()), plan.weight_skew_bytes, plan.strip_cols, plan.strip_bytes, plan.kv_tile_tokens,
        plan.kv_slot_bytes,
        tuple(plan.scratchpad.buffers.values()), plan.in_turn,
    )  # fmt: skip


class Emitted:
    """A program of a segment, which must not be modified after it is made. Threads may share the program.

    `config`: one of the machines that share it. `content`: the digest of all that a run of the program depends on, besides the
    machine. If the digest is on disk, the program is only made when it is needed.
    """

    def __init__(self, key: Hashable, make: Callable[[], Program], config: NpuConfig) -> None:
        self._make = make
        self._lock = Lock()
        self.content: str = kept_result("program", key, str, lambda: _content(self.program, self.plan(config)))

    @cached_property
    def program(self) -> Program:
        """The program."""
        with self._lock:
            made = self.__dict__.get("program")
            if made is None:
                self.__dict__["program"] = made = self._make()
                del self._make  # it holds the objects of a whole job
            return made

    def plan(self, config: NpuConfig) -> Plan:
        """The result of `plan_npu`."""
        return self._plans.of(config)

    @cached_property
    def _plans(self) -> Plans:
        return Plans(self.program, size=False)  # the program was emitted for a plan that fits each of the machines


def _content(program: Program, plan: Plan) -> str:
    """The digest of the tables of a program, and of what results read from its entries.

    Metadata, such as the position of a token, do not count. Where only the channel of a byte depends on its address, addresses
    count from the nearest byte before them at which the interleave begins again with the first channel.
    """
    config, jobs = plan.pe, plan.jobs
    weights = [entry.qbits_weight for entry in plan.rows(program).entries if isinstance(entry, TeEntry)]
    commands = None if jobs is None else (jobs.first, jobs.last)
    found = hashlib.blake2b(repr((weights, commands)).encode(), digest_size=32)
    found.update(ids_of(program, plan).tobytes())
    moves = plan.program["dma"]
    if not (config.dram.row_buffer or config.dram.controller or config.llc or config.dma.codecs):
        repeat = lcm(config.dma.alignment_bytes, config.dram.channels * config.dram.interleave_bytes)
        moves = moves | {"dram_addr": moves["dram_addr"] % repeat}
    _add(found, plan.program | {"dma": moves})
    return found.hexdigest()


def _add(found: Any, tables: dict[str, Any]) -> None:
    """Add tables to a digest."""
    for name, table in sorted(tables.items()):
        if isinstance(table, dict):
            found.update(f"{name} of\n".encode())
            _add(found, table)
        else:
            found.update(f"{name} {table.dtype} {table.shape}\n".encode())
            found.update(np.ascontiguousarray(table).tobytes())


PROGRAMS = Known[Emitted](96)  #: programs by the inputs from which they are emitted; a layer takes about 2 MB


def emitted(key: Hashable, make: Callable[[], Program], config: NpuConfig) -> Emitted:
    """The program with this key; it is made if it is not known. `config`: as for `Emitted`."""
    return PROGRAMS.get(key, lambda: Emitted(key, make, config))
