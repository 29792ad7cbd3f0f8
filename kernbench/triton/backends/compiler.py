"""`triton.backends.compiler`: what a device is called."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GPUTarget:
    """A device: the kind of backend, its architecture, and the threads of a warp."""

    backend: str
    arch: int | str
    warp_size: int
