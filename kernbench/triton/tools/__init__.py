"""`triton.tools`: arguments of launches other than arrays."""

from __future__ import annotations

from kernbench.triton.tools import tensor_descriptor

__all__ = ["tensor_descriptor"]
