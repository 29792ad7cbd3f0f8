"""`from triton.language.extra.cuda import libdevice`."""

from __future__ import annotations

from kernbench.triton.language.extra import libdevice

__all__ = ["libdevice"]
