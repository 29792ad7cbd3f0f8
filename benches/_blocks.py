"""Blocks of a shard, as kernels and references take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def cuts(length: int, block: int) -> list[tuple[int, int]]:
    """First index and number of indices of each block; the last may be shorter, and of nothing there are none."""
    return [(start, min(block, length - start)) for start in range(0, length, block)]


def followed(items: Sequence[Item]) -> list[tuple[Item, Item | None]]:
    """Each item with the one after it, None behind the last: what a loop works on, and what it fetches meanwhile."""
    return list(zip(items, [*items[1:], None], strict=False))
