"""The handle of a tensor in some memory; its elements are known in Phase 1 or pending until Phase 2."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import numpy as np

from kernbench.common.dtypes import Array, nbytes_of
from kernbench.common.errors import KernbenchError


class PendingDataError(KernbenchError):
    """A kernel looked at elements that are computed only after its timing: in Phase 2."""

    exit_code = 5


class TensorHandle:
    """A contiguous tensor at `addr` of a space. Without `value` it is pending, and its elements cannot be looked at."""

    in_store: ClassVar[bool] = True  #: without a value: Phase 1 may have its bytes in a MemoryStore

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
        self.number = 0  #: without a name: the number of the tile, from which a name is made
        self.addr = addr
        self.shape = shape
        self.dtype = dtype
        self.space = space
        self.value = value  #: the elements, where Phase 1 has them
        self.op = op  #: what computes them: `gemm_f16`
        self.line = line  #: source line of the kernel: `kernel.py:12`
        self.op_id = op_id  #: the record that computes them: what waits for the handle depends on it

    def name(self) -> str:
        """The name of the tensor, made on first use."""
        if self.known_name is None:
            self.known_name = f"t{self.number}"
        return self.known_name

    @property
    def handle_id(self) -> str:
        return self.name()

    @handle_id.setter
    def handle_id(self, name: str) -> None:
        self.known_name = name

    @property
    def nbytes(self) -> int:
        """Of the tensor in memory."""
        return nbytes_of(self.shape, self.dtype)

    @property
    def pending(self) -> bool:
        """Whether the elements are available only in Phase 2. `tl.wait` does not change that: it concerns only time."""
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
