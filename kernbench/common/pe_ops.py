"""The commands that most kernels consist of, each with one job of an engine or a few: loads, stores, products and math.

Commands are created so often that a compiled class stores their fields; `__new__` leaves None in fields that are not set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypedDict, Unpack

from kernbench.common.dtypes import Array
from kernbench.common.handles import TensorHandle
from kernbench.common.lanes import Lanes

Scalar: TypeAlias = bool | int | float
Operand: TypeAlias = TensorHandle | Scalar


class Record(TypedDict, total=False):
    """Keyword arguments of every command, in addition to its own fields: the data that the op log records of any command."""

    op_id: int | None  #: op id of its record; the log assigns one if it is missing
    dependency_ids: Sequence[int]  #: records that must be executed earlier for reasons that addresses do not show
    line: str  #: the kernel's: `kernel.py:12`


class OpIds:
    """The ids of ops, from 0 on."""

    def __init__(self) -> None:
        self._next = 0

    def new(self) -> int:
        """The next id."""
        self._next += 1
        return self._next - 1


class Repeated:
    """The common part of the records of commands that differ only in addresses and in names of tiles. These commands refer to
    this object.

    A line of a kernel in a loop issues such commands.
    """

    def __init__(self) -> None:
        self.template: Any = None  #: their common params; None until the op log records the first of them
        self.name = ""  #: the name of their ops
        self.numpy: Any = None  #: of loads: the type of the elements in numpy


class Command:
    """A message that the op log records, unless the message or its class says otherwise."""

    def __init__(self, op_id: int | None = None, dependency_ids: Sequence[int] = (), line: str = "") -> None:
        self._quiet = False
        self.op_id = op_id
        self.dependency_ids = dependency_ids
        self.line = line
        self.repeated: Repeated | None = None  #: the data that it shares with other commands of its line, if known

    @property
    def data_op(self) -> bool:
        """Whether the op log records the command."""
        return not self._quiet

    @data_op.setter
    def data_op(self, logged: bool) -> None:
        self._quiet = not logged


class DmaReadCmd(Command):
    """Move bytes of a memory into the scratchpad; `handle` is the destination."""

    def __init__(
        self,
        handle: TensorHandle,
        src_addr: int,
        nbytes: int,
        src_space: str = "hbm",
        src_strides: tuple[int, ...] | None = None,
        channel: str = "act_weight",
        lanes: Lanes | None = None,
        **record: Unpack[Record],
    ) -> None:
        super().__init__(**record)
        self.handle = handle
        self.src_addr = src_addr
        self.nbytes = nbytes
        self.low = self.high = 0  #: the first byte in memory and the first byte after the last, while the command is in flight
        self.fresh = -1  #: index among the loads that no store has checked (triton_emu/memory/order.py)
        self.src_space = src_space
        self.src_strides = src_strides  #: [B] stride of each axis; None if contiguous
        self.channel = channel  #: the channel of the DMA engine
        self.lanes = lanes  #: the address of each element, if there are no strides

    @property
    def shape(self) -> tuple[int, ...]:
        return self.handle.shape

    @property
    def dtype(self) -> str:
        return self.handle.dtype


class DmaWriteCmd(Command):
    """Move a tensor into a memory; `handle` is the source."""

    def __init__(
        self,
        handle: TensorHandle,
        dst_addr: int,
        nbytes: int,
        dst_strides: tuple[int, ...] | None = None,
        channel: str = "act_weight",
        lanes: Lanes | None = None,
        rmw: str = "",
        dst_space: str = "hbm",
        **record: Unpack[Record],
    ) -> None:
        super().__init__(**record)
        self.handle = handle
        self.dst_addr = dst_addr
        self.nbytes = nbytes
        self.dst_space = dst_space
        self.dst_strides = dst_strides  #: [B] stride of each axis; None if contiguous
        self.channel = channel  #: the channel of the DMA engine
        self.lanes = lanes  #: the address of each element, if there are no strides
        #: An atomic math op on the old value and each element, instead of a write; used with `lanes`. Also `xchg` (stores the
        #: element), and `cas` (stores the element if the old value equals that of `compare`).
        self.rmw = rmw
        self.old: TensorHandle | None = None  #: the tensor that receives the old values
        self.compare: TensorHandle | None = None  #: of `cas`

    @property
    def data(self) -> Array:
        """The elements to write; PendingDataError if they are pending."""
        return self.handle.data


LAYOUTS = ("row_major", "col_major")  #: the order of a matrix in memory: its rows one after the other, or its columns


class GemmCmd(Command):
    """`out = [acc +] a @ b`, with f32 (of integers: i32) accumulation unless `dtype_acc` says otherwise.

    Shapes are the shapes before `transpose_*`, which swaps the last two axes; a `col_major` matrix is stored column by column.
    `acc` has the layout of `out`.
    `tile_k`: the products of blocks of this number of columns of `a` are added, and the sum is rounded to `dtype_acc` after
    each block.
    """

    def __init__(
        self,
        a: TensorHandle,
        b: TensorHandle,
        out: TensorHandle,
        m: int,
        k: int,
        n: int,
        acc: TensorHandle | None = None,
        dtype_acc: str = "",
        transpose_a: bool = False,
        transpose_b: bool = False,
        layout_a: str = "row_major",
        layout_b: str = "row_major",
        layout_out: str = "row_major",
        tile_k: int | None = None,
        **record: Unpack[Record],
    ) -> None:
        super().__init__(**record)
        self.a, self.b, self.out, self.acc = a, b, out, acc
        self.m, self.k, self.n = m, k, n
        self.dtype_acc = dtype_acc
        self.transpose_a, self.transpose_b = transpose_a, transpose_b
        self.layout_a, self.layout_b, self.layout_out = layout_a, layout_b, layout_out
        self.tile_k = tile_k


class MathCmd(Command):
    """`out = op(inputs)`: an elementwise op with broadcasting, a reduction over `axis` (None: all axes), or a data movement.

    Lanes whose `mask` is false have the value `other` in an elementwise result, and are left out of a reduction.
    """

    def __init__(
        self,
        op: str,
        inputs: Sequence[Operand],
        out: TensorHandle,
        axis: int | None = None,
        keep_dims: bool = False,
        mask: TensorHandle | None = None,
        other: Scalar = 0,
        dtype_acc: str = "",
        value: Array | None = None,
        **record: Unpack[Record],
    ) -> None:
        super().__init__(**record)
        self.op = op
        self.inputs = inputs
        self.out = out
        self.axis = axis
        self.keep_dims = keep_dims
        self.mask = mask
        self.other = other
        self.dtype_acc = dtype_acc  #: accumulator type of a sum; default f32, exact for integers
        self.value = value  #: the result, if Phase 1 computed it; Phase 2 then verifies it

    @property
    def handles(self) -> list[TensorHandle]:
        """The inputs in memory, in order; the mask is the last."""
        found = [one for one in self.inputs if isinstance(one, TensorHandle)]
        return found if self.mask is None else [*found, self.mask]

    @property
    def scalars(self) -> dict[int, Scalar]:
        """The other inputs, by position."""
        return {i: one for i, one in enumerate(self.inputs) if not isinstance(one, TensorHandle)}
