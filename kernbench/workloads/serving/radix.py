"""A radix tree of pages as a prefix cache, as SGLang keeps one, in the place of blocks that are found by their hash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from kernbench.workloads.serving.kv_blocks import Key


@dataclass(slots=True)
class _Page:
    """A full block in the tree."""

    key: Key
    parent: int  #: its block; 0: the root
    used: int  #: clock of the last request that found or made it
    children: int = 0


class RadixPool:
    """Blocks 1 to `usable`, with the interface of `BlockPool`. Full blocks stand in a tree under the block before them.

    Equal blocks are merged: a request gives its own up for the one in the tree. When blocks are short, leaves that no request
    has are evicted, the least recently used first, so a page never outlives the pages before it.
    """

    def __init__(self, usable: int) -> None:
        self.usable = usable
        self._empty = list(range(usable, 0, -1))
        self._pages: dict[int, _Page] = {}
        self._block: dict[Key, int] = {}
        self._requests: dict[int, int] = {}  # of a block, if there are any
        self._idle = 0  # pages that no request has
        self._clock = 0
        self._leaves: list[tuple[int, int]] = []  # by last use; some are no longer leaves

    @property
    def free(self) -> int:
        """Blocks that no request has."""
        return len(self._empty) + self._idle

    @property
    def used(self) -> int:
        """Blocks that requests have."""
        return self.usable - self.free

    def take(self, count: int) -> list[int]:
        """So many blocks; pages are evicted if too few are empty."""
        while len(self._empty) < count:
            self._evict()
        found = [self._empty.pop() for _ in range(count)]
        self._requests.update((block, 1) for block in found)
        return found

    def _evict(self) -> None:
        used, block = heappop(self._leaves)
        page = self._pages.get(block)
        if page is None or page.children or page.used != used or block in self._requests:
            return
        del self._pages[block], self._block[page.key]
        self._idle -= 1
        self._empty.append(block)
        if page.parent:
            self._pages[page.parent].children -= 1
            self._offer(page.parent)

    def _offer(self, block: int) -> None:
        """It may be a leaf that no request has."""
        page = self._pages[block]
        if not page.children and block not in self._requests:
            heappush(self._leaves, (page.used, block))

    def release(self, blocks: Sequence[int]) -> None:
        """A request gives its blocks back."""
        for block in reversed(blocks):
            others = self._requests[block] - 1
            if others:
                self._requests[block] = others
                continue
            del self._requests[block]
            if block in self._pages:
                self._idle += 1
                self._offer(block)
            else:
                self._empty.append(block)

    def name(self, block: int, key: Key, before: Key | None = None) -> int:
        """The block is full of the tokens of this key, after those of `before`. The block that the request has from now on."""
        held = self._block.get(key)
        if held == block:
            return block
        if held is not None:
            self.share([held])
            self.release([block])
            return held
        parent = 0 if before is None else self._block[before]
        self._clock += 1
        self._pages[block] = _Page(key, parent, self._clock)
        self._block[key] = block
        if parent:
            self._pages[parent].children += 1
        return block

    def find(self, keys: Iterable[Key]) -> list[int]:
        """The blocks of the first keys, up to the first key that is not in the tree."""
        found = []
        for key in keys:
            block = self._block.get(key)
            if block is None:
                break
            found.append(block)
        return found

    def unused(self, blocks: Iterable[int]) -> int:
        """How many of these no request has."""
        return sum(block not in self._requests for block in blocks)

    def share(self, blocks: Sequence[int]) -> None:
        """One more request has these."""
        self._clock += 1
        for block in blocks:
            others = self._requests.get(block, 0)
            self._idle -= not others
            self._requests[block] = others + 1
            self._pages[block].used = self._clock
