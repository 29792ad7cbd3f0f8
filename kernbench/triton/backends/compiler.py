"""`triton.backends.compiler`: the description of a device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GPUTarget:
    """A device: the kind of backend, the architecture, and the number of threads in a warp."""

    backend: str
    arch: int | str
    warp_size: int
