"""Block pointers and tensor descriptors: a block of a tensor by its offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array
from kernbench.triton.dtypes import dtype, int1, refuse
from kernbench.triton.program import current
from kernbench.triton.tensor import FUNCTIONS, known_tensor, tensor


@dataclass(frozen=True, eq=False)
class block_pointer:
    """A block of a tensor. `strides` count elements."""

    base: tensor
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: tuple[int, ...]
    block_shape: tuple[int, ...]

    @property
    def dtype(self) -> dtype:
        return self.base.dtype

    def lanes(self, boundary_check: Sequence[int], padding: str) -> tuple[tensor, tensor | None, float | None]:
        """Pointers to the elements, the mask of those inside along the checked axes, and what the others are."""
        if padding not in ("", "zero", "nan"):
            refuse(f'padding_option="{padding}": it is "zero", "nan" or ""')
        axes = [int(one) for one in boundary_check]
        if any(not 0 <= one < len(self.shape) for one in axes):
            refuse(f"boundary_check={tuple(axes)}: the block has the axes 0 to {len(self.shape) - 1}")
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
        other = {"zero": 0.0, "nan": float("nan"), "": None}[padding]
        return tensor(found, kind, self.base.base), known_tensor(inside, int1), other


def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> block_pointer:
    """A block of the tensor of `shape` and `strides` [elements] at `base`. `order` is a hint, and changes nothing here."""
    return _block("tl.make_block_ptr", base, shape, strides, offsets, block_shape)


def _block(what: str, base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any) -> block_pointer:
    if not isinstance(base, tensor) or base.base is None or base.numel != 1:
        refuse(f"{what}: base must be a single pointer")
    parts = [tuple(int(one) for one in part) for part in (shape, strides, offsets, block_shape)]
    if len({len(part) for part in parts}) != 1:
        lengths = [len(part) for part in parts]
        refuse(f"{what}: shape, strides, offsets and block_shape have {lengths} axes; they must have as many")
    return block_pointer(base, *parts)


def advance(base: Any, offsets: Any) -> block_pointer:
    """The block pointer, moved by these offsets [elements] along each axis."""
    if not isinstance(base, block_pointer):
        refuse(f"tl.advance takes a block pointer, and this is a {type(base).__name__}")
    if len(offsets) != len(base.offsets):
        refuse(f"tl.advance by {len(offsets)} offsets: the block has {len(base.offsets)} axes")
    return replace(base, offsets=tuple(at + int(one) for at, one in zip(base.offsets, offsets, strict=True)))


@dataclass(frozen=True, eq=False)
class tensor_descriptor:
    """A tensor whose blocks are loaded and stored. What is outside reads as padding, and is not written."""

    block: block_pointer
    padding: str = "zero"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.block.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.block.strides

    @property
    def block_shape(self) -> tuple[int, ...]:
        return self.block.block_shape

    @property
    def dtype(self) -> dtype:
        return self.block.base.element_ty

    def at(self, offsets: Sequence[Any]) -> block_pointer:
        """The block at these offsets."""
        if len(offsets) != len(self.shape):
            refuse(f"{len(offsets)} offsets are given for the {len(self.shape)} axes of a tensor descriptor")
        return replace(self.block, offsets=tuple(int(one) for one in offsets))

    def load(self, offsets: Sequence[Any]) -> tensor:
        """The block at these offsets."""
        from kernbench.triton.memory import load

        return load(self.at(offsets), boundary_check=range(len(self.shape)), padding_option=self.padding)

    def store(self, offsets: Sequence[Any], value: Any) -> None:
        """A block to these offsets."""
        FUNCTIONS["store"](self.at(offsets), value, boundary_check=range(len(self.shape)))


def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: str = "zero"
) -> tensor_descriptor:
    """A descriptor of the tensor of `shape` and `strides` [elements] at `base`; the last stride must be 1."""
    block = _block("tl.make_tensor_descriptor", base, shape, strides, (0,) * len(block_shape), block_shape)
    if block.strides[-1] != 1:
        refuse(f"tl.make_tensor_descriptor: the last stride must be 1, and is {block.strides[-1]}; swap the axes")
    return tensor_descriptor(block, padding_option)


def load_tensor_descriptor(desc: tensor_descriptor, offsets: Sequence[Any]) -> tensor:
    """`desc.load(offsets)`."""
    return desc.load(offsets)


def store_tensor_descriptor(desc: tensor_descriptor, offsets: Sequence[Any], value: Any) -> None:
    """`desc.store(offsets, value)`."""
    desc.store(offsets, value)
