"""Tables of integers of unlimited length: the last rows are in memory, the others in an unnamed file."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kernbench.common.files import no_room

_ROWS = 1 << 15  #: rows in memory


class Spill:
    """Columns of 64-bit integers. Rows are appended; columns can be read when all rows are present."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._rows = array("q")
        self._file: IO[bytes] | None = None
        self._stored = 0

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def __len__(self) -> int:
        return self._stored + len(self._rows) // len(self.names)

    def append(self, *values: int) -> None:
        """Append one row. NoRoomError if the file cannot be written."""
        self._rows.extend(values)
        if len(self._rows) >= _ROWS * len(self.names):
            try:
                if self._file is None:
                    self._file = tempfile.TemporaryFile()  # noqa: SIM115  # `__del__` closes it
                self._rows.tofile(self._file)
                self._file.flush()
            except OSError as error:
                raise no_room("the steps of the run", error) from None
            self._stored += len(self._rows) // len(self.names)
            self._rows = array("q")

    def blocks(self) -> Iterator[NDArray[np.int64]]:
        """The rows in order, in arrays of some thousands of rows."""
        if self._file is not None:
            self._file.seek(0)
            for _ in range(self._stored // _ROWS):
                nbytes = _ROWS * len(self.names) * 8
                yield np.frombuffer(self._file.read(nbytes), np.int64).reshape(-1, len(self.names))
            self._file.seek(0, 2)
        if self._rows:
            yield np.array(self._rows, np.int64).reshape(-1, len(self.names))

    def column(self, name: str) -> NDArray[Any]:
        """All values of a column, in the smallest integer type that holds them."""
        place = self.names.index(name)
        found: NDArray[Any] = np.zeros(len(self), np.int8)
        at = 0
        for block in self.blocks():
            values = block[:, place]
            kind = np.promote_types(np.min_scalar_type(int(values.min())), np.min_scalar_type(int(values.max())))
            if kind.kind == "u":
                kind = np.promote_types(kind, np.int8)
            if not np.can_cast(kind, found.dtype):
                found = found.astype(np.promote_types(kind, found.dtype))
            found[at : at + len(values)] = values
            at += len(values)
        return found
