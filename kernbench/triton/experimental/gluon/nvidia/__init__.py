"""`gluon.nvidia`: tensor descriptors of the host."""

from __future__ import annotations

from kernbench.triton.experimental.gluon.nvidia import blackwell, hopper

__all__ = ["blackwell", "hopper"]
