"""`gluon.nvidia.hopper.TensorDescriptor`: tensor descriptors with a layout, which the host passes to launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod
from types import SimpleNamespace
from typing import Any

from kernbench.triton.block_pointers import tensor_descriptor
from kernbench.triton.dtypes import TritonError
from kernbench.triton.experimental.gluon.layouts import NVMMASharedLayout
from kernbench.triton.experimental.gluon.refused import refused
from kernbench.triton.tools import tensor_descriptor as plain_descriptors


@dataclass(frozen=True, eq=False)
class _InKernel(tensor_descriptor):
    """The descriptor as a kernel gets it."""

    layout: Any = None

    @property
    def block_type(self) -> Any:
        """The type of a block: `element_ty`, `shape` and `nbytes`."""
        sizes = list(self.block_shape)
        return _BlockType(element_ty=self.dtype, shape=sizes, nbytes=prod(sizes) * self.dtype.itemsize)

    @property
    def nbytes_per_cta(self) -> int:
        """The bytes of a block."""
        return int(self.block_type.nbytes)

    @property
    def type(self) -> Any:
        return SimpleNamespace(block_type=self.block_type)


class _BlockType(SimpleNamespace):
    """The type of a block."""


@dataclass
class TensorDescriptor(plain_descriptors.TensorDescriptor):
    """A tensor whose blocks a kernel copies to and from shared memory with `tma`. `strides` count elements."""

    layout: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.layout, NVMMASharedLayout):
            kind = type(self.layout).__name__
            raise TritonError(f"TensorDescriptor: layout must be a gl.NVMMASharedLayout, and not a {kind}")

    @staticmethod
    def from_tensor(  # type: ignore[override]
        tensor: Any, block_shape: Sequence[int], layout: Any, padding: str = "zero", round_f32_to_tf32: bool = False
    ) -> TensorDescriptor:
        """Make a descriptor of a whole array, with the shape and strides of the array."""
        found = plain_descriptors.TensorDescriptor.from_tensor(tensor, block_shape, padding, round_f32_to_tf32)
        return TensorDescriptor(**{one.name: getattr(found, one.name) for one in fields(found)}, layout=layout)

    def in_kernel(self, made: Any) -> Any:
        """Return the descriptor as a kernel gets it."""
        return _InKernel(made.block, made.padding, made.tf32, self.layout)


def __getattr__(name: str) -> Any:
    return refused("gluon.nvidia.hopper", name)


__all__ = ["TensorDescriptor"]
