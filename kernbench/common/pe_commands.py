"""What a kernel tells its PE to do, as messages: what moves or computes data says so itself (`data_op`) and is logged.

Addresses are byte addresses of a space (`hbm`, `tcm`, `sram`). `line` is the kernel's source line: `kernel.py:12`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from kernbench.common.dtypes import Array, dtype_of, nbytes_of
from kernbench.common.handles import TensorHandle
from kernbench.common.lanes import Lanes

Scalar: TypeAlias = bool | int | float
Operand: TypeAlias = TensorHandle | Scalar


class MsgBase:
    """A message between components."""

    data_op: bool = False  #: whether the op log records it; an instance may say otherwise than its class


@dataclass(eq=False, kw_only=True)
class DataMsg(MsgBase):
    """A message that the op log records."""

    data_op = True
    op_id: int | None = None  #: of its record; the log gives one where there is none
    dependency_ids: Sequence[int] = ()  #: records whose work comes first for reasons that addresses do not show
    line: str = ""


@dataclass(eq=False)
class DmaReadCmd(DataMsg):
    """Bytes of a memory into the scratchpad; `handle` is where they go."""

    handle: TensorHandle
    src_addr: int
    nbytes: int
    src_space: str = "hbm"
    src_strides: tuple[int, ...] | None = None  #: [B] from one index to the next of each axis; None: contiguous
    channel: str = "act_weight"  #: of the DMA engine
    lanes: Lanes | None = None  #: where each element lies, where strides do not say it

    @property
    def shape(self) -> tuple[int, ...]:
        return self.handle.shape

    @property
    def dtype(self) -> str:
        return self.handle.dtype


@dataclass(eq=False)
class DmaWriteCmd(DataMsg):
    """A tensor into HBM; `handle` is where it comes from."""

    handle: TensorHandle
    dst_addr: int
    nbytes: int
    dst_strides: tuple[int, ...] | None = None  #: [B] from one index to the next of each axis; None: contiguous
    channel: str = "act_weight"  #: of the DMA engine
    lanes: Lanes | None = None  #: where each element goes, where strides do not say it
    rmw: str = ""  #: a math op on what is there and on each element, in the place of writing it; with `lanes`

    @property
    def data(self) -> Array:
        """The elements to write; PendingDataError where they are pending."""
        return self.handle.data


@dataclass(eq=False)
class GemmCmd(DataMsg):
    """`out = [acc +] a @ b`, with f32 (of integers: i32) accumulation unless `dtype_acc` says otherwise.

    Shapes are those before `transpose_*`, which swaps the last two axes; a `col_major` matrix lies in memory column by
    column. `tile_k` adds products of so many columns of `a` one after the other, rounding to `dtype_acc` after each.
    """

    a: TensorHandle
    b: TensorHandle
    out: TensorHandle
    m: int
    k: int
    n: int
    acc: TensorHandle | None = None
    dtype_acc: str = ""
    transpose_a: bool = False
    transpose_b: bool = False
    layout_a: str = "row_major"
    layout_b: str = "row_major"
    layout_out: str = "row_major"
    tile_k: int | None = None


@dataclass(eq=False)
class MathCmd(DataMsg):
    """`out = op(inputs)`: elementwise with broadcasting, a reduction over `axis` (None: all axes), or a movement.

    Lanes whose `mask` is false are `other` in an elementwise result, and left out of a reduction.
    """

    op: str
    inputs: Sequence[Operand]
    out: TensorHandle
    axis: int | None = None
    keep_dims: bool = False
    mask: TensorHandle | None = None
    other: Scalar = 0
    dtype_acc: str = ""  #: of a sum; f32 (of integers: exact) where it says nothing
    value: Array | None = None  #: the result, where Phase 1 computed it: Phase 2 then verifies it

    @property
    def handles(self) -> list[TensorHandle]:
        """The inputs in memory, in order, the mask last."""
        found = [one for one in self.inputs if isinstance(one, TensorHandle)]
        return found if self.mask is None else [*found, self.mask]

    @property
    def scalars(self) -> dict[int, Scalar]:
        """The other inputs, by their position."""
        return {i: one for i, one in enumerate(self.inputs) if not isinstance(one, TensorHandle)}


@dataclass(frozen=True)
class Epilogue:
    """One step on the tiles of a composite GEMM, before they are rounded: `op(result)` or `op(result, operand)`."""

    op: str
    operand: Operand | None = None


@dataclass(eq=False)
class CompositeCmd(DataMsg):
    """A GEMM (`op="gemm"`) or a math op (`op="math"`) on whole tensors, done in tiles from memory to memory."""

    op: str
    out_addr: int
    out_nbytes: int
    work: GemmCmd | MathCmd  #: the op on the whole tensors
    epilogue: Sequence[Epilogue] = ()
    plan: Any = None  #: its tiles (components/builtin/tile_plan.py)
    room: Any = None  #: keeps the scratchpad of its buffers


@dataclass(eq=False)
class IpcqSendCmd(DataMsg):
    """A tile into the queue to a neighbour. Its record is an `ipcq_copy`, made when it has arrived."""

    handle: TensorHandle
    ring: Any  #: the queue (components/builtin/ipcq_ring.py)
    message: Any = None  #: what is on its way


@dataclass(eq=False)
class IpcqRecvCmd(DataMsg):
    """The next message of a queue from a neighbour; `handle` is where it is to be used."""

    handle: TensorHandle
    ring: Any  #: the queue (components/builtin/ipcq_ring.py)
    number: int  #: of the message, from 0 on
    slot: int  #: address of its slot
    message: Any = None  #: once it has come


@dataclass(eq=False)
class MemoryWriteMsg(DataMsg):
    """Known elements into a memory, from the host or the PE's scalar side; a tensor's virtual address is written as well."""

    space: str
    addr: int
    values: Array
    virtual_addr: int | None = None

    @property
    def dtype(self) -> str:
        return dtype_of(self.values.dtype).name

    @property
    def nbytes(self) -> int:
        return nbytes_of(self.values.shape, self.dtype)


class StageType(Enum):
    """Where a tile is on its way through the PE."""

    DMA_READ = 0
    FETCH = 1
    GEMM = 2
    MATH = 3
    STORE = 4
    DMA_WRITE = 5


@dataclass(frozen=True)
class Stage:
    """One station of a tile."""

    stage_type: StageType
    component: str  #: the part of the PE that serves it: `pe_dma`
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class TileToken(DataMsg):
    """One tile of a composite op; it finds its way from stage to stage itself."""

    command: CompositeCmd
    tile: tuple[int, ...]  #: its place in the plan
    stages: Sequence[Stage]
    stage_idx: int = 0

    @property
    def stage(self) -> Stage | None:
        """Where the token is; None past the last stage."""
        return self.stages[self.stage_idx] if self.stage_idx < len(self.stages) else None

    def advance(self) -> Stage | None:
        """Go on to the next stage, and say which it is."""
        self.stage_idx += 1
        return self.stage
