"""`triton.backends`: there are none; kernels run as Python (`backends` is empty)."""

from __future__ import annotations

from typing import Any

from kernbench.triton.backends import compiler

backends: dict[str, Any] = {}
__all__ = ["backends", "compiler"]
