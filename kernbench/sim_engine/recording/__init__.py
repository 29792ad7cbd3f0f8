"""The trace of a run while it runs: the records of the core become the lines of a file (`tracing.py`)."""

from __future__ import annotations

from kernbench.sim_engine.recording.options import TraceOptions

__all__ = ["TraceOptions"]
