"""The cycle-stepped core. The core knows nothing of `kernbench`; in `kernbench`, only `kernbench.sim_engine.machine` uses it.

`DmaEngine` can also be used alone: with `CoreMemory`, or with any other `MemoryModel`.
"""
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernbench_libraries import find_compiled

find_compiled(__file__)

from kernbench_core.core import Core, state_layout
from kernbench_core.plugin.component_base import Component, ComponentBase
from kernbench_core.plugin.pyarbiter import Arbiter, BankRequest, Scratchpad
from kernbench_core.plugin.pycomponent import BANKS, BUSY, FLOW, JOB, MEMBERS, NEVER, Job, JobRegion, Member, NoRoom, Refused
from kernbench_core.trace.events import Trace
from kernbench_core.trace.format import Format
from kernbench_core.trace.samples import Samples
from kernbench_core.types import Allocation, EngineType, Opkind, Overlap, Status

if TYPE_CHECKING:
    STATE: str  #: snapshots of cores with another STATE cannot be restored
    from kernbench_core.standalone.dma_engine import DmaEngine
    from kernbench_core.standalone.dma_job import CompletionEvent, DmaJob, IllegalTransition, KvRange, MemoryModel, TraceEngine
    from kernbench_core.standalone.memory import CoreMemory
    from kernbench_core.standalone.process import Environment, Process

#: Names that do not need a machine, by the modules that define them; the modules are imported on first use.
_STANDALONE = {
    "standalone.dma_engine": ("DmaEngine",),
    "standalone.dma_job": ("CompletionEvent", "DmaJob", "IllegalTransition", "KvRange", "MemoryModel", "TraceEngine",),
    "standalone.memory": ("CoreMemory",),
    "standalone.process": ("Environment", "Process",),
}


def __getattr__(name: str) -> Any:
    """`STATE` or a name of `_STANDALONE`; AttributeError for any other name."""
    if name == "STATE":  # computed on use, because a run without checkpoints does not need the digest
        return f"4-{state_layout()}"
    for module, names in _STANDALONE.items():
        if name in names:
            return getattr(import_module(f"kernbench_core.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def get_include() -> str:
    """The directory of `abi.h`, for compiling a component in C.

    >>> from pathlib import Path
    >>> from kernbench_core import get_include
    >>> Path(get_include(), "abi.h").is_file()
    True
    """
    return str(Path(__file__).parent)


__all__ = [
    "BANKS",
    "BUSY",
    "FLOW",
    "JOB",
    "MEMBERS",
    "NEVER",
    "STATE",
    "Allocation",
    "Arbiter",
    "BankRequest",
    "CompletionEvent",
    "Component",
    "ComponentBase",
    "Core",
    "CoreMemory",
    "DmaEngine",
    "DmaJob",
    "EngineType",
    "Environment",
    "Format",
    "IllegalTransition",
    "Job",
    "JobRegion",
    "KvRange",
    "Member",
    "MemoryModel",
    "NoRoom",
    "Opkind",
    "Overlap",
    "Process",
    "Refused",
    "Samples",
    "Scratchpad",
    "Status",
    "Trace",
    "TraceEngine",
    "get_include",
]
