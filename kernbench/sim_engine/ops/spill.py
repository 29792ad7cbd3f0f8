"""Records on disk: sorted runs in an unnamed temporary file, merged again as they are read."""

from __future__ import annotations

import os
import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from pathlib import Path
from typing import Generic, TypeVar

from kernbench.common.files import no_room

R = TypeVar("R")
_BLOCK = 256  # records that are read back at once


class Runs(Generic[R]):
    """Runs of records, each in order of `key`; reading merges them, and of equal keys the earlier run comes first."""

    def __init__(self, key: Callable[[R], float], directory: str | os.PathLike[str] | None = None) -> None:
        """`directory`: the directory of the file; None means the default of the system. NoRoomError if the file cannot be
        created."""
        self._key = key
        self._runs: list[list[tuple[int, int]]] = []
        self._size = 0
        self._folder = "" if directory is None else os.fspath(directory)
        try:
            self._file, name = tempfile.mkstemp(prefix="kernbench-ops-", dir=directory)
        except OSError as error:
            raise no_room("the op log", error, self._folder) from None
        Path(name).unlink()
        weakref.finalize(self, os.close, self._file)

    def add(self, records: Sequence[R]) -> None:
        """Write a run, which must be in order. NoRoomError if the file cannot be written."""
        blocks: list[tuple[int, int]] = []
        for i in range(0, len(records), _BLOCK):
            text = pickle.dumps(records[i : i + _BLOCK], protocol=5)
            view = memoryview(text)
            while view:
                try:
                    done = os.pwrite(self._file, view, self._size + len(text) - len(view))
                except OSError as error:
                    raise no_room("the op log", error, self._folder) from None
                view = view[done:]
            blocks.append((self._size, len(text)))
            self._size += len(text)
        self._runs.append(blocks)

    def merged(self, rest: Iterable[R]) -> Iterator[R]:
        """All records in order, merged with those of `rest` (in order, and younger than all runs)."""
        return merge(*(self._read(blocks) for blocks in self._runs), rest, key=self._key)

    def _read(self, blocks: list[tuple[int, int]]) -> Iterator[R]:
        for offset, size in blocks:
            parts, at = [], 0
            while at < size:
                parts.append(os.pread(self._file, size - at, offset + at))
                at += len(parts[-1])
            yield from pickle.loads(b"".join(parts))
