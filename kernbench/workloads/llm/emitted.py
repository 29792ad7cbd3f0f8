"""Programs of segments that many machines share, and what of a machine a run of them depends on.

A program of a segment depends on the shape of its layer, on the plan, on addresses, and on few values of the machine: not on
the bandwidth of the DRAM, for example. A sweep emits and lowers it once for all machines that agree in these values. Every
machine on which the program can take other cycles simulates it by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import msgspec

from kernbench.cmdq.lower import lower_machine, resource_capacities
from kernbench.cmdq.plan import Plan, plan_npu
from kernbench.cmdq.program import Program
from kernbench.config.schema import NpuConfig
from kernbench.workloads.llm.known import Known, section_text, texts_of
from kernbench.workloads.planner import LayerPlan

#: Sections that a program is emitted and lowered for, beside `dram`.
SECTIONS = ("dma", "noc", "llc", "spm", "te", "ve", "kv_layouts")
#: Values of `dram` that neither emitting nor lowering a program reads, and in which machines may differ that share it.
NOT_READ = ("peak_bw_bytes_per_cycle", "bus_width_bytes", "dram_burst_cycles", "t_setup_cycles")

def layout_of(config: NpuConfig, *, size: bool = True) -> tuple[str, ...]:
    """What of an NPU emitting and lowering a program reads. `size`: also the size of a bank."""
    texts = texts_of(config, SECTIONS, unread_size(config) if not size else ())
    return *texts, section_text(config.dram, NOT_READ), section_text(config.control, ("issue_width",))


def unread_size(config: NpuConfig) -> tuple[str, ...]:
    """The size of a bank, where it moves no address to another bank."""
    return ("bank_size_bytes",) if config.spm.map == "interleaved" else ()


def run_content(config: NpuConfig) -> Hashable:
    """What of an NPU the cycles and counters of a program depend on: all of it, but the size of a bank of an interleaved
    scratchpad, which only decides whether the program is valid."""
    return texts_of(config, type(config).model_fields, unread_size(config))


def choice_of(plan: LayerPlan) -> Hashable:
    """What of a plan a program depends on: all but the estimates by which it was chosen."""
    return (
        plan.tokens, plan.context, plan.batch, plan.resident, plan.block_tokens, plan.granule, tuple(plan.tile_cols.items()),
        plan.weight_skew_bytes, plan.strip_cols, plan.strip_bytes, plan.kv_tile_tokens, plan.kv_slot_bytes,
        tuple(plan.scratchpad.buffers.values()),
    )  # fmt: skip


@dataclass(slots=True)
class Emitted:
    """A program of a segment, which must not change any more. Threads may share it."""

    program: Program
    content: str  #: the digest of its entries
    lowered: dict[tuple[str, ...], Plan]  #: by `layout_of`

    def plan(self, config: NpuConfig) -> Plan:
        """What `plan_npu` gives."""
        key = layout_of(config, size=False)  # it was emitted for a plan that fits this machine too
        known = self.lowered.get(key)
        if known is None:
            self.lowered[key] = known = plan_npu(self.program, config)
            return known
        capacities = tuple(resource_capacities(config))
        found = replace(known, pe=config, machine=lower_machine(config), capacities=capacities)
        found.__dict__.update({name: known.__dict__[name] for name in _OF_PROGRAM if name in known.__dict__})
        return found


_OF_PROGRAM = ("on_channels", "predecessors", "_jobs", "units")  #: properties of plans that are kept once they are computed


PROGRAMS = Known[Emitted](96)  #: by what they are emitted from; a layer takes about 2 MB


def emitted(key: Hashable, make: Callable[[], Program]) -> Emitted:
    """The program of a key, made where it is not known."""

    def made() -> Emitted:
        program = make()
        content = hashlib.sha256(msgspec.json.encode(program.entries)).hexdigest()
        return Emitted(program, content, {})

    return PROGRAMS.get(key, made)
