"""The parameters of a job as a component gets them: their order is the plug-in ABI's (docs/reference/components.md)."""

from __future__ import annotations

from typing import Any

#: By kind of engine; the first four of a TE or VE, and all of a DMA, are also what the core's own engines take.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "dma": ("channel", "write", "dram_addr", "row_bytes", "stride", "rows"),
    "cpu": ("init", "body", "finalize", "work"),
    "te": ("init", "body", "finalize", "work", "m", "n", "k", "qbits_weight", "qbits_activation"),
    "ve": ("init", "body", "finalize", "work", "length", "batch", "qbits_activation"),
}


def named(kind: str, job: Any) -> dict[str, int]:
    """The parameters of a job of an engine `dma`, `te`, `ve` or `cpu`, by name."""
    names = PARAMETERS[kind]
    return dict(zip(names, job.params, strict=False))
