"""`gluon.language.nvidia`: asynchronous copies. The tensor cores and the tensor memory of NVIDIA's GPUs are refused."""

from __future__ import annotations

from kernbench.triton.experimental.gluon.language.nvidia import ampere, blackwell, hopper

__all__ = ["ampere", "blackwell", "hopper"]
