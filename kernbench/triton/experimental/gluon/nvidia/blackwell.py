"""`gluon.nvidia.blackwell.TensorDescriptor`: the same as that of `gluon.nvidia.hopper`."""

from __future__ import annotations

from kernbench.triton.experimental.gluon.nvidia.hopper import TensorDescriptor

__all__ = ["TensorDescriptor"]
