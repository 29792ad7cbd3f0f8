"""A radix tree of pages as a prefix cache, as in SGLang; it replaces blocks that are found by their hash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from kernbench.workloads.serving.kv_blocks import Key


@dataclass(slots=True)
class _Page:
    """A full block in the tree."""

    key: Key
    parent: int  #: block of the parent page; 0 for the root
    used: int  #: clock of the last request that found or made the page
    children: int = 0


class RadixPool:
    """Blocks 1 to `usable`, with the interface of `BlockPool`. Each full block is a node of the tree, and its parent is the
    block with the preceding tokens.

    Equal blocks are merged: a request releases its own block and uses the one in the tree. If too few blocks are free, leaves
    without a request are evicted, the least recently used first. A page is therefore never evicted after the pages that precede
    it.
    """

    def __init__(self, usable: int) -> None:
        self.usable = usable
        self._empty = list(range(usable, 0, -1))
        self._pages: dict[int, _Page] = {}
        self._block: dict[Key, int] = {}
        self._requests: dict[int, int] = {}  # number of requests of a block, if it has any
        self._idle = 0  # number of pages without a request
        self._clock = 0
        self._leaves: list[tuple[int, int]] = []  # leaves by their last use; some entries are no longer leaves

    @property
    def free(self) -> int:
        """The number of blocks without a request."""
        return len(self._empty) + self._idle

    @property
    def used(self) -> int:
        """The number of blocks with requests."""
        return self.usable - self.free

    def take(self, count: int) -> list[int]:
        """Take this number of blocks; pages are evicted if too few blocks are empty."""
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
        """Add the page to the candidates for eviction if it is a leaf without a request."""
        page = self._pages[block]
        if not page.children and block not in self._requests:
            heappush(self._leaves, (page.used, block))

    def release(self, blocks: Sequence[int]) -> None:
        """A request returns its blocks."""
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
        """The block is full of the tokens of this key, which follow those of `before`. Returns the block that the request has
        from now on."""
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
        """The number of these blocks without a request."""
        return sum(block not in self._requests for block in blocks)

    def share(self, blocks: Sequence[int]) -> None:
        """Add a request to these blocks."""
        self._clock += 1
        for block in blocks:
            others = self._requests.get(block, 0)
            self._idle -= not others
            self._requests[block] = others + 1
            self._pages[block].used = self._clock
