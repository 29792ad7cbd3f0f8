"""The trace: the events of a run, and the results that follow from them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernbench.trace.frames import frame, metrics_frame
    from kernbench.trace.metric.figures import Metrics
    from kernbench.trace.metric.measure import metrics
    from kernbench.trace.reader import Trace, open_trace

_HOMES = {
    "Metrics": "kernbench.trace.metric.figures",
    "Trace": "kernbench.trace.reader",
    "frame": "kernbench.trace.frames",
    "metrics": "kernbench.trace.metric.measure",
    "metrics_frame": "kernbench.trace.frames",
    "open_trace": "kernbench.trace.reader",
}

__all__ = ["Metrics", "Trace", "frame", "metrics", "metrics_frame", "open_trace"]


def __getattr__(name: str) -> Any:
    """Names are imported when they are first used: the schema is below most of the package, its readers are above it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kernbench.trace' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
