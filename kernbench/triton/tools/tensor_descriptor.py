"""`from triton.tools.tensor_descriptor import TensorDescriptor`: tensor descriptors that the host passes to launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernbench.triton.dtypes import TritonError


@dataclass
class TensorDescriptor:
    """A tensor whose blocks a kernel loads and stores, like the result of `tl.make_tensor_descriptor`. `strides` count
    elements.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        lengths = [len(self.shape), len(self.strides), len(self.block_shape)]
        if len(set(lengths)) != 1 or not lengths[0]:
            raise TritonError(
                f"TensorDescriptor: shape, strides and block_shape have {lengths} axes; they must be equal"
            )
        if self.strides[-1] != 1:
            raise TritonError(f"TensorDescriptor: the last stride must be 1, but is {self.strides[-1]}; swap the axes")
        if self.padding not in ("zero", "nan"):
            raise TritonError(f'TensorDescriptor: padding="{self.padding}"; it must be "zero" or "nan"')

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Sequence[int], padding: str = "zero", round_f32_to_tf32: bool = False
    ) -> TensorDescriptor:
        """Make a descriptor of a whole array, with the shape and strides of the array."""
        if hasattr(tensor, "stride"):
            strides = [int(one) for one in tensor.stride()]
        else:
            strides = [one // tensor.itemsize for one in tensor.strides]
        return TensorDescriptor(tensor, list(tensor.shape), strides, block_shape, padding, round_f32_to_tf32)

    def in_kernel(self, made: Any) -> Any:
        """Return the descriptor as a kernel gets it."""
        return made
