"""The trace of a run while it runs: what the core records becomes the lines of a file."""

from __future__ import annotations

from kernbench.sim_engine.tracing.tracing import TraceOptions, Tracing

__all__ = ["TraceOptions", "Tracing"]
