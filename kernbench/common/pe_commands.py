"""The messages of a kernel to its PE. A message that moves or computes data has `data_op` and is logged.

Addresses are byte addresses of a space (`hbm`, `tcm`, `sram`). `line` is the kernel's source line: `kernel.py:12`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

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

    data_op: bool = False  #: whether the op log records it; an instance may say otherwise than its class


@dataclass(eq=False, kw_only=True)
class DataMsg(MsgBase):
    """A message that the op log records."""

    data_op = True
    op_id: int | None = None  #: op id of its record; the log assigns one if it is missing
    dependency_ids: Sequence[int] = ()  #: records whose work comes first for reasons that addresses do not show
    line: str = ""


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
    room: Any = None  #: owner of the scratchpad bytes of its buffers


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
    """The position of a tile in the pipeline of the PE."""

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
    component: str  #: component of the PE that serves it: `pe_dma`
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class TileToken(DataMsg):
    """One tile of a composite op; it finds its way from stage to stage itself."""

    command: CompositeCmd
    tile: tuple[int, ...]  #: its position in the plan
    stages: Sequence[Stage]
    stage_idx: int = 0

    @property
    def stage(self) -> Stage | None:
        """The current stage of the token; None after the last stage."""
        return self.stages[self.stage_idx] if self.stage_idx < len(self.stages) else None

    def advance(self) -> Stage | None:
        """Go on to the next stage, and say which it is."""
        self.stage_idx += 1
        return self.stage
