"""The handle of a tensor in a memory; the elements are known in Phase 1 or pending until Phase 2."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import numpy as np

from kernbench.common.dtypes import Array, nbytes_of
from kernbench.common.errors import KernbenchError


class PendingDataError(KernbenchError):
    """A kernel used elements that are computed only in Phase 2, after the timing."""

    exit_code = 5


class TensorHandle:
    """A contiguous tensor at address `addr` of a space. A tensor without `value` is pending: its elements cannot be read."""

    in_store: ClassVar[bool] = True  #: for a handle without a value: whether a MemoryStore may have its bytes in Phase 1

    def __init__(
        self,
        handle_id: str,
        addr: int,
        shape: tuple[int, ...],
        dtype: str,
        space: str = "tcm",
        value: Array | None = None,
        op: str = "",
        line: str = "",
        op_id: int | None = None,
    ) -> None:
        self.known_name: str | None = handle_id
        self.number = 0  #: number of the tile, from which the name is made if there is no name
        self.addr = addr
        self.shape = shape
        self.dtype = dtype
        self.space = space
        self.value = value  #: the elements, if they are known in Phase 1
        self.op = op  #: the op that computes the elements: `gemm_f16`
        self.line = line  #: source line of the kernel: `kernel.py:12`
        #: the record of the op that computes the elements; commands that wait for the handle depend on this record
        self.op_id = op_id

    def name(self) -> str:
        """The name of the tensor, made on first use."""
        if self.known_name is None:
            self.known_name = f"t{self.number}"
        return self.known_name

    def name_or_number(self) -> str | int:
        """The name, or the number of a tile without a name."""
        return self.number if self.known_name is None else self.known_name

    @property
    def handle_id(self) -> str:
        return self.name()

    @handle_id.setter
    def handle_id(self, name: str) -> None:
        self.known_name = name

    @property
    def nbytes(self) -> int:
        """[B] The size of the tensor in memory."""
        return nbytes_of(self.shape, self.dtype)

    @property
    def pending(self) -> bool:
        """Whether the elements are available only in Phase 2. `tl.wait` does not change this property, because it concerns only
        time."""
        return self.value is None

    @property
    def data(self) -> Array:
        """The elements; PendingDataError if they are pending."""
        if self.value is None:
            self._refuse("its data")
        return self.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.value is None:
            self._refuse("a numpy array of it")
        return np.array(self.value, dtype=dtype, copy=copy)

    def __getitem__(self, index: Any) -> Any:
        if self.value is None:
            self._refuse("an element of it")
        return self.value[index]

    def __bool__(self) -> bool:
        if self.value is None:
            self._refuse("its truth value")
        return bool(self.value)

    def _refuse(self, wanted: str) -> NoReturn:
        source = f" (the result of {self.op})" if self.op else ""
        raise PendingDataError(
            f"{self.line or 'kernel'}: {self.handle_id}{source} is pending in Phase 1, so {wanted} cannot be had; "
            "branch on what tl.load returns, or look at results after Phase 2"
        )
