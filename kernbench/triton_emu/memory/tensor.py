"""Tensors that stay in memory: the inputs and outputs of composite ops."""

from __future__ import annotations

from typing import NoReturn

from kernbench.common.dtypes import nbytes_of
from kernbench.common.handles import PendingDataError, TensorHandle
from kernbench.components.builtin.flight import Flight


class MemoryTensor(TensorHandle):
    """A contiguous tensor at a physical address. `flight` is of the composite op that makes it, until that has ended."""

    def __init__(self, name: str, addr: int, shape: tuple[int, ...], dtype: str, space: str, line: str) -> None:
        super().__init__(name, addr, shape, dtype, space, line=line)
        self.flight: Flight | None = None
        self._size = nbytes_of(shape, dtype)

    @property
    def nbytes(self) -> int:
        return self._size

    def _refuse(self, wanted: str) -> NoReturn:
        raise PendingDataError(f"{self.line}: {self.handle_id} is in memory, so {wanted} cannot be had; tl.load it")

    def __repr__(self) -> str:
        return f"<{self.handle_id} {self.dtype}{list(self.shape)} in memory at {self.addr:#x}, {self.line}>"
