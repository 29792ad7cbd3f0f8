"""The argument by which a kernel receives a tensor: the address of the shard of its PE."""

from __future__ import annotations

from typing import Any

from kernbench.common.dtypes import dtype_of


class DevicePointer(int):
    """The address of a tensor's shard for one PE. Arithmetic on a pointer gives plain addresses."""

    name: str  #: of the tensor
    shape: tuple[int, ...]  #: shape of the shard; if the tensor is not sharded, shape of the whole tensor
    dtype: str
    tensor_shape: tuple[int, ...]
    window: int  #: first address of the whole tensor; its shards are consecutive, in the order of the PEs
    shard: Any  #: `policy.placement.Shard`; None if the tensor is not sharded

    def __new__(
        cls,
        address: int,
        *,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        tensor_shape: tuple[int, ...],
        window: int,
        shard: Any = None,
    ) -> DevicePointer:
        made = super().__new__(cls, address)
        made.name, made.shape, made.dtype = name, shape, dtype
        made.tensor_shape, made.window, made.shard = tensor_shape, window, shard
        return made

    @property
    def itemsize(self) -> int:
        """[B] The distance from one element to the next; 1 if elements are packed."""
        return dtype_of(self.dtype).align

    def __repr__(self) -> str:
        return f"DevicePointer({int(self):#x}, {self.name or 'tensor'} {self.shape} {self.dtype})"
