"""The cycle-stepped core. It knows nothing of `kernbench`; `kernbench.sim_engine.machine` is its only user there."""
from kernbench_core.loop import Core, state_layout
from kernbench_core.types import Allocation, EngineType, Opkind, Overlap, Status

STATE = f"1-{state_layout()}"  #: snapshots of cores with another STATE cannot be restored

__all__ = ["STATE", "Allocation", "Core", "EngineType", "Opkind", "Overlap", "Status"]
