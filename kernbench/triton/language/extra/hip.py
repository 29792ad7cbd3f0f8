"""`from triton.language.extra.hip import libdevice`."""

from __future__ import annotations

from kernbench.triton.language.extra import libdevice

__all__ = ["libdevice"]
