"""Programs of segments that several machines share, and the values of a machine on which a run of such a program depends.

A program of a segment depends on the shape of its layer, on the plan, on addresses, and on a few values of the machine. It does
not depend on the bandwidth of the DRAM, for example. A sweep emits and lowers the program once for all machines with equal
values. The program is simulated again for every machine on which its cycles can differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from functools import cached_property
from threading import Lock

import msgspec

from kernbench.cmdq.plan import Plan
from kernbench.cmdq.program import Program
from kernbench.cmdq.shared_plans import Plans, unread_size
from kernbench.common.kept_results import kept_result
from kernbench.config.schema import NpuConfig
from kernbench.config.section_texts import texts_of
from kernbench.workloads.llm.known import Known
from kernbench.workloads.planner import LayerPlan


def run_content(config: NpuConfig) -> Hashable:
    """The values of an NPU on which cycles and counters of a program depend: all except the size of a bank of an interleaved
    scratchpad, which only decides whether the program is valid."""
    return texts_of(config, type(config).model_fields, unread_size(config))


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

    `content`: the digest of its entries. If the digest is on disk, the program is only made when it is needed.
    """

    def __init__(self, key: Hashable, make: Callable[[], Program]) -> None:
        self._make = make
        self._lock = Lock()
        self.content: str = kept_result("program", key, str, self._digest)

    def _digest(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self.program.entries)).hexdigest()

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


PROGRAMS = Known[Emitted](96)  #: programs by the inputs from which they are emitted; a layer takes about 2 MB


def emitted(key: Hashable, make: Callable[[], Program]) -> Emitted:
    """The program with this key; it is made if it is not known."""
    return PROGRAMS.get(key, lambda: Emitted(key, make))
