"""`triton.runtime._allocation`: memory for descriptors that kernels make, of which they need none here."""

from __future__ import annotations

from typing import Any


class NullAllocator:
    """No memory."""

    def __call__(self, size: int, alignment: int, stream: Any) -> Any:
        raise RuntimeError("kernels need no memory of an allocator here")


def set_allocator(allocator: Any) -> None:
    """Nothing: descriptors that kernels make need no memory of the host."""
