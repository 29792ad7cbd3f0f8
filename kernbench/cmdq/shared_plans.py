"""Plans of a program on many machines: machines on which the program has the same tables share the tables."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import msgspec

from kernbench.cmdq.lower import lower_machine, resource_capacities
from kernbench.cmdq.plan import Plan, plan_npu
from kernbench.cmdq.program import Program
from kernbench.config.schema import NpuConfig
from kernbench.config.section_texts import section_text, texts_of

#: Sections of a machine on which emitting and lowering a program depend, in addition to `dram` and `control`.
SECTIONS = ("dma", "noc", "llc", "spm", "te", "ve", "kv_layouts")
#: Values of `dram` that emitting and lowering do not read; machines that share tables may differ in them.
NOT_READ = ("peak_bw_bytes_per_cycle", "bus_width_bytes", "dram_burst_cycles", "t_setup_cycles")
MAX_ENTRIES = 1 << 17  #: entries in all kept plans of a program; an entry takes about 560 bytes
MIN_PLANS = 8  #: plans that are kept of a program with any number of entries
#: Properties of a plan that follow from the tables of the program.
_OF_PROGRAM = ("on_channels", "predecessors", "_jobs", "units")


def layout_of(config: NpuConfig, *, size: bool = True) -> tuple[str, ...]:
    """The values of an NPU that emitting and lowering a program read. `size`: include the size of a bank."""
    texts = texts_of(config, SECTIONS, unread_size(config) if not size else ())
    return *texts, section_text(config.dram, NOT_READ), section_text(config.control, ("issue_width",))


def unread_size(config: NpuConfig) -> tuple[str, ...]:
    """The size of a bank, if no address moves to another bank when the size changes."""
    return ("bank_size_bytes",) if config.spm.map == "interleaved" else ()


class Plans:
    """The plans of one program, which must not be modified afterwards. Threads may share them.

    `size`: whether the program may be too large for the scratchpads of some of the machines.
    """

    def __init__(self, program: Program, *, size: bool = True) -> None:
        self._program = program
        self._size = size
        self._most = max(MIN_PLANS, MAX_ENTRIES // max(1, len(program.entries)))
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, ...], Plan] = OrderedDict()  # by `layout_of`

    def of(self, config: NpuConfig) -> Plan:
        """The result of `plan_npu`."""
        key = layout_of(config, size=self._size)
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
        if known is not None:
            return _on(known, config)
        plan = plan_npu(self._program, config)
        with self._lock:
            self._kept[key] = plan
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return plan


def _on(plan: Plan, config: NpuConfig) -> Plan:
    """A plan with the tables of another machine that has the same layout."""
    capacities = tuple(resource_capacities(config))
    found = msgspec.structs.replace(plan, pe=config, machine=lower_machine(config, plan.machine), capacities=capacities)
    found.__dict__.update({name: plan.__dict__[name] for name in _OF_PROGRAM if name in plan.__dict__})
    return found
