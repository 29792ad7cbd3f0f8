"""Layouts of Gluon: how a GPU spreads a tensor over registers and banks. Their form is checked; they change no time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from kernbench.triton.constants import plain
from kernbench.triton.dtypes import TritonError, dtype, refuse
from kernbench.triton.program import current

NOTE = "layouts of Gluon: registers and banks of shared memory are not modelled, so layouts change nothing here"


class Layout:
    """A layout of Gluon."""

    rank: int  #: number of axes of a tensor with this layout; 0 if the layout is for any tensor


class DistributedLayout(Layout):
    """A layout of a tensor in registers."""


class SharedLayout(Layout):
    """A layout of a tensor in shared memory."""


@dataclass(frozen=True)
class AutoLayout(DistributedLayout):
    """A layout that the compiler chooses."""

    rank = 0


@dataclass(frozen=True)
class CoalescedLayout(DistributedLayout):
    """A layout that the compiler chooses for accesses to memory."""

    rank = 0


@dataclass(frozen=True, eq=False)
class BlockedLayout(DistributedLayout):
    """Each thread has a block of elements; warps have blocks of threads."""

    size_per_thread: Sequence[int]
    threads_per_warp: Sequence[int]
    warps_per_cta: Sequence[int]
    order: Sequence[int]
    cga_layout: Sequence[Sequence[int]] = ()

    def __post_init__(self) -> None:
        lengths = [len(one) for one in (self.size_per_thread, self.threads_per_warp, self.warps_per_cta, self.order)]
        if len(set(lengths)) != 1:
            raise TritonError(f"BlockedLayout: its lists have {lengths} axes; they must have as many")
        if sorted(self.order) != list(range(lengths[0])):
            raise TritonError(f"BlockedLayout: order={list(self.order)} must have each axis from 0 to {lengths[0] - 1} once")

    @property
    def rank(self) -> int:  # type: ignore[override]
        return len(self.order)


@dataclass(frozen=True, eq=False)
class SliceLayout(DistributedLayout):
    """The layout of a tensor that lacks one axis of its parent."""

    dim: int
    parent: DistributedLayout

    def __post_init__(self) -> None:
        if self.parent.rank and not 0 <= self.dim < self.parent.rank:
            raise TritonError(f"SliceLayout: dim={self.dim}; its parent has the axes 0 to {self.parent.rank - 1}")

    @property
    def rank(self) -> int:  # type: ignore[override]
        return max(0, self.parent.rank - 1)


@dataclass(frozen=True, eq=False)
class DistributedLinearLayout(DistributedLayout):
    """A layout by the bases of a linear map from registers, lanes and warps to elements."""

    reg_bases: Sequence[Sequence[int]]
    lane_bases: Sequence[Sequence[int]]
    warp_bases: Sequence[Sequence[int]]
    block_bases: Sequence[Sequence[int]]
    shape: Sequence[int]

    def __post_init__(self) -> None:
        for one in (*self.reg_bases, *self.lane_bases, *self.warp_bases, *self.block_bases):
            if len(one) != len(self.shape):
                raise TritonError(f"DistributedLinearLayout: the base {list(one)} must have {len(self.shape)} axes")

    @property
    def rank(self) -> int:  # type: ignore[override]
        return len(self.shape)


@dataclass(frozen=True, eq=False)
class SwizzledSharedLayout(SharedLayout):
    """Shared memory whose rows are permuted, so that threads use different banks."""

    vec: int
    per_phase: int
    max_phase: int
    order: Sequence[int]
    cga_layout: Sequence[Sequence[int]] = ()

    @property
    def rank(self) -> int:  # type: ignore[override]
        return len(self.order)


@dataclass(frozen=True)
class NVMMASharedLayout(SharedLayout):
    """Shared memory as TMA and the tensor cores of NVIDIA read it."""

    swizzle_byte_width: int
    element_bitwidth: int
    rank: int = 2
    transposed: bool = False
    fp4_padded: bool = False

    def __post_init__(self) -> None:
        if self.swizzle_byte_width not in (0, 32, 64, 128):
            raise TritonError(f"NVMMASharedLayout: swizzle_byte_width={self.swizzle_byte_width}; it is 0, 32, 64 or 128")

    @staticmethod
    def get_default_for(
        block_shape: Sequence[int], dtype: dtype, transposed: bool = False, fp4_padded: bool = False, cga_layout: Any = None
    ) -> NVMMASharedLayout:
        """Return the layout with the widest swizzle that divides the rows of a block. Blocks of fewer than 8 rows have none."""
        sizes = [*block_shape[1:], block_shape[0]] if transposed else list(block_shape)
        row = sizes[-1] * (2 if fp4_padded else 1) * dtype.primitive_bitwidth // 8
        fits = [width for width in (128, 64, 32) if row >= width and row % width == 0]
        width = fits[0] if fits and len(sizes) > 1 and prod(sizes[:-1]) >= 8 else 0
        return NVMMASharedLayout(width, dtype.primitive_bitwidth, len(block_shape), transposed, fp4_padded)


@dataclass(frozen=True)
class MBarrierLayout(SharedLayout):
    """The layout of mbarriers."""

    cga_layout: Any = None
    rank = 0


def check_layout(what: str, layout: Any, kind: type[Layout], axes: int) -> None:
    """Refuse what is not a layout of a kind, and a layout for another number of axes. None is any layout."""
    layout = plain(layout)
    if layout is None:
        return
    if not isinstance(layout, kind):
        names = "a layout of registers" if kind is DistributedLayout else "a layout of shared memory"
        refuse(f"{what}: layout must be {names}, such as gl.{_EXAMPLES[kind]}, and this is a {type(layout).__name__}")
    if layout.rank and layout.rank != axes:
        refuse(f"{what}: the layout is for {layout.rank} axes, and the tensor has {axes}")
    notes = current().options.notes
    if NOTE not in notes:
        notes.append(NOTE)


_EXAMPLES: dict[type[Layout], str] = {DistributedLayout: "BlockedLayout", SharedLayout: "SwizzledSharedLayout"}
