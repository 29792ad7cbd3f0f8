"""Programs on a system (`kernbench/system/1`): which node runs an entry, over which route, and the core's tables of it."""

from kernbench.cmdq.system.lower import lower_system

__all__ = ["lower_system"]
