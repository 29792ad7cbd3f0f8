"""The placement of tensors on PEs: `DPPolicy`."""

from kernbench.policy.placement.dp import DPPolicy, Shard, Size

__all__ = ["DPPolicy", "Shard", "Size"]
