"""`triton.experimental`: Gluon, whose kernels can be imported here, and are refused at their launch."""

from __future__ import annotations

from kernbench.triton.experimental import gluon

__all__ = ["gluon"]
