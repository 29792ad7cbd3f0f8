"""Block pointers and tensor descriptors, which address a block of a tensor by its offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array
from kernbench.triton.dtypes import dtype, int1, refusal, refuse
from kernbench.triton.errors import CompilationError
from kernbench.triton.program import current
from kernbench.triton.tensor import FUNCTIONS, Shape, known_tensor, tensor


@dataclass(frozen=True, eq=False)
class block_pointer:
    """A block of a tensor. `strides` and `offsets` count elements."""

    base: tensor
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: tuple[int, ...]
    block_shape: tuple[int, ...]

    @property
    def dtype(self) -> dtype:
        return self.base.dtype

    def lanes(self, boundary_check: Sequence[int], padding: str) -> tuple[tensor, tensor | None, float | None]:
        """Return the pointers to the elements, a mask of the elements inside the tensor, and the value of the other elements.

        The mask covers the axes in `boundary_check`. The value of the other elements is NaN if `padding` is "nan", otherwise 0.
        """
        if padding not in ("", "zero", "nan"):
            refuse(f'padding_option="{padding}": it must be "zero", "nan" or ""')
        axes = [int(one) for one in boundary_check]
        if any(not 0 <= one < len(self.shape) for one in axes):
            refuse(f"boundary_check={tuple(axes)}: the axes of the block are 0 to {len(self.shape) - 1}")
        places = np.zeros(self.block_shape, np.int64)
        inside: Array = np.ones(self.block_shape, np.bool_)
        for axis, size in enumerate(self.block_shape):
            along = self.offsets[axis] + np.arange(size, dtype=np.int64)
            along = along.reshape([-1 if i == axis else 1 for i in range(len(self.block_shape))])
            places = places + along * self.strides[axis]
            if axis in axes:
                inside = inside & (along >= 0) & (along < self.shape[axis])
        kind = self.base.dtype
        start = int(self.base.elements("a pointer").reshape(-1)[0])
        found = current().known(start + places * self.base.element_ty.itemsize, kind)
        if inside.all():
            return tensor(found, kind, self.base.base), None, None
        other = float("nan") if padding == "nan" else 0.0
        return tensor(found, kind, self.base.base), known_tensor(inside, int1), other


def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> block_pointer:
    """Make a block pointer into a tensor.

    Parameters
    ----------
    base
        A pointer to the first element of the tensor.
    shape
        The lengths of the axes of the tensor [elements].
    strides
        The distance between neighbours along each axis [elements].
    offsets
        The first element of the block along each axis [elements].
    block_shape
        The lengths of the axes of the block [elements].
    order
        A hint for GPUs, which is ignored.

    Raises
    ------
    TritonError
        If `base` is not a single pointer, or if the four tuples do not have the same number of axes.

    Example
    -------
    >>> block = tl.make_block_ptr(x, (M, N), (N, 1), (0, 0), (64, 64), (1, 0))
    >>> tile = tl.load(block, boundary_check=(0, 1))
    """
    return _block("tl.make_block_ptr", base, shape, strides, offsets, block_shape)


def _block(what: str, base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any) -> block_pointer:
    if not isinstance(base, tensor) or base.base is None or base.numel != 1:
        refuse(f"{what}: base must be a single pointer")
    parts = [tuple(int(one) for one in part) for part in (shape, strides, offsets, block_shape)]
    if len({len(part) for part in parts}) != 1:
        lengths = [len(part) for part in parts]
        refuse(
            f"{what}: shape, strides, offsets and block_shape have {lengths} axes; all four must have the same number of axes"
        )
    return block_pointer(base, *parts)


def advance(base: Any, offsets: Any) -> block_pointer:
    """Return the block pointer, moved by `offsets` [elements], one offset for each axis."""
    if not isinstance(base, block_pointer):
        refuse(f"tl.advance needs a block pointer, not a {type(base).__name__}")
    if len(offsets) != len(base.offsets):
        refuse(
            f"tl.advance by {len(offsets)} offsets: it needs one offset for each of the {len(base.offsets)} axes of the block"
        )
    return replace(base, offsets=tuple(at + int(one) for at, one in zip(base.offsets, offsets, strict=True)))


@dataclass(frozen=True, eq=False)
class tensor_descriptor:
    """A tensor that kernels load and store in blocks. Elements outside the tensor are loaded as padding, and are not stored."""

    block: block_pointer
    padding: str = "zero"
    tf32: bool = False  #: whether loaded elements are rounded to tf32

    @property
    def base(self) -> tensor:
        return self.block.base

    @property
    def shape(self) -> Shape:
        return Shape(self.block.shape)

    @property
    def strides(self) -> Shape:
        return Shape(self.block.strides)

    @property
    def block_shape(self) -> Shape:
        return Shape(self.block.block_shape)

    @property
    def dtype(self) -> dtype:
        return self.block.base.element_ty

    def at(self, offsets: Sequence[Any]) -> block_pointer:
        """Return the block pointer of the block at these offsets [elements]."""
        if len(offsets) != len(self.shape):
            refuse(
                f"{len(offsets)} offsets do not fit a tensor descriptor of {len(self.shape)} axes; give one for each axis"
            )
        return replace(self.block, offsets=tuple(int(one) for one in offsets))

    def load(self, offsets: Sequence[Any]) -> tensor:
        """Load the block at these offsets [elements], one offset for each axis."""
        found = FUNCTIONS["load"](self.at(offsets), boundary_check=range(len(self.shape)), padding_option=self.padding)
        return FUNCTIONS["math"]("tf32", [found], found.dtype) if self.tf32 else found  # type: ignore[no-any-return]

    def store(self, offsets: Sequence[Any], value: Any) -> None:
        """Store a block at these offsets [elements], one offset for each axis."""
        FUNCTIONS["store"](self.at(offsets), value, boundary_check=range(len(self.shape)))

    def rows(self, x_offsets: Any, y_offset: Any) -> tuple[tensor, tensor | None]:
        """Return pointers to rows from column `y_offset` on, and a mask of the elements inside the tensor."""
        if len(self.shape) != 2 or not isinstance(x_offsets, tensor) or len(x_offsets.shape) != 1:
            refuse("gather and scatter need a tensor descriptor with 2 axes and row offsets with 1 axis")
        places = x_offsets.elements("the rows of a tensor descriptor").astype(np.int64)[:, None]
        columns = int(y_offset) + np.arange(self.block_shape[1], dtype=np.int64)[None, :]
        inside = (places >= 0) & (places < self.shape[0]) & (columns >= 0) & (columns < self.shape[1])
        block = self.block
        start = int(block.base.elements("a pointer").reshape(-1)[0])
        found = start + (places * self.strides[0] + columns) * block.base.element_ty.itemsize
        pointers = tensor(current().known(found, block.dtype), block.dtype, block.base.base)
        return pointers, None if inside.all() else known_tensor(inside, int1)

    def gather(self, x_offsets: Any, y_offset: Any) -> tensor:
        """Load the rows `x_offsets`, from column `y_offset` on. Elements outside the tensor are 0."""
        pointers, mask = self.rows(x_offsets, y_offset)
        return FUNCTIONS["load"](pointers, mask, None if mask is None else 0)  # type: ignore[no-any-return]

    def scatter(self, value: Any, x_offsets: Any, y_offset: Any) -> None:
        """Store rows at the row indices `x_offsets`, from column `y_offset` on. Elements outside the tensor are not stored."""
        pointers, mask = self.rows(x_offsets, y_offset)
        FUNCTIONS["store"](pointers, value, mask)

    def __getattr__(self, name: str) -> Any:
        """Return an atomic op on a block, for example `descriptor.atomic_add(offsets, value)`."""
        if name not in _ATOMICS:
            raise AttributeError(f"a tensor descriptor has no {name}")

        def atomic(offsets: Sequence[Any], value: Any) -> Any:
            pointers, mask, _ = self.at(offsets).lanes(range(len(self.shape)), "")
            return FUNCTIONS[name](pointers, value, mask)

        return atomic


_ATOMICS = tuple(f"atomic_{op}" for op in ("add", "min", "max", "and", "or", "xor"))


def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: str = "zero"
) -> tensor_descriptor:
    """Make a descriptor of a tensor inside a kernel.

    Parameters
    ----------
    base
        A pointer to the first element of the tensor.
    shape
        The lengths of the axes of the tensor [elements].
    strides
        The distance between neighbours along each axis [elements]. The last stride must be 1.
    block_shape
        The lengths of the axes of a block [elements].
    padding_option
        The value of elements outside the tensor: "zero" or "nan".

    Raises
    ------
    TritonError
        If an argument is not valid.
    """
    block = _block("tl.make_tensor_descriptor", base, shape, strides, (0,) * len(block_shape), block_shape)
    if block.strides[-1] != 1:
        refuse(f"tl.make_tensor_descriptor: the last stride must be 1, but is {block.strides[-1]}; swap the axes")
    columns, size = block.block_shape[-1], base.element_ty.itemsize
    if current().options.portable and columns * size < 16:
        rule = "Descriptor block shape must have at least 16 bytes in the last dimension"
        raise CompilationError(str(refusal(f"{rule}, but got {columns} * {size} = {columns * size} bytes; use a wider block")))
    return tensor_descriptor(block, padding_option)


def made_on_host(base: Any, shape: Any, strides: Any, block_shape: Any, padding: str, tf32: bool) -> tensor_descriptor:
    """Return the descriptor that was passed to the launch."""
    return replace(make_tensor_descriptor(base, shape, strides, block_shape, padding), tf32=tf32)


def load_tensor_descriptor(desc: tensor_descriptor, offsets: Sequence[Any]) -> tensor:
    """Load a block: the same as `desc.load(offsets)`."""
    return desc.load(offsets)


def store_tensor_descriptor(desc: tensor_descriptor, offsets: Sequence[Any], value: Any) -> None:
    """Store a block: the same as `desc.store(offsets, value)`."""
    desc.store(offsets, value)


FUNCTIONS["advance"] = advance
