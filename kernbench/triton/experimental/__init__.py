"""`triton.experimental`: Gluon. Kernels of Gluon can be imported, but a launch raises an error."""

from __future__ import annotations

from kernbench.triton.experimental import gluon

__all__ = ["gluon"]
