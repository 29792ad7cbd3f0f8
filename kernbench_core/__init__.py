"""The cycle-stepped core. It knows nothing of `kernbench`; `kernbench.sim_engine.machine` is its only user there."""
from kernbench_core.loop import Core
from kernbench_core.types import Allocation, EngineType, Opkind, Overlap, Status

__all__ = ["Allocation", "Core", "EngineType", "Opkind", "Overlap", "Status"]
