"""`triton.runtime._allocation`: allocators for descriptors that kernels make. Such descriptors need no memory here."""

from __future__ import annotations

from typing import Any


class NullAllocator:
    """An allocator that allocates nothing."""

    def __call__(self, size: int, alignment: int, stream: Any) -> Any:
        raise RuntimeError("kernels need no memory of an allocator here")


def set_allocator(allocator: Any) -> None:
    """Accept an allocator and ignore it, because descriptors that kernels make need no memory of the host."""
