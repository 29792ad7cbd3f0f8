"""`triton.tools`: what launches take besides arrays."""

from __future__ import annotations

from kernbench.triton.tools import tensor_descriptor

__all__ = ["tensor_descriptor"]
