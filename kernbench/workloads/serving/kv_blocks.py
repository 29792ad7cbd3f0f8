"""Blocks of the KV cache: their owners, the free blocks that still contain known tokens, and the order of reuse."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from itertools import repeat

from kernbench.workloads.serving.request import Request

Key = Hashable  #: of a full block: equal keys mean equal tokens in the block and before it


class BlockPool:
    """Blocks 1 to `usable`. Free blocks are taken in the order in which they became free; until then they keep their tokens."""

    def __init__(self, usable: int) -> None:
        self.usable = usable
        self._fresh = 1  # this block and those above were never used: they are free, and are taken first
        self._free: OrderedDict[int, None] = OrderedDict()  # the other free blocks
        self._key: dict[int, Key] = {}
        self._holders: dict[Key, dict[int, None]] = {}  # blocks with a key, the oldest first
        self._shared: dict[int, int] = {}  # number of requests of a block with more than one

    @property
    def free(self) -> int:
        """The number of blocks without a request."""
        return len(self._free) + self.usable + 1 - self._fresh

    @property
    def used(self) -> int:
        """The number of blocks with requests."""
        return self._fresh - 1 - len(self._free)

    def take(self, count: int) -> list[int]:
        """Take a number of blocks; their tokens are lost."""
        first = self._fresh
        self._fresh = min(first + count, self.usable + 1)
        found = list(range(first, self._fresh))
        known = [self._free.popitem(last=False)[0] for _ in range(count - len(found))]
        if self._key:
            for block in known:
                self._forget(block)
        return found + known

    def _forget(self, block: int) -> None:
        key = self._key.pop(block, None)
        if key is not None:
            holders = self._holders[key]
            del holders[block]
            if not holders:
                del self._holders[key]

    def release(self, blocks: Sequence[int]) -> None:
        """A request returns its blocks: the last one becomes free first."""
        if not self._shared:
            self._free.update(zip(reversed(blocks), repeat(None)))
            return
        for block in reversed(blocks):
            others = self._shared.get(block, 1) - 1
            if others == 0:
                self._free[block] = None
            elif others == 1:
                del self._shared[block]
            else:
                self._shared[block] = others

    def name(self, block: int, key: Key, before: Key | None = None) -> int:
        """The block is full of the tokens of this key, which follow those of `before`. Returns the block that the request has
        from now on."""
        if block not in self._key:
            self._key[block] = key
            self._holders.setdefault(key, {})[block] = None
        return block

    def find(self, keys: Iterable[Key]) -> list[int]:
        """The blocks of the first keys, up to the first key that no block holds."""
        found = []
        for key in keys:
            holders = self._holders.get(key)
            if holders is None:
                break
            found.append(next(iter(holders)))
        return found

    def unused(self, blocks: Iterable[int]) -> int:
        """The number of these blocks that are free."""
        return sum(block in self._free for block in blocks)

    def share(self, blocks: Iterable[int]) -> None:
        """Add a request to these blocks."""
        for block in blocks:
            if block in self._free:
                del self._free[block]
            else:
                self._shared[block] = self._shared.get(block, 1) + 1


class Prefixes:
    """Keys of the full blocks of prompts that start with the same tokens."""

    def __init__(self, block_size: int) -> None:
        self._size = block_size
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[tuple[int | None, tuple[tuple[int | str, int], ...]], list[int]] = {}

    def keys(self, request: Request) -> list[int]:
        """The keys of all full blocks of its prefix. Keys of different adapters differ."""
        prefix = request.prefix
        if not prefix:
            return []
        found = self._known.get((request.adapter, prefix))
        if found is None:
            found = self._known[request.adapter, prefix] = self._make(request.adapter, prefix)
        return found

    def _make(self, adapter: int | None, prefix: tuple[tuple[int | str, int], ...]) -> list[int]:
        found: list[int] = []
        pieces: list[tuple[int | str, int, int]] = []
        parent, room = -1 if adapter is None else -2 - adapter, self._size
        for content, tokens in prefix:
            at = 0
            while at < tokens:
                count = min(room, tokens - at)
                pieces.append((content, at, count))
                at, room = at + count, room - count
                if not room:
                    parent = self._numbers.setdefault((parent, tuple(pieces)), len(self._numbers))
                    found.append(parent)
                    pieces, room = [], self._size
        return found


def request_keys(request: Request, shared: Sequence[Key], blocks: int) -> list[Key]:
    """The keys of its first blocks: those of its prefix, and then keys that no other request has."""
    return [*shared[:blocks], *((request.id, i) for i in range(len(shared), blocks))]
