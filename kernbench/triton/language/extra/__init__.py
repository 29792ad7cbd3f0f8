"""`triton.language.extra`."""

from __future__ import annotations

from kernbench.triton.language.extra import cuda, libdevice

__all__ = ["cuda", "libdevice"]
