"""`triton.language.extra`: the functions for single backends."""

from __future__ import annotations

from kernbench.triton.language.extra import cuda, hip, libdevice

__all__ = ["cuda", "hip", "libdevice"]
