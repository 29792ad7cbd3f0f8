"""The `tl` of a kernel (seed ADR-0020 D3): it issues commands, and switches to the core when the kernel waits."""

from __future__ import annotations

import sys
from types import FrameType

import msgspec

from kernbench.common.dtypes import DTYPES
from kernbench.triton_emu.errors import KernelError, line_of
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.kernel_runner import KernelRunner
from kernbench.triton_emu.tl.composite import TlComposite
from kernbench.triton_emu.tl.functions import TlFunctions
from kernbench.triton_emu.tl.messages import TlMessages
from kernbench.triton_emu.tl.queues import TlQueues


class Limits(msgspec.Struct, frozen=True):
    """The resources of a PE, as `tl.limits()` returns them; sizes in bytes.

    >>> limits = evaluate(lambda tl: tl.limits())
    >>> limits.scratchpad_bytes, limits.line_bytes, limits.tensor_engines
    (4194304, 64, 1)
    """

    scratchpad_bytes: int  #: [B] the size of the scratchpad for tensors
    free_bytes: int  #: [B] of the scratchpad, without the tensors that exist now
    line_bytes: int  #: [B] tiles begin at a multiple of this
    align_bytes: int  #: [B] transfers are widened to multiples of this
    dma_engines: int
    tensor_engines: int
    vector_engines: int
    dtypes: tuple[str, ...]  #: all element types


class TLContext(TlQueues, TlFunctions, TlComposite, TlMessages):
    """The interface of one program of a kernel to its PE; every kernel receives it as `tl`.

    In the examples of its functions, `kernbench.testing.evaluate.evaluate` runs a kernel on one PE of `single_cube`.

    >>> evaluate(lambda x, tl: tl.load(x, (2,), "i64") * 2, [1, 2])
    array([2, 4])
    """

    def __init__(self, runner: KernelRunner, program: int, grid: tuple[int, ...]) -> None:
        super().__init__(runner, runner.memory.translation)
        self._program = program
        self._grid = grid

    # Functions for the position of the program.

    def program_id(self, axis: int = 0) -> int:
        """The index of this program along an axis of the grid; indices of the last axis vary fastest.

        `axis`: the axis of the grid, 0 for the first.

        Raises KernelError for an axis that the grid does not have.

        >>> evaluate(lambda tl: tl.program_id(0))
        0
        """
        self._check_axis("program_id", axis, line_of(sys._getframe(1)))
        left = self._program
        for size in reversed(self._grid[axis + 1 :]):
            left //= size
        return left % self._grid[axis]

    def num_programs(self, axis: int = 0) -> int:
        """The length of an axis of the grid. Raises KernelError for an axis that the grid does not have.

        `axis`: the axis of the grid, 0 for the first.

        >>> evaluate(lambda tl: tl.num_programs(0))
        1
        """
        self._check_axis("num_programs", axis, line_of(sys._getframe(1)))
        return self._grid[axis]

    def _check_axis(self, call: str, axis: int, line: str) -> None:
        axes = len(self._grid)
        if not isinstance(axis, int) or not 0 <= axis < axes:
            there = "the axis 0" if axes == 1 else f"the axes 0 to {axes - 1}"
            raise KernelError(f"{line}: {call}({axis!r}): the grid is {'x'.join(map(str, self._grid))}, and has {there}")

    def limits(self) -> Limits:
        """The resources of the PE: bytes of scratchpad, numbers of engines, element types.

        >>> evaluate(lambda tl: tl.limits().free_bytes)
        4194304
        """
        pe, pad = self._runner.pe, self._runner.pad
        return Limits(pe.tcm_bytes, pad.free, pe.tcm_line, pe.align, pe.dma, pe.te, pe.ve, tuple(DTYPES))

    def wait_for_data(self, tile: KernelTensor, frame: FrameType) -> None:
        """Wait for a tensor in flight whose elements the kernel reads, if the command makes the elements known."""
        if tile.poison:
            self._refuse_poison(tile, line_of(frame))
        flight = tile.flight
        if flight is not None and (tile.op in ("dma_read", "recv") or getattr(flight.msg, "value", None) is not None):
            self._runner.wait_implicitly(flight, tile.handle_id, line_of(frame))
