"""`triton.experimental`: Gluon."""

from __future__ import annotations

from kernbench.triton.experimental import gluon

__all__ = ["gluon"]
