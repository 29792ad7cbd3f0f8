"""The cycle-stepped core. It knows nothing of `kernbench`; `kernbench.sim_engine.machine` is its only user there.

`DmaEngine` also stands alone: with `CoreMemory`, or with any other `MemoryModel`.
"""
from kernbench_core.dma_engine import DmaEngine
from kernbench_core.dma_job import CompletionEvent, DmaJob, IllegalTransition, KvRange, MemoryModel, TraceEngine
from kernbench_core.events import Trace
from kernbench_core.format import Format
from kernbench_core.loop import Core, state_layout
from kernbench_core.memory import CoreMemory
from kernbench_core.types import Allocation, EngineType, Opkind, Overlap, Status

STATE = f"2-{state_layout()}"  #: snapshots of cores with another STATE cannot be restored

__all__ = [
    "STATE",
    "Allocation",
    "CompletionEvent",
    "Core",
    "CoreMemory",
    "DmaEngine",
    "DmaJob",
    "EngineType",
    "Format",
    "IllegalTransition",
    "KvRange",
    "MemoryModel",
    "Opkind",
    "Overlap",
    "Status",
    "Trace",
    "TraceEngine",
]
