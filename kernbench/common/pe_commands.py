"""The messages from a kernel to its PE. A message that moves or computes data has `data_op` set and is logged.

Addresses are byte addresses of a space (`hbm`, `tcm`, `sram`). `line` is the source line in the kernel: `kernel.py:12`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from kernbench.common.dtypes import Array, dtype_of, nbytes_of
from kernbench.common.pe_ops import DmaReadCmd as DmaReadCmd
from kernbench.common.pe_ops import DmaWriteCmd as DmaWriteCmd
from kernbench.common.pe_ops import GemmCmd as GemmCmd
from kernbench.common.pe_ops import MathCmd as MathCmd
from kernbench.common.pe_ops import Operand
from kernbench.common.queue_ops import IpcqRecvCmd as IpcqRecvCmd
from kernbench.common.queue_ops import IpcqSendCmd as IpcqSendCmd


class MsgBase:
    """A message between components."""

    data_op: bool = False  #: whether the op log records the message; an instance may override its class


@dataclass(eq=False, kw_only=True)
class DataMsg(MsgBase):
    """A message that the op log records."""

    data_op = True
    op_id: int | None = None  #: op id of its record; the log assigns one if it is missing
    dependency_ids: Sequence[int] = ()  #: records that must be executed earlier for reasons that addresses do not show
    line: str = ""


class Epilogue(msgspec.Struct, frozen=True):
    """One op on the tiles of a composite GEMM, before they are rounded: `op(result)` or `op(result, operand)`."""

    op: str
    operand: Operand | None = None


@dataclass(eq=False)
class CompositeCmd(DataMsg):
    """A GEMM (`op="gemm"`) or a math op (`op="math"`) on whole tensors, executed in tiles from memory to memory."""

    op: str
    out_addr: int
    out_nbytes: int
    work: GemmCmd | MathCmd  #: the op on the whole tensors
    epilogue: Sequence[Epilogue] = ()
    plan: Any = None  #: its tiles (components/builtin/tile_plan.py)
    room: Any = None  #: the owner of the scratchpad bytes of the op's buffers


@dataclass(eq=False)
class MemoryWriteMsg(DataMsg):
    """Write known elements into a memory, from the host or from the scalar unit of the PE; the virtual address of a tensor is
    written as well."""

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
    """The kinds of stages of a tile in the pipeline of the PE."""

    DMA_READ = 0
    FETCH = 1
    GEMM = 2
    MATH = 3
    STORE = 4
    DMA_WRITE = 5


class Stage(msgspec.Struct, frozen=True):
    """One stage of a tile."""

    stage_type: StageType
    component: str  #: the component of the PE that executes the stage: `pe_dma`
    params: Mapping[str, Any] = msgspec.field(default_factory=dict)


@dataclass(eq=False)
class TileToken(DataMsg):
    """One tile of a composite op; the token carries its list of stages."""

    command: CompositeCmd
    tile: tuple[int, ...]  #: the position of the tile in the plan
    stages: Sequence[Stage]
    stage_idx: int = 0

    @property
    def stage(self) -> Stage | None:
        """The current stage of the token; None after the last stage."""
        return self.stages[self.stage_idx] if self.stage_idx < len(self.stages) else None

    def advance(self) -> Stage | None:
        """Advance to the next stage, and return it."""
        self.stage_idx += 1
        return self.stage
