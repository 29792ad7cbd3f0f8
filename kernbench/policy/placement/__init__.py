"""Which part of a tensor goes to which PE: `DPPolicy`."""

from kernbench.policy.placement.dp import DPPolicy, Shard, Size

__all__ = ["DPPolicy", "Shard", "Size"]
