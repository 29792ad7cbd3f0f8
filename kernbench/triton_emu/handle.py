"""The tensors that a kernel holds: in the scratchpad, or known integers that no engine has needed yet.

A tensor is *in flight* until the command that makes it has ended, and *pending* where only Phase 2 computes its elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kernbench.common.dtypes import Array
from kernbench.common.handles import TensorHandle
from kernbench.components.builtin.flight import Flight
from kernbench.triton_emu.frames import caller
from kernbench.triton_emu.scratchpad import Block

if TYPE_CHECKING:
    from kernbench.triton_emu.tl.context import TLContext


class KernelTensor(TensorHandle):
    """A tensor that a kernel holds. Operators are the ops of `tl`; elements can be read only if they are known.

    Attributes: `shape`, `dtype`, `ndim`, `nbytes` [B], and `flight`, which is None if no command that writes the tensor is
    open. Reading elements of a pending tensor raises PendingDataError.

    >>> evaluate(lambda tl: (int(tl.arange(4)[3]), len(tl.arange(4)), (tl.arange(4) + 1).tolist()))
    (3, 4, [1, 2, 3, 4])
    """

    # numpy leaves operators with arrays to this class.
    __array_ufunc__ = None
    in_store = False

    def __init__(self, tl: TLContext, name: str, shape: tuple[int, ...], dtype: str, nbytes: int, line: str) -> None:
        self.known_name = name
        self.number = 0
        self.addr = -1  #: of the block; -1: it has none
        self.shape = shape
        self.dtype = dtype
        self.space = "tcm"
        self.value = None
        self.op = ""
        self.line = line
        self.op_id = None
        self.nbytes = nbytes  # type: ignore[misc]  # no property here
        self._tl = tl
        self.block: Block | None = None  #: its bytes of the scratchpad
        self.whole: KernelTensor | None = None  #: of a part: the tile that has the bytes
        self.shared = False  #: it is a part or has parts, so a command of another handle can write its bytes
        self.flight: Flight | None = None  #: of the command that makes it, until that has ended
        self.poison = ""  #: the line that allocated scratchpad bytes that were never written: `kernel.py:12`
        self.marks: Any = None  #: in a Triton kernel: elements that masked loads have not read (triton/masked_lanes.py)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def data(self) -> Array:
        """The elements, not to be written to; PendingDataError if they are pending. In flight, the kernel waits first."""
        value = self._known("its data", caller())
        shown = value.view()
        shown.flags.writeable = False
        return shown

    def _known(self, wanted: str, frame: Any) -> Array:
        if self.value is None:
            if self.flight is not None or self.poison:
                self._tl.wait_for_data(self, frame)
            if self.value is None:
                self._refuse(wanted)
        return self.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        value = self._known("a numpy array of it", caller())
        return np.array(value, dtype=dtype)

    def __getitem__(self, index: Any) -> Any:
        found = self._known("an element of it", caller())[index]
        if isinstance(found, np.ndarray):
            found.flags.writeable = False
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._known("its elements", caller()))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"{self.handle_id} has no axes, so it has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        return bool(self._known("its truth value", caller()))

    def __int__(self) -> int:
        return int(self._known("its value", caller()).item())

    def __index__(self) -> int:
        return self._known("its value", caller()).item().__index__()  # type: ignore[no-any-return]

    def __float__(self) -> float:
        return float(self._known("its value", caller()).item())

    def item(self) -> Any:
        """The only element, as a number."""
        return self._known("its value", caller()).item()

    def tolist(self) -> Any:
        """All elements, as numbers."""
        return self._known("its elements", caller()).tolist()

    def __repr__(self) -> str:
        state = "in flight" if self.flight is not None else "pending" if self.value is None else "known"
        where = f" at {self.addr:#x}" if self.addr >= 0 else ""
        return f"<{self.handle_id} {self.dtype}{list(self.shape)}{where}, {state}, {self.line}>"

    def __add__(self, other: Any) -> KernelTensor:
        return self._tl.binary("add", self, other, caller())

    def __radd__(self, other: Any) -> KernelTensor:
        return self._tl.binary("add", other, self, caller())

    def __sub__(self, other: Any) -> KernelTensor:
        return self._tl.binary("sub", self, other, caller())

    def __rsub__(self, other: Any) -> KernelTensor:
        return self._tl.binary("sub", other, self, caller())

    def __mul__(self, other: Any) -> KernelTensor:
        return self._tl.binary("mul", self, other, caller())

    def __rmul__(self, other: Any) -> KernelTensor:
        return self._tl.binary("mul", other, self, caller())

    def __truediv__(self, other: Any) -> KernelTensor:
        return self._tl.binary("truediv", self, other, caller())

    def __rtruediv__(self, other: Any) -> KernelTensor:
        return self._tl.binary("truediv", other, self, caller())

    def __floordiv__(self, other: Any) -> KernelTensor:
        return self._tl.binary("floordiv", self, other, caller())

    def __rfloordiv__(self, other: Any) -> KernelTensor:
        return self._tl.binary("floordiv", other, self, caller())

    def __mod__(self, other: Any) -> KernelTensor:
        return self._tl.binary("mod", self, other, caller())

    def __rmod__(self, other: Any) -> KernelTensor:
        return self._tl.binary("mod", other, self, caller())

    def __lshift__(self, other: Any) -> KernelTensor:
        return self._tl.binary("shl", self, other, caller())

    def __rshift__(self, other: Any) -> KernelTensor:
        return self._tl.binary("shr", self, other, caller())

    def __and__(self, other: Any) -> KernelTensor:
        return self._tl.binary("and", self, other, caller())

    def __rand__(self, other: Any) -> KernelTensor:
        return self._tl.binary("and", other, self, caller())

    def __or__(self, other: Any) -> KernelTensor:
        return self._tl.binary("or", self, other, caller())

    def __ror__(self, other: Any) -> KernelTensor:
        return self._tl.binary("or", other, self, caller())

    def __xor__(self, other: Any) -> KernelTensor:
        return self._tl.binary("xor", self, other, caller())

    def __rxor__(self, other: Any) -> KernelTensor:
        return self._tl.binary("xor", other, self, caller())

    def __invert__(self) -> KernelTensor:
        return self._tl.unary("not", self, caller())

    def __neg__(self) -> KernelTensor:
        return self._tl.unary("neg", self, caller())

    def __abs__(self) -> KernelTensor:
        return self._tl.unary("abs", self, caller())

    def __matmul__(self, other: Any) -> KernelTensor:
        return self._tl.product(self, other, caller())

    def __eq__(self, other: object) -> KernelTensor:  # type: ignore[override]  # elementwise
        return self._tl.binary("eq", self, other, caller())

    def __ne__(self, other: object) -> KernelTensor:  # type: ignore[override]  # elementwise
        return self._tl.binary("ne", self, other, caller())

    def __lt__(self, other: Any) -> KernelTensor:
        return self._tl.binary("lt", self, other, caller())

    def __le__(self, other: Any) -> KernelTensor:
        return self._tl.binary("le", self, other, caller())

    def __gt__(self, other: Any) -> KernelTensor:
        return self._tl.binary("gt", self, other, caller())

    def __ge__(self, other: Any) -> KernelTensor:
        return self._tl.binary("ge", self, other, caller())

    def __hash__(self) -> int:
        return object.__hash__(self)


if __file__.endswith(".py"):  # not compiled: there, a field hides the property of TensorHandle anyway
    setattr(KernelTensor, "nbytes", 0)  # noqa: B010  # no compiler takes it otherwise
    setattr(KernelTensor, "whole", None)  # noqa: B010  # and compiled fields begin so
    setattr(KernelTensor, "shared", False)  # noqa: B010
    setattr(KernelTensor, "marks", None)  # noqa: B010
