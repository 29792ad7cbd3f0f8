"""Blocks of a shard, as kernels and references take them, and how many of them a PE works on at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Literal, TypeVar

from kernbench.runtime_api import Context

Item = TypeVar("Item")
_ENDED = object()
#: The work on a block: it yields where it has to wait, so that other blocks have their next step first.
Work = Generator[None, None, None]


def cuts(length: int, block: int) -> list[tuple[int, int]]:
    """First index and length of each block; the last block may be shorter, and an empty range has none."""
    return [(start, min(block, length - start)) for start in range(0, length, block)]


def followed(items: Sequence[Item]) -> list[tuple[Item, Item | None]]:
    """Pairs of each item and the next one, with None after the last: what a loop computes on, and what it loads meanwhile."""
    return list(zip(items, [*items[1:], None], strict=False))


def groups(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """Items in order, in groups of the given size."""
    return [items[at : at + size] for at in range(0, len(items), size)]


def together(works: Iterable[Work]) -> None:
    """Do the work on several blocks step by step in turn, so that while one waits for its step the others have theirs."""
    going = list(works)
    while going:
        going = [work for work in going if next(work, _ENDED) is not _ENDED]


def in_step(items: Sequence[Item], width: int, fetch: Callable[[Item], Any], work: Callable[[Item, Any], Work]) -> None:
    """The work on every item, `width` of them at a time, with the operands of the next ones in flight."""
    parts = groups(items, width)
    coming = [fetch(item) for item in parts[0]] if parts else []
    for group, after in followed(parts):
        here = coming
        coming = [fetch(item) for item in after or ()]
        together([work(item, operands) for item, operands in zip(group, here, strict=True)])


def blocks_in_flight(ctx: Context, *kinds: Literal["te", "ve"]) -> int:
    """How many blocks a PE works on at a time: the parameter `in_flight`, or one for each engine of these kinds."""
    chosen: int = ctx.params["in_flight"]
    return chosen or max(getattr(ctx.machine, kind).engines for kind in kinds)
