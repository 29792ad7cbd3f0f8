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

from kernbench.cmdq.lower import lower_machine, resource_capacities
from kernbench.cmdq.plan import Plan, plan_npu
from kernbench.cmdq.program import Program
from kernbench.common.kept_results import kept_result
from kernbench.config.schema import NpuConfig
from kernbench.workloads.llm.known import Known, section_text, texts_of
from kernbench.workloads.planner import LayerPlan

#: Sections of a machine on which emitting and lowering a program depend, in addition to `dram`.
SECTIONS = ("dma", "noc", "llc", "spm", "te", "ve", "kv_layouts")
#: Values of `dram` that emitting and lowering do not read; machines that share a program may differ in them.
NOT_READ = ("peak_bw_bytes_per_cycle", "bus_width_bytes", "dram_burst_cycles", "t_setup_cycles")

def layout_of(config: NpuConfig, *, size: bool = True) -> tuple[str, ...]:
    """The values of an NPU that emitting and lowering a program read. `size`: include the size of a bank."""
    texts = texts_of(config, SECTIONS, unread_size(config) if not size else ())
    return *texts, section_text(config.dram, NOT_READ), section_text(config.control, ("issue_width",))


def unread_size(config: NpuConfig) -> tuple[str, ...]:
    """The size of a bank, if no address moves to another bank when the size changes."""
    return ("bank_size_bytes",) if config.spm.map == "interleaved" else ()


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
        self._lowered: dict[tuple[str, ...], Plan] = {}  # by `layout_of`
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
        key = layout_of(config, size=False)  # the program was emitted for a plan that fits this machine too
        known = self._lowered.get(key)
        if known is None:
            self._lowered[key] = known = plan_npu(self.program, config)
            return known
        capacities = tuple(resource_capacities(config))
        found = msgspec.structs.replace(known, pe=config, machine=lower_machine(config, known.machine), capacities=capacities)
        found.__dict__.update({name: known.__dict__[name] for name in _OF_PROGRAM if name in known.__dict__})
        return found


#: properties of plans that are kept after their first computation
_OF_PROGRAM = ("on_channels", "predecessors", "_jobs", "units")


PROGRAMS = Known[Emitted](96)  #: programs by the inputs from which they are emitted; a layer takes about 2 MB


def emitted(key: Hashable, make: Callable[[], Program]) -> Emitted:
    """The program with this key; it is made if it is not known."""
    return PROGRAMS.get(key, lambda: Emitted(key, make))
