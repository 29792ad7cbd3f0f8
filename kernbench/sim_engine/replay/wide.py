"""Operands brought to the type that they are multiplied in, kept for the next op that reads the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TypeAlias

import numpy as np

from kernbench.common.dtypes import Array, address_of, widen

LIMIT = 256 << 20  # [B] limit of cached widened operands
_WIDE = np.dtype(np.float32), np.dtype(np.int64)  # types that are multiplied as they are

Key: TypeAlias = tuple[int, tuple[int, ...], np.dtype[np.generic]]  #: address in the host's memory, shape, type


class WideCache:
    """A cache of widened arrays, by the memory of the narrow ones. These are never changed while a replay runs, and are held
    here.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._held = 0
        self._lock = Lock()
        self._known: dict[Key, tuple[Array, Array]] = {}
        self.same: dict[int, Array] = {}  #: by the id() of a narrow array that `_known` keeps alive

    def get(self, narrow: Array) -> Array:
        """`widen(narrow)`, made once as long as there is room."""
        same = self.same.get(id(narrow))
        if same is not None:
            return same
        if narrow.dtype in _WIDE:
            return narrow
        key = _key(narrow)
        found = self._known.get(key)
        if found is not None:
            return found[1]
        wide = widen(narrow)
        self._keep(key, narrow, wide)
        return wide

    def get_all(self, narrow: Sequence[Array]) -> list[Array]:
        """`get` of each of some arrays of one shape and type. Those that are widened now are side by side in memory."""
        new = {}
        if narrow[0].dtype not in _WIDE:
            keys = {_key(one): one for one in narrow if id(one) not in self.same}
            new = {key: one for key, one in keys.items() if key not in self._known}
        if len(new) > 1:
            for (key, one), wide in zip(new.items(), widen(np.stack(list(new.values()))), strict=True):
                self._keep(key, one, wide)
        return [self.get(one) for one in narrow]

    def _keep(self, key: Key, narrow: Array, wide: Array) -> None:
        with self._lock:
            if key not in self._known:
                self._known[key] = narrow, wide
                self.same[id(narrow)] = wide
                self._held += narrow.nbytes + wide.nbytes
            while self._held > self._limit:  # the oldest is removed first
                old = self._known.pop(next(iter(self._known)))
                del self.same[id(old[0])]
                self._held -= old[0].nbytes + old[1].nbytes


def _key(narrow: Array) -> Key:
    return address_of(narrow), narrow.shape, narrow.dtype
