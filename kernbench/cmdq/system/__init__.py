"""Programs on a system (`kernbench/system/1`): the node and the route of each entry, and the core's tables."""

from kernbench.cmdq.system.lower import lower_system

__all__ = ["lower_system"]
